/* Checks whether the logs in a log.dir are as the run has written them: log.jsonl and sessions.jsonl by their chains
 * (link/chain.h), their ends by what checkpoints and sessions.jsonl say of their heads, and the models by their hashes.
 * A log of a process that was killed, or whose run has gone back, is not accused. One thread. */
#ifndef SL_CLIENT_PERSIST_LOG_CHECK_H
#define SL_CLIENT_PERSIST_LOG_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/link/chain.h"

/* The files whose hashes sessions.jsonl holds, beside the logs. */
#define SL_LOG_CHECK_FILES "model.safetensors, best.safetensors, config.yaml, about.json"

struct sl_log_check {
	long lines, sessions;     /* of log.jsonl; of sessions.jsonl */
	long covered;             /* so many lines of log.jsonl depend on a head that another file holds */
	long unchained;           /* so many first lines are of an earlier version, whose lines have no hashes */
	bool ended;               /* the last process wrote the run's end */
	bool model_said;          /* model.safetensors is the file that the end names */
	const char *same[4];      /* such files, also others, and the config.yaml that a start names; NULL: no more */
	const char *gone[4];      /* files whose hashes it has, and that are not there; NULL: no more */
	char head[SL_CHAIN_TEXT]; /* of both logs, as the summary prints it */
};

/* NOINPUT: there is no log. DATA: *fail names the first line, or the file, that does not fit. */
enum sl_err sl_log_check(struct sl_log_check *out, const char *dir, struct sl_fail *fail) SL_MUST_CHECK;

#endif
