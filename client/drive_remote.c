#include <stdlib.h>

#include "client/auth.h"
#include "client/drive.h"
#include "client/remote.h"
#include "client/report.h"
#include "common/base/log.h"
#include "common/link/control.h"
#include "common/link/loop.h"

struct drive {
	struct sl_setup *setup;
	const struct sl_drive_options *options;
	struct sl_loop *loop;
	struct sl_async *loaded;
	struct sl_control *control;
	struct sl_client_auth auth;
	struct sl_remote *remote;
	struct sl_training *run;
	struct sl_loader *loader[SL_SPLIT_COUNT];
	struct sl_loader *from;       /* whose batch is under way */
	const struct sl_batch *batch; /* … and the batch */
	bool stop, ending;
	struct sl_training_link link; /* taken when the session ends */
	enum sl_err err;
	struct sl_fail *fail;
};

static void take_link_figures(struct drive *d)
{
	struct sl_port_stats stats = sl_remote_stats(d->remote);

	d->link = (struct sl_training_link){
		.peak_tx = stats.peak_tx,
		.peak_rx = stats.peak_rx,
		.server_compute_s = sl_remote_server_compute_s(d->remote),
	};
	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		d->link.wire[dir] = stats.wire[dir];
		d->link.payload[dir] = stats.payload[dir];
		d->link.nominal[dir] = stats.nominal[dir];
	}
}

static void end(struct drive *d)
{
	if (d->ending)
		return;
	d->ending = true;
	take_link_figures(d);
	sl_remote_close(d->remote);
}

static void on_batch(void *arg, const struct sl_batch *batch)
{
	struct drive *d = arg;

	if (d->ending) {
		sl_loader_release(d->from, batch);
		return;
	}
	d->batch = batch;
	if (d->from == d->loader[SL_SPLIT_TRAIN])
		sl_remote_step(d->remote, batch->images, batch->labels, batch->rows, sl_training_number(d->run),
			       sl_training_lr(d->run));
	else
		sl_remote_eval(d->remote, batch->images, batch->labels, batch->rows, sl_training_number(d->run));
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

	if (want == SL_WANT_FINISH && d->options->eval_only) {
		end(d);
		return;
	}
	if (want == SL_WANT_FINISH) {
		sl_remote_fetch(d->remote);
		return;
	}
	d->from = d->loader[want == SL_WANT_STEP ? SL_SPLIT_TRAIN : SL_SPLIT_TEST];
	d->err = sl_loader_request(d->from, on_batch, d);
	if (d->err) {
		sl_fail_set(d->fail, d->err, "the data loader: %s", sl_err_text(d->err));
		end(d);
	}
}

static void on_ready(void *arg)
{
	struct drive *d = arg;

	sl_log(SL_LOG_INFO, "session-open", "training with %s", d->setup->conf->server);
	advance(d);
}

static void on_done(void *arg, const struct sl_step_result *result)
{
	struct drive *d = arg;

	sl_loader_release(d->from, d->batch);
	d->batch = NULL;
	sl_training_done(d->run, result);
	advance(d);
}

static void on_fetched(void *arg)
{
	struct drive *d = arg;

	d->err = sl_remote_get_weights(d->remote, &d->setup->weights);
	if (d->err)
		sl_fail_set(d->fail, d->err, "the weights could not be read back");
	else
		d->err = sl_drive_save(d->setup, sl_training_state(d->run).step, d->fail);
	end(d);
}

static void on_failed(void *arg, const struct sl_fail *fail)
{
	struct drive *d = arg;

	*d->fail = *fail;
	d->err = fail->code;
	end(d);
}

static void on_closed(void *arg)
{
	struct drive *d = arg;

	d->remote = NULL;
	sl_loop_stop(d->loop);
}

static void on_signal(void *arg, int signum)
{
	struct drive *d = arg;

	if (d->stop || !d->batch) {
		d->err = sl_fail_set(d->fail, SL_ERR_UNAVAILABLE, "interrupted by signal %d", signum);
		end(d);
		return;
	}
	sl_log(SL_LOG_INFO, "stopping", "after the step under way; a second signal ends the run at once");
	d->stop = true;
}

static char *answer(void *arg, const char *request)
{
	struct drive *d = arg;

	return sl_report_status(d->setup, d->run, d->remote, request);
}

static enum sl_err open_all(struct drive *d)
{
	static const struct sl_remote_events events = {on_ready, on_done, on_fetched, on_failed, on_closed};
	const struct sl_conf_client *c = d->setup->conf;
	const struct sl_remote_conf remote = {
		.endpoint = c->server,
		.auth = d->auth.transport.own ? &d->auth.transport : NULL,
		.plan = d->setup->plan,
		.agreement = &d->setup->agreement,
		.be = &d->setup->be,
		.weights = &d->setup->weights,
		.weights_from_seed = d->setup->weights_from_seed,
		.chunk_loss_sum = c->train.chunk_loss == SL_CHUNK_LOSS_SUM,
		.part_bytes = (size_t)c->link.part_bytes,
		.window_bytes = (uint64_t)c->link.window_bytes,
		.heartbeat_ms = c->link.heartbeat_ms,
		.timeout_ms = c->link.timeout_ms,
		.connect_timeout_ms = c->link.connect_timeout_ms,
		.wait_for_server = c->link.on_server_lost == SL_LOST_WAIT,
	};
	enum sl_err err = sl_loop_open(&d->loop, d->fail);

	if (!err)
		err = sl_async_open(&d->loaded, d->loop, on_loaded, d, d->fail);
	if (!err && !d->options->eval_only)
		err = sl_setup_loader(d->setup, SL_SPLIT_TRAIN, wake_loop, d, &d->loader[SL_SPLIT_TRAIN], d->fail);
	if (!err)
		err = sl_setup_loader(d->setup, SL_SPLIT_TEST, wake_loop, d, &d->loader[SL_SPLIT_TEST], d->fail);
	if (!err)
		err = sl_control_open(&d->control, d->loop, c->control, answer, d, d->fail);
	if (!err)
		err = sl_loop_on_signals(d->loop, on_signal, d, d->fail);
	return err ? err : sl_remote_open(&d->remote, d->loop, &remote, &events, d, d->fail);
}

enum sl_err sl_drive_remote(struct sl_setup *setup, const struct sl_drive_options *options, struct sl_fail *fail)
{
	struct drive d = {.setup = setup, .options = options, .fail = fail};
	struct sl_training_link link = {0};
	enum sl_err err = sl_client_auth_open(&d.auth, setup->conf, fail);

	if (!err)
		err = sl_training_open(&d.run, setup, "remote", options->eval_only, fail);
	if (!err)
		err = open_all(&d);
	if (!err) {
		sl_loop_run(d.loop);
		err = d.err;
		link = d.link;
	}
	if (!err)
		sl_training_finish(d.run, &link, d.stop ? "interrupted" : "finished", options->json);
	sl_loader_close(d.loader[SL_SPLIT_TRAIN]);
	sl_loader_close(d.loader[SL_SPLIT_TEST]);
	sl_control_close(d.control);
	sl_async_close(d.loaded);
	sl_loop_close(d.loop);
	sl_training_close(d.run);
	sl_client_auth_close(&d.auth);
	return err;
}
