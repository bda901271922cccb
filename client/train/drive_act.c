/* Actions of a run that goes on: batches, steps, links. */
#include <inttypes.h>

#include "client/persist/last_run.h"
#include "client/train/drive_parts.h"
#include "common/base/assert.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

bool sl_act_note_link(struct drive *d)
{
	const char *server = d->setup->conf->server;

	if (d->options->eval_only)
		sl_log(SL_LOG_INFO, "session-open", "evaluating with %s", server);
	else
		sl_log(SL_LOG_INFO, "session-open", "training with %s, from step %llu", server,
		       (unsigned long long)sl_remote_session(d->remote)->next_step);
	SL_FAILPOINT(SL_FP_CLIENT_GIVEN);
	d->link.links++;
	return true;
}

bool sl_act_note_ahead(struct drive *d)
{
	sl_training_done(d->run, &d->result);
	return true;
}

bool sl_act_release(struct drive *d)
{
	if (d->feed == FEED_HELD) {
		sl_loader_release(d->from, d->batch);
		d->feed = FEED_IDLE;
	}
	d->batch = NULL;
	return true;
}

/* Sets the loaders to the run's position. No batch may be requested from them. */
bool sl_act_seek(struct drive *d)
{
	const enum sl_err err = sl_training_seek(d->run, d->loader, d->fail);

	if (err)
		sl_drive_fault(d, err);
	return !err;
}

/* A loader cannot seek while a batch is requested: that batch is then to be dropped (FEED_STALE). */
bool sl_act_go_back(struct drive *d)
{
	if (d->options->eval_only)
		return true;
	if (d->feed == FEED_IDLE)
		return sl_act_seek(d);
	d->feed = FEED_STALE;
	return true;
}

/* Moves the run to the server's step, if the group went on without this member. */
bool sl_act_join(struct drive *d)
{
	const uint64_t begin = sl_remote_session(d->remote)->next_step, held = sl_training_held(d->run);
	const bool has_ends = sl_session_has_ends(sl_remote_session(d->remote));

	if (d->options->eval_only || begin == sl_training_state(d->run).step)
		return true;
	if (begin > held)
		sl_log(SL_LOG_INFO, "joined",
		       "the group did steps %" PRIu64 " to %" PRIu64
		       " after the state that this member has: its head and tail %s",
		       held + 1, begin,
		       has_ends ? "are now the group's"
		       : held   ? "stay those of that state"
				: "are as they began");
	sl_training_join(d->run, begin, has_ends);
	if (sl_remote_set_step(d->remote, begin)) {
		sl_drive_fault(d, sl_fail_set(d->fail, SL_ERR_DEVICE, "the state of step %llu could not be set",
					      (unsigned long long)begin));
		return false;
	}
	return sl_act_release(d) && sl_act_go_back(d);
}

/* Whether the batch under way is a step's, not an evaluation's. */
static bool trains(const struct drive *d)
{
	return d->from == d->loader[SL_SPLIT_TRAIN];
}

static void begin_step(struct drive *d, const struct sl_batch *b)
{
	const struct sl_feed feed = sl_feed_of(b);
	uint64_t kept[SL_CHECKPOINT_KEPT];
	const bool writing = sl_recover_kept(d->recover, kept);

	sl_link_kept(sl_remote_link(d->remote), kept, writing);
	SL_FAILPOINT(SL_FP_CLIENT_BEGIN);
	d->due = sl_recover_due(d->recover, d->run);
	sl_remote_step(d->remote, &feed, sl_training_number(d->run), sl_training_lr(d->run), d->due);
}

static void begin_eval(struct drive *d, const struct sl_batch *b)
{
	const struct sl_feed feed = sl_feed_of(b);

	sl_remote_eval(d->remote, &feed, sl_training_number(d->run));
}

static void begin_pass(struct drive *d)
{
	uint64_t kept[SL_CHECKPOINT_KEPT];
	const bool writing = sl_recover_kept(d->recover, kept);

	sl_link_kept(sl_remote_link(d->remote), kept, writing);
	d->from = d->loader[SL_SPLIT_TRAIN];
	d->due = sl_recover_due(d->recover, d->run);
	sl_remote_pass(d->remote, sl_training_number(d->run), sl_training_lr(d->run), d->due);
}

bool sl_act_begin(struct drive *d)
{
	const struct sl_batch *b = d->batch;

	if (b->err) {
		*d->fail = b->why;
		sl_drive_fault(d, b->err);
		return false;
	}
	if (trains(d))
		begin_step(d, b);
	else
		begin_eval(d, b);
	return true;
}

/* Of an evaluation that is over, to the server. */
static void report(struct drive *d)
{
	struct sl_wire_report report = {.text = ""};

	if (d->setup->conf->share_report && d->setup->epoch_steps && sl_training_figures(d->run, report.text))
		sl_link_say(sl_remote_link(d->remote), &report);
}

bool sl_act_book(struct drive *d)
{
	if (d->result.passed) {
		sl_training_done(d->run, &d->result);
		d->failed = (struct sl_retry){.lost = 0};
		return true;
	}
	if (d->options->predict)
		sl_predict_batch(d->options->predict, sl_batch_target(d->batch), d->batch->samples, d->batch->row_fail,
				 d->batch->rows);
	else
		sl_training_score(d->run, sl_batch_target(d->batch), d->batch->rows);
	d->result.t_data_s = d->batch->waited_s;
	sl_act_release(d);
	SL_FAILPOINT(trains(d) ? SL_FP_CLIENT_DONE : SL_FP_NONE);
	sl_training_done(d->run, &d->result);
	sl_drive_count(d);
	SL_FAILPOINT(trains(d) ? SL_FP_CLIENT_LOGGED : SL_FP_NONE);
	report(d);
	d->failed = (struct sl_retry){.lost = 0};
	return true;
}

bool sl_act_keep_if_due(struct drive *d)
{
	if (trains(d) && d->due) {
		sl_audit_kept(d->audit, sl_training_state(d->run).step);
		sl_recover_keep(d->recover, d->remote, d->run, false);
	}
	return true;
}

bool sl_act_keep_ahead(struct drive *d)
{
	if (d->due && d->setup->conf->agreed.share.group[0])
		sl_recover_keep(d->recover, d->remote, d->run, true);
	return true;
}

bool sl_act_skip(struct drive *d)
{
	sl_link_skip(sl_remote_link(d->remote));
	return true;
}

bool sl_act_fetch(struct drive *d)
{
	sl_link_fetch(sl_remote_link(d->remote));
	return true;
}

/* If the Fetch was for an audit alone, there is no file to wait for. */
bool sl_act_publish(struct drive *d)
{
	if (sl_publish_wants(d->publish))
		sl_publish_take(d->publish, d->remote);
	else
		sl_drive_event(d, EV_WRITTEN);
	return true;
}

/* Takes a copy of the state that the link holds. A file that is written meanwhile may miss its second try: that ends
 * the run, and its error stays. */
bool sl_act_hold_state(struct drive *d)
{
	const enum sl_err lost = d->err;
	struct sl_step_result result;
	bool done = false;

	d->saved = false;
	d->err = SL_OK;
	if (sl_recover_lost(d->recover, d->remote, d->run, &done, &result, d->fail) != SL_OK) {
		d->err = d->fail->code == SL_ERR_AUDIT ? SL_ERR_AUDIT : d->err ? d->err : lost;
		sl_drive_event(d, EV_OVER);
		return false;
	}
	sl_log(SL_LOG_WARN, "server-lost", "%s; waiting for it", d->cause.text);
	if (done) {
		sl_act_release(d);
		sl_training_done(d->run, &result);
	}
	if (d->cause.code != SL_ERR_BUSY) /* a group that goes back has a checkpoint */
		sl_recover_keep_held(d->recover, d->remote, d->run);
	return !d->err;
}

bool sl_act_back_off(struct drive *d)
{
	const struct sl_conf_client *c = d->setup->conf;
	const bool at_once = d->cause.code == SL_ERR_BUSY && c->agreed.share.group[0] && d->failed.lost <= 1;
	const uint64_t pause_ms = at_once ? 1
					  : sl_retry_pause_ms(&d->failed, (uint64_t)c->link.retry_ms,
							      (uint64_t)c->agreed.seed, sl_training_state(d->run).step);

	sl_timer_start(d->retry, pause_ms, 0);
	return true;
}

/* Whether the run shall stop now. In the last evaluation of a vertical group all parties wait for this one, and the
 * server takes its Fetch for a run that is done: so that evaluation ends first. */
static bool stops(const struct drive *d)
{
	const struct sl_training_state s = sl_training_state(d->run);

	return d->why && (d->why == WHY_NONFINITE || d->options->eval_only || !d->setup->plan->spec.party ||
			  s.step < s.total_steps || sl_training_next(d->run) != SL_WANT_EVAL);
}

static void on_batch(void *arg, const struct sl_batch *batch)
{
	struct drive *d = arg;
	bool stale = d->feed == FEED_STALE;

	d->batch = batch;
	d->feed = FEED_HELD;
	sl_drive_event(d, stale ? EV_STALE : stops(d) ? EV_UNWANTED : EV_BATCH);
}

static void request(struct drive *d, struct sl_loader *from)
{
	enum sl_err err;

	d->from = from;
	d->feed = FEED_OWED;
	err = sl_loader_request(from, on_batch, d);
	if (err)
		sl_drive_fault(d, sl_fail_set(d->fail, err, "the data loader: %s", sl_err_text(err)));
}

/* A run that lost its link in its last step lacks that step's checkpoint, from which it could be made longer. */
static void keep_end(struct drive *d)
{
	struct sl_fail why;

	if (!sl_recover_busy_ms(d->recover) && sl_recover_keep_done(d->recover, d->remote, d->run, &why))
		sl_last_run_say_unkept(&why, false);
}

/* A member's Fetch after its last step tells the server that the member's state is on its disk; so this writes it
 * first. False: the disk hangs, or has no room; then the others wait until this member comes again. */
static bool holds_end(struct drive *d)
{
	const struct sl_training_state s = sl_training_state(d->run);
	enum sl_err err;

	if (d->options->eval_only || s.step < s.total_steps)
		return true;
	if (!d->setup->conf->agreed.share.group[0]) {
		keep_end(d);
		return true;
	}
	/* The other party of a vertical group may be gone once this one says that it is done: the file is from after
	 * the last evaluation, which one with labels cannot do alone, also where the run is being stopped. */
	if (d->setup->plan->spec.party > SL_PARTY_FEATURES && sl_training_next(d->run) != SL_WANT_EVAL)
		sl_training_end_phase(d->run);
	if (!sl_recover_settle(d->recover)) {
		sl_drive_hung(d, sl_recover_busy_ms(d->recover));
		return false;
	}
	err = sl_recover_keep_done(d->recover, d->remote, d->run, d->fail);
	if (err)
		sl_drive_fault(d, err);
	return !err;
}

/* What a Fetch behind the last step says in a vertical group: this party's part of the last evaluation is done, and the
 * file of one with labels is from behind it. */
static void check_party_end(const struct drive *d)
{
	const struct sl_training_state s = sl_training_state(d->run);
	const enum sl_party party = d->setup->plan->spec.party;

	if (!party || d->options->eval_only || d->why == WHY_NONFINITE || s.step < s.total_steps)
		return;
	sl_assert(sl_training_next(d->run) != SL_WANT_EVAL);
	sl_assert_if(party > SL_PARTY_FEATURES, sl_training_says_end(d->run));
}

void sl_drive_next(struct drive *d)
{
	enum sl_want want = stops(d) ? SL_WANT_FINISH : sl_training_next(d->run);

	const bool audits = (want == SL_WANT_STEP || want == SL_WANT_EVAL) &&
			    sl_audit_wants(d->audit, sl_training_state(d->run).step, want == SL_WANT_EVAL);
	const bool copies = !d->why && (audits || sl_publish_wants(d->publish));

	if (sl_publish_busy(d->publish)) { /* no checkpoint may name best weights that are not on the disk yet */
		d->state = DRIVE_WRITE;
	} else if (want == SL_WANT_FINISH && d->options->eval_only) {
		sl_act_close_link(d);
		d->state = DRIVE_QUIT;
	} else if ((copies || want == SL_WANT_FINISH) && !holds_end(d)) {
		return;
	} else if (copies) {
		d->state = DRIVE_COPY;
		sl_act_fetch(d);
	} else if (want == SL_WANT_FINISH) {
		check_party_end(d);
		d->state = DRIVE_FETCH;
		d->waits_ms = sl_loop_now_ms(d->loop);
		sl_audit_park(d->audit);
		sl_act_fetch(d);
	} else if (want != SL_WANT_EVAL && sl_recover_must_wait(d->recover, d->run)) {
		d->state = DRIVE_WRITE;
	} else if (want == SL_WANT_PASS) {
		d->state = DRIVE_PASS;
		begin_pass(d);
	} else {
		d->state = DRIVE_FEED;
		request(d, d->loader[want == SL_WANT_STEP ? SL_SPLIT_TRAIN : SL_SPLIT_TEST]);
	}
}

void sl_drive_resume(struct drive *d)
{
	switch (d->feed) {
	case FEED_IDLE:
		sl_drive_next(d);
		break;
	case FEED_OWED:
	case FEED_STALE:
		d->state = DRIVE_FEED;
		break;
	case FEED_HELD:
		d->state = DRIVE_PASS;
		sl_act_begin(d);
		break;
	}
}
