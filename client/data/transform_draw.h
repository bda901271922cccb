/* What chance decides for one step of a list of transforms. Thread-safe. */
#ifndef SL_CLIENT_DATA_TRANSFORM_DRAW_H
#define SL_CLIENT_DATA_TRANSFORM_DRAW_H

#include "client/data/transform.h"
#include "client/data/transform_step.h"

/* For an image of h × w that comes to the step at `place` of the list, from 0: a function of (seed, epoch, sample). */
struct sl_transform_draw sl_step_draw(const struct sl_step *s, int place, uint64_t seed, uint64_t epoch, int64_t sample,
				      int h, int w);
/* Four normal numbers for the erasure at `place` with `noise`, by the same three and their number there. */
void sl_step_noise(int place, uint64_t seed, uint64_t epoch, int64_t sample, uint32_t four, float out[4]);
/* Height and width behind RandomCrop's padding. */
void sl_step_padded(const struct sl_step *s, int *h, int *w);

#endif
