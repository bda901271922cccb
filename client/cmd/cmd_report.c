#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cmd/command.h"
#include "client/persist/log_check.h"

static const char *const usage[] = {
	"splitc report RUN --verify",
	"--verify checks log.jsonl and sessions.jsonl by the hashes in their lines, their ends by what checkpoints and "
	"sessions.jsonl say, and the models by their hashes. Status 65 and a sentence name the first line or file that "
	"does not fit. The hashes have no key: whoever can write all files of RUN can make them anew. So give the log "
	"head, which training prints at its end, to somebody else.",
	NULL,
};

static int verify(const char *run)
{
	struct sl_log_check found;
	struct sl_fail fail;

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
	printf("%s\n", !found.ended ? "the last process has not written its end, so nothing says which models are "
				      "its own"
		       : found.model_said
			       ? "model.safetensors is the one that the run has written"
			       : "nothing says which model.safetensors the run has written, or there is none");
	printf("log head %s\n", found.head);
	return 0;
}

int splitc_report(int argc, char **argv)
{
	struct sl_options o = {.command = "report", .usage = usage};
	int status = sl_options_parse(&o, argc, argv, SL_OPT_REPORT, 1);

	if (status >= 0)
		return status;
	if (!o.config)
		return sl_options_missing(&o, "RUN");
	return o.report.verify ? verify(o.config) : sl_command_refuse("report: give --verify");
}
