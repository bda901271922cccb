/* Where a running splitc answers requests for its status: the control socket and, if the config names an address,
 * /metrics. */
#ifndef SL_CLIENT_TRAIN_ANSWERS_H
#define SL_CLIENT_TRAIN_ANSWERS_H

#include "common/conf/conf.h"
#include "common/link/loop.h"

struct sl_control;
struct sl_metrics;

struct sl_answers {
	struct sl_control *control;
	struct sl_metrics *metrics;
};

/* `answer` as in control.h. Without a socket in the config, the socket is named after log.dir. If another process
 * already answers there (an evaluation beside a run), this one adds its process id to the name. Errors are those of
 * sl_control_open and sl_metrics_open; *a must be closed after an error, too. */
enum sl_err sl_answers_open(struct sl_answers *a, struct sl_loop *loop, const struct sl_conf_client *conf,
			    char *(*answer)(void *arg, const char *request), void *arg,
			    struct sl_fail *fail) SL_MUST_CHECK;
void sl_answers_close(struct sl_answers *a); /* a zeroed one is fine */

/* For `status`: finds the sockets of runs that may be active. `control` is the usual socket of one run; any_run: finds
 * those of all runs of this user. found: [most], sorted. Returns how many were found. */
int sl_answers_find(const char *control, bool any_run, char found[][SL_CONF_SOCKET_PATH], int most);

#endif
