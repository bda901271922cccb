/* Folders whose names survive a power cut: a name is on the disk once the folder that it lies in has been synced. Any
 * thread. */
#ifndef SL_BASE_FOLDER_H
#define SL_BASE_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/base/err.h"

/* The folder that `path` lies in; "." where it names none. False: it is too long. */
bool sl_folder_of(const char *path, char folder[PATH_MAX]) SL_MUST_CHECK;
/* Syncs the folder that `path` lies in: the names in it, that of `path` among them. 0, also where the file system has
 * no syncs of folders, or -1 with errno. */
int sl_folder_sync_of(const char *path) SL_MUST_CHECK;
/* Makes `dir` and the folders above it where they are not there, and brings their names to the disk. CANTCREATE, and
 * what was made stays. */
enum sl_err sl_folder_make(const char *dir, mode_t mode, struct sl_fail *fail) SL_MUST_CHECK;
/* Whether it is there and a folder; whether it is there and none. */
bool sl_folder_is(const char *path);
bool sl_folder_is_file(const char *path);
/* Whether `dir` is a folder in which names may be made, or could be made one. Nothing is written. CANTCREATE. */
enum sl_err sl_folder_try(const char *dir, struct sl_fail *fail) SL_MUST_CHECK;

#endif
