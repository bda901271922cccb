#include "common/session/fold.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/exec/clip.h"

/* ---- with other processes (average.h: sl_others) */

/* The ends' sum as processes exchange it, before its floats. n: changes in it; 0: no floats follow. */
struct so_far {
	int32_t n;
	uint64_t rows, applied;
};

static size_t sum_bytes(const struct sl_fold *f)
{
	return (size_t)sl_exec_segment(f->trunk)->moving_count * sizeof(float);
}

static enum sl_err take_sum(struct sl_fold *f, float *room)
{
	if (!sl_others_take(f->others, &f->counts, sizeof f->counts) || !f->counts)
		return SL_OK;
	(void)sl_others_take(f->others, room, sum_bytes(f));
	return sl_exec_fold_set(f->trunk, room);
}

static enum sl_err pass_sum(struct sl_fold *f, float *room)
{
	enum sl_err err = f->counts ? sl_exec_fold_get(f->trunk, room) : SL_OK;

	if (err)
		return err;
	sl_others_pass(f->others, &f->counts, sizeof f->counts);
	if (f->counts)
		sl_others_pass(f->others, room, sum_bytes(f));
	sl_others_spread(f->others, &f->counts, sizeof f->counts);
	if (!f->counts)
		return SL_OK;
	sl_others_spread(f->others, room, sum_bytes(f));
	return sl_exec_fold_set(f->trunk, room);
}

/* The ends' sum and its bytes. In a round the changes are summed in double. */
static void *ends_sum(const struct sl_end_sum *s, size_t *bytes)
{
	*bytes = (size_t)s->layout->floats * (s->layout->round ? sizeof *s->total : sizeof *s->sum);
	return s->layout->round ? (void *)s->total : (void *)s->sum;
}

static void begin_ends(const struct sl_fold *f)
{
	struct sl_end_sum *s = f->ends;
	struct so_far head;
	size_t bytes;
	void *sum = ends_sum(s, &bytes);

	sl_end_sum_begin(s);
	f->mean->len = 0;
	if (!sl_others_take(f->others, &head, sizeof head))
		return;
	s->n = head.n;
	s->rows = head.rows;
	s->applied = head.applied;
	if (s->n)
		(void)sl_others_take(f->others, sum, bytes);
}

static void pass_ends(const struct sl_fold *f)
{
	struct sl_end_sum *s = f->ends;
	struct so_far head = {s->n, s->rows, s->applied};
	size_t bytes;
	void *sum = ends_sum(s, &bytes);

	sl_others_pass(f->others, &head, sizeof head);
	if (s->n)
		sl_others_pass(f->others, sum, bytes);
	sl_others_spread(f->others, &head, sizeof head);
	s->n = head.n;
	s->rows = head.rows;
	s->applied = head.applied;
	if (s->n)
		sl_others_spread(f->others, sum, bytes);
}

/* Whether the largest of all processes' `most` is this one's; the lowest rank wins a tie. */
static enum sl_err is_largest(const struct sl_fold *f, double most, bool *largest)
{
	double *all = f->others ? f->others->gather(f->others->arg, &most, sizeof most) : NULL;

	*largest = true;
	if (f->others && !all)
		return SL_ERR_NOMEM;
	for (int r = 0; all && r < f->others->count; r++)
		*largest = *largest && (r < f->others->rank ? all[r] < most : all[r] <= most);
	free(all);
	return SL_OK;
}

/* ---- a step */

/* What was added is what takes part: `counts` of all parts with rows, here and in other processes. A part that was left
 * out adds nothing. */
static void check_sum(const struct sl_fold *f)
{
	uint64_t counts = 0;
	int parts = 0;

	for (int k = 0; k < f->n; k++) {
		const struct sl_fold_part *p = &f->part[k];

		sl_assert_if(p->rows, p->exec);
		sl_assert_if(p->left_out, !p->rows && !p->averaged);
		counts += p->rows ? p->counts : 0;
		parts += p->rows > 0;
	}
	if (f->others)
		sl_assert_int(counts, <=, f->counts);
	else
		sl_assert_int(counts, ==, f->counts);
	if (f->ends && f->counts && !f->others)
		sl_assert_int(f->ends->n, ==, parts);
	sl_assert_if(!f->counts && f->ends, !f->mean->len);
}

static enum sl_err add_part(struct sl_exec *to, const struct sl_fold_part *p)
{
	int64_t rows[SL_PLAN_MAX_CHUNKS];
	const int chunks = sl_plan_split(sl_exec_plan(p->exec), (int64_t)p->rows, rows);

	return sl_exec_fold_add(to, p->exec, rows, chunks);
}

static enum sl_err add_parts(struct sl_fold *f)
{
	float *room = f->others ? malloc(sum_bytes(f) + 1) : NULL;
	enum sl_err err = f->others && !room ? SL_ERR_NOMEM : sl_exec_fold_begin(f->trunk);

	f->counts = 0;
	if (!err && f->others)
		err = take_sum(f, room);
	for (int k = 0; k < f->n && !err; k++)
		if (f->part[k].rows) {
			sl_assert(f->part[k].exec);
			f->counts += f->part[k].counts;
			err = add_part(f->trunk, &f->part[k]);
		}
	if (!err && f->others)
		err = pass_sum(f, room);
	free(room);
	return err;
}

static enum sl_err encode_mean(const struct sl_fold *f, double factor, uint64_t step, struct sl_fail *fail)
{
	enum sl_err err = sl_end_sum_encode(f->ends, factor, step, f->mean, fail);

	if (err) {
		sl_end_coder_rollback(f->ends->coder);
		f->mean->len = 0;
	}
	return err;
}

/* Sums the gradients of head and tail. Clipping uses the norm of head, middle and tail together. */
static enum sl_err sum_ends(struct sl_fold *f, double factor, uint64_t step, struct sl_fail *fail)
{
	const double clip_norm = sl_exec_plan(f->trunk)->spec.clip_norm;
	double middle = 0;

	begin_ends(f);
	for (int k = 0; k < f->n; k++)
		if (f->part[k].rows)
			sl_end_sum_add(f->ends, f->part[k].change);
	pass_ends(f);
	if (!(clip_norm > 0))
		return encode_mean(f, factor, step, fail);
	if (sl_exec_squares(f->trunk, &middle, fail))
		return fail->code;
	f->scale = sl_end_sum_clip(f->ends, factor, clip_norm, middle);
	return encode_mean(f, 1, step, fail);
}

static void leave_out(struct sl_fold_part *p, const char *why)
{
	(void)sl_fail_set(&p->why, SL_ERR_NONFINITE, "%s", why);
	p->left_out = true;
	p->averaged = false;
}

static double squares_of(const struct sl_fold *f, const struct sl_fold_part *p)
{
	double squares = INFINITY;
	struct sl_fail none;

	if (!sl_exec_squares(p->exec, &squares, &none) && f->ends)
		squares += sl_squares(p->change, f->ends->layout->grads);
	return squares;
}

/* Each gradient is finite, but their sum is not: leaves out the largest. */
static enum sl_err leave_out_largest(struct sl_fold *f, const char *why)
{
	struct sl_fold_part *who = NULL;
	char text[SL_FAIL_TEXT];
	double most = -1;
	bool largest;
	enum sl_err err;

	for (int k = 0; k < f->n; k++) {
		const double squares = f->part[k].rows ? squares_of(f, &f->part[k]) : -1;

		if (squares > most) {
			most = squares;
			who = &f->part[k];
		}
	}
	err = is_largest(f, most, &largest);
	snprintf(text, sizeof text, "%.200s of all members, of whom this one has the largest gradient", why);
	if (err || !who || !largest)
		return err;
	leave_out(who, text);
	who->rows = 0;
	return SL_OK;
}

static enum sl_err sum_once(struct sl_fold *f, uint64_t step, struct sl_fail *fail)
{
	enum sl_err err = add_parts(f);
	double factor;

	if (!err && f->counts) {
		factor = sl_plan_own_factor(&sl_exec_plan(f->trunk)->spec, (int64_t)f->counts);
		err = sl_exec_fold_end(f->trunk, factor);
	}
	if (err)
		return sl_fail_set(fail, err, "the members' gradients could not be added");
	if (!f->counts)
		return SL_OK;
	err = sl_exec_check(f->trunk, NULL, 0, fail);
	return err || !f->ends ? err : sum_ends(f, factor, step, fail);
}

enum sl_err sl_part_check(struct sl_exec *e, const int64_t *rows, int chunks, double factor,
			  const struct sl_end_layout *ends, float *change, const struct sl_part_bound *bound,
			  struct sl_fail *fail)
{
	double squares = 0, norm, by;
	bool nobody, *clipped = bound->clipped ? bound->clipped : &nobody;
	enum sl_err err = bound->most > 0 ? sl_exec_squares(e, &squares, fail) : SL_OK;

	*clipped = false;
	if (!err)
		err = sl_exec_check(e, rows, chunks, fail);
	if (err || !(bound->most > 0))
		return err;
	squares += change ? sl_squares(change, ends->grads) : 0;
	norm = sqrt(squares) * factor;
	if (norm <= bound->most)
		return SL_OK;
	if (!bound->clip)
		return sl_fail_at(fail, "share.member_norm", SL_ERR_NONFINITE,
				  "the norm of this member's gradient is %g, and share.member_norm is %g", norm,
				  bound->most);
	*clipped = true;
	by = bound->most / norm;
	for (int64_t i = 0; change && i < ends->grads; i++)
		change[i] *= (float)by;
	return sl_exec_scale(e, by) ? sl_fail_set(fail, SL_ERR_DEVICE, "a member's part could not be clipped") : SL_OK;
}

enum sl_err sl_fold_sum(struct sl_fold *f, uint64_t step, struct sl_fail *fail)
{
	enum sl_err err;

	f->scale = 0;
	do {
		struct sl_fail why = {0};

		err = sum_once(f, step, &why);
		if (err == SL_ERR_NONFINITE && leave_out_largest(f, why.text))
			err = sl_fail_set(&why, SL_ERR_NOMEM, "no memory for what the ranks say");
		if (err)
			*fail = why;
	} while (err == SL_ERR_NONFINITE);
	if (!err)
		check_sum(f);
	return err;
}

static void commit_ends(const struct sl_fold *f)
{
	if (f->ends && f->mean->len)
		sl_end_coder_commit(f->ends->coder);
}

enum sl_err sl_fold_apply(struct sl_fold *f, double lr)
{
	enum sl_err err;

	sl_assert(f->scale >= 0 && f->scale <= 1); /* clipping makes nothing larger */
	err = f->counts ? sl_exec_scale(f->trunk, f->scale) : sl_exec_skip(f->trunk);

	if (!err && f->counts)
		err = sl_exec_commit(f->trunk, lr, NULL, 0);
	if (!err)
		commit_ends(f);
	return err;
}

/* ---- a round */

enum sl_err sl_fold_alone(struct sl_fold_part *p, double lr)
{
	enum sl_err err;

	if (!p->rows)
		return sl_exec_skip(p->copy);
	err = sl_exec_fold_begin(p->copy);
	if (!err)
		err = add_part(p->copy, p);
	if (!err)
		err = sl_exec_fold_end(p->copy, 1);
	if (!err)
		err = sl_exec_commit(p->copy, lr, NULL, 0);
	p->trained += p->counts;
	return err;
}

/* Leaves out parts of which NaN or Inf, or too large a change, would spoil the average. */
static void leave_out_spoiled(struct sl_fold *f)
{
	for (int k = 0; k < f->n; k++) {
		struct sl_fold_part *p = &f->part[k];
		struct sl_fail why;

		if (p->averaged && p->trained &&
		    (sl_copy_check(p->copy, &why) == SL_ERR_NONFINITE ||
		     (f->ends && (sl_end_check(f->ends->layout, p->change, &why) ||
				  sl_end_check_norm(f->ends->layout, p->change, 1, f->most, &why)))))
			leave_out(p, why.text);
	}
}

static enum sl_err average_ends(struct sl_fold *f, uint64_t step, struct sl_fail *fail)
{
	begin_ends(f);
	for (int k = 0; k < f->n; k++)
		if (f->part[k].averaged)
			sl_end_sum_add_rows(f->ends, f->part[k].change, f->part[k].trained);
	pass_ends(f);
	return f->ends->rows ? encode_mean(f, 1, step, fail) : SL_OK;
}

enum sl_err sl_fold_round(struct sl_fold *f, uint64_t step, struct sl_fail *fail)
{
	struct sl_copy *copy = calloc((size_t)f->n + 1, sizeof *copy);
	enum sl_err err = copy ? SL_OK : SL_ERR_NOMEM;
	int n = 0;

	fail->text[0] = '\0';
	leave_out_spoiled(f);
	if (!err && f->ends)
		err = average_ends(f, step, fail);
	for (int k = 0; k < f->n && !err; k++) {
		struct sl_fold_part *p = &f->part[k];

		sl_assert_if(p->averaged, p->copy != NULL);
		sl_assert_if(p->left_out, !p->averaged);
		if (p->copy)
			copy[n++] = (struct sl_copy){p->copy, p->averaged ? p->trained : 0};
		p->trained = 0;
	}
	if (!err)
		err = sl_average(f->trunk, copy, n, f->moments, f->others);
	for (int k = 0; k < f->n && !err; k++)
		if (f->part[k].left_out && f->part[k].copy) /* all may be, and then there is no average */
			err = sl_copy_reset(f->part[k].copy, f->trunk, f->moments != SL_SHARE_KEEP);
	if (!err)
		commit_ends(f);
	free(copy);
	return err && !fail->text[0] ? sl_fail_set(fail, err, "the members' copies could not be averaged") : err;
}
