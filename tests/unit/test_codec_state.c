/* A codec's committed state survives save and load: the next step's bytes are the same. Damaged states are refused. */

#include "common/codec/codec.h"
#include "common/session/state.h"
#include "tests/support/unit.h"

enum { ROWS = 3, SLOTS = 2, FLOATS = ROWS * 4 * 5 * 6 };

static struct sl_codec *open_codec(const char *text)
{
	struct sl_codec_env env = {
		.shape = sl_shape4(ROWS, 4, 5, 6), .slots = SLOTS, .seed = 7, .dir = SL_DIR_HEAD_ACT};
	struct sl_codec_spec spec;
	struct sl_codec *codec;
	struct sl_fail fail;

	if (sl_codec_parse(text, &spec, &fail) != SL_OK || sl_codec_open(&codec, &spec, &env, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return codec;
}

static void encode(struct sl_codec *codec, uint64_t step, int chunk, struct sl_buf *out)
{
	const struct sl_rng_key key = {3, step, (uint16_t)chunk, SL_RNG_TEST};
	const struct sl_codec_call call = {.slot = chunk, .step = step, .chunk = (uint16_t)chunk, .training = true};
	float x[FLOATS];
	struct sl_tensor t = {SL_F32, sl_shape4(ROWS, 4, 5, 6), x, NULL};

	for (int i = 0; i < FLOATS; i++)
		x[i] = sl_rng_unit(sl_rng_u32(&key, (uint64_t)i)) - 0.3f;
	out->len = 0;
	assert_int_equal(sl_codec_encode(codec, &call, &t, out), SL_OK);
}

static void step(struct sl_codec *codec, uint64_t number, struct sl_buf out[SLOTS])
{
	for (int chunk = 0; chunk < SLOTS; chunk++)
		encode(codec, number, chunk, &out[chunk]);
	sl_codec_commit(codec);
}

/* Expects that the state of `codec` is that of a new codec. */
static void assert_new(struct sl_codec *codec, const char *text)
{
	struct sl_codec *fresh = open_codec(text);
	size_t cap = sl_codec_state_bytes(codec);
	struct sl_buf is = {malloc(cap), 0, cap}, want = {malloc(cap), 0, cap};

	assert_int_equal(sl_codec_save(codec, &is), SL_OK);
	assert_int_equal(sl_codec_save(fresh, &want), SL_OK);
	assert_int_equal(is.len, want.len);
	assert_memory_equal(is.data, want.data, is.len);
	free(is.data);
	free(want.data);
	sl_codec_close(fresh);
}

/* The damaged state is refused. Afterwards nothing is left of it, nor of the state before. */
static void refuses(struct sl_codec *codec, const char *text, struct sl_bytes bad)
{
	assert_int_equal(sl_codec_load(codec, bad), SL_ERR_DATA);
	assert_new(codec, text);
}

static void survives(const char *text, bool has_state)
{
	struct sl_codec *a = open_codec(text), *b = open_codec(text);
	size_t cap = sl_codec_bound(a, ROWS);
	struct sl_buf at_a[SLOTS], at_b[SLOTS],
		state = {calloc(1, sl_codec_state_bytes(a) + 1), 0, sl_codec_state_bytes(a)};
	bool differs = false;

	for (int i = 0; i < SLOTS; i++) {
		at_a[i] = (struct sl_buf){malloc(cap), 0, cap};
		at_b[i] = (struct sl_buf){malloc(cap), 0, cap};
	}
	step(a, 0, at_a);
	step(a, 1, at_a);
	assert_int_equal(sl_codec_save(a, &state), SL_OK);
	step(b, 2, at_b); /* b has not loaded the state */
	step(a, 2, at_a);
	for (int i = 0; i < SLOTS; i++)
		differs |= at_a[i].len != at_b[i].len || memcmp(at_a[i].data, at_b[i].data, at_a[i].len) != 0;
	assert_int_equal(differs, has_state);
	encode(b, 5, 0, &at_b[0]); /* an uncommitted encoding: loading must discard it */
	assert_int_equal(sl_codec_load(b, (struct sl_bytes){state.data, state.len}), SL_OK);
	sl_codec_commit(b);
	step(b, 2, at_b);
	for (int i = 0; i < SLOTS; i++) {
		assert_int_equal(at_a[i].len, at_b[i].len);
		assert_memory_equal(at_a[i].data, at_b[i].data, at_a[i].len);
	}
	for (size_t len = 0; len < state.len; len += 1 + state.len / 40)
		refuses(b, text, (struct sl_bytes){state.data, len});
	refuses(b, text, (struct sl_bytes){state.data, state.len + 1});
	state.data[0] ^= 1;
	refuses(b, text, (struct sl_bytes){state.data, state.len});
	state.data[0] ^= 1;
	if (state.len > 8) { /* a flag that is neither 0 nor 1, or a wrong number of rows */
		state.data[8] ^= 2;
		refuses(b, text, (struct sl_bytes){state.data, state.len});
		state.data[8] ^= 2;
	}
	assert_int_equal(sl_codec_load(b, (struct sl_bytes){state.data, state.len}), SL_OK);
	sl_codec_forget(b);
	assert_new(b, text);
	for (int i = 0; i < SLOTS; i++) {
		free(at_a[i].data);
		free(at_b[i].data);
	}
	free(state.data);
	sl_codec_close(a);
	sl_codec_close(b);
}

static void state_survives(void **state)
{
	survives("none", false);
	survives("quant:8", false);
	survives("topk:0.1,ef=true", true);
	survives("topk:0.2,ef=true|quant:8", true);
	survives("lowrank:2,warm=true", true);
	survives("lowrank:2,warm=true,ef=true", true);
}

/* A buffer that was sized for codecs without state is enlarged when a run goes back to codecs with state. */
static void a_state_may_become_larger(void **state)
{
	static uint8_t bytes[SLOTS][8 * FLOATS];
	struct sl_codec *narrow[SL_DIR_COUNT], *wide[SL_DIR_COUNT];
	struct sl_codecs_state s;
	struct sl_buf out[SLOTS];

	for (int slot = 0; slot < SLOTS; slot++)
		out[slot] = (struct sl_buf){bytes[slot], 0, sizeof bytes[slot]};
	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		narrow[dir] = open_codec("none");
		wide[dir] = open_codec("topk:0.25,ef=true");
	}
	assert_int_equal(sl_codecs_state_open(&s, narrow), SL_OK);
	assert_int_equal(sl_codecs_state_take(&s, narrow), SL_OK);
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		step(wide[dir], 0, out); /* residuals appear with the first step */
	for (int again = 0; again < 2; again++) {
		assert_int_equal(sl_codecs_state_take(&s, wide), SL_OK);
		for (int dir = 0; dir < SL_DIR_COUNT; dir++)
			assert_in_range(s.dir[dir].len, FLOATS * sizeof(float), s.dir[dir].cap);
		assert_int_equal(sl_codecs_state_give(&s, wide), SL_OK);
	}
	sl_codecs_state_close(&s);
	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		sl_codec_close(narrow[dir]);
		sl_codec_close(wide[dir]);
	}
}

/* The state claims one row more than the codec has, and is as long as that would need. */
static void more_rows_than_the_plan_has_are_refused(void **state)
{
	static const char text[] = "lowrank:2,warm=true";
	struct sl_codec *c = open_codec(text);
	const uint32_t words[] = {0x31534353, 0, ROWS + 1}; /* magic, no residuals, rows of the first slot */
	const size_t len = sizeof words + (ROWS + 1) * 2 * 20 * sizeof(float) + 4;
	uint8_t *bytes = calloc(1, len);

	memcpy(bytes, words, sizeof words);
	refuses(c, text, (struct sl_bytes){bytes, len});
	free(bytes);
	sl_codec_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(state_survives),
		cmocka_unit_test(a_state_may_become_larger),
		cmocka_unit_test(more_rows_than_the_plan_has_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
