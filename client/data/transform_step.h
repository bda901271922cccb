/* One step of a list of transforms, and how it is spelled. */
#ifndef SL_CLIENT_DATA_TRANSFORM_STEP_H
#define SL_CLIENT_DATA_TRANSFORM_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "client/data/augment.h"

enum sl_step_kind {
	SL_STEP_RESIZE,
	SL_STEP_CENTER_CROP,
	SL_STEP_RANDOM_CROP,
	SL_STEP_RANDOM_RESIZED_CROP,
	SL_STEP_HORIZONTAL_FLIP,
	SL_STEP_VERTICAL_FLIP,
	SL_STEP_RANDOM_ROTATION,
	SL_STEP_RANDOM_AFFINE,
	SL_STEP_COLOR_JITTER,
	SL_STEP_GRAYSCALE,
	SL_STEP_RANDOM_GRAYSCALE,
	SL_STEP_RAND_AUGMENT,
	SL_STEP_TO_TENSOR,
	SL_STEP_NORMALIZE,
	SL_STEP_RANDOM_ERASING,
	SL_STEP_CUTOUT,
	SL_STEP_VOLUMES, /* from here on: steps of volumes (volume_step.h) */
	SL_STEP_FLIP = SL_STEP_VOLUMES,
	SL_STEP_GAMMA,
	SL_STEP_NOISE,
	SL_STEP_INTENSITY,
	SL_STEP_AFFINE_3D,
	SL_STEP_COUNT
};

enum { SL_STEP_MOST_OPS = 8 /* operations of one RandAugment */ };

enum sl_padding { SL_PAD_CONSTANT, SL_PAD_REFLECT, SL_PAD_EDGE, SL_PAD_SYMMETRIC };

/* Each kind of step uses some of these fields. */
struct sl_step {
	enum sl_step_kind kind;
	int h, w; /* the size; w 0: h is the shorter side (Resize alone) */
	int pad_left, pad_top, pad_right, pad_bottom;
	bool pad_if_needed;
	enum sl_padding mode;
	uint8_t fill[3];
	double p, scale[2], ratio[2];
	double range[4][2]; /* brightness, contrast, saturation, hue; sl_step_neutral twice: not changed */
	float mean[3], std[3];
	float value[3]; /* the fill of an erasure, in the image after ToTensor or Normalize */
	bool noise;     /* an erasure is filled with normally distributed numbers instead */
	double degrees[2], translate[2], grow[2],
		shear[2][2]; /* of RandomRotation and RandomAffine; grow: the latter's `scale` */
	double centre[2];    /* if `centred`; else it is the image's centre */
	bool centred, bilinear;
	bool axis[3];     /* RandomFlip: which are turned */
	double gamma[2];  /* RandomGamma */
	double spread[2]; /* RandomNoise: the largest deviation; RandomIntensity: of the factor, and of the sum */
	double turn[3];   /* RandomAffine3d: the largest angle about each axis; spread[0]: of the size */
	int ops, magnitude,
		bins; /* RandAugment: number of operations, their strength, and how many strengths there are */
};

/* Reads a step written as in Python: "RandomCrop(32, padding=4)", "transforms.ToTensor()", "RandomHorizontalFlip". A
 * size that is left out is h × w. CONFIG: *fail says what is wrong, but does not repeat the text. */
enum sl_err sl_step_read(struct sl_step *out, const char *text, int h, int w, struct sl_fail *fail) SL_MUST_CHECK;

double sl_step_neutral(int colour); /* what changes nothing: 1; for hue, the last of four, 0 */

#endif
