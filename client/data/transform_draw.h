/* The random choices for one step of a list of transforms. Thread-safe. */
#ifndef SL_CLIENT_DATA_TRANSFORM_DRAW_H
#define SL_CLIENT_DATA_TRANSFORM_DRAW_H

#include "client/data/transform.h"
#include "client/data/transform_step.h"

/* The choices of step s, at `place` of the list, from 0, for an image of h × w: a function of (seed, epoch, sample). */
struct sl_transform_draw sl_step_draw(const struct sl_step *s, int place, uint64_t seed, uint64_t epoch, int64_t sample,
				      int h, int w);
/* Four normally distributed numbers for an erasure with `noise` at `place`: numbers 4·four to 4·four + 3 of this
 * sample. */
void sl_step_noise(int place, uint64_t seed, uint64_t epoch, int64_t sample, uint32_t four, float out[4]);
/* Adds RandomCrop's padding to the height and width of an image. */
void sl_step_padded(const struct sl_step *s, int *h, int *w);

#endif
