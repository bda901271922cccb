/* Writes models to the disk while a run goes on: the weights that did best in an evaluation (train.keep_best), and
 * those that `splitc export` asks for over the control socket. The run's driver fetches the middle between two batches
 * when sl_publish_wants says so, and goes on once the files are written. So no checkpoint names best weights that are
 * not on the disk. Loop thread; a thread of its own writes.
 *
 * Requests: "export" begins an export and answers with its number; "export N" asks for the state of export N:
 *     {"schema":1, "dir":"/log.dir", "number":N, "state":"waiting" | "done" | "failed", "step":S, "why":"…"}
 * done: log.dir/asked.safetensors is the model after S steps. */
#ifndef SL_CLIENT_TRAIN_PUBLISH_H
#define SL_CLIENT_TRAIN_PUBLISH_H

#include "client/pass/remote.h"
#include "client/train/training.h"

struct sl_publish;

/* `written` is called on the loop once the files are written, or have failed: the run can go on. */
enum sl_err sl_publish_open(struct sl_publish **out, struct sl_loop *loop, const struct sl_setup *setup,
			    struct sl_training *run, void (*written)(void *arg), void *arg,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* NULL is fine, here and below. Waits for a file that is being written, and removes the run's asked.safetensors. */
void sl_publish_close(struct sl_publish *p);

bool sl_publish_wants(const struct sl_publish *p); /* the middle is to be fetched now */
bool sl_publish_busy(const struct sl_publish *p);
uint64_t sl_publish_busy_ms(const struct sl_publish *p);
/* Waits for the files. False: they take longer than watchdog_s; sl_publish_close would wait without limit. */
bool sl_publish_settle(struct sl_publish *p) SL_MUST_CHECK;
/* After `fetched`: takes the model, and begins to write it. */
void sl_publish_take(struct sl_publish *p, struct sl_remote *remote);
/* The link is lost: requests that wait fail. Best weights stay wanted on the next link. */
void sl_publish_lost(struct sl_publish *p);
/* Answers a request: JSON, malloc'ed; NULL: it is none of the above. `linked`: there is a server to fetch from. */
char *sl_publish_answer(struct sl_publish *p, const char *request, bool linked);

#endif
