/* From a picture to the network's input by a list of steps, with torchvision's names and meaning (0.14, on PIL images):
 * Resize, CenterCrop, RandomCrop, RandomResizedCrop, RandomHorizontalFlip, RandomVerticalFlip, RandomRotation,
 * RandomAffine, ColorJitter, Grayscale, RandomGrayscale, RandAugment, ToTensor, Normalize, RandomErasing; and Cutout. A
 * step is written as in Python: RandomCrop(32, padding=4).
 * What chance decides for a sample is a function of (seed, epoch, sample) and of the step's place in the list: Philox
 * key (seed, step = epoch, chunk = place from 1, stream SL_RNG_AUGMENT), elements from 32·sample. */
#ifndef SL_CLIENT_DATA_TRANSFORM_H
#define SL_CLIENT_DATA_TRANSFORM_H

#include "client/data/augment.h"
#include "client/data/source.h"
#include "client/data/transform_step.h"
#include "common/conf/conf.h"

/* Constant once open: any number of threads may use it, each with its own work. */
struct sl_transform;

struct sl_transform_spec {
	const char (*step)[SL_CONF_TEXT]; /* [n] */
	int n;
	int out_h, out_w;            /* what the list must end with; also the size of a step that has none */
	enum sl_conf_normalize norm; /* for a list without Normalize */
	bool fixed;                  /* no step may be left to chance: for evaluation */
	int channels;                /* of what comes out: 1, grey; 0 or 3: RGB */
	bool deep;                   /* pictures have 16 bits: no step may need bytes */
	bool masked;                 /* pictures have masks, which every step must be able to follow */
};

/* One thread's memory, and the sample that it is at. Begins zeroed. */
struct sl_transform_work {
	struct sl_room image[2], tables;
	struct sl_wanted wanted;
	const struct sl_transform *of;
	uint64_t seed, epoch;
	int64_t sample;
	struct sl_window window; /* what the first step takes of the picture */
	bool chosen;
	int whole[2]; /* height and width of the picture */
};

/* What chance decided for one step, as tests compare it with torchvision. */
struct sl_transform_draw {
	bool skip;                               /* a flip or an erasure that does not happen */
	struct sl_window part;                   /* of the crops and erasures, in the image behind padding */
	int order[4];                            /* of ColorJitter: brightness 0, contrast 1, saturation 2, hue 3 */
	double factor[4];                        /* of ColorJitter, in the same order; NaN: not changed */
	double angle, shift[2], scale, shear[2]; /* of rotations and affine changes, in degrees and pixels */
	int op[SL_STEP_MOST_OPS];                /* of RandAugment: in the order of torchvision's table */
	bool negative[SL_STEP_MOST_OPS];
};

/* CONFIG: a step that is unknown or misspelled (*fail says the step's number), or a list that does not end with
 * out_h × out_w; NOMEM. */
enum sl_err sl_transform_open(struct sl_transform **out, const struct sl_transform_spec *spec,
			      struct sl_fail *fail) SL_MUST_CHECK;
void sl_transform_close(struct sl_transform *t);       /* NULL is fine */
int sl_transform_height(const struct sl_transform *t); /* of what comes out */
int sl_transform_width(const struct sl_transform *t);
int sl_transform_channels(const struct sl_transform *t);
void sl_transform_norm(const struct sl_transform *t, float mean[3], float std[3]);

/* Before the source reads the sample: what to hand it as room->wanted, valid until the next call. */
const struct sl_wanted *sl_transform_begin(const struct sl_transform *t, struct sl_transform_work *work, uint64_t seed,
					   uint64_t epoch, int64_t sample);
/* out [out_h, out_w, channels] = the picture that the source has read. DATA: a step does not fit a picture of this
 * size; NOMEM. */
enum sl_err sl_transform_apply(struct sl_transform_work *work, float *out, const struct sl_value *picture,
			       struct sl_fail *fail) SL_MUST_CHECK;
/* out [out_h, out_w] = the picture's mask, behind sl_transform_apply: what moves the picture moves it alike, and takes
 * the nearest pixel; where the picture is filled it has SL_LEARN_IGNORED; what changes colours leaves it. DATA: the
 * mask is of another size than the picture; NOMEM. */
enum sl_err sl_transform_mask(struct sl_transform_work *work, int32_t *out, const struct sl_value *mask,
			      struct sl_fail *fail) SL_MUST_CHECK;
void sl_transform_work_close(struct sl_transform_work *work);

/* For an image of h × w at step `place`, from 0. */
struct sl_transform_draw sl_transform_draw(const struct sl_transform *t, int place, uint64_t seed, uint64_t epoch,
					   int64_t sample, int h, int w);

/* The usual steps for pictures of any size: below 64 pixels resize, crop behind padding, flip; from 64 on
 * RandomResizedCrop and flip, and for evaluation Resize and CenterCrop. */
void sl_transform_usual(struct sl_conf_list *out, int h, int w, bool train);

#endif
