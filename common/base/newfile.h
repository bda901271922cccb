/* A file that appears whole or not at all: it is written as `path`.tmp, synced and renamed, then its folder is
 * synced. If a call up to the rename fails, the previous file is still there and .tmp is gone; the caller only
 * passes the error on. No symbolic link is followed, neither at `path` nor at the temporary name: both are
 * replaced.
 * After a failed sync nothing is tried again: the kernel may have dropped what it could not write. Any thread. */
#ifndef SL_BASE_NEWFILE_H
#define SL_BASE_NEWFILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/base/err.h"
#include "common/base/failpoint.h"

struct sl_newfile {
	int fd;
	size_t unsynced;          /* bytes that were written since the last sync */
	enum sl_failpoint points; /* the first of this file's failpoints (SL_FP_CKPT_OPEN …), or SL_FP_NONE */
	char path[PATH_MAX], tmp[PATH_MAX];
};

/* Opens the temporary file. CANTCREATE or IO (sl_guard_make_err); CANTCREATE also if `path` is special. */
enum sl_err sl_newfile_open(struct sl_newfile *f, const char *path, mode_t mode, enum sl_failpoint points,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* Appends. IO: the file was given up, and its descriptor is closed. */
enum sl_err sl_newfile_write(struct sl_newfile *f, const void *from, size_t len, struct sl_fail *fail) SL_MUST_CHECK;
/* Syncs, closes, renames and syncs the folder. CANTCREATE, IO: the file was given up. If only the sync of the
 * folder failed (IO), the file is there, but a power cut may undo that. */
enum sl_err sl_newfile_finish(struct sl_newfile *f, struct sl_fail *fail) SL_MUST_CHECK;
/* Whether a file in place of `path` would remove what is not data: a device, a pipe, or a link to an open file of a
 * process, such as /dev/stdout. */
bool sl_newfile_is_special(const char *path);
/* All three calls, for a file that is in memory. CANTCREATE, IO. */
enum sl_err sl_newfile_put(const char *path, mode_t mode, enum sl_failpoint points, const void *from, size_t len,
			   struct sl_fail *fail) SL_MUST_CHECK;

#endif
