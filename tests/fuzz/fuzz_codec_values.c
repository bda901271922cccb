/* The decoder of a run of three values under libFuzzer. Byte 0 of the input is the codec spec and, by its top bit,
 * whether the run has gradients, which may be left out; the rest is the payload. */
#include <stdlib.h>

#include "common/codec/codec.h"

enum { VALUES = 3, ROWS = 2, FLOATS = ROWS * 60 };

static const char *const texts[] = {"none", "quant:5", "topk:0.3", "randomk:0.5|f16", "quant:4|zstd"};
enum { SPECS = sizeof texts / sizeof *texts };

static struct sl_codec *codec_at(int which, bool gradient)
{
	static struct sl_codec *codecs[2][SPECS];
	struct sl_codec **codec = &codecs[gradient][which];
	struct sl_codec_env env[VALUES] = {{.shape = sl_shape4(ROWS, 3, 4, 5)},
					   {.shape = sl_shape2(ROWS, 7)},
					   {.shape = sl_shape4(ROWS, 2, 2, 3)}};
	struct sl_codec_spec spec;
	struct sl_fail fail;

	for (int v = 0; v < VALUES; v++) {
		env[v].slots = 1;
		env[v].dir = gradient ? SL_DIR_HEAD_GRAD : SL_DIR_HEAD_ACT;
		env[v].value = v;
		env[v].next = v + 1 < VALUES ? &env[v + 1] : NULL;
	}
	if (*codec == NULL &&
	    (sl_codec_parse(texts[which], &spec, &fail) != SL_OK || sl_codec_open(codec, &spec, env, &fail) != SL_OK))
		abort();
	return *codec;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static float x[VALUES][FLOATS];
	struct sl_tensor t[VALUES] = {{SL_F32, sl_shape4(ROWS, 3, 4, 5), x[0], NULL},
				      {SL_F32, sl_shape2(ROWS, 7), size && data[0] & 0x40 ? NULL : x[1], NULL},
				      {SL_F32, sl_shape4(ROWS, 2, 2, 3), x[2], NULL}};
	const struct sl_codec_call call = {.training = true};
	struct sl_fail fail;
	enum sl_err err;

	if (size < 1)
		return 0;
	if (data[0] < 0x80) /* an activation is always wanted */
		t[1].data = x[1];
	err = sl_codec_decode(codec_at((data[0] & 0x3f) % SPECS, data[0] >= 0x80), &call,
			      (struct sl_bytes){data + 1, size - 1}, t, &fail);
	if (err != SL_OK && err != SL_ERR_PAYLOAD)
		abort();
	return 0;
}
