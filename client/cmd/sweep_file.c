#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "client/cmd/sweep.h"
#include "common/base/folder.h"

FILE *sl_sweep_create(const char *dir, const char *name, struct sl_fail *fail)
{
	char path[PATH_MAX];
	FILE *file;

	if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path) {
		(void)!sl_fail_set(fail, SL_ERR_CANTCREATE, "the path of --out is too long");
		return NULL;
	}
	if (sl_folder_check(path, fail) != SL_OK)
		return NULL;
	(void)!unlink(path); /* an earlier sweep's, or a link */
	file = fopen(path, "wx");
	if (!file)
		(void)!sl_fail_set(fail, SL_ERR_CANTCREATE, "%s: %s", path, strerror(errno));
	return file;
}

enum sl_err sl_sweep_close(FILE *file, const char *dir, const char *name, struct sl_fail *fail)
{
	const bool bad = ferror(file) != 0;

	return fclose(file) != 0 || bad ? sl_fail_set(fail, SL_ERR_IO, "%s/%s: cannot be written", dir, name) : SL_OK;
}
