/* The interface that a transport implements. sl_transport_connect and _bind (transport.c) check the configuration and
 * choose a transport by the endpoint's scheme; everything else goes through this table. */
#ifndef SL_LINK_TRANSPORT_IMPL_H
#define SL_LINK_TRANSPORT_IMPL_H

#include <stdbool.h>

#include "common/link/transport.h"

struct sl_transport_ops {
	const char *(*endpoint)(const struct sl_transport *transport);
	enum sl_err (*send)(struct sl_transport *transport, sl_peer peer, struct sl_bytes header,
			    const struct sl_payload *payload);
	/* NULL: the transport has no keys. */
	bool (*peer_key)(const struct sl_transport *transport, sl_peer peer, struct sl_key *out);
	/* NULL: the transport does not know. */
	void (*peer_host)(const struct sl_transport *transport, sl_peer peer, char out[SL_TRANSPORT_HOST]);
	uint64_t (*arrived)(const struct sl_transport *transport, sl_peer peer);
	/* NULL: the transport counts no traffic. */
	void (*count)(struct sl_transport *transport);
	void (*forget)(struct sl_transport *transport, sl_peer peer);
	void (*close)(struct sl_transport *transport, int linger_ms);
};

/* The first member of every transport's struct. */
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
