#include "client/step/releases.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/base/assert.h"
#include "common/base/folder.h"
#include "common/base/guard.h"

enum {
	ROWS = SL_RELEASES_ROWS,
	ROW = 32,
	BLOCK = 128, /* rows that the file grows by: most rows then change no length, and take one flush of the disk */
};

/* A row of the file. The head has its size. */
struct written {
	struct sl_releases_row row;
	uint64_t number, check;
};
_Static_assert(sizeof(struct written) == ROW, "a row lies in one sector");

static const char head[ROW] = "splitc releases 2\n";
static const char zeros[ROW];

static uint64_t when_of(const struct sl_releases *c, uint64_t i)
{
	return c->row[i % ROWS].place >> 32;
}

static off_t place_of(uint64_t i)
{
	return (off_t)((1 + i % ROWS) * ROW);
}

static uint64_t check_of(const struct written *w)
{
	return XXH3_64bits(w, offsetof(struct written, check));
}

static enum sl_err make_rows(struct sl_releases *c, struct sl_fail *fail)
{
	c->row = c->row ? c->row : calloc(ROWS, sizeof *c->row);
	return c->row ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the account of privacy");
}

/* Whether row i of the file is whole. */
static bool is_row(const struct written *w, uint64_t i)
{
	return w->check == check_of(w) && w->number % ROWS == i;
}

/* One more than the newest row's number; 0: there is none. */
static uint64_t count(const struct written *w, uint64_t slots)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < slots; i++)
		if (is_row(&w[i], i) && w[i].number >= n)
			n = w[i].number + 1;
	return n;
}

/* Takes the rows of a file of so many slots, the last of which may be a part. False: a row is missing that was on the
 * disk. In the place of the next row are the oldest row, a torn one, or zeros. */
static bool take(struct sl_releases *c, const struct written *w, uint64_t slots)
{
	const uint64_t n = count(w, slots), newest = n ? n - 1 : 0;

	for (uint64_t i = 0; i < slots; i++) {
		const uint64_t back = (newest % ROWS + ROWS - i) % ROWS; /* rows before the newest one */
		const bool none = !n || back > newest, good = is_row(&w[i], i) && w[i].number + back == newest;

		if (i != n % ROWS && (none ? memcmp(&w[i], zeros, ROW) != 0 : !good))
			return false;
		if (good)
			c->row[i] = w[i].row;
	}
	c->n = n;
	return n <= slots || slots == ROWS;
}

static enum sl_err damaged(const char *path, struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_DATA,
			   "%.300s is damaged, and no longer says what has crossed: put back what it was, or begin "
			   "anew with --fresh",
			   path);
}

static enum sl_err read_rows(struct sl_releases *c, const char *path, struct sl_fail *fail)
{
	char *file = calloc(1 + ROWS, ROW); /* behind the file's end: zeros */
	const ssize_t n = file ? pread(c->fd - 1, file, (1 + ROWS) * ROW, 0) : 0;
	const uint64_t slots = n > ROW ? ((uint64_t)n - 1) / ROW : 0; /* with a part at the end */
	enum sl_err err = SL_OK;

	if (!file)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the account of privacy");
	if (n < 0)
		err = sl_fail_set(fail, SL_ERR_IO, "%.300s: %s", path, strerror(errno));
	else if (memcmp(file, head, ROW) == 0)
		err = take(c, (const struct written *)(file + ROW), slots) ? SL_OK : damaged(path, fail);
	else if (memcmp(file, zeros, ROW) == 0) /* the first write was torn */
		err = count((const struct written *)(file + ROW), slots) ? damaged(path, fail) : SL_OK;
	else
		err = sl_fail_set(fail, SL_ERR_DATA,
				  "%.300s is damaged, or of an earlier version, which had no checks: end the run with "
				  "that version, or begin anew with --fresh",
				  path);
	free(file);
	return err;
}

/* What an earlier process has written may be in memory alone; and the name, too. */
static enum sl_err settle(const struct sl_releases *c, const char *path, struct sl_fail *fail)
{
	return fdatasync(c->fd - 1) && errno != EINVAL
		       ? sl_fail_set(fail, SL_ERR_IO, "%.300s: %s", path, strerror(errno))
	       : sl_folder_sync_of(path) ? sl_fail_set(fail, SL_ERR_IO, "folder of %.300s: %s", path, strerror(errno))
					 : SL_OK;
}

enum sl_err sl_releases_open(struct sl_releases *c, const char *path, struct sl_fail *fail)
{
	const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	enum sl_err err = fd < 0 ? sl_guard_open_failed(path, fail) : sl_guard_written(fd, path, fail);

	c->fd = fd + 1;
	err = err ? err : make_rows(c, fail);
	err = err ? err : settle(c, path, fail);
	err = err ? err : read_rows(c, path, fail);
	atomic_store(&c->steps, c->n ? when_of(c, c->n - 1) / 2 : 0);
	return err;
}

enum sl_err sl_releases_empty(struct sl_releases *c, struct sl_fail *fail)
{
	c->n = 0;
	atomic_store(&c->steps, 0);
	return ftruncate(c->fd - 1, 0) == 0 && fdatasync(c->fd - 1) == 0
		       ? SL_OK
		       : sl_fail_set(fail, SL_ERR_IO, SL_RELEASES_FILE ": %s", strerror(errno));
}

void sl_releases_close(struct sl_releases *c)
{
	if (c->fd)
		close(c->fd - 1);
	free(c->row);
}

static bool put(int fd, const char *from, size_t len, off_t at)
{
	for (ssize_t n; len; from += n, at += n, len -= (size_t)n) {
		n = pwrite(fd, from, len, at);
		if (n <= 0)
			return false;
	}
	return true;
}

/* Row c->n. The first one comes with the head; the first one of a block with room for the others. */
static bool write_row(const struct sl_releases *c, const struct sl_releases_row *row)
{
	char block[(1 + BLOCK) * ROW] = {0};
	struct written w = {*row, c->n, 0};
	const bool grows = c->n < ROWS && c->n % BLOCK == 0;

	w.check = check_of(&w);
	sl_assert(is_row(&w, c->n % ROWS)); /* as the next process looks for it */
	memcpy(block, head, ROW);
	memcpy(block + ROW, &w, ROW);
	return put(c->fd - 1, c->n ? block + ROW : block, (grows ? BLOCK * ROW : ROW) + (c->n ? 0 : ROW),
		   c->n ? place_of(c->n) : 0) &&
	       fdatasync(c->fd - 1) == 0;
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
	if (c->fd && !write_row(c, &now))
		return sl_fail_set(fail, SL_ERR_IO,
				   "log.dir: " SL_RELEASES_FILE " cannot note what crosses (%s), and nothing crosses "
				   "uncounted: make room, and --resume",
				   strerror(errno));
	c->row[c->n++ % ROWS] = now;
	sl_assert_int(when / 2, >=, sl_releases_steps(c)); /* what has crossed is never taken back */
	atomic_store(&c->steps, when / 2);
	return SL_OK;
}
