/* The log of what a process does to its disk: written by preload/disk_recorder.c, read by disk_model.c. Records lie one
 * after another, each a head, a path, a second path and data; the order is that in which the calls came back, over all
 * processes that write to one log. */
#ifndef SL_TESTS_SUPPORT_DISK_LOG_H
#define SL_TESTS_SUPPORT_DISK_LOG_H

#include <stdint.h>

enum disk_op {
	DISK_OPEN,     /* path, flags in `at`; fd */
	DISK_WRITE,    /* fd, data that now lies at `at` */
	DISK_TRUNCATE, /* fd, to `at` bytes */
	DISK_SYNC,     /* fd: fsync, of a file or folder */
	DISK_DATASYNC, /* fd: fdatasync */
	DISK_CLOSE,    /* fd */
	DISK_RENAME,   /* path to path2 */
	DISK_UNLINK,   /* path */
	DISK_MKDIR,    /* path */
	DISK_OP_COUNT
};

enum { DISK_MAGIC = 0x4b534944 };

/* Paths are relative to the recorder's root, without a NUL. */
struct disk_head {
	uint32_t magic, op;
	int32_t pid, fd;
	int64_t at;
	uint32_t path_len, path2_len;
	uint64_t data_len;
};

#endif
