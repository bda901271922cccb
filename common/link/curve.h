/* The room's own: CURVE on a ZeroMQ socket, and proof that it keeps strangers out. */
#ifndef SL_LINK_CURVE_H
#define SL_LINK_CURVE_H

#include "common/link/transport.h"

struct sl_zap;

/* Sets and checks the options of `socket`; before it is bound or connected. */
enum sl_err sl_curve_server(void *socket, const struct sl_keypair *own, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_curve_client(void *socket, const struct sl_transport_auth *auth, struct sl_fail *fail) SL_MUST_CHECK;

/* Binds `socket`, a server's with all its options, to a port of loopback for a moment; a key made up for the occasion
 * must get in there while the gate's list names it alone, and another one must be refused. Leaves the gate's list as it
 * was. AUTH with what went wrong. Blocks, at most some seconds. */
enum sl_err sl_curve_prove(void *socket, const struct sl_transport_auth *auth, struct sl_fail *fail) SL_MUST_CHECK;

/* All that a server's socket needs, in the right order: the handler, the options, the proof. *out is set once there is
 * a handler, also where a later step fails: close it behind the context. */
enum sl_err sl_curve_guard(struct sl_zap **out, void *context, void *socket, const struct sl_transport_auth *auth,
			   struct sl_fail *fail) SL_MUST_CHECK;

#endif
