/* Log lines to stderr: `LEVEL stable-id: text`; with sd-daemon priorities (<3>…) when stderr is the journal's
 * (JOURNAL_STREAM).
 * The level is tested before anything is formatted. Safe from any thread: one write(2) per line. */
#ifndef SL_BASE_LOG_H
#define SL_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

enum sl_log_level { SL_LOG_ERROR, SL_LOG_WARN, SL_LOG_INFO, SL_LOG_DEBUG, SL_LOG_COUNT };

void sl_log_set_level(enum sl_log_level level); /* default INFO */
enum sl_log_level sl_log_level(void);

/* "<3>" where stderr is the journal's, else "": for lines that are written without sl_log. */
const char *sl_log_priority(enum sl_log_level level);
/* `id` is a stable, greppable word such as "session-refused"; it never carries variable text.
 * Before a line is written, the hook (a progress bar clearing its line) runs under the log's lock; NULL for none. */
void sl_log_set_hook(void (*before_line)(void *arg), void *arg);
/* Lines go to `take` instead of stderr, without the newline, under the log's lock; NULL: to stderr again. */
void sl_log_set_sink(void (*take)(void *arg, const char *line, size_t len), void *arg);
/* Runs fn under the log's lock: while it draws, no line can come in between. fn must not log. */
void sl_log_exclusive(void (*fn)(void *arg), void *arg);
void sl_log_write(enum sl_log_level level, const char *id, const char *fmt, ...) SL_PRINTF(3, 4);
/* From now on a forked child can log, whatever thread of its parent did so at that moment. */
void sl_log_at_fork(void);
/* For lines that a peer can cause as often as it likes: of each id 64 at once and one a second after that are written,
 * the others counted. At most SL_LOG_LIMITED ids. */
enum { SL_LOG_LIMITED = 32 };
bool sl_log_admits(const char *id);
/* Now and then: for each id of which lines were left out, one line that says how many; every 10 s at most, or `now`. */
void sl_log_tell_left_out(bool now);
uint64_t sl_log_left_out(void); /* lines, of all ids, since the start */

#define sl_log_limited(level, id, ...)                              \
	do {                                                        \
		if ((level) <= sl_log_level() && sl_log_admits(id)) \
			sl_log_write((level), (id), __VA_ARGS__);   \
	} while (0)

#define sl_log(level, id, ...)                                    \
	do {                                                      \
		if ((level) <= sl_log_level())                    \
			sl_log_write((level), (id), __VA_ARGS__); \
	} while (0)

#endif
