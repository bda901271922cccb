/* A step or an evaluation's batch of a stretch, on the worker. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/pass/audit_impl.h"
#include "common/base/assert.h"
#include "common/base/clock.h"
#include "kernels/cpu/cpu.h"

static int watched(const struct sl_audit *a, enum sl_dir dir)
{
	if (dir == SL_DIR_MID_ACT && a && a->evaluates)
		return EVALUATED;
	return dir == SL_DIR_MID_ACT ? SENT : dir == SL_DIR_HEAD_GRAD ? GRADIENT : WATCHED;
}

/* What was computed here is a part of all, and a stretch under way stands where its steps have brought it. */
static void check(const struct sl_audit *a)
{
	sl_assert_int(a->share.steps, <=, a->share.all_steps);
	sl_assert_int(a->share.evals, <=, a->share.all_evals);
	sl_assert_int(a->share.last_evals, <=, a->share.all_last);
	sl_assert_int(a->share.all_last, <=, a->share.all_evals);
	if (!a->on)
		return;
	sl_assert_int(a->begin + a->held.steps, ==, a->done);
	if (a->every)
		sl_assert_int(a->done, <=, a->total);
	sl_assert_if(a->held.steps, a->step + 1 == a->done);
	sl_assert_if(a->nonfinite, a->held.steps > 0);
}

/* Of all values of a run. */
static uint64_t hash_of(const struct sl_audit *a, enum sl_dir dir, const struct sl_tensor *x)
{
	const int n = sl_plan_cut_values(a->setup->plan, dir == SL_DIR_MID_ACT);
	uint64_t hash = 0;

	for (int v = 0; v < n; v++)
		hash = hash * 0x100000001b3 +
		       sl_key_hash(&a->note.secret, x[v].data, (size_t)sl_shape_count(&x[v].shape) * sizeof(float));
	return hash | 1;
}

void sl_audit_crossed(void *arg, enum sl_dir dir, int chunk, const struct sl_tensor *x)
{
	struct sl_audit *a = arg;
	const int which = watched(a, dir);

	if (which < WATCHED)
		a->seen[which][chunk] = hash_of(a, dir, x);
}

enum sl_err sl_audit_differs(const struct sl_audit *a, const char *what, struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_AUDIT,
			   "audit: %sstep %" PRIu64
			   ": %s is not what the agreed network, loss, order and codecs give. The "
			   "server computed something else, or not with the kernels that it names (%s; here cpu: %s)",
			   a->evaluates ? "evaluation after " : "", a->evaluates ? a->done : a->step + 1, what,
			   a->there, sl_cpu_describe());
}

enum sl_err sl_audit_pass_over(struct sl_audit *a, uint64_t step, struct sl_fail *fail)
{
	if (!a->on || !a->nonfinite || step != a->done)
		return SL_OK;
	a->nonfinite = false;
	return sl_local_set_done(a->local, step, fail);
}

/* The batch of an evaluation with the weights after a->done steps. */
static enum sl_err repeat_evaluation(struct sl_audit *a, const struct sl_feed *feed, uint64_t number,
				     struct sl_fail *fail)
{
	struct sl_step_result result;
	enum sl_err err = sl_audit_pass_over(a, a->done, fail);

	if (number == 0)
		a->share.last_evals = a->share.all_last = 0;
	a->share.all_last++;
	a->share.last_evals += a->on;
	a->share.evals += a->on;
	if (!a->on || err)
		return err;
	memset(a->seen[EVALUATED], 0, sizeof a->seen[EVALUATED]);
	err = sl_local_eval(a->local, feed, number, &result, fail);
	return err == SL_ERR_NONFINITE ? SL_OK : err;
}

enum sl_err sl_audit_repeat(struct sl_audit *a, const struct sl_feed *feed, uint64_t number, bool training, double lr,
			    struct sl_fail *fail)
{
	struct sl_step_result result;
	const uint64_t began = sl_now_ns();
	enum sl_err err;

	if (!a)
		return SL_OK;
	a->evaluates = !training;
	if (!training) {
		a->share.all_evals++;
		err = repeat_evaluation(a, feed, number, fail);
		a->held.seconds += sl_seconds_since(began);
		return err;
	}
	a->share.all_steps++;
	a->share.steps += a->on;
	check(a);
	if (!a->on || number + 1 == a->done) /* it was computed already: an earlier link was lost in it */
		return SL_OK;
	err = sl_audit_pass_over(a, number, fail);
	if (err)
		return err;
	sl_assert_int(number, ==, a->done); /* a stretch leaves out no step */
	memset(a->seen, 0, sizeof a->seen);
	a->step = number;
	err = sl_local_step(a->local, feed, number, lr, &result, fail);
	a->cuts = 0;
	a->held.seconds += sl_seconds_since(began);
	a->held.steps++;
	a->done = number + 1;
	a->nonfinite = err != SL_OK;
	check(a);
	return err == SL_ERR_NONFINITE ? SL_OK : err; /* the step with the server will find it, too */
}

enum sl_err sl_audit_compare(const struct sl_audit *a, enum sl_dir dir, int chunk, const struct sl_tensor *x,
			     struct sl_fail *fail)
{
	const int which = watched(a, dir);
	char what[64];

	sl_assert_int(which, <, WATCHED);
	if (!a || !a->on || !a->seen[which][chunk] || a->seen[which][chunk] == hash_of(a, dir, x))
		return SL_OK;
	snprintf(what, sizeof what, "%s of chunk %d", sl_dir_name(dir), chunk);
	return sl_audit_differs(a, what, fail);
}

enum sl_err sl_audit_applies(const struct sl_audit *a, double squares, struct sl_fail *fail)
{
	char what[96];
	double here;

	if (a && a->on && a->nonfinite)
		return sl_audit_differs(a, "a step that is applied, and has NaN or Inf here,", fail);
	if (!a || !a->on || a->setup->plan->spec.clip_norm <= 0)
		return SL_OK;
	here = sl_local_middle_squares(a->local);
	if (squares == here)
		return SL_OK;
	snprintf(what, sizeof what, "the middle's sum of squares, %.9g where this host has %.9g,", squares, here);
	return sl_audit_differs(a, what, fail);
}
