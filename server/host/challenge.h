/* Connections that said Hello and were sent a nonce to prove it with. So many and no more, and each for so long: what a
 * stranger costs before he has proven a session is one entry here. Loop thread. */
#ifndef SL_SERVER_HOST_CHALLENGE_H
#define SL_SERVER_HOST_CHALLENGE_H

#include "common/link/proof.h"
#include "common/link/transport.h"

enum { SL_CHALLENGES = 1024, SL_CHALLENGE_MS = 10000 };

struct sl_challenges { /* zeros: an empty table */
	struct sl_challenges_entry {
		sl_peer peer;
		uint64_t since_ms;
		uint8_t nonce[SL_NONCE_BYTES];
	} entry[SL_CHALLENGES];
	int n;
};

/* The nonce of this connection; NULL: it has none. */
const uint8_t *sl_challenges_find(const struct sl_challenges *c, sl_peer peer);
/* The same, made where there is none; NULL: no random bytes. Where the table is full, the oldest entry goes, and *gone
 * is its connection, else 0. */
const uint8_t *sl_challenges_make(struct sl_challenges *c, sl_peer peer, uint64_t now_ms, sl_peer *gone);
void sl_challenges_end(struct sl_challenges *c, sl_peer peer);
/* Ends one that is older than SL_CHALLENGE_MS, and says whose it was; 0: there is none. */
sl_peer sl_challenges_late(struct sl_challenges *c, uint64_t now_ms);

#endif
