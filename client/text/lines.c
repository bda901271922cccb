#include "client/text/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/filekind.h"
#include "common/base/text.h"

enum { CHUNK = 1 << 16 };

enum sl_err sl_lines_open(struct sl_lines *l, const char *path, struct sl_fail *fail)
{
	struct stat st;
	FILE *from = stdin;

	if (strcmp(path, "-") != 0) {
		from = fopen(path, "re");
		if (!from)
			return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s", path, strerror(errno));
		if (fstat(fileno(from), &st) == 0 && S_ISDIR(st.st_mode)) {
			fclose(from);
			return sl_fail_set(fail, SL_ERR_NOINPUT, "%s is a folder, not a file", path);
		}
	}
	*l = (struct sl_lines){.from = from, .name = from == stdin ? "standard input" : path, .opened = from != stdin};
	return SL_OK;
}

enum sl_err sl_lines_open_bytes(struct sl_lines *l, struct sl_bytes bytes, const char *name, struct sl_fail *fail)
{
	/* on some systems fmemopen refuses empty memory */
	FILE *from = bytes.len ? fmemopen((void *)bytes.data, bytes.len, "r") : fopen("/dev/null", "re");

	if (!from)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for %s", name);
	*l = (struct sl_lines){.from = from, .name = name, .opened = true};
	return SL_OK;
}

void sl_lines_close(struct sl_lines *l)
{
	if (l->opened)
		fclose(l->from);
	free(l->buf);
	*l = (struct sl_lines){0};
}

/* Reads more bytes behind those in the buffer. *got 0: the file has ended. */
static enum sl_err fill(struct sl_lines *l, size_t *got, struct sl_fail *fail)
{
	if (l->at > 0) {
		memmove(l->buf, l->buf + l->at, l->len - l->at);
		l->len -= l->at;
		l->at = 0;
	}
	if (l->len > SL_LINE_MOST)
		return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: a line of more than %d MiB", l->name, l->number + 1,
				   SL_LINE_MOST >> 20);
	if (l->len + CHUNK > l->cap) {
		char *grown = realloc(l->buf, 2 * l->cap + CHUNK);

		if (!grown)
			return sl_fail_set(fail, SL_ERR_NOMEM, "%s: no memory for a line", l->name);
		l->buf = grown;
		l->cap = 2 * l->cap + CHUNK;
	}
	*got = fread(l->buf + l->len, 1, CHUNK, l->from);
	l->len += *got;
	return ferror(l->from) ? sl_fail_set(fail, SL_ERR_IO, "%s: %s", l->name, strerror(errno)) : SL_OK;
}

enum sl_err sl_lines_next(struct sl_lines *l, struct sl_bytes *line, struct sl_fail *fail)
{
	size_t seen = 0, len, got, mark;
	const char *other;
	char *end = NULL;

	for (;;) {
		enum sl_err err;

		if (l->len > l->at + seen)
			end = memchr(l->buf + l->at + seen, '\n', l->len - l->at - seen);
		if (end)
			break;
		seen = l->len - l->at;
		err = fill(l, &got, fail);
		if (err)
			return err;
		if (!got)
			break;
	}
	if (!end && l->at == l->len) {
		*line = (struct sl_bytes){NULL, 0};
		return SL_OK;
	}
	l->number++;
	len = end ? (size_t)(end - (l->buf + l->at)) : l->len - l->at;
	line->data = (const uint8_t *)l->buf + l->at;
	l->cr = len > 0 && line->data[len - 1] == '\r';
	line->len = l->cr ? len - 1 : len;
	other = l->number == 1 ? sl_filekind(line->data, line->len) : NULL;
	if (other)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: this is no text, but %s", l->name, other);
	if (l->number == 1 && len >= 2 &&
	    (memcmp(line->data, "\xff\xfe", 2) == 0 || memcmp(line->data, "\xfe\xff", 2) == 0 ||
	     !line->data[0] != !line->data[1]))
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s: the text is UTF-16: iconv -f utf-16 -t utf-8 makes UTF-8 of it", l->name);
	mark = l->number == 1 ? sl_text_mark(line->data, line->len) : 0;
	line->data += mark;
	line->len -= mark;
	l->at += len + (end != NULL);
	return SL_OK;
}
