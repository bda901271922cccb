#include "client/step/releases.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/guard.h"
#include "common/base/log.h"

enum { ROWS = SL_RELEASES_ROWS };

static uint64_t when_of(const struct sl_releases *c, uint64_t i)
{
	return c->row[i % ROWS].place >> 32;
}

static enum sl_err make_rows(struct sl_releases *c, struct sl_fail *fail)
{
	c->row = c->row ? c->row : calloc(ROWS, sizeof *c->row);
	return c->row ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the account of privacy");
}

enum sl_err sl_releases_open(struct sl_releases *c, const char *path, struct sl_fail *fail)
{
	const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	enum sl_err err = fd < 0 ? sl_guard_open_failed(path, fail) : sl_guard_written(fd, path, fail);
	int64_t turns = 0, turn = 0; /* where the ring begins anew */
	ssize_t n;

	c->fd = fd + 1;
	err = err ? err : make_rows(c, fail);
	if (err)
		return err;
	n = pread(fd, c->row, ROWS * sizeof *c->row, 0);
	if (n < 0)
		return sl_fail_set(fail, SL_ERR_IO, "%.300s: %s", path, strerror(errno));
	n /= (ssize_t)sizeof *c->row; /* half a row at the end: that tensor has not crossed */
	for (int64_t i = 1; i < n; i++)
		if (when_of(c, (uint64_t)i) < when_of(c, (uint64_t)i - 1)) {
			turns++;
			turn = i;
		}
	if (turns > (n == ROWS))
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%.300s is damaged, and no longer says what has crossed: begin anew with --fresh",
				   path);
	c->n = (uint64_t)(turn ? ROWS + turn : n);
	atomic_store(&c->steps, c->n ? when_of(c, c->n - 1) / 2 : 0);
	return SL_OK;
}

enum sl_err sl_releases_empty(struct sl_releases *c, struct sl_fail *fail)
{
	c->n = 0;
	atomic_store(&c->steps, 0);
	return ftruncate(c->fd - 1, 0) == 0 ? SL_OK
					    : sl_fail_set(fail, SL_ERR_IO, SL_RELEASES_FILE ": %s", strerror(errno));
}

void sl_releases_close(struct sl_releases *c)
{
	if (c->fd)
		close(c->fd - 1);
	free(c->row);
}

enum sl_err sl_releases_add(struct sl_releases *c, uint64_t when, uint32_t which, uint64_t hash, struct sl_fail *fail)
{
	const struct sl_releases_row now = {when << 32 | which, hash}, *row;
	const uint64_t first = c->n > ROWS ? c->n - ROWS : 0;
	enum sl_err err = make_rows(c, fail);

	if (err)
		return err;
	for (uint64_t i = c->n; i > first && when_of(c, i - 1) >= when; i--) {
		row = &c->row[(i - 1) % ROWS];
		if (row->place == now.place)
			return row->hash == hash ? SL_OK : SL_ERR_AUDIT;
	}
	if (c->n && when_of(c, c->n - 1) > when)
		return SL_ERR_AUDIT;
	if (c->fd && pwrite(c->fd - 1, &now, sizeof now, (off_t)(c->n % ROWS * sizeof now)) != (ssize_t)sizeof now)
		return sl_fail_set(fail, SL_ERR_IO,
				   "log.dir: " SL_RELEASES_FILE " cannot note what crosses (%s), and nothing crosses "
				   "uncounted: make room, and --resume",
				   strerror(errno));
	c->row[c->n++ % ROWS] = now;
	atomic_store(&c->steps, when / 2);
	return SL_OK;
}

void sl_releases_sync(const struct sl_releases *c)
{
	if (c->fd && fdatasync(c->fd - 1))
		sl_log(SL_LOG_WARN, "privacy-unnoted",
		       SL_RELEASES_FILE " may not be on the disk: after a power cut epsilon can be too low");
}
