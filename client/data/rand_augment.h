/* RandAugment (Cubuk et al., 2020), as torchvision 0.14 applies it to PIL images. */
#ifndef SL_CLIENT_DATA_RAND_AUGMENT_H
#define SL_CLIENT_DATA_RAND_AUGMENT_H

#include "client/data/canvas.h"
#include "client/data/transform.h"

enum { SL_RAND_AUGMENT_OPS = 14 };

/* Applies the operations draw->op [s->ops] one after the other, with the step's magnitude. The canvas has bytes.
 * NOMEM. */
enum sl_err sl_rand_augment(struct sl_canvas *c, const struct sl_step *s,
			    const struct sl_transform_draw *draw) SL_MUST_CHECK;

#endif
