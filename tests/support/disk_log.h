/* The log of what a process does to its disk: written by preload/disk_recorder.c, read by
 * disk_model.c. Each record is a head, a path, a second path and data. Records are in the order in
 * which the calls returned, over all processes that write to the log. */
#ifndef SL_TESTS_SUPPORT_DISK_LOG_H
#define SL_TESTS_SUPPORT_DISK_LOG_H

#include <stdint.h>

enum disk_op {
	DISK_OPEN,     /* path; the flags are in `at`; fd */
	DISK_WRITE,    /* fd; data, written at offset `at` */
	DISK_TRUNCATE, /* fd; new length in `at` */
	DISK_SYNC,     /* fd of a file or folder: fsync */
	DISK_DATASYNC, /* fd: fdatasync */
	DISK_CLOSE,    /* fd */
	DISK_RENAME,   /* path to path2 */
	DISK_UNLINK,   /* path */
	DISK_MKDIR,    /* path */
	DISK_OP_COUNT
};

enum { DISK_MAGIC = 0x4b534944 };

/* Paths are relative to the recorder's root and have no terminating NUL. */
struct disk_head {
	uint32_t magic, op;
	int32_t pid, fd;
	int64_t at;
	uint32_t path_len, path2_len;
	uint64_t data_len;
};

#endif
