#include "client/persist/log_check.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/model/weights_file.h"
#include "client/persist/journal.h"
#include "client/persist/model_file.h"
#include "client/persist/record.h"
#include "common/base/grow.h"
#include "common/session/checkpoint.h"
#include "common/telemetry/chained.h"

enum { HEAD = SL_CHAIN_TEXT - 1 };

/* What sessions.jsonl says that the other files must agree with. */
struct told {
	char log[SL_CHAIN_TEXT]; /* "": nothing; so of the files */
	char config[SL_CHAIN_TEXT], about[SL_CHAIN_TEXT], model[SL_CHAIN_TEXT], best[SL_CHAIN_TEXT];
	bool ended; /* the end is the last that is said of a process */
	struct back {
		long line;
		uint64_t step;
	} * back; /* when the run went back, and to which step */
	size_t room;
	int n;
};

static void take(const json_t *row, const char *key, char out[SL_CHAIN_TEXT])
{
	const char *hash = json_string_value(json_object_get(row, key));

	snprintf(out, SL_CHAIN_TEXT, "%s", hash ? hash : "");
}

/* Reads sessions.jsonl's line into *told. */
static enum sl_err hear(void *arg, const char *text, size_t len, long line, struct sl_fail *fail)
{
	struct told *told = arg;
	json_t *row = json_loadb(text, len, 0, NULL);
	const char *type = json_string_value(json_object_get(row, "type"));
	const char *log = json_string_value(json_object_get(row, "log"));
	enum sl_err err = SL_OK;

	if (log)
		snprintf(told->log, sizeof told->log, "%s", log);
	if (type && strcmp(type, "end") == 0) {
		told->ended = true;
		take(row, "config", told->config);
		take(row, "about", told->about);
		take(row, "model", told->model);
		take(row, "best", told->best);
	} else if (type && strcmp(type, "start") == 0) {
		told->ended = false; /* it may write other models */
		take(row, "config", told->config);
	} else if (type && strcmp(type, "unfit") == 0) {
		const char *why = json_string_value(json_object_get(row, "why"));

		err = sl_fail_set(fail, SL_ERR_DATA,
				  SL_SESSIONS_FILE ": line %ld says of the lines before it, when the run went on: %s",
				  line, why ? why : "they do not fit");
	} else if (type && strcmp(type, "back") == 0) {
		if (!sl_grow(&told->back, &told->room, (size_t)told->n + 1, sizeof *told->back))
			err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for " SL_SESSIONS_FILE);
		else
			told->back[told->n++] =
				(struct back){line, (uint64_t)json_integer_value(json_object_get(row, "step"))};
		if (!log)
			told->log[0] = '\0'; /* the log was of an earlier version */
	}
	json_decref(row);
	return err;
}

/* A run that went back has given up checkpoints of later steps; one may be left where the process was killed then. */
static bool given_up(const struct told *told, long line, uint64_t step)
{
	for (int i = 0; i < told->n; i++)
		if (told->back[i].line > line && told->back[i].step < step)
			return true;
	return false;
}

static enum sl_err check_note(const char *path, uint64_t step, const struct sl_chain *log,
			      const struct sl_chain *sessions, const struct told *told, struct sl_log_check *out,
			      struct sl_fail *fail)
{
	char *note = sl_weights_note(path, SL_HEADS_NOTE);
	const bool is = note && strlen(note) == 2 * HEAD + 1;
	const long line = is ? sl_chain_find(log, note) : -1,
		   session = is ? sl_chain_find(sessions, note + HEAD + 1) : -1;

	free(note);
	if (!is) /* of an earlier version */
		return SL_OK;
	if (session < 0)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s was written beside another " SL_SESSIONS_FILE
				   ": its last lines were changed or removed, or it is of another run",
				   path);
	if (given_up(told, session, step))
		return SL_OK;
	if (line < 0)
		return sl_fail_set(
			fail, SL_ERR_DATA,
			"%s was written beside another log.jsonl: its last lines, of which line %ld is left, "
			"were changed or removed, or it is of another run",
			path, log->n);
	out->covered = line > out->covered ? line : out->covered;
	return SL_OK;
}

static enum sl_err check_checkpoints(const char *dir, const struct sl_chain *log, const struct sl_chain *sessions,
				     const struct told *told, struct sl_log_check *out, struct sl_fail *fail)
{
	static const char *const prefix[] = {SL_CHECKPOINT_CLIENT, SL_CHECKPOINT_DONE};
	char name[80], path[PATH_MAX];
	enum sl_err err = SL_OK;

	for (int i = 0; i < 2; i++)
		for (uint64_t step = UINT64_MAX; !err && sl_checkpoint_older(dir, prefix[i], &step);) {
			sl_checkpoint_name(name, sizeof name, prefix[i], step);
			if (snprintf(path, sizeof path, "%s/%s", dir, name) < PATH_MAX)
				err = check_note(path, step, log, sessions, told, out, fail);
		}
	return err;
}

/* The log's end, as sessions.jsonl has it: an end is that of the last line, unless the next process has begun. */
static enum sl_err check_end(const struct sl_chain *log, const struct told *told, struct sl_log_check *out,
			     struct sl_fail *fail)
{
	const long line = told->log[0] ? sl_chain_find(log, told->log) : 0;

	if (line < 0)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "log.jsonl: its end is not the one that " SL_SESSIONS_FILE
				   " names: line %ld or one behind it was changed or removed, or the log is of another "
				   "run",
				   log->n);
	if (told->ended && line < log->n)
		return sl_fail_set(fail, SL_ERR_DATA, "log.jsonl: line %ld was added behind the run's end", line + 1);
	out->covered = line > out->covered ? line : out->covered;
	return SL_OK;
}

static void add(const char *list[4], const char *name)
{
	while (*list)
		list++;
	*list = name;
}

static enum sl_err check_file(const char *dir, const char *name, const char *said, struct sl_log_check *out,
			      struct sl_fail *fail)
{
	char path[PATH_MAX], hash[SL_CHAIN_TEXT];
	enum sl_err err;

	if (!said[0] || snprintf(path, sizeof path, "%s/%s", dir, name) >= PATH_MAX)
		return SL_OK;
	if (access(path, F_OK) != 0) {
		add(out->gone, name);
		return SL_OK;
	}
	err = sl_chain_file(hash, path, fail);
	if (!err && strcmp(hash, said) != 0)
		err = sl_fail_set(fail, SL_ERR_DATA,
				  "%s is not the file that this run has written: its hash is %s, and " SL_SESSIONS_FILE
				  " names %s",
				  path, hash, said);
	if (!err)
		add(out->same, name);
	return err;
}

enum sl_err sl_log_check(struct sl_log_check *out, const char *dir, struct sl_fail *fail)
{
	struct sl_chain log = {.name = "log.jsonl"}, sessions = {.name = SL_SESSIONS_FILE};
	struct told told = {.n = 0};
	enum sl_err err = sl_chain_read(&log, dir, NULL, NULL, fail);

	*out = (struct sl_log_check){.covered = 0};
	if (!err)
		err = sl_chain_read(&sessions, dir, hear, &told, fail);
	if (!err)
		err = check_end(&log, &told, out, fail);
	if (!err)
		err = check_checkpoints(dir, &log, &sessions, &told, out, fail);
	if (!err)
		err = check_file(dir, SL_RECORD_FILE, told.config, out, fail);
	if (!err && told.ended)
		err = check_file(dir, SL_ABOUT_FILE, told.about, out, fail);
	if (!err && told.ended)
		err = check_file(dir, SL_MODEL_FILE, told.model, out, fail);
	if (!err && told.ended)
		err = check_file(dir, SL_MODEL_BEST, told.best, out, fail);
	for (int i = 0; i < 4 && out->same[i]; i++)
		out->model_said |= strcmp(out->same[i], SL_MODEL_FILE) == 0;
	out->lines = log.n;
	out->sessions = sessions.n;
	out->unchained = log.bare;
	out->ended = told.ended;
	if (!err)
		snprintf(out->head, sizeof out->head, "%s", sessions.after[sessions.n].text);
	free(log.after);
	free(sessions.after);
	free(told.back);
	return err;
}
