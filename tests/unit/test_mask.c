/* Masking of tokens for masked language models. */

#include "client/data/mask.h"
#include "tests/support/unit.h"

enum { VOCAB = 50, MASK = 4, MOST = 40, SAMPLES = 3000 };
static const struct sl_mask_ids ids = {.mask = MASK, .special = {0, 2, MASK}, .n_special = 3};

struct row {
	int32_t token[MOST], label[MOST];
	uint32_t place[MOST];
	int64_t n, chosen;
};

/* Row `sample` of n tokens: <s>, words, </s>. */
static void make(struct row *r, int64_t sample, int64_t n)
{
	r->n = n;
	for (int64_t i = 0; i < n; i++)
		r->token[i] = i == 0 ? 0 : i == n - 1 ? 2 : (int32_t)(5 + (sample * 7 + i * i) % 40);
}

static void mask(struct row *r, uint64_t epoch, int64_t sample)
{
	struct sl_mask_draw scratch[MOST];

	r->chosen = sl_mask_row(&ids, 0.15f, VOCAB, sl_mask_key(42, epoch, sample), r->token, r->n, scratch, r->place,
				r->label);
}

/* The number of masked tokens of a row. Special tokens are never masked, labels are the original
 * tokens, and all other tokens stay. */
static void rows(void **state)
{
	int64_t hidden = 0, other = 0, kept = 0;

	for (int64_t sample = 0; sample < SAMPLES; sample++) {
		const int64_t n = 3 + sample % (MOST - 3);
		struct row was, is;
		int64_t at = 0;

		make(&was, sample, n);
		is = was;
		mask(&is, 1, sample);
		assert_int_equal(is.chosen, sl_mask_count(0.15f, n) < n - 2 ? sl_mask_count(0.15f, n) : n - 2);
		assert_true(is.chosen <= sl_mask_most(0.15f, n, 1));
		for (int64_t i = 0; i < n; i++) {
			if (at == is.chosen || is.place[at] != i) {
				assert_int_equal(is.token[i], was.token[i]);
				continue;
			}
			assert_true(i > 0 && i < n - 1);
			assert_int_equal(is.label[at++], was.token[i]);
			hidden += is.token[i] == MASK;
			kept += is.token[i] == was.token[i];
			other += is.token[i] != MASK && is.token[i] != was.token[i];
			assert_in_range(is.token[i], 0, VOCAB - 1);
		}
		assert_int_equal(at, is.chosen);
	}
	/* About 9000 tokens: 80 % are masked, 10 % replaced, 10 % kept. A replacement is now and
	 * then (1 in 50) the token itself, or the mask. */
	assert_in_range(hidden * 1000 / (hidden + other + kept), 785, 818);
	assert_in_range(other * 1000 / (hidden + other + kept), 80, 112);
	assert_in_range(kept * 1000 / (hidden + other + kept), 85, 118);
}

/* Masks are a function of epoch and sample. */
static void draws(void **state)
{
	int different[2] = {0};

	for (int64_t sample = 0; sample < 50; sample++) {
		struct row a, b, c, d;

		make(&a, 7, MOST);
		b = c = d = a;
		mask(&a, 3, sample);
		mask(&b, 3, sample);
		mask(&c, 4, sample);
		mask(&d, 3, sample + 1);
		assert_memory_equal(a.token, b.token, sizeof a.token);
		assert_memory_equal(a.place, b.place, (size_t)a.chosen * sizeof a.place[0]);
		different[0] += memcmp(a.place, c.place, (size_t)a.chosen * sizeof a.place[0]) != 0;
		different[1] += memcmp(a.place, d.place, (size_t)a.chosen * sizeof a.place[0]) != 0;
	}
	assert_true(different[0] > 45 && different[1] > 45);
}

/* Even the shortest row has a token to predict. */
static void short_rows(void **state)
{
	struct row r = {.token = {0, 2}, .n = 2};

	mask(&r, 0, 0);
	assert_int_equal(r.chosen, 1);
	assert_int_equal(r.label[0], r.place[0] ? 2 : 0);
	make(&r, 0, 3);
	mask(&r, 0, 0);
	assert_int_equal(r.chosen, 1);
	assert_int_equal(r.place[0], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows),
		cmocka_unit_test(draws),
		cmocka_unit_test(short_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
