#include <string.h>

#include "common/link/transport_impl.h"
#include "common/link/wire.h"

enum { HWM_MAX = 65536 };

static const struct {
	const char *scheme;
	sl_transport_open_fn *open;
} schemes[] = {
	{"tcp://", sl_transport_zmq_open},
	{"ipc://", sl_transport_zmq_open},
	{"inproc://", sl_transport_inproc_open},
};

static enum sl_err transport_open(struct sl_transport **out, struct sl_loop *loop, bool bind,
				  const struct sl_transport_conf *conf, const struct sl_transport_events *events,
				  void *arg, struct sl_fail *fail)
{
	if (conf->part_bytes < 1 || conf->part_bytes > SL_WIRE_PART_MAX)
		return sl_fail_set(fail, SL_ERR_CONFIG, "part size %zu: must be 1 to %d bytes", conf->part_bytes,
				   SL_WIRE_PART_MAX);
	if (conf->hwm < 1 || conf->hwm > HWM_MAX)
		return sl_fail_set(fail, SL_ERR_CONFIG, "high-water mark %d: must be 1 to %d messages", conf->hwm,
				   HWM_MAX);
	for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
		if (schemes[i].open && strncmp(conf->endpoint, schemes[i].scheme, strlen(schemes[i].scheme)) == 0)
			return schemes[i].open(out, loop, bind, conf, events, arg, fail);
	return sl_fail_set(fail, SL_ERR_CONFIG, "endpoint \"%s\": must be tcp://host:port or ipc://path",
			   conf->endpoint);
}

enum sl_err sl_transport_connect(struct sl_transport **out, struct sl_loop *loop, const struct sl_transport_conf *conf,
				 const struct sl_transport_events *events, void *arg, struct sl_fail *fail)
{
	return transport_open(out, loop, false, conf, events, arg, fail);
}

enum sl_err sl_transport_bind(struct sl_transport **out, struct sl_loop *loop, const struct sl_transport_conf *conf,
			      const struct sl_transport_events *events, void *arg, struct sl_fail *fail)
{
	return transport_open(out, loop, true, conf, events, arg, fail);
}

const char *sl_transport_endpoint(const struct sl_transport *transport)
{
	return transport->ops->endpoint(transport);
}

enum sl_err sl_transport_send(struct sl_transport *transport, sl_peer peer, struct sl_bytes header,
			      const struct sl_payload *payload)
{
	return transport->ops->send(transport, peer, header, payload);
}

bool sl_transport_peer_key(const struct sl_transport *transport, sl_peer peer, struct sl_key *out)
{
	return transport->ops->peer_key && transport->ops->peer_key(transport, peer, out);
}

void sl_transport_peer_host(const struct sl_transport *transport, sl_peer peer, char out[SL_TRANSPORT_HOST])
{
	out[0] = '\0';
	if (transport->ops->peer_host)
		transport->ops->peer_host(transport, peer, out);
}

uint64_t sl_transport_arrived(const struct sl_transport *transport, sl_peer peer)
{
	return transport->ops->arrived ? transport->ops->arrived(transport, peer) : 0;
}

void sl_transport_count(struct sl_transport *transport)
{
	if (transport->ops->count)
		transport->ops->count(transport);
}

void sl_transport_forget(struct sl_transport *transport, sl_peer peer)
{
	transport->ops->forget(transport, peer);
}

void sl_transport_close(struct sl_transport *transport, int linger_ms)
{
	if (transport)
		transport->ops->close(transport, linger_ms);
}
