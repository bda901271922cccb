#include "client/data/transform.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/canvas.h"
#include "client/data/colour.h"
#include "client/data/rand_augment.h"
#include "client/data/transform_draw.h"
#include "common/base/log.h"

enum { CHANNELS = 3, LEVELS = 256, COLOURS = 4, HUE = 3, SMALL = 64 };

struct sl_transform {
	struct sl_step *step; /* [n] */
	int n, out_h, out_w, channels;
	bool slices;
	float mean[CHANNELS], std[CHANNELS];
	int normalize; /* index of the step Normalize; n: there is none */
	float normalised[CHANNELS][LEVELS];
};

/* What is known of the image after some steps, for any picture. */
struct known {
	int h, w;  /* 0: it depends on the picture */
	bool late; /* a step on floats was among them */
};

static bool is_random(const struct sl_step *s)
{
	switch (s->kind) {
	case SL_STEP_RANDOM_CROP:
	case SL_STEP_RANDOM_RESIZED_CROP:
	case SL_STEP_COLOR_JITTER:
	case SL_STEP_HORIZONTAL_FLIP:
	case SL_STEP_VERTICAL_FLIP:
	case SL_STEP_RANDOM_ERASING:
	case SL_STEP_CUTOUT:
	case SL_STEP_RANDOM_ROTATION:
	case SL_STEP_RANDOM_AFFINE:
	case SL_STEP_RANDOM_GRAYSCALE:
	case SL_STEP_RAND_AUGMENT:
		return true;
	default:
		return false;
	}
}

static bool is_one(const float mean[CHANNELS], const float std[CHANNELS])
{
	return mean[0] == mean[1] && mean[0] == mean[2] && std[0] == std[1] && std[0] == std[2];
}

/* Checks that the step may stand here, and updates *known. NULL, or a sentence that says why it may not. */
static const char *check_place(const struct sl_step *s, struct known *known, const struct sl_transform_spec *spec)
{
	const bool on_floats = s->kind == SL_STEP_NORMALIZE || s->kind == SL_STEP_RANDOM_ERASING ||
			       s->kind == SL_STEP_CUTOUT || s->kind == SL_STEP_TO_TENSOR;

	if (s->kind >= SL_STEP_VOLUMES)
		return "is of volumes: data.kind: volumes";
	if (spec->fixed && is_random(s))
		return "an evaluation leaves nothing to chance: only Resize, CenterCrop, Grayscale and Normalize";
	if (spec->deep && (s->kind == SL_STEP_RAND_AUGMENT ||
			   (s->kind == SL_STEP_COLOR_JITTER && (s->range[HUE][0] != 0 || s->range[HUE][1] != 0))))
		return "is of 8 bits: take data.bits: 8, or leave it out";
	if (spec->masked && s->kind == SL_STEP_RAND_AUGMENT)
		return "moves pixels, which no mask follows: leave it out, or name the steps";
	if (spec->channels == 1 && s->kind == SL_STEP_NORMALIZE && !is_one(s->mean, s->std))
		return "the picture is grey: give one number for the mean, and one for the deviation";
	if (known->late && !on_floats)
		return "must come before Normalize, RandomErasing and Cutout";
	known->late |= on_floats && s->kind != SL_STEP_TO_TENSOR;
	switch (s->kind) {
	case SL_STEP_RESIZE:
		known->h = s->w ? s->h : 0;
		known->w = s->w;
		break;
	case SL_STEP_CENTER_CROP:
	case SL_STEP_RANDOM_CROP:
	case SL_STEP_RANDOM_RESIZED_CROP:
		known->h = s->h;
		known->w = s->w;
		break;
	case SL_STEP_CUTOUT:
		if (known->h && (s->h > known->h || s->w > known->w))
			return "is larger than the image";
		break;
	default:
		break;
	}
	return NULL;
}

static enum sl_err read_steps(struct sl_transform *t, const struct sl_transform_spec *spec, struct sl_fail *fail)
{
	struct known known = {0};

	t->normalize = t->n;
	for (int i = 0; i < t->n; i++) {
		struct sl_step *s = &t->step[i];
		struct sl_fail why;
		const char *bad;

		if (sl_step_read(s, spec->step[i], spec->out_h, spec->out_w, &why) != SL_OK)
			return sl_fail_set(fail, SL_ERR_CONFIG, "step %d, %.80s: %s", i + 1, spec->step[i], why.text);
		bad = check_place(s, &known, spec);
		if (!bad && s->kind == SL_STEP_NORMALIZE && t->normalize < t->n)
			bad = "there is one Normalize already";
		if (bad)
			return sl_fail_set(fail, SL_ERR_CONFIG, "step %d, %.80s: %s", i + 1, spec->step[i], bad);
		if (s->kind == SL_STEP_NORMALIZE)
			t->normalize = i;
	}
	if (known.h == spec->out_h && known.w == spec->out_w)
		return SL_OK;
	if (!known.h)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "the list does not say the size of its images: end with a crop, or Resize((%d, %d))",
				   spec->out_h, spec->out_w);
	return sl_fail_set(fail, SL_ERR_CONFIG, "the list makes images of %d x %d, model.image is %dx%d", known.h,
			   known.w, spec->out_h, spec->out_w);
}

/* Grey is normalised by the mean of the three colours' values. */
static void level(float x[CHANNELS])
{
	x[0] = x[1] = x[2] = (x[0] + x[1] + x[2]) / CHANNELS;
}

enum sl_err sl_transform_open(struct sl_transform **out, const struct sl_transform_spec *spec, struct sl_fail *fail)
{
	struct sl_transform *t = calloc(1, sizeof *t);
	enum sl_err err;

	if (t)
		t->step = calloc((size_t)spec->n + 1, sizeof *t->step);
	if (!t || !t->step) {
		free(t);
		return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for the transforms");
	}
	t->n = spec->n;
	t->out_h = spec->out_h;
	t->out_w = spec->out_w;
	t->channels = spec->channels == 1 ? 1 : CHANNELS;
	t->slices = spec->slices;
	err = read_steps(t, spec, fail);
	if (err) {
		sl_transform_close(t);
		return err;
	}
	sl_norm_values(spec->norm, t->mean, t->std);
	if (t->channels == 1) {
		level(t->mean);
		level(t->std);
	}
	if (t->normalize < t->n) {
		memcpy(t->mean, t->step[t->normalize].mean, sizeof t->mean);
		memcpy(t->std, t->step[t->normalize].std, sizeof t->std);
	}
	for (int c = 0; c < CHANNELS; c++)
		for (int v = 0; v < LEVELS; v++)
			t->normalised[c][v] = ((float)v / 255.0f - t->mean[c]) / t->std[c];
	*out = t;
	return SL_OK;
}

void sl_transform_close(struct sl_transform *t)
{
	if (!t)
		return;
	free(t->step);
	free(t);
}

int sl_transform_height(const struct sl_transform *t)
{
	return t->out_h;
}

int sl_transform_width(const struct sl_transform *t)
{
	return t->out_w;
}

int sl_transform_channels(const struct sl_transform *t)
{
	return t->channels;
}

void sl_transform_norm(const struct sl_transform *t, float mean[3], float std[3])
{
	memcpy(mean, t->mean, sizeof t->mean);
	memcpy(std, t->std, sizeof t->std);
}

struct sl_transform_draw sl_transform_draw(const struct sl_transform *t, int place, uint64_t seed, uint64_t epoch,
					   int64_t sample, int h, int w)
{
	return sl_step_draw(&t->step[place], place, seed, epoch, sample, h, w);
}

/* ---- one sample ---- */

/* The size that a Resize makes of h × w. */
static void resized(const struct sl_step *s, int h, int w, int *out_h, int *out_w)
{
	*out_h = s->h;
	*out_w = s->w;
	if (s->w)
		return;
	if (w <= h) {
		*out_w = s->h;
		*out_h = (int)((double)((int64_t)s->h * h) / w);
	} else {
		*out_h = s->h;
		*out_w = (int)((double)((int64_t)s->h * w) / h);
	}
}

/* Narrows *window to what the first step uses of the picture (struct sl_wanted). */
static void choose(void *arg, struct sl_window *window)
{
	struct sl_transform_work *work = arg;
	const struct sl_step *s = work->of->step;

	work->chosen = true;
	work->whole[0] = window->h;
	work->whole[1] = window->w;
	if (work->of->slices && window->h != work->of->out_h)
		sl_log_limited(SL_LOG_WARN, "slices-mixed",
			       "a picture has %d rows, and the network's slices have %d together: Resize mixes rows of "
			       "neighbouring slices at their borders. Save pictures with as many rows",
			       window->h, work->of->out_h);
	if (work->of->n && s->kind == SL_STEP_RESIZE) {
		resized(s, window->h, window->w, &window->out_h, &window->out_w);
	} else if (work->of->n && s->kind == SL_STEP_RANDOM_RESIZED_CROP) {
		*window = sl_transform_draw(work->of, 0, work->seed, work->epoch, work->sample, window->h, window->w)
				  .part;
		window->out_h = s->h;
		window->out_w = s->w;
	}
	work->window = *window;
}

const struct sl_wanted *sl_transform_begin(const struct sl_transform *t, struct sl_transform_work *work, uint64_t seed,
					   uint64_t epoch, int64_t sample)
{
	work->of = t;
	work->seed = seed;
	work->epoch = epoch;
	work->sample = sample;
	work->chosen = false;
	work->wanted = (struct sl_wanted){choose, work};
	return &work->wanted;
}

/* A window of the whole picture, as a box in pixels of what was decoded. */
static struct sl_box box_of(const struct sl_window *window, const struct sl_value *picture)
{
	const double shrink = picture->part.shrink ? picture->part.shrink : 1;
	const struct sl_box box = {window->top / shrink - picture->part.top, window->left / shrink - picture->part.left,
				   (window->top + window->h) / shrink - picture->part.top,
				   (window->left + window->w) / shrink - picture->part.left};

	return (struct sl_box){box.top, box.left, fmin(box.bottom, (double)picture->dim[0]),
			       fmin(box.right, (double)picture->dim[1])};
}

static enum sl_err center_crop(struct sl_canvas *c, const struct sl_step *s)
{
	const int pad_top = s->h > c->h ? (s->h - c->h) / 2 : 0, pad_left = s->w > c->w ? (s->w - c->w) / 2 : 0;
	const int top = s->h > c->h ? -pad_top : (int)rint((c->h - s->h) / 2.0);
	const int left = s->w > c->w ? -pad_left : (int)rint((c->w - s->w) / 2.0);

	return sl_canvas_cut(c, top, left, s->h, s->w, s);
}

static enum sl_err random_crop(struct sl_canvas *c, const struct sl_step *s, const struct sl_transform_draw *draw)
{
	int h = c->h, w = c->w;
	const int most = s->mode == SL_PAD_REFLECT ? 1 : 0;

	if (s->mode == SL_PAD_REFLECT || s->mode == SL_PAD_SYMMETRIC)
		if (s->pad_top + most > h || s->pad_bottom + most > h || s->pad_left + most > w ||
		    s->pad_right + most > w)
			return sl_fail_set(c->fail, SL_ERR_DATA,
					   "a picture of %d x %d is too small for RandomCrop's padding", w, h);
	sl_step_padded(s, &h, &w);
	if (h < s->h || w < s->w)
		return sl_fail_set(c->fail, SL_ERR_DATA,
				   "RandomCrop of %d x %d does not fit a picture of %d x %d: resize before it, or set "
				   "pad_if_needed=True",
				   s->w, s->h, w, h);
	return sl_canvas_cut(c, draw->part.top - s->pad_top - (h - c->h - s->pad_top - s->pad_bottom) / 2,
			     draw->part.left - s->pad_left - (w - c->w - s->pad_left - s->pad_right) / 2, s->h, s->w,
			     s);
}

static enum sl_err jitter(struct sl_canvas *c, const struct sl_transform_draw *draw)
{
	static void (*const change[])(uint8_t * pixels, size_t n,
				      float factor) = {sl_colour_brightness, sl_colour_contrast, sl_colour_saturation};
	const size_t n = (size_t)c->h * (size_t)c->w;
	void *out = sl_canvas_own(c);

	for (int i = 0; i < COLOURS && out; i++) {
		const int colour = draw->order[i];
		const double factor = draw->factor[colour];

		if (isnan(factor))
			continue;
		if (c->deep)
			sl_colour_deep(out, n, c->channels, colour, factor);
		else if (colour < HUE)
			change[colour](out, n, (float)factor);
		else
			sl_colour_hue(out, n, factor);
	}
	return out ? SL_OK : SL_ERR_NOMEM;
}

static enum sl_err grey(struct sl_canvas *c)
{
	void *out = sl_canvas_own(c);

	if (out && c->deep)
		sl_colour_deep(out, (size_t)c->h * (size_t)c->w, c->channels, 2, 0);
	else if (out)
		sl_colour_saturation(out, (size_t)c->h * (size_t)c->w, 0);
	return out ? SL_OK : SL_ERR_NOMEM;
}

static enum sl_err turn(struct sl_canvas *c, const struct sl_step *s, const struct sl_transform_draw *draw)
{
	const double middle[2] = {c->w * 0.5, c->h * 0.5};
	const double *centre = s->centred ? s->centre : middle;
	double m[6];

	if (s->kind == SL_STEP_RANDOM_ROTATION)
		sl_warp_rotate(m, draw->angle, centre);
	else
		sl_warp_affine(m, draw->angle, centre, draw->shift, draw->scale, draw->shear);
	return sl_canvas_warp(c, m, s->bilinear, s->fill);
}

/* The step as the canvas takes it: a mask is not interpolated, and is filled with SL_LEARN_IGNORED. */
static struct sl_step step_of(const struct sl_canvas *c, const struct sl_step *s)
{
	struct sl_step own = *s;

	if (c->mask) {
		memset(own.fill, SL_LEARN_IGNORED, sizeof own.fill);
		own.bilinear = false;
	}
	return own;
}

/* Does one step, unless it works on floats: normalise and erase do those. */
static enum sl_err do_step(struct sl_canvas *c, const struct sl_transform_work *work, int place)
{
	const struct sl_step own = step_of(c, &work->of->step[place]), *s = &own;
	const struct sl_transform_draw draw =
		sl_transform_draw(work->of, place, work->seed, work->epoch, work->sample, c->h, c->w);
	int h, w;

	switch (s->kind) {
	case SL_STEP_RESIZE:
		resized(s, c->h, c->w, &h, &w);
		return sl_canvas_resample(c, &(struct sl_box){0, 0, c->h, c->w}, h, w);
	case SL_STEP_RANDOM_RESIZED_CROP:
		return sl_canvas_resample(c,
					  &(struct sl_box){draw.part.top, draw.part.left, draw.part.top + draw.part.h,
							   draw.part.left + draw.part.w},
					  s->h, s->w);
	case SL_STEP_CENTER_CROP:
		return center_crop(c, s);
	case SL_STEP_RANDOM_CROP:
		return random_crop(c, s, &draw);
	case SL_STEP_HORIZONTAL_FLIP:
	case SL_STEP_VERTICAL_FLIP:
		return draw.skip ? SL_OK : sl_canvas_flip(c, s->kind == SL_STEP_HORIZONTAL_FLIP);
	case SL_STEP_COLOR_JITTER:
		return c->mask ? SL_OK : jitter(c, &draw);
	case SL_STEP_RANDOM_ROTATION:
	case SL_STEP_RANDOM_AFFINE:
		return turn(c, s, &draw);
	case SL_STEP_GRAYSCALE:
	case SL_STEP_RANDOM_GRAYSCALE:
		return draw.skip || c->mask ? SL_OK : grey(c);
	case SL_STEP_RAND_AUGMENT:
		return sl_rand_augment(c, s, &draw);
	default:
		return SL_OK; /* a step on floats */
	}
}

/* Erases a part of the normalised image. An erasure after Normalize fills in its value; one before it fills in what
 * Normalize makes of that value. */
static void erase_part(const struct sl_transform_work *work, float *out, int place, const struct sl_window *part)
{
	const struct sl_transform *t = work->of;
	const struct sl_step *s = &t->step[place];
	uint32_t n = 0;
	float noise[4];

	for (int y = 0; y < part->h; y++) {
		float *row = out + ((ptrdiff_t)(part->top + y) * t->out_w + part->left) * t->channels;

		for (int i = 0; i < part->w * t->channels; i++, n++) {
			const int c = i % t->channels;
			float value = s->value[c];

			if (s->noise && n % 4 == 0)
				sl_step_noise(place, work->seed, work->epoch, work->sample, n / 4, noise);
			if (s->noise)
				value = noise[n % 4];
			row[i] = place < t->normalize ? (value - t->mean[c]) / t->std[c] : value;
		}
	}
}

/* Does all erasures, in the order of the list. */
static void erase(const struct sl_transform_work *work, float *out)
{
	const struct sl_transform *t = work->of;

	for (int i = 0; i < t->n; i++) {
		struct sl_transform_draw draw;

		if (t->step[i].kind != SL_STEP_RANDOM_ERASING && t->step[i].kind != SL_STEP_CUTOUT)
			continue;
		draw = sl_transform_draw(t, i, work->seed, work->epoch, work->sample, t->out_h, t->out_w);
		if (!draw.skip)
			erase_part(work, out, i, &draw.part);
	}
}

static enum sl_err do_steps(struct sl_canvas *c, const struct sl_transform_work *work, const struct sl_value *picture)
{
	const struct sl_window *window = &work->window;
	const struct sl_box box = box_of(window, picture);
	int first = 0;
	enum sl_err err = SL_OK;

	if (window->out_h) {
		err = sl_canvas_resample(c, &box, window->out_h, window->out_w);
		first = 1;
	}
	for (int i = first; i < work->of->n && !err; i++)
		err = do_step(c, work, i);
	return err;
}

/* Normalises the canvas. One of bytes has three channels, of which grey needs one. */
static void normalise(const struct sl_transform *t, float *out, const struct sl_canvas *c)
{
	const ptrdiff_t n = (ptrdiff_t)c->h * c->w;
	const uint8_t *bytes = c->pixels;
	const float *deep = c->pixels;

	for (ptrdiff_t i = 0; i < n && !c->deep; i++)
		for (int k = 0; k < t->channels; k++)
			out[i * t->channels + k] = t->normalised[k][bytes[i * CHANNELS + k]];
	for (ptrdiff_t i = 0; i < n && c->deep; i++)
		for (int k = 0; k < t->channels; k++)
			out[i * t->channels + k] = (deep[i * c->channels + k] / 65535.0f - t->mean[k]) / t->std[k];
}

enum sl_err sl_transform_apply(struct sl_transform_work *work, float *out, const struct sl_value *picture,
			       struct sl_fail *fail)
{
	const struct sl_transform *t = work->of;
	struct sl_canvas c = {.image = work->image,
			      .tables = &work->tables,
			      .pixels = picture->data,
			      .h = (int)picture->dim[0],
			      .w = (int)picture->dim[1],
			      .channels = (int)picture->dim[2],
			      .deep = picture->deep,
			      .fail = fail};
	enum sl_err err;

	if (!work->chosen) {
		struct sl_window whole = {0, 0, c.h, c.w, 0, 0};

		choose(work, &whole);
	}
	err = do_steps(&c, work, picture);
	if (err)
		return err;
	normalise(t, out, &c);
	erase(work, out);
	return SL_OK;
}

enum sl_err sl_transform_mask(struct sl_transform_work *work, int32_t *out, const struct sl_value *mask,
			      struct sl_fail *fail)
{
	const struct sl_transform *t = work->of;
	struct sl_canvas c = {.image = work->image,
			      .tables = &work->tables,
			      .pixels = mask->data,
			      .h = (int)mask->dim[0],
			      .w = (int)mask->dim[1],
			      .channels = 1,
			      .mask = true,
			      .fail = fail};
	enum sl_err err;

	if (c.h != work->whole[0] || c.w != work->whole[1])
		return sl_fail_set(fail, SL_ERR_DATA, "the mask is of %d x %d, and its picture of %d x %d", c.w, c.h,
				   work->whole[1], work->whole[0]);
	err = do_steps(&c, work, mask);
	for (int64_t i = 0; i < (int64_t)t->out_h * t->out_w && !err; i++)
		out[i] = ((const uint8_t *)c.pixels)[i];
	return err;
}

void sl_transform_back(const struct sl_transform *t, uint8_t *out, int h, int w, const uint8_t *mask)
{
	double scale[2] = {1, 1}, at[2] = {0, 0}; /* pixel y of the picture is scale[0] · (y + 1/2) + at[0] here */
	int size[2] = {h, w};

	for (int i = 0; i < t->n; i++) {
		const struct sl_step *s = &t->step[i];
		int next[2] = {s->h, s->w};

		if (s->kind == SL_STEP_RESIZE)
			resized(s, size[0], size[1], &next[0], &next[1]);
		else if (s->kind != SL_STEP_CENTER_CROP)
			continue;
		for (int k = 0; k < 2; k++) {
			const double by = s->kind == SL_STEP_RESIZE ? (double)next[k] / size[k] : 1;
			const int more = size[k] - next[k];

			scale[k] *= by;
			at[k] *= by;
			if (s->kind == SL_STEP_CENTER_CROP)
				at[k] -= more < 0 ? more / 2 : (int)rint(more / 2.0);
			size[k] = next[k];
		}
	}
	for (int y = 0; y < h; y++)
		for (int x = 0; x < w; x++) {
			const double v = floor(scale[0] * (y + 0.5) + at[0]), u = floor(scale[1] * (x + 0.5) + at[1]);
			const bool inside = v >= 0 && v < t->out_h && u >= 0 && u < t->out_w;

			*out++ = inside ? mask[(ptrdiff_t)v * t->out_w + (ptrdiff_t)u] : SL_LEARN_IGNORED;
		}
}

void sl_transform_work_close(struct sl_transform_work *work)
{
	sl_room_close(&work->image[0]);
	sl_room_close(&work->image[1]);
	sl_room_close(&work->tables);
}

void sl_transform_usual(struct sl_conf_list *out, int h, int w, bool train)
{
	const int side = h < w ? h : w;
	char first[64];

	out->n = 0;
	if (side < SMALL)
		snprintf(first, sizeof first, "Resize((%d, %d))", h, w);
	else if (train)
		snprintf(first, sizeof first, "RandomResizedCrop((%d, %d))", h, w);
	else if (h == w)
		snprintf(first, sizeof first, "Resize(%d)", (h * 8 + 3) / 7);
	else
		snprintf(first, sizeof first, "Resize((%d, %d))", h, w);
	strcpy(out->item[out->n++], first);
	if (side < SMALL && train)
		snprintf(out->item[out->n++], SL_CONF_TEXT, "RandomCrop((%d, %d), padding=%d)", h, w, side / 8);
	if (side >= SMALL && !train && h == w)
		snprintf(out->item[out->n++], SL_CONF_TEXT, "CenterCrop(%d)", h);
	if (train)
		strcpy(out->item[out->n++], "RandomHorizontalFlip()");
}
