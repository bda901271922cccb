/* A file that appears whole or not at all: written as `path`.tmp, synced, renamed, the folder synced. Whichever of
 * these calls fails: the file that was there before still is, .tmp is gone, and the caller only passes the error on.
 * No symbolic link is followed, neither at `path` nor at the temporary name: both are replaced.
 * After a failed sync nothing is tried again: the kernel may have dropped what it could not write. Any thread. */
#ifndef SL_BASE_NEWFILE_H
#define SL_BASE_NEWFILE_H

#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/base/err.h"
#include "common/base/failpoint.h"

struct sl_newfile {
	int fd;
	size_t unsynced;          /* bytes that were written since the last sync */
	enum sl_failpoint points; /* the first of the file's own: SL_FP_CKPT_OPEN …; SL_FP_NONE: it has none */
	char path[PATH_MAX], tmp[PATH_MAX];
};

/* CANTCREATE. */
enum sl_err sl_newfile_open(struct sl_newfile *f, const char *path, mode_t mode, enum sl_failpoint points,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* IO: the file is given up. */
enum sl_err sl_newfile_write(struct sl_newfile *f, const void *from, size_t len, struct sl_fail *fail) SL_MUST_CHECK;
/* CANTCREATE, IO: given up; or, where only the folder could not be synced, there but perhaps not after a power cut. */
enum sl_err sl_newfile_finish(struct sl_newfile *f, struct sl_fail *fail) SL_MUST_CHECK;
/* All three, for a file that is in memory. CANTCREATE, IO. */
enum sl_err sl_newfile_put(const char *path, mode_t mode, enum sl_failpoint points, const void *from, size_t len,
			   struct sl_fail *fail) SL_MUST_CHECK;

#endif
