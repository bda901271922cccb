/* Random choices for a step of a list of transforms, as by torchvision's get_params. */
#include "client/data/transform_draw.h"

#include <math.h>

#include "client/data/rand_augment.h"
#include "common/base/rng.h"

enum { WORDS = 32, ATTEMPTS = 10, COLOURS = 4 };

static double between(uint32_t word, const double range[2])
{
	return range[0] + (range[1] - range[0]) * (double)sl_rng_unit(word);
}

/* Draws height and width of a part of h × w pixels, by random area and aspect ratio: height / width for
 * RandomErasing (`erases`), width / height for crops. */
static void draw_sides(const struct sl_step *s, const uint32_t *word, int h, int w, bool erases, double *out_h,
		       double *out_w)
{
	const double log_ratio[2] = {log(s->ratio[0]), log(s->ratio[1])};
	const double area = (double)h * w * between(word[0], s->scale), ratio = exp(between(word[1], log_ratio));

	*out_w = rint(sqrt(erases ? area / ratio : area * ratio));
	*out_h = rint(sqrt(erases ? area * ratio : area / ratio));
}

static struct sl_window placed(int h, int w, int inside_h, int inside_w, const uint32_t *word)
{
	return (struct sl_window){.top = (int)sl_rng_below(word[0], (uint32_t)(inside_h - h) + 1),
				  .left = (int)sl_rng_below(word[1], (uint32_t)(inside_w - w) + 1),
				  .h = h,
				  .w = w};
}

/* As torchvision's get_params: ten attempts, then the largest part in the middle with an allowed aspect ratio. */
static struct sl_window draw_part(const struct sl_step *s, const uint32_t word[WORDS], int h, int w)
{
	const double shape = (double)w / h;
	int part_h = h, part_w = w;

	for (int i = 0; i < ATTEMPTS; i++) {
		double ph, pw;

		draw_sides(s, word + 2 * i, h, w, false, &ph, &pw);
		if (ph > 0 && pw > 0 && ph <= h && pw <= w)
			return placed((int)ph, (int)pw, h, w, word + 2 * ATTEMPTS);
	}
	if (shape < s->ratio[0])
		part_h = (int)rint(w / s->ratio[0]);
	else if (shape > s->ratio[1])
		part_w = (int)rint(h * s->ratio[1]);
	return (struct sl_window){.top = (h - part_h) / 2, .left = (w - part_w) / 2, .h = part_h, .w = part_w};
}

static struct sl_transform_draw draw_erasure(const struct sl_step *s, const uint32_t word[WORDS], int h, int w)
{
	struct sl_transform_draw draw = {.skip = true};

	if ((double)sl_rng_unit(word[0]) >= s->p)
		return draw;
	for (int i = 0; i < ATTEMPTS && draw.skip; i++) {
		double ph, pw;

		draw_sides(s, word + 1 + 2 * i, h, w, true, &ph, &pw);
		if (ph < h && pw < w) {
			draw.part = placed((int)ph, (int)pw, h, w, word + 1 + 2 * ATTEMPTS);
			draw.skip = false;
		}
	}
	return draw;
}

static struct sl_transform_draw draw_jitter(const struct sl_step *s, const uint32_t word[WORDS])
{
	struct sl_transform_draw draw = {.order = {0, 1, 2, 3}};

	for (int last = COLOURS - 1; last > 0; last--) {
		const int other = (int)sl_rng_below(word[last], (uint32_t)last + 1), swap = draw.order[last];

		draw.order[last] = draw.order[other];
		draw.order[other] = swap;
	}
	for (int i = 0; i < COLOURS; i++) {
		const double neutral = sl_step_neutral(i);

		draw.factor[i] = s->range[i][0] == neutral && s->range[i][1] == neutral
					 ? (double)NAN
					 : between(word[COLOURS + i], s->range[i]);
	}
	return draw;
}

/* torchvision rounds the shift to whole pixels, half to even. */
static void draw_affine(struct sl_transform_draw *draw, const struct sl_step *s, const uint32_t word[WORDS], int h,
			int w)
{
	const double most[2] = {s->translate[0] * w, s->translate[1] * h};

	draw->angle = between(word[0], s->degrees);
	for (int i = 0; i < 2; i++)
		draw->shift[i] = rint(between(word[1 + i], (double[]){-most[i], most[i]}));
	draw->scale = between(word[3], s->grow);
	for (int i = 0; i < 2; i++)
		draw->shear[i] = between(word[4 + i], s->shear[i]);
}

static void draw_ops(struct sl_transform_draw *draw, const struct sl_step *s, const uint32_t word[WORDS])
{
	for (int i = 0; i < s->ops; i++) {
		draw->op[i] = (int)sl_rng_below(word[2 * i], SL_RAND_AUGMENT_OPS);
		draw->negative[i] = word[2 * i + 1] >> 31;
	}
}

void sl_step_padded(const struct sl_step *s, int *h, int *w)
{
	*h += s->pad_top + s->pad_bottom;
	*w += s->pad_left + s->pad_right;
	if (s->pad_if_needed && *w < s->w)
		*w += 2 * (s->w - *w);
	if (s->pad_if_needed && *h < s->h)
		*h += 2 * (s->h - *h);
}

/* By Box and Muller. The elements count the numbers of one sample, so the sample itself goes into the seed. */
void sl_step_noise(int place, uint64_t seed, uint64_t epoch, int64_t sample, uint32_t four, float out[4])
{
	const struct sl_rng_key key = {.seed = seed + (uint64_t)sample * 0x9e3779b97f4a7c15u,
				       .step = epoch,
				       .chunk = (uint16_t)(0x8000 | (place + 1)),
				       .tensor = SL_RNG_AUGMENT};
	uint32_t word[4];

	sl_rng_quad(&key, four, word);
	for (int i = 0; i < 4; i += 2) {
		const double radius = sqrt(-2 * log(1 - (double)sl_rng_unit(word[i])));
		const double angle = 2 * M_PI * (double)sl_rng_unit(word[i + 1]);

		out[i] = (float)(radius * cos(angle));
		out[i + 1] = (float)(radius * sin(angle));
	}
}

struct sl_transform_draw sl_step_draw(const struct sl_step *s, int place, uint64_t seed, uint64_t epoch, int64_t sample,
				      int h, int w)
{
	const struct sl_rng_key key = {
		.seed = seed, .step = epoch, .chunk = (uint16_t)(place + 1), .tensor = SL_RNG_AUGMENT};
	struct sl_transform_draw draw = {.skip = false};
	uint32_t word[WORDS];

	for (uint32_t i = 0; i < WORDS / 4; i++)
		sl_rng_quad(&key, (uint32_t)sample * (WORDS / 4) + i, word + 4 * (size_t)i);
	switch (s->kind) {
	case SL_STEP_RANDOM_RESIZED_CROP:
		draw.part = draw_part(s, word, h, w);
		break;
	case SL_STEP_RANDOM_CROP:
		sl_step_padded(s, &h, &w);
		if (h >= s->h && w >= s->w)
			draw.part = placed(s->h, s->w, h, w, word);
		break;
	case SL_STEP_CUTOUT:
		if (h >= s->h && w >= s->w)
			draw.part = placed(s->h, s->w, h, w, word);
		break;
	case SL_STEP_HORIZONTAL_FLIP:
	case SL_STEP_VERTICAL_FLIP:
	case SL_STEP_RANDOM_GRAYSCALE:
		draw.skip = (double)sl_rng_unit(word[0]) >= s->p;
		break;
	case SL_STEP_RANDOM_ERASING:
		draw = draw_erasure(s, word, h, w);
		break;
	case SL_STEP_COLOR_JITTER:
		draw = draw_jitter(s, word);
		break;
	case SL_STEP_RANDOM_ROTATION:
	case SL_STEP_RANDOM_AFFINE:
		draw_affine(&draw, s, word, h, w);
		break;
	case SL_STEP_RAND_AUGMENT:
		draw_ops(&draw, s, word);
		break;
	default:
		break;
	}
	return draw;
}
