#include "server/middle_task.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/nn/weights.h"
#include "server/cost.h"
#include "server/store.h"

static enum sl_err agree(struct sl_middle *m, struct sl_fail *fail)
{
	const struct sl_hello *h = &sl_port_session(m->port)->hello;
	enum sl_err err = sl_agreement_hear(&m->agreement, &m->plan, sl_port_asked(m->port), fail);
	char ours[SL_HEX16_TEXT], theirs[SL_HEX16_TEXT];

	if (err || memcmp(m->plan->middle_hash, h->plan_hash, sizeof h->plan_hash) == 0)
		return err;
	return sl_fail_set(
		fail, SL_ERR_MISMATCH,
		"plan hash: the client (%s) has %s, this server has %s: the two versions build different plans",
		h->software, sl_hex16(h->plan_hash, theirs), sl_hex16(m->plan->middle_hash, ours));
}

/* Before any of it is allocated: a Hello may ask for as much as it likes. Sessions open one after another, on one
 * worker; beside it others can only end. */
static enum sl_err check_memory(struct sl_middle *m, struct sl_memory back, struct sl_fail *fail)
{
	return sl_session_memory_check(&m->memory, m->env.be, m->env.device, m->env.memory_bytes,
				       atomic_load(m->env.memory_used), back, fail);
}

static enum sl_err reserve_memory(struct sl_middle *m, struct sl_fail *fail)
{
	enum sl_err err = check_memory(m, (struct sl_memory){0}, fail);
	uint64_t need;

	if (err)
		return err;
	need = sl_memory_total(sl_session_memory_sum(&m->memory));
	atomic_fetch_add(m->env.memory_used, need);
	m->memory_bytes = need;
	return SL_OK;
}

static const struct sl_key *owner_of(const struct sl_middle *m)
{
	return m->owned ? &m->owner : NULL;
}

static enum sl_err first_weights(struct sl_middle *m)
{
	const struct sl_hello *h = &sl_port_session(m->port)->hello;
	const struct sl_plan_segment *s = &m->plan->segment[SL_MIDDLE];
	float *range = sl_port_weights(m->port);

	if (sl_store_get(m->env.store, owner_of(m), h->weights_hash, range, s->weight_count))
		return sl_exec_set_weights(m->exec, range);
	if (h->weights_source != SL_WEIGHTS_SEED) {
		m->need_weights = true;
		return SL_OK;
	}
	sl_weights_init_range(s, m->plan->spec.seed, range);
	return sl_exec_set_weights(m->exec, range);
}

/* What the client holds may be what it comes back for. */
static void pin(struct sl_middle *m, const uint64_t *step, uint32_t n)
{
	m->keep.n_pin = 0;
	for (uint32_t i = 0; i < n && m->keep.n_pin < SL_CHECKPOINT_MAX_PINS; i++)
		m->keep.pin[m->keep.n_pin++] = step[i];
}

/* The newest step that both sides can go on from: of those that the client holds, one that is kept here, or 0. */
static enum sl_err choose_step(struct sl_middle *m, struct sl_fail *fail)
{
	const struct sl_hello *h = &sl_port_session(m->port)->hello;
	char held[96] = "";

	for (uint32_t i = 0; i < h->n_held; i++) {
		enum sl_err err = sl_port_follow(m->port, h->held[i], fail);

		if (!err)
			err = sl_exec_follow(m->exec, h->held[i]);
		if (err)
			return err;
		err = h->held[i] ? sl_keep_read(&m->keep, h->held[i], m->exec, m->port, fail) : first_weights(m);

		if (!err) {
			SL_FAILPOINT(SL_FP_SERVER_CHOSEN);
			m->applied = m->on_disk = m->from = h->held[i];
			sl_checkpoint_good(&m->kept, h->held[i]);
			return SL_OK;
		}
		if (err != SL_ERR_NOINPUT && err != SL_ERR_DATA && err != SL_ERR_MISMATCH && err != SL_ERR_IO)
			return err;
		if (err != SL_ERR_NOINPUT)
			sl_log_limited(SL_LOG_WARN, "checkpoint-refused", "%s", fail->text);
		snprintf(held + strlen(held), sizeof held - strlen(held), " %" PRIu64, h->held[i]);
	}
	return sl_fail_set(fail, SL_ERR_MISMATCH,
			   "no common step to go on from: the client holds%s, and this server holds none of them",
			   held);
}

/* Where the figures let it in and there is no memory all the same, others have it, sessions or programs, and may give
 * it back. */
static enum sl_err take_memory(struct sl_middle *m, struct sl_fail *fail)
{
	enum sl_err err = reserve_memory(m, fail);
	struct sl_fail why;

	if (!err)
		err = sl_exec_allocate(m->exec, fail);
	if (!err)
		err = sl_port_equip(m->port, m->plan, m->env.be, m->env.host_be, m->agreement.codec, fail);
	if (err != SL_ERR_NOMEM)
		return err;
	why = *fail;
	return sl_fail_set(fail, SL_ERR_BUSY, "%s; come back when others have ended", why.text);
}

/* Whether all that a Hello asks for can be had. Nothing is taken, so that an older link of the session still stands
 * where the answer is no. */
static enum sl_err admit(struct sl_middle *m, struct sl_fail *fail)
{
	enum sl_err err = agree(m, fail);
	struct sl_memory back = m->back;
	struct sl_cost cost;

	if (!err) {
		cost = sl_session_cost(m->plan, m->agreement.codec);
		err = sl_session_cost_check(&cost, m->env.task_s, m->env.piece_ms, fail);
	}
	if (!err)
		err = sl_exec_prepare(&m->exec, m->plan, SL_MIDDLE, m->env.be, fail);
	if (!err)
		err = sl_session_memory(&m->memory, m->exec, m->env.be, m->env.host_be, m->agreement.codec, fail);
	sl_need(&back.host, 1, sl_port_asked(m->port).len); /* counted, and given back when this ends */
	return err ? err : check_memory(m, back, fail);
}

static enum sl_err open_session(struct sl_middle *m, struct sl_fail *fail)
{
	enum sl_err err = take_memory(m, fail);
	uint8_t name[16];

	if (err)
		return err;
	sl_session_name(sl_port_session(m->port)->hello.session, name);
	sl_keep_open(&m->keep, m->env.store, m->env.tidy, name, owner_of(m), m->plan, m->env.device);
	pin(m, sl_port_session(m->port)->hello.held, sl_port_session(m->port)->hello.n_held);
	err = choose_step(m, fail);
	m->opened = !err;
	return err;
}

static enum sl_err install_weights(struct sl_middle *m, struct sl_fail *fail)
{
	const struct sl_hello *h = &sl_port_session(m->port)->hello;
	int64_t count = m->plan->segment[SL_MIDDLE].weight_count;
	float *range = sl_port_weights(m->port);
	uint8_t hash[16];

	SL_FAILPOINT(SL_FP_SERVER_INSTALL);
	sl_weights_hash(range, count, hash);
	if (memcmp(hash, h->weights_hash, sizeof hash) != 0)
		return sl_fail_set(fail, SL_ERR_MISMATCH,
				   "the uploaded weights do not have the hash that Hello announced");
	sl_store_put(m->env.store, m->env.tidy, owner_of(m), hash, range, count);
	return sl_exec_set_weights(m->exec, range);
}

static struct sl_exec_call exec_call(struct sl_middle *m, int chunk)
{
	const struct sl_session *s = sl_port_session(m->port);

	return (struct sl_exec_call){
		.slot = chunk,
		.chunk = chunk,
		.dims = sl_port_dims(m->port, chunk),
		.step = s->number,
		.training = s->training,
	};
}

static enum sl_err compute_forward(struct sl_middle *m, const struct sl_exec_call *call, struct sl_fail *fail)
{
	enum sl_err err = call->slot == 0 && call->training ? sl_exec_begin(m->exec) : SL_OK;

	(void)fail;
	SL_FAILPOINT(call->training ? SL_FP_NONE : SL_FP_SERVER_EVAL);
	return err ? err : sl_exec_forward(m->exec, call, NULL);
}

static enum sl_err compute_backward(struct sl_middle *m, const struct sl_exec_call *call, struct sl_fail *fail)
{
	const bool last = call->slot == sl_port_session(m->port)->chunks - 1;
	enum sl_err err = sl_exec_backward(m->exec, call, NULL);

	return err || !last || !(m->plan->spec.clip_norm > 0) ? err : sl_exec_squares(m->exec, &m->squares, fail);
}

/* What a pass over one chunk takes in and gives out. */
struct pass {
	enum sl_dir from, to;
	struct sl_tensor (*in)(struct sl_exec *exec, int slot, int64_t rows);
	struct sl_tensor (*out)(struct sl_exec *exec, int slot, int64_t rows);
	enum sl_err (*compute)(struct sl_middle *m, const struct sl_exec_call *call, struct sl_fail *fail);
};
static const struct pass forward = {SL_DIR_HEAD_ACT, SL_DIR_MID_ACT, sl_exec_input, sl_exec_output, compute_forward};
static const struct pass backward = {SL_DIR_MID_GRAD, SL_DIR_HEAD_GRAD, sl_exec_dout, sl_exec_din, compute_backward};

static enum sl_err run_pass(struct sl_middle *m, const struct pass *pass, int chunk, struct sl_fail *fail)
{
	struct sl_exec_call call = exec_call(m, chunk);
	const bool mid = pass->from == SL_DIR_MID_GRAD;
	struct sl_tensor in = pass->in(m->exec, chunk, sl_plan_cut_count(m->plan, mid, &call.dims));
	struct sl_tensor out = pass->out(m->exec, chunk, sl_plan_cut_count(m->plan, !mid, &call.dims));
	enum sl_err err = sl_port_decode(m->port, pass->from, chunk, &in, fail);

	sl_port_compute_begins(m->port);
	if (!err)
		err = pass->compute(m, &call, fail);
	sl_port_compute_ends(m->port);
	return err || !out.data ? err : sl_port_encode(m->port, pass->to, chunk, &out, fail);
}

bool sl_middle_keep(struct sl_middle *m)
{
	struct sl_fail fail;
	enum sl_err err;

	if (!m->env.store[0]) {
		sl_fail_set(&fail, SL_ERR_CANTCREATE, "the server has no store");
		if (!m->said_storeless)
			sl_log_limited(SL_LOG_WARN, "checkpoint-write",
				       "%s, so this session cannot be resumed: name a folder in `store`", fail.text);
		m->said_storeless = true;
		sl_checkpoint_missed(&m->kept, m->applied, &fail);
		return false;
	}
	SL_FAILPOINT(SL_FP_SERVER_KEEP);
	err = sl_keep_write(&m->keep, m->applied, m->exec, m->port, &fail);
	SL_FAILPOINT(SL_FP_SERVER_KEPT);
	if (err) {
		sl_log_limited(SL_LOG_WARN, "checkpoint-write", "step %" PRIu64 ": %s; the one before it is kept",
			       m->applied, fail.text);
		sl_checkpoint_missed(&m->kept, m->applied, &fail);
		return false;
	}
	m->on_disk = m->applied;
	sl_checkpoint_good(&m->kept, m->applied);
	return true;
}

/* NONFINITE: nothing has been applied. */
static enum sl_err apply(struct sl_middle *m, struct sl_fail *fail)
{
	const struct sl_session *s = sl_port_session(m->port);
	int64_t rows[SL_SESSION_MAX_CHUNKS];
	enum sl_err err;

	sl_port_compute_begins(m->port);
	for (int i = 0; i < s->chunks; i++)
		rows[i] = (int64_t)sl_session_chunk_rows(s, i);
	err = SL_FAILPOINT_CALL(SL_FP_SERVER_CHECK, 0) ? SL_ERR_NONFINITE
						       : sl_exec_check(m->exec, rows, s->chunks, fail);
	SL_FAILPOINT(err == SL_ERR_NONFINITE ? SL_FP_SERVER_ABANDON : SL_FP_NONE);
	SL_FAILPOINT(SL_FP_SERVER_APPLY);
	if (!err)
		err = sl_port_follow(m->port, s->number + 1, fail); /* before: it can fail and leave all as it was */
	m->torn = !err;
	if (!err)
		err = sl_exec_scale(m->exec, s->grad_scale);
	if (!err)
		err = sl_exec_commit(m->exec, s->lr, rows, s->chunks);
	sl_port_compute_ends(m->port);
	if (!err && SL_FAILPOINT_CALL(SL_FP_SERVER_CODECS, 0) != 0)
		err = SL_ERR_DEVICE;
	if (!err)
		sl_port_commit_codecs(m->port);
	return err;
}

static enum sl_err commit(struct sl_middle *m, struct sl_fail *fail)
{
	const struct sl_session *s = sl_port_session(m->port);
	enum sl_err err;

	SL_FAILPOINT(s->skip ? SL_FP_SERVER_SKIP : SL_FP_NONE);
	err = s->skip ? sl_port_follow(m->port, s->number + 1, fail) : apply(m, fail);
	m->torn = m->torn || !err;
	if (!err && s->skip)
		err = sl_exec_skip(m->exec);
	if (!err)
		err = sl_exec_follow(m->exec, s->number + 1);
	if (err)
		return err;
	if (s->number == m->from) /* the first one: from here on the steps kept behind it are another past's */
		sl_keep_leave(&m->keep, s->number);
	m->applied = s->number + 1;
	m->keep.made = s->epoch;
	m->torn = false;
	SL_FAILPOINT(SL_FP_SERVER_APPLIED);
	pin(m, s->kept, SL_CHECKPOINT_KEPT);
	m->checkpointed = m->stays = s->checkpoint && sl_middle_keep(m);
	return SL_OK;
}

/* Who fetches may be about to pause: the state is on the disk before its weights leave. */
static enum sl_err gather(struct sl_middle *m)
{
	enum sl_err err = sl_exec_get_weights(m->exec, sl_port_weights(m->port));

	m->checkpointed = !err && m->env.store[0] && (m->applied == m->on_disk || sl_middle_keep(m));
	m->stays = m->stays || (m->checkpointed && m->applied == m->from); /* it came back to a run's end */
	return err;
}

enum sl_err sl_middle_task(void *arg, enum sl_task task, int chunk, struct sl_fail *fail)
{
	struct sl_middle *m = arg;

	switch (task) {
	case SL_TASK_ADMIT:
		return admit(m, fail);
	case SL_TASK_OPEN:
		return open_session(m, fail);
	case SL_TASK_INSTALL:
		return install_weights(m, fail);
	case SL_TASK_MID_FWD:
		return run_pass(m, &forward, chunk, fail);
	case SL_TASK_MID_BWD:
		return run_pass(m, &backward, chunk, fail);
	case SL_TASK_COMMIT:
		return commit(m, fail);
	case SL_TASK_GATHER:
		return gather(m);
	default:
		return sl_fail_set(fail, SL_ERR_BUG, "a server has no task %s", sl_task_name(task));
	}
}

float *sl_middle_place(void *arg, enum sl_dir dir, int chunk)
{
	struct sl_middle *m = arg;

	return dir == SL_DIR_HEAD_ACT ? sl_exec_input(m->exec, chunk, m->plan->rows).data
				      : sl_exec_dout(m->exec, chunk, m->plan->rows).data;
}
