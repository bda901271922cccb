/* What a transport fills in. sl_transport_connect and _bind (transport.c) check the configuration, choose by the
 * endpoint's scheme, and everything else goes through this table. */
#ifndef SL_LINK_TRANSPORT_IMPL_H
#define SL_LINK_TRANSPORT_IMPL_H

#include <stdbool.h>

#include "common/link/transport.h"

struct sl_transport_ops {
	const char *(*endpoint)(const struct sl_transport *transport);
	enum sl_err (*send)(struct sl_transport *transport, sl_peer peer, struct sl_bytes header,
			    const struct sl_payload *payload);
	/* NULL: nobody has a key here. */
	bool (*peer_key)(const struct sl_transport *transport, sl_peer peer, struct sl_key *out);
	/* NULL: it counts nothing. */
	void (*count)(struct sl_transport *transport);
	void (*forget)(struct sl_transport *transport, sl_peer peer);
	void (*close)(struct sl_transport *transport, int linger_ms);
};

/* First member of every transport. */
struct sl_transport {
	const struct sl_transport_ops *ops;
};

typedef enum sl_err sl_transport_open_fn(struct sl_transport **out, struct sl_loop *loop, bool bind,
					 const struct sl_transport_conf *conf, const struct sl_transport_events *events,
					 void *arg, struct sl_fail *fail);

sl_transport_open_fn sl_transport_zmq_open;
/* inproc://name: client and server in one process. Only tests link it (tests/support); elsewhere it is NULL. */
sl_transport_open_fn sl_transport_inproc_open __attribute__((weak));

#endif
