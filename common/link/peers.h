/* Numbers for the routing ids that a ROUTER gives its connections. Strangers (never sent anything) are bounded, the one
 * silent for longest leaves first; so garbage from any number of connections costs a fixed amount of memory. */
#ifndef SL_LINK_PEERS_H
#define SL_LINK_PEERS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/link/crowd.h"

enum { SL_PEER_ID_BYTES = 5 }; /* of an id that ZeroMQ made: 0 and four bytes */

struct sl_peers;

/* `crowd`, borrowed, hears which connections have a peer that is no stranger; NULL: nobody does. */
enum sl_err sl_peers_open(struct sl_peers **out, struct sl_crowd *crowd, struct sl_fail *fail) SL_MUST_CHECK;
void sl_peers_close(struct sl_peers *peers); /* NULL is fine */

/* The number of the peer with this id, new or old; 0: the table is full, or the id is not one that ZeroMQ made. `fd`:
 * of its connection, -1: not known. */
sl_peer sl_peers_seen(struct sl_peers *peers, const void *id, size_t len, int fd);
/* Whether it has a number already. */
bool sl_peers_know(const struct sl_peers *peers, const void *id, size_t len);
/* Its id, SL_PEER_ID_BYTES long; NULL for a number that is not, or no longer, in the table. From now on no stranger. */
const uint8_t *sl_peers_address(struct sl_peers *peers, sl_peer peer);
/* The next peer, from slot *at on (0 at first), that was answered and whose messages came over this connection (as
 * sl_crowd_settle numbers it); 0: no more. Peers may be forgotten in between. */
sl_peer sl_peers_on(const struct sl_peers *peers, int fd, uint64_t stamp, int *at);
/* Whose messages come from here: the first call keeps the key, later ones say whether it is still the same. */
bool sl_peers_claim(struct sl_peers *peers, sl_peer peer, const struct sl_key *key);
/* NULL: no such peer, or never claimed. */
const struct sl_key *sl_peers_key(const struct sl_peers *peers, sl_peer peer);
void sl_peers_forget(struct sl_peers *peers, sl_peer peer);

/* Peers that want attention: their last send said BUSY, or found nobody (`gone`). Each is listed once. */
void sl_peers_flag(struct sl_peers *peers, sl_peer peer, bool gone);
/* Takes the first one off the list; 0: none. */
sl_peer sl_peers_take_flagged(struct sl_peers *peers, bool *gone);
size_t sl_peers_flagged(const struct sl_peers *peers);

#endif
