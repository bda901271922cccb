#include "server/trunk/trunk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
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

void sl_trunk_pin_step(struct sl_keep *k, uint64_t step)
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
	if (t->r.group)
		sl_trunk_pin_step(&t->keep, t->r.complete);
	for (int k = 0; k < t->r.n && (t->r.all || !t->r.group); k++)
		for (int i = 0; i < SL_WIRE_KEPT; i++)
			sl_trunk_pin_step(&t->keep, t->r.seat[k].pin[i]);
	sl_trunk_check_pins(&t->keep);
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
	struct sl_fail first = {.code = SL_OK};

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
		if (err != SL_ERR_NOINPUT && !first.code)
			first = *fail;
		snprintf(tried + strlen(tried), SL_TRUNK_TRIED - strlen(tried), " %" PRIu64, step[i]);
	}
	*fail = first;
	return SL_ERR_NOINPUT;
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

	sl_assert_int(t->r.done, ==, 0); /* first weights replace no state of a later step */
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
		sl_log_limited(SL_LOG_WARN, "checkpoint-write", "%s, step %" PRIu64 ": %s; %s", whose, t->r.done,
			       fail->text, t->r.on_disk ? "the one before it is kept" : "there is none before it");
		sl_checkpoint_missed(&t->kept, t->r.done, fail);
		return false;
	}
	sl_assert_int(t->r.on_disk, <=, t->r.done); /* a checkpoint's step never goes back */
	t->r.on_disk = t->r.done;
	sl_checkpoint_good(&t->kept, t->r.done);
	return true;
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
	if (last == SL_LAST_REMOVE && (t->state != SL_TRUNK_NONE || !t->r.group))
		sl_keep_only(&t->keep, t->r.stays ? t->r.on_disk : UINT64_MAX);
	return last == SL_LAST_WRITE && t->state == SL_TRUNK_WHOLE && t->keep.dir[0];
}
