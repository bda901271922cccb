/* Payloads that were written once (tests/golden/codec): encoding still gives these bytes, decoding still gives these
 * values. A change here is a change of the wire: new ids, not new files. With SL_GOLDEN_WRITE=1 in the environment the
 * files, and the seeds of the fuzzers, are written instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/codec/frame.h"
#include "tests/support/codec.h"

/* `fuzz`: target and number of the specification there. */
static const struct golden {
	const char *name, *spec, *fuzz;
	int number;
} goldens[] = {
	{"none", "none", "none", 0},
	{"f16", "f16", "none", 1},
	{"bf16", "bf16", "none", 2},
	{"quant-8", "quant:8", "quant", 0},
	{"quant-3", "quant:3", "quant", 1},
	{"quant-16", "quant:16", "quant", 2},
	{"quant-5-channel", "quant:5,per=channel", "quant", 3},
	{"quant-1-sample", "quant:1,per=sample", "quant", 4},
	{"quant-7-block", "quant:7,block=64", "quant", 5},
	{"quant-4-stochastic", "quant:4,round=stochastic", NULL, 0},
	{"sortquant-6-2", "sortquant:6+2", "sortquant", 0},
	{"sortquant-3-1", "sortquant:3+1", "sortquant", 1},
	{"sortquant-12-4", "sortquant:12+4", "sortquant", 2},
	{"terngrad", "terngrad", "levels", 0},
	{"terngrad-bucket", "terngrad,bucket=64", "levels", 1},
	{"qsgd-255", "qsgd:255", "levels", 2},
	{"qsgd-10-bucket", "qsgd:10,bucket=100", "levels", 3},
	{"topk-0.1", "topk:0.1", "topk", 0},
	{"topk-0.01", "topk:0.01", "topk", 1},
	{"topk-0.5", "topk:0.5", "topk", 2},
	{"topk-0.2-quant-8", "topk:0.2|quant:8", "topk", 3},
	{"randomk-0.1", "randomk:0.1", "randomk", 0},
	{"threshold-300", "threshold:300", "threshold", 0},
	{"threshold-450-quant-4", "threshold:450|quant:4", "threshold", 2},
	{"lowrank-3", "lowrank:3", "lowrank", 1},
	{"lowrank-2-quant-8", "lowrank:2|quant:8,per=sample", "lowrank", 2},
	{"downsample-2", "downsample:2", "downsample", 0},
	{"zstd", "zstd", "zstd", 0},
	{"topk-0.1-quant-8-zstd-1", "topk:0.1|quant:8|zstd:1", "zstd", 2},
};
enum { GOLDENS = sizeof goldens / sizeof goldens[0], MOST = 4096, N = 2 * 5 * 7 * 9 };

static void tensor(float *x)
{
	for (int i = 0; i < N; i++)
		x[i] = (float)(i * 7919 % 1000) - 500;
	x[3] = -0.0f;
}

static size_t read_file(const char *path, uint8_t *bytes, size_t cap)
{
	FILE *f = fopen(path, "rb");
	size_t len;

	if (f == NULL)
		return 0;
	len = fread(bytes, 1, cap, f);
	fclose(f);
	return len;
}

static void write_file(const char *path, int first, const void *bytes, size_t len)
{
	FILE *f = fopen(path, "wb");

	if (f == NULL || (first >= 0 && fputc(first, f) != first) || fwrite(bytes, 1, len, f) != len || fclose(f) != 0)
		fail_msg("%s cannot be written", path);
}

static void payloads_are_what_they_were(void **state)
{
	const struct sl_shape shape = sl_shape4(2, 5, 7, 9);
	bool rewrite = getenv("SL_GOLDEN_WRITE") != NULL;
	float x[N], back[N], expect[N];
	uint8_t golden[MOST], *bytes;
	char path[256];
	(void)state;

	for (int i = 0; i < GOLDENS; i++) {
		const struct golden *g = &goldens[i];
		struct sl_codec *c = codec_open(g->spec, shape, NULL, SL_DIR_HEAD_ACT, NULL);
		size_t len, golden_len;

		tensor(x);
		assert_int_equal(codec_encode(c, &codec_call0, x, shape, &bytes, &len), SL_OK);
		assert_int_equal(codec_decode(c, &codec_call0, bytes, len, shape, back), SL_OK);
		if (rewrite) {
			snprintf(path, sizeof path, "tests/golden/codec/%s.payload", g->name);
			write_file(path, -1, bytes, len);
			snprintf(path, sizeof path, "tests/golden/codec/%s.f32", g->name);
			write_file(path, -1, back, sizeof back);
		}
		if (rewrite && g->fuzz != NULL) {
			snprintf(path, sizeof path, "tests/fuzz/corpus/codec_%s", g->fuzz);
			(void)mkdir(path, 0777);
			snprintf(path, sizeof path, "tests/fuzz/corpus/codec_%s/%s", g->fuzz, g->name);
			write_file(path, g->number, bytes + SL_FRAME_BYTES, len - SL_FRAME_BYTES);
			snprintf(path, sizeof path, "tests/fuzz/corpus/codec_%s/%s-framed", g->fuzz, g->name);
			write_file(path, g->number | 0x40, bytes, len);
		}
		snprintf(path, sizeof path, "tests/golden/codec/%s.payload", g->name);
		golden_len = read_file(path, golden, sizeof golden);
		/* other versions of libzstd may find other bytes, but all read these */
		if (strstr(g->spec, "zstd") == NULL && (golden_len != len || memcmp(golden, bytes, len) != 0))
			fail_msg("%s: %zu bytes, not the %zu of %s", g->spec, len, golden_len, path);
		free(bytes);
		assert_int_equal(codec_decode(c, &codec_call0, golden, golden_len, shape, back), SL_OK);
		snprintf(path, sizeof path, "tests/golden/codec/%s.f32", g->name);
		assert_int_equal(read_file(path, (uint8_t *)expect, sizeof expect), sizeof expect);
		assert_memory_equal(back, expect, sizeof back);
		sl_codec_close(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(payloads_are_what_they_were),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
