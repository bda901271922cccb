#include "common/base/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/folder.h"
#include "common/base/guard.h"
#include "common/base/pieces.h"
#include "common/base/worker.h"

/* In the order of the points of SL_FP_FILE. */
enum call { OPEN, WRITE, SYNC, CLOSE, RENAME, DIRSYNC, DONE, UNDO };

/* After this many bytes the file is synced, and a worker's job gives way. Otherwise the last sync would write all
 * of a large file while other jobs wait. */
enum { SYNC_BYTES = 32 << 20 };

#define POINT(f, call) ((enum sl_failpoint)((int)(f)->points + (call)))

static enum sl_err give_up(struct sl_newfile *f, enum sl_err code, const char *path, struct sl_fail *fail)
{
	enum sl_err err = sl_fail_set(fail, code, "%s: %s", path, strerror(errno));
	struct sl_fail why;

	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	SL_FAILPOINT(POINT(f, UNDO));
	if (sl_folder_check(f->tmp, &why) == SL_OK)
		unlink(f->tmp);
	return err;
}

/* A killed process may have left a file at the temporary name, or another user may have placed a link there. It is
 * removed, and never written to. */
static int create(const char *path, mode_t mode)
{
	int fd = -1;

	for (int i = 0; i < 2 && fd < 0; i++) {
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
		if (fd < 0 && (errno != EEXIST || unlink(path) != 0))
			break;
	}
	return fd;
}

bool sl_newfile_is_special(const char *path)
{
	char to[sizeof "/proc/"] = "";
	struct stat st;

	if (readlink(path, to, sizeof to - 1) > 0 && strcmp(to, "/proc/") == 0)
		return true;
	return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

enum sl_err sl_newfile_open(struct sl_newfile *f, const char *path, mode_t mode, enum sl_failpoint points,
			    struct sl_fail *fail)
{
	f->points = points;
	f->unsynced = 0;
	if (snprintf(f->path, sizeof f->path, "%s", path) >= (int)sizeof f->path ||
	    snprintf(f->tmp, sizeof f->tmp, "%s.tmp", path) >= (int)sizeof f->tmp)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "%.96s…: too long a path", path);
	if (sl_folder_check(path, fail) != SL_OK)
		return SL_ERR_CANTCREATE;
	if (sl_newfile_is_special(path))
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "%s: this is no regular file: name a file", path);
	f->fd = SL_FAILPOINT_CALL(POINT(f, OPEN), create(f->tmp, mode));
	return f->fd < 0 ? sl_fail_set(fail, sl_guard_make_err(errno), "%s: %s", f->tmp, strerror(errno)) : SL_OK;
}

enum sl_err sl_newfile_write(struct sl_newfile *f, const void *from, size_t len, struct sl_fail *fail)
{
	const char *at = from;

	while (len > 0) {
		ssize_t put = SL_FAILPOINT_WRITE(POINT(f, WRITE), f->fd, at, sl_piece(len));

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return give_up(f, SL_ERR_IO, f->tmp, fail);
		at += put;
		len -= (size_t)put;
		f->unsynced += (size_t)put;
		if (f->unsynced < SYNC_BYTES)
			continue;
		f->unsynced = 0;
		if (fdatasync(f->fd) != 0)
			return give_up(f, SL_ERR_IO, f->tmp, fail);
		sl_worker_turn();
	}
	return SL_OK;
}

enum sl_err sl_newfile_finish(struct sl_newfile *f, struct sl_fail *fail)
{
	int closed;

	if (SL_FAILPOINT_CALL(POINT(f, SYNC), fsync(f->fd)) != 0)
		return give_up(f, SL_ERR_IO, f->tmp, fail);
	closed = SL_FAILPOINT_CALL(POINT(f, CLOSE), close(f->fd));
	f->fd = -1; /* close() has freed it even if it failed */
	if (closed != 0)
		return give_up(f, SL_ERR_IO, f->tmp, fail);
	if (sl_folder_check(f->path, fail) !=
	    SL_OK) /* it may have moved since; the other one's files are not touched */
		return SL_ERR_CANTCREATE;
	if (SL_FAILPOINT_CALL(POINT(f, RENAME), rename(f->tmp, f->path)) != 0)
		return give_up(f, sl_guard_make_err(errno), f->path, fail);
	/* the rename changed the folder, which needs a sync of its own */
	if (SL_FAILPOINT_CALL(POINT(f, DIRSYNC), sl_folder_sync_of(f->path)) != 0)
		return sl_fail_set(fail, SL_ERR_IO, "the folder of %s: %s", f->path, strerror(errno));
	SL_FAILPOINT(POINT(f, DONE));
	return SL_OK;
}

enum sl_err sl_newfile_put(const char *path, mode_t mode, enum sl_failpoint points, const void *from, size_t len,
			   struct sl_fail *fail)
{
	struct sl_newfile f;
	enum sl_err err = sl_newfile_open(&f, path, mode, points, fail);

	if (!err)
		err = sl_newfile_write(&f, from, len, fail);
	return err ? err : sl_newfile_finish(&f, fail);
}
