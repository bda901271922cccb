/* The next token from logits: repetition penalty, temperature, top-k, top-p, ties, seeds. */
#include <math.h>

#include "client/predict/sample.h"
#include "tests/support/unit.h"

enum { VOCAB = 5, DRAWS = 20000 };
static struct sl_sample_room room;
static const float logits[VOCAB] = {1, 3, -1, 3, 2};

static int open_room(void **state)
{
	struct sl_fail fail;

	return sl_sample_open(&room, VOCAB, &fail) ? -1 : 0;
}

static int close_room(void **state)
{
	sl_sample_close(&room);
	return 0;
}

static int32_t token(struct sl_sampling how, const int32_t *id, int64_t n, uint64_t prompt)
{
	int32_t out = -1;

	assert_int_equal(sl_sample_next(&room, &how, logits, id, n, prompt, &out), SL_OK);
	return out;
}

static void greedy(void **state)
{
	const int32_t had[] = {1, 1, 3, 2};

	assert_int_equal(token((struct sl_sampling){.penalty = 1}, had, 4, 0), 1); /* a tie: the lower id */
	assert_int_equal(token((struct sl_sampling){.penalty = 1.4}, had, 2, 0), 3);
	/* the penalty applies once, however often the row has the token: 3 / 1.4 is still above 2 */
	assert_int_equal(token((struct sl_sampling){.penalty = 1.4}, had, 4, 0), 1);
	assert_int_equal(token((struct sl_sampling){.penalty = 1.6}, had, 4, 0), 4);
}

/* The share of each token in DRAWS draws. */
static void shares(struct sl_sampling how, double share[VOCAB])
{
	for (int i = 0; i < VOCAB; i++)
		share[i] = 0;
	how.penalty = 1;
	for (uint64_t i = 0; i < DRAWS; i++)
		share[token(how, (const int32_t[]){0}, 1, i)] += 1.0 / DRAWS;
}

static void expect(struct sl_sampling how, const double want[VOCAB])
{
	double got[VOCAB];

	shares(how, got);
	for (int i = 0; i < VOCAB; i++) {
		if (want[i] == 0)
			assert_true(got[i] == 0);
		assert_true(fabs(got[i] - want[i]) < 4 * sqrt(0.25 / DRAWS));
	}
}

static void drawn(void **state)
{
	double all[VOCAB], sum = 0;

	for (int i = 0; i < VOCAB; i++)
		sum += all[i] = exp((double)logits[i] / 2);
	for (int i = 0; i < VOCAB; i++)
		all[i] /= sum;
	expect((struct sl_sampling){.temperature = 2, .top_p = 1, .seed = 7}, all);
	expect((struct sl_sampling){.temperature = 1, .top_k = 2, .top_p = 1}, (const double[]){0, 0.5, 0, 0.5, 0});
	/* top-p: the first token alone has less than 0.6, the first two have more */
	expect((struct sl_sampling){.temperature = 1, .top_p = 0.6}, (const double[]){0, 0.5, 0, 0.5, 0});
	expect((struct sl_sampling){.temperature = 1, .top_p = 0.1}, (const double[]){0, 1, 0, 0, 0});
}

static void seeds(void **state)
{
	const struct sl_sampling one = {.penalty = 1, .temperature = 2, .top_p = 1, .seed = 1},
				 two = {.penalty = 1, .temperature = 2, .top_p = 1, .seed = 2};
	const int32_t id[40] = {0};
	int differ = 0, of_prompts = 0;

	for (int64_t n = 1; n < 40; n++) {
		assert_int_equal(token(one, id, n, 3), token(one, id, n, 3));
		differ += token(one, id, n, 3) != token(two, id, n, 3);
		of_prompts += token(one, id, n, 3) != token(one, id, n, 4);
	}
	assert_true(differ > 5 && of_prompts > 5);
}

static void not_finite(void **state)
{
	const struct sl_sampling how = {.penalty = 1};
	const float bad[VOCAB] = {1, NAN, 0, 0, 0};
	int32_t out = 9;

	assert_int_equal(sl_sample_next(&room, &how, bad, NULL, 0, 0, &out), SL_ERR_NONFINITE);
	assert_int_equal(out, 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(greedy), cmocka_unit_test(drawn), cmocka_unit_test(seeds),
					   cmocka_unit_test(not_finite)};

	return cmocka_run_group_tests(tests, open_room, close_room);
}
