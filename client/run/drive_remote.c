/* A run over the link. When the link is lost and the config says to wait for the server, the session is closed, and
 * after a pause that doubles each time (with jitter) a new link goes on from the newest step that both sides hold. */
#include <stdlib.h>
#include <string.h>

#include "client/persist/last_run.h"
#include "client/run/drive_parts.h"
#include "client/run/report.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

enum { WATCH_MS = 250 };

static void begin_batch(struct drive *d)
{
	const struct sl_batch *b = d->batch;

	if (d->from == d->loader[SL_SPLIT_TRAIN]) {
		uint64_t kept[SL_CHECKPOINT_KEPT];

		sl_recover_kept(d->recover, kept);
		sl_remote_kept(d->remote, kept);
		SL_FAILPOINT(SL_FP_CLIENT_BEGIN);
		d->due = sl_recover_due(d->recover, d->run);
		sl_remote_step(d->remote, b->images, b->labels, b->rows, sl_training_number(d->run),
			       sl_training_lr(d->run), d->due);
	} else {
		sl_remote_eval(d->remote, b->images, b->labels, b->rows, sl_training_number(d->run));
	}
}

static void advance(struct drive *d);

/* Loaders to where the run stands; only while none owes a batch. */
static void follow(struct drive *d)
{
	int64_t in_epoch, in_eval;
	uint64_t epoch;
	enum sl_err err;

	d->astray = false;
	sl_training_position(d->run, &epoch, &in_epoch, &in_eval);
	if (in_epoch == sl_loader_batches(d->loader[SL_SPLIT_TRAIN])) {
		epoch++;
		in_epoch = 0;
	}
	err = sl_loader_seek(d->loader[SL_SPLIT_TRAIN], epoch, in_epoch);
	if (!err)
		err = sl_loader_seek(d->loader[SL_SPLIT_TEST], 0, in_eval);
	if (err)
		sl_drive_give_up(d, sl_fail_set(d->fail, err, "the data loader: %s", sl_err_text(err)));
	else
		advance(d);
}

static void on_batch(void *arg, const struct sl_batch *batch)
{
	struct drive *d = arg;

	d->requested = false;
	d->batch = batch;
	if (d->ending || d->astray) {
		sl_drive_release_batch(d);
		if (d->linked && !d->ending)
			follow(d);
	} else if (d->linked && d->stop) {
		sl_drive_release_batch(d);
		advance(d);
	} else if (d->linked) {
		begin_batch(d);
	}
}

static void on_loaded(void *arg)
{
	struct drive *d = arg;

	for (int split = 0; split < SL_SPLIT_COUNT; split++)
		if (d->loader[split])
			sl_loader_drain(d->loader[split]);
}

static void wake_loop(void *arg)
{
	struct drive *d = arg;

	sl_async_wake(d->loaded);
}

static void advance(struct drive *d)
{
	enum sl_want want = d->stop ? SL_WANT_FINISH : sl_training_next(d->run);
	enum sl_err err;

	d->waits = sl_publish_busy(d->publish);
	if (d->waits)
		return;
	if (want == SL_WANT_FINISH && d->options->eval_only) {
		sl_drive_end(d);
		return;
	}
	d->publishing = !d->stop && sl_publish_wants(d->publish);
	if (d->publishing || want == SL_WANT_FINISH) {
		sl_remote_fetch(d->remote);
		return;
	}
	d->from = d->loader[want == SL_WANT_STEP ? SL_SPLIT_TRAIN : SL_SPLIT_TEST];
	d->requested = true;
	err = sl_loader_request(d->from, on_batch, d);
	if (err)
		sl_drive_give_up(d, sl_fail_set(d->fail, err, "the data loader: %s", sl_err_text(err)));
}

static void on_published(void *arg)
{
	struct drive *d = arg;

	if (d->waits && d->linked && !d->ending)
		advance(d);
}

static void on_ready(void *arg, uint64_t next_step)
{
	struct drive *d = arg;
	struct sl_step_result result;
	enum sl_restored how;
	enum sl_err err = sl_recover_restore(d->recover, d->remote, d->run, next_step, &how, &result, d->fail);

	if (err && sl_recover_refuse(d->recover, next_step, err)) {
		sl_log(SL_LOG_WARN, "checkpoint-refused", "%s; an older one is tried", d->fail->text);
		sl_remote_pause(d->remote);
		sl_drive_close_link(d);
		return;
	}
	if (err) {
		sl_drive_give_up(d, err);
		return;
	}
	if (d->options->eval_only)
		sl_log(SL_LOG_INFO, "session-open", "evaluating with %s", d->setup->conf->server);
	else
		sl_log(SL_LOG_INFO, "session-open", "training with %s, from step %llu", d->setup->conf->server,
		       (unsigned long long)next_step);
	SL_FAILPOINT(SL_FP_CLIENT_GIVEN);
	d->linked = true;
	d->link.links++;
	if (how == SL_RESTORED_AHEAD)
		sl_training_done(d->run, &result);
	if (how != SL_RESTORED_SAME)
		sl_drive_release_batch(d);
	if (how == SL_RESTORED_BACK && !d->options->eval_only)
		d->astray = true;
	if (d->requested) /* on_batch goes on */
		return;
	if (d->astray)
		follow(d);
	else if (d->batch)
		begin_batch(d);
	else
		advance(d);
}

static void on_done(void *arg, const struct sl_step_result *result)
{
	struct drive *d = arg;
	bool step = d->from == d->loader[SL_SPLIT_TRAIN];

	if (d->options->predict)
		sl_predict_batch(d->options->predict, d->batch->labels, d->batch->rows);
	sl_drive_release_batch(d);
	SL_FAILPOINT(step ? SL_FP_CLIENT_DONE : SL_FP_NONE);
	sl_training_done(d->run, result);
	SL_FAILPOINT(step ? SL_FP_CLIENT_LOGGED : SL_FP_NONE);
	sl_recover_progress(d->recover);
	if (step && d->due)
		sl_recover_keep(d->recover, d->remote, d->run);
	if (!d->ending)
		advance(d);
}

/* The model is on the disk. Each of what follows is, too, before the next: the log, the removal of this side's
 * checkpoints, goodbye, at which the server removes its own. So a run without checkpoints is one that is whole. */
static void conclude(struct drive *d)
{
	struct sl_training_link link = d->link;

	if (!sl_recover_settle(d->recover)) {
		sl_drive_hung(d, sl_recover_busy_ms(d->recover));
		return;
	}
	sl_report_add(&link, d->remote);
	sl_training_finish(d->run, &link, "finished", d->options->json);
	sl_training_sync(d->run);
	sl_recover_finish(d->recover, d->remote, sl_training_state(d->run).step);
	d->concluded = true;
}

static void on_fetched(void *arg)
{
	struct drive *d = arg;
	bool pauses = d->stop || d->nonfinite;
	struct sl_fail fail;
	enum sl_err err;

	if (d->publishing) {
		d->waits = true;
		sl_publish_take(d->publish, d->remote);
		return;
	}
	err = sl_remote_get_weights(d->remote, &d->setup->weights);
	SL_FAILPOINT(SL_FP_CLIENT_FETCHED);
	if (pauses) /* before the model: one without a checkpoint is that of a run that is done */
		sl_drive_pause(d);
	if (err)
		sl_fail_set(&fail, err, "the weights could not be read back");
	else
		err = sl_drive_save(d->setup, sl_training_state(d->run).step, &fail);
	SL_FAILPOINT(SL_FP_CLIENT_SAVED);
	if (err && !d->err) {
		d->err = err;
		*d->fail = fail;
	}
	if (!pauses && d->err) /* a model that could not be written can be, later, by --resume */
		sl_drive_pause(d);
	else if (!pauses)
		conclude(d);
	sl_drive_blame_nonfinite(d);
	if (!d->at_once)
		sl_drive_end(d);
}

/* By the config the step is skipped; or the run ends with the weights that it had before, and can be resumed. */
static void on_abandoned(void *arg, const struct sl_fail *why)
{
	struct drive *d = arg;

	SL_FAILPOINT(SL_FP_CLIENT_ABANDON);
	if (sl_training_abandoned(d->run, why, &d->why) == SL_OK) {
		sl_remote_skip(d->remote);
		return;
	}
	d->nonfinite = true;
	sl_drive_release_batch(d);
	sl_remote_fetch(d->remote);
}

static void on_failed(void *arg, const struct sl_fail *fail)
{
	struct drive *d = arg;
	bool wait = d->setup->conf->link.on_server_lost == SL_LOST_WAIT && !d->stop && !d->nonfinite &&
		    sl_recover_failed(d->recover, fail->code);
	struct sl_step_result result;
	bool done = false;

	d->publishing = d->waits = false;
	sl_publish_lost(d->publish);
	*d->fail = *fail;
	sl_setup_blame(d->setup, d->fail);
	if (sl_recover_longer(d->recover))
		sl_last_run_explain(d->fail);
	d->err = fail->code;
	d->link.lost += sl_remote_ready(d->remote);
	if (d->nonfinite) { /* the link, too, is lost: the state is the one before the step all the same */
		struct sl_fail missed;

		if (sl_recover_keep_last(d->recover, d->remote, d->run, &missed) != SL_OK)
			sl_log(SL_LOG_WARN, "checkpoint-missed", "%s", missed.text);
		*d->fail = d->why;
		d->err = d->why.code;
	}
	if (wait && sl_recover_lost(d->recover, d->remote, d->run, &done, &result, d->fail) == SL_OK) {
		sl_log(SL_LOG_WARN, "server-lost", "%s; waiting for it", fail->text);
		if (done) {
			sl_drive_release_batch(d);
			sl_training_done(d->run, &result);
		}
		d->err = SL_OK;
	} else {
		if (!d->nonfinite)
			sl_recover_end(d->recover, d->remote, d->run, fail->code);
		d->ending = true;
	}
	sl_drive_close_link(d);
}

static void on_closed(void *arg)
{
	struct drive *d = arg;

	d->remote = NULL;
	d->closing = false;
	if (d->ending)
		sl_loop_stop(d->loop);
	else
		sl_timer_start(d->retry, sl_recover_retry_ms(d->recover, d->run), 0);
}

static char *answer(void *arg, const char *request)
{
	struct drive *d = arg;
	const struct sl_checkpoint_state checkpoint = sl_recover_state(d->recover);
	char *text = sl_publish_answer(d->publish, request, d->linked && !d->ending);

	return text ? text
		    : sl_report_status(d->setup, d->run, d->closing ? NULL : d->remote, &d->link, &checkpoint, request);
}

static enum sl_err open_link(struct drive *d)
{
	static const struct sl_remote_events events = {on_ready,   on_done,   on_abandoned,
						       on_fetched, on_failed, on_closed};
	const struct sl_conf_client *c = d->setup->conf;
	struct sl_remote_conf remote = {
		.endpoint = c->server,
		.auth = d->auth.transport.own ? &d->auth.transport : NULL,
		.plan = d->setup->plan,
		.agreement = &d->setup->agreement,
		.be = &d->setup->be,
		.weights = &d->setup->weights,
		.weights_from_seed = d->setup->weights_from_seed,
		.logits = d->options->predict ? d->options->predict->row : NULL,
		.chunk_loss_sum = c->train.chunk_loss == SL_CHUNK_LOSS_SUM,
		.part_bytes = (size_t)c->link.part_bytes,
		.window_bytes = (uint64_t)c->link.window_bytes,
		.heartbeat_ms = c->link.heartbeat_ms,
		.timeout_ms = c->link.timeout_ms,
		.connect_timeout_ms = c->link.connect_timeout_ms,
	};

	sl_recover_offer(d->recover, &remote);
	return sl_remote_open(&d->remote, d->loop, &remote, &events, d, d->fail);
}

static void on_retry(void *arg)
{
	struct drive *d = arg;

	if (d->ending)
		return;
	if (open_link(d) != SL_OK)
		sl_drive_give_up(d, d->fail->code);
}

static void on_missed(void *arg, const struct sl_fail *why)
{
	struct drive *d = arg;

	const struct sl_training_state s = sl_training_state(d->run);

	/* behind the last step the model is still to come */
	if (!d->ending && s.step < s.total_steps && d->setup->conf->train.on_checkpoint_error == SL_MISSED_EXIT)
		sl_drive_give_up(d, sl_fail_set(d->fail, SL_ERR_IO,
						"no checkpoint (train.on_checkpoint_error: exit): %s", why->text));
}

static enum sl_err open_all(struct drive *d)
{
	static const struct sl_recover_events events = {on_missed};
	bool train = !d->options->eval_only;
	enum sl_err err = sl_loop_open(&d->loop, d->fail);

	if (!err)
		err = sl_recover_open(&d->recover, d->loop, d->setup, d->run, train, d->options->resume, &events, d,
				      d->fail);
	if (!err && train && d->setup->conf->log.dir[0])
		err = sl_publish_open(&d->publish, d->loop, d->setup, d->run, on_published, d, d->fail);
	if (!err)
		err = sl_async_open(&d->loaded, d->loop, on_loaded, d, d->fail);
	if (!err)
		err = sl_timer_open(&d->retry, d->loop, on_retry, d, d->fail);
	if (!err)
		err = sl_timer_open(&d->watch, d->loop, sl_drive_on_watch, d, d->fail);
	if (!err)
		err = sl_timer_open(&d->drain, d->loop, sl_drive_on_drain_over, d, d->fail);
	if (!err && train)
		err = sl_setup_loader(d->setup, SL_SPLIT_TRAIN, wake_loop, d, &d->loader[SL_SPLIT_TRAIN], d->fail);
	if (!err)
		err = sl_setup_loader(d->setup, SL_SPLIT_TEST, wake_loop, d, &d->loader[SL_SPLIT_TEST], d->fail);
	if (!err)
		err = sl_answers_open(&d->answers, d->loop, d->setup->conf, answer, d, d->fail);
	if (!err)
		err = sl_loop_on_signals(d->loop, sl_drive_on_signal, d, d->fail);
	return err ? err : open_link(d);
}

enum sl_err sl_drive_remote(struct sl_setup *setup, const struct sl_drive_options *options, struct sl_fail *fail)
{
	static struct drive d; /* a task that hangs works on it until the process is gone */
	enum sl_err err;

	d = (struct drive){.setup = setup, .options = options, .fail = fail};
	err = sl_client_auth_open(&d.auth, setup->conf, fail);
	if (!err)
		err = sl_training_open(&d.run, setup, "remote", options->eval_only, options->resume, fail);
	if (!err && options->predict)
		sl_training_hush(d.run);
	if (!err)
		err = open_all(&d);
	if (!err) {
		sl_timer_start(d.watch, WATCH_MS, WATCH_MS);
		sl_loop_run(d.loop);
		err = d.err;
	}
	if (!d.at_once && d.recover && !sl_recover_settle(d.recover)) {
		sl_drive_hung(&d, sl_recover_busy_ms(d.recover));
		err = d.err;
	}
	if (!d.at_once && !sl_publish_settle(d.publish)) {
		sl_drive_hung(&d, sl_publish_busy_ms(d.publish));
		err = d.err;
	}
	if (d.at_once)
		return err;
	if (!d.concluded && !options->predict && (!err || (d.nonfinite && d.paused)))
		sl_training_finish(d.run, &d.link,
				   d.nonfinite ? "nonfinite"
				   : d.stop    ? "interrupted"
					       : "finished",
				   options->json);
	sl_loader_close(d.loader[SL_SPLIT_TRAIN]);
	sl_loader_close(d.loader[SL_SPLIT_TEST]);
	sl_answers_close(&d.answers);
	sl_publish_close(d.publish);
	sl_recover_close(d.recover);
	sl_timer_close(d.retry);
	sl_timer_close(d.watch);
	sl_timer_close(d.drain);
	sl_async_close(d.loaded);
	sl_loop_close(d.loop);
	sl_training_close(d.run);
	sl_client_auth_close(&d.auth);
	return err;
}
