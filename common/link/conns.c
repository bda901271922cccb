#include "common/link/conns.h"

#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "common/base/assert.h"
#include "common/base/log.h"
#include "common/link/zsocket.h"

enum { FIRST_FDS = 64, FDS_MAX = 1 << 20, TELL_MS = 1000, TURN_MS = 100, NONE = -1 };

/* The reasons for cutting connections, for the log. ENDLESS: too many pending bytes; NAMED: chose its routing id. */
enum why { TOO_MANY, SILENT, ENDLESS, TOO_FAST, NAMED, WHY_COUNT };

/* The connection of one descriptor. */
struct member {
	uint64_t stamp;    /* its number, from 1; 0: there is no connection */
	uint64_t taken;    /* bytes that were received as messages */
	uint64_t since_ms; /* by patience_ms: when it came, or its last peer was forgotten */
	int peers;         /* its answered peers */
	bool listed;       /* in the list of connections without a session */
	bool heard;        /* a message has come after since_ms */
	bool answered;     /* it has ever had an answered peer */
	bool doomed;       /* to be cut at the next watch */
	int prev, next;    /* in the list; NONE: the end */
};

struct sl_conns {
	struct sl_conns_conf conf;
	struct sl_arrivals *arrivals;
	struct member *member;            /* [cap], by descriptor */
	int cap, top, count;              /* top: above all known descriptors; count: of the list */
	int first, last;                  /* the list; the first is cut first */
	uint64_t stamp;                   /* the last one given */
	uint64_t now_ms, patience_ms;     /* patience_ms: a clock that stands while the loop does not run */
	uint64_t loose;                   /* in a watch: pending bytes of connections with forgotten peers, so far */
	uint64_t told_ms, cut[WHY_COUNT]; /* cut: numbers that were not logged yet */
};

enum sl_err sl_conns_open(struct sl_conns **out, const struct sl_conns_conf *conf, uint64_t now_ms,
			  struct sl_fail *fail)
{
	struct sl_conns *c = calloc(1, sizeof *c);
	struct rlimit fds;
	enum sl_err err = SL_ERR_NOMEM;

	if (c)
		c->member = calloc(FIRST_FDS, sizeof *c->member);
	if (!c || !c->member)
		sl_fail_set(fail, SL_ERR_NOMEM, "table of connections: out of memory");
	else
		err = sl_arrivals_open(&c->arrivals, conf->per_s, now_ms, fail);
	if (err) {
		sl_conns_close(c);
		return err;
	}
	c->cap = FIRST_FDS;
	c->first = c->last = NONE;
	c->now_ms = now_ms;
	c->conf = *conf;
	if (getrlimit(RLIMIT_NOFILE, &fds) == 0 && fds.rlim_cur / 2 < (rlim_t)conf->limit)
		c->conf.limit = (int)(fds.rlim_cur / 2);
	*out = c;
	return SL_OK;
}

void sl_conns_close(struct sl_conns *c)
{
	if (!c)
		return;
	sl_arrivals_close(c->arrivals);
	free(c->member);
	free(c);
}

/* A connection is in the list of those without a session as long as it has no peer that was answered. */
static void check_member(const struct sl_conns *c, int fd)
{
	const struct member *m = &c->member[fd];

	if (!m->stamp) {
		sl_assert(!m->listed && !m->peers);
		return;
	}
	sl_assert_int(m->stamp, <=, c->stamp);
	sl_assert_int(fd, <, c->top);
	sl_assert_int(m->peers, >=, 0);
	sl_assert(m->listed == (m->peers == 0));
	sl_assert_if(m->peers, m->answered);
	sl_assert_int(m->since_ms, <=, c->patience_ms);
}

static void check(const struct sl_conns *c)
{
	sl_assert(0 <= c->top && c->top <= c->cap);
	sl_assert(0 <= c->count && c->count <= c->top);
	sl_assert((c->count == 0) == (c->first == NONE) && (c->first == NONE) == (c->last == NONE));
	if (c->count) {
		sl_assert(c->member[c->first].listed && c->member[c->first].prev == NONE);
		sl_assert(c->member[c->last].listed && c->member[c->last].next == NONE);
	}
}

/* Inserts fd into the list between `prev` and `next`, either of which may be NONE. */
static void list(struct sl_conns *c, int fd, int prev, int next)
{
	struct member *m = &c->member[fd];

	sl_assert(!m->listed);
	m->listed = true;
	m->prev = prev;
	m->next = next;
	*(prev == NONE ? &c->first : &c->member[prev].next) = fd;
	*(next == NONE ? &c->last : &c->member[next].prev) = fd;
	c->count++;
}

static void unlist(struct sl_conns *c, int fd)
{
	struct member *m = &c->member[fd];

	if (!m->listed)
		return;
	*(m->prev == NONE ? &c->first : &c->member[m->prev].next) = m->next;
	*(m->next == NONE ? &c->last : &c->member[m->next].prev) = m->prev;
	m->listed = false;
	c->count--;
}

/* The connection with this descriptor; NULL: it is not known. */
static struct member *find(struct sl_conns *c, int fd)
{
	return fd >= 0 && fd < c->cap && c->member[fd].stamp ? &c->member[fd] : NULL;
}

static bool has_room(struct sl_conns *c, int fd)
{
	struct member *grown;
	int cap = c->cap;

	if (fd < 0 || fd >= FDS_MAX)
		return false;
	while (cap <= fd)
		cap *= 2;
	if (cap == c->cap)
		return true;
	grown = realloc(c->member, (size_t)cap * sizeof *grown);
	if (!grown)
		return false;
	for (int i = c->cap; i < cap; i++)
		grown[i] = (struct member){0};
	c->member = grown;
	c->cap = cap;
	return true;
}

/* Aborts a connection and discards what the kernel has of it. After a mere shutdown ZeroMQ would still read all that,
 * and it can be megabytes. */
static void end_at_once(int fd)
{
	if (connect(fd, &(struct sockaddr){.sa_family = AF_UNSPEC}, sizeof(struct sockaddr)) != 0)
		(void)shutdown(fd, SHUT_RDWR);
}

static void cut(struct sl_conns *c, int fd, enum why why)
{
	unlist(c, fd);
	c->member[fd] = (struct member){0};
	c->cut[why]++;
	check(c);
	end_at_once(fd); /* ZeroMQ notices, and closes the descriptor */
}

void sl_conns_drop(struct sl_conns *c, int fd)
{
	if (find(c, fd))
		cut(c, fd, NAMED);
}

static bool is_admitted(struct sl_conns *c, int fd)
{
	struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
	socklen_t len = sizeof from;
	struct sl_address address;

	/* A connection that is closed already has no address any more, and counts for the address of zeros. */
	(void)getpeername(fd, (struct sockaddr *)&from, &len);
	address = sl_address_of((struct sockaddr *)&from);
	return sl_arrivals_admit(c->arrivals, &address, c->now_ms);
}

void sl_conns_add(struct sl_conns *c, int fd)
{
	c->stamp++;
	if (!has_room(c, fd))
		return;
	unlist(c, fd);
	c->member[fd] = (struct member){.stamp = c->stamp, .since_ms = c->patience_ms};
	list(c, fd, c->last, NONE);
	c->top = fd < c->top ? c->top : fd + 1;
	check_member(c, fd);
	check(c);
	if (!is_admitted(c, fd))
		cut(c, fd, TOO_FAST);
}

void sl_conns_remove(struct sl_conns *c, int fd)
{
	struct member *m = find(c, fd);

	if (!m)
		return;
	unlist(c, fd);
	*m = (struct member){0};
	check(c);
}

uint32_t sl_conns_total(const struct sl_conns *c)
{
	return (uint32_t)c->stamp;
}

void sl_conns_received(struct sl_conns *c, int fd, size_t bytes)
{
	struct member *m = find(c, fd);

	if (!m)
		return;
	m->heard = true;
	m->taken += bytes;
}

uint64_t sl_conns_answered(struct sl_conns *c, int fd)
{
	struct member *m = find(c, fd);

	if (!m)
		return 0;
	unlist(c, fd);
	m->answered = true;
	m->peers++;
	check_member(c, fd);
	return m->stamp;
}

void sl_conns_forget_peer(struct sl_conns *c, int fd, uint64_t stamp)
{
	struct member *m = find(c, fd);

	if (!m || m->stamp != stamp || --m->peers != 0)
		return;
	m->heard = false;
	m->since_ms = c->patience_ms;
	list(c, fd, NONE, c->first);
	check_member(c, fd);
	check(c);
}

uint64_t sl_conns_arrived(struct sl_conns *c, int fd, uint64_t stamp)
{
	const struct member *m = find(c, fd);

	return m && m->stamp == stamp ? sl_zsocket_arrived(fd) : 0;
}

void sl_conns_host(struct sl_conns *c, int fd, uint64_t stamp, char out[SL_TRANSPORT_HOST])
{
	const struct member *m = find(c, fd);
	struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
	socklen_t len = sizeof from;

	out[0] = '\0';
	if (!m || m->stamp != stamp || getpeername(fd, (struct sockaddr *)&from, &len) != 0)
		return;
	if (from.ss_family == AF_UNIX)
		snprintf(out, SL_TRANSPORT_HOST, "local");
	else if (getnameinfo((struct sockaddr *)&from, len, out, SL_TRANSPORT_HOST, NULL, 0, NI_NUMERICHOST) != 0)
		out[0] = '\0';
}

int sl_conns_waiting(const struct sl_conns *c)
{
	return c->count;
}

static void tell(struct sl_conns *c)
{
	uint64_t *n = c->cut;

	if (!(n[TOO_MANY] | n[SILENT] | n[ENDLESS] | n[TOO_FAST] | n[NAMED]) || c->now_ms - c->told_ms < TELL_MS)
		return;
	c->told_ms = c->now_ms;
	sl_log(SL_LOG_WARN, "connections",
	       "connections closed: %" PRIu64 " above the limit of %d without a session, %" PRIu64
	       " without a Hello after %" PRIu64 " s, %" PRIu64 " that sent more than their credit, %" PRIu64
	       " that connected too fast, %" PRIu64 " that announced an Identity",
	       n[TOO_MANY], c->conf.limit, n[SILENT], c->conf.hello_ms / 1000, n[ENDLESS], n[TOO_FAST], n[NAMED]);
	for (int i = 0; i < WHY_COUNT; i++)
		n[i] = 0;
}

void sl_conns_trim(struct sl_conns *c)
{
	while (c->count > c->conf.limit)
		cut(c, c->first, TOO_MANY);
	tell(c);
}

/* Pending bytes: those that came, but were not received as messages. `taken` counts an upper bound of a message's bytes
 * on the wire, so it may exceed the bytes that came; it is then corrected. */
static uint64_t held(struct member *m, int fd)
{
	const uint64_t arrived = sl_zsocket_arrived(fd);

	if (m->taken > arrived)
		m->taken = arrived;
	return arrived - m->taken;
}

/* Whether a connection has too many pending bytes. After a session's end, data that was in flight may still come; all
 * such connections together may have one window of it. */
static bool holds_too_much(struct sl_conns *c, struct member *m, int fd)
{
	uint64_t bytes = held(m, fd);

	if (!m->answered)
		return bytes > c->conf.stranger_bytes;
	if (m->peers == 0 && bytes > c->conf.stranger_bytes) {
		c->loose += bytes;
		bytes = c->loose;
	}
	return bytes > c->conf.peer_bytes;
}

static void watch(struct sl_conns *c, int fd)
{
	struct member *m = &c->member[fd];

	if (m->doomed) {
		cut(c, fd, ENDLESS);
	} else if (m->listed && !m->heard && c->patience_ms - m->since_ms > c->conf.hello_ms) {
		cut(c, fd, SILENT);
	} else if (holds_too_much(c, m, fd)) {
		if (m->peers == 0) {
			cut(c, fd, ENDLESS);
			return;
		}
		m->doomed = true;
		c->conf.over(c->conf.arg, fd, m->stamp);
	}
}

void sl_conns_check(struct sl_conns *c, uint64_t now_ms)
{
	uint64_t passed = now_ms - c->now_ms;

	/* time in which the loop stood still does not count as silence of peers */
	c->patience_ms += passed < TURN_MS ? passed : TURN_MS;
	c->now_ms = now_ms;
	c->loose = 0;
	for (int fd = 0; fd < c->top; fd++)
		if (c->member[fd].stamp)
			watch(c, fd);
	while (c->top && !c->member[c->top - 1].stamp)
		c->top--;
	tell(c);
}

bool sl_conns_shut(struct sl_conns *c, uint64_t now_ms, struct sl_shut *out)
{
	return sl_arrivals_shut(c->arrivals, now_ms, out);
}
