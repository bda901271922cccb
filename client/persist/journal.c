#include "client/persist/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/persist/audit_note.h"
#include "client/persist/last_run.h"
#include "client/persist/model_file.h"
#include "common/base/folder.h"
#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/session/checkpoint.h"
#include "common/telemetry/chained.h"
#include "common/telemetry/json.h"

/* Removes an earlier run in log.dir. It has ended, since this process has the log's lock. If this process is killed in
 * between, the rest is still what it was: an open run, or one that is done and lacks files. So the model goes first,
 * which would pass alone for a run that is done, and the logs go last, since checkpoints refer to them. */
static enum sl_err remove_last(struct sl_journal *j, const struct sl_conf_client *conf, struct sl_fail *fail)
{
	const char *dir = conf->log.dir;
	char model[PATH_MAX];
	enum sl_err err = sl_log_dir_path(model, conf, SL_MODEL_FILE, fail);

	if (!err)
		err = sl_folder_check(model, fail);
	if (err)
		return err;
	if (unlink(model) == 0 ? sl_folder_sync_of(model) != 0 : errno != ENOENT)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "%s: %s", model, strerror(errno));
	sl_checkpoint_clear(dir, SL_CHECKPOINT_CLIENT);
	sl_checkpoint_clear(dir, SL_CHECKPOINT_DONE);
	sl_model_file_remove(conf, SL_MODEL_BEST);
	sl_model_file_remove(conf, SL_AUDIT_NOTE);
	return sl_jsonl_empty(j->sessions) == SL_OK && sl_jsonl_empty(j->log) == SL_OK
		       ? SL_OK
		       : sl_fail_set(fail, SL_ERR_CANTCREATE, "%s/log.jsonl: %s", dir, strerror(errno));
}

enum sl_err sl_journal_check(const struct sl_conf_client *conf, struct sl_fail *fail)
{
	char path[PATH_MAX];
	enum sl_err err;

	if (!conf->log.dir[0])
		return SL_OK;
	err = sl_log_dir_path(path, conf, "log.jsonl", fail);
	if (!err)
		err = sl_jsonl_check(path, fail);
	if (!err)
		err = sl_log_dir_path(path, conf, SL_SESSIONS_FILE, fail);
	return err ? err : sl_jsonl_check(path, fail);
}

const char *sl_journal_longer_key(const struct sl_conf_client *conf)
{
	return conf->train.phases.n ? "train.phases" : conf->train.max_steps ? "train.max_steps" : "train.epochs";
}

static enum sl_err say_done(const struct sl_conf_client *conf, const struct sl_past_run *past, struct sl_fail *fail)
{
	char longer[80] = "", steps[48] = "";

	if (past->resumable)
		snprintf(longer, sizeof longer, "--resume --set %s=N trains it further, ", sl_journal_longer_key(conf));
	if (past->steps)
		snprintf(steps, sizeof steps, ", of %" PRIu64 " step%s", past->steps, sl_plural(past->steps));
	return sl_fail_set(fail, SL_ERR_CANTCREATE,
			   "log.dir '%.200s' holds a %s%s%s: %s--fresh removes it and begins anew; "
			   "or give this run a log.dir of its own",
			   conf->log.dir, past->model ? "trained model" : "run that is done", steps,
			   past->model ? "" : ", whose " SL_MODEL_FILE " is not there", longer);
}

enum sl_err sl_journal_taken(const struct sl_conf_client *conf, struct sl_fail *fail)
{
	uint64_t step = UINT64_MAX;
	const char *dir = conf->log.dir;
	struct sl_past_run past = sl_past_run(dir);

	if (!dir[0])
		return SL_OK;
	if (!sl_checkpoint_older(dir, SL_CHECKPOINT_CLIENT, &step))
		return past.done ? say_done(conf, &past, fail) : SL_OK;
	return sl_fail_set(fail, SL_ERR_CANTCREATE,
			   "log.dir '%s' holds an unfinished run, at step %" PRIu64
			   ": --resume goes on with it, --fresh removes it and begins anew",
			   dir, step);
}

/* A run trusts the checkpoints in log.dir, so it warns if other users may change them. */
static void warn_of_others(const char *dir)
{
	struct sl_fail why;

	if (sl_guard_folder(dir, &why) != SL_OK)
		sl_log(SL_LOG_WARN, "log-folder", "log.dir: %s", why.text);
}

/* A failure is only a warning: it loses the count of bytes since the last checkpoint, and only if splitc is killed. */
static void open_traffic(struct sl_journal *j, const char *dir, bool resume)
{
	char path[PATH_MAX];
	struct sl_fail why;
	int fd;

	if (snprintf(path, PATH_MAX, "%s/traffic", dir) >= PATH_MAX)
		return;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd < 0 || sl_guard_written(fd, path, &why) != SL_OK ||
	    (resume ? pread(fd, j->traffic, sizeof j->traffic - 1, 0) : ftruncate(fd, 0)) < 0) {
		sl_log(SL_LOG_WARN, "log-open", "%s: bytes that a killed process moved will not be counted", path);
		j->traffic[0] = 0;
		if (fd >= 0)
			close(fd);
		return;
	}
	j->traffic_fd = fd + 1;
}

void sl_journal_traffic(struct sl_journal *j, const char *text)
{
	if (j->traffic_fd && pwrite(j->traffic_fd - 1, text, strlen(text), 0) < 0)
		return; /* harmless: checkpoints have the counts, too */
}

static enum sl_err open_rest(struct sl_journal *j, const struct sl_conf_client *conf, bool resume, struct sl_fail *fail)
{
	open_traffic(j, conf->log.dir, resume);
	return conf->log.tensorboard ? sl_events_open(&j->events, conf->log.dir, !resume, fail) : SL_OK;
}

enum sl_err sl_journal_open(struct sl_journal *j, const struct sl_conf_client *conf, bool resume, struct sl_fail *fail)
{
	const char *dir = conf->log.dir;
	char path[PATH_MAX];
	enum sl_err err;

	*j = (struct sl_journal){.dir = conf->log.dir};
	if (!dir[0])
		return SL_OK;
	err = sl_log_dir_path(path, conf, "log.jsonl", fail);
	if (!err)
		err = sl_jsonl_open(&j->log, path, fail);
	if (!err)
		err = sl_log_dir_path(path, conf, SL_SESSIONS_FILE, fail);
	if (!err)
		err = sl_jsonl_open(&j->sessions, path, fail);
	if (!err)
		sl_folder_hold(dir);
	if (!err)
		warn_of_others(dir);
	if (!err && resume)
		err = open_rest(j, conf, true, fail);
	return err;
}

enum sl_err sl_journal_begin(struct sl_journal *j, const struct sl_conf_client *conf, struct sl_fail *fail)
{
	enum sl_err err;

	if (!j->log)
		return SL_OK;
	err = remove_last(j, conf, fail);
	if (!err)
		err = open_rest(j, conf, false, fail);
	if (!err)
		sl_events_start(j->events, 1);
	return err;
}

void sl_journal_close(struct sl_journal *j)
{
	if (sl_jsonl_close(j->log) != SL_OK)
		sl_log(SL_LOG_WARN, "log-close", "log.jsonl may not be on the disk");
	if (sl_jsonl_close(j->sessions) != SL_OK)
		sl_log(SL_LOG_WARN, "log-close", SL_SESSIONS_FILE " may not be on the disk");
	if (j->traffic_fd) {
		if (fsync(j->traffic_fd - 1) != 0)
			sl_log(SL_LOG_WARN, "log-close", "log.dir's count of bytes may not be on the disk");
		close(j->traffic_fd - 1);
	}
	if (sl_events_close(j->events) != SL_OK)
		sl_log(SL_LOG_WARN, "log-close", "events for TensorBoard may not be on the disk");
	*j = (struct sl_journal){.log = NULL};
}

static void check_log(struct sl_journal *j, enum sl_err err)
{
	if (err && !j->log_broken)
		sl_log(SL_LOG_WARN, "log-write", "log.jsonl: %s; lines are lost",
		       err == SL_ERR_IO && errno ? strerror(errno) : sl_err_text(err));
	j->log_broken = err;
}

static void check_events(struct sl_journal *j, enum sl_err err)
{
	if (err && !j->events_broken)
		sl_log(SL_LOG_WARN, "log-write", "events for TensorBoard: %s; they are lost from here on",
		       sl_err_text(err));
	j->events_broken = err;
}

void sl_journal_step(struct sl_journal *j, const struct sl_jsonl_step *step)
{
	check_log(j, sl_jsonl_step(j->log, step));
	check_events(j, sl_events_step(j->events, step));
}

void sl_journal_epoch(struct sl_journal *j, const struct sl_jsonl_epoch *epoch)
{
	check_log(j, sl_jsonl_epoch(j->log, epoch));
	check_events(j, sl_events_epoch(j->events, epoch));
}

void sl_journal_audit(struct sl_journal *j, const struct sl_jsonl_audit *audit)
{
	check_log(j, sl_jsonl_audit(j->log, audit));
}

void sl_journal_summary(struct sl_journal *j, const struct sl_jsonl_summary *summary)
{
	check_log(j, sl_jsonl_summary(j->log, summary));
}

uint64_t sl_journal_tell(const struct sl_journal *j)
{
	uint64_t bytes = 0;

	if (sl_jsonl_tell(j->log, &bytes) != SL_OK)
		sl_log(SL_LOG_WARN, "log-write", "log.jsonl: its length is not known");
	return bytes;
}

struct sl_journal_heads sl_journal_heads(const struct sl_journal *j)
{
	struct sl_journal_heads heads;

	snprintf(heads.log, sizeof heads.log, "%s", sl_jsonl_head(j->log));
	snprintf(heads.sessions, sizeof heads.sessions, "%s", sl_jsonl_head(j->sessions));
	return heads;
}

void sl_journal_session(struct sl_journal *j, const char *type, json_t *more)
{
	if (sl_jsonl_line(j->sessions, sl_chained_event(type, more)) != SL_OK && !j->sessions_broken) {
		sl_log(SL_LOG_WARN, "log-write", SL_SESSIONS_FILE ": %s; lines are lost", strerror(errno));
		j->sessions_broken = true;
	}
}

static void say_unfit(struct sl_journal *j, const char *why)
{
	sl_log(SL_LOG_WARN, "log-unfit", "%s; report --verify will say so", why);
	sl_journal_session(j, "unfit", json_pack("{so}", "why", sl_json_text(why)));
}

void sl_journal_check_sessions(struct sl_journal *j, const char *head)
{
	struct sl_chain chain = {.name = SL_SESSIONS_FILE};
	struct sl_fail why;
	enum sl_err err;

	if (!j->log || !head[0] || j->unfit)
		return;
	err = sl_chain_read(&chain, j->dir, NULL, NULL, &why);
	if (!err && sl_chain_find(&chain, head) < 0)
		err = sl_fail_set(&why, SL_ERR_DATA,
				  SL_SESSIONS_FILE
				  " is not the one beside which the checkpoint was written: lines at its "
				  "end were changed or removed");
	free(chain.after);
	if (!err)
		return;
	j->unfit = true;
	say_unfit(j, why.text);
}

/* The line is on the disk before the log is cut: a checkpoint of a later step, which may still be there, then does not
 * look as if somebody had removed the end of the log. */
static void tell_back(struct sl_journal *j, uint64_t log_bytes, const char *head, uint64_t done)
{
	if (!j->log || sl_journal_tell(j) <= log_bytes)
		return;
	sl_journal_session(j, "back", json_pack("{sI ss*}", "step", (json_int_t)done, "log", head[0] ? head : NULL));
	if (sl_jsonl_sync(j->sessions) != SL_OK)
		sl_log(SL_LOG_WARN, "log-write", SL_SESSIONS_FILE " may not be on the disk");
}

/* Cuts the log. The next line gets the noted head in any case, so that it does not fit lines that are not the run's. */
static void cut_log(struct sl_journal *j, uint64_t log_bytes, const char *head)
{
	uint64_t has = 0;
	enum sl_err err = sl_jsonl_tell(j->log, &has);
	bool is_last; /* the last line is the one that was noted */

	if (!err)
		err = sl_jsonl_cut(j->log, has < log_bytes ? has : log_bytes, "");
	check_log(j, err);
	if (!j->log || err || !head[0] || !sl_jsonl_head(j->log)[0])
		return;
	is_last = strcmp(sl_jsonl_head(j->log), head) == 0;
	if (sl_jsonl_tell(j->log, &has) != SL_OK || (is_last && has == log_bytes)) /* half a line is cut off by now */
		return;
	say_unfit(j, has < log_bytes ? "log.jsonl lacks lines that it had when the checkpoint was written"
				     : "log.jsonl is not the one beside which the checkpoint was written: lines were "
				       "changed or removed");
	check_log(j, sl_jsonl_cut(j->log, has, head));
}

void sl_journal_go_back(struct sl_journal *j, uint64_t log_bytes, const char *head, uint64_t done, uint64_t step)
{
	tell_back(j, log_bytes, head, done);
	cut_log(j, log_bytes, head);
	sl_events_start(j->events, step);
}

void sl_journal_repeat(struct sl_journal *j, const struct sl_jsonl_step *step)
{
	check_events(j, sl_events_step(j->events, step));
}

void sl_journal_sync(const struct sl_journal *j)
{
	if (sl_jsonl_sync(j->log) != SL_OK)
		sl_log(SL_LOG_WARN, "log-write", "log.jsonl may not be on the disk");
	if (sl_jsonl_sync(j->sessions) != SL_OK)
		sl_log(SL_LOG_WARN, "log-write", SL_SESSIONS_FILE " may not be on the disk");
	if (sl_events_sync(j->events) != SL_OK)
		sl_log(SL_LOG_WARN, "log-write", "events for TensorBoard may not be on the disk");
}
