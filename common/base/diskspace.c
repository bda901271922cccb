#include "common/base/diskspace.h"

#include <sys/statvfs.h>

struct sl_diskspace sl_diskspace_of(const char *folder)
{
	struct statvfs fs;

	if (!folder[0] || statvfs(folder, &fs) != 0)
		return (struct sl_diskspace){0, 0};
	return (struct sl_diskspace){(int64_t)(fs.f_bavail * fs.f_frsize), (int64_t)(fs.f_blocks * fs.f_frsize)};
}
