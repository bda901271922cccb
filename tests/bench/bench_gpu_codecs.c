/* usage: bench_gpu_codecs [CODEC]…
 * Measures the codecs of a GPU on a tensor of [64, 112, 112, 32]: milliseconds of an encode into page-locked host
 * memory and of a decode from there, as the host sees them, and the part of their kernels alone, by the device's clock
 * and with work queued before them. The share is the time of a copy of the tensor on the device over that of the
 * kernels. The last column is a plain copy of the payload over the bus. Times are medians. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/codec/codec.h"
#include "kernels/module.h"
#include "tests/support/settle.h"

enum { ROUNDS = 15, COPIES = 100, HEADERS = 4096 };

static struct sl_backend be;
static struct sl_tensor x;
static struct sl_codec *codec;
static uint8_t *payload;
static size_t payload_bytes, bound;
static const struct sl_codec_call call = {.step = 1, .training = true};
static void *copy_to;

static void must(enum sl_err err, const char *what)
{
	if (err) {
		fprintf(stderr, "bench_gpu_codecs: %s: %s\n", what, sl_err_name(err));
		exit(1);
	}
}

static void settle(void)
{
	must(backend_settle(&be), "fence");
}

static bool later;

static void queue_encode(void)
{
	struct sl_buf out = {payload, 0, bound};

	must(sl_codec_queue_encode(codec, &call, &x, &out, &later), "encode");
	payload_bytes = out.len;
}

static void collect_encode(void)
{
	struct sl_buf out = {payload, payload_bytes, bound};
	struct sl_fail fail;

	if (later)
		must(sl_codec_collect(codec, &call, &out, &fail), "encode");
	payload_bytes = out.len;
}

static void queue_decode(void)
{
	struct sl_fail fail;

	must(sl_codec_queue_decode(codec, &call, (struct sl_bytes){payload, payload_bytes}, &x, &later, &fail),
	     "decode");
}

static void collect_decode(void)
{
	struct sl_fail fail;

	if (later)
		must(sl_codec_collect(codec, &call, NULL, &fail), "decode");
}

static void encode(void)
{
	queue_encode();
	collect_encode();
}

static void decode(void)
{
	queue_decode();
	collect_decode();
}

static void bus_down(void)
{
	must(be.ops->download(&be, payload, x.data, payload_bytes), "download");
}

static void copy(void)
{
	const struct sl_op op = {.kind = SL_OP_FLATTEN, .n_in = 1, .in_shape = {x.shape}, .out_shape = x.shape};
	const struct sl_op_call c = {
		.be = &be,
		.op = &op,
		.in = {x},
		.out = {.dtype = SL_F32, .shape = x.shape, .data = copy_to, .be = &be},
		.training = true,
	};

	/* many, so that the wait for them hardly counts */
	for (int i = 0; i < COPIES; i++)
		must(be.ops->kernel[SL_OP_FLATTEN]->forward(&c), "copy");
}

static int ascending(const void *a, const void *b)
{
	double p = *(const double *)a, q = *(const double *)b;

	return p < q ? -1 : p > q;
}

static double time_ms(void (*work)(void))
{
	double ms[ROUNDS];

	for (int r = -2; r < ROUNDS; r++) {
		uint64_t start;

		settle();
		start = sl_now_ns();
		work();
		settle();
		if (r >= 0)
			ms[r] = sl_seconds_since(start) * 1e3;
	}
	qsort(ms, ROUNDS, sizeof ms[0], ascending);
	return ms[ROUNDS / 2];
}

/* Returns the median of the milliseconds that the device computes for `queue`. COPIES before it keep the device busy
 * until all is queued, and until a payload to decode has arrived. */
static double kernels_ms(void (*queue)(void), void (*collect)(void))
{
	double ms[ROUNDS], seconds;
	void *from, *to;

	must(be.ops->mark_open(&be, &from), "mark");
	must(be.ops->mark_open(&be, &to), "mark");
	for (int r = 0; r < ROUNDS; r++) {
		settle();
		copy();
		must(be.ops->mark(&be, from), "mark");
		queue();
		must(be.ops->mark(&be, to), "mark");
		collect();
		settle();
		must(be.ops->between(&be, from, to, &seconds), "between");
		ms[r] = seconds * 1e3;
	}
	be.ops->mark_close(&be, from);
	be.ops->mark_close(&be, to);
	qsort(ms, ROUNDS, sizeof ms[0], ascending);
	return ms[ROUNDS / 2];
}

static void bench(const char *text, const float *host, double copy_ms)
{
	const struct sl_codec_env env = {.be = &be, .shape = x.shape, .slots = 1};
	const size_t bytes = (size_t)sl_shape_count(&x.shape) * sizeof(float);
	struct sl_codec_spec spec;
	struct sl_fail fail;
	double enc, dec, enc_kernels, dec_kernels, down;

	if (sl_codec_parse(text, &spec, &fail) || sl_codec_open(&codec, &spec, &env, &fail)) {
		printf("%-18s %s\n", text, fail.text);
		return;
	}
	bound = sl_codec_bound(codec, x.shape.dim[0]);
	must(be.ops->host_alloc(&be, bound, (void **)&payload, &fail), "page-locked memory");
	must(be.ops->upload(&be, x.data, host, bytes), "upload");
	enc = time_ms(encode);
	enc_kernels = kernels_ms(queue_encode, collect_encode);
	dec = time_ms(decode);
	dec_kernels = kernels_ms(queue_decode, collect_decode);
	down = time_ms(bus_down);
	printf("%-18s %7.2f MB  encode %7.3f ms, kernels %6.3f (%3.0f %%)   decode %7.3f ms, kernels %6.3f (%3.0f %%)  "
	       " "
	       "bus %7.3f ms\n",
	       text, (double)payload_bytes * 1e-6, enc, enc_kernels, 100 * copy_ms / enc_kernels, dec, dec_kernels,
	       100 * copy_ms / dec_kernels, down);
	fflush(stdout);
	be.ops->host_free(&be, payload);
	sl_codec_close(codec);
}

int main(int argc, char **argv)
{
	static const char *const all[] = {"none",          "f16",       "bf16",     "quant:8",          "quant:4",
					  "terngrad",      "qsgd:255",  "topk:0.1", "topk:0.1|quant:8", "threshold:1",
					  "sortquant:6+2", "lowrank:3", "lowrank:7"};
	const struct sl_module *module;
	const struct sl_module_options options = {.overlap = true};
	struct sl_fail fail;
	const struct sl_rng_key key = {.seed = 1, .tensor = SL_RNG_TEST};
	char text[SL_MODULE_TEXT];
	float *host;
	int64_t n;
	double ms;

	if (sl_module_load(NULL, &module, &fail) || module->open(&be, &options, &fail)) {
		printf("SKIP %s\n", fail.text);
		return 77;
	}
	if (module->describe(0, text, &fail) == SL_OK)
		printf("%s\n", text);
	x = (struct sl_tensor){.dtype = SL_F32, .shape = sl_shape4(64, 112, 112, 32), .be = &be};
	n = sl_shape_count(&x.shape);
	host = malloc((size_t)n * sizeof(float));
	if (!host)
		return 1;
	for (int64_t i = 0; i < n; i += 2)
		sl_rng_normal2(sl_rng_u32(&key, (uint64_t)i), sl_rng_u32(&key, (uint64_t)i + 1), host + i);
	/* HEADERS: the timed copies move a whole payload, which is longer than the tensor */
	must(be.ops->alloc(&be, (size_t)n * sizeof(float) + HEADERS, &x.data, &fail), "memory");
	must(be.ops->alloc(&be, (size_t)n * sizeof(float) + HEADERS, &copy_to, &fail), "memory");
	must(be.ops->upload(&be, x.data, host, (size_t)n * sizeof(float)), "upload");
	ms = time_ms(copy) / COPIES;
	printf("copy on the device: %.4f ms, %.0f GB/s read + written\n", ms, 8e-6 * (double)n / ms);
	for (int i = 1; i < argc; i++)
		bench(argv[i], host, ms);
	for (size_t i = 0; argc == 1 && i < sizeof all / sizeof all[0]; i++)
		bench(all[i], host, ms);
	be.ops->free(&be, x.data);
	be.ops->free(&be, copy_to);
	free(host);
	be.ops->close(&be);
	return 0;
}
