/* usage: bench_codecs [--shape N,H,W,C] [--threads T] [--reps R] [--portable] [--cpu-time] [--raw FILE] [SPEC …]
 * Runs each codec on one tensor of normal values. A row has bytes, real and nominal ratio, relative error, and of
 * encoding and decoding the least time of R runs: in milliseconds, as GB/s, and in "copies", that is, divided by the
 * time of a memcpy of the tensor into warm memory, which is measured anew before each row.
 * --portable: without SIMD loops. --cpu-time: CPU time of the thread, for a busy machine; for one thread only.
 * --raw: reads the tensor's values from FILE, as f32 in the machine's byte order. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/arena.h"
#include "common/base/pool.h"
#include "common/codec/codec.h"
#include "common/exec/backend.h"
#include "kernels/cpu/codec_loops.h"

static const char *const default_specs[] = {
	"none",
	"f16",
	"bf16",
	"quant:8",
	"quant:4",
	"quant:5",
	"quant:12",
	"quant:8,per=channel",
	"quant:8,block=512",
	"quant:8,round=stochastic",
	"sortquant:6+2",
	"sortquant:9+3",
	"sortquant:12+4",
	"topk:0.1",
	"topk:0.01",
	"topk:0.2|quant:8",
	"topk:0.1|sortquant:6+2",
	"cells:2|topk:0.1",
	"randomk:0.1",
	"threshold:1.645",
	"terngrad",
	"terngrad,bucket=512",
	"qsgd:255",
	"qsgd:255,bucket=512",
	"qsgd:127,bucket=512",
	"lowrank:3",
	"lowrank:3,iters=2",
	"lowrank:3|quant:8",
	"downsample:2",
	"normal:4",
	"normal:2",
	"hadamard",
	"hadamard|normal:4",
	"quant:4,block=64",
};

struct bench {
	struct sl_shape shape;
	int64_t n;
	int threads, reps;
	clockid_t clock;
	const char *raw;
	struct sl_backend be;
	struct sl_arena arena;
	float *x, *y;
	double copy; /* seconds of the last memcpy */
};

static double now(const struct bench *b)
{
	struct timespec t;

	clock_gettime(b->clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double best_of(struct bench *b, void (*fn)(struct bench *b, void *arg), void *arg)
{
	double best = INFINITY;

	for (int r = 0; r < b->reps; r++) {
		double start = now(b);

		fn(b, arg);
		best = fmin(best, now(b) - start);
	}
	return best;
}

static void copy(struct bench *b, void *arg)
{
	(void)arg;
	memcpy(b->y, b->x, (size_t)b->n * sizeof *b->x);
}

struct job {
	struct sl_codec *codec;
	struct sl_codec_call call;
	struct sl_buf out;
	enum sl_err err;
};

static void encode(struct bench *b, void *arg)
{
	struct job *job = arg;
	struct sl_tensor x = {.dtype = SL_F32, .shape = b->shape, .data = b->x, .be = &b->be};

	job->out.len = 0;
	job->err = sl_codec_encode(job->codec, &job->call, &x, &job->out);
}

static void decode(struct bench *b, void *arg)
{
	struct job *job = arg;
	struct sl_tensor y = {.dtype = SL_F32, .shape = b->shape, .data = b->y, .be = &b->be};
	struct sl_fail fail;

	job->err = sl_codec_decode(job->codec, &job->call, (struct sl_bytes){job->out.data, job->out.len}, &y, &fail);
}

static double relative_error(const struct bench *b)
{
	double error = 0, norm = 0;

	for (int64_t i = 0; i < b->n; i++) {
		double d = (double)b->x[i] - (double)b->y[i];

		error += d * d;
		norm += (double)b->x[i] * (double)b->x[i];
	}
	return sqrt(error / norm);
}

static void print_row(const struct bench *b, const struct job *job, const char *text, double tx, double rx)
{
	double whole = 4 * (double)b->n;

	/* in a cell of a Markdown table a bar is escaped */
	printf("| `");
	for (; *text != '\0'; text++)
		printf(*text == '|' ? "\\|" : "%c", *text);
	printf("` | %zu | %.5f | %.5f | %.3g | %.2f / %.2f | %.1f / %.1f | %.2f / %.2f |\n", job->out.len,
	       (double)job->out.len / whole, sl_codec_nominal_bytes(job->codec, b->shape.dim[0]) / whole,
	       relative_error(b), tx * 1e3, rx * 1e3, whole / tx * 1e-9, whole / rx * 1e-9, tx / b->copy, rx / b->copy);
}

static int row(struct bench *b, const char *text)
{
	struct sl_codec_env env = {.be = &b->be, .shape = b->shape, .slots = 1, .dir = SL_DIR_HEAD_ACT};
	struct job job = {.call = {.training = true}};
	struct sl_codec_spec spec;
	struct sl_fail fail = {0};
	double tx, rx;

	if (sl_codec_parse(text, &spec, &fail) != SL_OK || sl_codec_open(&job.codec, &spec, &env, &fail) != SL_OK) {
		fprintf(stderr, "%s: %s\n", text, fail.text);
		return 1;
	}
	job.out.cap = sl_codec_bound(job.codec, b->shape.dim[0]);
	job.out.data = malloc(job.out.cap);
	if (job.out.data == NULL)
		return 1;
	memset(job.out.data, 0, job.out.cap);
	b->copy = best_of(b, copy, NULL);
	tx = best_of(b, encode, &job);
	rx = job.err == SL_OK ? best_of(b, decode, &job) : 0;
	if (job.err != SL_OK)
		fprintf(stderr, "%s: %s\n", text, sl_err_text(job.err));
	else
		print_row(b, &job, spec.text, tx, rx);
	fflush(stdout);
	free(job.out.data);
	sl_codec_close(job.codec);
	return job.err != SL_OK;
}

static int read_raw(struct bench *b)
{
	FILE *f = fopen(b->raw, "rb");
	size_t got;

	if (f == NULL)
		return 1;
	got = fread(b->x, sizeof *b->x, (size_t)b->n, f);
	fclose(f);
	return got != (size_t)b->n;
}

static int fill(struct bench *b)
{
	const struct sl_rng_key key = {.seed = 1, .tensor = SL_RNG_TEST};

	if (b->raw != NULL)
		return read_raw(b);
	for (int64_t i = 0; i < b->n; i += 4) {
		uint32_t word[4];
		float v[4];

		sl_rng_quad(&key, (uint32_t)(i / 4), word);
		sl_rng_normal2(word[0], word[1], v);
		sl_rng_normal2(word[2], word[3], v + 2);
		for (int j = 0; j < 4 && i + j < b->n; j++)
			b->x[i + j] = v[j];
	}
	return 0;
}

static int parse_shape(const char *text, struct sl_shape *out)
{
	struct sl_shape s = {0};
	char *end = (char *)text;

	do {
		if (s.ndim == SL_MAX_DIMS)
			return 1;
		s.dim[s.ndim++] = strtoll(end, &end, 10);
	} while (*end++ == ',');
	*out = s;
	return end[-1] != '\0';
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"shape", required_argument, NULL, 's'},
						{"threads", required_argument, NULL, 't'},
						{"reps", required_argument, NULL, 'r'},
						{"portable", no_argument, NULL, 'p'},
						{"cpu-time", no_argument, NULL, 'c'},
						{"raw", required_argument, NULL, 'f'},
						{0}};
	static struct sl_backend_ops ops = {.name = "bench", .codec_loops = sl_cpu_codec_loops};
	struct bench b = {.shape = sl_shape4(64, 112, 112, 32),
			  .threads = 1,
			  .reps = 7,
			  .clock = CLOCK_MONOTONIC,
			  .be = {.ops = &ops}};
	char text[SL_SHAPE_TEXT];
	struct sl_fail fail = {0};
	int bad = 0, option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 's' && parse_shape(optarg, &b.shape) == 0)
			continue;
		if (option == 't' || option == 'r')
			*(option == 't' ? &b.threads : &b.reps) = atoi(optarg);
		else if (option == 'p')
			ops.codec_loops = NULL;
		else if (option == 'c')
			b.clock = CLOCK_THREAD_CPUTIME_ID;
		else if (option == 'f')
			b.raw = optarg;
		else
			return 64;
	}
	if (!sl_shape_count_checked(&b.shape, INT64_C(1) << 29, &b.n) || b.reps < 1 ||
	    (b.clock != CLOCK_MONOTONIC && b.threads != 1) || sl_pool_open(&b.be.pool, b.threads, &fail) != SL_OK ||
	    sl_arena_open(&b.arena, 2 * sl_align((size_t)b.n * sizeof(float)), &fail) != SL_OK) {
		fprintf(stderr, "bench_codecs: %s\n", fail.text);
		return 64;
	}
	b.x = sl_arena_take(&b.arena, (size_t)b.n * sizeof(float));
	b.y = sl_arena_take(&b.arena, (size_t)b.n * sizeof(float));
	if (fill(&b) != 0) {
		fprintf(stderr, "bench_codecs: %s does not hold %lld floats\n", b.raw, (long long)b.n);
		return 66;
	}
	b.copy = best_of(&b, copy, NULL);
	printf("%s fp32, %.1f MB, %d thread%s, loops %s, copy %.2f ms (%.1f GB/s), least of %d%s\n\n",
	       sl_shape_text(&b.shape, text), (double)b.n * 4e-6, b.threads, b.threads == 1 ? "" : "s",
	       ops.codec_loops == NULL ? "portable" : sl_cpu_codec_loops()->name, b.copy * 1e3,
	       (double)b.n * 4e-9 / b.copy, b.reps, b.clock == CLOCK_MONOTONIC ? "" : ", CPU time");
	printf("| codec | bytes | real ratio | nominal | relative error | encode / decode ms | GB/s | copies |\n");
	printf("|---|---|---|---|---|---|---|---|\n");
	if (optind < argc) {
		for (int i = optind; i < argc; i++)
			bad |= row(&b, argv[i]);
	} else {
		for (size_t i = 0; i < sizeof default_specs / sizeof default_specs[0]; i++)
			bad |= row(&b, default_specs[i]);
	}
	sl_arena_close(&b.arena);
	sl_pool_close(b.be.pool);
	return bad;
}
