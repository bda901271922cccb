#include "common/telemetry/chained.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/grow.h"
#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/telemetry/json.h"

enum { TAIL = 1 << 20 /* bytes, more than any line */, HEAD = SL_CHAIN_TEXT - 1, CHAIN_END = HEAD + 2 /* "} */ };

/* ---- writing */

enum sl_err sl_chained_open(struct sl_chained *log, const char *path, enum sl_failpoint point, struct sl_fail *fail)
{
	enum sl_err err;

	*log = (struct sl_chained){
		.fd = SL_FAILPOINT_CALL(point,
					open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | O_NOFOLLOW, 0600))};
	if (log->fd < 0)
		return sl_guard_open_failed(path, fail);
	err = sl_guard_written(log->fd, path, fail);
	if (err) {
		close(log->fd);
		log->fd = -1;
	}
	return err;
}

json_t *sl_chained_event(const char *type, json_t *more)
{
	json_t *line = json_pack("{ss sI}", "type", type, "time", (json_int_t)sl_wall_s());

	if (json_object_update(line, more)) {
		json_decref(line);
		line = NULL;
	}
	json_decref(more);
	return line;
}

/* The bytes of whole lines in the file's last n. A power cut can leave zeros where lines were: all from the first such
 * line on came after the last sync. */
static ssize_t whole(const char *text, ssize_t n)
{
	const char *torn = n > 0 ? memchr(text, '\0', (size_t)n) : NULL;

	n = torn ? torn - text : n;
	while (n > 0 && text[n - 1] != '\n')
		n--;
	return n;
}

static void say_torn(const char *link, ssize_t bytes)
{
	char name[PATH_MAX] = "";

	if (readlink(link, name, sizeof name - 1) < 0)
		return;
	sl_log(SL_LOG_WARN, "log-torn", "%s: lines at its end were torn, as by a power cut: %zd bytes are cut off",
	       name, bytes);
}

static enum sl_err find_head(struct sl_chained *log)
{
	char path[40], *text, *line;
	ssize_t n, all;
	struct stat st;
	off_t end;
	int fd;

	sl_chain_begin(log->head);
	if (fstat(log->fd, &st) || !S_ISREG(st.st_mode) || (end = lseek(log->fd, 0, SEEK_END)) <= 0)
		return SL_OK;
	snprintf(path, sizeof path, "/proc/self/fd/%d", log->fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	text = malloc(TAIL);
	all = n = fd < 0 || !text ? -1 : pread(fd, text, TAIL, end > TAIL ? end - TAIL : 0);
	n = whole(text, n);
	line = n > 1 ? memrchr(text, '\n', (size_t)n - 1) : NULL;
	line = line ? line + 1 : text;
	if (n > 1)
		sl_chain_next(log->head, line, (size_t)(text + n - 1 - line));
	if (n >= 0 && memchr(text + n, '\0', (size_t)(all - n)))
		say_torn(path, all - n);
	free(text);
	if (fd >= 0)
		close(fd);
	return n >= 0 && (n == all || ftruncate(log->fd, end - (all - n)) == 0) ? SL_OK : SL_ERR_IO;
}

const char *sl_chained_head(struct sl_chained *log)
{
	if (!log->head[0] && find_head(log) != SL_OK)
		log->head[0] = '\0';
	return log->head;
}

enum sl_err sl_chained_put(struct sl_chained *log, json_t *object, enum sl_failpoint point)
{
	char *text = NULL;
	enum sl_err err = SL_OK;
	size_t len, done = 0;
	off_t begin;
	int why;

	if (object && json_object_set_new(object, SL_CHAINED_KEY, json_string(sl_chained_head(log))) == 0)
		text = sl_json_dump(object, JSON_COMPACT);
	json_decref(object);
	if (!text)
		return SL_ERR_NOMEM;
	len = strlen(text);
	text[len++] = '\n';                  /* over the NUL */
	begin = lseek(log->fd, 0, SEEK_END); /* -1: a pipe */
	while (done < len && !err) {
		ssize_t n = SL_FAILPOINT_WRITE(point, log->fd, text + done, len - done);

		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || errno != EINTR)
			err = SL_ERR_IO;
	}
	why = errno;
	/* Cut half a line off: it would spoil the next one, too. */
	if (err && done && begin >= 0 && ftruncate(log->fd, begin) != 0)
		err = SL_ERR_IO;
	if (!err)
		sl_chain_next(log->head, text, len - 1);
	else
		log->head[0] = '\0'; /* that of the last whole line in the file */
	free(text);
	errno = why;
	return err;
}

/* ---- reading */

/* The hash in a line that ends with one, or NULL. */
static const char *hash_in(const char *line, size_t len)
{
	static const char key[] = ",\"" SL_CHAINED_KEY "\":\"";
	const size_t begin = sizeof key - 1 + CHAIN_END;

	return len > begin && memcmp(line + len - begin, key, sizeof key - 1) == 0 ? line + len - CHAIN_END : NULL;
}

static enum sl_err add_line(struct sl_chain *c, const char *line, size_t len, struct sl_fail *fail)
{
	const char *hash = hash_in(line, len);
	const struct sl_chain_head *before = &c->after[c->n];

	if (!hash && c->bare < c->n)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: line %ld has no hash of line %ld: it was added or changed",
				   c->name, c->n + 1, c->n);
	c->bare += !hash;
	if (hash && memcmp(hash, before->text, HEAD) != 0)
		return c->n ? sl_fail_set(
				      fail, SL_ERR_DATA,
				      "%s: line %ld does not fit line %ld: one of them was changed, added or moved, "
				      "or lines between them were removed",
				      c->name, c->n + 1, c->n)
			    : sl_fail_set(fail, SL_ERR_DATA,
					  "%s: line 1 does not begin the log: lines before it were removed", c->name);
	if (!sl_grow(&c->after, &c->room, (size_t)c->n + 2, sizeof *c->after))
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the lines of %s", c->name);
	c->n++;
	sl_chain_next(c->after[c->n].text, line, len);
	return SL_OK;
}

enum sl_err sl_chain_read(struct sl_chain *c, const char *dir,
			  enum sl_err (*hear)(void *arg, const char *line, size_t len, long number, struct sl_fail *),
			  void *arg, struct sl_fail *fail)
{
	char path[PATH_MAX], *line = NULL;
	FILE *f = snprintf(path, sizeof path, "%s/%s", dir, c->name) < PATH_MAX ? fopen(path, "re") : NULL;
	enum sl_err err = SL_OK, heard;
	struct sl_fail more; /* the first error is the one that is told */
	size_t room = 0;
	long number = 0;

	if (!f)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%.300s/%s: %s", dir, c->name, strerror(errno));
	if (!sl_grow(&c->after, &c->room, 1, sizeof *c->after))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the lines of %s", c->name);
	else
		sl_chain_begin(c->after[0].text);
	for (ssize_t len; (!err || hear) && (len = getline(&line, &room, f)) > 0 && line[len - 1] == '\n';) {
		err = err ? err : add_line(c, line, (size_t)len - 1, fail);
		heard = hear ? hear(arg, line, (size_t)len - 1, ++number, err ? &more : fail) : SL_OK;
		err = err ? err : heard;
	}
	free(line);
	fclose(f);
	if (!err && c->n && c->bare == c->n)
		err = sl_fail_set(fail, SL_ERR_DATA,
				  "%s: its lines have no hashes: a version of Split without them wrote it", c->name);
	return err;
}

long sl_chain_find(const struct sl_chain *c, const char *head)
{
	for (long i = c->n; i >= 0; i--)
		if (memcmp(c->after[i].text, head, HEAD) == 0)
			return i;
	return -1;
}
