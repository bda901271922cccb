/* ZeroMQ's authentication handler (ZAP, rfc.zeromq.org/spec/27): ZeroMQ asks it in each handshake whether a key may
 * connect. Until it answers nobody can connect, so it has its own thread, and blocks only to wait for requests. */
#ifndef SL_LINK_ZAP_H
#define SL_LINK_ZAP_H

#include "common/base/buf.h"
#include "common/link/gate.h"

#define SL_ZAP_DOMAIN "split"

enum { SL_ZAP_FRAMES = 7 }; /* frames of a request with a CURVE key */

/* `frame`: version, request id, domain, address, identity, mechanism, key; `n` may be any number, and the frames of any
 * length. OK and REFUSED fill *key. ERROR: not a valid request of our sockets. */
enum sl_zap_status { SL_ZAP_OK = 200, SL_ZAP_REFUSED = 400, SL_ZAP_ERROR = 500 };
enum sl_zap_status sl_zap_decide(const struct sl_bytes *frame, int n, struct sl_gate *gate, struct sl_key *key);

struct sl_zap;

/* Binds inproc://zeromq.zap.01 in `context` (a zmq context). Open it before any socket that authenticates. */
enum sl_err sl_zap_open(struct sl_zap **out, void *context, struct sl_gate *gate, struct sl_fail *fail) SL_MUST_CHECK;
/* Waits for the handler's end. Only zmq_ctx_shutdown or zmq_ctx_term ends it: call one of them first. NULL is fine. */
void sl_zap_close(struct sl_zap *zap);

#endif
