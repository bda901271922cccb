#include "client/persist/last_run.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/model/weights_file.h"
#include "client/persist/client_state.h"
#include "client/persist/journal.h"
#include "client/persist/model_file.h"
#include "client/persist/run_secret.h"
#include "client/persist/same_run.h"
#include "common/base/log.h"

enum { REFUSED_MOST = 4, LOG_TAIL = 1 << 16 /* more than a summary */ };

/* Whether the settings are no longer those that the file notes; `out` says which. */
static bool has_changed(const struct sl_conf_client *conf, const char *prefix, uint64_t step,
			char out[SL_SAME_RUN_TEXT])
{
	struct sl_checkpoint c = {.dir = conf->log.dir, .prefix = prefix};
	struct sl_fail unread;

	sl_checkpoint_ask(&c, SL_SAME_RUN);
	return sl_checkpoint_read(&c, step, &unread) == SL_OK &&
	       sl_same_run_changed(conf, sl_checkpoint_noted(&c, SL_SAME_RUN), out);
}

bool sl_past_run_changed(const struct sl_conf_client *conf, uint64_t steps, char out[SL_SAME_RUN_TEXT])
{
	return has_changed(conf, SL_CHECKPOINT_DONE, steps, out);
}

/* The file is of another plan or of other lengths, of which the notes have a hash alone: adds the settings that
 * changed. */
static void say_changed(const struct sl_conf_client *conf, const char *prefix, uint64_t step, struct sl_fail *fail)
{
	char changed[SL_SAME_RUN_TEXT];
	struct sl_fail why = *fail;

	if (has_changed(conf, prefix, step, changed))
		sl_fail_set(fail, why.code, "%.260s; since then %.200s", why.text, changed);
}

/* Adds the file of `step` to `run` if it is whole, of this plan, and of the session with this name. */
static enum sl_err take_file(struct sl_last_run *run, const struct sl_conf_client *conf, const struct sl_plan *plan,
			     const char *prefix, uint64_t step, const char *session, struct sl_fail *fail)
{
	struct sl_checkpoint c;
	enum sl_err err;

	sl_client_checkpoint(&c, conf->log.dir, plan);
	c.prefix = prefix;
	sl_checkpoint_note(&c, "session", "%s", "");
	sl_checkpoint_ask(&c, SL_LAST_RUN_UNSURE);
	err = sl_checkpoint_read(&c, step, fail);
	if (!err && strcmp(sl_checkpoint_noted(&c, "session"), session) != 0)
		err = sl_fail_set(fail, SL_ERR_DATA, "step %" PRIu64 " belongs to another session", step);
	if (err == SL_ERR_MISMATCH)
		say_changed(conf, prefix, step, fail);
	if (err)
		return err;
	run->step[run->n++] = step;
	run->confirmed += step && !sl_checkpoint_noted(&c, SL_LAST_RUN_UNSURE)[0];
	return SL_OK;
}

/* Files from which the run cannot go on, newest first. */
struct refused {
	int n;
	struct sl_fail why[REFUSED_MOST]; /* of the first REFUSED_MOST */
};

static void refuse(struct refused *r, const struct sl_fail *why)
{
	if (r->n < REFUSED_MOST)
		r->why[r->n] = *why;
	r->n++;
}

static void warn_of(const struct refused *r, enum sl_err but)
{
	for (int i = 0; i < r->n && i < REFUSED_MOST; i++)
		if (r->why[i].code != but)
			sl_log(SL_LOG_WARN, "checkpoint-refused", "%s", r->why[i].text);
}

/* No file is good. With another config all have the same fault: the error says it once, for the newest. */
static enum sl_err say_refused(const struct refused *r, struct sl_fail *fail)
{
	char older[48] = "";

	warn_of(r, r->why[0].code);
	if (r->n > 1)
		snprintf(older, sizeof older, " (%d older one%s cannot be used either)", r->n - 1, r->n > 2 ? "s" : "");
	return sl_fail_set(fail, r->why[0].code, "--resume: no good checkpoint: %s%s", r->why[0].text, older);
}

/* There is no checkpoint: the run is done, or it ended before its first one. */
static enum sl_err say_none(const struct sl_conf_client *conf, struct sl_fail *fail)
{
	const char *dir = conf->log.dir;
	struct sl_past_run past = sl_past_run(dir);

	if (past.resumable)
		return sl_fail_set(fail, SL_ERR_NOINPUT,
				   "--resume: no checkpoint in '%.200s': the run of %" PRIu64
				   " steps is done. To train it further: --resume --set %s=N",
				   dir, past.steps, sl_journal_longer_key(conf));
	if (past.stopped)
		return sl_fail_set(fail, SL_ERR_NOINPUT,
				   "--resume: no checkpoint in '%.200s': the run there was stopped before its end, and "
				   "with --local none is kept. A run in another log.dir can begin with its weights: "
				   "model.weights",
				   dir);
	if (past.done)
		return sl_fail_set(fail, SL_ERR_NOINPUT,
				   "--resume: no checkpoint in '%.200s': the run there is done, and its optimizer's "
				   "state was not kept. A run in another log.dir can begin with its weights: "
				   "model.weights",
				   dir);
	return sl_fail_set(fail, SL_ERR_NOINPUT,
			   "--resume: no checkpoint in '%.200s': without --resume a run begins there", dir);
}

/* The last line of log.jsonl, in `tail`. */
static const char *last_line(const char *dir, char tail[LOG_TAIL + 1])
{
	char path[PATH_MAX], *line;
	int fd = snprintf(path, sizeof path, "%s/log.jsonl", dir) < PATH_MAX
			 ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
			 : -1;
	off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	ssize_t n = fd < 0 ? 0 : pread(fd, tail, LOG_TAIL, end > LOG_TAIL ? end - LOG_TAIL : 0);

	if (fd >= 0)
		close(fd);
	tail[n > 1 ? n - 1 : 0] = '\0'; /* without the last line feed */
	line = strrchr(tail, '\n');
	return line ? line + 1 : tail;
}

/* True if log.jsonl ends with the summary of a run that was finished, or that ended early. */
static bool has_ended(const char *dir, bool finished)
{
	char tail[LOG_TAIL + 1];
	const char *line = last_line(dir, tail);

	return strstr(line, "\"type\":\"summary\"") && !!strstr(line, "\"outcome\":\"finished\"") == finished;
}

char *sl_past_run_summary(const char *dir)
{
	char tail[LOG_TAIL + 1];
	const char *line = last_line(dir, tail);

	return strstr(line, "\"type\":\"summary\"") ? strdup(line) : NULL;
}

bool sl_past_run_is_open(const char *dir)
{
	uint64_t step = UINT64_MAX;

	return sl_checkpoint_older(dir, SL_CHECKPOINT_CLIENT, &step) || has_ended(dir, false);
}

struct sl_past_run sl_past_run(const char *dir)
{
	struct sl_past_run past = {.steps = UINT64_MAX};
	char path[PATH_MAX];
	int64_t steps;

	if (!dir[0])
		return past;
	past.model = snprintf(path, sizeof path, "%s/" SL_MODEL_FILE, dir) < PATH_MAX && access(path, F_OK) == 0;
	past.resumable = sl_checkpoint_older(dir, SL_CHECKPOINT_DONE, &past.steps);
	past.done = past.resumable || past.model || has_ended(dir, true);
	if (past.resumable)
		return past;
	past.stopped = past.model && has_ended(dir, false);
	steps = past.model ? sl_weights_steps(path) : INT64_MAX;
	past.steps = steps == INT64_MAX ? 0 : (uint64_t)steps;
	return past;
}

/* The note "position" names the epoch and the batches done in it: 0 of the next, or all of the last. */
enum sl_err sl_past_run_epochs(const char *dir, uint64_t steps, int *epochs, struct sl_fail *fail)
{
	struct sl_checkpoint c = {.dir = dir, .prefix = SL_CHECKPOINT_DONE};
	int64_t in_epoch;
	uint64_t step;
	enum sl_err err;

	sl_checkpoint_note(&c, "position", "%s", "");
	err = sl_checkpoint_read(&c, steps, fail);
	if (err)
		return err;
	if (sscanf(sl_checkpoint_noted(&c, "position"), "%" SCNu64 " %d %" SCNd64, &step, epochs, &in_epoch) != 3)
		return sl_fail_set(fail, SL_ERR_DATA, "the notes of the run that is done cannot be read");
	*epochs += in_epoch > 0;
	return SL_OK;
}

/* Reads the session's secret, and derives the session's name as the notes of its checkpoints have it. */
static enum sl_err find_secret(const char *dir, struct sl_secret *secret, char name[SL_HEX16_TEXT],
			       struct sl_fail *fail)
{
	enum sl_err err = sl_run_secret_read(dir, secret, fail);
	struct sl_fail why = *fail;
	uint8_t raw[16];

	if (err)
		return sl_fail_set(fail, err, "--resume: %.400s", why.text);
	sl_session_name(secret->session, raw);
	sl_hex16(raw, name);
	return SL_OK;
}

static enum sl_err read_done(struct sl_last_run *run, const struct sl_conf_client *conf, const struct sl_plan *plan,
			     const char *session, uint64_t step, struct sl_fail *fail)
{
	struct sl_fail why;
	enum sl_err err = take_file(run, conf, plan, SL_CHECKPOINT_DONE, step, session, &why);

	if (err && run->n) /* later checkpoints will do */
		return SL_OK;
	if (err)
		return sl_fail_set(fail, err, "--resume: the run is done, and cannot go on from its last state: %s",
				   why.text);
	run->done = true;
	return SL_OK;
}

enum sl_err sl_last_run_read(struct sl_last_run *out, const struct sl_conf_client *conf, const struct sl_plan *plan,
			     uint64_t total_steps, struct sl_fail *fail)
{
	const char *dir = conf->log.dir;
	const struct sl_past_run past = sl_past_run(dir);
	const bool longer = past.resumable && total_steps > past.steps;
	struct sl_last_run run = {.n = 0};
	struct refused refused = {.n = 0};
	uint64_t step = UINT64_MAX;
	char session[SL_HEX16_TEXT];
	enum sl_err err;

	if (!dir[0] || (!sl_checkpoint_older(dir, SL_CHECKPOINT_CLIENT, &step) && !longer))
		return say_none(conf, fail);
	err = find_secret(dir, &run.secret, session, fail);
	if (err)
		return err;
	step = UINT64_MAX;
	while (run.n < SL_LAST_RUN_STEPS && sl_checkpoint_older(dir, SL_CHECKPOINT_CLIENT, &step)) {
		struct sl_fail why;

		if (take_file(&run, conf, plan, SL_CHECKPOINT_CLIENT, step, session, &why) != SL_OK)
			refuse(&refused, &why);
	}
	if (run.n)
		warn_of(&refused, SL_OK);
	else if (refused.n)
		err = say_refused(&refused, fail);
	if (!err && longer && run.n < SL_LAST_RUN_STEPS && (!run.n || past.steps < run.step[run.n - 1]))
		err = read_done(&run, conf, plan, session, past.steps, fail);
	if (!err)
		*out = run;
	sl_secret_wipe(&run.secret);
	return err;
}

void sl_last_run_explain(const struct sl_conf_client *conf, bool done, uint64_t step, struct sl_fail *fail)
{
	struct sl_fail why;

	if (fail->code != SL_ERR_MISMATCH)
		return;
	say_changed(conf, done ? SL_CHECKPOINT_DONE : SL_CHECKPOINT_CLIENT, step, fail);
	why = *fail;
	if (done)
		sl_fail_set(fail, why.code,
			    "%.320s. A run that is done is made longer here, and its model is still there. If the "
			    "server has lost its side, begin another run with that: another log.dir, and "
			    "model.weights",
			    why.text);
}

void sl_last_run_say_unkept(const struct sl_fail *why, bool waits)
{
	sl_log(SL_LOG_WARN, "last-state", "%s: %s", why->text,
	       waits ? "this member writes its model, and ends once the server's store, if it has one, holds the last "
		       "state"
		     : "the run cannot be made longer by --resume");
}

bool sl_last_run_finish(const char *dir, uint64_t step, bool keep)
{
	uint64_t left = UINT64_MAX;
	struct sl_fail fail;

	/* Older files go first: if this process is killed here, no resume may start from one of them. Then comes the
	 * rename, so that a power cut at any time leaves a state to go on from. */
	if (keep)
		sl_checkpoint_only(dir, SL_CHECKPOINT_CLIENT, step);
	if (keep && sl_checkpoint_rename(dir, SL_CHECKPOINT_CLIENT, SL_CHECKPOINT_DONE, step, &fail) != SL_OK) {
		sl_last_run_say_unkept(&fail, false);
		keep = false;
	}
	sl_checkpoint_only(dir, SL_CHECKPOINT_DONE, keep ? step : UINT64_MAX);
	sl_checkpoint_clear(dir, SL_CHECKPOINT_CLIENT);
	if (sl_checkpoint_older(dir, SL_CHECKPOINT_CLIENT, &left))
		return false;
	if (!keep)
		sl_run_secret_remove(dir);
	return true;
}
