/* What a link offers its server, and whether another one is tried when it fails. No I/O, clock or thread. */
#ifndef SL_CLIENT_LINK_OFFER_H
#define SL_CLIENT_LINK_OFFER_H

#include "common/link/proof.h"
#include "common/link/wire.h"

struct sl_offer {
	const struct sl_secret *secret; /* of the session; borrowed */
	uint64_t epoch;                 /* above all that the session ever had */
	bool first;                     /* this process has had no link of the session before */
	/* The steps that this side can go on from, newest first. The server takes the newest that it has too. */
	uint64_t held[SL_WIRE_HELD_MAX];
	int n_held;
};

/* Links that failed since the last step. Starts as zeros. */
struct sl_retry {
	int lost;
	int broken; /* of these: a refusal or a broken frame ended them */
};

/* Steps, newest first: `ahead` (0: none) where COMMIT's answer is missing, `live` (SL_OFFER_NONE: none), the files' of
 * checkpoints, and step 0 where `anew` allows it. True: step 0, or an older file, had no place. */
#define SL_OFFER_NONE UINT64_MAX
bool sl_offer_fill(struct sl_offer *offer, uint64_t ahead, uint64_t live, const uint64_t *file, int n_file, bool anew);

bool sl_retry_may_pass(enum sl_err err);  /* a loss, a server that is busy or away: the next link may do better */
bool sl_retry_is_broken(enum sl_err err); /* one broken frame is an accident; a peer that breaks every frame is not */
/* A link failed with `err`: counts it, and says whether to try another. Losses are retried without limit; refusals and
 * broken frames may end 5 links since the last step. */
bool sl_retry_failed(struct sl_retry *retry, enum sl_err err);
/* How long until the next link: 1, 2, 4 … times `pause_ms` by the number of failures, at most 32 s, each shortened by
 * up to a quarter, drawn by seed and step. */
uint64_t sl_retry_pause_ms(const struct sl_retry *retry, uint64_t pause_ms, uint64_t seed, uint64_t step);

#endif
