#include "client/step/ends_check.h"

#include "common/base/assert.h"

/* Tokens of a chunk begin at 0, row behind row, and those with a loss are among them. */
static void check_tokens(const struct sl_dims *d)
{
	sl_assert(d->begin);
	sl_assert_int(d->begin[0], ==, 0);
	for (int64_t i = 0; i < d->rows; i++)
		sl_assert_int(d->begin[i], <=, d->begin[i + 1]);
	sl_assert_int(d->begin[d->rows], ==, d->tokens);
	sl_assert_int(d->chosen, >=, 0);
	sl_assert_int(d->chosen, <=, d->tokens);
	if (d->chosen)
		sl_assert_int(d->place[d->chosen - 1], <, d->tokens);
}

void sl_ends_check_batch(const struct sl_ends *e)
{
	int64_t at = 0;

	sl_assert_int(e->chunks, >=, 0);
	sl_assert_int(e->chunks, <=, SL_PLAN_MAX_CHUNKS);
	for (int i = 0; i < e->chunks; i++) {
		const struct sl_chunk *c = &e->chunk[i];

		sl_assert_int(c->call.slot, ==, i);
		sl_assert_int(c->first, ==, at);
		sl_assert_int(c->call.dims.rows, ==, e->rows[i]);
		sl_assert_int(e->rows[i], >, 0);
		sl_assert_int(e->rows[i], <=, e->plan->rows);
		sl_assert(c->call.step == e->step && c->call.training == e->training);
		if (i)
			sl_assert_int(c->answer, >=, e->chunk[i - 1].answer);
		if (e->feed.begin)
			check_tokens(&c->call.dims);
		at += e->rows[i];
	}
	sl_assert_int(at, ==, e->feed.rows);
	sl_assert(e->weight >= 0);
}

void sl_ends_check_chunk(const struct sl_ends *e, int chunk)
{
	sl_assert_int(chunk, >=, 0);
	sl_assert_int(chunk, <, e->chunks);
	sl_assert_int(e->chunk[chunk].call.slot, ==, chunk);
}

void sl_ends_check_done(const struct sl_ends *e, uint64_t done)
{
	if (e->head)
		sl_assert_int(sl_exec_done(e->head), ==, done);
	if (e->tail)
		sl_assert_int(sl_exec_done(e->tail), ==, done);
}
