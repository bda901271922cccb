/* For files of this room: sets up CURVE on a ZeroMQ socket, and tests that it refuses unknown keys. */
#ifndef SL_LINK_CURVE_H
#define SL_LINK_CURVE_H

#include "common/link/transport.h"

struct sl_zap;

/* Set the options of `socket`, before it is bound or connected. UNAVAILABLE: this libzmq lacks one. */
enum sl_err sl_curve_server(void *socket, const struct sl_keypair *own, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_curve_client(void *socket, const struct sl_transport_auth *auth, struct sl_fail *fail) SL_MUST_CHECK;

/* Self-test of a server's socket with all its options. Binds it to a loopback port for a moment, with a list in the
 * gate that has only a new key. That key must be let in, and another one refused. Restores the gate's list. AUTH, with
 * what went wrong. Blocks for some seconds at most. */
enum sl_err sl_curve_prove(void *socket, const struct sl_transport_auth *auth, struct sl_fail *fail) SL_MUST_CHECK;

/* Sets up all that a server's socket needs, in the right order: the handler, the options, the self-test. *out is set as
 * soon as there is a handler, even if a later step fails. Close it after the context. */
enum sl_err sl_curve_guard(struct sl_zap **out, void *context, void *socket, const struct sl_transport_auth *auth,
			   struct sl_fail *fail) SL_MUST_CHECK;

#endif
