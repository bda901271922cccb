#include "common/link/traffic.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Sizes in ZMTP's handshake and framing, for a DEALER and a ROUTER without an Identity: https://rfc.zeromq.org/spec/23
 * and 26. */
enum {
	SHORT_FRAME = 255,
	SHORT = 2,
	LONG = 9,
	CURVE = 33, /* what CURVE adds to a frame: command name, nonce, authenticator and flags */
	GREETING = 64,
	METADATA = 35, /* properties Socket-Type and Identity */
	READY = SHORT + 6 + METADATA,
	HELLO = SHORT + 200,
	WELCOME = SHORT + 168,
	INITIATE = LONG + 257 + METADATA,
	CURVE_READY = SHORT + 30 + METADATA,
	SYN = 1, /* TCP acknowledges a SYN as if it were a byte */
};

static void add_framing(struct sl_traffic_tap *t, enum sl_way way, uint64_t bytes)
{
	t->total[way].framing += bytes;
	t->said[way] += bytes;
}

void sl_tap_shook_hands(struct sl_traffic_tap *t)
{
	if (!t->total)
		return;
	add_framing(t, SL_SENT, GREETING + (t->curve ? HELLO + INITIATE : READY));
	add_framing(t, SL_RECEIVED, GREETING + (t->curve ? WELCOME + CURVE_READY : READY));
}

static void frame(struct sl_traffic_tap *t, enum sl_way way, size_t len)
{
	const size_t curve = t->curve ? CURVE : 0;

	add_framing(t, way, len + curve > SHORT_FRAME ? LONG : SHORT);
	t->total[way].curve += curve;
	t->said[way] += len + curve;
}

void sl_tap_message(struct sl_traffic_tap *t, enum sl_way way, size_t header, size_t payload)
{
	if (!t->total)
		return;
	frame(t, way, header);
	frame(t, way, payload);
}

/* The bytes that the connection has carried. Sent are the acknowledged bytes and those in the send queue; reading them
 * in this order counts no byte twice. tcpi_bytes_sent is of no use: it counts a segment again if this host's own queue
 * refused it. For Unix sockets the kernel has no counts, so the computed ones are returned. */
static void carried(const struct sl_traffic_tap *t, uint64_t out[SL_WAYS])
{
	struct tcp_info info;
	socklen_t len = sizeof info;
	int waiting;

	out[SL_SENT] = t->said[SL_SENT];
	out[SL_RECEIVED] = t->said[SL_RECEIVED];
	if (getsockopt(t->fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0 ||
	    len < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received)
		return;
	if (ioctl(t->fd, SIOCOUTQ, &waiting) != 0)
		waiting = 0;
	out[SL_SENT] = info.tcpi_bytes_acked ? info.tcpi_bytes_acked - SYN + (uint64_t)waiting : 0;
	out[SL_RECEIVED] = info.tcpi_bytes_received;
}

void sl_tap_look(struct sl_traffic_tap *t)
{
	uint64_t now[SL_WAYS];

	if (t->fd < 0 || !t->total) /* a message may come before the monitor's event for its connection */
		return;
	carried(t, now);
	for (int way = 0; way < SL_WAYS; way++) {
		if (now[way] <= t->seen[way])
			continue;
		t->total[way].bytes += now[way] - t->seen[way];
		t->seen[way] = now[way];
	}
}

void sl_tap_close(struct sl_traffic_tap *t)
{
	sl_tap_look(t);
	if (t->fd < 0)
		return;
	close(t->fd);
	t->fd = -1;
	for (int way = 0; way < SL_WAYS; way++)
		t->said[way] = t->seen[way] = 0;
}

void sl_tap_connected(struct sl_traffic_tap *t, int fd)
{
	struct stat at;

	/* Events come late: the descriptor may have been closed already, and belong to the next connection. */
	if (fstat(fd, &at) != 0 || (t->fd >= 0 && at.st_ino == t->inode))
		return;
	sl_tap_close(t);
	t->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	t->inode = at.st_ino;
}
