#include "common/link/door.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <zmq.h>

#include "common/link/peers.h"
#include "common/link/synfilter.h"
#include "common/link/zsocket.h"

enum {
	/* Time for a Hello after the connection comes: ZMTP's handshake may take 8 s (zsocket.c), then it follows. */
	HELLO_MS = 10000,
	/* The handshake and the first Hello, which has no payload, take 5 KiB. */
	STRANGER_BYTES = 64 << 10,
	/* Bytes besides the payload that credit allows: headers of parts with ZeroMQ's framing; control frames. */
	PART_EXTRA = 256,
	PEER_EXTRA = 1 << 20,
	LEARN_MS = 5000,
};

struct sl_door {
	struct sl_conns *conns;
	uint32_t first; /* ZeroMQ's number of the first connection from outside */
	int listener;   /* the listening socket; -1: not known */
	uint64_t *came; /* as in sl_transport_conf */
};

/* The most bytes that a peer can have in flight if it obeys its credit. */
static uint64_t peer_bytes(const struct sl_transport_conf *conf)
{
	return conf->window_bytes + conf->window_bytes / conf->part_bytes * PART_EXTRA + PEER_EXTRA;
}

enum sl_err sl_door_open(struct sl_door **out, const struct sl_transport_conf *conf,
			 void (*over)(void *arg, int fd, uint64_t stamp), void *arg, uint64_t now_ms,
			 struct sl_fail *fail)
{
	const struct sl_conns_conf conns = {.limit = SL_TRANSPORT_CROWD,
					    .hello_ms = HELLO_MS,
					    .stranger_bytes = conf->window_bytes ? STRANGER_BYTES : UINT64_MAX,
					    .peer_bytes = conf->window_bytes ? peer_bytes(conf) : UINT64_MAX,
					    .per_s = conf->arrivals_per_s ? conf->arrivals_per_s : SL_ARRIVALS_PER_S,
					    .over = over,
					    .arg = arg};
	struct sl_door *door = calloc(1, sizeof *door);
	enum sl_err err;

	if (!door)
		return sl_fail_set(fail, SL_ERR_NOMEM, "connections: out of memory");
	door->listener = -1;
	door->came = conf->came;
	err = sl_conns_open(&door->conns, &conns, now_ms, fail);
	if (err)
		free(door);
	else
		*out = door;
	return err;
}

void sl_door_close(struct sl_door *door)
{
	if (!door)
		return;
	sl_conns_close(door->conns);
	free(door);
}

struct sl_conns *sl_door_conns(struct sl_door *door)
{
	return door->conns;
}

enum sl_err sl_door_seed(struct sl_fail *fail)
{
	unsigned seed;

	if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
		return sl_fail_set(fail, SL_ERR_OS, "no random bytes: %s", strerror(errno));
	srand(seed);
	return SL_OK;
}

static uint32_t number_of(const uint8_t id[SL_PEER_ID_BYTES])
{
	return (uint32_t)id[1] << 24 | (uint32_t)id[2] << 16 | (uint32_t)id[3] << 8 | id[4];
}

/* Receives a message, and keeps its routing id; false: none comes. */
static bool hear_id(void *socket, uint8_t id[SL_PEER_ID_BYTES])
{
	zmq_pollitem_t item = {.socket = socket, .events = ZMQ_POLLIN};
	uint8_t rest[8];
	int rc;

	do
		rc = zmq_poll(&item, 1, LEARN_MS);
	while (rc < 0 && errno == EINTR);
	return rc == 1 && zmq_recv(socket, id, SL_PEER_ID_BYTES, ZMQ_DONTWAIT) == SL_PEER_ID_BYTES && id[0] == 0 &&
	       zmq_recv(socket, rest, sizeof rest, ZMQ_DONTWAIT) >= 0;
}

enum sl_err sl_door_learn(struct sl_door *door, void *context, void *socket, struct sl_fail *fail)
{
	static const char here[] = "inproc://number"; /* free, since the context has no other user */
	void *visitor = zmq_socket(context, ZMQ_DEALER);
	uint8_t id[SL_PEER_ID_BYTES];
	bool good = visitor && zmq_setsockopt(visitor, ZMQ_LINGER, &(int){0}, sizeof(int)) == 0 &&
		    zmq_bind(socket, here) == 0 && zmq_connect(visitor, here) == 0 &&
		    zmq_send(visitor, "", 0, ZMQ_DONTWAIT) == 0 && hear_id(socket, id) && zmq_unbind(socket, here) == 0;

	if (visitor)
		zmq_close(visitor);
	if (!good)
		return sl_fail_set(fail, SL_ERR_OS, "ZeroMQ does not number its connections: %s", zmq_strerror(errno));
	door->first = number_of(id) + 1;
	return SL_OK;
}

bool sl_door_gave(const struct sl_door *door, const void *id, size_t len)
{
	const uint8_t *byte = id;

	return len == SL_PEER_ID_BYTES && byte[0] == 0 && number_of(byte) - door->first < sl_conns_total(door->conns);
}

int sl_door_events(void)
{
	return ZMQ_EVENT_LISTENING | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED;
}

void sl_door_event(struct sl_door *door, int event, int value)
{
	if (event == ZMQ_EVENT_LISTENING) {
		door->listener = value;
		sl_zsocket_keep_unsent_short(value);
	} else if (event == ZMQ_EVENT_ACCEPTED) {
		if (door->came)
			++*door->came;
		sl_conns_add(door->conns, value);
	} else if (event == ZMQ_EVENT_DISCONNECTED) {
		sl_conns_remove(door->conns, value);
	}
}

void sl_door_watch(struct sl_door *door, uint64_t now_ms)
{
	struct sl_shut shut;

	sl_conns_check(door->conns, now_ms);
	/* if the kernel accepts no filter, excess connections are still cut when they come (sl_conns_add) */
	if (sl_conns_shut(door->conns, now_ms, &shut) && door->listener >= 0)
		(void)sl_synfilter_set(door->listener, &shut);
}
