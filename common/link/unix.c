#include "common/link/unix.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/folder.h"
#include "common/base/guard.h"

enum sl_err sl_unix_address(struct sockaddr_un *out, const char *what, const char *path, bool make,
			    struct sl_fail *fail)
{
	char folder[PATH_MAX], own[40];

	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (!*path || strlen(path) >= sizeof out->sun_path)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s \"%s\": a path of 1 to %zu bytes is needed", what, path,
				   sizeof out->sun_path - 1);
	strcpy(out->sun_path, path);
	sl_guard_own_folder(own, sizeof own);
	if (!sl_folder_of(path, folder) || strcmp(folder, own) != 0)
		return SL_OK;
	return sl_guard_own(own, make, make ? SL_ERR_CANTCREATE : SL_ERR_AUTH, fail);
}

/* Removes a socket file at which nobody answers: a killed process has left it. */
static enum sl_err clear_path(const struct sockaddr_un *address, const char *what, struct sl_fail *fail)
{
	const char *path = address->sun_path;
	struct stat st;
	int fd, rc;

	if (lstat(path, &st) < 0)
		return SL_OK; /* bind will report what is wrong, if anything is */
	if (!S_ISSOCK(st.st_mode))
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "%s %s: there is a file that is not a socket", what, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return sl_fail_set(fail, SL_ERR_OS, "%s: %s", what, strerror(errno));
	rc = connect(fd, (const struct sockaddr *)address, sizeof *address) < 0 ? errno : 0;
	close(fd);
	if (rc == 0 || rc == EAGAIN) /* EAGAIN: its backlog is full */
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "%s %s: another process answers there", what, path);
	if (rc == ECONNREFUSED && unlink(path) == 0)
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_CANTCREATE, "%s %s: cannot be replaced: %s", what, path,
			   strerror(rc == ECONNREFUSED ? errno : rc));
}

/* On Linux bind uses the mode of the socket, so the file has that mode from the beginning. */
enum sl_err sl_unix_bind(int *out, struct sl_unix *s, const char *what, const char *path, mode_t mode,
			 struct sl_fail *fail)
{
	enum sl_err err = sl_unix_address(&s->address, what, path, true, fail);
	struct stat st;
	int fd;

	if (!err)
		err = clear_path(&s->address, what, fail);
	if (err)
		return err;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return sl_fail_set(fail, SL_ERR_OS, "%s: %s", what, strerror(errno));
	if (fchmod(fd, mode) < 0 || bind(fd, (struct sockaddr *)&s->address, sizeof s->address) < 0 ||
	    stat(s->address.sun_path, &st) < 0) {
		err = sl_fail_set(fail, SL_ERR_CANTCREATE, "%s %s: %s", what, s->address.sun_path, strerror(errno));
		close(fd);
		return err;
	}
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	*out = fd;
	return SL_OK;
}

void sl_unix_remove(const struct sl_unix *s)
{
	struct stat st;

	if (stat(s->address.sun_path, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino)
		unlink(s->address.sun_path);
}
