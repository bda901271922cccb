/* A session that has its trunk for itself: its client has no group. On the device's worker, except for `over`, `leave`.
 */
#include <inttypes.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/failpoint.h"
#include "server/trunk/middle_task.h"

static const char alone[] = "this session";

static const struct sl_hello *hello_of(const struct sl_middle *m)
{
	return &sl_port_session(m->port)->hello;
}

static struct sl_trunk_store store_of(const struct sl_middle *m)
{
	return (struct sl_trunk_store){m->env.store, m->env.retention, m->owned ? &m->owner : NULL, m->env.device};
}

static enum sl_err lend(struct sl_middle *m, struct sl_fail *fail)
{
	return sl_exec_allocate(m->trunk.exec, fail);
}

/* For tests only (failpoint.h): cheats as a dishonest server would, by flipping one bit of one weight. */
static enum sl_err cheat(struct sl_trunk *t, struct sl_port *port)
{
	float *weights = sl_port_uploaded(port);
	enum sl_err err = sl_exec_get_weights(t->exec, weights);

	*(uint32_t *)(void *)weights ^= 1;
	return err ? err : sl_exec_set_weights(t->exec, weights);
}

static enum sl_err take_up(void *arg, uint64_t step, struct sl_fail *fail)
{
	struct sl_middle *m = arg;
	struct sl_trunk *t = &m->trunk;
	const struct sl_trunk_store store = store_of(m);
	enum sl_err err = sl_port_set_done(m->port, step, fail);

	if (!err)
		err = sl_exec_set_done(t->exec, step);
	if (err)
		return err;
	err = step ? sl_keep_read(&t->keep, step, t->exec, m->port, NULL, fail)
		   : sl_trunk_first_weights(t->exec, t->plan, &store, hello_of(m), m->port, &m->need_weights);
	if (!err && SL_FAILPOINT_CALL(SL_FP_SERVER_CHEAT_STATE, 0) != 0)
		err = cheat(t, m->port);
	return err;
}

/* Loads the newest step from which both sides can go on: one that the client holds, and that is stored here or is 0.
 * MISMATCH: there is no such step. */
static enum sl_err choose_step(struct sl_middle *m, struct sl_fail *fail)
{
	const struct sl_trunk_taker taker = {take_up, m, ""};
	const struct sl_hello *h = hello_of(m);
	struct sl_trunk *t = &m->trunk;
	char tried[SL_TRUNK_TRIED];
	int i;
	enum sl_err err = sl_trunk_take_newest(&taker, h->held, (int)h->n_held, &i, tried, fail);

	if (err == SL_ERR_NOINPUT && fail->code) {
		const struct sl_fail why = *fail;
		const char *file = strrchr(why.text, '/'); /* its folder is the server's own affair */

		return sl_fail_set(
			fail, SL_ERR_MISMATCH,
			"no common step to go on from: the client holds%s, and this server cannot use its own files of "
			"them: %.250s. --fresh begins anew",
			tried, file ? file + 1 : why.text);
	}
	if (err == SL_ERR_NOINPUT)
		return sl_fail_set(fail, SL_ERR_MISMATCH,
				   "no common step to go on from: the client holds%s, and this server holds none of "
				   "them: %s --fresh "
				   "begins anew",
				   tried,
				   !t->keep.dir[0] ? "it has no `store`."
				   : sl_keep_of_other_key(&t->keep)
					   ? "another key began this session (auth.secret_key): give that one again, or"
					   : "is its store another one?");
	if (err)
		return err;
	t->from = h->held[i];
	t->alone.number = t->from;
	t->r.done = t->r.on_disk = t->from;
	sl_checkpoint_good(&t->kept, t->from);
	return SL_OK;
}

static enum sl_err open_trunk(struct sl_middle *m, struct sl_fail *fail)
{
	const struct sl_trunk_store store = store_of(m);
	const struct sl_hello *h = hello_of(m);
	struct sl_trunk *t = &m->trunk;
	uint8_t name[16];
	enum sl_err err;

	sl_session_name(h->session, name);
	t->alone = (struct sl_record){.hello = h};
	t->r = (struct sl_records){.seat = &t->alone, .n = 1, .end = 1};
	sl_keep_open(&t->keep, store.dir, store.retention, name, store.owner, t->plan, store.core);
	for (uint32_t i = 0; i < h->n_held; i++) /* the client may have to come back to any of these */
		sl_trunk_pin_step(&t->keep, h->held[i]);
	err = choose_step(m, fail);
	t->state = err ? SL_TRUNK_NONE : SL_TRUNK_WHOLE;
	return err;
}

static enum sl_err install(struct sl_middle *m, struct sl_fail *fail)
{
	const struct sl_trunk_store store = store_of(m);

	return sl_trunk_install(&m->trunk, &store, hello_of(m), m->port, fail);
}

/* The middle is whole, and its count is that of the records, before a step and after it. */
static void check_whole(const struct sl_trunk *t)
{
	sl_trunk_check_whole(t);
	sl_assert_int(t->alone.number, ==, t->r.done);
	sl_assert_int(t->r.n, ==, 1);
}

static bool keep(struct sl_trunk *t, struct sl_port *port)
{
	struct sl_fail fail;
	enum sl_err err;

	if (!sl_trunk_has_store(t, alone))
		return false;
	check_whole(t);
	SL_FAILPOINT(SL_FP_SERVER_KEEP);
	err = sl_keep_write(&t->keep, t->r.done, t->exec, port, NULL, &fail);
	return sl_trunk_wrote(t, alone, err, &fail);
}

/* NONFINITE: nothing has been applied. */
static enum sl_err apply(struct sl_trunk *t, struct sl_port *port, struct sl_fail *fail)
{
	const struct sl_session *s = sl_port_session(port);
	int64_t rows[SL_SESSION_MAX_CHUNKS];
	enum sl_err err;

	sl_port_compute_begins(port);
	for (int i = 0; i < s->chunks; i++)
		rows[i] = (int64_t)sl_session_chunk_rows(s, i);
	err = SL_FAILPOINT_CALL(SL_FP_SERVER_CHECK, 0) ? SL_ERR_NONFINITE
						       : sl_exec_check(t->exec, rows, s->chunks, fail);
	SL_FAILPOINT(err == SL_ERR_NONFINITE ? SL_FP_SERVER_ABANDON : SL_FP_NONE);
	SL_FAILPOINT(SL_FP_SERVER_APPLY);
	if (!err)
		err = sl_port_set_done(port, s->number + 1,
				       fail); /* before the commit: a failure leaves all as it was */
	t->state = err ? t->state : SL_TRUNK_TORN;
	if (!err)
		err = sl_exec_scale(t->exec, s->grad_scale);
	if (!err)
		err = sl_exec_commit(t->exec, s->lr, rows, s->chunks);
	sl_port_compute_ends(port);
	if (!err && SL_FAILPOINT_CALL(SL_FP_SERVER_CODECS, 0) != 0)
		err = SL_ERR_DEVICE;
	if (!err)
		sl_port_commit_codecs(port);
	if (!err && SL_FAILPOINT_CALL(SL_FP_SERVER_CHEAT_WEIGHT, 0) != 0)
		err = cheat(t, port);
	return err;
}

/* Applies the step under way, or counts it as done if it is skipped. Then writes a checkpoint, if the client asked for
 * one. NONFINITE: nothing has changed. */
static enum sl_err commit(struct sl_middle *m, struct sl_fail *fail)
{
	struct sl_trunk *t = &m->trunk;
	struct sl_port *port = m->port;
	const struct sl_session *s = sl_port_session(port);
	enum sl_err err;

	check_whole(t);
	sl_assert_int(s->number, ==, t->r.done);
	SL_FAILPOINT(sl_session_skips(s) ? SL_FP_SERVER_SKIP : SL_FP_NONE);
	err = sl_session_skips(s) ? sl_port_set_done(port, s->number + 1, fail) : apply(t, port, fail);
	t->state = err ? t->state : SL_TRUNK_TORN;
	if (!err && sl_session_skips(s))
		err = sl_exec_skip(t->exec);
	if (!err)
		err = sl_exec_set_done(t->exec, s->number + 1);
	if (err)
		return err;
	if (s->number == t->from) /* the first step: checkpoints of later steps now belong to an abandoned history */
		sl_keep_remove_later(&t->keep, s->number);
	sl_records_stepped(&t->r, NULL, 1);
	t->keep.made = s->epoch;
	t->state = SL_TRUNK_WHOLE;
	check_whole(t);
	SL_FAILPOINT(SL_FP_SERVER_APPLIED);
	sl_record_keeps(&t->alone, s->kept, s->writing, t->r.done);
	sl_trunk_pin(t);
	t->checkpointed = t->r.stays = s->keep == SL_KEEP_ASKED && keep(t, port);
	return SL_OK;
}

/* The client may be about to pause, so the state is stored before it gets its weights. */
static enum sl_err gather(struct sl_middle *m, struct sl_fail *fail)
{
	struct sl_trunk *t = &m->trunk;
	struct sl_port *port = m->port;
	const struct sl_carried *carried;
	uint8_t *room = sl_port_carried(port, &carried);
	enum sl_err err = room ? sl_carried_take(carried, t->exec, sl_port_codecs(port), sl_port_weights(port), room)
			       : sl_exec_get_model(t->exec, sl_port_weights(port),
						   sl_plan_fetch_count(&t->plan->segment[SL_MIDDLE]));

	t->checkpointed = sl_trunk_gathered(t, !err && t->keep.dir[0] && (t->r.done == t->r.on_disk || keep(t, port)));
	return err;
}

static void last(struct sl_middle *m)
{
	const enum sl_seat_end how = m->ended;
	struct sl_trunk *t = &m->trunk;

	if (t->state == SL_TRUNK_NONE)
		return;
	SL_FAILPOINT(how == SL_SEAT_LEFT ? SL_FP_SERVER_LEFT : SL_FP_SERVER_LAST);
	if (sl_trunk_ended(t, 0, how))
		keep(t, m->port);
	SL_FAILPOINT(how == SL_SEAT_LEFT ? SL_FP_NONE : SL_FP_SERVER_LASTED);
}

static struct sl_exec *executor(const struct sl_middle *m)
{
	return m->trunk.exec;
}

/* ---- on the loop's thread: nobody waits for this client, and nothing is shared */

static void over(struct sl_middle *m, const struct sl_fail *why)
{
}

static void leave(struct sl_middle *m)
{
}

const struct sl_seat_kind sl_seat_alone = {
	.lend = lend,
	.task = {[SL_TASK_OPEN] = open_trunk,
		 [SL_TASK_INSTALL] = install,
		 [SL_TASK_COMMIT] = commit,
		 [SL_TASK_GATHER] = gather},
	.exec = executor,
	.last = last,
	.over = over,
	.leave = leave,
};
