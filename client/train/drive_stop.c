/* Actions of a run that ends: at its end, after an error, by a signal within drain_s, or because a task hangs. */
#include "client/persist/last_run.h"
#include "client/train/drive_parts.h"
#include "client/train/group_record.h"
#include "client/train/report.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

enum { DRAIN_LOOK_MS = 5 };

bool sl_act_pause_link(struct drive *d)
{
	sl_link_pause(sl_remote_link(d->remote));
	return true;
}

bool sl_act_close_link(struct drive *d)
{
	if (!sl_drive_is_open(d)) /* an earlier action's event has closed it */
		return true;
	sl_report_add(&d->link, d->remote);
	/* a goodbye would make the server delete what a run that failed can go on from */
	if (d->err && !d->options->eval_only)
		sl_link_pause(sl_remote_link(d->remote));
	sl_remote_close(d->remote);
	return true;
}

bool sl_act_stop_loop(struct drive *d)
{
	sl_loop_stop(d->loop);
	return true;
}

/* Closes nothing, since a task that does not end may still use all of it. */
bool sl_act_leave(struct drive *d)
{
	d->setup->in_use = d;
	sl_loop_stop(d->loop);
	return true;
}

/* ---- the end of a run that is done; what one action writes is on the disk before the next begins ---- */

/* The group's record may know of steps of this member that an earlier process did, whose files are lost. */
static void note_part(struct drive *d)
{
	const json_t *member;
	json_t *record;

	sl_drive_count(d);
	record = sl_group_record_read(d->link.record);
	member = json_array_get(json_object_get(record, "members"), (size_t)d->setup->conf->agreed.share.member);
	sl_training_took_part(d->run, json_integer_value(json_object_get(member, "steps")) > 0,
			      json_string_value(json_object_get(record, "absent")));
	json_decref(record);
}

static enum sl_err save_model(struct drive *d, struct sl_fail *fail)
{
	enum sl_err err = sl_remote_get_weights(d->remote, &d->setup->weights, fail);

	note_part(d);
	d->written = true;
	if (!err)
		err = sl_drive_save(d->setup, d->run, sl_remote_made(d->remote), fail);
	SL_FAILPOINT(SL_FP_CLIENT_SAVED);
	return err;
}

/* The first error is the one that is reported. */
static void blame(struct drive *d, enum sl_err err, const struct sl_fail *why)
{
	if (!err || d->err)
		return;
	d->err = err;
	*d->fail = *why;
}

/* If the model cannot be written, the checkpoints stay, so that --resume can write it later. */
bool sl_act_save(struct drive *d)
{
	struct sl_fail why;
	enum sl_err err = d->saved ? SL_OK : save_model(d, &why);

	blame(d, err, &why);
	if (err)
		sl_drive_event(d, EV_UNSAVED);
	return !err;
}

/* A member without a checkpoint of its last step would need the others to do its last steps again. They may need this
 * one, too: another Fetch says that its model is written, and the answer comes once all members have said so. */
bool sl_act_tell_saved(struct drive *d)
{
	const struct sl_agreed *agreed = &d->setup->conf->agreed;

	if (d->saved || !agreed->share.group[0] || sl_recover_has_end(d->recover, d->remote, d->run))
		return true;
	d->saved = true;
	d->waits_ms = sl_loop_now_ms(d->loop);
	sl_act_fetch(d);
	return false;
}

/* Saves the state as after this phase's last evaluation. The next phase has other images, and could not make it. */
bool sl_act_end_phase(struct drive *d)
{
	struct sl_fail why;
	enum sl_err err;

	if (!d->setup->phase.count)
		return true;
	sl_training_end_phase(d->run);
	err = sl_recover_keep_last(d->recover, d->remote, d->run, &why);
	blame(d, err, &why);
	if (err)
		sl_drive_event(d, EV_UNSAVED);
	return !err;
}

bool sl_act_settle(struct drive *d)
{
	if (sl_recover_settle(d->recover))
		return true;
	sl_drive_hung(d, sl_recover_busy_ms(d->recover));
	return false;
}

const char *sl_drive_outcome(const struct drive *d)
{
	static const char *const outcome[] = {
		[WHY_NONE] = "finished", [WHY_INTERRUPTED] = "interrupted", [WHY_NONFINITE] = "nonfinite"};

	return outcome[d->why];
}

bool sl_act_summarize(struct drive *d)
{
	struct sl_training_link link = d->link;

	sl_drive_count(d);
	sl_report_add(&link, d->remote);
	sl_training_finish(d->run, &link, sl_drive_outcome(d), d->options->json);
	sl_training_sync(d->run);
	d->books = BOOKS_CLOSED;
	return true;
}

/* Removes the client's checkpoints. The server removes its own at the goodbye. If one is left, the next start would go
 * on from it: so the server keeps its own, too, and the process does not end as one whose run is done. Other members of
 * a group would wait. */
bool sl_act_forget(struct drive *d)
{
	struct sl_fail why;
	const enum sl_err err = sl_recover_finish(d->recover, d->remote, sl_training_state(d->run).step, &why);

	if (d->setup->conf->agreed.share.group[0] && err)
		sl_log(SL_LOG_WARN, "checkpoint-clear", "%s", why.text);
	else
		blame(d, err, &why);
	return true;
}

/* ---- the end of a run that is not done ---- */

static void say_paused(const struct drive *d)
{
	if (!sl_remote_kept_there(d->remote, sl_training_state(d->run).step))
		sl_log(SL_LOG_WARN, "pause-unsure",
		       "the server has not confirmed that its state is on its disk: drain_s was over, it has no "
		       "`store`, or see its log. --resume may go back, or begin anew");
	if (sl_agreed_goes_on(&d->setup->conf->agreed))
		sl_log(SL_LOG_INFO, "paused",
		       "this member has left group %s, which goes on: `splitc train … --resume` comes back",
		       d->setup->conf->agreed.share.group);
	else
		sl_log(SL_LOG_INFO, "paused", "`splitc train … --resume` goes on from here");
}

/* Both sides save their state, from which --resume goes on. */
bool sl_act_keep_last(struct drive *d)
{
	struct sl_fail why;
	enum sl_err err;

	if (d->options->eval_only)
		return true;
	err = sl_recover_keep_last(d->recover, d->remote, d->run, &why);
	blame(d, err, &why);
	SL_FAILPOINT(SL_FP_CLIENT_PAUSED);
	if (!err && d->setup->conf->log.dir[0])
		say_paused(d);
	d->books = BOOKS_PAUSED;
	sl_link_pause(sl_remote_link(d->remote));
	return true;
}

/* With neither a checkpoint nor a summary on the disk, the model would pass for that of a run that is done. Without a
 * checkpoint the summary comes first, so that it lacks the model's hash. */
bool sl_act_save_anyway(struct drive *d)
{
	const char *dir = d->setup->conf->log.dir;
	const bool open = !dir[0] || sl_past_run_is_open(dir);
	struct sl_fail why;
	enum sl_err err = open ? save_model(d, &why) : SL_OK;

	sl_act_summarize(d);
	if (!open && sl_past_run_is_open(dir))
		err = save_model(d, &why);
	blame(d, err, &why);
	return true;
}

/* Reports why a step was abandoned, unless another error is reported already. */
bool sl_act_blame_nonfinite(struct drive *d)
{
	if (d->why == WHY_NONFINITE)
		blame(d, d->abandoned.code, &d->abandoned);
	return true;
}

/* The run ends with its link. If a step was abandoned, the server cannot have applied it, so the client saves the state
 * before it, however the link ended. Otherwise sl_recover_end decides. */
bool sl_act_keep_certain(struct drive *d)
{
	struct sl_fail missed;

	if (d->why != WHY_NONFINITE) {
		sl_recover_end(d->recover, d->remote, d->run, d->cause.code);
		return true;
	}
	if (sl_recover_keep_last(d->recover, d->remote, d->run, &missed) != SL_OK)
		sl_log(SL_LOG_WARN, "checkpoint-missed", "%s", missed.text);
	*d->fail = d->abandoned;
	d->err = d->abandoned.code;
	return true;
}

/* ---- a signal, and drain_s after it ---- */

bool sl_act_arm_drain(struct drive *d)
{
	sl_timer_start(d->drain, (uint64_t)d->setup->conf->drain_s * 1000 + 1, 0);
	return true;
}

bool sl_act_end_early(struct drive *d)
{
	if (!d->why)
		d->why = WHY_INTERRUPTED;
	sl_log(SL_LOG_INFO, "stopping", "after the %s under way; a second signal ends the run at once",
	       d->options->eval_only ? "batch" : "step");
	return true;
}

bool sl_act_give_up(struct drive *d)
{
	d->err = sl_fail_set(d->fail, SL_ERR_UNAVAILABLE, "interrupted by signal %d%s", d->signum,
			     sl_recover_outlook(d->recover));
	return true;
}

bool sl_act_look_again(struct drive *d)
{
	if (!sl_link_idle(sl_remote_link(d->remote)))
		sl_timer_start(d->drain, DRAIN_LOOK_MS, 0);
	return true;
}

/* If the server may have applied the step under way without the client knowing, only the last checkpoint is certain.
 * Then the run ends with an error in place of a pause. */
bool sl_act_look_idle(struct drive *d)
{
	if (!sl_link_idle(sl_remote_link(d->remote)))
		return sl_act_look_again(d);
	if (sl_remote_in_doubt(d->remote))
		sl_drive_fault(d, sl_fail_set(d->fail, SL_ERR_UNAVAILABLE, "not stopped within %d s (drain_s)%s",
					      d->setup->conf->drain_s, sl_recover_outlook(d->recover)));
	else
		sl_drive_event(d, EV_DRAINED);
	return true;
}

/* The run is paused before the step under way. If the worker has applied that step already, the state that will be
 * saved includes it, so the run counts it first. */
bool sl_act_end_drained(struct drive *d)
{
	sl_log(SL_LOG_WARN, "stopping", "drain_s is over: the run %s",
	       d->options->eval_only ? "ends here" : "is paused before the step under way");
	if (sl_remote_applied(d->remote)) {
		d->result = sl_remote_result(d->remote);
		sl_act_release(d);
		sl_training_done(d->run, &d->result);
	}
	return true;
}
