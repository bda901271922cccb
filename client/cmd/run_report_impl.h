/* What the files of the report of a run share: run_report.c reads the run's files and tells of the run and its model.
 * run_report_data.c tells of its data. run_report_server.c tells what the server got, what of its work was checked, and
 * what it could learn. */
#ifndef SL_CLIENT_CMD_RUN_REPORT_IMPL_H
#define SL_CLIENT_CMD_RUN_REPORT_IMPL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/telemetry/report.h"

enum { TEXT = SL_REPORT_TEXT, TIME_TEXT = SL_REPORT_TIME };

struct sl_run_report {
	const char *dir;
	struct sl_fail *unfit;      /* why the logs, or files of the run, do not fit; code OK: they do */
	json_t *sections, *unknown; /* unknown: the last section */
	json_t *summary, *about;    /* NULL: there is none */
	json_t *sessions;           /* the lines of sessions.jsonl */
	const char *settings;       /* the run's config; "": unknown */
	uint64_t steps, skipped, epochs, evaluations, audits, audited,
		found;       /* of log.jsonl; found: audits that found a difference */
	uint64_t per_epoch;  /* steps in an epoch; 0: unknown */
	uint64_t full, some; /* epochs of which the log has all steps; has a step */
	uint64_t uncounted;  /* steps of this member that the server counts, and the log does not have */
	char last_found[SL_FAIL_TEXT], audited_steps[TEXT / 2];
	double epsilon;        /* of the last epoch with one; 0: none */
	json_int_t samples[2]; /* to train on; to evaluate on */
	int starts, ends, backs, lost;
	bool local;    /* a process computed all itself */
	uint64_t back; /* the step that the run went back to last */
	struct {
		uint64_t number, steps;
	} epoch; /* that was counted last */
};

json_t *sl_run_report_section(struct sl_run_report *r, const char *title);
void sl_run_report_unknown(struct sl_run_report *r, const char *what, const char *why);
/* Whether the run's config has this text, such as "\n  ends: private\n". */
bool sl_run_report_has(const struct sl_run_report *r, const char *lines);
json_t *sl_run_report_json(const char *dir, const char *name);

/* run_report_data.c: the data's section; and facts of section s: the network and its cut, by r->settings; of figures of
 * masks, what they are a mean over. */
void sl_run_report_data(struct sl_run_report *r);
void sl_run_report_cut(const struct sl_run_report *r, json_t *s);
void sl_run_report_mean(const struct sl_run_report *r, json_t *s);
void sl_run_report_crossed(struct sl_run_report *r);
void sl_run_report_audits(struct sl_run_report *r);
void sl_run_report_leaks(struct sl_run_report *r);

#endif
