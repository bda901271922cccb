/* Runs another splitc to its end, and takes its JSON from stdout. So the rows of a sweep, or the two sides of a
 * comparison, cannot hurt each other, nor this process. */
#ifndef SL_CLIENT_CMD_CHILD_H
#define SL_CLIENT_CMD_CHILD_H

#include <jansson.h>

#include "client/cmd/command.h"

enum { SL_CHILD_ARGS = 2 * SL_MAX_SETS + 2 * SL_CONF_LIST_MAX + 48, SL_CHILD_TEXT = 512 };

struct sl_child {
	const char *arg[SL_CHILD_ARGS]; /* borrowed, or in `text` */
	int n_arg;
	char text[20][SL_CHILD_TEXT];
	int n_text;
	bool overflow; /* something did not fit: sl_child_run refuses */
	int status;    /* after sl_child_run: its exit status, 0 if it has none */
};

/* Begins a command line: "COMMAND CONFIG --json", then --local, --weights and every --set of `o`. A row of a sweep
 * runs "train", with --fresh. */
void sl_child_open(struct sl_child *c, const struct sl_options *o);
/* Adds --set SETTING, or --set KEY=VALUE, after those of the options, so that it wins. The setting is borrowed. */
void sl_child_setting(struct sl_child *c, const char *setting);
void sl_child_set(struct sl_child *c, const char *key, const char *value);

/* Runs the child and waits for it. Its stderr goes to the file stderr_path (NULL: to ours), whose warnings
 * are named on ours. OK also where it was stopped: then c->status is that of BUSY, and *out is of a part of its work.
 * UNAVAILABLE: its exit status is another one than 0; *fail ends with the last line of that file. DATA: what it printed
 * is not JSON. LIMIT: a setting did not fit; OS. *out: json_decref. From the first call on SIGTERM goes to the child;
 * SIGINT and SIGHUP, which it has as well, do not end this process: sl_child_asked_to_end says that one has come. */
enum sl_err sl_child_run(struct sl_child *c, const char *stderr_path, json_t **out, struct sl_fail *fail) SL_MUST_CHECK;
bool sl_child_asked_to_end(void);

#endif
