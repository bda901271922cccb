/* usage: bench_pieces [--shape N,H,W,C] [--threads T] [--values K] [SPEC …]
 * Measures what codecs cost, and the longest piece of their work: the time between two places where a worker's job
 * gives way. The figures of common/codec/cost.c come from here, and this checks them. Elements are normal or, with
 * --values, random ones of K values; zstd's high levels take longest for K = 2. A second job always has work on the
 * same worker. The column "longest piece" has the longest time that it waited beyond a job's slice, and the prediction
 * of cost.c. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/pool.h"
#include "common/codec/cost.h"
#include "common/exec/backend.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/piece_rig.h"

static const char *default_specs[] = {"none",
				      "f16",
				      "bf16",
				      "quant:8",
				      "quant:16",
				      "quant:8,per=channel",
				      "quant:3,block=8",
				      "quant:8,round=stochastic",
				      "sortquant:6+2",
				      "sortquant:12+4",
				      "terngrad",
				      "terngrad,bucket=8",
				      "qsgd:255",
				      "qsgd:32767,bucket=8",
				      "topk:0.01",
				      "topk:0.5",
				      "topk:1",
				      "randomk:0.01",
				      "randomk:0.5",
				      "randomk:1",
				      "threshold:0.001",
				      "threshold:2",
				      "lowrank:1",
				      "lowrank:8",
				      "lowrank:8,iters=2,warm=false",
				      "downsample:2",
				      "downsample:64",
				      "cells:2|topk:0.1",
				      "cells:2|topk:1",
				      "topk:0.1,ef",
				      "normal:4",
				      "hadamard",
				      "zstd:1",
				      "zstd:3",
				      "zstd:7",
				      "zstd:12",
				      "zstd:15",
				      "zstd:19",
				      "quant:8|zstd:19",
				      NULL};

struct bench {
	struct sl_shape shape;
	struct sl_backend be;
	struct sl_arena arena;
	float *x, *back;
};

static void row(struct bench *b, const char *text)
{
	struct sl_codec_env env = {.be = &b->be, .shape = b->shape, .slots = 1, .seed = 1, .dir = SL_DIR_MID_ACT};
	struct sl_codec_spec spec;
	struct sl_codec *codec;
	struct sl_fail fail;
	const struct sl_extent most = sl_extent_of(b->shape);
	double elements = (double)sl_shape_count(&b->shape);

	if (sl_codec_parse(text, &spec, &fail) || sl_codec_open(&codec, &spec, &env, &fail)) {
		printf("| %s | %s |\n", text, fail.text);
		return;
	}
	struct sl_buf payload = {.cap = sl_codec_bound(codec, b->shape.dim[0])};
	payload.data = malloc(payload.cap);
	struct piece_task t = {.codec = codec, .x = {SL_F32, b->shape, b->x, &b->be}, .payload = &payload};
	double encode_piece, decode_piece = 0, encode = piece_measure(&t, &encode_piece);
	enum sl_err err = t.err;

	t.decodes = true;
	t.x.data = b->back;
	double decode = err ? 0 : piece_measure(&t, &decode_piece);

	if (err || t.err)
		printf("| %s | failed: %s |\n", text, sl_err_text(err ? err : t.err));
	else
		printf("| %s | %.1f | %.2f | %.1f of %.1f | %.1f | %.2f | %.1f of %.1f |\n", text, encode * 1e3,
		       encode / elements * 1e9, encode_piece * 1e3, sl_codec_cost(&spec, &most, true).piece_s * 1e3,
		       decode * 1e3, decode / elements * 1e9, decode_piece * 1e3,
		       sl_codec_cost(&spec, &most, false).piece_s * 1e3);
	fflush(stdout);
	free(payload.data);
	sl_codec_close(codec);
}

/* values: 0: normal elements; K: random ones of K values. */
static void fill(float *x, size_t n, int values)
{
	const struct sl_rng_key key = {.seed = 5};

	for (size_t i = 0; i < n; i += 2) {
		uint32_t word[4];

		sl_rng_quad(&key, (uint32_t)i, word);
		if (!values)
			sl_rng_normal2(word[0], word[1], x + i);
		for (int k = 0; k < 2 && values; k++)
			x[i + (size_t)k] = (float)(word[k] % (uint32_t)values) - 0.5f * (float)(values - 1);
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"shape", 1, NULL, 's'}, {"threads", 1, NULL, 't'}, {"values", 1, NULL, 'v'}, {NULL, 0, NULL, 0}};
	long long d[4] = {64, 56, 56, 64};
	struct bench b = {0};
	struct sl_pool *pool;
	struct sl_fail fail;
	int threads = 1, values = 0, c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's')
			sscanf(optarg, "%lld,%lld,%lld,%lld", &d[0], &d[1], &d[2], &d[3]);
		else if (c == 't')
			threads = atoi(optarg);
		else
			values = atoi(optarg);
	}
	b.shape = sl_shape4(d[0], d[1], d[2], d[3]);
	size_t n = (size_t)sl_shape_count(&b.shape);

	if (sl_pool_open(&pool, threads, &fail) || sl_cpu_backend_open(&b.be, pool, &fail) ||
	    sl_arena_open(&b.arena, 2 * sl_align(n * sizeof(float)), &fail))
		return fprintf(stderr, "%s\n", fail.text), 1;
	b.x = sl_arena_take(&b.arena, n * sizeof(float));
	b.back = sl_arena_take(&b.arena, n * sizeof(float));
	fill(b.x, n, values);
	printf("| codec | encode ms | ns an element | longest piece ms | decode ms | ns an element | longest piece ms "
	       "|\n"
	       "|---|---|---|---|---|---|---|\n");
	for (const char *const *s = optind < argc ? (const char *const *)argv + optind : default_specs; *s; s++)
		row(&b, *s);
	return 0;
}
