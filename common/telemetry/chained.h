/* A log of JSON lines that shows changes: each line ends with the hash of the line before it (link/chain.h). One thread
 * per log. */
#ifndef SL_TELEMETRY_CHAINED_H
#define SL_TELEMETRY_CHAINED_H

#include <jansson.h>
#include <stddef.h>

#include "common/base/err.h"
#include "common/base/failpoint.h"
#include "common/link/chain.h"

#define SL_CHAINED_KEY "chain" /* the last member of each line */

/* A log that is open for appending. */
struct sl_chained {
	int fd;
	char head[SL_CHAIN_TEXT]; /* of the chain; "": not known yet */
};

/* Opens the file to append; creates it with mode 0600. CANTCREATE, IO: log->fd is -1. */
enum sl_err sl_chained_open(struct sl_chained *log, const char *path, enum sl_failpoint point,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* {"type", "time" in seconds since 1970, the members of `more`}. Takes over `more`. NULL: no memory. */
json_t *sl_chained_event(const char *type, json_t *more);
/* The hash of the last line, valid until the next call with `log`. The first call cuts off half a line at the end, of a
 * process that was killed, and with a warning lines that a power cut has torn. "": it cannot be read. */
const char *sl_chained_head(struct sl_chained *log);
/* Writes the object as one line; takes it over. It may be NULL (no memory, text that is not UTF-8): NOMEM. IO: it was
 * not written (disk full), and errno says why. The file keeps no part of it, and the log can still be used. */
enum sl_err sl_chained_put(struct sl_chained *log, json_t *object, enum sl_failpoint point) SL_MUST_CHECK;

struct sl_chain_head {
	char text[SL_CHAIN_TEXT];
};

/* A log that was read. Item 0 of `after`: before the first line. */
struct sl_chain {
	const char *name; /* of the file */
	struct sl_chain_head *after;
	size_t room;
	long n, bare; /* lines; the first ones that have no hash, of an earlier version */
};

/* Reads DIR/NAME, and calls hear, if it is not NULL, for each line, also behind one that does not fit. Half a line at
 * the end is one that is being written, or of a process that was killed. NOINPUT: there is none; DATA: *fail names the
 * first line that does not fit. Free c->after in any case. */
enum sl_err sl_chain_read(struct sl_chain *c, const char *dir,
			  enum sl_err (*hear)(void *arg, const char *line, size_t len, long number, struct sl_fail *),
			  void *arg, struct sl_fail *fail) SL_MUST_CHECK;
/* After which line the chain had this head; -1: it never had. */
long sl_chain_find(const struct sl_chain *c, const char *head);

#endif
