/* A decaying insert: the width of the tensor that crosses a cut falls by a schedule. Both sides compute it from the
 * number of completed steps, skipped ones included, so nothing about it is on the wire. With a second pair of layers
 * the number of tokens that a row has there falls, too, at the same steps. Pure functions. */
#ifndef SL_GRAPH_DECAY_H
#define SL_GRAPH_DECAY_H

#include <stdbool.h>
#include <stdint.h>

enum { SL_DECAY_MAX_TIMES = 64, SL_DECAY_MAX_EVERY = 1000000000, SL_DECAY_MAX_L1 = 1000000 };

struct sl_decay {
	int full;      /* features before the first fall; 0: this cut has no decaying insert */
	int times;     /* number of falls */
	int64_t every; /* steps between falls */
	int64_t from;  /* offset of the schedule: steps that count as completed at the start, 0 … every · times */
	double rate;   /* factor on the width at each fall, 0 < rate ≤ 1 */
	double l1;     /* L1 penalty on the weights that the next fall removes; 0: none */
	int tokens;    /* tokens of a row before the first fall; 0: there is no second pair */
	double rate2;  /* factor on the tokens at each fall, 0 < rate2 ≤ 1 */
};

/* width[i] = the width after i falls: width[0] is `full`, width[i+1] = ⌊width[i] · rate⌋, at least 1. Returns the
 * number of widths, times + 1. */
int sl_decay_widths(const struct sl_decay *d, int width[SL_DECAY_MAX_TIMES + 1]);
/* The same for the tokens; all 0 without a second pair. */
int sl_decay_tokens(const struct sl_decay *d, int tokens[SL_DECAY_MAX_TIMES + 1]);
/* Number of falls after `done` completed steps: min(times, ⌊(from + done) / every⌋). Cannot overflow. */
int sl_decay_falls(const struct sl_decay *d, uint64_t done);
/* Width, and tokens of a row, in the pass after `done` completed steps: the next step's or an evaluation's. */
int sl_decay_width(const struct sl_decay *d, uint64_t done);
int sl_decay_row_tokens(const struct sl_decay *d, uint64_t done);
/* Whether width and tokens are the same after `done` and after `other` completed steps. */
bool sl_decay_same(const struct sl_decay *d, uint64_t done, uint64_t other);

#endif
