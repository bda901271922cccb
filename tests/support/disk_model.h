/* Computes what a disk may hold after a power cut, from a log of what processes did to it (disk_log.h).
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

#include "tests/support/disk_log.h"

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

struct disk_record {
	struct disk_head head;
	char *path, *path2;
	const uint8_t *data;
	uint64_t end; /* offset in the log behind this record */
};

/* The log, filled by disk_read_log. */
extern struct disk_record *disk_record;
extern int disk_records;

void disk_read_log(const char *path);
/* Makes the model ignore one kind of sync, as if the program had left it out. `what` is SIDE:KIND:
 * client:file (fsync of a file), server:data (fdatasync), server:dir (fsync of a folder) and so on. */
void disk_drop(const char *what);
/* Computes the disk of a side after the first `cut` records and a power cut. Returns its hash. If
 * dir is not NULL, writes the files to dir/client or dir/server. */
uint64_t disk_state(int side, int cut, enum disk_mode mode, uint64_t seed, const char *dir);
uint64_t disk_random(uint64_t *seed, uint64_t n); /* a number below n */
/* Prints an error and ends the process. All functions here call it on an error. */
void disk_die(const char *what, const char *about) __attribute__((noreturn));

#endif
