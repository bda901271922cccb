/* Models that a run brings to the disk while it goes on: the weights that did best in an evaluation (train.keep_best),
 * and those that `splitc export` asks for over the control socket. The run's driver fetches the middle between two
 * batches where sl_publish_wants says so, and goes on once the files are written. So no checkpoint names best weights
 * that are not on the disk. Loop thread; a thread of its own writes.
 *
 * Requests: "export" begins one and answers with its number, "export N" asks for it:
 *     {"schema":1, "dir":"/log.dir", "number":N, "state":"waiting" | "done" | "failed", "step":S, "why":"…"}
 * done: log.dir/asked.safetensors is the model after S steps. */
#ifndef SL_CLIENT_RUN_PUBLISH_H
#define SL_CLIENT_RUN_PUBLISH_H

#include "client/run/remote.h"
#include "client/run/training.h"

struct sl_publish;

/* `written`: on the loop, the files are on the disk or have failed, and the run can go on. */
enum sl_err sl_publish_open(struct sl_publish **out, struct sl_loop *loop, const struct sl_setup *setup,
			    struct sl_training *run, void (*written)(void *arg), void *arg,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* NULL is fine, here and below; waits for a file that is being written. The run's asked.safetensors goes. */
void sl_publish_close(struct sl_publish *p);

bool sl_publish_wants(const struct sl_publish *p); /* the whole model as it stands now */
bool sl_publish_busy(const struct sl_publish *p);
uint64_t sl_publish_busy_ms(const struct sl_publish *p);
/* Waits for the files. False: they take longer than watchdog_s; sl_publish_close would wait without limit. */
bool sl_publish_settle(struct sl_publish *p) SL_MUST_CHECK;
/* After `fetched`. */
void sl_publish_take(struct sl_publish *p, struct sl_remote *remote);
/* The link is lost: requests that wait fail. Best weights are wanted again on the next one. */
void sl_publish_lost(struct sl_publish *p);
/* JSON, malloc'ed; NULL: not a request of these. `linked`: a server is there to fetch from. */
char *sl_publish_answer(struct sl_publish *p, const char *request, bool linked);

#endif
