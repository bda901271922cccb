/* A decaying insert: the width of what crosses a cut falls by a schedule that both sides compute
 * from the number of steps that are done, skipped ones included. With a second pair the number of a row's tokens falls,
 * too, at the same steps. Nothing of it is on the wire. Pure. */
#ifndef SL_GRAPH_DECAY_H
#define SL_GRAPH_DECAY_H

#include <stdbool.h>
#include <stdint.h>

enum { SL_DECAY_MAX_TIMES = 64, SL_DECAY_MAX_EVERY = 1000000000, SL_DECAY_MAX_L1 = 1000000 };

struct sl_decay {
	int full; /* features before the first fall; 0: this cut has no decaying insert */
	int times;
	int64_t every; /* steps */
	int64_t from;  /* steps that count as done before the first: 0 … every · times */
	double rate;   /* 0 < rate ≤ 1 */
	double l1;     /* of the pull on what goes at the next fall; 0: none */
	int tokens;    /* of a row before the first fall; 0: there is no second pair */
	double rate2;  /* of the tokens: 0 < rate2 ≤ 1 */
};

/* Widths of a schedule by number of falls: width[0] is `full`, width[i+1] = ⌊width[i] · rate⌋, at least 1. Returns how
 * many there are, times + 1. */
int sl_decay_widths(const struct sl_decay *d, int width[SL_DECAY_MAX_TIMES + 1]);
/* The same of the tokens; all 0 without a second pair. */
int sl_decay_tokens(const struct sl_decay *d, int tokens[SL_DECAY_MAX_TIMES + 1]);
/* How often the width has fallen once `done` steps are: min(times, ⌊(from + done) / every⌋). Any `done`. */
int sl_decay_falls(const struct sl_decay *d, uint64_t done);
/* Width of the pass that follows `done` steps, be it the next step's or an evaluation's. */
int sl_decay_width(const struct sl_decay *d, uint64_t done);
int sl_decay_row_tokens(const struct sl_decay *d, uint64_t done);
/* Whether both passes, behind so many steps, have the same widths. */
bool sl_decay_same(const struct sl_decay *d, uint64_t done, uint64_t other);

#endif
