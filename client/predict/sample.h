/* Draws the next token of a row from its logits. It computes in double, and ties go to the lower id, so that every
 * machine that has the same logits draws the same tokens. */
#ifndef SL_CLIENT_PREDICT_SAMPLE_H
#define SL_CLIENT_PREDICT_SAMPLE_H

#include <stdint.h>

#include "common/base/err.h"

/* They are applied in this order, as in transformers. */
struct sl_sampling {
	double penalty;     /* of tokens that the row already has: z / penalty if z > 0, else z · penalty; 1: none */
	double temperature; /* logits are divided by it; 0: the largest is taken */
	int top_k;          /* only so many of the largest are kept; 0: all */
	double top_p;       /* of these, the fewest whose probabilities add up to at least this; 1: all */
	uint64_t seed;
};

struct sl_sample_room {
	double *score; /* [vocab] */
	int32_t *order;
	int vocab;
};

enum sl_err sl_sample_open(struct sl_sample_room *room, int vocab, struct sl_fail *fail) SL_MUST_CHECK;
void sl_sample_close(struct sl_sample_room *room); /* idempotent */

/* Draws the token after id[0 … n) of prompt number `prompt`, by the Philox key (seed, step = prompt, stream
 * SL_RNG_GENERATE), element n. NONFINITE: a logit is NaN or Inf. */
enum sl_err sl_sample_next(struct sl_sample_room *room, const struct sl_sampling *how, const float *logits,
			   const int32_t *id, int64_t n, uint64_t prompt, int32_t *out) SL_MUST_CHECK;

#endif
