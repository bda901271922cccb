#include "client/persist/archive.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/worker.h"

struct sl_archive {
	const char *dir;
	int watchdog_s;
	struct sl_archive_events events;
	void *arg;
	uint64_t file[SL_LAST_RUN_STEPS]; /* steps of the good files, newest first */
	int n_file;
	int confirmed; /* steps behind 0 whose file was written, and of which the server has its side */
	uint64_t last_confirmed;
	uint64_t back_to; /* the run went back to this step, and abandoned later files; UINT64_MAX: it did not */
	bool back_sure;   /* back_to is no mistake, even if it is step 0 */
	struct sl_checkpoint_state status;
	/* writing */
	struct sl_worker *disk;
	struct sl_async *written;
	struct sl_job job;
	struct sl_checkpoint checkpoint;
	struct sl_client_state state;
	uint64_t above;            /* the write first removes files of later steps */
	bool sure;                 /* the server has its side of `state` */
	bool busy, leaving, quiet; /* leaving: `above` is still back_to; the run has not gone back during the write */
	int tries;                 /* how often the write of `state` has failed; 0: nothing is to be tried again */
	enum sl_err err;
	struct sl_fail fail;
};

static struct sl_archive *archive_of(struct sl_job *job)
{
	return (struct sl_archive *)(void *)((char *)job - offsetof(struct sl_archive, job));
}

/* Good files are listed once each, newest first. */
static void check_files(const struct sl_archive *a)
{
	sl_assert_int(a->n_file, >=, 0);
	sl_assert_int(a->n_file, <=, SL_LAST_RUN_STEPS);
	for (int i = 0; i + 1 < a->n_file; i++)
		sl_assert_int(a->file[i], >, a->file[i + 1]);
	sl_assert_if(a->confirmed, a->last_confirmed > 0 || a->back_to == 0);
	sl_assert_int(a->confirmed, >=, 0);
	sl_assert_if(a->leaving, a->busy || a->job.run);
}

/* What the server is told that this side keeps: newest first. */
static void check_kept(const uint64_t step[SL_CHECKPOINT_KEPT])
{
	for (int i = 1; i < SL_CHECKPOINT_KEPT; i++)
		sl_assert(step[i - 1] > step[i] || !step[i]);
}

/* Makes the status name a file that is still there. */
static void name_newest(struct sl_archive *a)
{
	a->status.good = sl_archive_newest(a);
}

/* The newest of the older files that a write leaves; 0: there is none. */
static uint64_t pinned(const struct sl_archive *a)
{
	return a->checkpoint.n_pin ? a->checkpoint.pin[0] : 0;
}

static void add_file(struct sl_archive *a, uint64_t step)
{
	sl_assert_int(a->checkpoint.n_pin, <, SL_LAST_RUN_STEPS);
	a->file[0] = step;
	memcpy(a->file + 1, a->checkpoint.pin, (size_t)a->checkpoint.n_pin * sizeof a->file[0]);
	a->n_file = 1 + a->checkpoint.n_pin;
}

void sl_archive_go_back(struct sl_archive *a, uint64_t step, bool sure)
{
	while (a->n_file && a->file[0] > step)
		memmove(a->file, a->file + 1, (size_t)--a->n_file * sizeof a->file[0]);
	a->tries = a->state.step > step ? 0 : a->tries;
	a->back_to = step;
	a->back_sure = sure;
	a->leaving = false;
	if (a->n_file)
		sl_assert_int(a->file[0], <=, step); /* what is later is not of this history */
	a->confirmed = step ? a->confirmed : 0;
	a->last_confirmed = step < a->last_confirmed ? step : a->last_confirmed;
	if (!step && !sure)
		return;
	sl_checkpoint_leave(a->dir, SL_CHECKPOINT_CLIENT, step);
	name_newest(a);
}

const char *sl_archive_last(const struct sl_archive *a, char out[SL_ARCHIVE_LAST])
{
	const uint64_t newest = sl_archive_newest(a);

	snprintf(out, SL_ARCHIVE_LAST, newest ? "; the last good one is %" PRIu64 : "; there is no earlier one",
		 newest);
	return out;
}

void sl_archive_miss(struct sl_archive *a, uint64_t step, const struct sl_fail *why)
{
	char last[SL_ARCHIVE_LAST];

	sl_log(SL_LOG_WARN, "checkpoint-missed", "step %" PRIu64 ": %s%s", step, why->text, sl_archive_last(a, last));
	sl_checkpoint_missed(&a->status, step, why);
}

void sl_archive_say_lost(uint64_t held, uint64_t next_step, bool given, bool common)
{
	if (next_step < held && given)
		sl_log(SL_LOG_WARN, "steps-lost",
		       "this side has the checkpoint of step %" PRIu64 ", and the group goes on from step %" PRIu64
		       ", the newest that the server's store has: the steps between them are run again. If that store "
		       "is an older copy, stop the group and put the newer one back",
		       held, next_step);
	else if (next_step < held)
		sl_log(SL_LOG_WARN, "steps-lost",
		       "this side could go on from step %" PRIu64 ", the server from step %" PRIu64
		       ": the steps between them are run again%s",
		       held, next_step,
		       common      ? ", since another member of the group, or the server, holds no later one"
		       : next_step ? ""
				   : ": the server has no checkpoint of them: none was due yet "
				     "(train.checkpoint_every), or it has no `store`, or another one");
}

static void run_write(struct sl_job *job)
{
	struct sl_archive *a = archive_of(job);
	const int n_part = a->checkpoint.n_part, n_note = a->checkpoint.n_note;

	/* The log first: after a power cut it must not be shorter than the checkpoint says, or no resume can cut it. */
	a->events.sync(a->arg);
	sl_checkpoint_leave(a->dir, SL_CHECKPOINT_CLIENT, a->above);
	a->err = sl_client_state_write(&a->state, &a->checkpoint, &a->fail);
	a->checkpoint.n_part = n_part; /* without what the write has added */
	a->checkpoint.n_note = n_note;
}

static void write_done(struct sl_job *job)
{
	struct sl_archive *a = archive_of(job);

	sl_assert(a->busy); /* a write ends once */
	a->busy = false;
	SL_FAILPOINT(SL_FP_CLIENT_KEPT);
	if (a->err) {
		if (a->leaving)
			name_newest(a); /* run_write has removed the later files all the same */
		sl_archive_miss(a, a->state.step, &a->fail);
		a->tries += !a->quiet;
		if (!a->quiet)
			a->events.missed(a->arg, &a->fail);
		return;
	}
	a->tries = 0;
	add_file(a, a->state.step);
	if (a->sure && a->state.step > a->last_confirmed) { /* the file of a pause may be written again */
		a->last_confirmed = a->state.step;
		a->confirmed++;
	}
	sl_checkpoint_good(&a->status, a->state.step);
	/* If the run went back during the write, the new file may be of a later step, and has to go. */
	sl_archive_go_back(a, a->leaving ? UINT64_MAX : a->back_to, a->back_sure);
	check_files(a);
}

static void on_written(void *arg)
{
	struct sl_archive *a = arg;

	sl_worker_drain(a->disk);
	if (!a->busy)
		a->events.written(a->arg);
}

enum sl_err sl_archive_open(struct sl_archive **out, struct sl_loop *loop, const char *dir, int watchdog_s,
			    const struct sl_archive_events *events, void *arg, struct sl_fail *fail)
{
	struct sl_archive *a = calloc(1, sizeof *a);
	enum sl_err err;

	if (!a)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the run");
	a->dir = dir;
	a->watchdog_s = watchdog_s;
	a->events = *events;
	a->arg = arg;
	a->back_to = UINT64_MAX;
	err = sl_async_open(&a->written, loop, on_written, a, fail);
	if (!err)
		err = sl_worker_open(&a->disk, "split-disk", sl_async_wake, a->written, fail);
	if (err) {
		sl_archive_close(a);
		return err;
	}
	*out = a;
	return SL_OK;
}

void sl_archive_close(struct sl_archive *a)
{
	if (!a)
		return;
	sl_worker_close(a->disk);
	sl_async_close(a->written);
	sl_client_state_close(&a->state);
	free(a);
}

void sl_archive_found(struct sl_archive *a, const uint64_t *step, int n, int confirmed)
{
	sl_assert(!a->busy && n <= SL_LAST_RUN_STEPS && confirmed <= n);
	memcpy(a->file, step, (size_t)n * sizeof step[0]);
	a->n_file = n;
	a->confirmed = confirmed;
	a->last_confirmed = n && confirmed ? step[0] : 0;
	check_files(a);
	sl_checkpoint_good(&a->status, sl_archive_newest(a));
}

int sl_archive_files(const struct sl_archive *a, uint64_t step[SL_LAST_RUN_STEPS])
{
	memcpy(step, a->file, (size_t)a->n_file * sizeof step[0]);
	return a->n_file;
}

int sl_archive_confirmed(const struct sl_archive *a)
{
	return a->confirmed;
}

uint64_t sl_archive_newest(const struct sl_archive *a)
{
	return a->n_file ? a->file[0] : 0;
}

bool sl_archive_kept(const struct sl_archive *a, uint64_t step[SL_CHECKPOINT_KEPT])
{
	int n = 0;

	/* Also the step under way: the server has its side, and must not remove it if it writes two more meanwhile. */
	if (a->busy) {
		step[n++] = a->state.step;
		step[n++] = pinned(a);
	}
	for (int i = 0; n < SL_CHECKPOINT_KEPT; i++)
		step[n++] = i < a->n_file ? a->file[i] : 0;
	check_kept(step);
	return a->busy;
}

bool sl_archive_refuse(struct sl_archive *a, uint64_t step)
{
	int n = 0;

	for (int i = 0; i < a->n_file; i++)
		if (a->file[i] != step)
			a->file[n++] = a->file[i];
	if (n == a->n_file)
		return false;
	a->n_file = n;
	name_newest(a);
	return true;
}

bool sl_archive_busy(const struct sl_archive *a)
{
	return a->busy;
}

struct sl_client_state *sl_archive_state(struct sl_archive *a)
{
	sl_assert(!a->busy); /* the writing thread reads it */
	return &a->state;
}

static void post(struct sl_archive *a)
{
	sl_assert(!a->busy && a->dir[0]);
	check_files(a);
	a->above = a->back_to;
	a->leaving = true;
	a->job = (struct sl_job){.run = run_write, .done = write_done};
	a->busy = true;
	sl_worker_post(a->disk, &a->job);
}

void sl_archive_write(struct sl_archive *a, const struct sl_checkpoint *c, bool sure, bool quiet)
{
	a->checkpoint = *c;
	a->sure = sure;
	a->quiet = quiet;
	a->tries = 0;
	post(a);
}

int sl_archive_tries(const struct sl_archive *a)
{
	return a->tries;
}

bool sl_archive_again(struct sl_archive *a)
{
	const bool again = !a->busy && a->tries == 1;

	if (again)
		post(a);
	return again;
}

bool sl_archive_begins_anew(const struct sl_archive *a)
{
	return a->back_to == 0;
}

enum sl_err sl_archive_result(const struct sl_archive *a, struct sl_fail *fail)
{
	if (a->err)
		*fail = a->fail;
	return a->err;
}

uint64_t sl_archive_busy_ms(const struct sl_archive *a)
{
	return sl_worker_busy_ms(a->disk);
}

bool sl_archive_settle(struct sl_archive *a)
{
	return sl_worker_settle(a->disk, &a->busy, a->watchdog_s);
}

struct sl_checkpoint_state sl_archive_status(const struct sl_archive *a)
{
	return a->status;
}

bool sl_archive_finish(struct sl_archive *a, uint64_t step, bool keep)
{
	sl_assert(!a->busy);
	keep = keep && a->n_file && a->file[0] == step;
	a->n_file = 0;
	name_newest(a);
	return !a->dir[0] || sl_last_run_finish(a->dir, step, keep);
}
