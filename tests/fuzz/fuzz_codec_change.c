/* The decoder of changes (quant's change=b) under libFuzzer. Both ends' rows and homes come from the input, as a lying
 * client's would: homes that overlap, rows without one, tokens that are kept or not. Byte 0 of the input: bits 0-1 the
 * chain, 2-3 the slot, 4 commit or roll back, 5 begin anew, 6 an evaluation, 7 the header says that values are changes.
 * Then ROWS homes, and the payload behind its header. A refused payload must leave the output untouched. What is
 * kept is the same after a save and a load. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/codec.h"
#include "common/codec/frame.h"

enum { FEATURES = 5, ROWS = 2, TOKENS = 7, KEEP = 12, SLOTS = 3, FLOATS = TOKENS * FEATURES, STATE = 4096 };

static const char *const specs[] = {"quant:6,change=4,eval=8", "quant:3,change=16,round=dither|zstd:1",
				    "quant:16,change=2,round=stochastic", "quant:1,change=3|zstd:1"};
static struct sl_codec *codecs[4], *twins[4];

static void must(bool right, const char *what)
{
	if (right)
		return;
	fprintf(stderr, "fuzz: %s\n", what);
	abort();
}

static struct sl_codec *open_codec(const char *text)
{
	const struct sl_codec_env env = {.shape = sl_shape2(TOKENS, FEATURES),
					 .slots = SLOTS,
					 .seed = 7,
					 .keep_tokens = KEEP,
					 .dir = SL_DIR_MID_ACT};
	struct sl_codec_spec spec;
	struct sl_codec *codec;
	struct sl_fail fail;

	must(sl_codec_parse(text, &spec, &fail) == SL_OK && sl_codec_open(&codec, &spec, &env, &fail) == SL_OK, text);
	return codec;
}

static void check_state(const struct sl_codec *codec, struct sl_codec *twin)
{
	static uint8_t one[STATE], two[STATE];
	struct sl_buf a = {one, 0, STATE}, b = {two, 0, STATE};

	must(sl_codec_save(codec, &a) == SL_OK && a.len <= sl_codec_state_bytes(codec), "save");
	must(sl_codec_load(twin, (struct sl_bytes){one, a.len}) == SL_OK, "load");
	must(sl_codec_save(twin, &b) == SL_OK && b.len == a.len && memcmp(one, two, a.len) == 0, "another state");
}

/* Two rows of 3 and 4 tokens. Some homes end behind KEEP, which a port would refuse; the codec then keeps nothing. */
static struct sl_codec_call call_of(const uint8_t *data, uint32_t home[ROWS], const uint32_t begin[ROWS + 1])
{
	for (int i = 0; i < ROWS; i++)
		home[i] = data[1 + i] % (KEEP + 4);
	return (struct sl_codec_call){.slot = (data[0] >> 2 & 3) % SLOTS,
				      .training = !(data[0] & 0x40),
				      .home = home,
				      .dims = {.rows = ROWS, .tokens = TOKENS, .begin = begin}};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t begin[ROWS + 1] = {0, 3, TOKENS};
	float values[FLOATS], was[FLOATS];
	uint32_t home[ROWS];
	struct sl_tensor x = {SL_F32, sl_shape2(TOKENS, FEATURES), values, NULL};
	struct sl_codec_call call;
	struct sl_codec_spec spec;
	uint8_t payload[1024];
	struct sl_fail fail;
	const int which = size ? data[0] & 3 : 0;

	if (size < 1 + ROWS || size > sizeof payload - SL_FRAME_BYTES)
		return 0;
	if (!codecs[which])
		codecs[which] = open_codec(specs[which]), twins[which] = open_codec(specs[which]);
	if (data[0] & 0x20)
		sl_codec_forget(codecs[which]);
	call = call_of(data, home, begin);
	must(sl_codec_parse(specs[which], &spec, &fail) == SL_OK, "specification");
	if (data[0] & 0x80)
		must(sl_codec_spec_variant(&spec, SL_CODEC_CHANGE, &spec), "no changes");
	sl_frame_write(payload, &spec, false, TOKENS);
	memcpy(payload + SL_FRAME_BYTES, data + 1 + ROWS, size - 1 - ROWS);
	memset(values, 0x5a, sizeof values);
	memcpy(was, values, sizeof was);
	if (sl_codec_decode(codecs[which], &call, (struct sl_bytes){payload, SL_FRAME_BYTES + size - 1 - ROWS}, &x,
			    &fail))
		must(memcmp(values, was, sizeof was) == 0, "a refused payload was written");
	if (data[0] & 0x10)
		sl_codec_commit(codecs[which]);
	else
		sl_codec_rollback(codecs[which]);
	check_state(codecs[which], twins[which]);
	return 0;
}
