#include "common/exec/exec_order.h"

#include "common/exec/exec_impl.h"

/* Whether a lender is still to add the gradient to its sum. */
static bool waits(const struct sl_exec *e)
{
	const struct sl_exec *l = e->lender;

	for (int k = 0; l && k < l->n_waiting; k++)
		if (l->waiting[k] == e)
			return true;
	return false;
}

static void check_call(const struct sl_exec *e, const struct sl_exec_call *call)
{
	sl_assert(!e->bare && !waits(e));
	sl_assert_int(call->slot, >=, 0);
	sl_assert_int(call->slot, <, e->slots);
	sl_assert_int(call->dims.rows, >=, 1);
	sl_assert_int(call->dims.rows, <=, e->plan->rows);
}

void sl_exec_order_begin(struct sl_exec *e)
{
	sl_assert(!waits(e) && e->n_waiting == 0);
	for (int slot = 0; slot < e->slots; slot++)
		e->mark[slot].has = SL_SLOT_NOTHING;
	e->forwards = e->backwards = 0;
	e->committed = false;
}

void sl_exec_order_forward(struct sl_exec *e, const struct sl_exec_call *call)
{
	check_call(e, call);
	e->forwards += call->training;
	e->mark[call->slot] = (struct sl_slot_mark){SL_SLOT_FORWARD, call->training, call->step, call->dims.rows};
}

void sl_exec_order_backward(struct sl_exec *e, const struct sl_exec_call *call)
{
	struct sl_slot_mark *m;

	check_call(e, call);
	m = &e->mark[call->slot];
	sl_assert(e->to == e->grad && !e->averaged && !e->be->evaluates);
	sl_assert_int(m->has, ==, SL_SLOT_FORWARD);
	sl_assert(m->training == call->training);
	sl_assert_int(m->step, ==, call->step);
	sl_assert_int(m->rows, ==, call->dims.rows);
	m->has = SL_SLOT_BACKWARD;
	e->backwards += call->training;
}

/* Where nothing learns, what the segment gave for a row may have been kept, and its chunk does not go through it. */
void sl_exec_order_given(const struct sl_exec *e, const int64_t *rows, int chunks)
{
	sl_assert_int(chunks, <=, e->slots);
	if (!e->segment->trainable_count || !chunks)
		return;
	sl_assert_int(e->forwards, ==, chunks);
	for (int slot = 0; slot < chunks; slot++) {
		sl_assert(e->mark[slot].has != SL_SLOT_NOTHING && e->mark[slot].training);
		sl_assert_int(e->mark[slot].step, ==, e->mark[0].step);
		sl_assert_int(e->mark[slot].rows, ==, rows[slot]);
	}
	sl_assert_int(e->backwards, <=, chunks);
	if (e->backwards && !e->plan->spec.free_calls) /* nothing goes backward where nothing in front learns */
		sl_assert_int(e->backwards, ==, chunks);
}

void sl_exec_order_commit(struct sl_exec *e, const int64_t *rows, int chunks)
{
	/* weights are the trained ones, not their average, and no gradient is left to be added */
	sl_assert(!e->averaged);
	sl_assert_int(e->n_waiting, ==, 0);
	sl_assert(e->to == (e->own ? e->own : e->grad)); /* no chunk is half added */
	sl_exec_order_given(e, rows, chunks);
	sl_assert(!chunks || !e->committed); /* a step is applied once */
	e->committed = e->committed || chunks;
}
