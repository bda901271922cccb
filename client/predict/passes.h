/* Passes over batches of an evaluation, one after the other, by head, middle and tail. The middle is on a link or, with
 * `local`, here. If a link is lost, the next one may take over. All calls and events are on the loop's thread. */
#ifndef SL_CLIENT_PREDICT_PASSES_H
#define SL_CLIENT_PREDICT_PASSES_H

#include "client/setup/setup.h"
#include "client/step/feed.h"

struct sl_passes;

struct sl_passes_spec {
	struct sl_setup *setup;
	float *logits; /* of the pass that is done */
	bool local;
	bool waits;               /* for another link, where one may come; else the end is near */
	bool serves;              /* a pass that fails by NaN or Inf is no reason to end */
	void (*ready)(void *arg); /* passes can begin */
	void (*done)(void *arg);
	/* Passes cannot begin until `ready`, and the one under way will not be done. `again`: another link is tried;
	 * otherwise sl_passes_run ends with that error. NULL: nobody has to know. */
	void (*lost)(void *arg, const struct sl_fail *why, bool again);
	void (*signal)(void *arg, int signum);
	void *arg;
};

enum sl_err sl_passes_open(struct sl_passes **out, const struct sl_passes_spec *spec,
			   struct sl_fail *fail) SL_MUST_CHECK;
struct sl_loop *sl_passes_loop(const struct sl_passes *p);
/* Opens the link. Returns after sl_passes_end, or with an error. */
enum sl_err sl_passes_run(struct sl_passes *p, struct sl_fail *fail) SL_MUST_CHECK;
bool sl_passes_up(const struct sl_passes *p);
/* What *feed points to stays until `done` or `lost`, which never come from within this call. */
void sl_passes_begin(struct sl_passes *p, const struct sl_feed *feed);
/* Says goodbye; then sl_passes_run returns `err`, whose text is *why, or that of an earlier call. */
void sl_passes_end(struct sl_passes *p, enum sl_err err, const struct sl_fail *why);
void sl_passes_close(struct sl_passes *p); /* NULL is fine */

#endif
