/* Guards against other users of this machine: against files and folders that they own or may write to, and against
 * links that they placed. Root and the user of this process are trusted. Any thread. */
#ifndef SL_BASE_GUARD_H
#define SL_BASE_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "common/base/err.h"

/* Owned by neither this process' user nor root. */
bool sl_guard_is_foreign(uid_t uid);
/* Checks a folder whose content this process trusts. CONFIG if another user owns it or every user may write to it;
 * IO. */
enum sl_err sl_guard_folder(const char *dir, struct sl_fail *fail) SL_MUST_CHECK;
/* The path of a folder of this user alone: /run/split-UID where the user may make it, else /tmp/split-UID. Nothing is
 * made. */
void sl_guard_own_folder(char *out, size_t cap);
/* Checks such a folder, and makes it with mode 0700 if it is missing and `make`. `code`: it belongs to another user,
 * others may enter it, or it is no folder. */
enum sl_err sl_guard_own(const char *dir, bool make, enum sl_err code, struct sl_fail *fail) SL_MUST_CHECK;
/* Checks a file that this process opened for writing with O_NOFOLLOW. CANTCREATE if it has a second hard link:
 * writing to it would change a file elsewhere. Pipes and devices are fine. */
enum sl_err sl_guard_written(int fd, const char *path, struct sl_fail *fail) SL_MUST_CHECK;
/* The error code of a file or folder that could not be made, by errno. IO: the disk has no room or no inode left, which
 * may pass. Otherwise CANTCREATE. */
enum sl_err sl_guard_make_err(int error);
/* Describes errno after a failed open with O_NOFOLLOW, whoever made that call. Returns CANTCREATE or IO, as above. */
enum sl_err sl_guard_open_failed(const char *path, struct sl_fail *fail);

#endif
