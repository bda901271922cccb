/* The steps that a client offers to go on from, and its retries after a link has failed. No I/O, clock or thread. */
#ifndef SL_CLIENT_LINK_OFFER_H
#define SL_CLIENT_LINK_OFFER_H

#include "common/link/proof.h"
#include "common/link/wire.h"

struct sl_offer {
	const struct sl_secret *secret; /* of the session; borrowed */
	uint64_t epoch;                 /* above all epochs that the session ever had */
	bool first;                     /* the first link of the session in this process */
	bool fresh;                     /* --fresh: a group is to begin anew. No link has been welcomed yet */
	/* The steps that this side can go on from, newest first. The server takes the newest whose state it has too. */
	uint64_t held[SL_WIRE_HELD_MAX];
	int n_held;
};

/* Links that failed since the last step. Starts as zeros. */
struct sl_retry {
	int lost;
	int broken; /* of these, those that a broken frame ended, which either side found */
};

/* Fills offer->held, newest first. `ahead`: the step after the one under way, if only the answer to its COMMIT is
 * missing; 0: none. `live`: the step under way, in memory; SL_OFFER_NONE: none. `file` [n_file]: the steps of
 * checkpoints, newest first, at most SL_WIRE_HELD_MAX - 3. `anew`: also step 0. */
#define SL_OFFER_NONE UINT64_MAX
void sl_offer_fill(struct sl_offer *offer, uint64_t ahead, uint64_t live, const uint64_t *file, int n_file, bool anew);

bool sl_retry_may_pass(enum sl_err err);  /* a lost link, or a server that is busy or away: the next try may succeed */
bool sl_retry_is_broken(enum sl_err err); /* one broken frame is an accident; a peer that breaks every frame is not */
/* Counts a link that failed with `err`. Returns whether to try another one. Losses are retried without limit, 5 broken
 * links since the last step as well; other errors are final. */
bool sl_retry_failed(struct sl_retry *retry, enum sl_err err);
/* The back-off until the next link: 1, 2, 4 … times `pause_ms` by the number of failures, at most 32 s. A jitter, drawn
 * by seed, step and the number of failures, shortens each by up to a quarter. */
uint64_t sl_retry_pause_ms(const struct sl_retry *retry, uint64_t pause_ms, uint64_t seed, uint64_t step);

#endif
