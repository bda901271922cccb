/* quant's change=b: both sides keep the tokens of mid_act as they were decoded last, and changes of these cross. And
 * eval=b, for calls outside of training. */
#include <math.h>

#include "common/codec/codec.h"
#include "common/codec/frame.h"
#include "tests/support/unit.h"

enum { FEATURES = 8, ROW = 3, ROWS = 2, TOKENS = ROWS * ROW, KEEP = 12, FLOATS = TOKENS * FEATURES };

static const char *const plain = "quant:6,change=4,eval=8", *const packed = "quant:6,change=4,eval=8|zstd:3";

struct pair {
	struct sl_codec *sends, *hears;
	uint8_t bytes[4096];
	struct sl_buf out;
	float sent[FLOATS], heard[FLOATS];
	uint32_t begin[ROWS + 1], home[ROWS], place[TOKENS];
	struct sl_codec_call call;
	struct sl_tensor from, to;
};

static struct sl_codec *open_codec(const char *text, int64_t keep)
{
	const struct sl_codec_env env = {.shape = sl_shape2(TOKENS, FEATURES),
					 .slots = 2,
					 .seed = 7,
					 .keep_tokens = keep,
					 .dir = SL_DIR_MID_ACT};
	struct sl_codec_spec spec;
	struct sl_codec *codec;
	struct sl_fail fail;

	if (sl_codec_parse(text, &spec, &fail) || sl_codec_open(&codec, &spec, &env, &fail))
		fail_msg("%s", fail.text);
	return codec;
}

/* Two rows of three tokens, which are kept at 0 and 6. */
static void open_pair(struct pair *p, const char *text)
{
	*p = (struct pair){.sends = open_codec(text, KEEP), .hears = open_codec(text, KEEP)};
	p->out = (struct sl_buf){p->bytes, 0, sizeof p->bytes};
	for (int row = 0; row <= ROWS; row++)
		p->begin[row] = (uint32_t)(row * ROW);
	p->home[0] = 1;
	p->home[1] = 7;
	p->call = (struct sl_codec_call){.training = true, .home = p->home};
	p->call.dims = (struct sl_dims){.rows = ROWS, .tokens = TOKENS, .begin = p->begin};
	p->from = (struct sl_tensor){SL_F32, sl_shape2(TOKENS, FEATURES), p->sent, NULL};
	p->to = (struct sl_tensor){SL_F32, sl_shape2(TOKENS, FEATURES), p->heard, NULL};
}

static void close_pair(struct pair *p)
{
	sl_codec_close(p->sends);
	sl_codec_close(p->hears);
}

/* Values from -1 to 1 that drift with `time`. */
static void fill(struct pair *p, double time)
{
	for (int i = 0; i < FLOATS; i++)
		p->sent[i] = (float)sin(i + 0.02 * time);
}

/* Sends the tensor, without a commit. Returns whether it crossed as changes. */
static bool cross(struct pair *p)
{
	struct sl_fail fail;

	p->out.len = 0;
	assert_int_equal(sl_codec_encode(p->sends, &p->call, &p->from, &p->out), SL_OK);
	if (sl_codec_decode(p->hears, &p->call, (struct sl_bytes){p->bytes, p->out.len}, &p->to, &fail))
		fail_msg("%s", fail.text);
	return p->bytes[2] & SL_FRAME_CHANGE;
}

static void commit(struct pair *p)
{
	sl_codec_commit(p->sends);
	sl_codec_commit(p->hears);
}

static float error_of(const struct pair *p)
{
	float most = 0;

	for (int64_t i = 0; i < p->from.shape.dim[0] * FEATURES; i++)
		most = fmaxf(most, fabsf(p->sent[i] - p->heard[i]));
	return most;
}

/* The error of a change is that of a value, half of 2/63 and what holds zero, however many steps went before. */
static void errors_do_not_add_up(void **state)
{
	const char *const text[] = {plain, packed};

	for (int k = 0; k < 2; k++) {
		struct pair p;

		open_pair(&p, text[k]);
		for (int step = 0; step < 40; step++) {
			fill(&p, step);
			p.call.step = (uint64_t)step;
			p.call.slot = step % 2;
			assert_int_equal(cross(&p), step > 0);
			assert_true(error_of(&p) <= 1.2f / 63);
			commit(&p);
		}
		close_pair(&p);
	}
}

/* Four bits reach 7 codes of 2/63 down and 8 up. What is cut off crosses in the steps after. */
static void what_is_cut_off_crosses_later(void **state)
{
	float before = 2;
	struct pair p;

	open_pair(&p, plain);
	fill(&p, 0);
	cross(&p);
	commit(&p);
	p.sent[1] = -1;
	for (int step = 1; before > 0.02f; step++) {
		assert_true(step < 12 && cross(&p));
		assert_true(error_of(&p) < before);
		before = error_of(&p);
		commit(&p);
	}
	close_pair(&p);
}

/* A step that is repeated has the same bytes, and evaluations change nothing but are finer. */
static void only_a_commit_counts(void **state)
{
	uint8_t first[sizeof((struct pair *)0)->bytes];
	struct pair p;
	size_t len;

	open_pair(&p, packed);
	fill(&p, 0);
	cross(&p);
	commit(&p);
	fill(&p, 1);
	assert_true(cross(&p));
	memcpy(first, p.bytes, len = p.out.len);
	sl_codec_rollback(p.sends);
	sl_codec_rollback(p.hears);
	commit(&p);
	p.call.training = false;
	fill(&p, 9);
	assert_false(cross(&p));
	assert_true(error_of(&p) <= 1.2f / 255);
	assert_true(sl_codec_nominal_bytes(p.sends, TOKENS) == FLOATS);
	commit(&p);
	p.call.training = true;
	fill(&p, 1);
	assert_true(cross(&p));
	assert_int_equal(p.out.len, len);
	assert_memory_equal(p.bytes, first, len);
	assert_true(sl_codec_nominal_bytes(p.hears, TOKENS) == FLOATS / 2);
	close_pair(&p);
}

/* Rows come in any order and beside others. Of a chosen tensor only its tokens are kept. */
static void a_token_is_known_by_its_home(void **state)
{
	struct pair p;

	open_pair(&p, plain);
	p.call.dims.place = p.place;
	p.call.dims.chosen = 2;
	p.place[0] = 1;
	p.place[1] = 5;
	p.from.shape = p.to.shape = sl_shape2(2, FEATURES);
	fill(&p, 0);
	assert_false(cross(&p));
	commit(&p);
	assert_true(cross(&p));
	p.home[0] = 7;
	p.home[1] = 1;
	p.place[0] = 2;
	p.place[1] = 4;
	assert_true(cross(&p));
	p.place[1] = 3;
	assert_false(cross(&p)); /* token 0 of the row at home 0 never crossed */
	p.place[1] = 4;
	p.home[1] = 0;
	assert_false(cross(&p));
	p.home[1] = KEEP - 1; /* token 1 of the row would be kept behind the end */
	p.place[1] = 5;
	assert_false(cross(&p));
	close_pair(&p);
}

static void state_survives(void **state)
{
	struct pair p;
	size_t cap;
	struct sl_buf kept;
	struct sl_fail fail;

	open_pair(&p, packed);
	cap = sl_codec_state_bytes(p.hears);
	kept = (struct sl_buf){malloc(cap), 0, cap};
	fill(&p, 0);
	cross(&p);
	commit(&p);
	assert_int_equal(sl_codec_save(p.hears, &kept), SL_OK);
	fill(&p, 1);
	cross(&p);
	commit(&p);
	assert_int_equal(sl_codec_load(p.hears, (struct sl_bytes){kept.data, kept.len}), SL_OK);
	assert_int_equal(sl_codec_load(p.sends, (struct sl_bytes){kept.data, kept.len}), SL_OK);
	fill(&p, 2);
	assert_true(cross(&p));
	assert_true(error_of(&p) <= 1.2f / 63);
	assert_int_equal(sl_codec_load(p.hears, (struct sl_bytes){kept.data, kept.len - 1}), SL_ERR_DATA);
	kept.data[8] = 2; /* the first token's mark */
	assert_int_equal(sl_codec_load(p.hears, (struct sl_bytes){kept.data, kept.len}), SL_ERR_DATA);
	/* nothing is left of it, so a change is refused, and nothing is written */
	memset(p.heard, 0, sizeof p.heard);
	assert_int_equal(sl_codec_decode(p.hears, &p.call, (struct sl_bytes){p.bytes, p.out.len}, &p.to, &fail),
			 SL_ERR_PAYLOAD);
	assert_string_equal(fail.text, "payload has changes, expected values");
	for (int i = 0; i < FLOATS; i++)
		assert_true(p.heard[i] == 0);
	p.sent[0] = NAN;
	p.out.len = 0;
	assert_int_equal(sl_codec_encode(p.sends, &p.call, &p.from, &p.out), SL_ERR_NONFINITE);
	free(kept.data);
	close_pair(&p);
}

/* Without a place for tokens it codes values, as a server does that was never asked to keep any. */
static void nothing_is_kept_without_room(void **state)
{
	struct pair p;

	open_pair(&p, plain);
	sl_codec_close(p.sends);
	sl_codec_close(p.hears);
	p.sends = open_codec(plain, 0);
	p.hears = open_codec(plain, 0);
	for (int step = 0; step < 2; step++) {
		assert_false(cross(&p));
		commit(&p);
	}
	assert_int_equal(sl_codec_state_bytes(p.sends), 8);
	close_pair(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_do_not_add_up), cmocka_unit_test(what_is_cut_off_crosses_later),
		cmocka_unit_test(only_a_commit_counts), cmocka_unit_test(a_token_is_known_by_its_home),
		cmocka_unit_test(state_survives),       cmocka_unit_test(nothing_is_kept_without_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
