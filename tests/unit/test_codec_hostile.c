/* Hostile payloads: decoding gives a tensor, or a typed error before anything is written. */
#include <math.h>

#include <zstd.h>

#include "common/codec/frame.h"
#include "common/codec/lengths.h"
#include "common/codec/stage.h"
#include "tests/support/codec.h"
#include "tests/support/unit.h"

static const char *const specs[] = {
#define CODEC_CHAIN(methods, levels, memory, ragged, gpu, ahead, chain) CODEC_IF_##ragged(chain)
#include "tests/support/codec_list.def"
};
enum { SPECS = sizeof specs / sizeof specs[0], N = 3 * 4 * 5 * 6 };

/* Rows of different lengths: the same N elements as tokens of 6 features. */
static const uint32_t begin[] = {0, 9, 10, 24, 44, 47, 60};
enum { ROWS = 6, TOKENS = 60, LONGEST = 20 };
static bool ragged;

static struct sl_shape shape(void)
{
	return ragged ? sl_shape2(TOKENS, 6) : sl_shape4(3, 4, 5, 6);
}

static struct sl_codec_call call_now(void)
{
	struct sl_codec_call call = codec_call0;

	call.dims = ragged ? (struct sl_dims){.rows = ROWS, .tokens = TOKENS, .begin = begin} : (struct sl_dims){0};
	return call;
}

static struct sl_codec *target(const char *text)
{
	return codec_open_rows(text, shape(), ragged ? ROWS : 0, ragged ? LONGEST : 0, NULL, SL_DIR_HEAD_ACT, NULL);
}

static int of_one_length(void **state)
{
	ragged = false;
	return 0;
}

static int of_different_lengths(void **state)
{
	ragged = true;
	return 0;
}

/* Decodes the bytes. If they are refused, nothing may have been written. */
static enum sl_err attack(struct sl_codec *c, const uint8_t *bytes, size_t len)
{
	const struct sl_codec_call call = call_now();
	float x[N + 16];
	enum sl_err err;

	memset(x, 0x77, sizeof x);
	err = codec_decode(c, &call, bytes, len, shape(), x);
	for (int i = err == SL_OK ? N : 0; i < N + 16; i++) {
		uint32_t bits;

		memcpy(&bits, &x[i], 4);
		assert_int_equal(bits, 0x77777777);
	}
	assert_true(err == SL_OK || err == SL_ERR_PAYLOAD);
	return err;
}

static uint8_t *honest(struct sl_codec *c, size_t *len)
{
	const struct sl_codec_call call = call_now();
	float x[N];
	uint8_t *bytes;

	codec_fill(x, N, RANDOM);
	assert_int_equal(codec_encode(c, &call, x, shape(), &bytes, len), SL_OK);
	return bytes;
}

static void every_length_but_its_own_is_refused(void **state)
{
	for (int i = 0; i < SPECS; i++) {
		struct sl_codec *c = target(specs[i]);
		size_t len;
		uint8_t *bytes = honest(c, &len), *longer = calloc(1, len + 100);

		memcpy(longer, bytes, len);
		for (size_t l = 0; l < len + 100; l++) {
			if ((attack(c, longer, l) == SL_OK) != (l == len))
				fail_msg("%s: %zu of %zu bytes", specs[i], l, len);
		}
		free(bytes);
		free(longer);
		sl_codec_close(c);
	}
}

static void every_changed_byte_is_survived(void **state)
{
	for (int i = 0; i < SPECS; i++) {
		struct sl_codec *c = target(specs[i]);
		size_t len;
		uint8_t *bytes = honest(c, &len);

		for (size_t at = 0; at < len; at++) {
			uint8_t was = bytes[at];

			for (int flip = 1; flip < 256; flip += flip < 8 ? 1 : 13) {
				bytes[at] = (uint8_t)(was ^ flip);
				/* the header was agreed on: any change must be refused */
				if (attack(c, bytes, len) == SL_OK && at < SL_FRAME_BYTES)
					fail_msg("%s: byte %zu", specs[i], at);
			}
			bytes[at] = was;
		}
		assert_int_equal(attack(c, bytes, len), SL_OK);
		free(bytes);
		sl_codec_close(c);
	}
}

static void random_bytes_are_survived(void **state)
{
	const struct sl_rng_key key = {.seed = 8, .tensor = SL_RNG_TEST};
	uint32_t word = 0;

	for (int i = 0; i < SPECS; i++) {
		struct sl_codec *c = target(specs[i]);
		size_t len;
		uint8_t *bytes = honest(c, &len);

		for (int round = 0; round < 300; round++) {
			for (size_t at = SL_FRAME_BYTES + (round % 2 ? 8 : 0); at < len; at++)
				bytes[at] = (uint8_t)(sl_rng_u32(&key, word++) >> (round % 3 ? 24 : 30));
			(void)attack(c, bytes, len);
		}
		free(bytes);
		sl_codec_close(c);
	}
}

/* The offsets below are those of docs/CODECS.md. */
static void ranges_must_be_finite_and_in_order(void **state)
{
	static const float bad[][2] = {{NAN, 1}, {0, NAN}, {-INFINITY, 1}, {0, INFINITY}, {2, 1}};
	static const char *const which[] = {"quant:8", "sortquant:6+2", "quant:3,per=channel"};

	for (int s = 0; s < 3; s++) {
		struct sl_codec *c = codec_open(which[s], shape(), NULL, SL_DIR_HEAD_ACT, NULL);
		size_t len;
		uint8_t *bytes = honest(c, &len);

		for (int i = 0; i < 5; i++) {
			memcpy(bytes + 16, bad[i], 8);
			assert_int_equal(attack(c, bytes, len), SL_ERR_PAYLOAD);
		}
		free(bytes);
		sl_codec_close(c);
	}
}

/* The spare bits of the last byte, from seven down to one, must be zero. */
static void bits_behind_the_last_code_are_refused(void **state)
{
	static const char *const packed[] = {"quant:3", "qsgd:3", "sortquant:2+1"};
	float x[8] = {1, 2, -3, 4, 5, -6, 7, 8}, back[8];

	for (size_t i = 0; i < sizeof packed / sizeof packed[0]; i++) {
		for (int64_t n = 1; n < 8; n++) {
			struct sl_shape s = sl_shape2(1, n);
			struct sl_codec *c = codec_open(packed[i], s, NULL, SL_DIR_HEAD_ACT, NULL);
			uint8_t *bytes, was;
			size_t len;

			assert_int_equal(codec_encode(c, &codec_call0, x, s, &bytes, &len), SL_OK);
			was = bytes[len - 1];
			for (int bit = (int)(3 * n % 8); bit < 8; bit++) {
				bytes[len - 1] = (uint8_t)(was | 1 << bit);
				if (codec_decode(c, &codec_call0, bytes, len, s, back) != SL_ERR_PAYLOAD)
					fail_msg("%s: bit %d behind %d codes", packed[i], bit, (int)n);
			}
			free(bytes);
			sl_codec_close(c);
		}
	}
}

static void levels_and_scales_must_fit(void **state)
{
	static const float bad[] = {NAN, INFINITY, -1, -0.0f};
	static const struct {
		const char *spec;
		uint8_t above, most; /* the last byte with a level too high, with the highest level */
	} cases[] = {
		{"qsgd:10", 0x0b << 3, 0x0a << 3}, /* 5 bits a code, sign and 4 of level: 11 of 10, 10 of 10 */
		{"qsgd:6", 0x76, 0x66},            /* 4 bits a code: 7, the largest that 3 bits hold, of 6 */
	};

	for (size_t s = 0; s < sizeof cases / sizeof cases[0]; s++) {
		struct sl_codec *c = codec_open(cases[s].spec, shape(), NULL, SL_DIR_HEAD_ACT, NULL);
		size_t len;
		uint8_t *bytes = honest(c, &len), was[4];

		memcpy(was, bytes + 16, 4);
		for (int i = 0; i < 4; i++) {
			memcpy(bytes + 16, &bad[i], 4);
			assert_int_equal(attack(c, bytes, len), SL_ERR_PAYLOAD);
		}
		memcpy(bytes + 16, was, 4);
		bytes[len - 1] = cases[s].above;
		assert_int_equal(attack(c, bytes, len), SL_ERR_PAYLOAD);
		bytes[len - 1] = cases[s].most;
		assert_int_equal(attack(c, bytes, len), SL_OK);
		free(bytes);
		sl_codec_close(c);
	}
}

/* Layout: header 16; table of parts 8 {values, side bytes}; values; side: table of blocks, blocks. */
static void places_beyond_the_tensor_are_refused(void **state)
{
	enum { K = 4, SIDE = 24 + 4 * K };
	struct sl_codec *c = codec_open("topk:0.01", shape(), NULL, SL_DIR_HEAD_ACT, NULL);
	size_t len;
	uint8_t *bytes = honest(c, &len), own[256];
	uint16_t gaps[K];

	assert_int_equal(sl_get_u32(bytes + 16), K);
	/* Four gaps of 16 bits: the last element that can be kept is 359. */
	memcpy(own, bytes, SIDE);
	sl_put_u32(own + 20, 4 + 1 + 2 * K);
	sl_put_u32(own + SIDE, 0x80000000u | K);
	own[SIDE + 4] = 16;
	for (int last = 355; last <= 65535; last += last < 357 ? 1 : 65178) {
		memset(gaps, 0, sizeof gaps);
		gaps[K - 1] = (uint16_t)(last - K + 1);
		memcpy(own + SIDE + 5, gaps, sizeof gaps);
		assert_int_equal(attack(c, own, SIDE + 5 + sizeof gaps), last < N ? SL_OK : SL_ERR_PAYLOAD);
	}
	gaps[0] = gaps[1] = gaps[2] = gaps[3] = 65535;
	memcpy(own + SIDE + 5, gaps, sizeof gaps);
	assert_int_equal(attack(c, own, SIDE + 5 + sizeof gaps), SL_ERR_PAYLOAD);
	/* Refused: a gap of 17 bits; more kept elements than there are; a count that was not declared. */
	memset(gaps, 0, sizeof gaps);
	memcpy(own + SIDE + 5, gaps, sizeof gaps);
	own[SIDE + 4] = 17;
	assert_int_equal(attack(c, own, SIDE + 5 + sizeof gaps), SL_ERR_PAYLOAD);
	own[SIDE + 4] = 16;
	sl_put_u32(own + SIDE, 0x80000000u | (N + 1));
	assert_int_equal(attack(c, own, SIDE + 5 + sizeof gaps), SL_ERR_PAYLOAD);
	sl_put_u32(own + SIDE, 0x80000000u | (K - 1));
	assert_int_equal(attack(c, own, SIDE + 5 + sizeof gaps), SL_ERR_PAYLOAD);
	sl_put_u32(own + SIDE, 0x80000000u | K);
	assert_int_equal(attack(c, own, SIDE + 5 + sizeof gaps), SL_OK);
	/* A bitmap with more or fewer bits set than declared. */
	sl_put_u32(own + 20, 4 + N / 8);
	sl_put_u32(own + SIDE, K);
	memset(own + SIDE + 4, 0, N / 8);
	for (int bits = 0; bits <= 6; bits++) {
		own[SIDE + 4 + 7] = (uint8_t)((1 << bits) - 1);
		assert_int_equal(attack(c, own, SIDE + 4 + N / 8), bits == K ? SL_OK : SL_ERR_PAYLOAD);
	}
	free(bytes);
	sl_codec_close(c);
}

enum { FEW = 13 };

/* Decodes a payload that keeps `kept` of FEW elements, all 1, at the places that `side` says. */
static enum sl_err decode_places(struct sl_codec *c, uint32_t kept, const uint8_t *side, size_t side_len)
{
	struct sl_shape s = sl_shape2(1, FEW);
	const float one = 1;
	float x[FEW] = {1}, back[FEW];
	uint8_t *head, bytes[128];
	size_t len;
	enum sl_err err;

	assert_int_equal(codec_encode(c, &codec_call0, x, s, &head, &len), SL_OK);
	memcpy(bytes, head, SL_FRAME_BYTES);
	free(head);
	sl_put_u32(bytes + 16, kept);
	sl_put_u32(bytes + 20, (uint32_t)side_len);
	for (uint32_t i = 0; i < kept; i++)
		memcpy(bytes + 24 + 4 * i, &one, 4);
	memcpy(bytes + 24 + 4 * kept, side, side_len);
	err = codec_decode(c, &codec_call0, bytes, 24 + 4 * kept + side_len, s, back);
	for (int i = 0; i < FEW && err == SL_OK; i++)
		kept -= back[i] == 1;
	assert_true(err != SL_OK || kept == 0);
	return err;
}

/* Every second of 13 elements, as a bitmap and as gaps, and payloads that are almost the same. */
static void places_must_be_what_they_say(void **state)
{
	static const struct {
		uint32_t kept;
		enum sl_err err;
		size_t len;
		uint8_t side[8]; /* count, highest bit set for gaps; then bitmap, or width and gaps */
	} cases[] = {
		{7, SL_OK, 6, {7, 0, 0, 0, 0x55, 0x15}},
		{7, SL_OK, 6, {7, 0, 0, 0, 0x55, 0x0d}},             /* place 11 in place of 12 */
		{7, SL_ERR_PAYLOAD, 6, {7, 0, 0, 0, 0x55, 0x25}},    /* place 13 does not exist */
		{7, SL_ERR_PAYLOAD, 6, {7, 0, 0, 0, 0x55, 0x85}},    /* place 15 */
		{7, SL_ERR_PAYLOAD, 6, {7, 0, 0, 0, 0x55, 0x05}},    /* six bits for seven values */
		{7, SL_ERR_PAYLOAD, 6, {7, 0, 0, 0, 0x55, 0x1d}},    /* eight bits */
		{7, SL_ERR_PAYLOAD, 7, {7, 0, 0, 0, 0x55, 0x15, 0}}, /* one byte too many */
		{7, SL_ERR_PAYLOAD, 5, {7, 0, 0, 0, 0x55}},          /* one byte too few */
		{6, SL_ERR_PAYLOAD, 6, {7, 0, 0, 0, 0x55, 0x15}},    /* one value too few */
		{7, SL_OK, 6, {7, 0, 0, 0x80, 1, 0x7e}},
		{7, SL_ERR_PAYLOAD, 6, {7, 0, 0, 0x80, 1, 0xfe}},    /* a bit set behind the last gap */
		{7, SL_ERR_PAYLOAD, 6, {7, 0, 0, 0x80, 1, 0x7f}},    /* the gaps pass the end */
		{7, SL_ERR_PAYLOAD, 7, {7, 0, 0, 0x80, 1, 0x7e, 0}}, /* one byte too many */
		{7, SL_ERR_PAYLOAD, 5, {7, 0, 0, 0x80, 1}},          /* one byte too few */
		{1, SL_OK, 7, {1, 0, 0, 0x80, 16, 12, 0}},
		{1, SL_ERR_PAYLOAD, 7, {1, 0, 0, 0x80, 16, 13, 0}},
		{1, SL_ERR_PAYLOAD, 8, {1, 0, 0, 0x80, 17, 12, 0, 0}}, /* wider than any gap */
		{14, SL_ERR_PAYLOAD, 5, {14, 0, 0, 0x80, 0}},          /* more than there are elements */
		{13, SL_OK, 5, {13, 0, 0, 0x80, 0}},
	};
	struct sl_codec *c = codec_open("threshold:0.5", sl_shape2(1, FEW), NULL, SL_DIR_HEAD_ACT, NULL);
	float x[FEW];
	uint8_t *bytes;
	size_t len;

	/* The encoder writes a bitmap unless gaps are shorter. */
	for (int i = 0; i < FEW; i++)
		x[i] = (float)(i % 2 == 0);
	assert_int_equal(codec_encode(c, &codec_call0, x, sl_shape2(1, FEW), &bytes, &len), SL_OK);
	assert_memory_equal(bytes + len - 6, cases[0].side, 6);
	free(bytes);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		enum sl_err err = decode_places(c, cases[i].kept, cases[i].side, cases[i].len);

		if (err != cases[i].err)
			fail_msg("case %zu: %s", i, sl_err_name(err));
	}
	sl_codec_close(c);
	c = codec_open("topk:0.54", sl_shape2(1, FEW), NULL, SL_DIR_HEAD_ACT, NULL);
	assert_int_equal(decode_places(c, 7, (uint8_t[]){7, 0, 0, 0, 0x55, 0x15}, 6), SL_OK);
	assert_int_equal(decode_places(c, 6, (uint8_t[]){6, 0, 0, 0, 0x55, 0x05}, 6), SL_ERR_PAYLOAD);
	assert_int_equal(decode_places(c, 8, (uint8_t[]){8, 0, 0, 0, 0x55, 0x1d}, 6), SL_ERR_PAYLOAD);
	sl_codec_close(c);
}

static void zstd_bombs_do_not_go_off(void **state)
{
	struct sl_codec *c = codec_open("quant:4|zstd", shape(), NULL, SL_DIR_HEAD_ACT, NULL);
	size_t room = 1 << 22, len, packed;
	uint8_t *zeros = calloc(1, room), *bytes = honest(c, &len), bomb[8192];

	memcpy(bomb, bytes, SL_FRAME_BYTES);
	packed = ZSTD_compress(bomb + 20, sizeof bomb - 20, zeros, room, 19);
	assert_false(ZSTD_isError(packed));
	/* The declared size is true, then that of the plan, then nearly 4 GiB. */
	sl_put_u32(bomb + 16, (uint32_t)room);
	assert_int_equal(attack(c, bomb, 20 + packed), SL_ERR_PAYLOAD);
	sl_put_u32(bomb + 16, 8 + N / 2);
	assert_int_equal(attack(c, bomb, 20 + packed), SL_ERR_PAYLOAD);
	sl_put_u32(bomb + 16, 0xffffffffu);
	assert_int_equal(attack(c, bomb, 20 + packed), SL_ERR_PAYLOAD);
	/* Two zstd frames, the second one empty. */
	memcpy(bomb, bytes, len);
	packed = ZSTD_compress(bomb + len, sizeof bomb - len, zeros, 0, 1);
	assert_int_equal(attack(c, bomb, len + packed), SL_ERR_PAYLOAD);
	assert_int_equal(attack(c, bomb, len), SL_OK);
	free(zeros);
	free(bytes);
	sl_codec_close(c);
}

/* Whole codes have room for more bits than they may have. */
static void codes_above_the_last_are_refused(void **state)
{
	struct sl_codec *c = codec_open("quant:3|zstd", shape(), NULL, SL_DIR_HEAD_ACT, NULL);
	uint8_t body[8 + N / 2] = {0}, *bytes, evil[SL_FRAME_BYTES + 4 + 8 + N];
	const float range[2] = {0, 7};
	size_t len, packed;

	bytes = honest(c, &len);
	memcpy(evil, bytes, SL_FRAME_BYTES);
	memcpy(body, range, sizeof range);
	for (int high = 0; high < 2; high++) {
		for (int code = 0; code < 16; code++) {
			body[8 + N / 2 - 1] = (uint8_t)(code << 4 * high);
			packed = ZSTD_compress(evil + SL_FRAME_BYTES + 4, sizeof evil - SL_FRAME_BYTES - 4, body,
					       sizeof body, 1);
			assert_false(ZSTD_isError(packed));
			sl_put_u32(evil + SL_FRAME_BYTES, sizeof body);
			assert_int_equal(attack(c, evil, SL_FRAME_BYTES + 4 + packed),
					 code < 8 ? SL_OK : SL_ERR_PAYLOAD);
		}
	}
	free(bytes);
	sl_codec_close(c);
}

static void refused_with(struct sl_codec *c, const uint8_t *bytes, size_t len, const char *why)
{
	float x[N];
	struct sl_tensor t = {.dtype = SL_F32, .shape = shape(), .data = x};
	struct sl_fail fail = {0};

	assert_int_equal(sl_codec_decode(c, &codec_call0, (struct sl_bytes){bytes, len}, &t, &fail), SL_ERR_PAYLOAD);
	if (strstr(fail.text, why) == NULL)
		fail_msg("'%s', not '%s'", fail.text, why);
}

/* Wrong sizes are refused: nothing is read before the payload, nor written behind zstd's output buffer. */
static void sizes_are_those_that_fit(void **state)
{
	struct sl_codec *c = codec_open("cells:3|topk:0.2|f16", shape(), NULL, SL_DIR_HEAD_ACT, NULL);
	size_t len, most;
	uint8_t *bytes = honest(c, &len), *body, packed[4096];

	/* Two stages have side bytes: each size fits alone, both together are one byte too many. */
	sl_put_u32(bytes + 28, (uint32_t)(len - 32 - sl_get_u32(bytes + 20) + 1));
	refused_with(c, bytes, len, "side bytes of topk pass the end");
	free(bytes);
	sl_codec_close(c);

	c = codec_open("quant:4|zstd", shape(), NULL, SL_DIR_HEAD_ACT, NULL);
	bytes = honest(c, &len);
	most = 8 + N / 2;
	body = calloc(1, most + 1);
	memcpy(packed, bytes, SL_FRAME_BYTES);
	sl_put_u32(packed + SL_FRAME_BYTES, (uint32_t)most + 1);
	len = ZSTD_compress(packed + SL_FRAME_BYTES + 4, sizeof packed - SL_FRAME_BYTES - 4, body, most + 1, 3);
	refused_with(c, packed, SL_FRAME_BYTES + 4 + len, "declared size is missing or above");
	free(body);
	free(bytes);
	sl_codec_close(c);

	/* This body may have any length, but only the declared one. */
	c = codec_open("threshold:1|f16|zstd", shape(), NULL, SL_DIR_HEAD_ACT, NULL);
	bytes = honest(c, &len);
	sl_put_u32(bytes + SL_FRAME_BYTES, sl_get_u32(bytes + SL_FRAME_BYTES) + 1);
	refused_with(c, bytes, len, "were declared");
	free(bytes);
	sl_codec_close(c);
}

static void a_gradient_without_its_activation_is_refused(void **state)
{
	struct sl_codec *act = codec_open("topk:0.1", shape(), NULL, SL_DIR_HEAD_ACT, NULL);
	struct sl_codec *grad = codec_open("topk:0.1", shape(), NULL, SL_DIR_HEAD_GRAD, act);
	uint8_t bytes[24 + 4 * 36];
	struct sl_codec_spec spec;
	float x[N];
	uint8_t *own;
	size_t len;

	memset(bytes, 0, sizeof bytes);
	assert_int_equal(sl_codec_parse("topk:0.1", &spec, NULL), SL_OK);
	sl_frame_write(bytes, &spec, true, 3);
	sl_put_u32(bytes + 16, 36);
	assert_int_equal(attack(grad, bytes, sizeof bytes), SL_ERR_PAYLOAD);
	codec_fill(x, N, RANDOM);
	assert_int_equal(codec_encode(grad, &codec_call0, x, shape(), &own, &len), SL_ERR_BUG);
	assert_int_equal(codec_encode(act, &codec_call0, x, shape(), &own, &len), SL_OK);
	assert_int_equal(attack(grad, bytes, sizeof bytes), SL_OK);
	/* A refused activation leaves no places for its gradient. */
	assert_int_equal(attack(act, own, len - 1), SL_ERR_PAYLOAD);
	free(own);
	sl_codec_close(grad);
	sl_codec_close(act);
}

/* ---- lengths of rows */

/* The rows have other lengths with the same sum. Where the size of the payload depends on them, it is refused. */
static void lengths_are_those_that_were_agreed(void **state)
{
	static const uint32_t others[][ROWS + 1] = {{0, 10, 20, 30, 40, 50, 60}, {0, 20, 40, 56, 58, 59, 60}};

	for (int i = 0; i < SPECS; i++) {
		bool by_length = strncmp(specs[i], "lowrank", 7) == 0 || strncmp(specs[i], "downsample", 10) == 0 ||
				 strncmp(specs[i], "cells", 5) == 0;
		struct sl_codec *c = target(specs[i]);
		struct sl_codec_call call = call_now();
		size_t len;
		uint8_t *bytes = honest(c, &len);

		for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
			enum sl_err err;
			float x[N];

			memset(x, 0x77, sizeof x);
			call.dims.begin = others[k];
			err = codec_decode(c, &call, bytes, len, shape(), x);
			if (err != (by_length ? SL_ERR_PAYLOAD : SL_OK))
				fail_msg("%s: %s", specs[i], sl_err_name(err));
			for (int n = 0; err != SL_OK && n < N; n++)
				assert_memory_equal(&x[n], "\x77\x77\x77\x77", 4);
		}
		free(bytes);
		sl_codec_close(c);
	}
}

static enum sl_err take(const uint8_t *at, size_t len, int64_t rows, int64_t tokens, size_t *left)
{
	uint32_t found[ROWS + 2];
	struct sl_bytes in = {malloc(len + 1), len};
	const uint8_t *was = in.data;
	struct sl_fail fail = {0};
	enum sl_err err;

	/* The input ends where its allocation ends, so that sanitizers see an overrun. */
	memcpy((uint8_t *)(uintptr_t)in.data + 1, at, len);
	in.data++;
	memset(found, 0x77, sizeof found);
	err = sl_lengths_take(&in, rows, tokens, LONGEST, found, NULL, NULL, &fail);
	assert_true(err == SL_OK || (err == SL_ERR_PAYLOAD && fail.text[0] != '\0' && in.len == len));
	for (int64_t i = err == SL_OK ? rows + 1 : 0; i < ROWS + 2; i++)
		assert_int_equal(found[i], 0x77777777);
	if (err == SL_OK)
		assert_memory_equal(found, begin, sizeof begin);
	*left = in.len;
	free((void *)(uintptr_t)was);
	return err;
}

static void false_lengths_are_refused(void **state)
{
	const struct sl_dims dims = {.rows = ROWS, .tokens = TOKENS, .begin = begin};
	uint8_t good[20], bad[20];
	size_t left;

	memset(good, 0xa5, sizeof good);
	assert_int_equal(sl_lengths_bytes(ROWS, false), 16);
	assert_int_equal(sl_lengths_bytes(8, false), 16);
	assert_int_equal(sl_lengths_bytes(9, false), 32);
	sl_lengths_write(&dims, good);
	assert_int_equal(good[16], 0xa5);
	assert_int_equal(take(good, 20, ROWS, TOKENS, &left), SL_OK);
	assert_int_equal(left, 4);
	for (size_t len = 0; len < 16; len++)
		assert_int_equal(take(good, len, ROWS, TOKENS, &left), SL_ERR_PAYLOAD);
	assert_int_equal(take(good, 16, ROWS, TOKENS, &left), SL_OK);
	assert_int_equal(take(good, 16, ROWS, TOKENS - 1, &left), SL_ERR_PAYLOAD);
	assert_int_equal(take(good, 16, ROWS - 1, TOKENS - 13, &left), SL_ERR_PAYLOAD);
	/* Any changed byte changes a length and so the sum, or makes a padding byte non-zero. */
	for (int at = 0; at < 16; at++) {
		for (int flip = 1; flip < 256; flip++) {
			memcpy(bad, good, 16);
			bad[at] ^= (uint8_t)flip;
			assert_int_equal(take(bad, 16, ROWS, TOKENS, &left), SL_ERR_PAYLOAD);
		}
	}
	/* The same number of tokens, but a row of length 0, or one longer than LONGEST. */
	memcpy(bad, good, 16);
	bad[0] = 10;
	bad[2] = 0;
	assert_int_equal(take(bad, 16, ROWS, TOKENS, &left), SL_ERR_PAYLOAD);
	memcpy(bad, good, 16);
	bad[0] = 8;
	bad[6] = 21;
	assert_int_equal(take(bad, 16, ROWS, TOKENS, &left), SL_ERR_PAYLOAD);
	/* The sum of 16-bit lengths does not wrap. */
	memset(bad, 0xff, 12);
	assert_int_equal(take(bad, 16, ROWS, TOKENS, &left), SL_ERR_PAYLOAD);
}

/* Rows padded to the longest: `begin` and `pieces` are read back as written. Another token count is refused. */
static void padded_lengths(void **state)
{
	uint32_t even[ROWS + 1], pieces[2 * ROWS + 1], found[ROWS + 1], cut[2 * ROWS + 1];
	const struct sl_dims dims = {.rows = ROWS, .tokens = ROWS * LONGEST, .begin = even, .pieces = pieces};
	struct sl_fail fail = {0};
	uint8_t bytes[16];

	for (uint32_t r = 0; r < ROWS; r++) {
		even[r] = pieces[2 * r] = r * LONGEST;
		pieces[2 * r + 1] = even[r] + begin[r + 1] - begin[r];
	}
	even[ROWS] = pieces[2 * ROWS] = ROWS * LONGEST;
	sl_lengths_write(&dims, bytes);
	for (int64_t tokens = ROWS; tokens <= ROWS * (LONGEST + 1); tokens++) {
		struct sl_bytes in = {bytes, sizeof bytes};
		enum sl_err err = sl_lengths_take(&in, ROWS, tokens, LONGEST, found, cut, NULL, &fail);

		assert_int_equal(err, tokens == dims.tokens ? SL_OK : SL_ERR_PAYLOAD);
		assert_int_equal(in.len, err ? sizeof bytes : 0);
	}
	assert_memory_equal(found, even, sizeof even);
	assert_memory_equal(cut, pieces, sizeof pieces);
}

/* A choice of tokens that is written is read back. Refused: no
 * token, too many, one behind the last, a short payload. */
static void choices(void **state)
{
	static const uint32_t chosen[] = {0, 7, 8, 129};
	const struct sl_dims dims = {.rows = 1, .tokens = 130, .chosen = 4, .place = chosen};
	uint32_t place[4] = {0}, n = 77;
	uint8_t bytes[36];
	struct sl_fail fail;

	memset(bytes, 0xa5, sizeof bytes);
	assert_int_equal(sl_choice_bytes(128), 16);
	assert_int_equal(sl_choice_bytes(130), 32);
	sl_choice_write(&dims, bytes);
	assert_int_equal(bytes[32], 0xa5);
	for (size_t len = 0; len < 36; len++) {
		struct sl_bytes in = {bytes, len};

		assert_int_equal(sl_choice_take(&in, 130, 4, place, &n, &fail), len < 32 ? SL_ERR_PAYLOAD : SL_OK);
		assert_int_equal(in.len, len < 32 ? len : len - 32);
		assert_int_equal(n, len < 32 ? 77 : 4);
	}
	assert_memory_equal(place, chosen, sizeof chosen);
	for (int64_t tokens = 129; tokens <= 131; tokens++)
		for (int64_t most = 3; most <= 4; most++) {
			struct sl_bytes in = {bytes, 36};
			const bool fits = tokens > 129 && most == 4;

			assert_int_equal(sl_choice_take(&in, tokens, most, place, &n, &fail),
					 fits ? SL_OK : SL_ERR_PAYLOAD);
			assert_int_equal(in.len, fits ? 4 : 36);
		}
	memset(bytes, 0, 32);
	assert_int_equal(sl_choice_take(&(struct sl_bytes){bytes, 36}, 130, 4, place, &n, &fail), SL_ERR_PAYLOAD);
}

/* Each test, for rows of one length and of different lengths. */
#define EVERY_LAYOUT(test)                                                              \
	{#test, test, of_one_length, NULL, NULL},                                       \
	{                                                                               \
#test " (of different lengths)", test, of_different_lengths, NULL, NULL \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		EVERY_LAYOUT(every_length_but_its_own_is_refused),
		EVERY_LAYOUT(every_changed_byte_is_survived),
		EVERY_LAYOUT(random_bytes_are_survived),
		cmocka_unit_test_setup(lengths_are_those_that_were_agreed, of_different_lengths),
		cmocka_unit_test(false_lengths_are_refused),
		cmocka_unit_test(padded_lengths),
		cmocka_unit_test(choices),
		cmocka_unit_test_setup(ranges_must_be_finite_and_in_order, of_one_length),
		cmocka_unit_test(bits_behind_the_last_code_are_refused),
		cmocka_unit_test(levels_and_scales_must_fit),
		cmocka_unit_test(places_beyond_the_tensor_are_refused),
		cmocka_unit_test(places_must_be_what_they_say),
		cmocka_unit_test(zstd_bombs_do_not_go_off),
		cmocka_unit_test(codes_above_the_last_are_refused),
		cmocka_unit_test(sizes_are_those_that_fit),
		cmocka_unit_test(a_gradient_without_its_activation_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
