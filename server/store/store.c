#include "server/store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/folder.h"
#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/newfile.h"
#include "common/base/pieces.h"
#include "common/base/text.h"
#include "common/base/worker.h"
#include "common/weights/weights.h"

bool sl_store_owns(const char *name)
{
	size_t hex = strspn(name, "0123456789abcdef"), owner;
	bool session = strncmp(name, "session-", strlen("session-")) == 0;

	if (hex == 32) {
		owner = name[hex] == '.' ? strspn(name + hex + 1, "0123456789abcdef-") : 0;
		name += owner == SL_FINGERPRINT - 1 ? hex + 1 + owner : hex;
		return strcmp(name, ".f32") == 0 || strcmp(name, ".f32.tmp") == 0;
	}
	return session && (sl_ends_with(name, ".safetensors") || sl_ends_with(name, ".safetensors.tmp"));
}

/* Removes the .tmp files of a server that was killed. */
static void remove_tmp(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *entry;

	while (d && (entry = readdir(d)))
		if (sl_ends_with(entry->d_name, ".tmp") && sl_store_owns(entry->d_name))
			unlinkat(dirfd(d), entry->d_name, 0);
	if (d)
		closedir(d);
}

enum sl_err sl_store_open(const char *dir, int *lock, struct sl_fail *fail)
{
	char path[PATH_MAX];
	struct sl_fail why;
	struct stat st;

	*lock = -1;
	if (!dir[0])
		return SL_OK;
	if (sl_folder_make(dir, 0700, &why) != SL_OK)
		return sl_fail_set(fail, why.code, "store: %s", why.text);
	if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode) || access(dir, W_OK | X_OK) != 0)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "store '%s' must be a folder that this user can write to",
				   dir);
	if (sl_guard_folder(dir, &why) != SL_OK)
		return sl_fail_set(fail, SL_ERR_CONFIG, "store: %s", why.text);
	/* The lock is on a file, since NFS cannot lock folders. Without any locks the store is used all the same. */
	errno = ENAMETOOLONG;
	if (snprintf(path, sizeof path, "%s/lock", dir) < PATH_MAX)
		*lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (*lock < 0)
		return sl_fail_set(fail, sl_guard_make_err(errno), "store: %s/lock cannot be opened: %s", dir,
				   strerror(errno));
	if (flock(*lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
		sl_store_close(*lock);
		*lock = -1;
		return sl_fail_set(fail, SL_ERR_BUSY,
				   "another running server uses the store '%s': give this server a store of its own",
				   dir);
	}
	sl_folder_hold(dir);
	remove_tmp(dir);
	return SL_OK;
}

void sl_store_close(int lock)
{
	if (lock >= 0)
		close(lock);
}

static bool path_of(const char *dir, const struct sl_key *owner, const uint8_t hash[16], char out[PATH_MAX])
{
	char hex[SL_HEX16_TEXT], print[SL_FINGERPRINT] = "";

	if (owner)
		sl_key_fingerprint(owner, print);
	return snprintf(out, PATH_MAX, "%s/%s%s%s.f32", dir, sl_hex16(hash, hex), owner ? "." : "", print) < PATH_MAX;
}

static bool read_all(int fd, uint8_t *to, size_t len)
{
	while (len > 0) {
		ssize_t n = read(fd, to, sl_piece(len));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		to += n;
		len -= (size_t)n;
		sl_worker_turn();
	}
	return true;
}

bool sl_store_get(const char *dir, const struct sl_key *owner, const uint8_t hash[16], float *range, int64_t count)
{
	size_t len = (size_t)count * sizeof *range;
	char path[PATH_MAX];
	uint8_t found[16];
	struct sl_fail why;
	struct stat st;
	bool whole;
	int fd;

	if (!dir[0] || !path_of(dir, owner, hash, path) || sl_folder_check(path, &why) != SL_OK)
		return false;
	fd = SL_FAILPOINT_CALL(SL_FP_STORE_READ, open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
	if (fd < 0)
		return false;
	(void)!futimens(fd, NULL); /* marks it as used, since retention.c goes by the time of the last use */
	whole = fstat(fd, &st) == 0 && (size_t)st.st_size == len && read_all(fd, (uint8_t *)range, len);
	close(fd);
	if (whole)
		sl_weights_hash(range, count, found);
	if (whole && memcmp(found, hash, sizeof found) == 0)
		return true;
	sl_log_limited(SL_LOG_WARN, "store-damaged",
		       "%s does not hold the weights that its name says; it will be replaced", path);
	return false;
}

void sl_store_put(const char *dir, struct sl_retention *retention, const struct sl_key *owner, const uint8_t hash[16],
		  const float *range, int64_t count)
{
	const int64_t bytes = count * (int64_t)sizeof *range;
	struct sl_retention_write write;
	struct sl_fail fail;
	char path[PATH_MAX];
	enum sl_err err;

	if (!dir[0] || !path_of(dir, owner, hash, path))
		return;
	err = retention ? sl_retention_begin(retention, &write, strrchr(path, '/') + 1, owner, "session-", bytes, &fail)
			: SL_OK;
	if (err == SL_ERR_BUSY) /* another session is writing the same weights */
		return;
	if (!err)
		err = sl_newfile_put(path, 0600, SL_FP_STORE_OPEN, range, (size_t)bytes, &fail);
	if (retention)
		sl_retention_end(retention, &write);
	if (err)
		sl_log_limited(SL_LOG_WARN, "store-write", "%s: the weights are not kept", fail.text);
}
