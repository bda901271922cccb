#include "common/link/zsocket.h"

#include <errno.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <zmq.h>

#include "common/base/failpoint.h"
#include "common/link/wire.h"
#include "common/link/zap.h"

enum {
	/* A connection must finish ZMTP's handshake in this time. With keys it takes three round trips, which may need
	 * seconds. conns.h limits how many connections may be at it. */
	HANDSHAKE_MS = 8000,
	RECONNECT_MS = 100,
	RECONNECT_MAX_MS = 2000,
	CONNECT_MS = 5000,
	BACKLOG = 1024,
	KEEPALIVE_IDLE_S = 30,
	KEEPALIVE_INTERVAL_S = 10,
	KEEPALIVE_COUNT = 3,
	NOTSENT_BYTES = 128 << 10,
	EVENT_BYTES = 6,
	DESCRIPTORS = 32, /* of a listening socket with its door, monitor and self-test, with a margin */
	ADDRESS = 64,
};

enum sl_err sl_zsocket_options(void *socket, bool bound, const struct sl_transport_conf *conf, struct sl_fail *fail)
{
	const struct {
		int option, value, bind;
	} ints[] = {
		{ZMQ_SNDHWM, conf->hwm, -1},
		{ZMQ_RCVHWM, conf->hwm, -1},
		{ZMQ_LINGER, 0, -1},
		{ZMQ_IPV6, 1, -1},
		{ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS, -1},
		{ZMQ_TCP_KEEPALIVE, 1, -1},
		{ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE_S, -1},
		{ZMQ_TCP_KEEPALIVE_INTVL, KEEPALIVE_INTERVAL_S, -1},
		{ZMQ_TCP_KEEPALIVE_CNT, KEEPALIVE_COUNT, -1},
		{ZMQ_ROUTER_MANDATORY, 1, true},
		{ZMQ_BACKLOG, BACKLOG, true},
		/* Queues nothing while there is no connection, and drops what was queued when its connection ends. */
		{ZMQ_IMMEDIATE, 1, false},
		{ZMQ_RECONNECT_IVL, RECONNECT_MS, false},
		{ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS, false},
		{ZMQ_CONNECT_TIMEOUT, CONNECT_MS, false},
	};
	int64_t max = (int64_t)sl_transport_payload_max(conf, bound) + SL_WIRE_HEADER_MAX;

	for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++)
		if ((ints[i].bind < 0 || ints[i].bind == bound) &&
		    zmq_setsockopt(socket, ints[i].option, &ints[i].value, sizeof(int)) < 0)
			return sl_fail_set(fail, SL_ERR_OS, "ZeroMQ option %d = %d: %s", ints[i].option, ints[i].value,
					   zmq_strerror(errno));
	if (zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max, sizeof max) < 0)
		return sl_fail_set(fail, SL_ERR_OS, "ZMQ_MAXMSGSIZE: %s", zmq_strerror(errno));
	/* A socket with a ZAP domain, even without a handler, refuses ZMTP 1 and 2 in the greeting; Split needs
	 * neither. With them a routing id that comes while the socket closes would make ZeroMQ 4.3.4 abort. */
	if (bound && zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, SL_ZAP_DOMAIN, strlen(SL_ZAP_DOMAIN)) < 0)
		return sl_fail_set(fail, SL_ERR_OS, "ZMQ_ZAP_DOMAIN: %s", zmq_strerror(errno));
	return SL_OK;
}

enum sl_err sl_zsocket_monitor(void *context, void *socket, int events, void **out, struct sl_fail *fail)
{
	static const char address[] = "inproc://monitor"; /* free, since the context has no other user */

	*out = zmq_socket(context, ZMQ_PAIR);
	/* no high-water mark, so that ZeroMQ's thread never has to wait for room */
	if (!*out || zmq_setsockopt(*out, ZMQ_RCVTIMEO, &(int){0}, sizeof(int)) < 0 ||
	    zmq_setsockopt(*out, ZMQ_RCVHWM, &(int){0}, sizeof(int)) < 0 ||
	    zmq_socket_monitor(socket, address, events) < 0 || zmq_connect(*out, address) < 0)
		return sl_fail_set(fail, SL_ERR_OS, "ZeroMQ monitor: %s", zmq_strerror(errno));
	return SL_OK;
}

/* A monitor's message has two frames: event (16 bits) and value (32 bits); and the address. */
bool sl_zsocket_read(void *monitor, int *event, int *value)
{
	uint8_t frame[EVENT_BYTES];
	uint16_t number;
	int32_t what;
	char address[ADDRESS];

	if (zmq_recv(monitor, frame, sizeof frame, 0) != sizeof frame ||
	    zmq_recv(monitor, address, sizeof address, 0) < 0)
		return false;
	memcpy(&number, frame, sizeof number);
	memcpy(&what, frame + sizeof number, sizeof what);
	*event = number;
	*value = what;
	return true;
}

void sl_zsocket_unmonitor(void *socket, void **monitor)
{
	if (!*monitor)
		return;
	zmq_socket_monitor(socket, NULL, 0);
	zmq_setsockopt(*monitor, ZMQ_LINGER, &(int){0}, sizeof(int));
	zmq_close(*monitor);
	*monitor = NULL;
}

void sl_zsocket_keep_unsent_short(int fd)
{
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &(int){NOTSENT_BYTES}, sizeof(int));
}

uint64_t sl_zsocket_arrived(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof info;

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
			       len >= offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received
		       ? info.tcpi_bytes_received
		       : 0;
}

void sl_zsocket_redial(void *socket, const char *endpoint, bool ipv4)
{
	(void)zmq_setsockopt(socket, ZMQ_IPV6, &(int){!ipv4}, sizeof(int));
	(void)zmq_disconnect(socket, endpoint);
	(void)zmq_connect(socket, endpoint);
}

/* A dual-stack socket reports "tcp://[::ffff:127.0.0.1]:5570". Rewrites that as tcp://127.0.0.1:5570. */
static void unmap_ipv4(char *endpoint)
{
	static const char mapped[] = "tcp://[::ffff:";
	char *from = endpoint + sizeof mapped - 1, *bracket = strchr(endpoint, ']');

	if (strncmp(endpoint, mapped, sizeof mapped - 1) != 0 || !bracket || !strchr(endpoint, '.'))
		return;
	memmove(bracket, bracket + 1, strlen(bracket));
	memmove(endpoint + strlen("tcp://"), from, strlen(from) + 1);
}

/* Of an interface that is named in place of an address libzmq takes one address, and an IPv6 one first: clients that
 * call the other one would find nobody. */
static bool is_interface(const char *endpoint)
{
	static const char tcp[] = "tcp://";
	const char *host = endpoint + sizeof tcp - 1, *port = strrchr(endpoint, ':');
	char name[IF_NAMESIZE];

	if (strncmp(endpoint, tcp, sizeof tcp - 1) != 0 || !port || port < host || port - host >= IF_NAMESIZE)
		return false;
	snprintf(name, sizeof name, "%.*s", (int)(port - host), host);
	return if_nametoindex(name) != 0;
}

/* Listens on `localhost` as on 127.0.0.1: libzmq before 4.3.5 binds to no name. */
static int bind_to(void *socket, const char *endpoint)
{
	static const char local[] = "tcp://localhost:";
	char numeric[256]; /* longer than a config's text */

	if (strncmp(endpoint, local, sizeof local - 1) != 0)
		return zmq_bind(socket, endpoint);
	snprintf(numeric, sizeof numeric, "tcp://127.0.0.1:%s", endpoint + sizeof local - 1);
	return zmq_bind(socket, numeric);
}

enum sl_err sl_zsocket_bind(void *socket, const char *endpoint, struct sl_fail *fail)
{
	if (is_interface(endpoint))
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "cannot listen on %s: that is the name of an interface, which may have several "
				   "addresses: give one of them, such as 127.0.0.1 of lo, or 0.0.0.0",
				   endpoint);
	if (SL_FAILPOINT_CALL(SL_FP_LINK_BIND, bind_to(socket, endpoint)) >= 0)
		return SL_OK;
	if (errno == ENODEV || errno == EADDRNOTAVAIL)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE,
				   "cannot listen on %s: give an IP address of this machine, such as 127.0.0.1, not a "
				   "name",
				   endpoint);
	return sl_fail_set(fail, errno == EINVAL ? SL_ERR_CONFIG : SL_ERR_UNAVAILABLE, "cannot listen on %s: %s%s",
			   endpoint, zmq_strerror(errno),
			   errno == EADDRINUSE ? ": another server has this port; port 0 takes any that is free" : "");
}

enum sl_err sl_zsocket_endpoint(void *socket, char *out, size_t cap, struct sl_fail *fail)
{
	if (zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, out, &cap) < 0)
		return sl_fail_set(fail, SL_ERR_OS, "ZMQ_LAST_ENDPOINT: %s", zmq_strerror(errno));
	unmap_ipv4(out);
	return SL_OK;
}

enum sl_err sl_zsocket_room(struct sl_fail *fail)
{
	int fd[DESCRIPTORS], n = 0;

	while (n < DESCRIPTORS && (fd[n] = eventfd(0, EFD_CLOEXEC)) >= 0)
		n++;
	for (int i = 0; i < n; i++)
		close(fd[i]);
	return n == DESCRIPTORS ? SL_OK
				: sl_fail_set(fail, SL_ERR_CONFIG,
					      "this process may open %d more files, and its sockets need %d: raise "
					      "`ulimit -n` or LimitNOFILE=",
					      n, DESCRIPTORS);
}
