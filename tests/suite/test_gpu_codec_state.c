/* What a device's codecs keep between tensors, compared with the portable ones: an activation's
 * places for its gradient, warm factors, residuals; and what checkpoints hold of it. */
#include <math.h>

#include "tests/support/gpu_codecs/rig.h"
#include "tests/support/unit.h"

/* A gradient at its activation's places, from either side, with two slots in flight. */
static void gradients_use_the_places_of_their_activation(void **state)
{
	struct sl_backend *be = rig_backend(state);
	static const char *const texts[][2] = {{"topk:0.1", "topk:0.1|quant:8"}, {"threshold:0.7", "threshold:0.7"}};

	for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
		struct sl_shape shape = sl_shape4(4, 33, 65, 9);
		struct both act = both_open(be, texts[t][0], shape, SL_DIR_MID_ACT, NULL);
		struct both grad = both_open(be, texts[t][1], shape, SL_DIR_MID_GRAD, &act);
		struct sl_codec_call call[2] = {codec_call0, codec_call0};
		uint8_t *bytes;
		size_t len;

		call[1].slot = 1;
		call[1].chunk = 2;
		for (int c = 0; c < 2; c++) {
			codec_fill(act.x, sl_shape_count(&shape), c ? RELU : RANDOM);
			assert_int_equal(both_encode(&act, &call[c], shape.dim[0], &bytes, &len), SL_OK);
			assert_int_equal(both_decode(&act, &call[c], bytes, len, shape.dim[0]), SL_OK);
			free(bytes);
		}
		for (int c = 0; c < 2; c++) {
			codec_fill(grad.x, sl_shape_count(&shape), RANDOM);
			assert_int_equal(both_encode(&grad, &call[c], shape.dim[0], &bytes, &len), SL_OK);
			assert_int_equal(both_decode(&grad, &call[c], bytes, len, shape.dim[0]), SL_OK);
			free(bytes);
		}
		grad.x[17] = NAN;
		assert_int_equal(both_encode(&grad, &call[0], shape.dim[0], &bytes, &len), SL_ERR_NONFINITE);
		free(bytes);
		both_close(&grad);
		both_close(&act);
	}
}

/* Exchanges checkpoints: each side restores the other's. */
static void swap_states(struct both *b)
{
	size_t cap = sl_codec_state_bytes(b->host);
	struct sl_buf mine = {malloc(cap), 0, cap}, theirs = {malloc(cap), 0, cap};

	assert_non_null(mine.data);
	assert_non_null(theirs.data);
	assert_int_equal(sl_codec_state_bytes(b->device), cap);
	assert_int_equal(sl_codec_save(b->host, &mine), SL_OK);
	assert_int_equal(sl_codec_save(b->device, &theirs), SL_OK);
	assert_int_equal(mine.len, theirs.len);
	assert_memory_equal(mine.data, theirs.data, mine.len);
	assert_int_equal(sl_codec_load(b->device, (struct sl_bytes){mine.data, mine.len - 1}), SL_ERR_DATA);
	assert_int_equal(sl_codec_load(b->device, (struct sl_bytes){mine.data, mine.len}), SL_OK);
	assert_int_equal(sl_codec_load(b->host, (struct sl_bytes){theirs.data, theirs.len}), SL_OK);
	free(mine.data);
	free(theirs.data);
}

static void follow_the_step(struct sl_backend *be, const char *text)
{
	struct both b = both_open(be, text, sl_shape4(3, 6, 7, 10), SL_DIR_HEAD_ACT, NULL);
	uint8_t *first = NULL, *bytes;
	size_t first_len = 0, len;

	for (int step = 0; step < 6; step++) {
		for (int chunk = 0; chunk < 2; chunk++) {
			struct sl_codec_call call = {
				.slot = chunk, .step = (uint64_t)step, .chunk = (uint16_t)chunk, .training = step != 4};
			int64_t rows = step == 1 && chunk == 1 ? 1 : 3;

			codec_fill(b.x, sl_shape_count(&b.shape), step % 2 ? RELU : RANDOM);
			/* a sample of rank 0, and one of rank 1 */
			if (step == 3)
				memset(b.x, 0, 6 * 7 * 10 * sizeof(float));
			for (int i = 0; i < 6 * 7 * 10 && step == 3; i++)
				b.x[6 * 7 * 10 + i] = 1.5f;
			assert_int_equal(both_encode(&b, &call, rows, &bytes, &len), SL_OK);
			assert_int_equal(both_decode(&b, &call, bytes, len, rows), SL_OK);
			/* a step that is repeated gives the same bytes */
			if (step == 2 && chunk == 0) {
				first = bytes;
				first_len = len;
				sl_codec_rollback(b.host);
				sl_codec_rollback(b.device);
				assert_int_equal(both_encode(&b, &call, rows, &bytes, &len), SL_OK);
				assert_int_equal(len, first_len);
				assert_memory_equal(bytes, first, len);
				free(first);
			}
			free(bytes);
		}
		sl_codec_commit(b.host);
		sl_codec_commit(b.device);
		if (step == 2)
			swap_states(&b);
	}
	both_close(&b);
}

/* Warm factors and residuals change only at a commit, belong to their chunk, start cold for new
 * rows, and are part of checkpoints. */
static void state_follows_the_step(void **state)
{
	struct sl_backend *be = rig_backend(state);

	follow_the_step(be, "lowrank:3,iters=2,warm=true|f16");
	follow_the_step(be, "topk:0.1,ef=true");
	follow_the_step(be, "quant:3,ef=true");
	follow_the_step(be, "lowrank:2,warm=true,ef=true|quant:8");
	follow_the_step(be, "terngrad,bucket=64,ef=true");
}

/* Rows of different lengths, with other lengths at each step and at most as many tokens. */
static void follow_the_rows(struct sl_backend *be, const char *text)
{
	static const uint32_t begin[5][5] = {
		{0, 40, 41, 60, 80}, {0, 1, 41, 61, 70}, {0, 33, 66, 79}, {0, 20, 40, 60, 80}, {0, 40, 80}};
	static const int rows[5] = {4, 4, 3, 4, 2};
	struct both act = both_open_rows(be, text, sl_shape2(80, 24), 4, 40, SL_DIR_MID_ACT, NULL), grad;
	struct sl_codec_spec spec;
	struct sl_fail fail;
	bool pairs;

	assert_int_equal(sl_codec_parse(text, &spec, &fail), SL_OK);
	pairs = sl_codec_spec_pairs(&spec, &spec);
	grad = both_open_rows(be, text, sl_shape2(80, 24), 4, 40, SL_DIR_MID_GRAD, pairs ? &act : NULL);
	for (int step = 0; step < 5; step++) {
		struct sl_dims dims = {.rows = rows[step], .tokens = begin[step][rows[step]], .begin = begin[step]};
		struct sl_codec_call call = {.step = (uint64_t)step, .chunk = 1, .training = true, .dims = dims};

		for (int back = 0; back < 2; back++) {
			struct both *b = back ? &grad : &act;
			uint8_t *bytes;
			size_t len;

			codec_fill(b->x, sl_shape_count(&b->shape), step % 2 ? RELU : RANDOM);
			assert_int_equal(both_encode(b, &call, dims.tokens, &bytes, &len), SL_OK);
			assert_int_equal(both_decode(b, &call, bytes, len, dims.tokens), SL_OK);
			free(bytes);
			sl_codec_commit(b->host);
			sl_codec_commit(b->device);
		}
		if (step == 2)
			swap_states(&act);
	}
	both_close(&grad);
	both_close(&act);
}

/* With rows of different lengths, the device supports the stages that do not depend on where a row begins;
 * residuals are by row and token. It reports the others as unavailable, so that the host codes. */
static void rows_of_different_lengths(void **state)
{
	static const char *const there[] = {"f16",
					    "quant:3,ef=true",
					    "quant:5,per=channel",
					    "quant:4,block=64",
					    "topk:0.1,ef=true",
					    "threshold:0.7|f16",
					    "sortquant:6+2",
					    "qsgd:7,bucket=100"};
	static const char *const missing[] = {"quant:3,per=sample", "lowrank:2"};
	struct sl_backend *be = rig_backend(state);

	for (size_t t = 0; t < sizeof there / sizeof there[0]; t++)
		follow_the_rows(be, there[t]);
	for (size_t t = 0; t < sizeof missing / sizeof missing[0]; t++) {
		const struct sl_codec_env env = {
			.be = be, .shape = sl_shape2(80, 24), .rows = 4, .row_tokens = 40, .slots = 1};
		struct sl_codec_spec spec;
		struct sl_codec *codec;
		struct sl_fail fail = {0};

		assert_int_equal(sl_codec_parse(missing[t], &spec, &fail), SL_OK);
		assert_int_equal(sl_codec_open(&codec, &spec, &env, &fail), SL_ERR_UNAVAILABLE);
		assert_non_null(strstr(fail.text, "different lengths"));
	}
}

/* usage: test_gpu_codec_state [TEST], such as '*GPU*' */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		RIG_ON_BOTH(gradients_use_the_places_of_their_activation),
		RIG_ON_BOTH(state_follows_the_step),
		RIG_ON_BOTH(rows_of_different_lengths),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("gpu codec state", tests, NULL, rig_close_gpu);
}
