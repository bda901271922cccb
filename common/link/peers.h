/* Maps the routing ids of a ROUTER's connections to peer numbers. The number of strangers, peers to which nothing was
 * sent yet, is limited, and the one silent for longest is dropped first. So garbage from any number of connections
 * costs a fixed amount of memory. */
#ifndef SL_LINK_PEERS_H
#define SL_LINK_PEERS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/link/conns.h"

enum { SL_PEER_ID_BYTES = 5 }; /* length of an id that ZeroMQ made: 0 and four bytes */

struct sl_peers;

/* `conns`, borrowed, is told which connections have a peer that is no stranger; NULL: nobody is. */
enum sl_err sl_peers_open(struct sl_peers **out, struct sl_conns *conns, struct sl_fail *fail) SL_MUST_CHECK;
void sl_peers_close(struct sl_peers *peers); /* NULL is fine */

/* The number of the peer with this id, new or old; 0: the table is full, or ZeroMQ cannot have made the id. `fd`: the
 * descriptor of its connection; -1: unknown. */
sl_peer sl_peers_seen(struct sl_peers *peers, const void *id, size_t len, int fd);
/* Whether the peer with this id has a number. */
bool sl_peers_know(const struct sl_peers *peers, const void *id, size_t len);
/* The peer's id, SL_PEER_ID_BYTES long, for sending to it: from now on it is no stranger. NULL: the number is not, or
 * no longer, in the table. */
const uint8_t *sl_peers_address(struct sl_peers *peers, sl_peer peer);
/* Iterates over the answered peers of a connection, which `fd` and sl_conns_answered's stamp name. Returns the next one
 * from slot *at on (0 at first); 0: no more. Peers may be forgotten in between. */
sl_peer sl_peers_on(const struct sl_peers *peers, int fd, uint64_t stamp, int *at);
/* Binds a peer to the key that its messages were authenticated with: the first call stores the key, later ones return
 * whether it is the same. False, too: no such peer. */
bool sl_peers_claim(struct sl_peers *peers, sl_peer peer, const struct sl_key *key);
/* That key; NULL: no such peer, or none was stored. */
const struct sl_key *sl_peers_key(const struct sl_peers *peers, sl_peer peer);
/* Where an answered peer's connection comes from, as sl_transport_peer_host. */
void sl_peers_host(const struct sl_peers *peers, sl_peer peer, char out[SL_TRANSPORT_HOST]);
/* Bytes that have come on an answered peer's connection; 0: it has ended, or is unknown. */
uint64_t sl_peers_arrived(const struct sl_peers *peers, sl_peer peer);
void sl_peers_forget(struct sl_peers *peers, sl_peer peer);

/* A list of peers whose last send failed: it returned BUSY, or found no connection (`gone`). Each is listed once. */
void sl_peers_flag(struct sl_peers *peers, sl_peer peer, bool gone);
/* Removes the first peer from the list; 0: the list is empty. */
sl_peer sl_peers_take_flagged(struct sl_peers *peers, bool *gone);
size_t sl_peers_flagged(const struct sl_peers *peers);

#endif
