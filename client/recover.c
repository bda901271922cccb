#include "client/recover.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "common/base/log.h"
#include "common/base/worker.h"

struct sl_recover {
	const struct sl_setup *setup;
	const char *dir; /* log.dir; "": nothing on disk */
	uint8_t session[16];
	uint64_t epoch;
	/* from the last link */
	struct sl_client_state live, ahead, saving;
	bool has_live, has_ahead;
	struct sl_step_result ahead_result;
	/* writing */
	struct sl_worker *disk;
	struct sl_async *written;
	struct sl_job job;
	struct sl_checkpoint checkpoint;
	bool busy;
	enum sl_err write_err;
	struct sl_fail write_fail;
};

static bool uuid_parse(const char *text, uint8_t out[16])
{
	for (int i = 0; i < 16; i++)
		if (sscanf(text + 2 * i, "%2hhx", &out[i]) != 1)
			return false;
	return strlen(text) == SL_HEX16_TEXT - 1;
}

/* Above every epoch that this session ever had, whichever process chose it. */
static uint64_t new_epoch(uint64_t last)
{
	struct timespec now;
	uint64_t ms;

	clock_gettime(CLOCK_REALTIME, &now);
	ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
	return ms > last ? ms : last + 1;
}

/* The session of the newest checkpoint that can be read. */
static enum sl_err find_session(struct sl_recover *r, struct sl_fail *fail)
{
	uint64_t step[SL_CHECKPOINT_KEPT];
	int n = r->dir[0] ? sl_checkpoint_list(r->dir, "checkpoint", step) : 0;

	if (!n)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "--resume: no checkpoint in '%s'", r->dir);
	for (int i = 0; i < n; i++) {
		struct sl_checkpoint c;
		enum sl_err err;

		sl_client_checkpoint(&c, r->dir, r->setup->plan);
		sl_checkpoint_note(&c, "session", "%s", "");
		err = sl_checkpoint_read(&c, step[i], fail);
		if (!err && uuid_parse(sl_checkpoint_noted(&c, "session"), r->session))
			return SL_OK;
		if (err == SL_ERR_MISMATCH)
			return err;
		sl_log(SL_LOG_WARN, "checkpoint-refused", "%s", err ? fail->text : "no session in its notes");
	}
	return sl_fail_set(fail, SL_ERR_NOINPUT, "--resume: no checkpoint in '%s' can be read", r->dir);
}

static void run_write(struct sl_job *job)
{
	struct sl_recover *r = (struct sl_recover *)(void *)((char *)job - offsetof(struct sl_recover, job));

	r->write_err = sl_client_state_write(&r->saving, &r->checkpoint, &r->write_fail);
}

static void write_done(struct sl_job *job)
{
	struct sl_recover *r = (struct sl_recover *)(void *)((char *)job - offsetof(struct sl_recover, job));

	r->busy = false;
	if (r->write_err)
		sl_log(SL_LOG_WARN, "checkpoint-write", "%s; the one before it is kept", r->write_fail.text);
}

static void wake(void *arg)
{
	sl_async_wake(arg);
}

static void on_written(void *arg)
{
	struct sl_recover *r = arg;

	sl_worker_drain(r->disk);
}

enum sl_err sl_recover_open(struct sl_recover **out, struct sl_loop *loop, const struct sl_setup *setup, bool keep,
			    bool resume, struct sl_fail *fail)
{
	struct sl_recover *r = calloc(1, sizeof *r);
	enum sl_err err = SL_OK;

	if (!r)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the run");
	r->setup = setup;
	r->dir = keep ? setup->conf->log.dir : "";
	if (resume)
		err = find_session(r, fail);
	else if (getrandom(r->session, sizeof r->session, 0) != sizeof r->session)
		err = sl_fail_set(fail, SL_ERR_OS, "no random bytes for the session's id");
	else if (r->dir[0])
		sl_checkpoint_clear(r->dir, "checkpoint");
	if (!err)
		err = sl_async_open(&r->written, loop, on_written, r, fail);
	if (!err)
		err = sl_worker_open(&r->disk, "split-disk", wake, r->written, fail);
	if (err) {
		sl_recover_close(r);
		return err;
	}
	*out = r;
	return SL_OK;
}

static void wait_for_file(struct sl_recover *r)
{
	const struct timespec moment = {0, 2000000};

	while (r->busy) {
		sl_worker_drain(r->disk);
		if (r->busy)
			nanosleep(&moment, NULL);
	}
}

void sl_recover_close(struct sl_recover *r)
{
	if (!r)
		return;
	wait_for_file(r);
	sl_worker_close(r->disk);
	if (r->written)
		sl_async_close(r->written);
	sl_client_state_close(&r->live);
	sl_client_state_close(&r->ahead);
	sl_client_state_close(&r->saving);
	free(r);
}

void sl_recover_offer(struct sl_recover *r, struct sl_remote_conf *conf)
{
	uint64_t file[SL_CHECKPOINT_KEPT];
	int n = r->dir[0] ? sl_checkpoint_list(r->dir, "checkpoint", file) : 0;

	memcpy(conf->session, r->session, sizeof conf->session);
	conf->epoch = r->epoch = new_epoch(r->epoch);
	conf->n_held = 0;
	if (r->has_ahead)
		conf->held[conf->n_held++] = r->ahead.step;
	if (r->has_live)
		conf->held[conf->n_held++] = r->live.step;
	for (int i = 0; i < n && conf->n_held < SL_WIRE_HELD_MAX; i++)
		if (!r->has_live || file[i] < r->live.step)
			conf->held[conf->n_held++] = file[i];
	if (conf->n_held < SL_WIRE_HELD_MAX && !(conf->n_held && conf->held[conf->n_held - 1] == 0))
		conf->held[conf->n_held++] = 0;
}

static enum sl_err take(struct sl_remote *remote, struct sl_client_state *s, uint64_t step, struct sl_fail *fail)
{
	enum sl_err err = s->head.weight ? SL_OK : sl_remote_state_open(remote, s, fail);

	if (!err && sl_remote_take(remote, s))
		err = sl_fail_set(fail, SL_ERR_DEVICE, "the state of step %" PRIu64 " could not be read", step);
	s->step = step;
	return err;
}

enum sl_err sl_recover_lost(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run, bool *done,
			    struct sl_step_result *result, struct sl_fail *fail)
{
	uint64_t step = sl_training_state(run).step;
	enum sl_err err;

	*done = sl_remote_in_step(remote) && sl_remote_applied(remote);
	if (!sl_remote_ready(remote))
		return SL_OK; /* that link never got its state: what was held before it still is */
	r->has_live = r->has_ahead = false;
	if (*done) {
		*result = sl_remote_result(remote);
		step++;
	}
	err = take(remote, &r->live, step, fail);
	r->has_live = !err;
	if (err || !sl_remote_in_doubt(remote))
		return err;
	r->ahead_result = sl_remote_result(remote);
	err = sl_remote_apply(remote);
	if (err)
		return sl_fail_set(fail, err, "step %" PRIu64 " could not be applied", step);
	err = take(remote, &r->ahead, step + 1, fail);
	r->has_ahead = !err;
	return err;
}

static enum sl_err read_file(struct sl_recover *r, struct sl_remote *remote, struct sl_training *run, uint64_t step,
			     struct sl_fail *fail)
{
	struct sl_client_state *s = &r->live; /* its content is of no more use */
	struct sl_checkpoint c;
	enum sl_err err = s->head.weight ? SL_OK : sl_remote_state_open(remote, s, fail);

	r->has_live = r->has_ahead = false;
	if (err)
		return err;
	sl_client_checkpoint(&c, r->dir, r->setup->plan);
	sl_training_notes(&c);
	err = sl_client_state_read(s, &c, step, fail);
	if (!err)
		err = sl_training_restore(run, &c, fail);
	if (!err && sl_remote_give(remote, s))
		err = sl_fail_set(fail, SL_ERR_DEVICE, "the state of step %" PRIu64 " could not be set", step);
	return err;
}

enum sl_err sl_recover_restore(struct sl_recover *r, struct sl_remote *remote, struct sl_training *run,
			       uint64_t next_step, enum sl_restored *how, struct sl_step_result *result,
			       struct sl_fail *fail)
{
	const struct sl_client_state *held = NULL;

	if (r->has_ahead && next_step == r->ahead.step) {
		held = &r->ahead;
		*how = SL_RESTORED_AHEAD;
		*result = r->ahead_result;
	} else if (r->has_live && next_step == r->live.step) {
		held = &r->live;
		*how = SL_RESTORED_SAME;
	} else {
		*how = SL_RESTORED_BACK;
		if (next_step)
			return read_file(r, remote, run, next_step, fail);
		return sl_training_restore(run, NULL, fail); /* the link began with the first weights */
	}
	if (sl_remote_give(remote, held))
		return sl_fail_set(fail, SL_ERR_DEVICE, "the state of step %" PRIu64 " could not be set", next_step);
	return SL_OK;
}

bool sl_recover_due(const struct sl_recover *r, const struct sl_training *run)
{
	int every = r->setup->conf->train.checkpoint_every;

	return r->dir[0] && every && (sl_training_state(run).step + 1) % (uint64_t)every == 0;
}

void sl_recover_keep(struct sl_recover *r, struct sl_remote *remote, const struct sl_training *run, bool wait)
{
	uint64_t step = sl_training_state(run).step;
	char uuid[SL_HEX16_TEXT];
	struct sl_fail fail;

	if (!r->dir[0])
		return;
	if (wait)
		wait_for_file(r);
	if (r->busy) {
		sl_log(SL_LOG_WARN, "checkpoint-skipped", "step %" PRIu64 ": the one before it is still being written",
		       step);
		return;
	}
	if (take(remote, &r->saving, step, &fail) != SL_OK) {
		sl_log(SL_LOG_WARN, "checkpoint-write", "%s; the one before it is kept", fail.text);
		return;
	}
	sl_client_checkpoint(&r->checkpoint, r->dir, r->setup->plan);
	sl_checkpoint_note(&r->checkpoint, "session", "%s", sl_hex16(r->session, uuid));
	sl_training_save(run, &r->checkpoint);
	r->job = (struct sl_job){.run = run_write, .done = write_done};
	r->busy = true;
	sl_worker_post(r->disk, &r->job);
	if (wait)
		wait_for_file(r);
}

void sl_recover_forget(struct sl_recover *r)
{
	wait_for_file(r);
	if (r->dir[0])
		sl_checkpoint_clear(r->dir, "checkpoint");
}
