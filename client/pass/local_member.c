/* A member of a group in one process (local_group.c): its part of a step, without the trunk's. */
#include "client/pass/local_impl.h"

#include <stdlib.h>

struct sl_exec *sl_local_middle(struct sl_local *l)
{
	return l->middle;
}

int sl_local_rows(const struct sl_local *l, int64_t rows[SL_PLAN_MAX_CHUNKS])
{
	return sl_plan_split(l->plan, l->ends.feed.rows, rows);
}

const struct sl_end_layout *sl_local_end_layout(const struct sl_local *l)
{
	return &l->layout;
}

float *sl_local_told(const struct sl_local *l)
{
	return l->change;
}

void sl_local_hear(struct sl_local *l, struct sl_bytes mean)
{
	l->mean = mean;
}

void sl_local_forget_codecs(struct sl_local *l)
{
	for (int side = 0; side < SIDES; side++) {
		for (int dir = 0; dir < SL_DIR_COUNT; dir++)
			if (l->codec[side][dir])
				sl_codec_forget(l->codec[side][dir]);
		if (l->end[side][SL_END_GRAD])
			sl_end_coder_forget(l->end[side][SL_END_GRAD]);
	}
}

enum sl_err sl_local_give_ends(struct sl_local *l, const struct sl_local_state *state)
{
	enum sl_err err = sl_exec_state_give(&state->part[SL_HEAD], l->ends.head);

	l->ends.weights = state->weights;
	return err ? err : sl_exec_state_give(&state->part[SL_TAIL], l->ends.tail);
}

enum sl_err sl_local_copy_ends(struct sl_local *l, const struct sl_local *from)
{
	const struct sl_end_layout layout = sl_end_layout_state(&l->layout, &l->plan->spec);
	float *state = calloc((size_t)layout.floats + 1, sizeof *state);
	enum sl_err err = state ? sl_ends_get_state(&from->ends, &layout, state) : SL_ERR_NOMEM;

	if (!err)
		err = sl_ends_set_state(&l->ends, &layout, state);
	if (!err && l->round.ends)
		err = sl_ends_round_begin(&l->round);
	free(state);
	return err;
}

static void count_end(struct sl_local *l, enum sl_ends_run end, size_t bytes)
{
	l->payload[SL_DIR_COUNT + end] += bytes;
	l->nominal[SL_DIR_COUNT + end] += sl_end_coder_nominal(l->end[CLIENT][end]);
}

/* Does to l->change what a link would: encodes and decodes it. */
static enum sl_err cross(struct sl_local *l, struct sl_fail *fail)
{
	enum sl_err err;

	l->buf.len = 0;
	err = sl_end_encode(l->end[CLIENT][SL_END_GRAD], l->ends.step, l->change, &l->buf);
	if (err)
		return sl_fail_set(fail, err, "end_grad: %s", sl_err_text(err));
	l->tx_bytes += l->buf.len;
	count_end(l, SL_END_GRAD, l->buf.len);
	err = sl_end_decode(l->end[SERVER][SL_END_GRAD], l->ends.step, (struct sl_bytes){l->buf.data, l->buf.len},
			    l->change, fail);
	return err;
}

static enum sl_err tell(struct sl_local *l, struct sl_fail *fail)
{
	enum sl_err err = sl_ends_change(&l->ends, &l->layout, l->change);

	if (!err)
		err = cross(l, fail);
	return err ? err : sl_end_check(&l->layout, l->change, fail);
}

enum sl_err sl_local_tell_round(struct sl_local *l, uint64_t number, bool with_step, double lr, struct sl_fail *fail)
{
	enum sl_err err = sl_ends_round_tell(&l->round, with_step, lr, l->grad_scale, l->change);

	if (number != l->ends.step)
		sl_ends_take(&l->ends, &(struct sl_feed){0}, number, true);
	sl_end_coder_rollback(l->end[CLIENT][SL_END_GRAD]);
	l->told = true;
	return err ? err : cross(l, fail);
}

/* Applies the mean, also to a member that was not in the step. */
static enum sl_err apply_mean(struct sl_local *l, double lr, struct sl_fail *fail)
{
	enum sl_err err;

	if (!l->mean.len)
		return SL_OK;
	l->rx_bytes += l->mean.len;
	err = sl_end_decode(l->end[CLIENT][SL_END_MEAN], l->ends.step, l->mean, l->change, fail);
	count_end(l, SL_END_MEAN, l->mean.len);
	if (!err && l->round.ends)
		err = sl_ends_round_check(&l->round, l->change, fail);
	if (err)
		return err;
	return l->round.ends ? sl_ends_round_hear(&l->round, l->change)
			     : sl_ends_commit_mean(&l->ends, &l->layout, l->change, lr);
}

/* Applies what is the member's own of a step that it is in. A change of a round that it has sent counts in any case, so
 * its coder commits. */
static enum sl_err commit_own(struct sl_local *l, double lr, bool in)
{
	const bool by_step = l->change && !l->round.ends;
	const double scale = l->told ? 0 : l->grad_scale; /* sending a round's change has scaled the gradient already */

	if (l->round.ends ? l->told : in)
		sl_end_coder_commit(l->end[CLIENT][SL_END_GRAD]);
	l->told = false;
	return in && !by_step ? sl_ends_commit(&l->ends, lr, scale) : SL_OK;
}

enum sl_err sl_local_begin(struct sl_local *l, const struct sl_feed *feed, uint64_t number, struct sl_fail *fail)
{
	int64_t rows[SL_PLAN_MAX_CHUNKS];
	enum sl_err err;

	fail->text[0] = '\0';
	sl_ends_take(&l->ends, feed, number, true);
	sl_local_begin_pass(l);
	err = sl_local_chunks(l, fail);
	if (!err)
		err = sl_ends_check(&l->ends, fail);
	if (!err)
		err = sl_exec_check(l->middle, rows, sl_local_rows(l, rows), fail);
	if (!err && sl_plan_clip_own(&l->plan->spec) > 0)
		err = sl_local_find_scale(l, &l->grad_scale, fail);
	if (!err)
		err = sl_exec_scale(l->middle, l->grad_scale);
	if (!err && l->change && !l->round.ends)
		err = tell(l, fail);
	sl_local_name_step(l, err, fail);
	return err;
}

enum sl_err sl_local_end(struct sl_local *l, double lr, bool in, struct sl_step_result *result, struct sl_fail *fail)
{
	enum sl_err err;

	fail->text[0] = '\0';
	err = commit_own(l, lr, in);
	if (!in)
		sl_local_roll_back(l);
	for (int i = 0; i < SIDES * SL_DIR_COUNT && in; i++)
		sl_codec_commit(l->codec[i / SL_DIR_COUNT][i % SL_DIR_COUNT]);
	if (!err && l->change)
		err = apply_mean(l, lr, fail);
	if (!err)
		err = sl_local_set_done(l, l->ends.step + 1, fail);
	sl_local_name_step(l, err, fail);
	if (!err)
		*result = sl_local_result(l, lr, !in);
	return err;
}

enum sl_err sl_local_pass(struct sl_local *l, uint64_t number, double lr, struct sl_step_result *result,
			  struct sl_fail *fail)
{
	enum sl_err err;

	fail->text[0] = '\0';
	sl_ends_take(&l->ends, &(struct sl_feed){0}, number, true);
	err = commit_own(l, lr, false);
	if (!err && l->change)
		err = apply_mean(l, lr, fail);
	if (!err)
		err = sl_local_set_done(l, number + 1, fail);
	sl_local_name_step(l, err, fail);
	*result = (struct sl_step_result){.step = number, .lr = lr, .passed = true};
	return err;
}
