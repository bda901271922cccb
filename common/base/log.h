/* Log lines to stderr: `LEVEL stable-id: text`. If stderr is the systemd journal (JOURNAL_STREAM), an sd-daemon
 * priority (<3>…) replaces LEVEL. The level is tested before anything is formatted. Safe from any thread: one
 * write(2) per line. */
#ifndef SL_BASE_LOG_H
#define SL_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

enum sl_log_level { SL_LOG_ERROR, SL_LOG_WARN, SL_LOG_INFO, SL_LOG_DEBUG, SL_LOG_COUNT };

void sl_log_set_level(enum sl_log_level level); /* default INFO */
enum sl_log_level sl_log_level(void);
/* Whether a line is written, or kept for a summary. */
static inline bool sl_log_takes(enum sl_log_level level)
{
	return level <= SL_LOG_WARN || level <= sl_log_level();
}

/* "<3>" if stderr is the journal, else "": a prefix for lines that are written without sl_log. */
const char *sl_log_priority(enum sl_log_level level);
/* Before each line the hook is called under the log's lock (a progress bar clears its line). NULL: no hook. */
void sl_log_set_hook(void (*before_line)(void *arg), void *arg);
/* Lines go to `take` instead of stderr, without the newline, under the log's lock. NULL: to stderr again. */
void sl_log_set_sink(void (*take)(void *arg, const char *line, size_t len), void *arg);
/* Calls fn under the log's lock, so that no line is written while fn draws. fn must not log. */
void sl_log_exclusive(void (*fn)(void *arg), void *arg);
/* `id` is a stable, greppable word such as "session-refused"; it never carries variable text. */
void sl_log_write(enum sl_log_level level, const char *id, const char *fmt, ...) SL_PRINTF(3, 4);
/* From now on a forked child can log, even if another thread of its parent was logging at the time of the fork. */
void sl_log_at_fork(void);
/* A rate limit for lines that a peer can cause as often as it likes. Of each id, 64 lines at once and then one a
 * second are written; the others are counted. Ids beyond SL_LOG_LIMITED share one limit. */
enum { SL_LOG_LIMITED = 32 };
bool sl_log_admits(const char *id);
/* To be called now and then. Logs for each id how many of its lines were left out: every 10 s at most, or at once
 * if `now`. */
void sl_log_tell_left_out(bool now);
uint64_t sl_log_left_out(void); /* lines that were left out since the start, of all ids */

/* The warnings of this process, for the summary of a run, also those that the level leaves out. Kept is each text once:
 * the first SL_LOG_KEPT_OF_ID of an id, and SL_LOG_KEPT in all. */
enum { SL_LOG_KEPT = 32, SL_LOG_KEPT_OF_ID = 4, SL_LOG_KEPT_TEXT = 512 };
struct sl_log_warning {
	const char *id;
	char text[SL_LOG_KEPT_TEXT];
};
bool sl_log_warning(int i, struct sl_log_warning *out); /* the i-th; false: there are no more */
uint64_t sl_log_warned(void);                           /* all of them, repeated ones included */

#define sl_log_limited(level, id, ...)                            \
	do {                                                      \
		if (sl_log_takes(level) && sl_log_admits(id))     \
			sl_log_write((level), (id), __VA_ARGS__); \
	} while (0)

#define sl_log(level, id, ...)                                    \
	do {                                                      \
		if (sl_log_takes(level))                          \
			sl_log_write((level), (id), __VA_ARGS__); \
	} while (0)

#endif
