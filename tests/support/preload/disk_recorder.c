/* LD_PRELOAD: logs to SPLIT_DISK_LOG (disk_log.h) every call by which a process changes something below
 * SPLIT_DISK_ROOT, with its data. Several processes may write to one log. A lock is held over call and record, so
 * that a write by another thread during an fsync is not taken for synced. Calls that are not intercepted (stdio,
 * mmap, links) do not go unnoticed: the replayed log is compared with the real folders. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/support/disk_log.h"

enum { FDS = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool tracked[FDS];
static char root[PATH_MAX];
static int log_fd = -1;

__attribute__((constructor)) static void begin(void)
{
	const char *dir = getenv("SPLIT_DISK_ROOT"), *path = getenv("SPLIT_DISK_LOG");

	if (!dir || !path || strlen(dir) + 1 >= sizeof root)
		return;
	snprintf(root, sizeof root, "%s/", dir);
	log_fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* Returns the part of a path below the root; NULL if the path lies elsewhere. */
static const char *inside(int dir_fd, const char *path, char room[PATH_MAX])
{
	char link[64];
	ssize_t n;

	if (log_fd < 0)
		return NULL;
	if (path[0] != '/') {
		snprintf(link, sizeof link, dir_fd == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", dir_fd);
		n = readlink(link, room, PATH_MAX);
		if (n < 0 || snprintf(room + n, PATH_MAX - (size_t)n, "/%s", path) >= PATH_MAX - n)
			return NULL;
		path = room;
	}
	return strncmp(path, root, strlen(root)) == 0 ? path + strlen(root) : NULL;
}

static void note(enum disk_op op, int fd, int64_t at, const char *path, const char *path2, const struct iovec *data,
		 int n_data)
{
	struct disk_head head = {DISK_MAGIC, (uint32_t)op, getpid(), fd, at, 0, 0, 0};
	struct iovec io[3 + 16];
	int n = 3;
	size_t len;

	head.path_len = path ? (uint32_t)strlen(path) : 0;
	head.path2_len = path2 ? (uint32_t)strlen(path2) : 0;
	for (int i = 0; i < n_data && n < (int)(sizeof io / sizeof *io); i++) {
		io[n++] = data[i];
		head.data_len += data[i].iov_len;
	}
	io[0] = (struct iovec){&head, sizeof head};
	io[1] = (struct iovec){(void *)(uintptr_t)path, head.path_len};
	io[2] = (struct iovec){(void *)(uintptr_t)path2, head.path2_len};
	len = sizeof head + head.path_len + head.path2_len + head.data_len;
	if (syscall(SYS_writev, log_fd, io, n) != (ssize_t)len)
		abort(); /* half a record would make the log useless */
}

static bool is_tracked(int fd)
{
	return fd >= 0 && fd < FDS && tracked[fd];
}

static int open_at(int dir_fd, const char *path, int flags, mode_t mode)
{
	char room[PATH_MAX];
	const char *in;
	int fd;

	pthread_mutex_lock(&lock);
	in = inside(dir_fd, path, room);
	fd = (int)syscall(SYS_openat, dir_fd, path, flags, mode);
	if (fd >= 0 && fd < FDS)
		tracked[fd] = in != NULL;
	if (fd >= 0 && in)
		note(DISK_OPEN, fd, flags, in, NULL, NULL, 0);
	pthread_mutex_unlock(&lock);
	return fd;
}

static mode_t mode_of(int flags, va_list ap)
{
	return flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;
}

/* Records a call that succeeded, if its path lies below the root. Returns the call's status. */
static int done(int status, enum disk_op op, const char *in, const char *in2)
{
	if (status == 0 && in)
		note(op, -1, 0, in, in2, NULL, 0);
	return status;
}

static ssize_t wrote(int fd, const struct iovec *io, int n, ssize_t put)
{
	struct iovec part[16];
	size_t left = put > 0 ? (size_t)put : 0;
	int used = 0;

	if (!left || !is_tracked(fd))
		return put;
	for (; used < n && used < 16 && left > 0; used++) {
		part[used] = io[used];
		if (part[used].iov_len > left)
			part[used].iov_len = left;
		left -= part[used].iov_len;
	}
	note(DISK_WRITE, fd, lseek(fd, 0, SEEK_CUR) - put, NULL, NULL, part, used);
	return put;
}

/* ---- replacements of libc's functions */

int open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int dir_fd, const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	return open_at(dir_fd, path, flags, mode);
}

int __open_2(const char *path, int flags)
{
	return open_at(AT_FDCWD, path, flags, 0);
}

int __openat_2(int dir_fd, const char *path, int flags)
{
	return open_at(dir_fd, path, flags, 0);
}

int creat(const char *path, mode_t mode)
{
	return open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

ssize_t write(int fd, const void *from, size_t len)
{
	struct iovec io = {(void *)(uintptr_t)from, len};
	ssize_t put;

	if (!is_tracked(fd))
		return syscall(SYS_write, fd, from, len);
	pthread_mutex_lock(&lock);
	put = wrote(fd, &io, 1, syscall(SYS_write, fd, from, len));
	pthread_mutex_unlock(&lock);
	return put;
}

ssize_t writev(int fd, const struct iovec *io, int n)
{
	ssize_t put;

	if (!is_tracked(fd))
		return syscall(SYS_writev, fd, io, n);
	pthread_mutex_lock(&lock);
	put = wrote(fd, io, n, syscall(SYS_writev, fd, io, n));
	pthread_mutex_unlock(&lock);
	return put;
}

ssize_t pwrite(int fd, const void *from, size_t len, off_t at)
{
	struct iovec io = {(void *)(uintptr_t)from, len};
	ssize_t put;

	pthread_mutex_lock(&lock);
	put = syscall(SYS_pwrite64, fd, from, len, at);
	io.iov_len = put > 0 ? (size_t)put : 0;
	if (put > 0 && is_tracked(fd))
		note(DISK_WRITE, fd, at, NULL, NULL, &io, 1);
	pthread_mutex_unlock(&lock);
	return put;
}

int ftruncate(int fd, off_t len)
{
	int status;

	pthread_mutex_lock(&lock);
	status = (int)syscall(SYS_ftruncate, fd, len);
	if (status == 0 && is_tracked(fd))
		note(DISK_TRUNCATE, fd, len, NULL, NULL, NULL, 0);
	pthread_mutex_unlock(&lock);
	return status;
}

static int sync_fd(int fd, long call, enum disk_op op)
{
	int status;

	pthread_mutex_lock(&lock);
	status = (int)syscall(call, fd);
	if (status == 0 && is_tracked(fd))
		note(op, fd, 0, NULL, NULL, NULL, 0);
	pthread_mutex_unlock(&lock);
	return status;
}

int fsync(int fd)
{
	return sync_fd(fd, SYS_fsync, DISK_SYNC);
}

int fdatasync(int fd)
{
	return sync_fd(fd, SYS_fdatasync, DISK_DATASYNC);
}

int close(int fd)
{
	int status;

	if (!is_tracked(fd))
		return (int)syscall(SYS_close, fd);
	pthread_mutex_lock(&lock);
	tracked[fd] = false;
	note(DISK_CLOSE, fd, 0, NULL, NULL, NULL, 0); /* before another thread can reuse the number */
	status = (int)syscall(SYS_close, fd);
	pthread_mutex_unlock(&lock);
	return status;
}

int rename(const char *old, const char *path)
{
	char room[PATH_MAX], room2[PATH_MAX];
	int status;

	pthread_mutex_lock(&lock);
	status = (int)syscall(SYS_renameat2, AT_FDCWD, old, AT_FDCWD, path, 0);
	status = done(status, DISK_RENAME, inside(AT_FDCWD, old, room), inside(AT_FDCWD, path, room2));
	pthread_mutex_unlock(&lock);
	return status;
}

int unlinkat(int dir_fd, const char *path, int flags)
{
	char room[PATH_MAX];
	int status;

	pthread_mutex_lock(&lock);
	status = (int)syscall(SYS_unlinkat, dir_fd, path, flags);
	status = done(status, DISK_UNLINK, inside(dir_fd, path, room), NULL);
	pthread_mutex_unlock(&lock);
	return status;
}

int unlink(const char *path)
{
	return unlinkat(AT_FDCWD, path, 0);
}

int mkdir(const char *path, mode_t mode)
{
	char room[PATH_MAX];
	int status;

	pthread_mutex_lock(&lock);
	status = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
	status = done(status, DISK_MKDIR, inside(AT_FDCWD, path, room), NULL);
	pthread_mutex_unlock(&lock);
	return status;
}

/* ---- aliases under libc's other names */

#define ALSO(name, of, ...) name(__VA_ARGS__) __attribute__((alias(#of)))

int ALSO(open64, open, const char *path, int flags, ...);
int ALSO(openat64, openat, int dir_fd, const char *path, int flags, ...);
ssize_t ALSO(pwrite64, pwrite, int fd, const void *from, size_t len, off_t at);
int ALSO(ftruncate64, ftruncate, int fd, off_t len);
