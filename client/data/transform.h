/* Turns a picture into the network's input by a list of steps, with torchvision's names and meaning (0.14, on PIL
 * images): Resize, CenterCrop, RandomCrop, RandomResizedCrop, RandomHorizontalFlip, RandomVerticalFlip,
 * RandomRotation, RandomAffine, ColorJitter, Grayscale, RandomGrayscale, RandAugment, ToTensor, Normalize,
 * RandomErasing; and Cutout. A step is written as in Python: RandomCrop(32, padding=4).
 * Random choices for a sample are a function of (seed, epoch, sample) and of the step's position in the list: Philox
 * key (seed, step = epoch, chunk = position from 1, stream SL_RNG_AUGMENT), elements from 32·sample. */
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
	int out_h, out_w;            /* the size that the list must make; also that of a step that names none */
	enum sl_conf_normalize norm; /* for a list without Normalize */
	bool fixed;                  /* no step may be random: for evaluation */
	int channels;                /* of the output; 1: grey; 0 or 3: RGB */
	bool deep;                   /* pictures have 16 bits: no step may need bytes */
	bool masked;                 /* pictures have masks: every step must be able to transform one */
	bool slices;                 /* rows are those of slices: warns of pictures of another height */
};

/* One thread's buffers, and the sample that it prepares. Begins zeroed. */
struct sl_transform_work {
	struct sl_room image[2], tables;
	struct sl_wanted wanted;
	const struct sl_transform *of;
	uint64_t seed, epoch;
	int64_t sample;
	struct sl_window window; /* the part of the picture that the first step uses */
	bool chosen;             /* window and whole are those of this sample */
	int whole[2];            /* height and width of the picture */
};

/* The random choices for one step, as tests compare them with torchvision's. */
struct sl_transform_draw {
	bool skip;             /* this flip, erasure or RandomGrayscale does nothing */
	struct sl_window part; /* crops and erasures: the part, in the padded image */
	int order[4];          /* ColorJitter: the order of brightness 0, contrast 1, saturation 2, hue 3 */
	double factor[4];      /* ColorJitter: by these numbers; NaN: not changed */
	double angle, shift[2], scale, shear[2]; /* rotations and affine transforms, in degrees and pixels */
	int op[SL_STEP_MOST_OPS];                /* RandAugment: indices into torchvision's table of operations */
	bool negative[SL_STEP_MOST_OPS];         /* RandAugment: apply with the opposite sign */
};

/* CONFIG: a step that is unknown or misspelled (*fail says the step's number), or a list that does not end with
 * out_h × out_w; NOMEM. */
enum sl_err sl_transform_open(struct sl_transform **out, const struct sl_transform_spec *spec,
			      struct sl_fail *fail) SL_MUST_CHECK;
void sl_transform_close(struct sl_transform *t);       /* NULL is fine */
int sl_transform_height(const struct sl_transform *t); /* of the output */
int sl_transform_width(const struct sl_transform *t);
int sl_transform_channels(const struct sl_transform *t);
void sl_transform_norm(const struct sl_transform *t, float mean[3], float std[3]);

/* Begins a sample, before the source reads it. Returns what the source is to get as room->wanted, valid until the
 * next call. */
const struct sl_wanted *sl_transform_begin(const struct sl_transform *t, struct sl_transform_work *work, uint64_t seed,
					   uint64_t epoch, int64_t sample);
/* out [out_h, out_w, channels] = the picture that the source has read, transformed. DATA: a step does not fit a
 * picture of this size; NOMEM. */
enum sl_err sl_transform_apply(struct sl_transform_work *work, float *out, const struct sl_value *picture,
			       struct sl_fail *fail) SL_MUST_CHECK;
/* out [out_h, out_w] = the picture's mask, after sl_transform_apply. Steps that move the picture move the mask
 * alike, but take the nearest pixel. Where they fill the picture, the mask is SL_LEARN_IGNORED. Changes of colour
 * and erasures leave it as it is. DATA: the mask is of another size than the picture; NOMEM. */
enum sl_err sl_transform_mask(struct sl_transform_work *work, int32_t *out, const struct sl_value *mask,
			      struct sl_fail *fail) SL_MUST_CHECK;
/* out [h, w] = the mask [out_h, out_w] of a transformed picture, back on the whole picture of h × w, by the nearest
 * pixel. Where the transform cut the picture off, it is SL_LEARN_IGNORED. The transform has no random steps. */
void sl_transform_back(const struct sl_transform *t, uint8_t *out, int h, int w, const uint8_t *mask);
void sl_transform_work_close(struct sl_transform_work *work);

/* The random choices of step `place`, from 0, for an image of h × w. */
struct sl_transform_draw sl_transform_draw(const struct sl_transform *t, int place, uint64_t seed, uint64_t epoch,
					   int64_t sample, int h, int w);

/* The usual steps for an output of h × w, from pictures of any size. Below 64 pixels: Resize; in training also
 * RandomCrop with padding and a flip. From 64 on: in training RandomResizedCrop and a flip, in evaluation Resize and
 * CenterCrop (Resize alone if h and w differ). */
void sl_transform_usual(struct sl_conf_list *out, int h, int w, bool train);

#endif
