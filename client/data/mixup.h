/* MixUp (Zhang et al., ICLR 2018) as timm has it with mode "elem": row i of a batch of n becomes λ·x[i] + (1 −
 * λ)·x[n−1−i], and its target the same mixture of the two labels. λ ~ Beta(α, α) is drawn for each row, from (seed,
 * epoch, sample) alone. Any thread. */
#ifndef SL_CLIENT_DATA_MIXUP_H
#define SL_CLIENT_DATA_MIXUP_H

#include <stdint.h>

/* λ, 0 … 1. alpha > 0. */
double sl_mixup_draw(double alpha, uint64_t seed, uint64_t epoch, int64_t sample);

/* Mixes x and y [count] in place. of_x is the λ of x, of_y that of y. */
void sl_mixup_pair(float *x, double of_x, float *y, double of_y, int64_t count);

/* Makes a mixed row's target: the label with the larger weight comes first, and *share becomes its weight. On entry
 * *label is the row's own label and *other its partner's. */
void sl_mixup_target(double lambda, int32_t *label, int32_t *other, float *share);

#endif
