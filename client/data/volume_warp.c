#include "client/data/volume_warp.h"

#include <math.h>

#include "common/base/half.h"
#include "common/base/rng.h"
#include "common/graph/task.h"

static double between(uint32_t word, double low, double high)
{
	return low + (high - low) * (double)sl_rng_unit(word);
}

/* m = m · a rotation about one axis, which the other two span. */
static void rotate(double m[3][3], int axis, double degrees)
{
	const double c = cos(degrees * M_PI / 180), s = sin(degrees * M_PI / 180);
	const int i = (axis + 1) % 3, k = (axis + 2) % 3;

	for (int r = 0; r < 3; r++) {
		const double a = m[r][i], b = m[r][k];

		m[r][i] = a * c + b * s;
		m[r][k] = b * c - a * s;
	}
}

bool sl_volume_warp_draw(double m[3][3], const struct sl_step *s, const struct sl_sample_draw *draw, int64_t sample,
			 const struct sl_volume *of)
{
	const struct sl_rng_key key = {.seed = draw->seed, .step = draw->epoch, .chunk = 1, .tensor = SL_RNG_PATCH};
	uint32_t choice[4], angle[4];
	double size;

	sl_rng_quad(&key, (uint32_t)(sample * SL_VOLUME_QUADS), choice);
	sl_rng_quad(&key, (uint32_t)(sample * SL_VOLUME_QUADS + 1), angle);
	if (s->kind != SL_STEP_AFFINE_3D || !((double)sl_rng_unit(choice[0]) < s->p))
		return false;
	size = 1 + between(choice[1], -s->spread[0], s->spread[0]);
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 3; k++)
			m[i][k] = i == k;
	for (int axis = 0; axis < 3; axis++)
		rotate(m, axis, between(angle[axis], -s->turn[axis], s->turn[axis]));
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 3; k++)
			m[i][k] *= sl_world_spacing(&of->head->world, k) / sl_world_spacing(&of->head->world, i) / size;
	return true;
}

/* Interpolates all channels at a place that is less than half a voxel outside at most. */
static void interpolate(float *out, const struct sl_volume *of, const double at[3])
{
	const int64_t *n = of->head->dim, channels = of->head->channels;
	int64_t low[3], step[3] = {n[1] * n[2], n[2], 1};
	float share[3];

	for (int axis = 0; axis < 3; axis++) {
		const double x = fmin(fmax(at[axis], 0), (double)(n[axis] - 1));

		low[axis] = (int64_t)x;
		share[axis] = (float)(x - (double)low[axis]);
		step[axis] *= low[axis] + 1 < n[axis];
	}
	for (int64_t c = 0; c < channels; c++) {
		const uint16_t *from = of->voxel + ((low[0] * n[1] + low[1]) * n[2] + low[2]) * channels + c;
		float x[8];

		for (int k = 0; k < 8; k++)
			x[k] = sl_float_of_f16(
				from[((k >> 2) * step[0] + (k >> 1 & 1) * step[1] + (k & 1) * step[2]) * channels]);
		for (int axis = 2, half = 1; axis >= 0; axis--, half *= 2)
			for (int k = 0; k < 8; k += 2 * half)
				x[k] += (x[k + half] - x[k]) * share[axis];
		out[c] = x[0];
	}
}

enum sl_err sl_volume_warp(const struct sl_volume *of, const struct sl_volume_spec *spec, const int64_t at[3],
			   double m[3][3], int classes, float *voxel, int32_t *mask, struct sl_fail *fail)
{
	const int64_t *n = spec->patch, *has = of->head->dim, channels = of->head->channels;
	const float background = sl_volume_background(&spec->intensity);

	for (int64_t v = 0; v < n[0] * n[1] * n[2]; v++, voxel += channels) {
		const int64_t place[3] = {v / n[2] / n[1], v / n[2] % n[1], v % n[2]};
		double from[3];
		int64_t near = 0;
		bool there = true;

		for (int i = 0; i < 3; i++) {
			from[i] = (double)at[i] + (double)(n[i] - 1) / 2;
			for (int k = 0; k < 3; k++)
				from[i] += m[i][k] * ((double)place[k] - (double)(n[k] - 1) / 2);
			there = there && from[i] > -0.5 && from[i] < (double)has[i] - 0.5;
			near = near * has[i] + (there ? (int64_t)(from[i] + 0.5) : 0);
		}
		if (there)
			interpolate(voxel, of, from);
		for (int64_t c = 0; c < channels && !there; c++)
			voxel[c] = background;
		if (!mask)
			continue;
		mask[v] = there ? of->mask[near] : SL_LEARN_IGNORED;
		if (mask[v] >= classes && mask[v] != SL_LEARN_IGNORED)
			return sl_fail_set(fail, SL_ERR_DATA, "its mask " SL_VOLUME_CLASS, mask[v], classes - 1,
					   SL_LEARN_IGNORED);
	}
	return SL_OK;
}
