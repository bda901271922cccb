/* Decoders of tensors whose rows have different lengths, and of the lengths before them, under
 * libFuzzer. Byte 0 of the input is made of bits. 0-2: the codec spec. 3: three rows instead of six. 4:
 * the input contains its own header (else a valid one is prepended). 5: padded rows. 6: a choice of
 * tokens. 7: cached rows. Byte 1: tokens. Then lengths and payload. With cached rows, the payload's
 * first bytes say how many tokens the cache has. A refused payload must leave the output untouched. */
#include <stdlib.h>
#include <string.h>

#include "common/codec/frame.h"
#include "common/codec/lengths.h"
#include "common/exec/exec_impl.h"

enum { ROWS = 6, TOKENS = 60, LONGEST = 20, FEATURES = 6, SPECS = 8, N = TOKENS * FEATURES };

static const char *const texts[SPECS] = {"none",
					 "quant:3,per=sample",
					 "cells:2|quant:4,per=sample",
					 "downsample:2",
					 "lowrank:2|quant:8,per=sample",
					 "cells:2|topk:0.2",
					 "downsample:2|lowrank:1|f16",
					 "lowrank:1|threshold:0.5|zstd"};

static struct sl_codec *codecs[SPECS];
static struct sl_codec_spec specs[SPECS];

static struct sl_codec *codec_at(int which)
{
	const struct sl_codec_env env = {.shape = sl_shape2(TOKENS, FEATURES),
					 .row_tokens = LONGEST,
					 .rows = ROWS,
					 .slots = 1,
					 .seed = 1,
					 .dir = SL_DIR_HEAD_ACT};
	struct sl_fail fail;

	if (codecs[which] == NULL && (sl_codec_parse(texts[which], &specs[which], &fail) != SL_OK ||
				      sl_codec_open(&codecs[which], &specs[which], &env, &fail) != SL_OK))
		abort();
	return codecs[which];
}

static void decode(int which, const struct sl_dims *dims, struct sl_bytes in, bool framed)
{
	struct sl_codec *codec = codec_at(which);
	const struct sl_codec_call call = {.training = true, .dims = *dims};
	static float values[N], was[N];
	struct sl_tensor x = {.dtype = SL_F32, .shape = sl_shape2(dims->tokens, FEATURES), .data = values};
	uint8_t *payload = malloc(in.len + SL_FRAME_BYTES);
	size_t front = framed ? 0 : SL_FRAME_BYTES;
	struct sl_fail fail;

	if (payload == NULL)
		abort();
	sl_frame_write(payload, &specs[which], false, dims->tokens);
	memcpy(payload + front, in.data, in.len);
	memset(values, 0x5a, sizeof values);
	memset(was, 0x5a, sizeof was);
	if (sl_codec_decode(codec, &call, (struct sl_bytes){payload, front + in.len}, &x, &fail) == SL_OK)
		memset(values, 0x5a, (size_t)sl_shape_count(&x.shape) * sizeof *values);
	if (memcmp(values, was, sizeof values) != 0)
		abort();
	free(payload);
}

/* Accepted places ascend and are below the chunk's tokens. */
static void choose(struct sl_bytes *in, const struct sl_dims *dims)
{
	const int64_t most = dims->tokens - 1;
	uint32_t place[TOKENS], n;
	struct sl_fail fail;

	if (sl_choice_take(in, dims->tokens, most, place, &n, &fail) != SL_OK)
		return;
	if (n < 1 || (int64_t)n > most || (int64_t)place[n - 1] >= dims->tokens)
		abort();
	for (uint32_t i = 1; i < n; i++)
		if (place[i] <= place[i - 1])
			abort();
}

/* Accepted rows continue where the cache has all tokens before theirs, and never go past its end. */
static void go_on(const struct sl_dims *dims, struct sl_bytes payload)
{
	const struct sl_plan plan = {.spec.batch = ROWS};
	uint32_t *filled = malloc(ROWS * sizeof *filled), was[ROWS];
	struct sl_exec exec = {.plan = &plan, .filled = filled};
	struct sl_fail fail;

	if (!filled)
		abort();
	for (size_t i = 0; i < ROWS; i++)
		was[i] = filled[i] = i < payload.len ? payload.data[i] % (LONGEST + 1) : 0;
	if (sl_exec_cache_take(&exec, dims, &fail) == SL_OK)
		for (int64_t i = 0; i < dims->rows; i++)
			if (dims->cached[2 * i + 1] > was[dims->cached[2 * i]])
				abort();
	for (size_t i = 0; i < ROWS; i++)
		if (filled[i] > LONGEST)
			abort();
	free(filled);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t begin[ROWS + 1], pieces[2 * ROWS + 1], cached[2 * ROWS];
	struct sl_dims dims = {.begin = begin};
	struct sl_bytes in;
	struct sl_fail fail;

	if (size < 2)
		return 0;
	dims.rows = data[0] & 8 ? ROWS / 2 : ROWS;
	dims.tokens = data[1];
	in = (struct sl_bytes){data + 2, size - 2};
	/* the bounds that a session checks first */
	if (dims.tokens < dims.rows || dims.tokens > TOKENS)
		return 0;
	if (data[0] & 32)
		dims.pieces = pieces;
	else if (data[0] & 128)
		dims.cached = cached;
	if (sl_lengths_take(&in, dims.rows, dims.tokens, LONGEST, begin, dims.pieces ? pieces : NULL,
			    dims.cached ? cached : NULL, &fail) != SL_OK)
		return 0;
	for (int64_t i = 0; i < dims.rows && dims.cached; i++)
		if (cached[2 * i + 1] + begin[i + 1] - begin[i] > LONGEST || (i && cached[2 * i] <= cached[2 * i - 2]))
			abort();
	if (dims.cached)
		go_on(&dims, in);
	for (int64_t i = 0; i < 2 * dims.rows && dims.pieces; i++)
		if (pieces[i] > pieces[i + 1] || pieces[i + 1] > (uint32_t)dims.tokens)
			abort();
	if (data[0] & 64)
		choose(&in, &dims);
	decode(data[0] & 7, &dims, in, data[0] & 16);
	return 0;
}
