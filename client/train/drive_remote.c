/* A run over the link: what the link, the loaders, timers and signals report becomes an event of sl_drive_table. When
 * the link is lost, the config may say to wait for the server. Then, after an exponential back-off with jitter, a new
 * link goes on from the newest step that both sides hold. */

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "client/link/explain.h"
#include "client/persist/model_file.h"
#include "client/train/drive_parts.h"
#include "client/train/privacy.h"
#include "client/train/report.h"
#include "common/base/assert.h"
#include "common/base/failpoint.h"
#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/program.h"

enum { WATCH_MS = 250, SAY_WAITS_MS = 5000 };

/* ---- the link ---- */

static void note_link(struct drive *d)
{
	const bool keys = d->auth.transport.own;
	char own[SL_FINGERPRINT], server[SL_FINGERPRINT];

	sl_key_fingerprint(&d->auth.own.public_key, own);
	sl_key_fingerprint(&d->auth.server, server);
	sl_training_linked(d->run, d->setup->conf->server, keys ? own : NULL, keys ? server : NULL);
}

static void on_ready(void *arg, uint64_t next_step)
{
	static const enum drive_event event[] = {
		[SL_RESTORED_SAME] = EV_SAME, [SL_RESTORED_AHEAD] = EV_AHEAD, [SL_RESTORED_BACK] = EV_BACK};
	struct drive *d = arg;
	enum sl_restored how;
	bool of_file = false; /* not of a full disk, on which a run's own files begin */
	enum sl_err err = sl_training_begin(d->run, d->fail);

	if (!err) {
		err = sl_recover_restore(d->recover, d->remote, d->run, next_step, &how, &d->result, d->fail);
		of_file = err != SL_OK;
	}
	d->joined = true;
	if (!err && d->written && !next_step && !d->options->eval_only)
		err = sl_fail_set(d->fail, SL_ERR_UNAVAILABLE,
				  "the group begins anew, and this process has its last weights in place of the first: "
				  "start it again with --auto-resume");
	if (!err) {
		err = sl_audit_linked(d->audit, next_step, d->fail);
		if (sl_drive_handle_audit(d, err))
			return;
	}
	if (err == SL_ERR_PAYLOAD && sl_retry_failed(&d->failed, err)) {
		sl_log(SL_LOG_WARN, "ends-refused", "%s; the client asks for those of another member", d->fail->text);
		sl_port_fail(sl_link_port(sl_remote_link(d->remote)), d->fail); /* tells the server why */
		sl_drive_event(d, EV_BAD_FILE);
	} else if (of_file && sl_recover_refuse(d->recover, next_step, err)) {
		sl_log(SL_LOG_WARN, "checkpoint-refused", "%s; the client tries an older checkpoint", d->fail->text);
		sl_drive_event(d, EV_BAD_FILE);
	} else if (err) {
		sl_drive_fault(d, err);
	} else {
		note_link(d);
		sl_drive_event(d, event[how]);
	}
}

static void on_done(void *arg)
{
	struct drive *d = arg;

	d->result = sl_remote_result(d->remote);
	sl_drive_event(d, EV_DONE);
}

/* The step is skipped, or the run ends with the weights before it and can be resumed: train.on_nan says which. */
static void on_abandoned(void *arg, const struct sl_fail *why)
{
	struct drive *d = arg;
	enum sl_err err;

	SL_FAILPOINT(SL_FP_CLIENT_ABANDON);
	err = sl_audit_abandoned(d->audit, sl_training_number(d->run), why->text, d->fail);
	if (sl_drive_handle_audit(d, err))
		return;
	if (sl_remote_session(d->remote)->late) {
		sl_log(SL_LOG_WARN, "late", "step %llu: %s; nothing of it was applied here",
		       (unsigned long long)sl_training_number(d->run) + 1, why->text);
		sl_drive_event(d, EV_SKIP);
		return;
	}
	if (sl_training_abandoned(d->run, why, &d->abandoned) == SL_OK) {
		sl_drive_event(d, EV_SKIP);
		return;
	}
	d->why = WHY_NONFINITE;
	sl_drive_event(d, EV_NONFINITE);
}

static void on_fetched(void *arg)
{
	struct drive *d = arg;

	const bool goes_on = d->state == DRIVE_COPY && !d->why, done = d->state == DRIVE_FETCH && !d->why;
	enum sl_err err = sl_audit_fetched(d->audit, d->remote, sl_training_state(d->run).step, goes_on, d->fail);

	if (!err && done)
		err = sl_audit_done(d->audit, d->fail);
	sl_drive_count(d); /* the weights may be most of what a short run carries */
	SL_FAILPOINT(d->state == DRIVE_FETCH ? SL_FP_CLIENT_FETCHED : SL_FP_NONE);
	if (!sl_drive_handle_audit(d, err))
		sl_drive_event(d, d->why ? EV_STOPPED : EV_FETCHED);
}

/* The group has waited in vain for one that is away, and this member's last state or its model is written. So the
 * others may have finished, which the server may not know: its disk was full, or it is another server. The files stay:
 * a member may lack its model. */
static bool may_be_last(const struct drive *d, const struct sl_fail *why)
{
	const uint64_t steps = sl_training_state(d->run).total_steps;

	return strcmp(why->key, "share.wait_s") == 0 && why->code != SL_ERR_UNAVAILABLE && /* it is here, and idle */
	       (sl_recover_state(d->recover).good == steps ||
		((d->written || d->options->resume) &&
		 sl_model_file_steps(d->setup->conf, SL_MODEL_FILE) == (int64_t)steps));
}

/* The group has waited in vain: whoever starts the run again decides, not link.on_server_lost. */
static bool gave_up(const struct sl_fail *why)
{
	return strcmp(why->key, "share.wait_s") == 0;
}

static struct sl_loss loss_of(struct drive *d, const struct sl_fail *fail)
{
	const struct sl_link *link = sl_remote_link(d->remote);
	const uint64_t step = sl_training_state(d->run).step;
	const bool first = !d->failed.lost, further = step >= d->lost_before;

	if (further)
		d->lost_before = step + 1;
	return (struct sl_loss){
		fail->code,
		(d->setup->conf->link.on_server_lost == SL_LOST_WAIT ? LOSS_WAITS : 0) |
			(d->setup->epoch_steps && d->joined ? LOSS_MEMBER : 0) |
			(sl_link_stalled(link) ? LOSS_STALLED : 0) |
			(first && further && fail->code == SL_ERR_PEER_LOST && sl_link_came_back(link) ? LOSS_RESTARTED
												       : 0) |
			(first ? 0 : LOSS_RETRIED) | (sl_retry_failed(&d->failed, fail->code) ? LOSS_AGAIN : 0) |
			(d->joined || d->options->resume ? LOSS_KNOWN : 0) | (sl_link_was_up(link) ? 0 : LOSS_AT_DOOR) |
			(d->why ? LOSS_ENDS : 0) | (may_be_last(d, fail) ? LOSS_MAY_BE_LAST : 0) |
			(sl_remote_session(d->remote)->training ? LOSS_TRAINS : 0) | (gave_up(fail) ? LOSS_GAVE_UP : 0),
	};
}

static void explain(struct drive *d, const struct sl_fail *fail, enum sl_explain what)
{
	sl_setup_blame(d->setup, d->fail);
	if (what == SL_EXPLAIN_EVALUATION)
		sl_training_eval_nonfinite(d->run, d->fail);
	sl_recover_explain(d->recover, d->fail);
	if (what == SL_EXPLAIN_LAST)
		(void)sl_fail_at(
			d->fail, fail->key, SL_ERR_MISMATCH,
			"%.300s. This member has done its last step, and the others may be done: start it again "
			"only if one of them is not",
			sl_fail_sentence(fail));
}

static void on_failed(void *arg, const struct sl_fail *fail)
{
	struct drive *d = arg;
	const struct sl_loss loss = loss_of(d, fail);
	struct sl_verdict verdict = sl_drive_judge(&loss);
	const bool was_up = sl_link_was_up(sl_remote_link(d->remote));

	sl_publish_lost(d->publish);
	d->cause = *d->fail = *fail;
	explain(d, fail, verdict.explain);
	d->fail->code = verdict.code;
	if (was_up && sl_audit_lost(d->audit, !verdict.wait, d->fail) == SL_ERR_AUDIT)
		verdict.wait = false;
	(void)sl_drive_handle_audit(d, SL_OK);
	d->err = d->fail->code;
	d->link.lost += was_up;
	if (was_up)
		sl_training_unlinked(d->run, d->fail->text);
	sl_drive_event(d, verdict.wait ? EV_LOST : EV_OVER);
}

static void on_closed(void *arg)
{
	struct drive *d = arg;

	d->remote = NULL;
	sl_drive_event(d, EV_CLOSED);
}

static enum sl_err open_link(struct drive *d)
{
	static const struct sl_link_events events = {.ready = on_ready,
						     .done = on_done,
						     .abandoned = on_abandoned,
						     .fetched = on_fetched,
						     .failed = on_failed,
						     .closed = on_closed};
	struct sl_remote_conf remote = {
		.link = sl_setup_link(d->setup, &d->auth.transport),
		.use = sl_setup_use(d->setup),
		.audit = d->audit,
		.order = d->setup->order.room ? &d->setup->order : NULL,
		.seal = d->setup->agreement.agreed.share.seal ? &d->setup->seal : NULL,
	};

	remote.use.head_cache = d->setup->head_cache;
	remote.use.dcor = d->setup->dcor;
	remote.use.logits = d->options->predict ? d->options->predict->row : sl_training_outputs(d->run);
	remote.link.weights_hash = d->first_hash;
	remote.link.run_steps = sl_training_state(d->run).total_steps;
	remote.link.traffic = d->link.traffic;
	sl_recover_offer(d->recover, &remote.link.offer);
	remote.link.offer.fresh = d->options->fresh && remote.link.offer.first && d->setup->conf->agreed.share.group[0];
	return sl_remote_open(&d->remote, d->loop, &remote, &events, d, d->fail);
}

/* A link that cannot even be opened ends the run. */
bool sl_act_open_link(struct drive *d)
{
	if (open_link(d) == SL_OK)
		return true;
	sl_drive_fault(d, d->fail->code);
	return false;
}

/* ---- loaders, files, requests for a status ---- */

static void on_loaded(void *arg)
{
	struct drive *d = arg;

	for (int split = 0; split < SL_SPLIT_COUNT; split++)
		if (d->loader[split])
			sl_loader_drain(d->loader[split]);
}

static void on_written(void *arg)
{
	sl_drive_event(arg, EV_WRITTEN);
}

static void on_kept(void *arg)
{
	struct drive *d = arg;

	if (d->state == DRIVE_WRITE)
		sl_drive_event(d, EV_WRITTEN);
}

static void on_missed(void *arg, const struct sl_fail *why, bool needed)
{
	struct drive *d = arg;
	const struct sl_training_state s = sl_training_state(d->run);
	char path[PATH_MAX];

	/* after its last step a run can do without this checkpoint: it still writes the model */
	if (d->state >= DRIVE_QUIT || s.step >= s.total_steps)
		return;
	if (sl_log_dir_path(path, d->setup->conf, SL_MODEL_FILE, d->fail) || sl_folder_check(path, d->fail))
		sl_drive_fault(d, d->fail->code); /* the folder was moved: the run could write nothing any more */
	else if (d->setup->phase.count)
		sl_drive_fault(d, sl_fail_set(d->fail, SL_ERR_IO,
					      "no checkpoint, and train.phases go on from theirs: %s (a server needs a "
					      "folder in `store`)",
					      why->text));
	else if (needed)
		sl_drive_fault(d, sl_fail_set(d->fail, SL_ERR_IO,
					      "no checkpoint in two tries, and group %s goes on only from one that all "
					      "members have: %s",
					      d->setup->conf->agreed.share.group, why->text));
	else if (d->setup->conf->train.on_checkpoint_error == SL_MISSED_EXIT)
		sl_drive_fault(d, sl_fail_set(d->fail, SL_ERR_IO, "no checkpoint (train.on_checkpoint_error: exit): %s",
					      why->text));
}

static char *answer(void *arg, const char *request)
{
	struct drive *d = arg;
	const struct sl_checkpoint_state checkpoint = sl_recover_state(d->recover);
	char *text = sl_publish_answer(d->publish, request, sl_drive_is_up(d));

	return text ? text
		    : sl_report_status(d->setup, d->run, sl_drive_is_open(d) ? d->remote : NULL, &d->link, &checkpoint,
				       request);
}

/* ---- timers and signals ---- */

static void on_retry(void *arg)
{
	sl_drive_event(arg, EV_RETRY);
}

/* Whether nothing is left for the server to store: it has the last state, or keeps none of this group. */
static bool is_stored(const struct drive *d)
{
	return !d->setup->conf->train.checkpoint_every || d->link.says.unkept ||
	       sl_remote_kept_there(d->remote, sl_training_state(d->run).step);
}

static void say_waits(struct drive *d)
{
	const char *group = d->setup->conf->agreed.share.group;

	if (d->state != DRIVE_FETCH || !d->waits_ms || sl_loop_now_ms(d->loop) - d->waits_ms < SAY_WAITS_MS)
		return;
	d->waits_ms = 0;
	if (!group[0] || d->why)
		return;
	if (is_stored(d))
		sl_log(SL_LOG_INFO, "group-waits",
		       "this member is done, and waits until all members of group %s have come to the end", group);
	else
		sl_log(SL_LOG_INFO, "group-waits",
		       "this member is done, and waits until the server has stored the last state of group %s", group);
}

/* Updates rates and traffic, and looks for a task that hangs. */
static void on_watch(void *arg)
{
	struct drive *d = arg;
	const uint64_t busy_ms[] = {d->remote ? sl_link_busy_ms(sl_remote_link(d->remote)) : 0,
				    sl_recover_busy_ms(d->recover), sl_publish_busy_ms(d->publish)};
	uint64_t bound_ms = (uint64_t)d->setup->conf->watchdog_s * 1000, longest = 0;

	say_waits(d);
	if (sl_drive_is_open(d))
		sl_report_watch(&d->link, d->remote);
	sl_drive_count(d);
	if (sl_drive_is_up(d))
		sl_training_show(d->run);
	for (size_t i = 0; i < sizeof busy_ms / sizeof busy_ms[0]; i++)
		longest = busy_ms[i] > longest ? busy_ms[i] : longest;
	if (bound_ms && longest > bound_ms)
		sl_drive_hung(d, longest);
}

/* The step under way has not ended within drain_s of the signal. A task that has run for less than drain_s is waited
 * for; one that has run for longer counts as hanging. */
static void on_drain_over(void *arg)
{
	struct drive *d = arg;
	int drain_s = d->setup->conf->drain_s;
	uint64_t hangs_ms = (uint64_t)(drain_s ? drain_s : 1) * 1000;

	if (d->remote && sl_link_busy_ms(sl_remote_link(d->remote)) >= hangs_ms)
		sl_drive_leave(d, sl_fail_set(d->fail, SL_ERR_BUSY, "a task did not end within %d s (drain_s)%s",
					      drain_s, sl_recover_outlook(d->recover)));
	else
		sl_drive_event(d, EV_DRAIN);
}

static void on_signal(void *arg, int signum)
{
	struct drive *d = arg;

	if (d->signum) {
		sl_drive_leave(d, sl_fail_set(d->fail, SL_ERR_UNAVAILABLE, "interrupted by signal %d%s", signum,
					      sl_recover_outlook(d->recover)));
		return;
	}
	d->signum = signum;
	sl_drive_event(d, EV_SIGNAL);
}

/* ---- from the first step to the last ---- */

static enum sl_err open_all(struct drive *d)
{
	static const struct sl_recover_events events = {on_missed, on_kept};
	bool train = !d->options->eval_only;
	/* A member that ended before its first checkpoint gets the state of a run that others have done meanwhile. */
	const bool same = d->setup->conf->agreed.share.group[0] && !d->options->fresh;
	const enum sl_recover_as as = d->options->resume ? SL_RECOVER_FILES : same ? SL_RECOVER_SAME : SL_RECOVER_ANEW;
	enum sl_err err = sl_loop_open(&d->loop, d->fail);

	sl_weights_hash_packed(&d->setup->weights, &d->setup->plan->segment[SL_MIDDLE], d->first_hash);
	if (!err)
		err = sl_recover_open(&d->recover, d->loop, d->setup, d->run, train, as, &events, d, d->fail);
	if (!err && train && d->setup->conf->log.dir[0])
		err = sl_publish_open(&d->publish, d->loop, d->setup, d->run, on_written, d, d->fail);
	if (!err && train && d->setup->conf->train.audit_every)
		err = sl_audit_open(&d->audit, d->setup, (uint64_t)d->setup->conf->train.audit_every,
				    sl_training_state(d->run).total_steps, d->options->resume, d->fail);
	if (!err)
		(void)sl_drive_handle_audit(d, SL_OK); /* an earlier process may have begun some */
	if (!err)
		err = sl_async_open(&d->loaded, d->loop, on_loaded, d, d->fail);
	if (!err)
		err = sl_timer_open(&d->retry, d->loop, on_retry, d, d->fail);
	if (!err)
		err = sl_timer_open(&d->watch, d->loop, on_watch, d, d->fail);
	if (!err)
		err = sl_timer_open(&d->drain, d->loop, on_drain_over, d, d->fail);
	if (!err && train)
		err = sl_setup_loader(d->setup, SL_SPLIT_TRAIN, sl_async_wake, d->loaded, &d->loader[SL_SPLIT_TRAIN],
				      d->fail);
	if (!err)
		err = sl_setup_loader(d->setup, SL_SPLIT_TEST, sl_async_wake, d->loaded, &d->loader[SL_SPLIT_TEST],
				      d->fail);
	if (!err)
		err = sl_answers_open(&d->answers, d->loop, d->setup->conf, answer, d, d->fail);
	if (!err)
		err = open_link(d);
	/* Until here a signal ends the process at once: allocating much memory takes long, and no step can be lost. */
	return err ? err : sl_loop_on_signals(d->loop, on_signal, d, d->fail);
}

/* Waits until no file is being written. False: one takes too long, or the process is to end as it is anyway. */
static bool settle(struct drive *d)
{
	if (d->state != DRIVE_LEAVE && d->recover && !sl_recover_settle(d->recover))
		sl_drive_hung(d, sl_recover_busy_ms(d->recover));
	if (d->state != DRIVE_LEAVE && !sl_publish_settle(d->publish))
		sl_drive_hung(d, sl_publish_busy_ms(d->publish));
	return d->state != DRIVE_LEAVE;
}

enum sl_err sl_drive_remote(struct sl_setup *setup, const struct sl_drive_options *options, struct sl_fail *fail)
{
	struct drive *d = malloc(sizeof *d); /* a task that hangs uses it until the process ends */
	enum sl_err err;

	if (!d)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a run");
	*d = (struct drive){.table = sl_drive_table, .setup = setup, .options = options, .fail = fail};
	err = sl_client_auth_open(&d->auth, setup->conf, fail);
	if (!err && setup->conf->auth.secret_key[0])
		sl_keypair_hide(&d->auth.own);
	if (!err)
		err = sl_training_open(&d->run, setup, "remote", options->eval_only, options->resume, fail);
	if (!err && options->predict)
		sl_training_hush(d->run);
	if (!err)
		err = open_all(d);
	if (!err) {
		sl_timer_start(d->watch, WATCH_MS, WATCH_MS);
		sl_loop_run(d->loop);
		err = d->err;
	}
	if (!settle(d)) {
		sl_program_hangs();
		return d->err;
	}
	if (d->run)
		sl_training_carried(d->run, d->link.traffic);
	sl_assert_if(!err && !d->why && !options->eval_only, d->books == BOOKS_CLOSED); /* it did its last step */
	/* Also where the pause could not write its checkpoint: its model alone would pass for that of a run that is
	 * done. */
	if (d->books != BOOKS_CLOSED && !options->predict && (!err || d->books == BOOKS_PAUSED))
		sl_training_finish(d->run, &d->link, sl_drive_outcome(d), options->json);
	if (!err && !d->why && !options->eval_only) {
		json_t *record = sl_group_record_read(d->link.record);

		err = sl_group_record_check(record, fail);
		json_decref(record);
		err = err ? err : sl_run_privacy_end(d->run, fail);
	}
	if (!err && d->why == WHY_INTERRUPTED && !options->predict)
		err = sl_training_unfinished(d->run, "--resume or --auto-resume goes on", fail);
	sl_loader_close(d->loader[SL_SPLIT_TRAIN]);
	sl_loader_close(d->loader[SL_SPLIT_TEST]);
	sl_answers_close(&d->answers);
	sl_publish_close(d->publish);
	sl_audit_close(d->audit);
	sl_recover_close(d->recover);
	sl_timer_close(d->retry);
	sl_timer_close(d->watch);
	sl_timer_close(d->drain);
	sl_async_close(d->loaded);
	sl_loop_close(d->loop);
	sl_training_close(d->run);
	free(d->link.record);
	sl_client_auth_close(&d->auth);
	/* an error that names a key came from a server that answered, so the network is not the cause */
	if (err == SL_ERR_TIMEOUT && !d->cause.key[0])
		err = sl_link_explain(setup->conf, fail);
	free(d);
	return err;
}
