#include "common/link/crowd.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "common/base/clock.h"
#include "common/base/log.h"

enum { FIRST_FDS = 64, FDS_MAX = 1 << 20, TELL_MS = 1000, NONE = -1 };

/* Of one descriptor. */
struct member {
	uint64_t stamp; /* of the connection, from 1; 0: none is here */
	int peers;      /* that are answered */
	bool listed;
	int prev, next; /* where listed; NONE: the end */
};

struct sl_crowd {
	struct member *member; /* [cap], by descriptor */
	int cap, limit, count;
	int first, last;       /* the first is the first to go */
	uint64_t stamp;        /* the last one given */
	uint64_t cut, told_ms; /* cut: not told yet */
};

enum sl_err sl_crowd_open(struct sl_crowd **out, int limit, struct sl_fail *fail)
{
	struct sl_crowd *c = calloc(1, sizeof *c);
	struct rlimit fds;

	if (c)
		c->member = calloc(FIRST_FDS, sizeof *c->member);
	if (!c || !c->member) {
		free(c);
		return sl_fail_set(fail, SL_ERR_NOMEM, "table of connections: out of memory");
	}
	c->cap = FIRST_FDS;
	c->first = c->last = NONE;
	c->limit = limit;
	if (getrlimit(RLIMIT_NOFILE, &fds) == 0 && fds.rlim_cur / 2 < (rlim_t)limit)
		c->limit = (int)(fds.rlim_cur / 2);
	*out = c;
	return SL_OK;
}

void sl_crowd_close(struct sl_crowd *c)
{
	if (!c)
		return;
	free(c->member);
	free(c);
}

/* Between two that are listed, or NONE. */
static void list(struct sl_crowd *c, int fd, int prev, int next)
{
	struct member *m = &c->member[fd];

	m->listed = true;
	m->prev = prev;
	m->next = next;
	*(prev == NONE ? &c->first : &c->member[prev].next) = fd;
	*(next == NONE ? &c->last : &c->member[next].prev) = fd;
	c->count++;
}

static void unlist(struct sl_crowd *c, int fd)
{
	struct member *m = &c->member[fd];

	if (!m->listed)
		return;
	*(m->prev == NONE ? &c->first : &c->member[m->prev].next) = m->next;
	*(m->next == NONE ? &c->last : &c->member[m->next].prev) = m->prev;
	m->listed = false;
	c->count--;
}

/* NULL: no connection that is known. */
static struct member *find(struct sl_crowd *c, int fd)
{
	return fd >= 0 && fd < c->cap && c->member[fd].stamp ? &c->member[fd] : NULL;
}

static bool has_room(struct sl_crowd *c, int fd)
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

void sl_crowd_came(struct sl_crowd *c, int fd)
{
	if (!has_room(c, fd))
		return;
	unlist(c, fd);
	c->member[fd] = (struct member){.stamp = ++c->stamp};
	list(c, fd, c->last, NONE);
}

void sl_crowd_went(struct sl_crowd *c, int fd)
{
	struct member *m = find(c, fd);

	if (!m)
		return;
	unlist(c, fd);
	*m = (struct member){0};
}

uint64_t sl_crowd_settle(struct sl_crowd *c, int fd)
{
	struct member *m = find(c, fd);

	if (!m)
		return 0;
	unlist(c, fd);
	m->peers++;
	return m->stamp;
}

void sl_crowd_leave(struct sl_crowd *c, int fd, uint64_t stamp)
{
	struct member *m = find(c, fd);

	if (m && m->stamp == stamp && --m->peers == 0)
		list(c, fd, NONE, c->first);
}

int sl_crowd_count(const struct sl_crowd *c)
{
	return c->count;
}

void sl_crowd_thin(struct sl_crowd *c)
{
	uint64_t now_ms;

	for (; c->count > c->limit; c->cut++) {
		int fd = c->first;

		unlist(c, fd);
		/* ZeroMQ finds it ended, and closes it: `went` follows */
		(void)shutdown(fd, SHUT_RDWR);
	}
	now_ms = sl_now_ms();
	if (!c->cut || now_ms - c->told_ms < TELL_MS)
		return;
	c->told_ms = now_ms;
	sl_log(SL_LOG_WARN, "crowd",
	       "%" PRIu64 " connections without a session were cut, since there were more than %d", c->cut, c->limit);
	c->cut = 0;
}
