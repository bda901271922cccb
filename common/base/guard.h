/* What other users of this machine could have put in our way: files and folders that they own or may write to, and
 * links that they laid. Root and the user of this process are no others. Any thread. */
#ifndef SL_BASE_GUARD_H
#define SL_BASE_GUARD_H

#include <stdbool.h>
#include <sys/stat.h>

#include "common/base/err.h"

/* Owned by neither this process' user nor root. */
bool sl_guard_is_foreign(const struct stat *st);
/* A folder whose content this process believes. CONFIG: another user owns it, or everybody may write to it; IO. */
enum sl_err sl_guard_folder(const char *dir, struct sl_fail *fail) SL_MUST_CHECK;
/* A file that this process opened with O_NOFOLLOW to write to: CANTCREATE where it has a second name, which could lie
 * anywhere. Pipes and devices are fine. */
enum sl_err sl_guard_written(int fd, const char *path, struct sl_fail *fail) SL_MUST_CHECK;
/* The sentence for errno behind an open with O_NOFOLLOW, of whichever call; CANTCREATE. */
enum sl_err sl_guard_open_failed(const char *path, struct sl_fail *fail);

#endif
