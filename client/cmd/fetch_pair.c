#include "client/cmd/fetch_pair.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/link/auth.h"
#include "client/persist/epoch.h"
#include "client/persist/jsonl.h"
#include "client/persist/last_run.h"
#include "client/run/drive.h"
#include "client/run/remote.h"
#include "common/link/loop.h"

struct fetch {
	struct sl_setup *setup;
	struct sl_loop *loop;
	struct sl_remote *remote;
	uint64_t step;
	enum sl_err err;
	struct sl_fail *fail;
};

static void end(struct fetch *f, enum sl_err err)
{
	f->err = err;
	sl_link_pause(sl_remote_link(f->remote)); /* a goodbye would have the server forget the run */
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
	else
		sl_link_fetch(sl_remote_link(f->remote));
}

static void on_fetched(void *arg)
{
	struct fetch *f = arg;

	end(f, sl_remote_get_weights(f->remote, &f->setup->weights, f->fail));
}

static void on_failed(void *arg, const struct sl_fail *fail)
{
	struct fetch *f = arg;

	*f->fail = *fail;
	f->err = fail->code;
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
	static const struct sl_remote_events events = {
		.ready = on_ready, .fetched = on_fetched, .failed = on_failed, .closed = on_closed};
	const struct sl_conf_client *c = f->setup->conf;
	struct sl_remote_conf remote = {.link = sl_setup_link(f->setup, &auth->transport)};
	struct sl_offer *offer = &remote.link.offer;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	*offer = (struct sl_offer){.secret = &run->secret, .first = true, .n_held = run->n};
	offer->epoch = sl_epoch_begin(c->log.dir, (uint64_t)now.tv_sec) + 1;
	memcpy(offer->held, run->step, (size_t)run->n * sizeof run->step[0]); /* not step 0: that is no model */
	return sl_remote_open(&f->remote, f->loop, &remote, &events, f, f->fail);
}

/* Nobody else goes on with the run meanwhile: its log's lock says so. */
static enum sl_err lock_run(const struct sl_conf_client *c, struct sl_jsonl **log, struct sl_fail *fail)
{
	char path[PATH_MAX];
	enum sl_err err;

	if (snprintf(path, sizeof path, "%s/log.jsonl", c->log.dir) >= PATH_MAX)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "log.dir: the path is too long");
	err = sl_jsonl_open(log, path, fail);
	if (err == SL_ERR_BUSY)
		return sl_fail_set(
			fail, err,
			"a process trains the run in '%.200s', but does not answer at %.120s: name its control socket "
			"with --set control=PATH",
			c->log.dir, c->control);
	return err;
}

enum sl_err sl_fetch_pair(struct sl_setup *setup, uint64_t *step, struct sl_fail *fail)
{
	struct fetch f = {.setup = setup, .fail = fail};
	struct sl_client_auth auth = {.met = false};
	struct sl_jsonl *log = NULL;
	struct sl_last_run run = {.n = 0};
	enum sl_err err = lock_run(setup->conf, &log, fail);

	if (!err)
		err = sl_last_run_read(&run, setup->conf, setup->plan, 0, fail);
	if (!err)
		err = sl_client_auth_open(&auth, setup->conf, fail);
	if (!err)
		err = sl_loop_open(&f.loop, fail);
	if (!err)
		err = open_link(&f, &auth, &run);
	if (!err) {
		sl_loop_run(f.loop);
		err = f.err;
	}
	if (f.loop)
		sl_loop_close(f.loop);
	sl_client_auth_close(&auth);
	sl_secret_wipe(&run.secret);
	if (sl_jsonl_close(log) != SL_OK && !err)
		err = sl_fail_set(fail, SL_ERR_IO, "log.jsonl could not be closed");
	if (err == SL_ERR_TIMEOUT)
		err = sl_drive_explain(setup->conf, fail);
	*step = f.step;
	return err;
}
