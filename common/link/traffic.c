#include "common/link/traffic.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* https://rfc.zeromq.org/spec/23 and 26, of a DEALER and a ROUTER without names. */
enum {
	SHORT_FRAME = 255,
	SHORT = 2,
	LONG = 9,
	CURVE = 33, /* of a frame: its name, nonce, authenticator and flags */
	GREETING = 64,
	METADATA = 35, /* Socket-Type and Identity */
	READY = SHORT + 6 + METADATA,
	HELLO = SHORT + 200,
	WELCOME = SHORT + 168,
	INITIATE = LONG + 257 + METADATA,
	CURVE_READY = SHORT + 30 + METADATA,
	SYN = 1, /* which TCP confirms as if it were a byte */
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

/* What was sent is what the other side has confirmed and what waits for that; in this order, lest a byte be counted
 * twice. tcpi_bytes_sent will not do: it counts a segment again that this host's own queue refused. Of Unix sockets the
 * kernel does not say; there it is what ought to have left and come. */
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

	if (t->fd < 0) /* messages can overtake the news of their connection */
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

	/* News is late: the descriptor may have been closed, and be that of the connection that came next. */
	if (!t->total || fstat(fd, &at) != 0 || (t->fd >= 0 && at.st_ino == t->inode))
		return;
	sl_tap_close(t);
	t->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	t->inode = at.st_ino;
}
