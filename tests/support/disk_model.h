/* What may be on a disk after a power cut, from a log of what processes did to it (disk_log.h). The first folder of a
 * path is a machine with a disk of its own: client, server.
 *
 * The model: what POSIX promises, and what ext4 and xfs may do (without auto_da_alloc and the like).
 * - fsync and fdatasync of a file: all that was written to it, and its length, is there. Not its name.
 * - fsync of a folder: the names in it are as they were. Not the folder's own name in the one above.
 * - All else since then may be there or not, each operation by itself and in any order: a name without the data it was
 *   renamed for, data without a name, an unlink before the rename that came earlier. rename is atomic.
 * - Of a write any sectors may be there, 512 or 4096 bytes each, and the length with or without them; what is missing
 *   reads as what was there before, or zeros.
 * Not in it: sectors torn inside, bits that rot, disks that lie about a flush, a failed fsync.
 *
 * Modes: which of the operations that no sync covers took place.
 *   all       all of them: the process died, the machine did not
 *   none      none
 *   data      those on files, none on folders
 *   names     those on folders, none on files
 *   zeros     the same, and files have their length, but no data
 *   unlinks   only removals
 *   keep      all but removals
 *   prefix    the first ones, up to one that the seed chooses, which is torn
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
	uint64_t end; /* byte of the log behind it */
};

/* The log, once read. */
extern struct disk_record *disk_record;
extern int disk_records;

void disk_read_log(const char *path);
/* As if the program had left out a kind of sync: client:file (fsync of a file), server:data (fdatasync), server:dir
 * (fsync of a folder) and so on. */
void disk_drop(const char *what);
/* The disk of a side when `cut` records have happened. Returns its hash; dir NULL: nothing is written, else dir/client
 * or dir/server. */
uint64_t disk_state(int side, int cut, enum disk_mode mode, uint64_t seed, const char *dir);
uint64_t disk_random(uint64_t *seed, uint64_t n); /* below n */
/* Ends the process, as all of these do on an error. */
void disk_die(const char *what, const char *about) __attribute__((noreturn));

#endif
