/* Another splitc, run to its end with its JSON taken from stdout: a sweep's rows and the two sides of a comparison
 * cannot hurt each other, nor this process. */
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
};

/* "COMMAND CONFIG --json", then --local, --weights and every --set of `o`. */
void sl_child_open(struct sl_child *c, const struct sl_options *o);
/* --set setting, or key=value, after those of the options, so that it wins. The setting is borrowed. */
void sl_child_setting(struct sl_child *c, const char *setting);
void sl_child_set(struct sl_child *c, const char *key, const char *value);

/* Waits for it. stderr goes to the file (NULL: to ours). UNAVAILABLE where its exit status is not 0 (the text ends with
 * its last line where that went to a file), DATA where what it printed is no JSON. *out: json_decref. A signal that
 * ends this process's group reaches it as well. */
enum sl_err sl_child_run(struct sl_child *c, const char *stderr_path, json_t **out, struct sl_fail *fail) SL_MUST_CHECK;
/* Asks the one that is waited for to end; in a signal handler. */
void sl_child_end(void);
/* A number of what it printed; NaN: null there, or not there. */
double sl_child_number(const json_t *said, const char *key);

#endif
