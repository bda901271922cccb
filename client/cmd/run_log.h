/* Reads a run's log.jsonl for its curves (docs/OUTPUT.md has the members). The file may still grow: a last line
 * without a line break is left out. */
#ifndef SL_CLIENT_CMD_RUN_LOG_H
#define SL_CLIENT_CMD_RUN_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

enum { SL_RUN_NAME = 64, SL_RUN_POINTS = 400 };

/* A point of the training curve: some consecutive steps. */
struct sl_run_point {
	double step; /* the middle of the stretch */
	double loss; /* mean over its steps that were not skipped */
};

struct sl_run_epoch {
	double number;              /* from 1; a member that joined late lacks the first */
	double test_loss, test_acc; /* NAN: none */
	double bytes;               /* sent and received in training so far */
	struct json_t *metrics;     /* of the evaluation by name; NULL: none. The log's own */
};

struct sl_run_log {
	char name[SL_RUN_NAME]; /* for a legend: UTF-8 without quotes, backslashes or control characters */
	bool named;             /* by the command line, not after its folder */
	struct sl_run_point point[SL_RUN_POINTS];
	int n_point;
	struct sl_run_epoch *epoch;
	int n_epoch;
	uint64_t steps;
	char part[16];          /* that is evaluated, "validation" or "test"; "": the log does not say */
	double bytes, best_acc; /* best_acc NAN: no evaluation */
};

/* `run`: a log.dir, its log.jsonl, or NAME=either of them. NOINPUT: there is none; DATA: a line is malformed, and
 * *fail has file and line; or there are no steps yet; IO, NOMEM. Free with sl_run_log_close. */
enum sl_err sl_run_log_read(struct sl_run_log *out, const char *run, struct sl_fail *fail) SL_MUST_CHECK;
void sl_run_log_close(struct sl_run_log *log);

#endif
