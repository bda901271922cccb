/* Shows a run's progress on stderr: a bar on a terminal, plain lines at intervals anywhere else. Rates are over the
 * last seconds, from counters that only grow. Log lines (common/base/log.h) and the bar never mix: the bar is wiped
 * before a line and drawn again with the next update. */
#ifndef SL_TELEMETRY_PROGRESS_H
#define SL_TELEMETRY_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

enum { SL_PROGRESS_LINE = 512 };

struct sl_progress_state {
	const char *phase;    /* "train", "eval", "fetch": a word that stays valid until the next update */
	int epoch, epochs;    /* from 1 */
	uint64_t step, steps; /* done, and in all, in this phase of this epoch */
	uint64_t steps_left;  /* of the whole run, for the time left */
	uint64_t samples;     /* counters of the whole run */
	uint64_t tx_bytes, rx_bytes;
	double loss, acc; /* of the last batch, or of an evaluation so far; NaN: not shown */
};

struct sl_progress_rates {
	double samples_per_s, tx_mb_s, rx_mb_s; /* NaN: not known yet */
	double left_s;
};

struct sl_progress_options {
	int fd;                /* where to write: 2 */
	int plain_interval_ms; /* between plain lines; 0: 10 s */
	bool quiet;            /* nothing at all */
};

struct sl_progress;

/* Draws on a terminal unless TERM is "dumb" or unset, in colour unless NO_COLOR is set. Only one may be open at a
 * time: it takes the log's hook. */
enum sl_err sl_progress_open(struct sl_progress **out, const struct sl_progress_options *options,
			     struct sl_fail *fail) SL_MUST_CHECK;
/* Cheap: draws at most ten times a second (plain: at the interval, and when a phase is complete). Call it after each
 * step, and during a long one for the link's rates, which a terminal then shows. One thread. */
void sl_progress_update(struct sl_progress *progress, const struct sl_progress_state *state, uint64_t now_ms);
/* Leaves the last state visible on a line of its own. NULL is fine. */
void sl_progress_close(struct sl_progress *progress);

/* Writes one line of at most `width` columns, without control characters. If not all of it fits, the least important
 * parts are left out. `bar`: a bar takes the room that is left. Returns the line's length. */
int sl_progress_line(char out[SL_PROGRESS_LINE], const struct sl_progress_state *state,
		     const struct sl_progress_rates *rates, int width, bool bar);
/* "59s", "3m05s", "1h02m", "2d03h"; "-" if not known. */
const char *sl_progress_duration(double seconds, char out[16]);

#endif
