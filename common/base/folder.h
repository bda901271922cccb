/* Folders. A new name survives a power cut once the folder that contains it has been synced. Any thread. */
#ifndef SL_BASE_FOLDER_H
#define SL_BASE_FOLDER_H

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/base/err.h"

/* Writes the folder that contains `path`, "." if `path` has no slash. False if it is too long. */
bool sl_folder_of(const char *path, char folder[PATH_MAX]) SL_MUST_CHECK;
/* Syncs the folder that contains `path`, and with it the name `path`. Returns 0, also if the file system cannot
 * sync folders; or -1 with errno. */
int sl_folder_sync_of(const char *path) SL_MUST_CHECK;
/* Makes `dir` and the missing folders above it, and syncs their names to the disk. CANTCREATE or IO
 * (sl_guard_make_err); folders that were made by then stay. */
enum sl_err sl_folder_make(const char *dir, mode_t mode, struct sl_fail *fail) SL_MUST_CHECK;
/* A folder that a process writes in for long may be moved, and its name be given to another one. _hold notes the folder
 * that has this name now. _check fails with CANTCREATE if the folder of `path` was held, and the name is another's, or
 * nobody's; it is OK for all others. Names are compared as they are written. */
void sl_folder_hold(const char *dir);
enum sl_err sl_folder_check(const char *path, struct sl_fail *fail) SL_MUST_CHECK;
/* Whether `path` exists and is a folder; whether it exists and is something else. */
bool sl_folder_is(const char *path);
bool sl_folder_is_file(const char *path);
/* The type of an entry of the folder `path`, such as S_IFREG, links followed; 0: it is gone, or its path is too long.
 */
mode_t sl_folder_entry_kind(const char *path, const struct dirent *entry);
/* OK if this process may make names in `dir`, or could make `dir` itself. Nothing is written. CANTCREATE. */
enum sl_err sl_folder_try(const char *dir, struct sl_fail *fail) SL_MUST_CHECK;

#endif
