#include "server/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/log.h"
#include "common/nn/weights.h"

enum sl_err sl_store_check(const char *dir, struct sl_fail *fail)
{
	char path[PATH_MAX];
	struct stat st;

	if (!dir[0])
		return SL_OK;
	if (snprintf(path, sizeof path, "%s", dir) >= PATH_MAX)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "store: the path is too long");
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0700) != 0 && errno != EEXIST)
			break; /* the last mkdir says why */
		*slash = '/';
	}
	if (mkdir(dir, 0700) != 0 && errno != EEXIST)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "store '%s': %s", dir, strerror(errno));
	if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode) || access(dir, W_OK | X_OK) != 0)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "store '%s' must be a folder that this user can write to",
				   dir);
	return SL_OK;
}

static bool path_of(const char *dir, const uint8_t hash[16], const char *suffix, char out[PATH_MAX])
{
	char hex[SL_HEX16_TEXT];

	sl_hex16(hash, hex);
	return snprintf(out, PATH_MAX, "%s/%s.f32%s", dir, hex, suffix) < PATH_MAX;
}

static bool read_all(int fd, uint8_t *to, size_t len)
{
	while (len > 0) {
		ssize_t n = read(fd, to, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		to += n;
		len -= (size_t)n;
	}
	return true;
}

static bool write_all(int fd, const uint8_t *from, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, from, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		from += n;
		len -= (size_t)n;
	}
	return true;
}

bool sl_store_get(const char *dir, const uint8_t hash[16], float *range, int64_t count)
{
	size_t len = (size_t)count * sizeof *range;
	char path[PATH_MAX];
	uint8_t found[16];
	struct stat st;
	bool whole;
	int fd;

	if (!dir[0] || !path_of(dir, hash, "", path))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	whole = fstat(fd, &st) == 0 && (size_t)st.st_size == len && read_all(fd, (uint8_t *)range, len);
	close(fd);
	if (whole)
		sl_weights_hash(range, count, found);
	if (whole && memcmp(found, hash, sizeof found) == 0)
		return true;
	sl_log(SL_LOG_WARN, "store-damaged", "%s is not the weights it is named after; it will be replaced", path);
	return false;
}

static bool sync_dir(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool synced = fd >= 0 && fsync(fd) == 0;

	if (fd >= 0)
		close(fd);
	return synced;
}

void sl_store_put(const char *dir, const uint8_t hash[16], const float *range, int64_t count)
{
	char path[PATH_MAX], tmp[PATH_MAX];
	bool written;
	int fd;

	if (!dir[0] || !path_of(dir, hash, "", path) || !path_of(dir, hash, ".tmp", tmp))
		return;
	fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	written = fd >= 0 && write_all(fd, (const uint8_t *)range, (size_t)count * sizeof *range) && fsync(fd) == 0;
	if (fd >= 0 && close(fd) != 0)
		written = false;
	if (written && rename(tmp, path) == 0 && sync_dir(dir))
		return;
	sl_log(SL_LOG_WARN, "store-write", "%s: %s: the weights are not kept", path, strerror(errno));
	unlink(tmp);
}
