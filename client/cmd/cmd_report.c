#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cmd/command.h"
#include "client/cmd/run_report.h"
#include "client/persist/journal.h"
#include "client/persist/last_run.h"
#include "client/persist/log_check.h"
#include "client/persist/model_file.h"
#include "common/base/text.h"
#include "common/telemetry/report.h"

static const char *const usage[] = {
	"splitc report RUN [--format html|md|json] [--out FILE] | --verify",
	"Writes a report for whoever decides about the data, from the files in RUN, the log.dir of a run. It says what "
	"crossed, how often, who was linked, what was audited, and what the model is worth. A section says what is not "
	"known. If splitc leak has written to RUN/leak, its figures are in the report. Status 65: it is written, and "
	"the logs or files of the run do not fit, as --verify says.",
	"--verify checks log.jsonl and sessions.jsonl by the hashes in their lines, their ends by what checkpoints and "
	"sessions.jsonl say, and models, config.yaml and about.json by their hashes. Status 65 and a sentence name the "
	"first line or file that "
	"does not fit. The hashes have no key: whoever can write all files of RUN can make them anew. So give the log "
	"head, which training prints at its end, to somebody else.",
	NULL,
};

static void say_no_end(const char *run)
{
	char *summary = sl_past_run_summary(run);

	puts(summary ? "log.jsonl ends with a summary, and " SL_SESSIONS_FILE " lacks the line that follows it: the "
		       "process was killed in between, or somebody removed it; so nothing says which models are its own"
		     : "the last process has not written its end, so nothing says which models are its own");
	free(summary);
}

static int verify(const char *run)
{
	struct sl_log_check found;
	struct sl_fail fail;
	bool is_gone = false;

	if (sl_log_check(&found, run, &fail) != SL_OK)
		return sl_command_failed(&fail);
	printf("log.jsonl, %ld line%s: each fits the one before\n", found.lines, sl_plural(found.lines));
	if (found.unchained)
		printf("of these the first %ld are of an earlier version and have no hashes: only the last of them is "
		       "covered\n",
		       found.unchained);
	if (found.covered < found.lines)
		printf("behind line %ld nothing else holds a hash of the log: lines at its end can be missing, or the "
		       "last one be another\n",
		       found.covered);
	printf(SL_SESSIONS_FILE ", %ld line%s: each fits the one before\n", found.sessions, sl_plural(found.sessions));
	for (int i = 0; i < 4 && found.same[i]; i++)
		if (strcmp(found.same[i], SL_MODEL_FILE) != 0)
			printf("%s is the one that the run has written\n", found.same[i]);
	for (int i = 0; i < 4 && found.gone[i]; i++) {
		is_gone |= strcmp(found.gone[i], SL_MODEL_FILE) == 0;
		printf("%s is not there: " SL_SESSIONS_FILE " has the hash of one\n", found.gone[i]);
	}
	if (!found.ended)
		say_no_end(run);
	else if (found.model_said)
		puts(SL_MODEL_FILE " is the one that the run has written");
	else if (!is_gone)
		puts("nothing says which " SL_MODEL_FILE " the run has written, or there is none");
	printf("log head %s\n", found.head);
	return 0;
}

static enum sl_err write_report(const struct sl_options *o, struct sl_fail *fail)
{
	json_t *report = NULL;
	char title[PATH_MAX + 32];
	struct sl_fail unfit;
	enum sl_err err = sl_run_report_make(&report, &unfit, o->config, fail);

	if (err)
		return err;
	snprintf(title, sizeof title, "Report of the run in %s", o->config);
	err = sl_report_write(report, title, o->report.format, o->out, fail);
	json_decref(report);
	if (!err && unfit.code == SL_ERR_DATA) /* the report says so, too */
		*fail = unfit;
	return err ? err : unfit.code == SL_ERR_DATA ? unfit.code : SL_OK;
}

int splitc_report(int argc, char **argv)
{
	struct sl_options o = {.command = "report", .usage = usage};
	struct sl_fail fail;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_REPORT, 1);

	if (status >= 0)
		return status;
	if (!o.config)
		return sl_options_missing(&o, "RUN");
	if (o.report.verify && (o.out || o.report.format))
		return sl_command_refuse("report: --verify writes no report: leave --out and --format away");
	if (o.report.verify)
		return verify(o.config);
	return write_report(&o, &fail) ? sl_command_failed(&fail) : 0;
}
