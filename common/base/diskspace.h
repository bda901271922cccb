/* How much room a file system has. Any thread; blocks where the disk does. */
#ifndef SL_BASE_DISKSPACE_H
#define SL_BASE_DISKSPACE_H

#include <stdint.h>

/* In bytes, of the file system that `folder` lies in: free for this user, and in all. Both 0 where it is "" or cannot
 * be asked. */
struct sl_diskspace {
	int64_t free, all;
};
struct sl_diskspace sl_diskspace_of(const char *folder);

#endif
