#include "client/persist/run_secret.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/folder.h"
#include "common/base/newfile.h"

enum { DIGITS = 2 * SL_SECRET_BYTES };
static const char advice[] = "--fresh begins anew; a member of a group takes an empty log.dir";

static bool path_of(const char *dir, char out[PATH_MAX])
{
	return dir[0] && snprintf(out, PATH_MAX, "%s/session-key", dir) < PATH_MAX;
}

static enum sl_err write_down(const char *path, const struct sl_secret *secret, struct sl_fail *fail)
{
	char text[DIGITS + 2];
	enum sl_err err;

	for (int i = 0; i < SL_SECRET_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", secret->seed[i]);
	text[DIGITS] = '\n';
	err = sl_newfile_put(path, 0600, SL_FP_NONE, text, DIGITS + 1, fail);
	explicit_bzero(text, sizeof text);
	return err;
}

enum sl_err sl_run_secret_keep(const char *dir, const struct sl_secret *secret, struct sl_fail *fail)
{
	char path[PATH_MAX];

	return path_of(dir, path) ? write_down(path, secret, fail) : SL_OK;
}

static bool parse(const char text[DIGITS + 1], size_t len, struct sl_secret *out)
{
	uint8_t seed[SL_SECRET_BYTES];
	bool good = len == DIGITS + 1 && text[DIGITS] == '\n';

	for (int i = 0; i < SL_SECRET_BYTES && good; i++) {
		static const char digits[] = "0123456789abcdef";
		const char *high = memchr(digits, text[2 * i], 16), *low = memchr(digits, text[2 * i + 1], 16);

		good = high && low;
		if (good)
			seed[i] = (uint8_t)((high - digits) << 4 | (low - digits));
	}
	if (good)
		sl_secret_from(out, seed);
	explicit_bzero(seed, sizeof seed);
	return good;
}

enum sl_err sl_run_secret_read(const char *dir, struct sl_secret *out, struct sl_fail *fail)
{
	char path[PATH_MAX], text[DIGITS + 2];
	enum sl_err err = SL_OK;
	struct stat st;
	ssize_t n;
	int fd = path_of(dir, path) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;

	if (fd < 0)
		return sl_fail_set(fail, SL_ERR_NOINPUT,
				   "'%.200s/session-key' (%s): the server does not recognise this client without it; "
				   "%s",
				   dir, strerror(errno), advice);
	n = read(fd, text, sizeof text);
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || n < 0 || !parse(text, (size_t)n, out))
		err = sl_fail_set(fail, SL_ERR_DATA, "'%.200s' is not the secret of a session; %s", path, advice);
	else if (st.st_mode & 077) {
		explicit_bzero(out, sizeof *out);
		err = sl_fail_set(
			fail, SL_ERR_CONFIG,
			"other users may read '%.200s' and take over this run: if nobody has, chmod 600 the file",
			path);
	}
	explicit_bzero(text, sizeof text);
	close(fd);
	return err;
}

enum sl_err sl_run_secret_find(const char *dir, struct sl_secret *out, struct sl_fail *fail)
{
	return sl_run_secret_read(dir, out, fail) ? sl_secret_make(out, fail) : SL_OK;
}

void sl_run_secret_remove(const char *dir)
{
	char path[PATH_MAX];
	struct sl_fail fail;

	if (path_of(dir, path) && sl_folder_check(path, &fail) == SL_OK)
		unlink(path);
}
