#include "client/cmd/fetch_pair.h"

#include <limits.h>
#include <string.h>

#include "client/link/auth.h"
#include "client/link/explain.h"
#include "client/pass/remote.h"
#include "client/persist/epoch.h"
#include "client/persist/jsonl.h"
#include "client/persist/last_run.h"
#include "client/persist/model_file.h"
#include "client/train/drive.h"
#include "client/train/recover.h"
#include "common/base/clock.h"
#include "common/link/loop.h"

struct fetch {
	struct sl_setup *setup;
	struct sl_loop *loop;
	struct sl_remote *remote;
	uint64_t step;
	uint64_t steps; /* to repeat; 0: only the middle is fetched */
	uint64_t done;  /* steps that were repeated */
	struct sl_audit *audit;
	struct sl_loader *loader;
	const struct sl_batch *batch;     /* NULL: none is held */
	uint64_t kept[SL_LAST_RUN_STEPS]; /* steps of the client's checkpoints, which the server is to keep */
	enum sl_err err;
	struct sl_fail *fail;
};

static void release(struct fetch *f)
{
	if (f->batch)
		sl_loader_release(f->loader, f->batch);
	f->batch = NULL;
}

static void end(struct fetch *f, enum sl_err err)
{
	release(f);
	f->err = err;
	sl_link_pause(sl_remote_link(f->remote)); /* a goodbye would make the server forget the run */
	sl_remote_close(f->remote);
}

static enum sl_err read_state(struct fetch *f, uint64_t step)
{
	struct sl_client_state state = {.step = 0};
	struct sl_checkpoint c;
	enum sl_err err = sl_remote_state_open(f->remote, &state, f->fail);

	sl_client_checkpoint(&c, f->setup->conf->log.dir, f->setup->plan);
	if (!err)
		err = sl_client_state_read(&state, &c, step, f->fail);
	if (!err)
		err = sl_recover_check_made(f->remote, &state, f->fail);
	if (!err && sl_remote_give(f->remote, &state))
		err = sl_fail_set(f->fail, SL_ERR_DATA, "step %llu: its state does not belong to this run",
				  (unsigned long long)step);
	sl_client_state_close(&state);
	return err;
}

static void on_ready(void *arg, uint64_t next_step)
{
	struct fetch *f = arg;
	enum sl_err err = read_state(f, next_step);

	f->step = next_step;
	if (err)
		end(f, err);
	else {
		(void)sl_audit_wants(f->audit, f->step, false); /* the audit begins with this step */
		sl_link_fetch(sl_remote_link(f->remote));
	}
}

/* Takes the batch that the run itself would take next, so that no other rows cross. */
static void begin_step(struct fetch *f)
{
	const enum sl_err err = sl_loader_take(f->loader, &f->batch, f->fail);
	struct sl_feed feed;

	if (err) {
		end(f, err);
		return;
	}
	feed = sl_feed_of(f->batch);
	sl_link_kept(sl_remote_link(f->remote), f->kept, false);
	sl_remote_step(f->remote, &feed, f->step + f->done, f->setup->conf->train.lr, false);
}

static void on_fetched(void *arg)
{
	struct fetch *f = arg;
	enum sl_err err;

	err = sl_audit_fetched(f->audit, f->remote, f->step + f->done, f->done < f->steps, f->fail);
	if (!err && f->done < f->steps)
		begin_step(f);
	else
		end(f, err ? err : sl_remote_get_weights(f->remote, &f->setup->weights, f->fail));
}

static void on_done(void *arg)
{
	struct fetch *f = arg;

	release(f);
	if (++f->done < f->steps)
		begin_step(f);
	else
		sl_link_fetch(sl_remote_link(f->remote));
}

/* The step had NaN or Inf: if it has them here, too, there is nothing to compare. */
static void on_abandoned(void *arg, const struct sl_fail *why)
{
	struct fetch *f = arg;

	const struct sl_fail reason = *why;

	if (sl_audit_abandoned(f->audit, f->step + f->done, reason.text, f->fail) == SL_OK)
		*f->fail = reason;
	end(f, f->fail->code);
}

static void on_failed(void *arg, const struct sl_fail *fail)
{
	struct fetch *f = arg;

	release(f);
	*f->fail = *fail;
	f->err = sl_audit_lost(f->audit, true, f->fail);
	sl_remote_close(f->remote);
}

static void on_closed(void *arg)
{
	struct fetch *f = arg;

	f->remote = NULL;
	sl_loop_stop(f->loop);
}

static enum sl_err open_link(struct fetch *f, const struct sl_client_auth *auth, const struct sl_last_run *run)
{
	static const struct sl_link_events events = {.ready = on_ready,
						     .done = on_done,
						     .abandoned = on_abandoned,
						     .fetched = on_fetched,
						     .failed = on_failed,
						     .closed = on_closed};
	const struct sl_conf_client *c = f->setup->conf;
	struct sl_remote_conf remote = {
		.link = sl_setup_link(f->setup, &auth->transport), .use = sl_setup_use(f->setup), .audit = f->audit};
	struct sl_offer *offer = &remote.link.offer;

	*offer = (struct sl_offer){.secret = &run->secret, .first = true, .n_held = run->n};
	offer->epoch = sl_epoch_begin(c->log.dir, (uint64_t)sl_wall_s()) + 1;
	memcpy(f->kept, run->step, sizeof f->kept);
	memcpy(offer->held, run->step, (size_t)run->n * sizeof run->step[0]); /* without step 0, which is no model */
	return sl_remote_open(&f->remote, f->loop, &remote, &events, f, f->fail);
}

/* Locks the run's log, so that no other process continues the run meanwhile. */
static enum sl_err lock_run(const struct fetch *f, struct sl_jsonl **log, struct sl_fail *fail)
{
	const struct sl_conf_client *c = f->setup->conf;
	char path[PATH_MAX];
	enum sl_err err = sl_log_dir_path(path, c, "log.jsonl", fail);

	if (!err)
		err = sl_jsonl_open(log, path, fail);
	if (err == SL_ERR_BUSY && f->audit)
		return sl_fail_set(fail, err,
				   "a process trains the run in '%.200s': pause it first (Ctrl-C), then audit",
				   c->log.dir);
	if (err == SL_ERR_BUSY)
		return sl_fail_set(
			fail, err,
			"a process trains the run in '%.200s', but does not answer at %.120s: name its control socket "
			"with --set control=PATH",
			c->log.dir, c->control);
	return err;
}

/* Moves the loader to the batch of the newest checkpoint. If the server resumes from an older one, that batch serves
 * as well. */
static enum sl_err seek(struct fetch *f, uint64_t step)
{
	const uint64_t batches = f->loader ? (uint64_t)sl_loader_batches(f->loader) : 1;
	enum sl_err err = f->loader ? sl_loader_seek(f->loader, step / batches, (int64_t)(step % batches)) : SL_OK;

	return err ? sl_fail_set(f->fail, err, "the data loader: %s", sl_err_text(err)) : SL_OK;
}

static enum sl_err go(struct fetch *f, struct sl_fail *fail)
{
	struct sl_setup *setup = f->setup;
	struct sl_client_auth auth = {.met = false};
	struct sl_jsonl *log = NULL;
	struct sl_last_run run = {.n = 0};
	uint64_t newest = UINT64_MAX;
	enum sl_err err = lock_run(f, &log, fail);

	if (!err && !sl_checkpoint_older(setup->conf->log.dir, SL_CHECKPOINT_CLIENT, &newest))
		err = sl_fail_set(fail, SL_ERR_NOINPUT,
				  "log.dir '%.200s' has no checkpoint to go on from: a run has them until it is done",
				  setup->conf->log.dir);
	if (!err)
		err = sl_last_run_read(&run, setup->conf, setup->plan, 0, fail);
	if (!err)
		err = sl_client_auth_open(&auth, setup->conf, fail);
	if (!err)
		err = sl_loop_open(&f->loop, fail);
	if (!err)
		err = seek(f, run.step[0]);
	if (!err)
		err = open_link(f, &auth, &run);
	if (!err) {
		sl_loop_run(f->loop);
		err = f->err;
	}
	if (f->loop)
		sl_loop_close(f->loop);
	sl_client_auth_close(&auth);
	sl_secret_wipe(&run.secret);
	if (sl_jsonl_close(log) != SL_OK && !err)
		err = sl_fail_set(fail, SL_ERR_IO, "log.jsonl could not be closed");
	if (err == SL_ERR_TIMEOUT)
		err = sl_link_explain(setup->conf, fail);
	return err;
}

enum sl_err sl_fetch_pair(struct sl_setup *setup, uint64_t *step, struct sl_fail *fail)
{
	struct fetch f = {.setup = setup, .fail = fail};
	enum sl_err err = go(&f, fail);

	*step = f.step;
	return err;
}

enum sl_err sl_audit_pair(struct sl_setup *setup, uint64_t steps, uint64_t *step, struct sl_audit_sum *sum,
			  struct sl_fail *fail)
{
	struct fetch f = {.setup = setup, .fail = fail, .steps = steps};
	enum sl_err err = sl_audit_open(&f.audit, setup, 0, UINT64_MAX, true, fail);

	if (!err)
		err = sl_setup_loader(setup, SL_SPLIT_TRAIN, NULL, NULL, &f.loader, fail);
	if (!err)
		err = go(&f, fail);
	*step = f.step;
	*sum = sl_audit_sum(f.audit);
	sl_loader_close(f.loader);
	sl_audit_close(f.audit);
	return err;
}
