/* The lines of a text file or of standard input, one after the other, in memory of bounded size. */
#ifndef SL_CLIENT_TEXT_LINES_H
#define SL_CLIENT_TEXT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/base/buf.h"
#include "common/base/err.h"

enum { SL_LINE_MOST = 16 << 20 /* bytes of one line */ };

struct sl_lines {
	FILE *from;
	const char *name; /* for errors */
	char *buf;
	size_t at, len, cap;
	size_t number; /* of the line that was read last, from 1 */
	bool cr;       /* that line ended in \r\n */
	bool opened;   /* sl_lines_close closes `from` */
};

/* `path` "-" is standard input. NOINPUT. `path` has to outlive it. */
enum sl_err sl_lines_open(struct sl_lines *l, const char *path, struct sl_fail *fail) SL_MUST_CHECK;
/* The same for bytes in memory, which have to outlive it. NOMEM. */
enum sl_err sl_lines_open_bytes(struct sl_lines *l, struct sl_bytes bytes, const char *name,
				struct sl_fail *fail) SL_MUST_CHECK;
void sl_lines_close(struct sl_lines *l); /* idempotent */

/* Reads the next line without its end (\n or \r\n), and the first one without a byte order mark. *line is valid until
 * the next call; data NULL: there are no more lines. DATA: longer than SL_LINE_MOST, or in UTF-16; IO, NOMEM. */
enum sl_err sl_lines_next(struct sl_lines *l, struct sl_bytes *line, struct sl_fail *fail) SL_MUST_CHECK;

#endif
