/* Connections that sent a Hello and got a nonce, which they must sign to prove that the session is theirs. Before that
 * proof a stranger costs only one entry in this table. Its size and the age of its entries are bounded. Loop thread. */
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
/* The same, but makes a nonce if there is none; NULL: the system gave no random bytes. A full table drops its oldest
 * entry: *gone is then its connection, otherwise 0. */
const uint8_t *sl_challenges_make(struct sl_challenges *c, sl_peer peer, uint64_t now_ms, sl_peer *gone);
void sl_challenges_end(struct sl_challenges *c, sl_peer peer); /* drops its entry, if there is one */
/* Drops an entry that is older than SL_CHALLENGE_MS, and returns its connection; 0: there is none. */
sl_peer sl_challenges_late(struct sl_challenges *c, uint64_t now_ms);

#endif
