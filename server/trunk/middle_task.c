#include "server/trunk/middle_task.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/failpoint.h"
#include "server/trunk/cost.h"
#include "server/trunk/member_ends.h"

static enum sl_err agree(struct sl_middle *m, struct sl_fail *fail)
{
	const struct sl_hello *h = &sl_port_session(m->port)->hello;
	enum sl_err err = sl_agreement_hear(&m->agreement, &m->trunk.plan, sl_port_asked(m->port), fail);
	char ours[SL_HEX16_TEXT], theirs[SL_HEX16_TEXT];

	if (err || memcmp(m->trunk.plan->middle_hash, h->plan_hash, sizeof h->plan_hash) == 0)
		return err;
	return sl_fail_set(
		fail, SL_ERR_MISMATCH,
		"plan hash: the client (%s) has %s, this server has %s: the two versions build different plans",
		h->software, sl_hex16(h->plan_hash, theirs), sl_hex16(m->trunk.plan->middle_hash, ours));
}

/* Called before anything is allocated, since a Hello may ask for any amount. Sessions open one after another on one
 * worker; meanwhile others can only give memory back. */
static enum sl_err check_memory(struct sl_middle *m, struct sl_memory back, struct sl_fail *fail)
{
	return sl_session_memory_check(&m->memory, m->env.be, m->env.device, m->env.memory, back, fail);
}

static enum sl_err count_memory(struct sl_middle *m, struct sl_fail *fail)
{
	return sl_session_memory(&m->memory, (const struct sl_exec *[]){m->trunk.exec}, SL_SESSION_SERVER,
				 m->agreement.agreed.share.group[0] != 0, m->env.be, m->env.host_be, m->agreement.codec,
				 fail);
}

/* Checks the memory. With `recompute: auto`, a session that does not fit is tried again with recomputed activations. */
static enum sl_err admit_memory(struct sl_middle *m, struct sl_memory back, struct sl_fail *fail)
{
	enum sl_err err = check_memory(m, back, fail);

	if (m->env.recompute != SL_RECOMPUTE_AUTO || (err != SL_ERR_LIMIT && err != SL_ERR_BUSY))
		return err;
	err = sl_exec_recompute(m->trunk.exec, fail);
	if (!err)
		err = count_memory(m, fail);
	return err ? err : check_memory(m, back, fail);
}

/* Checks whether the server can serve what a Hello asks for. It takes no memory yet: after a refusal an older link of
 * the session goes on. */
static enum sl_err admit(struct sl_middle *m, struct sl_fail *fail)
{
	enum sl_err err = agree(m, fail);
	struct sl_memory back = m->back;
	struct sl_cost cost;

	if (!err) {
		cost = sl_session_cost(m->trunk.plan, m->agreement.codec);
		err = sl_session_cost_check(&cost, m->env.task_s, m->env.piece_ms, fail);
	}
	if (!err)
		err = sl_exec_prepare(&m->trunk.exec, m->trunk.plan, SL_MIDDLE, m->env.be, fail);
	if (!err && m->trunk.plan->spec.party) /* the trunk's executor computes */
		err = sl_exec_bare(m->trunk.exec, fail);
	else if (!err && m->env.recompute == SL_RECOMPUTE_ON)
		err = sl_exec_recompute(m->trunk.exec, fail);
	if (!err)
		err = count_memory(m, fail);
	if (!err && m->trunk.plan->spec.shared_ends)
		err = sl_member_ends_hear(m, sl_port_asked(m->port), fail);
	sl_need(&back.host, 1, sl_port_asked(m->port).len); /* the Hello's payload is counted, and freed after ADMIT */
	if (!err && m->agreement.agreed.share.group[0])
		err = sl_agreement_trunk(&m->agreement, &m->group_plan, sl_port_asked(m->port), fail);
	return err ? err : admit_memory(m, back, fail);
}

/* NOMEM becomes BUSY: the session fits by the figures, so others have the memory, and may free it. */
static enum sl_err open_session(struct sl_middle *m, struct sl_fail *fail)
{
	enum sl_err err = check_memory(m, (struct sl_memory){0}, fail);
	struct sl_fail why;

	if (!err)
		sl_charge_set(&m->charge, m->env.memory, sl_memory_total(sl_session_memory_sum(&m->memory)));
	if (!err)
		err = m->seat->lend(m, fail);
	if (!err)
		err = sl_port_equip(m->port, m->trunk.plan, m->env.be, m->env.host_be, m->agreement.codec, fail);
	if (!err)
		err = m->seat->task[SL_TASK_OPEN](m, fail);
	if (err != SL_ERR_NOMEM)
		return err;
	why = *fail;
	return sl_fail_set(fail, SL_ERR_BUSY, "%s; come back when others have ended", why.text);
}

static struct sl_exec_call exec_call(struct sl_middle *m, int chunk)
{
	const struct sl_session *s = sl_port_session(m->port);

	return (struct sl_exec_call){
		.slot = chunk,
		.chunk = sl_plan_chunk_number(m->trunk.plan, chunk),
		.dims = sl_port_dims(m->port, chunk),
		.step = s->number,
		.training = s->training,
	};
}

static enum sl_err compute_forward(struct sl_middle *m, const struct sl_exec_call *call, struct sl_fail *fail)
{
	struct sl_exec *exec = m->seat->exec(m);
	enum sl_err err = call->slot == 0 && call->training ? sl_exec_begin(exec) : SL_OK;

	SL_FAILPOINT(call->training ? SL_FP_NONE : SL_FP_SERVER_EVAL);
	if (!err)
		err = sl_exec_cache_take(exec, &call->dims, fail);
	return err ? err : sl_exec_forward(exec, call, NULL);
}

static enum sl_err compute_backward(struct sl_middle *m, const struct sl_exec_call *call, struct sl_fail *fail)
{
	const struct sl_plan_spec *spec = &m->trunk.plan->spec;
	struct sl_exec *exec = m->seat->exec(m);
	enum sl_err err = sl_exec_backward(exec, call, NULL);
	const struct sl_session *s = sl_port_session(m->port);
	const int64_t counts = (int64_t)sl_session_counts(s);
	const bool last = call->slot == s->chunks - 1;
	const bool cheats = last && SL_FAILPOINT_CALL(SL_FP_SERVER_CHEAT_NORM, 0) != 0;

	if (!err && last)
		err = sl_exec_scale(exec, sl_plan_sum_factor(spec, counts));
	if (err || !(sl_plan_clip_own(spec) > 0) || !last)
		return err;
	err = sl_exec_squares(exec, &m->squares, fail);
	m->squares = sl_plan_own_squares(spec, counts, m->squares) / (cheats ? 4 : 1);
	return err;
}

/* A pass over one chunk: which tensors it decodes and encodes, and where they are. In a vertical group the session of
 * the party with labels computes; the other one's only decodes head_act and encodes head_grad. */
struct pass {
	enum sl_dir from, to;
	enum sl_exec_end in, out;
	enum sl_err (*compute)(struct sl_middle *m, const struct sl_exec_call *call, struct sl_fail *fail);
};
static const struct pass forward = {SL_DIR_HEAD_ACT, SL_DIR_MID_ACT, SL_END_IN, SL_END_OUT, compute_forward};
static const struct pass backward = {SL_DIR_MID_GRAD, SL_DIR_HEAD_GRAD, SL_END_DOUT, SL_END_DIN, compute_backward};

/* The tensors at an end of the trunk's middle, of a party with inputs of its own only these. */
static void crossing(const struct sl_middle *m, enum sl_exec_end end, int place, const struct sl_dims *dims,
		     struct sl_tensor x[SL_CUT_VALUES])
{
	const struct sl_plan *plan = m->trunk.plan;
	const bool mid = end == SL_END_OUT || end == SL_END_DOUT;

	sl_exec_crossing(m->seat->exec(m), end, place, dims, x);
	for (int v = 0; v < sl_plan_cut_values(plan, mid); v++)
		x[v] = x[sl_plan_cut_field(plan, mid, v)];
}

/* For tests only (failpoint.h): cheats as a dishonest server would, by making `x` factor · x. */
static void cheat(bool cheats, const struct sl_tensor *x, float factor)
{
	float *value = x->data;

	for (int64_t i = 0; cheats && i < sl_shape_count(&x->shape); i++)
		value[i] *= factor;
}

/* For tests only: reverses the order of all chunks but the first, so that the step sums in another order. */
static int place_of(const struct sl_middle *m, int chunk)
{
	const struct sl_session *s = sl_port_session(m->port);
	const bool cheats = s->training && SL_FAILPOINT_CALL(SL_FP_SERVER_CHEAT_ORDER, 0) != 0;

	return cheats && chunk ? s->chunks - chunk : chunk;
}

static enum sl_err run_pass(struct sl_middle *m, const struct pass *pass, int chunk, struct sl_fail *fail)
{
	struct sl_exec_call call = exec_call(m, chunk);
	const bool mid = pass->from == SL_DIR_MID_GRAD;
	const int place = place_of(m, chunk);
	struct sl_tensor in[SL_CUT_VALUES], out[SL_CUT_VALUES];
	enum sl_err err = SL_OK;

	crossing(m, pass->in, place, &call.dims, in);
	if (sl_port_crosses(m->trunk.plan, (int)pass->from))
		err = sl_port_decode(m->port, pass->from, chunk, in, fail);
	call = exec_call(m, chunk); /* again: only the decoded head_act says which tokens are chosen */
	crossing(m, pass->out, place, &call.dims, out);
	call.slot = place;
	sl_port_compute_begins(m->port);
	cheat(mid && SL_FAILPOINT_CALL(SL_FP_SERVER_CHEAT_LOSS, 0) != 0, in, 0.5f);
	if (!err && sl_party_has(m->trunk.plan->spec.party, SL_TAIL))
		err = pass->compute(m, &call, fail);
	cheat(mid && SL_FAILPOINT_CALL(SL_FP_SERVER_HIJACK, 0) != 0, out, -1);
	cheat(!mid && call.training && SL_FAILPOINT_CALL(SL_FP_SERVER_CHEAT_ACT, 0) != 0, out, 1.0001f);
	cheat(!mid && !call.training && SL_FAILPOINT_CALL(SL_FP_SERVER_CHEAT_EVAL, 0) != 0, out, 1.0001f);
	sl_port_compute_ends(m->port);
	return err || !sl_port_crosses(m->trunk.plan, (int)pass->to)
		       ? err
		       : sl_port_encode(m->port, pass->to, chunk, out, fail);
}

/* A task computes a chunk of the pass that the session is in. The middle of one client stands where its step begins. */
static void check_chunk(const struct sl_middle *m, int chunk)
{
	const struct sl_session *s = sl_port_session(m->port);

	sl_assert_int(m->stage, >=, SL_MIDDLE_ADMITTED);
	sl_assert_int(chunk, >=, 0);
	sl_assert_int(chunk, <, s->chunks);
	if (m->seat != &sl_seat_alone || !s->training)
		return;
	sl_assert_int(sl_exec_done(m->trunk.exec), ==, s->number);
	sl_assert_int(m->trunk.r.done, ==, s->number);
}

enum sl_err sl_middle_task(void *arg, enum sl_task task, int chunk, struct sl_fail *fail)
{
	struct sl_middle *m = arg;

	if (task == SL_TASK_MID_FWD || task == SL_TASK_MID_BWD)
		check_chunk(m, chunk);
	switch (task) {
	case SL_TASK_ADMIT:
		return admit(m, fail);
	case SL_TASK_OPEN:
		return open_session(m, fail);
	case SL_TASK_MID_FWD:
		return run_pass(m, &forward, chunk, fail);
	case SL_TASK_MID_BWD:
		return run_pass(m, &backward, chunk, fail);
	case SL_TASK_NORM:
		return sl_exec_squares(m->trunk.exec, &m->squares, fail);
	default:
		return m->seat->task[task]
			       ? m->seat->task[task](m, fail)
			       : sl_fail_set(fail, SL_ERR_BUG, "the server has no task %s here", sl_task_name(task));
	}
}

float *sl_middle_place(void *arg, enum sl_dir dir, int chunk)
{
	struct sl_middle *m = arg;
	const struct sl_dims dims = sl_dims_rows(m->trunk.plan->rows);
	const int own = sl_plan_cut_field(m->trunk.plan, false, 0);

	if (dir == SL_DIR_HEAD_ACT && own)
		return sl_exec_field(m->seat->exec(m), SL_END_IN, own, chunk, &dims).data;
	return dir == SL_DIR_HEAD_ACT ? sl_exec_input(m->seat->exec(m), chunk, m->trunk.plan->rows).data
				      : sl_exec_dout(m->seat->exec(m), chunk, m->trunk.plan->rows).data;
}

float *sl_middle_range(void *arg)
{
	struct sl_middle *m = arg;

	return sl_exec_weights_at(m->trunk.exec);
}
