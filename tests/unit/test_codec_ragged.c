/* Tensors [T, F] whose rows have different lengths, and how codecs treat their rows. */

#include "common/base/pool.h"
#include "common/codec/frame.h"
#include "common/codec/lengths.h"
#include "common/exec/backend.h"
#include "tests/support/codec.h"
#include "tests/support/unit.h"

enum { MOST_ROWS = 8 };

/* A chunk: its dimensions, and the first token of each row. */
struct chunk {
	struct sl_dims dims;
	uint32_t begin[MOST_ROWS + 1];
	int64_t features;
};

static struct chunk chunk_of(const int *lengths, int rows, int64_t features)
{
	struct chunk c = {.dims = {.rows = rows}, .features = features};

	for (int i = 0; i < rows; i++)
		c.begin[i + 1] = c.begin[i] + (uint32_t)lengths[i];
	c.dims.tokens = c.begin[rows];
	return c;
}

static int64_t length_of(const struct chunk *c, int64_t row)
{
	return (int64_t)c->begin[row + 1] - (int64_t)c->begin[row];
}

static int64_t longest_of(const struct chunk *c)
{
	int64_t most = 0;

	for (int64_t i = 0; i < c->dims.rows; i++)
		most = length_of(c, i) > most ? length_of(c, i) : most;
	return most;
}

static int64_t count_of(const struct chunk *c)
{
	return c->dims.tokens * c->features;
}

static struct sl_shape shape_of(const struct chunk *c)
{
	return sl_shape2(c->dims.tokens, c->features);
}

static struct sl_codec_call call_of(const struct chunk *c, uint64_t step)
{
	struct sl_codec_call call = {.step = step, .chunk = 1, .training = true, .dims = c->dims};

	call.dims.begin = c->begin;
	return call;
}

/* Test chunks: rows of one token, rows shorter and longer than the features, more than one block
 * of work. And a row that lowrank:2 sends whole, because the factors would have as many values. */
enum { CHUNKS = 4 };
static struct chunk chunk_at(int i)
{
	static const int small[] = {1, 5, 2, 9, 1, 7}, wide[] = {3, 17, 4}, large[] = {700, 3, 1999, 64, 1},
			 few[] = {33, 3};

	return i == 0   ? chunk_of(small, 6, 5)
	       : i == 1 ? chunk_of(wide, 3, 40)
	       : i == 2 ? chunk_of(large, 5, 48)
			: chunk_of(few, 2, 6);
}

/* Opens a codec for up to the size of `c`; `longest` is the largest number of tokens of a row. */
static struct sl_codec *open_for(const char *text, const struct chunk *c, int64_t longest, struct sl_backend *be,
				 enum sl_dir dir, struct sl_codec *pair)
{
	return codec_open_rows(text, shape_of(c), c->dims.rows, longest, be, dir, pair);
}

static uint8_t *encoded(const char *text, struct sl_codec *c, const struct sl_codec_call *call, const float *x,
			struct sl_shape shape, size_t *len)
{
	uint8_t *bytes;
	enum sl_err err = codec_encode(c, call, x, shape, &bytes, len);

	if (err != SL_OK)
		fail_msg("%s: %s", text, sl_err_name(err));
	return bytes;
}

static void decoded(const char *text, struct sl_codec *c, const struct sl_codec_call *call, const uint8_t *bytes,
		    size_t len, struct sl_shape shape, float *x)
{
	enum sl_err err = codec_decode(c, call, bytes, len, shape, x);

	if (err != SL_OK)
		fail_msg("%s: %s", text, sl_err_name(err));
}

/* ---- every method */

static const char *const specs[] = {
#define CODEC_CHAIN(methods, levels, memory, ragged, gpu, ahead, chain) CODEC_IF_##ragged(chain)
#include "tests/support/codec_list.def"
};
enum { SPECS = sizeof specs / sizeof specs[0] };

/* Encodes and decodes with that many threads. The caller frees the payload and the values. */
static void crossed(const char *text, const struct chunk *c, int threads, uint8_t **bytes, size_t *len, float **back)
{
	static const struct sl_backend_ops ops = {.name = "test"};
	struct sl_backend be = {.ops = &ops, .host_memory = true};
	struct sl_codec_call call = call_of(c, 7);
	struct sl_codec *codec;
	float *x = codec_make(count_of(c), RANDOM);

	assert_int_equal(sl_pool_open(&be.pool, threads, NULL), SL_OK);
	codec = open_for(text, c, longest_of(c), &be, SL_DIR_HEAD_ACT, NULL);
	*bytes = encoded(text, codec, &call, x, shape_of(c), len);
	*back = malloc((size_t)count_of(c) * sizeof **back);
	decoded(text, codec, &call, *bytes, *len, shape_of(c), *back);
	sl_codec_close(codec);
	sl_pool_close(be.pool);
	free(x);
}

static void threads_change_nothing(void **state)
{
	for (int i = 0; i < CHUNKS; i++) {
		struct chunk c = chunk_at(i);

		for (int s = 0; s < SPECS; s++) {
			uint8_t *one, *two;
			size_t len_one, len_two;
			float *x_one, *x_two;

			crossed(specs[s], &c, 1, &one, &len_one, &x_one);
			crossed(specs[s], &c, 2, &two, &len_two, &x_two);
			assert_int_equal(len_one, len_two);
			assert_memory_equal(one, two, len_one);
			assert_memory_equal(x_one, x_two, (size_t)count_of(&c) * sizeof *x_one);
			free(one);
			free(two);
			free(x_one);
			free(x_two);
		}
	}
}

/* ---- each row by itself */

/* Ranks of lowrank and factors of downsample tell which rows go whole, as by the chain `whole`. */
static const struct {
	const char *text, *whole;
	int64_t rank, factor;
} per_sample[] = {
	{"none", NULL, 0, 0},
	{"f16", NULL, 0, 0},
	{"bf16", NULL, 0, 0},
	{"quant:3,per=sample", NULL, 0, 0},
	{"lowrank:1", "none", 1, 1},
	{"lowrank:2", "none", 2, 1},
	{"lowrank:2,iters=3|f16", "f16", 2, 1},
	{"lowrank:2|quant:8,per=sample", "quant:8,per=sample", 2, 1},
	{"downsample:2", NULL, 0, 0},
	{"downsample:3|quant:5,per=sample", NULL, 0, 0},
	{"downsample:2|lowrank:1|f16", "downsample:2|f16", 1, 2},
	{"cells:2", NULL, 0, 0},
	{"cells:3|quant:4,per=sample", NULL, 0, 0},
	{"cells:2|downsample:2|bf16", NULL, 0, 0},
};

/* Encodes and decodes row `row` of x alone, as a tensor of one length. */
static void cross_alone(const char *text, const struct chunk *c, int64_t row, const float *x, float *back)
{
	struct sl_shape shape = sl_shape3(1, length_of(c, row), c->features);
	struct sl_codec *codec = codec_open(text, shape, NULL, SL_DIR_HEAD_ACT, NULL);
	struct sl_codec_call call = {.step = 7, .chunk = 1, .training = true};
	size_t len;
	uint8_t *bytes = encoded(text, codec, &call, x, shape, &len);

	decoded(text, codec, &call, bytes, len, shape, back);
	free(bytes);
	sl_codec_close(codec);
}

static void rows_are_coded_one_by_one(void **state)
{
	for (int i = 0; i < CHUNKS; i++) {
		struct chunk c = chunk_at(i);
		float *x = codec_make(count_of(&c), RANDOM), *alone = malloc((size_t)count_of(&c) * sizeof *alone);

		for (size_t s = 0; s < sizeof per_sample / sizeof per_sample[0]; s++) {
			uint8_t *bytes;
			size_t len;
			float *back;

			crossed(per_sample[s].text, &c, 2, &bytes, &len, &back);
			for (int64_t row = 0; row < c.dims.rows; row++) {
				int64_t at = c.begin[row] * c.features, n = length_of(&c, row) * c.features;
				int64_t f = per_sample[s].factor, r = per_sample[s].rank;
				int64_t m = f > 1 ? (length_of(&c, row) + f - 1) / f : length_of(&c, row);
				bool whole = r * (m + c.features) >= m * c.features;

				cross_alone(whole && r > 0 ? per_sample[s].whole : per_sample[s].text, &c, row, x + at,
					    alone);
				if (memcmp(alone, back + at, (size_t)n * sizeof *back) != 0)
					fail_msg("%s: row %lld of %lld tokens", per_sample[s].text, (long long)row,
						 (long long)length_of(&c, row));
			}
			free(bytes);
			free(back);
		}
		free(x);
		free(alone);
	}
}

/* ---- rows of one length */

/* Rows of one length give the payload of a plain [rows, length, F] tensor, except for dimension 0 in the header. */
static void equal_lengths_give_the_same_bytes(void **state)
{
	static const int lengths[] = {36, 36, 36, 36};
	struct chunk c = chunk_of(lengths, 4, 24);
	struct sl_shape plain = sl_shape3(4, 36, 24);
	struct sl_codec_call there = call_of(&c, 7), here = {.step = 7, .chunk = 1, .training = true};
	float *x = codec_make(count_of(&c), RANDOM), *back = malloc((size_t)count_of(&c) * sizeof *back);
	float *want = malloc((size_t)count_of(&c) * sizeof *want);

	for (int s = 0; s < SPECS; s++) {
		struct sl_codec *a = open_for(specs[s], &c, 36, NULL, SL_DIR_HEAD_ACT, NULL);
		struct sl_codec *b = codec_open(specs[s], plain, NULL, SL_DIR_HEAD_ACT, NULL);
		size_t len, plain_len;
		uint8_t *bytes = encoded(specs[s], a, &there, x, shape_of(&c), &len);
		uint8_t *same = encoded(specs[s], b, &here, x, plain, &plain_len);

		if (len != plain_len || memcmp(bytes + SL_FRAME_BYTES, same + SL_FRAME_BYTES, len - SL_FRAME_BYTES))
			fail_msg("%s: other bytes", specs[s]);
		assert_int_equal(sl_get_u32(bytes + 4), c.dims.tokens);
		decoded(specs[s], a, &there, bytes, len, shape_of(&c), back);
		decoded(specs[s], b, &here, same, plain_len, plain, want);
		assert_memory_equal(back, want, (size_t)count_of(&c) * sizeof *back);
		free(bytes);
		free(same);
		sl_codec_close(a);
		sl_codec_close(b);
	}
	free(x);
	free(back);
	free(want);
}

static bool uses_rows(const char *of)
{
	return strstr(of, "per=sample") || strstr(of, "lowrank") || strstr(of, "downsample") || strstr(of, "cells");
}

/* A method that does not use rows codes [T, F] like T rows of F values: the same payload, header included. */
static void methods_without_rows_see_tokens(void **state)
{
	for (int i = 0; i < CHUNKS; i++) {
		struct chunk c = chunk_at(i);
		struct sl_codec_call call = call_of(&c, 7);
		float *x = codec_make(count_of(&c), RANDOM);

		for (int s = 0; s < SPECS; s++) {
			if (uses_rows(specs[s]))
				continue;

			struct sl_codec *a = open_for(specs[s], &c, longest_of(&c), NULL, SL_DIR_HEAD_ACT, NULL);
			struct sl_codec *b = codec_open(specs[s], shape_of(&c), NULL, SL_DIR_HEAD_ACT, NULL);
			size_t len, other;
			uint8_t *bytes = encoded(specs[s], a, &call, x, shape_of(&c), &len);
			uint8_t *same = encoded(specs[s], b, &call, x, shape_of(&c), &other);

			assert_int_equal(len, other);
			assert_memory_equal(bytes, same, len);
			free(bytes);
			free(same);
			sl_codec_close(a);
			sl_codec_close(b);
		}
		free(x);
	}
}

/* ---- gradients */

/* A gradient uses the places of its activation. For downsample it is the adjoint, row by row. */
static void gradients_are_paired(void **state)
{
	static const char *const texts[] = {"topk:0.2", "cells:2|topk:0.2|quant:8", "downsample:2", "threshold:0.7|f16",
					    "randomk:0.3"};

	for (int i = 0; i < CHUNKS; i++) {
		struct chunk c = chunk_at(i);
		struct sl_codec_call call = call_of(&c, 7);
		float *x = codec_make(count_of(&c), RANDOM), *g = codec_make(count_of(&c), RELU);
		float *back = malloc((size_t)count_of(&c) * sizeof *back);

		for (size_t s = 0; s < sizeof texts / sizeof texts[0]; s++) {
			int64_t longest = longest_of(&c);
			struct sl_codec *act = open_for(texts[s], &c, longest, NULL, SL_DIR_HEAD_ACT, NULL);
			struct sl_codec *grad = open_for(texts[s], &c, longest, NULL, SL_DIR_HEAD_GRAD, act);
			size_t len, act_len;
			uint8_t *first = encoded(texts[s], act, &call, x, shape_of(&c), &act_len);
			uint8_t *bytes = encoded(texts[s], grad, &call, g, shape_of(&c), &len);

			decoded(texts[s], grad, &call, bytes, len, shape_of(&c), back);
			/* Where the activation came back as zero, so does the gradient. */
			if (strcmp(texts[s], "topk:0.2") == 0) {
				float *y = malloc((size_t)count_of(&c) * sizeof *y);

				decoded(texts[s], act, &call, first, act_len, shape_of(&c), y);
				for (int64_t k = 0; k < count_of(&c); k++)
					assert_true(y[k] != 0 ? back[k] == g[k] : back[k] == 0);
				free(y);
			}
			free(first);
			free(bytes);
			sl_codec_close(grad);
			sl_codec_close(act);
		}
		free(x);
		free(g);
		free(back);
	}
}

static void the_adjoint_goes_row_by_row(void **state)
{
	struct chunk c = chunk_at(0);
	struct sl_codec_call call = call_of(&c, 7);
	float *g = codec_make(count_of(&c), RANDOM), *back = malloc((size_t)count_of(&c) * sizeof *back);
	struct sl_codec *act = open_for("downsample:2", &c, 9, NULL, SL_DIR_HEAD_ACT, NULL);
	struct sl_codec *grad = open_for("downsample:2", &c, 9, NULL, SL_DIR_HEAD_GRAD, act);
	size_t len;
	uint8_t *bytes = encoded("downsample:2", grad, &call, g, shape_of(&c), &len);

	decoded("downsample:2", grad, &call, bytes, len, shape_of(&c), back);
	for (int64_t row = 0; row < c.dims.rows; row++) {
		struct sl_shape shape = sl_shape3(1, length_of(&c, row), c.features);
		struct sl_codec *a = codec_open("downsample:2", shape, NULL, SL_DIR_HEAD_ACT, NULL);
		struct sl_codec *b = codec_open("downsample:2", shape, NULL, SL_DIR_HEAD_GRAD, a);
		const float *x = g + c.begin[row] * c.features;
		float alone[9 * 5];
		size_t alone_len;
		uint8_t *one = encoded("downsample:2", b, &codec_call0, x, shape, &alone_len);

		decoded("downsample:2", b, &codec_call0, one, alone_len, shape, alone);
		assert_memory_equal(alone, back + c.begin[row] * c.features,
				    (size_t)sl_shape_count(&shape) * sizeof *alone);
		free(one);
		sl_codec_close(b);
		sl_codec_close(a);
	}
	free(bytes);
	sl_codec_close(grad);
	sl_codec_close(act);
	free(g);
	free(back);
}

/* ---- state from step to step */

/* sum = x + lost [rows][longest][features], each token with the residual of the same row and place. */
static void add_lost(const struct chunk *c, int64_t longest, const float *x, const float *lost, float *sum)
{
	for (int64_t row = 0; row < c->dims.rows; row++) {
		for (int64_t k = 0; k < length_of(c, row) * c->features; k++) {
			int64_t at = c->begin[row] * c->features + k;

			sum[at] = x[at] + lost[row * longest * c->features + k];
		}
	}
}

static void keep_lost(const struct chunk *c, int64_t longest, const float *sum, const float *back, float *lost)
{
	memset(lost, 0, (size_t)(MOST_ROWS * longest * c->features) * sizeof *lost);
	for (int64_t row = 0; row < c->dims.rows; row++) {
		for (int64_t k = 0; k < length_of(c, row) * c->features; k++) {
			int64_t at = c->begin[row] * c->features + k;

			lost[row * longest * c->features + k] = sum[at] - back[at];
		}
	}
}

static void save_and_load(struct sl_codec **codec, struct sl_codec *fresh)
{
	struct sl_buf state = {.cap = sl_codec_state_bytes(*codec)};

	state.data = malloc(state.cap);
	assert_int_equal(sl_codec_save(*codec, &state), SL_OK);
	assert_int_equal(sl_codec_load(fresh, (struct sl_bytes){state.data, state.len}), SL_OK);
	if (state.len > 8) /* a truncated state is refused */
		assert_int_equal(sl_codec_load(*codec, (struct sl_bytes){state.data, state.len - 1}), SL_ERR_DATA);
	free(state.data);
	sl_codec_close(*codec);
	*codec = fresh;
}

/* A residual is added to the same row and token in the next step; if the step lacks that token, it is dropped. */
static void feedback_finds_its_token(void **state)
{
	enum { F = 6, LONGEST = 9, STEPS = 5 };
	static const int lengths[STEPS][4] = {{9, 1, 4, 7}, {2, 9, 3, 6}, {9, 9, 1, 0}, {1, 9, 5, 5}, {9, 1, 4, 7}};
	static const char *const texts[][2] = {{"quant:2,ef=true", "quant:2"},
					       {"topk:0.3,ef=true|quant:3", "topk:0.3|quant:3"},
					       {"cells:2,ef=true|quant:2,per=sample", "cells:2|quant:2,per=sample"},
					       {"lowrank:1,ef=true", "lowrank:1"}};

	for (size_t s = 0; s < sizeof texts / sizeof texts[0]; s++) {
		struct chunk most = chunk_of(lengths[0], 4, F);
		struct sl_codec *with, *plain = open_for(texts[s][1], &most, LONGEST, NULL, SL_DIR_MID_GRAD, NULL);
		float lost[MOST_ROWS * LONGEST * F] = {0};

		with = open_for(texts[s][0], &most, LONGEST, NULL, SL_DIR_MID_GRAD, NULL);
		for (int step = 0; step < STEPS; step++) {
			struct chunk c = chunk_of(lengths[step], lengths[step][3] ? 4 : 3, F);
			struct sl_codec_call call = call_of(&c, (uint64_t)step);
			float x[21 * F], sum[21 * F], back[21 * F];
			size_t len, want_len;
			uint8_t *bytes, *want;

			codec_fill(x, count_of(&c), (enum codec_kind)(step % 2 ? RELU : RANDOM));
			add_lost(&c, LONGEST, x, lost, sum);
			bytes = encoded(texts[s][0], with, &call, x, shape_of(&c), &len);
			want = encoded(texts[s][1], plain, &call, sum, shape_of(&c), &want_len);
			if (len != want_len || memcmp(bytes, want, len) != 0)
				fail_msg("%s: step %d", texts[s][0], step);
			decoded(texts[s][1], plain, &call, want, want_len, shape_of(&c), back);
			keep_lost(&c, LONGEST, sum, back, lost);
			sl_codec_commit(with);
			if (step == 1)
				save_and_load(&with,
					      open_for(texts[s][0], &most, LONGEST, NULL, SL_DIR_MID_GRAD, NULL));
			free(bytes);
			free(want);
		}
		sl_codec_close(with);
		sl_codec_close(plain);
	}
}

/* Rows of rank 3 with noise. They have a basis in common, which is what a warm factor can learn. */
static void fill_low(const struct chunk *c, uint64_t step, float *x)
{
	int64_t f = c->features;
	float basis[3 * 64];

	assert_true(f <= 64);
	codec_fill(basis, 3 * f, RANDOM);
	codec_fill(x, count_of(c), RANDOM);
	for (int64_t t = 0; t < c->dims.tokens; t++) {
		for (int64_t k = 0; k < f; k++) {
			float sum = 0.3f * x[t * f + k];

			for (int64_t j = 0; j < 3; j++)
				sum += (float)((t * 7 + j * 5 + (int64_t)step * 3) % 11 - 5) * basis[j * f + k];
			x[t * f + k] = sum;
		}
	}
}

static double error_at(struct sl_codec *codec, const struct chunk *c, uint64_t step, const float *x)
{
	struct sl_codec_call call = call_of(c, step);
	float *back = malloc((size_t)count_of(c) * sizeof *back);
	size_t len;
	uint8_t *bytes = encoded("lowrank", codec, &call, x, shape_of(c), &len);
	double error;

	decoded("lowrank", codec, &call, bytes, len, shape_of(c), back);
	error = codec_relative_error(x, back, count_of(c));
	free(bytes);
	free(back);
	return error;
}

/* With one iteration a step, a warm factor has a lower error than a cold one. That holds for
 * rows longer and shorter than the features, and while lengths change from step to step. */
static void warm_factors_outlive_lengths(void **state)
{
	enum { F = 16, LONGEST = 60, STEPS = 6 };
	static const int lengths[STEPS][3] = {{60, 12, 24}, {10, 40, 31}, {48, 9, 16},
					      {8, 60, 25},  {33, 13, 50}, {59, 11, 26}};
	struct chunk most = chunk_of((const int[]){60, 60, 60}, 3, F);
	struct sl_codec *warm = open_for("lowrank:3,warm=true", &most, LONGEST, NULL, SL_DIR_MID_ACT, NULL);
	struct sl_codec *cold = open_for("lowrank:3", &most, LONGEST, NULL, SL_DIR_MID_ACT, NULL);
	double with = 0, without = 0;

	for (int step = 0; step < STEPS; step++) {
		struct chunk c = chunk_of(lengths[step], 3, F);
		float x[180 * F];

		fill_low(&c, (uint64_t)step, x);
		with = error_at(warm, &c, (uint64_t)step, x);
		without = error_at(cold, &c, (uint64_t)step, x);
		if (step == 0)
			assert_true(with == without);
		sl_codec_commit(warm);
		if (step == 2)
			save_and_load(&warm,
				      open_for("lowrank:3,warm=true", &most, LONGEST, NULL, SL_DIR_MID_ACT, NULL));
	}
	assert_true(with < 0.97 * without);
	sl_codec_close(warm);
	sl_codec_close(cold);
}

/* Rows shorter than F: ragged and plain tensors keep the same factor. A row that was sent whole restarts cold. */
static void warm_factors_are_those_of_rows(void **state)
{
	struct chunk c = chunk_of((const int[]){10, 10, 10}, 3, 16), other = chunk_of((const int[]){10, 2, 10}, 3, 16);
	struct sl_codec *ragged = open_for("lowrank:2,warm=true", &c, 10, NULL, SL_DIR_MID_ACT, NULL);
	struct sl_codec *plain = codec_open("lowrank:2,warm=true", sl_shape3(3, 10, 16), NULL, SL_DIR_MID_ACT, NULL);
	struct sl_codec *cold = open_for("lowrank:2", &c, 10, NULL, SL_DIR_MID_ACT, NULL);
	float x[480];
	uint8_t *a, *b, *whole;
	size_t len, row_bytes = 2 * 26 * sizeof(float);

	codec_fill(x, 480, RANDOM);
	for (uint64_t step = 0; step < 3; step++) {
		struct sl_codec_call call = call_of(&c, step);

		a = encoded("ragged", ragged, &call, x, shape_of(&c), &len);
		b = encoded("plain", plain, &call, x, sl_shape3(3, 10, 16), &len);
		assert_memory_equal(a + SL_FRAME_BYTES, b + SL_FRAME_BYTES, len - SL_FRAME_BYTES);
		free(a);
		free(b);
		sl_codec_commit(ragged);
		sl_codec_commit(plain);
	}
	a = encoded("ragged", ragged,
		    &(struct sl_codec_call){.step = 3,
					    .chunk = 1,
					    .training = true,
					    .dims = {.rows = 3, .tokens = 22, .begin = other.begin}},
		    x, shape_of(&other), &len);
	sl_codec_commit(ragged);
	free(a);
	whole = encoded(
		"ragged", ragged,
		&(struct sl_codec_call){
			.step = 4, .chunk = 1, .training = true, .dims = {.rows = 3, .tokens = 30, .begin = c.begin}},
		x, shape_of(&c), &len);
	b = encoded(
		"cold", cold,
		&(struct sl_codec_call){
			.step = 4, .chunk = 1, .training = true, .dims = {.rows = 3, .tokens = 30, .begin = c.begin}},
		x, shape_of(&c), &len);
	a = whole + SL_FRAME_BYTES + SL_FRAME_TRANSFORM_BYTES;
	assert_true(memcmp(a, b + SL_FRAME_BYTES + SL_FRAME_TRANSFORM_BYTES, row_bytes) != 0);
	assert_memory_equal(a + row_bytes, b + SL_FRAME_BYTES + SL_FRAME_TRANSFORM_BYTES + row_bytes, row_bytes);
	free(whole);
	free(b);
	sl_codec_close(ragged);
	sl_codec_close(plain);
	sl_codec_close(cold);
}

/* ---- sizes, refusals */

static void what_is_counted_is_what_is_sent(void **state)
{
	struct chunk c = chunk_at(0), most = chunk_of((const int[]){9, 9, 9, 9, 9, 9}, 6, 5);
	struct sl_codec_call call = call_of(&c, 1);
	float x[25 * 5];

	codec_fill(x, count_of(&c), RANDOM);
	for (int s = 0; s < SPECS; s++) {
		struct sl_codec *codec = open_for(specs[s], &most, 9, NULL, SL_DIR_HEAD_ACT, NULL);
		size_t len;
		uint8_t *bytes = encoded(specs[s], codec, &call, x, shape_of(&c), &len);

		assert_true(len <= sl_codec_bound(codec, c.dims.tokens));
		/* Rows of 1, 1 and 2 tokens have one cell each; rows of 5, 7 and 9 tokens have 3, 4 and 5. */
		if (strcmp(specs[s], "downsample:2") == 0)
			assert_true(sl_codec_nominal_bytes(codec, c.dims.tokens) == 15 * 5 * 4);
		/* 1, 1 and 2 tokens go whole: 20 values; then 2·(5 + 5), 2·(7 + 5), 2·(9 + 5) */
		if (strcmp(specs[s], "lowrank:2") == 0)
			assert_int_equal(len, SL_FRAME_BYTES + SL_FRAME_TRANSFORM_BYTES + 4 * (20 + 20 + 24 + 28));
		free(bytes);
		sl_codec_close(codec);
	}
}

static void calls_of_other_lengths_are_refused(void **state)
{
	struct chunk c = chunk_at(0);
	uint32_t short_of[] = {0, 1, 6, 8, 17, 18, 24}, empty[] = {0, 1, 6, 6, 17, 18, 25}, long_row[] = {0, 10, 25},
		 backwards[] = {0, 6, 1, 8, 17, 18, 25}, late[] = {1, 2, 6, 8, 17, 18, 25};
	const struct sl_dims wrong[] = {
		{.rows = 6, .tokens = 25},
		{.rows = 6, .tokens = 25, .begin = short_of},
		{.rows = 6, .tokens = 25, .begin = empty},
		{.rows = 2, .tokens = 25, .begin = long_row},
		{.rows = 6, .tokens = 24, .begin = c.begin},
		{.rows = 7, .tokens = 25, .begin = c.begin},
		{.rows = 6, .tokens = 25, .begin = backwards},
		{.rows = 6, .tokens = 25, .begin = late},
		{.rows = 0, .tokens = 25, .begin = c.begin},
	};
	struct sl_codec *codec = open_for("none", &c, 9, NULL, SL_DIR_HEAD_ACT, NULL);
	struct sl_codec_call call = call_of(&c, 1);
	float x[25 * 5];
	size_t len;
	uint8_t *bytes, *good;

	codec_fill(x, count_of(&c), RANDOM);
	good = encoded("none", codec, &call, x, shape_of(&c), &len);
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		call.dims = wrong[i];
		assert_int_equal(codec_encode(codec, &call, x, shape_of(&c), &bytes, &len), SL_ERR_BUG);
		assert_int_equal(codec_decode(codec, &call, good, len, shape_of(&c), x), SL_ERR_BUG);
	}
	free(good);
	sl_codec_close(codec);
}

/* Rows that are all shorter than the rank are sent whole. */
static void ranks_above_the_longest_row(void **state)
{
	static const char text[] = "lowrank:12,warm=true";
	struct chunk c = chunk_of((const int[]){10, 3, 1}, 3, 16);
	struct sl_codec *codec = open_for(text, &c, 10, NULL, SL_DIR_HEAD_ACT, NULL);
	struct sl_codec_call call = call_of(&c, 0);
	float x[14 * 16], y[14 * 16];
	uint8_t *bytes;
	size_t len;

	codec_fill(x, 14 * 16, RANDOM);
	for (int step = 0; step < 2; step++) {
		bytes = encoded(text, codec, &call, x, shape_of(&c), &len);
		assert_in_range(len, SL_FRAME_BYTES + sizeof x, SL_FRAME_BYTES + sizeof x + 8);
		decoded(text, codec, &call, bytes, len, shape_of(&c), y);
		assert_memory_equal(x, y, sizeof x);
		sl_codec_commit(codec);
		free(bytes);
	}
	sl_codec_close(codec);
}

static void environments_have_bounds(void **state)
{
	static const struct {
		int64_t tokens, rows, row_tokens;
		const char *text;
		enum sl_err err;
	} cases[] = {
		{25, 6, 9, "lowrank:5", SL_OK},
		{25, 6, 9, "lowrank:6", SL_ERR_CONFIG}, /* above the number of features */
		{25, 6, 4, "lowrank:4", SL_ERR_LIMIT},  /* 6 rows of 4 tokens are only 24 */
		{24, 6, 4, "lowrank:5", SL_OK},         /* above the longest row */
		{25, 26, 9, "none", SL_ERR_LIMIT},
		{25, 0, 9, "none", SL_ERR_LIMIT},
		{25, 6, 65536, "none", SL_ERR_LIMIT},
		{25, 6, -1, "none", SL_ERR_LIMIT},
		{1 << 20, 1 << 20, 65535, "none,ef=true", SL_ERR_LIMIT},
		{1 << 20, 1 << 20, 65535, "none", SL_OK},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct sl_codec_env env = {.shape = sl_shape2(cases[i].tokens, 5),
					   .row_tokens = cases[i].row_tokens,
					   .rows = cases[i].rows,
					   .slots = 1,
					   .seed = 1,
					   .dir = SL_DIR_HEAD_ACT};
		struct sl_codec *codec = NULL;
		struct sl_codec_spec spec;
		struct sl_fail fail = {0};

		assert_int_equal(sl_codec_parse(cases[i].text, &spec, &fail), SL_OK);
		assert_int_equal(sl_codec_open(&codec, &spec, &env, &fail), cases[i].err);
		sl_codec_close(codec);
	}
}

static void what_is_not_finite_is_refused(void **state)
{
	for (int s = 1; s < SPECS; s++) {
		struct chunk c = chunk_at(0);
		struct sl_codec_call call = call_of(&c, 7);
		struct sl_codec *codec = open_for(specs[s], &c, 9, NULL, SL_DIR_HEAD_ACT, NULL);
		bool bits = strncmp(specs[s], "zstd", 4) == 0;
		float x[25 * 5];
		uint8_t *bytes;
		size_t len;

		for (int64_t at = 0; at < count_of(&c); at += 4) {
			codec_fill(x, count_of(&c), RANDOM);
			memcpy(&x[at], &(uint32_t){0x7fc00000}, 4);
			assert_int_equal(codec_encode(codec, &call, x, shape_of(&c), &bytes, &len),
					 bits ? SL_OK : SL_ERR_NONFINITE);
			free(bytes);
		}
		sl_codec_close(codec);
	}
}

static void a_tensor_without_positions_is_not_ragged(void **state)
{
	static const char *const texts[] = {"cells:2", "downsample:2", "lowrank:1"};

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		struct sl_codec_env env = {.shape = sl_shape3(12, 2, 3), .row_tokens = 5, .rows = 4, .slots = 1};
		struct sl_codec *codec = NULL;
		struct sl_codec_spec spec;
		struct sl_fail fail = {0};

		assert_int_equal(sl_codec_parse(texts[i], &spec, &fail), SL_OK);
		assert_int_equal(sl_codec_open(&codec, &spec, &env, &fail), SL_ERR_CONFIG);
		env.shape = sl_shape1(12);
		assert_int_equal(sl_codec_open(&codec, &spec, &env, &fail), SL_ERR_CONFIG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_change_nothing),
		cmocka_unit_test(rows_are_coded_one_by_one),
		cmocka_unit_test(equal_lengths_give_the_same_bytes),
		cmocka_unit_test(methods_without_rows_see_tokens),
		cmocka_unit_test(gradients_are_paired),
		cmocka_unit_test(the_adjoint_goes_row_by_row),
		cmocka_unit_test(feedback_finds_its_token),
		cmocka_unit_test(warm_factors_outlive_lengths),
		cmocka_unit_test(warm_factors_are_those_of_rows),
		cmocka_unit_test(what_is_counted_is_what_is_sent),
		cmocka_unit_test(calls_of_other_lengths_are_refused),
		cmocka_unit_test(ranks_above_the_longest_row),
		cmocka_unit_test(environments_have_bounds),
		cmocka_unit_test(what_is_not_finite_is_refused),
		cmocka_unit_test(a_tensor_without_positions_is_not_ragged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
