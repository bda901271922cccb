#include "common/base/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/guard.h"

bool sl_folder_of(const char *path, char folder[PATH_MAX])
{
	const char *slash = strrchr(path, '/');

	return snprintf(folder, PATH_MAX, "%.*s", slash > path ? (int)(slash - path) : 1, slash ? path : ".") <
	       PATH_MAX;
}

int sl_folder_sync_of(const char *path)
{
	char folder[PATH_MAX];
	int fd, status, why;

	if (!sl_folder_of(path, folder)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	status = fsync(fd);
	why = errno;
	if (status != 0 && why == EINVAL) /* this file system cannot sync folders */
		status = 0;
	close(fd);
	errno = why;
	return status;
}

/* Makes one folder. If it exists, whoever made it may have been killed before the sync: so its name is synced
 * again. That sync may fail, as the folder above may be one that this process must not open. */
static bool make_one(const char *path, mode_t mode)
{
	if (mkdir(path, mode) == 0)
		return sl_folder_sync_of(path) == 0;
	if (errno != EEXIST)
		return false;
	if (!sl_folder_is(path)) {
		errno = ENOTDIR;
		return false;
	}
	(void)!sl_folder_sync_of(path);
	return true;
}

enum sl_err sl_folder_make(const char *dir, mode_t mode, struct sl_fail *fail)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof path, "%s", dir) >= (int)sizeof path)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "%.96s…: too long a path", dir);
	for (char *end = path[0] ? path : NULL; end;) {
		end = strchr(end + 1, '/');
		if (end)
			*end = '\0';
		if (!make_one(path, mode))
			return sl_fail_set(fail, sl_guard_make_err(errno), "%s: %s", path, strerror(errno));
		if (end)
			*end = '/';
	}
	return SL_OK;
}

bool sl_folder_is(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

mode_t sl_folder_entry_kind(const char *path, const struct dirent *entry)
{
	char whole[PATH_MAX];
	struct stat st;

	if (entry->d_type == DT_DIR)
		return S_IFDIR;
	if (entry->d_type == DT_REG)
		return S_IFREG;
	if (snprintf(whole, sizeof whole, "%s/%s", path, entry->d_name) >= PATH_MAX || stat(whole, &st))
		return 0;
	return st.st_mode & S_IFMT;
}

bool sl_folder_is_file(const char *path)
{
	return access(path, F_OK) == 0 && !sl_folder_is(path);
}

/* A folder that does not exist is judged by the nearest existing one above it. */
enum sl_err sl_folder_try(const char *dir, struct sl_fail *fail)
{
	struct stat there;
	char path[PATH_MAX], *slash;

	if (snprintf(path, sizeof path, "%s", dir) >= (int)sizeof path)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "%.96s…: too long a path", dir);
	while (stat(path, &there) != 0 && errno == ENOENT && strcmp(path, "/") != 0 && strcmp(path, ".") != 0) {
		slash = strrchr(path, '/');
		if (!slash)
			strcpy(path, ".");
		else
			slash[slash == path] = '\0';
	}
	return access(path, W_OK | X_OK) == 0 ? SL_OK
					      : sl_fail_set(fail, SL_ERR_CANTCREATE, "%s: %s", path, strerror(errno));
}

/* ---- folders that are held */

static struct held {
	struct held *next;
	dev_t dev;
	ino_t ino;
	char dir[PATH_MAX];
} * held;
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;

static struct held *find_held(const char *dir)
{
	struct held *h = held;

	while (h && strcmp(h->dir, dir) != 0)
		h = h->next;
	return h;
}

void sl_folder_hold(const char *dir)
{
	struct stat st;
	struct held *h;

	if (stat(dir, &st) != 0 || strlen(dir) >= PATH_MAX)
		return;
	pthread_mutex_lock(&held_lock);
	h = find_held(dir);
	if (!h && (h = calloc(1, sizeof *h))) {
		strcpy(h->dir, dir);
		h->next = held;
		held = h;
	}
	if (h) {
		h->dev = st.st_dev;
		h->ino = st.st_ino;
	}
	pthread_mutex_unlock(&held_lock);
}

enum sl_err sl_folder_check(const char *path, struct sl_fail *fail)
{
	char dir[PATH_MAX];
	const struct held *h;
	struct stat st;
	bool stays;

	if (!sl_folder_of(path, dir))
		return SL_OK; /* too long to be held */
	pthread_mutex_lock(&held_lock);
	h = find_held(dir);
	stays = !h || (stat(dir, &st) == 0 && st.st_dev == h->dev && st.st_ino == h->ino);
	pthread_mutex_unlock(&held_lock);
	return stays ? SL_OK
		     : sl_fail_set(fail, SL_ERR_CANTCREATE,
				   "%s is not the folder any more in which this process writes: that one was moved, or "
				   "another has its name. Give it its name back (a run goes on with --resume)",
				   dir);
}
