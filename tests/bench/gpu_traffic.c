/* usage: gpu_traffic [--json] [--kernels] [--relu] [--samples N] [CODEC]…
 * Counts the memory traffic of a GPU's codecs on a simulated device (tests/support/cuda_sim/traffic), for a tensor of
 * [N, 112, 112, 32] (N: 4) of normal values; --relu: with 0 in place of negative ones. The column "bound" is the
 * traffic of a copy, which reads and writes the tensor once, over that of the codec. It bounds the share of a copy's
 * bandwidth that the codec can reach; it is no time. --kernels: also a row for every kernel. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/codec/codec.h"
#include "tests/support/cuda_sim/traffic/traffic.h"
#include "tests/support/gpu_codecs/sim.h"

static struct {
	bool json, kernels, relu;
	int samples;
} options = {.samples = 4};

static struct sl_tensor x;

static void must(enum sl_err err, const char *what)
{
	if (err) {
		fprintf(stderr, "gpu_traffic: %s: %s\n", what, sl_err_name(err));
		exit(1);
	}
}

static double mega(int64_t sectors)
{
	return (double)sectors * TRAFFIC_SECTOR * 1e-6;
}

static double tensor_mb(void)
{
	return (double)sl_shape_count(&x.shape) * 4e-6;
}

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

/* Prints a row for kernel k, or for the sum of all kernels. The host's memsets `h` count as writes. */
static void print(const char *codec, const char *way, const struct traffic_kernel *k, const struct traffic_host *h)
{
	const double copy = 2 * tensor_mb();
	const double read = mega(k->moved_read), written = mega(k->moved_written) + (double)h->memset_bytes * 1e-6;
	const double asked = ratio(mega(k->asked_read + k->asked_written), mega(k->moved_read + k->moved_written));
	const double turns = ratio((double)k->shared_turns, (double)k->shared), moved = read + written;

	if (options.json)
		printf("{\"codec\": \"%s\", \"way\": \"%s\", \"kernel\": \"%s\", \"launches\": %lld, \"memsets\": %d, "
		       "\"waits\": %d, \"read_mb\": %.4f, \"written_mb\": %.4f, \"traffic\": %.4f, \"asked\": %.3f, "
		       "\"shared_turns\": %.3f, \"atomics\": %lld, \"most_atomics\": %lld, \"most_loads\": %lld}\n",
		       codec, way, k->name ? k->name : "", (long long)k->launches, h->memsets, h->waits, read, written,
		       moved / copy, asked, turns, (long long)k->atomics, (long long)k->most_atomics,
		       (long long)k->most_loads);
	else if (k->name)
		printf("  %-32s %3lld × %6lld × %-4lld %7.2f %7.2f %7.3f %8s %6.2f %6.2f %8lld %7lld %7lld\n", k->name,
		       (long long)k->launches, (long long)(k->blocks / k->launches), (long long)k->threads, read,
		       written, moved / copy, "", asked, turns, (long long)k->atomics, (long long)k->most_atomics,
		       (long long)k->most_loads);
	else
		printf("%-20s %-6s %8lld %7d %5d %7.2f %7.2f %7.3f %7.0f%% %6.2f %6.2f %8lld %7lld %7lld\n", codec, way,
		       (long long)k->launches, h->memsets, h->waits, read, written, moved / copy,
		       100 * ratio(copy, moved), asked, turns, (long long)k->atomics, (long long)k->most_atomics,
		       (long long)k->most_loads);
}

static void add(struct traffic_kernel *sum, const struct traffic_kernel *k)
{
	sum->launches += k->launches;
	sum->asked_read += k->asked_read;
	sum->asked_written += k->asked_written;
	sum->moved_read += k->moved_read;
	sum->moved_written += k->moved_written;
	sum->shared += k->shared;
	sum->shared_turns += k->shared_turns;
	sum->atomics += k->atomics;
	sum->most_atomics = k->most_atomics > sum->most_atomics ? k->most_atomics : sum->most_atomics;
	sum->most_loads = k->most_loads > sum->most_loads ? k->most_loads : sum->most_loads;
}

static void report(const char *codec, const char *way)
{
	const struct traffic_kernel *k;
	const size_t n = traffic_kernels(&k);
	const struct traffic_host host = traffic_host(), none = {0};
	struct traffic_kernel sum = {0};

	for (size_t i = 0; i < n; i++)
		add(&sum, &k[i]);
	print(codec, way, &sum, &host);
	for (size_t i = 0; options.kernels && i < n; i++) {
		const char *base = strrchr(k[i].name, '/');
		struct traffic_kernel named = k[i];

		named.name = base ? base + 1 : named.name;
		print(codec, way, &named, &none);
	}
	fflush(stdout);
}

static void count(const char *text, const float *host)
{
	const struct sl_codec_env env = {.be = x.be, .shape = x.shape, .slots = 1};
	const struct sl_codec_call call = {.step = 1, .training = true};
	struct sl_codec_spec spec;
	struct sl_codec *codec;
	struct sl_fail fail;
	struct sl_buf out = {0};

	if (sl_codec_parse(text, &spec, &fail) || sl_codec_open(&codec, &spec, &env, &fail)) {
		fprintf(stderr, "gpu_traffic: %s: %s\n", text, fail.text);
		exit(1);
	}
	out.cap = sl_codec_bound(codec, x.shape.dim[0]);
	out.data = malloc(out.cap);
	if (!out.data)
		must(SL_ERR_NOMEM, text);
	must(x.be->ops->upload(x.be, x.data, host, (size_t)sl_shape_count(&x.shape) * 4), "upload");
	traffic_forget();
	must(sl_codec_encode(codec, &call, &x, &out), text);
	report(text, "encode");
	traffic_forget();
	must(sl_codec_decode(codec, &call, (struct sl_bytes){out.data, out.len}, &x, &fail), text);
	report(text, "decode");
	free(out.data);
	sl_codec_close(codec);
}

/* Returns the index of the first argument that is no option. */
static int read_options(int argc, char **argv)
{
	int i = 1;

	for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
		if (strcmp(argv[i], "--json") == 0)
			options.json = true;
		else if (strcmp(argv[i], "--kernels") == 0)
			options.kernels = true;
		else if (strcmp(argv[i], "--relu") == 0)
			options.relu = true;
		else if (strcmp(argv[i], "--samples") == 0 && i + 1 < argc)
			options.samples = atoi(argv[++i]);
		else
			must(SL_ERR_USAGE, argv[i]);
	}
	if (options.samples < 1)
		must(SL_ERR_USAGE, "--samples");
	return i;
}

int main(int argc, char **argv)
{
	static const char *const all[] = {"f16",
					  "quant:8",
					  "quant:4",
					  "quant:8,block=256",
					  "quant:8,per=sample",
					  "terngrad",
					  "qsgd:255",
					  "qsgd:255,bucket=512",
					  "topk:0.1",
					  "topk:0.1|quant:8",
					  "topk:0.01",
					  "threshold:1",
					  "sortquant:6+2",
					  "lowrank:3",
					  "lowrank:7"};
	const struct sl_rng_key key = {.seed = 1, .tensor = SL_RNG_TEST};
	const int first = read_options(argc, argv);
	struct sl_fail fail;
	float *host;
	int64_t n;

	x = (struct sl_tensor){
		.dtype = SL_F32, .shape = sl_shape4(options.samples, 112, 112, 32), .be = &sim_codec_backend};
	n = sl_shape_count(&x.shape);
	host = malloc((size_t)n * sizeof(float));
	if (!host)
		return 1;
	for (int64_t i = 0; i < n; i += 2)
		sl_rng_normal2(sl_rng_u32(&key, (uint64_t)i), sl_rng_u32(&key, (uint64_t)i + 1), host + i);
	for (int64_t i = 0; options.relu && i < n; i++)
		host[i] = host[i] > 0 ? host[i] : 0;
	must(x.be->ops->alloc(x.be, (size_t)n * sizeof(float), &x.data, &fail), "memory");
	if (!options.json)
		printf("%-20s %-6s launches memsets waits read,MB written / copy    bound  asked  turns  atomics "
		       "hottest "
		       "longest\n",
		       "codec", "");
	for (int i = first; i < argc; i++)
		count(argv[i], host);
	for (size_t i = 0; first == argc && i < sizeof all / sizeof all[0]; i++)
		count(all[i], host);
	x.be->ops->free(x.be, x.data);
	free(host);
	return 0;
}
