/* Computes what a disk may hold after a power cut, from a record of what processes did to it.
 * The first folder of a path, client or server, names a machine, which has a disk of its own.
 *
 * The model: what POSIX promises, and what ext4 and xfs may do (without auto_da_alloc and the like).
 * - fsync and fdatasync of a file: its data and length are durable. Its name is not.
 * - fsync of a folder: the names in it are durable. The folder's own name in its parent is not.
 * - Each operation that no sync covers may be there or not, independently and in any order. So there may
 *   be a renamed file without its data, data without a name, or an unlink without an earlier rename.
 *   rename is atomic.
 * - A write may be torn: any of its sectors (512 or 4096 bytes each) may be there, and the new length
 *   with or without them. Missing sectors keep their former content, or read as zeros.
 * Not modelled: sectors torn inside, bit rot, disks that lie about a flush, a failed fsync.
 *
 * Modes: which of the operations that no sync covers took place.
 *   all       all of them: the process died, the machine did not
 *   none      none
 *   data      those on files, none on folders
 *   names     those on folders, none on files
 *   zeros     those on folders; files have their new length, but no data
 *   unlinks   only removals
 *   keep      all but removals
 *   prefix    all up to one that the seed chooses, which is torn
 *   random    each by the seed, writes torn */
#ifndef SL_TESTS_SUPPORT_DISK_MODEL_H
#define SL_TESTS_SUPPORT_DISK_MODEL_H

#include <stdbool.h>
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

enum disk_mode {
	DISK_ALL,
	DISK_NONE,
	DISK_DATA,
	DISK_NAMES,
	DISK_ZEROS,
	DISK_UNLINKS,
	DISK_KEEP,
	DISK_PREFIX,
	DISK_RANDOM,
	DISK_MODE_COUNT
};
enum { DISK_CLIENT, DISK_SERVER, DISK_SIDES };
extern const char *const disk_mode_name[DISK_MODE_COUNT];
extern const char *const disk_side_name[DISK_SIDES];

/* Records are in the order in which the calls returned, over all processes. */
struct disk_record {
	struct {
		uint32_t op;
		int32_t pid, fd;
		int64_t at;
		uint64_t data_len;
	} head;
	char *path, *path2; /* from the folder on in which both machines' folders are */
	const uint8_t *data;
};

extern struct disk_record *disk_record;
extern int disk_records;

/* Computes the disk of a side after the first `cut` records and a power cut. Returns its hash. If
 * dir is not NULL, writes the files to dir/client or dir/server. */
uint64_t disk_state(int side, int cut, enum disk_mode mode, uint64_t seed, const char *dir);
uint64_t disk_random(uint64_t *seed, uint64_t n); /* a number below n */
/* Prints an error and ends the process. All functions here call it on an error. */
void disk_die(const char *what, const char *about) __attribute__((noreturn));

#endif
