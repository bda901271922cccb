/* The space of a file system. Any thread; a call blocks while the disk does. */
#ifndef SL_BASE_DISKSPACE_H
#define SL_BASE_DISKSPACE_H

#include <stdint.h>

/* Bytes of the file system that holds `folder`: available to this user, and in total. Both are 0 if `folder` is ""
 * or the query fails. */
struct sl_diskspace {
	int64_t free, all;
};
struct sl_diskspace sl_diskspace_of(const char *folder);

#endif
