/* Stored payloads (tests/golden/codec): encoding still gives these bytes, decoding still gives these
 * values. A change here changes the wire format: it needs new ids of methods, not new files. With
 * SL_GOLDEN_WRITE=1 in the environment the test writes these files and the seeds of the fuzzers instead. */
#include <sys/stat.h>

#include "common/codec/frame.h"
#include "tests/support/codec.h"
#include "tests/support/unit.h"

static void write_file(const char *path, int first, const void *bytes, size_t len)
{
	FILE *f = fopen(path, "wb");

	if (f == NULL || (first >= 0 && fputc(first, f) != first) || fwrite(bytes, 1, len, f) != len || fclose(f) != 0)
		fail_msg("%s cannot be written", path);
}

static void payloads_are_what_they_were(void **state)
{
	const struct sl_shape shape = codec_golden_shape();
	bool rewrite = getenv("SL_GOLDEN_WRITE") != NULL;
	float x[CODEC_GOLDEN_N], back[CODEC_GOLDEN_N], expect[CODEC_GOLDEN_N];
	uint8_t golden[CODEC_GOLDEN_MOST], *bytes;
	char path[256];

	for (const struct codec_golden *g = codec_goldens; g->name != NULL; g++) {
		struct sl_codec *c = codec_open(g->spec, shape, NULL, SL_DIR_HEAD_ACT, NULL);
		size_t len, golden_len;

		codec_golden_tensor(x);
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
		golden_len = codec_golden_read(g, "payload", golden, sizeof golden);
		/* Another version of libzstd may compress differently, but every version reads these bytes. */
		if (strstr(g->spec, "zstd") == NULL && (golden_len != len || memcmp(golden, bytes, len) != 0))
			fail_msg("%s: %zu bytes, not the %zu of %s.payload", g->spec, len, golden_len, g->name);
		free(bytes);
		assert_int_equal(codec_decode(c, &codec_call0, golden, golden_len, shape, back), SL_OK);
		assert_int_equal(codec_golden_read(g, "f32", expect, sizeof expect), sizeof expect);
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
