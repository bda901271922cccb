/* The client's side of an alignment: a connection on which the server hands on letters between two members of a
 * vertical group. All letters have one size. Each member sends its next letter once it has one of the other for each
 * that it sent before. The server sees neither a graph nor data. Loop thread. */
#ifndef SL_CLIENT_LINK_LETTERS_H
#define SL_CLIENT_LINK_LETTERS_H

#include "common/base/buf.h"
#include "common/conf/conf.h"
#include "common/link/loop.h"
#include "common/link/transport.h"

struct sl_letters;

struct sl_letters_events {
	void (*open)(void *arg, size_t bytes);                 /* both members are there; bytes of each letter */
	void (*came)(void *arg, struct sl_bytes letter);       /* valid during the call */
	void (*failed)(void *arg, const struct sl_fail *fail); /* it is over; nothing comes behind this */
	void (*waits)(void *arg); /* the server has given this member its seat; NULL: the log says that it waits */
};

/* `conf` and `auth` are borrowed; auth.own NULL: none. No event comes before the loop runs. */
enum sl_err sl_letters_open(struct sl_letters **out, struct sl_loop *loop, const struct sl_conf_client *conf,
			    const struct sl_transport_auth *auth, const struct sl_letters_events *events, void *arg,
			    struct sl_fail *fail) SL_MUST_CHECK;
void sl_letters_post(struct sl_letters *letters, const uint8_t *letter); /* it is copied */
/* Tells the other member and the server why this side ends; NULL: it is done. Then sl_letters_close. */
void sl_letters_end(struct sl_letters *letters, const struct sl_fail *why);
void sl_letters_close(struct sl_letters *letters); /* from the loop, or when it does not run; NULL is fine */

#endif
