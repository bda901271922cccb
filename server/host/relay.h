/* Alignments: hands on letters between the two members of a vertical group. The letters are sealed, and nothing of them
 * is kept. All have one size, and each member waits for the other one's before its next. Loop thread. */
#ifndef SL_SERVER_HOST_RELAY_H
#define SL_SERVER_HOST_RELAY_H

#include "common/conf/conf.h"
#include "common/link/loop.h"
#include "common/link/transport.h"
#include "server/host/auth.h"

struct sl_relay;

/* Everything is borrowed; `auth` NULL: clients need no key. NULL: no memory. */
struct sl_relay *sl_relay_open(struct sl_loop *loop, struct sl_transport *transport, const struct sl_conf_server *conf,
			       const struct sl_server_auth *auth);
void sl_relay_close(struct sl_relay *relay); /* sl_relay_end first; NULL is fine */
/* Whether the payload of a Hello asks for an alignment, and not for a session. */
bool sl_relay_is_asked(struct sl_bytes text);
/* Gives the peer, which has proven its Hello, its seat. CONFIG, PROTOCOL, LIMIT, MISMATCH, AUTH, BUSY: it has none. */
enum sl_err sl_relay_enter(struct sl_relay *relay, sl_peer peer, const struct sl_key *key, const struct sl_hello *hello,
			   struct sl_bytes text, struct sl_fail *fail) SL_MUST_CHECK;
/* False: the peer has no seat. */
bool sl_relay_deliver(struct sl_relay *relay, sl_peer peer, struct sl_bytes header, struct sl_bytes payload);
bool sl_relay_fail(struct sl_relay *relay, sl_peer peer, const struct sl_fail *why);
void sl_relay_tick(struct sl_relay *relay);
int sl_relay_seats(const struct sl_relay *relay);                     /* that are taken */
void sl_relay_end(struct sl_relay *relay, const struct sl_fail *why); /* tells all, and forgets them */

#endif
