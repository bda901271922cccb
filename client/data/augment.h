/* Turns an image's bytes into the network's input: random crop, random flip, resize, normalisation; in this order.
 * Random choices are a function of (seed, epoch, sample): any thread can prepare any image, at any time, again. */
#ifndef SL_CLIENT_DATA_AUGMENT_H
#define SL_CLIENT_DATA_AUGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/conf/conf.h"

/* (byte / 255 − mean) / std, per channel; NONE is byte / 255. */
void sl_norm_values(enum sl_conf_normalize norm, float mean[3], float std[3]);

enum { SL_AUGMENT_MAX_SIDE = SL_CONF_MAX_IMAGE };

struct sl_augment_spec {
	int in_h, in_w;   /* of the source images, 3 channels */
	int out_h, out_w; /* 0: as the input */
	int crop_padding; /* p: crop a window of the input's size from the image padded by p black pixels; 0: no crop */
	bool flip;        /* mirror half of the images left to right */
	enum sl_conf_normalize norm;
};

/* The random choices for one image. {p, p, false} changes nothing: see sl_augment_centre. */
struct sl_augment_draw {
	int top, left; /* of the window in the padded image, in [0, 2p] */
	bool flip;
};

/* Constant once open: any number of threads may use it, each with its own scratch. */
struct sl_augment;

/* CONFIG: a size or the padding out of range; NOMEM. */
enum sl_err sl_augment_open(struct sl_augment **out, const struct sl_augment_spec *spec,
			    struct sl_fail *fail) SL_MUST_CHECK;
void sl_augment_close(struct sl_augment *aug);                               /* NULL is fine */
const struct sl_augment_spec *sl_augment_spec(const struct sl_augment *aug); /* with out_h and out_w filled in */

/* Philox key (seed, step = epoch, stream SL_RNG_AUGMENT), elements 8·sample (top), + 1 (left), + 2 (flip). */
struct sl_augment_draw sl_augment_draw(const struct sl_augment *aug, uint64_t seed, uint64_t epoch, int64_t sample);
struct sl_augment_draw sl_augment_centre(const struct sl_augment *aug); /* for evaluation */

size_t sl_augment_scratch_floats(const struct sl_augment *aug);

/* out [out_h, out_w, 3] = image [in_h, in_w, 3]. Padding is 0 before normalisation, as in torchvision's
 * RandomCrop(padding=p). The resize is torch.nn.functional.interpolate(mode="bilinear", align_corners=False): no
 * antialiasing, so shrinking by more than 2 skips pixels. */
void sl_augment_apply(const struct sl_augment *aug, float *out, const uint8_t *image, struct sl_augment_draw draw,
		      float *scratch);

#endif
