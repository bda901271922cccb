#include "common/base/program.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

bool sl_beside_program(const char *name, char out[PATH_MAX])
{
	char exe[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (len <= 0)
		return false;
	exe[len] = '\0';
	slash = strrchr(exe, '/');
	if (!slash)
		return false;
	*slash = '\0';
	if (snprintf(out, PATH_MAX, "%s/%s", exe, name) >= PATH_MAX)
		return false;
	return access(out, R_OK) == 0;
}

static _Atomic bool hangs;

void sl_program_hangs(void)
{
	hangs = true;
}

int sl_program_end(int status)
{
	struct rlimit space;

	/* In little space OpenBLAS's own threads look for more for ever, and its exit handler waits for them. */
	if (hangs || (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY))
		_exit(status); /* stdout was flushed, and stderr has no buffer */
	return status;
}
