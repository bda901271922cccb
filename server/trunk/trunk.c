#include "server/trunk/trunk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/weights/weights.h"
#include "server/store/store.h"

enum sl_err sl_trunk_first_weights(struct sl_exec *exec, const struct sl_plan *plan, const struct sl_trunk_store *store,
				   const struct sl_hello *h, struct sl_port *port, bool *need)
{
	const struct sl_plan_segment *s = &plan->segment[SL_MIDDLE];
	float *range = sl_port_uploaded(port);
	enum sl_err err;

	if (!sl_store_get(store->dir, store->owner, h->weights_hash, range, s->weight_count)) {
		*need = h->weights_source != SL_WEIGHTS_SEED;
		if (*need)
			return SL_OK;
		sl_weights_init_range(s, plan->spec.seed, range);
	}
	err = sl_exec_set_weights(exec, range);
	sl_port_spent(port);
	return err;
}

static void pin_step(struct sl_keep *k, uint64_t step)
{
	bool there = step == 0;

	for (int i = 0; i < k->n_pin && !there; i++)
		there = k->pin[i] == step;
	if (!there && k->n_pin < SL_CHECKPOINT_MAX_PINS)
		k->pin[k->n_pin++] = step;
}

void sl_trunk_pin(struct sl_trunk *t)
{
	t->keep.n_pin = 0;
	for (int k = 0; k < t->r.n; k++)
		for (int i = 0; i < SL_WIRE_KEPT; i++)
			pin_step(&t->keep, t->r.seat[k].pin[i]);
}

bool sl_trunk_passes_over(enum sl_err err, uint64_t step, const char *whose, const struct sl_fail *fail)
{
	if ((err != SL_ERR_NOINPUT && err != SL_ERR_DATA && err != SL_ERR_MISMATCH && err != SL_ERR_IO) ||
	    (err == SL_ERR_MISMATCH && !step))
		return false;
	if (err != SL_ERR_NOINPUT)
		sl_log_limited(SL_LOG_WARN, "checkpoint-refused", "%s%s", whose, fail->text);
	return true;
}

enum sl_err sl_trunk_take_newest(const struct sl_trunk_taker *taker, const uint64_t *step, int n, int *chosen,
				 char tried[SL_TRUNK_TRIED], struct sl_fail *fail)
{
	tried[0] = '\0';
	for (int i = 0; i < n; i++) {
		enum sl_err err = taker->take(taker->arg, step[i], fail);

		if (!err) {
			SL_FAILPOINT(SL_FP_SERVER_CHOSEN);
			*chosen = i;
			return SL_OK;
		}
		if (!sl_trunk_passes_over(err, step[i], taker->whose, fail))
			return err;
		snprintf(tried + strlen(tried), SL_TRUNK_TRIED - strlen(tried), " %" PRIu64, step[i]);
	}
	return SL_ERR_NOINPUT;
}

/* Arguments of take_up, for a session with a trunk of its own. */
struct opening {
	struct sl_trunk *trunk;
	const struct sl_trunk_store *store;
	const struct sl_hello *hello;
	struct sl_port *port;
	bool *need_weights;
};

static enum sl_err take_up(void *arg, uint64_t step, struct sl_fail *fail)
{
	const struct opening *o = arg;
	struct sl_trunk *t = o->trunk;
	enum sl_err err = sl_port_set_done(o->port, step, fail);

	if (!err)
		err = sl_exec_set_done(t->exec, step);
	if (err)
		return err;
	return step ? sl_keep_read(&t->keep, step, t->exec, o->port, NULL, fail)
		    : sl_trunk_first_weights(t->exec, t->plan, o->store, o->hello, o->port, o->need_weights);
}

/* Loads the newest step from which both sides can go on: one that the client holds, and that is stored here or is 0. */
static enum sl_err choose_step(struct opening *o, struct sl_fail *fail)
{
	const struct sl_trunk_taker taker = {take_up, o, ""};
	struct sl_trunk *t = o->trunk;
	char tried[SL_TRUNK_TRIED];
	int i;
	enum sl_err err = sl_trunk_take_newest(&taker, o->hello->held, (int)o->hello->n_held, &i, tried, fail);

	if (err == SL_ERR_NOINPUT)
		return sl_fail_set(
			fail, SL_ERR_MISMATCH,
			"no common step to go on from: the client holds%s, and this server holds none of them: is its "
			"store another one? --fresh begins anew",
			tried);
	if (err)
		return err;
	t->from = o->hello->held[i];
	t->alone.number = t->from;
	sl_records_begin(&t->r, t->from);
	sl_checkpoint_good(&t->kept, t->from);
	return SL_OK;
}

enum sl_err sl_trunk_open(struct sl_trunk *t, const struct sl_trunk_store *store, const struct sl_hello *h,
			  struct sl_port *port, bool *need_weights, struct sl_fail *fail)
{
	struct opening opening = {t, store, h, port, need_weights};
	uint8_t name[16];
	enum sl_err err;

	sl_session_name(h->session, name);
	t->alone = (struct sl_record){.hello = h};
	t->r = (struct sl_records){.seat = &t->alone, .n = 1, .end = 1};
	sl_keep_open(&t->keep, store->dir, store->retention, name, store->owner, t->plan, store->core);
	for (uint32_t i = 0; i < h->n_held; i++) /* the client may have to come back to any of these */
		pin_step(&t->keep, h->held[i]);
	err = choose_step(&opening, fail);
	t->state = err ? SL_TRUNK_NONE : SL_TRUNK_WHOLE;
	return err;
}

void sl_trunk_close(struct sl_trunk *t)
{
	sl_exec_close(t->exec);
	sl_plan_close(t->plan);
	*t = (struct sl_trunk){0};
}

enum sl_err sl_trunk_check_upload(const struct sl_plan *plan, const struct sl_hello *h, const float *range,
				  struct sl_fail *fail)
{
	uint8_t hash[16];

	SL_FAILPOINT(SL_FP_SERVER_INSTALL);
	sl_weights_hash(range, plan->segment[SL_MIDDLE].weight_count, hash);
	return memcmp(hash, h->weights_hash, sizeof hash) == 0
		       ? SL_OK
		       : sl_fail_set(fail, SL_ERR_MISMATCH,
				     "the uploaded weights do not have the hash that Hello announced");
}

enum sl_err sl_trunk_install(struct sl_trunk *t, const struct sl_trunk_store *store, const struct sl_hello *h,
			     struct sl_port *port, struct sl_fail *fail)
{
	const float *range = sl_port_uploaded(port);
	enum sl_err err = sl_trunk_check_upload(t->plan, h, range, fail);

	if (err)
		return err;
	sl_store_put(store->dir, store->retention, store->owner, h->weights_hash, range,
		     t->plan->segment[SL_MIDDLE].weight_count);
	err = sl_exec_set_weights(t->exec, range);
	sl_port_spent(port);
	return err;
}

bool sl_trunk_has_store(struct sl_trunk *t, const char *whose)
{
	struct sl_fail fail;

	if (t->keep.dir[0])
		return true;
	sl_fail_set(&fail, SL_ERR_CANTCREATE, "the server has no store");
	if (!t->said_storeless)
		sl_log_limited(SL_LOG_WARN, "checkpoint-write", "%s, so %s cannot be resumed: name a folder in `store`",
			       fail.text, whose);
	t->said_storeless = true;
	sl_checkpoint_missed(&t->kept, t->r.done, &fail);
	return false;
}

bool sl_trunk_wrote(struct sl_trunk *t, const char *whose, enum sl_err err, const struct sl_fail *fail)
{
	SL_FAILPOINT(SL_FP_SERVER_KEPT);
	if (err) {
		sl_log_limited(SL_LOG_WARN, "checkpoint-write", "%s, step %" PRIu64 ": %s; the one before it is kept",
			       whose, t->r.done, fail->text);
		sl_checkpoint_missed(&t->kept, t->r.done, fail);
		return false;
	}
	t->r.on_disk = t->r.done;
	sl_checkpoint_good(&t->kept, t->r.done);
	return true;
}

static const char alone[] = "this session";

static bool keep(struct sl_trunk *t, struct sl_port *port)
{
	struct sl_fail fail;
	enum sl_err err;

	if (!sl_trunk_has_store(t, alone))
		return false;
	SL_FAILPOINT(SL_FP_SERVER_KEEP);
	err = sl_keep_write(&t->keep, t->r.done, t->exec, port, NULL, &fail);
	return sl_trunk_wrote(t, alone, err, &fail);
}

/* For tests only (failpoint.h): cheats as a dishonest server would, by flipping one bit of one weight. */
static enum sl_err cheat(struct sl_trunk *t, struct sl_port *port)
{
	float *weights = sl_port_uploaded(port);
	enum sl_err err = sl_exec_get_weights(t->exec, weights);

	*(uint32_t *)(void *)weights ^= 1;
	return err ? err : sl_exec_set_weights(t->exec, weights);
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

enum sl_err sl_trunk_commit(struct sl_trunk *t, struct sl_port *port, struct sl_fail *fail)
{
	static const enum sl_took took = SL_TOOK_PART;
	const struct sl_session *s = sl_port_session(port);
	enum sl_err err;

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
		sl_keep_leave(&t->keep, s->number);
	sl_records_stepped(&t->r, &took, 1, false);
	t->keep.made = s->epoch;
	t->state = SL_TRUNK_WHOLE;
	SL_FAILPOINT(SL_FP_SERVER_APPLIED);
	sl_record_keeps(&t->alone, s->kept, s->writing, t->r.done);
	sl_trunk_pin(t);
	t->checkpointed = t->r.stays = s->keep == SL_KEEP_ASKED && keep(t, port);
	return SL_OK;
}

enum sl_err sl_trunk_gather(struct sl_trunk *t, struct sl_port *port)
{
	const struct sl_carried *carried;
	uint8_t *room = sl_port_carried(port, &carried);
	enum sl_err err = room ? sl_carried_take(carried, t->exec, sl_port_codecs(port), sl_port_weights(port), room)
			       : sl_exec_get_model(t->exec, sl_port_weights(port),
						   sl_plan_fetch_count(&t->plan->segment[SL_MIDDLE]));

	t->checkpointed = sl_trunk_gathered(t, !err && t->keep.dir[0] && (t->r.done == t->r.on_disk || keep(t, port)));
	return err;
}

bool sl_trunk_gathered(struct sl_trunk *t, bool kept)
{
	t->r.stays = t->r.stays || (kept && t->r.done == t->from); /* the client came back at the end of its run */
	return kept;
}

bool sl_trunk_ended(struct sl_trunk *t, int k, enum sl_seat_end how)
{
	enum sl_last last;

	sl_record_over(&t->r, k, how);
	last = sl_records_last(&t->r, how);
	if (last == SL_LAST_REMOVE && (t->state != SL_TRUNK_NONE || !t->r.varies))
		sl_keep_only(&t->keep, t->r.stays ? t->r.on_disk : UINT64_MAX);
	return last == SL_LAST_WRITE && t->state == SL_TRUNK_WHOLE && t->keep.dir[0];
}

void sl_trunk_last(struct sl_trunk *t, struct sl_port *port, enum sl_seat_end how)
{
	if (t->state == SL_TRUNK_NONE)
		return;
	SL_FAILPOINT(how == SL_SEAT_LEFT ? SL_FP_SERVER_LEFT : SL_FP_SERVER_LAST);
	if (sl_trunk_ended(t, 0, how))
		keep(t, port);
	SL_FAILPOINT(how == SL_SEAT_LEFT ? SL_FP_NONE : SL_FP_SERVER_LASTED);
}
