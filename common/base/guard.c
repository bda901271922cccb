#include "common/base/guard.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool sl_guard_is_foreign(uid_t uid)
{
	return uid != geteuid() && uid != 0;
}

enum sl_err sl_guard_folder(const char *dir, struct sl_fail *fail)
{
	struct stat st;

	if (stat(dir, &st) != 0)
		return sl_fail_set(fail, SL_ERR_IO, "%s: %s", dir, strerror(errno));
	if (sl_guard_is_foreign(st.st_uid))
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "folder '%s' belongs to another user (uid %u), who can replace what is in it: chown "
				   "it to uid %u, or name another folder",
				   dir, (unsigned)st.st_uid, (unsigned)geteuid());
	if (st.st_mode & S_IWOTH)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "every user may write to the folder '%s' (mode %04o): chmod o-w it, or name another "
				   "folder",
				   dir, (unsigned)st.st_mode & 07777);
	return SL_OK;
}

void sl_guard_own_folder(char *out, size_t cap)
{
	snprintf(out, cap, "%s/split-%u", access("/run", W_OK) == 0 ? "/run" : "/tmp", (unsigned)geteuid());
}

enum sl_err sl_guard_own(const char *dir, bool make, enum sl_err code, struct sl_fail *fail)
{
	struct stat st;

	if (make && mkdir(dir, S_IRWXU) != 0 && errno != EEXIST)
		return sl_fail_set(fail, code, "%s: %s", dir, strerror(errno));
	if (lstat(dir, &st) != 0)
		return make ? sl_fail_set(fail, code, "%s: %s", dir, strerror(errno)) : SL_OK;
	if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & (S_IRWXG | S_IRWXO)))
		return SL_OK;
	return sl_fail_set(
		fail, code,
		"'%s' is not a folder of mode 0700 that belongs to uid %u, so others could answer there: remove "
		"it, set $XDG_RUNTIME_DIR, or name another socket with `control`",
		dir, (unsigned)geteuid());
}

enum sl_err sl_guard_written(int fd, const char *path, struct sl_fail *fail)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "%s: %s", path, strerror(errno));
	if (S_ISREG(st.st_mode) && st.st_nlink > 1)
		return sl_fail_set(fail, SL_ERR_CANTCREATE,
				   "%s is a hard link: another file would be overwritten; remove the link", path);
	return SL_OK;
}

enum sl_err sl_guard_make_err(int error)
{
	return error == ENOSPC || error == EDQUOT ? SL_ERR_IO : SL_ERR_CANTCREATE;
}

enum sl_err sl_guard_open_failed(const char *path, struct sl_fail *fail)
{
	if (errno == ELOOP)
		return sl_fail_set(fail, SL_ERR_CANTCREATE,
				   "%s is a symbolic link, which is not followed: remove it, or name another folder",
				   path);
	return sl_fail_set(fail, sl_guard_make_err(errno), "%s: %s", path, strerror(errno));
}
