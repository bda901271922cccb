#include "client/data/volume_step.h"

#include <math.h>

#include "common/base/rng.h"

enum sl_err sl_volume_steps_read(struct sl_step out[SL_VOLUME_STEPS], const struct sl_volume_spec *spec,
				 struct sl_fail *fail)
{
	if (spec->steps > SL_VOLUME_STEPS)
		return sl_fail_at(fail, "data.transforms", SL_ERR_CONFIG, "at most %d steps", SL_VOLUME_STEPS);
	for (int i = 0; i < spec->steps; i++) {
		struct sl_fail why = {.text = ""};

		if (sl_step_read(&out[i], spec->step[i], 1, 1, &why) != SL_OK)
			return sl_fail_at(fail, "data.transforms", SL_ERR_CONFIG, "step %d, %.80s: %s", i + 1,
					  spec->step[i], why.text);
		if (out[i].kind < SL_STEP_VOLUMES)
			return sl_fail_at(fail, "data.transforms", SL_ERR_CONFIG,
					  "step %d, %.80s: is of pictures; volumes have RandomFlip, RandomGamma, "
					  "RandomNoise, RandomIntensity and RandomAffine3d",
					  i + 1, spec->step[i]);
		if (out[i].kind == SL_STEP_AFFINE_3D && i)
			return sl_fail_at(fail, "data.transforms", SL_ERR_CONFIG,
					  "step %d, %.80s: must be the first step, since it cuts out the patch", i + 1,
					  spec->step[i]);
	}
	return SL_OK;
}

static void swap_words(uint32_t *a, uint32_t *b, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		const uint32_t x = a[i];

		a[i] = b[i];
		b[i] = x;
	}
}

/* Turns the middle axis of [outer, n, inner]. */
static void turn(void *data, int64_t outer, int64_t n, int64_t inner)
{
	uint32_t *x = data;

	for (int64_t o = 0; o < outer; o++, x += n * inner)
		for (int64_t i = 0; i < n / 2; i++)
			swap_words(x + i * inner, x + (n - 1 - i) * inner, inner);
}

static void flip(const struct sl_step *s, const uint32_t *word, float *voxel, int32_t *mask, const int64_t dim[3],
		 int64_t channels)
{
	const int64_t outer[3] = {1, dim[0], dim[0] * dim[1]}, inner[3] = {dim[1] * dim[2], dim[2], 1};

	for (int axis = 0; axis < 3; axis++) {
		if (!s->axis[axis] || !((double)sl_rng_unit(word[axis]) < s->p))
			continue;
		turn(voxel, outer[axis], dim[axis], inner[axis] * channels);
		if (mask)
			turn(mask, outer[axis], dim[axis], inner[axis]);
	}
}

static double between(uint32_t word, double low, double high)
{
	return low + (high - low) * (double)sl_rng_unit(word);
}

/* Raises one channel to a power, between its own least and largest number. */
static void bend(float *x, int64_t n, int64_t channels, double gamma)
{
	float low = INFINITY, high = -INFINITY;

	for (int64_t i = 0; i < n; i++) {
		low = fminf(low, x[i * channels]);
		high = fmaxf(high, x[i * channels]);
	}
	for (int64_t i = 0; i < n && high > low; i++)
		x[i * channels] = low + (high - low) * powf((x[i * channels] - low) / (high - low), (float)gamma);
}

static void add_noise(float *x, int64_t n, uint64_t seed, double deviation)
{
	const struct sl_rng_key key = {.seed = seed, .tensor = SL_RNG_PATCH};

	for (int64_t i = 0; i < n; i += 4) {
		uint32_t word[4];
		float normal[4];

		sl_rng_quad(&key, (uint32_t)(i / 4), word);
		sl_rng_normal2(word[0], word[1], normal);
		sl_rng_normal2(word[2], word[3], normal + 2);
		for (int64_t k = i; k < n && k < i + 4; k++)
			x[k] += (float)deviation * normal[k - i];
	}
}

static void apply(const struct sl_step *s, const uint32_t *word, float *voxel, int32_t *mask, const int64_t dim[3],
		  int64_t channels)
{
	const int64_t n = dim[0] * dim[1] * dim[2];
	const double factor = 1 + between(word[1], -s->spread[0], s->spread[0]);
	const double more = between(word[2], -s->spread[1], s->spread[1]);

	if (s->kind == SL_STEP_FLIP)
		flip(s, word, voxel, mask, dim, channels);
	if (s->kind == SL_STEP_FLIP || !((double)sl_rng_unit(word[0]) < s->p))
		return;
	for (int64_t c = 0; c < channels && s->kind == SL_STEP_GAMMA; c++)
		bend(voxel + c, n, channels, between(word[1], s->gamma[0], s->gamma[1]));
	if (s->kind == SL_STEP_NOISE)
		add_noise(voxel, n * channels, (uint64_t)word[2] << 32 | word[3], between(word[1], 0, s->spread[0]));
	for (int64_t i = 0; i < n * channels && s->kind == SL_STEP_INTENSITY; i++)
		voxel[i] = (float)((double)voxel[i] * factor + more);
}

void sl_volume_steps_apply(const struct sl_step *step, int n, const struct sl_sample_draw *draw, int64_t sample,
			   float *voxel, int32_t *mask, const int64_t dim[3], int64_t channels)
{
	for (int i = 0; i < n; i++) {
		const struct sl_rng_key key = {
			.seed = draw->seed, .step = draw->epoch, .chunk = (uint16_t)(i + 1), .tensor = SL_RNG_PATCH};
		uint32_t word[4];

		sl_rng_quad(&key, (uint32_t)(sample * SL_VOLUME_QUADS), word);
		apply(&step[i], word, voxel, mask, dim, channels);
	}
}
