/* The tasks of a pass, on the worker: they compute head and tail, code what crosses, and apply the step. */
#include <inttypes.h>
#include <string.h>

#include "client/pass/audit.h"
#include "client/pass/remote_parts.h"
#include "client/step/ends_check.h"
#include "common/base/assert.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/weights/weights.h"

/* Checks a step after its last task, before the server is asked to apply it. */
static enum sl_err check_last(struct sl_remote *r, int chunk, struct sl_fail *fail)
{
	enum sl_err err;

	if (chunk != r->ends.chunks - 1)
		return SL_OK;
	err = sl_ends_check(&r->ends, fail);
	if (!err && sl_plan_clip_own(&r->conf.link.plan->spec) > 0)
		err = sl_ends_squares(&r->ends, r->squares, fail);
	return err;
}

static enum sl_err head_forward(struct sl_remote *r, int chunk, struct sl_fail *fail)
{
	struct sl_tensor out[SL_CUT_VALUES];
	enum sl_err err = SL_OK;

	sl_exec_crossing(r->ends.head, SL_END_OUT, chunk, &r->ends.chunk[chunk].call.dims, out);
	sl_port_compute_begins(sl_link_port(r->link));
	if (chunk == 0)
		err = sl_audit_repeat(r->conf.audit, &r->ends.feed, r->ends.step, r->ends.training, r->lr, fail);
	if (!err)
		err = sl_ends_head_forward(&r->ends, chunk);
	if (!err && r->ends.training && !r->ends.tail && r->conf.link.plan->spec.no_grad[0])
		err = check_last(r, chunk, fail);
	if (!err)
		err = sl_ends_sent(&r->ends, SL_DIR_HEAD_ACT, chunk, out, fail);
	sl_port_compute_ends(sl_link_port(r->link));
	return err ? err : sl_port_encode(sl_link_port(r->link), SL_DIR_HEAD_ACT, chunk, out, fail);
}

static enum sl_err tail(struct sl_remote *r, int chunk, struct sl_fail *fail)
{
	const bool *no_grad = r->conf.link.plan->spec.no_grad;
	const struct sl_dims *dims = &r->ends.chunk[chunk].call.dims;
	struct sl_tensor x[SL_CUT_VALUES];
	enum sl_err err;

	sl_exec_crossing(r->ends.tail, SL_END_IN, chunk, dims, x);
	err = sl_port_decode(sl_link_port(r->link), SL_DIR_MID_ACT, chunk, x, fail);
	if (!err)
		err = sl_audit_compare(r->conf.audit, SL_DIR_MID_ACT, chunk, x, fail);
	sl_port_compute_begins(sl_link_port(r->link));
	if (!err)
		err = sl_ends_tail(&r->ends, chunk, fail);
	if (!err && r->ends.training && (no_grad[0] || !r->ends.head))
		err = check_last(r, chunk, fail);
	sl_port_compute_ends(sl_link_port(r->link));
	if (!err && r->ends.training && !no_grad[1]) {
		sl_exec_crossing(r->ends.tail, SL_END_DIN, chunk, dims, x);
		err = sl_ends_sent(&r->ends, SL_DIR_MID_GRAD, chunk, x, fail);
		if (!err)
			err = sl_port_encode(sl_link_port(r->link), SL_DIR_MID_GRAD, chunk, x, fail);
	}
	return err;
}

static enum sl_err head_backward(struct sl_remote *r, int chunk, struct sl_fail *fail)
{
	struct sl_tensor dout[SL_CUT_VALUES];
	enum sl_err err;

	sl_exec_crossing(r->ends.head, SL_END_DOUT, chunk, &r->ends.chunk[chunk].call.dims, dout);
	err = sl_port_decode(sl_link_port(r->link), SL_DIR_HEAD_GRAD, chunk, dout, fail);
	if (!err)
		err = sl_audit_compare(r->conf.audit, SL_DIR_HEAD_GRAD, chunk, dout, fail);
	sl_port_compute_begins(sl_link_port(r->link));
	if (!err)
		err = sl_ends_head_backward(&r->ends, chunk);
	if (!err)
		err = check_last(r, chunk, fail);
	sl_port_compute_ends(sl_link_port(r->link));
	return err;
}

/* Fills r->change with what the step's chunks would change in head and tail, or with what a round has changed. */
static enum sl_err change_of(struct sl_remote *r)
{
	enum sl_err err;

	if (!r->round.ends)
		return sl_ends_change(&r->ends, &r->layout, r->change);
	r->torn = true; /* while _tell applies the step and takes it back */
	err = sl_ends_round_tell(&r->round, !sl_session_skips(sl_link_session(r->link)), r->lr,
				 sl_link_session(r->link)->grad_scale, r->change);
	r->torn = err;
	return err;
}

static enum sl_err tell(struct sl_remote *r, struct sl_fail *fail)
{
	struct sl_buf run = sl_port_end_room(sl_link_port(r->link), SL_END_GRAD);
	enum sl_err err;

	sl_end_coder_rollback(r->end[SL_END_GRAD]); /* drops what an abandoned step left */
	err = change_of(r);
	r->told = true;
	if (!err)
		err = sl_end_encode(r->end[SL_END_GRAD], r->ends.step, r->change, &run);
	sl_assert_int(run.len, <=, sl_end_coder_bound(r->end[SL_END_GRAD]));
	sl_port_end_filled(sl_link_port(r->link), SL_END_GRAD, &run, sl_end_coder_nominal(r->end[SL_END_GRAD]));
	return err ? sl_fail_set(fail, err, "end_grad: %s", sl_err_text(err)) : SL_OK;
}

/* Leaves the hash of the state in `run`, in its place. */
static void hash_state(const struct sl_remote *r, const struct sl_sealed *seal, const float *state, struct sl_buf *run)
{
	const struct sl_bytes bytes = {(const uint8_t *)state, (size_t)r->state.floats * sizeof *state};
	uint8_t hash[SL_WIRE_ENDS_HASH];

	if (r->conf.seal)
		sl_sealed_hash(seal, bytes, hash, sizeof hash);
	else
		sl_weights_hash(state, r->state.floats, hash);
	memcpy(run->data, hash, sizeof hash);
}

/* Sends the whole state of head and tail, for the store or a member that comes; or its hash. */
static enum sl_err send_ends_state(struct sl_remote *r, struct sl_fail *fail)
{
	struct sl_buf run = sl_port_end_room(sl_link_port(r->link), SL_END_STATE);
	const struct sl_sealed seal = sl_remote_seal(r, sl_link_session(r->link)->branch);
	float *to = (float *)(void *)(run.data + sl_remote_seal_bytes(r));
	enum sl_err err;

	SL_FAILPOINT(SL_FP_CLIENT_GIVES);
	sl_assert_int(run.cap, ==, sl_remote_seal_bytes(r) + (size_t)r->state.floats * sizeof *to);
	memset(to, 0, run.cap - sl_remote_seal_bytes(r));
	err = sl_ends_get_state(&r->ends, &r->state, to);
	run.len = sl_link_session(r->link)->gift_bytes;
	sl_assert(run.len == SL_WIRE_ENDS_HASH || run.len == run.cap); /* the hash, or all of it */
	if (!err && run.len == SL_WIRE_ENDS_HASH)
		hash_state(r, &seal, to, &run);
	else if (!err && r->conf.seal)
		sl_sealed_close(&seal, run.data, (size_t)r->state.floats * sizeof *to);
	sl_port_end_filled(sl_link_port(r->link), SL_END_STATE, &run, 0);
	return err ? sl_fail_set(fail, err, "the head and tail could not be read back") : SL_OK;
}

/* Decodes the mean of the step, if there is one. */
static enum sl_err hear(struct sl_remote *r, struct sl_fail *fail)
{
	enum sl_err err;

	if (sl_link_session(r->link)->decided != SL_DECIDED_MEAN)
		return SL_OK;
	err = sl_end_decode(r->end[SL_END_MEAN], r->ends.step, sl_port_end_run(sl_link_port(r->link), SL_END_MEAN),
			    r->change, fail);
	sl_port_end_heard(sl_link_port(r->link), SL_END_MEAN, sl_end_coder_nominal(r->end[SL_END_MEAN]));
	if (!err && r->round.ends)
		return sl_ends_round_check(&r->round, r->change, fail);
	if (!err && sl_end_check(&r->layout, r->change, fail))
		err = SL_ERR_PAYLOAD; /* the server has applied the step, so the run cannot go on */
	return err;
}

/* Applies the member's own part of a step and then, at the end of a round, the mean. A member that skips the last step
 * has sent its change of the round nevertheless, unless the group went on without it (late). */
static enum sl_err commit_round(struct sl_remote *r, bool skip)
{
	const struct sl_session *s = sl_link_session(r->link);
	const double scale = r->told ? 0 : s->grad_scale; /* sending the change has scaled the gradient */
	enum sl_err err = skip ? SL_OK : sl_ends_commit(&r->ends, r->lr, scale);

	if (r->told && !s->late)
		sl_end_coder_commit(r->end[SL_END_GRAD]);
	else
		sl_end_coder_rollback(r->end[SL_END_GRAD]);
	r->told = false;
	return err || s->decided != SL_DECIDED_MEAN ? err : sl_ends_round_hear(&r->round, r->change);
}

static enum sl_err commit_shared(struct sl_remote *r, bool skip)
{
	if (r->round.ends)
		return commit_round(r, skip);
	if (skip)
		sl_end_coder_rollback(r->end[SL_END_GRAD]);
	else
		sl_end_coder_commit(r->end[SL_END_GRAD]);
	return sl_link_session(r->link)->decided == SL_DECIDED_MEAN
		       ? sl_ends_commit_mean(&r->ends, &r->layout, r->change, r->lr)
		       : SL_OK;
}

/* Where the members of a group do not agree, head and tail take the learning rate that the middle took. */
static void take_lr(struct sl_remote *r)
{
	const double lr = sl_link_session(r->link)->lr;

	if (lr != r->lr)
		sl_log_limited(SL_LOG_WARN, "group-lr",
			       "step %" PRIu64 ": the group takes the learning rate %g, and this client's is %g: all "
			       "members need the same train.schedule and train.epochs",
			       r->ends.step + 1, lr, r->lr);
	r->lr = lr;
}

/* Before a step is applied: nothing of it is, and the session and its ends speak of the same one. A member that comes
 * back late stands at the last step that it took part in. */
static void check_commit(const struct sl_remote *r)
{
	const struct sl_session *s = sl_link_session(r->link);

	sl_assert(!r->torn);
	sl_assert_int(s->number, ==, r->ends.step);
	sl_assert_int(r->applied, <=, r->ends.step);
	if (r->ends.head)
		sl_assert_int(sl_exec_done(r->ends.head), <=, r->ends.step);
	if (r->ends.tail)
		sl_assert_int(sl_exec_done(r->ends.tail), <=, r->ends.step);
}

/* A task works on a chunk of the pass that the session is in. */
static void check_chunk(const struct sl_remote *r, int chunk)
{
	const struct sl_session *s = sl_link_session(r->link);

	sl_assert_int(chunk, >=, 0);
	sl_assert_int(chunk, <, r->ends.chunks);
	sl_assert_int(s->chunks, ==, r->ends.chunks);
	sl_assert(s->training == r->ends.training);
}

enum sl_err sl_remote_commit(struct sl_remote *r, struct sl_fail *fail)
{
	bool skip = sl_session_skips(sl_link_session(r->link));
	enum sl_err err;

	check_commit(r);
	err = sl_port_set_done(sl_link_port(r->link), r->ends.step + 1,
			       fail); /* first, since it may fail, while nothing has changed yet */
	if (!err && r->change)
		err = hear(r, fail);
	if (!err && !skip)
		err = sl_audit_applies(r->conf.audit, sl_link_session(r->link)->squares[1], fail);
	if (err)
		return err;
	take_lr(r);
	r->torn = true;
	sl_port_compute_begins(sl_link_port(r->link));
	SL_FAILPOINT(skip ? SL_FP_CLIENT_SKIP : SL_FP_CLIENT_APPLY);
	if (r->change)
		err = commit_shared(r, skip);
	else
		err = skip ? SL_OK : sl_ends_commit(&r->ends, r->lr, sl_link_session(r->link)->grad_scale);
	sl_port_compute_ends(sl_link_port(r->link));
	if (!err && !skip && SL_FAILPOINT_CALL(SL_FP_CLIENT_CODECS, 0) != 0)
		err = SL_ERR_DEVICE;
	if (err)
		return err;
	if (!skip)
		sl_port_commit_codecs(sl_link_port(r->link));
	err = sl_ends_set_done(&r->ends, r->ends.step + 1);
	if (err)
		return err;
	sl_ends_check_done(&r->ends, r->ends.step + 1);
	sl_assert_if(r->round.ends, !r->told);
	r->applied = r->ends.step + 1;
	r->torn = false;
	SL_FAILPOINT(SL_FP_CLIENT_APPLIED);
	return SL_OK;
}

enum sl_err sl_remote_run_task(void *arg, enum sl_task task, int chunk, struct sl_fail *fail)
{
	struct sl_remote *r = arg;

	if (task == SL_TASK_HEAD_FWD || task == SL_TASK_TAIL || task == SL_TASK_HEAD_BWD)
		check_chunk(r, chunk);
	switch (task) {
	case SL_TASK_HEAD_FWD:
		return head_forward(r, chunk, fail);
	case SL_TASK_TAIL:
		return tail(r, chunk, fail);
	case SL_TASK_HEAD_BWD:
		return head_backward(r, chunk, fail);
	case SL_TASK_TELL:
		return tell(r, fail);
	case SL_TASK_COMMIT:
		return sl_remote_commit(r, fail);
	case SL_TASK_GIVE:
		return send_ends_state(r, fail);
	default:
		return sl_fail_set(fail, SL_ERR_BUG, "a client has no task %s", sl_task_name(task));
	}
}
