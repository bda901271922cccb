#include "client/predict/windows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t begin_of(const struct sl_windows *w, int axis, int64_t i)
{
	const int64_t patch = w->patch[axis], side = w->dim[axis], n = w->count[axis];

	return n > 1 ? i * (side - patch) / (n - 1) : sl_patch_around(0, patch, side);
}

static double weight(int64_t i, int64_t n)
{
	const double off = ((double)i - (double)(n - 1) / 2) / ((double)n / 8);

	return exp(-off * off / 2);
}

enum sl_err sl_windows_open(struct sl_windows *w, const int64_t dim[3], const int64_t patch[3], int classes,
			    struct sl_fail *fail)
{
	*w = (struct sl_windows){.classes = classes};
	w->mean = calloc((size_t)(dim[0] * dim[1] * dim[2]), (size_t)classes * sizeof *w->mean);
	for (int axis = 0; axis < 3; axis++) {
		const int64_t n = patch[axis], more = dim[axis] - n;

		w->dim[axis] = dim[axis];
		w->patch[axis] = n;
		w->count[axis] = more <= 0 ? 1 : (2 * more + n - 1) / n + 1;
		w->total[axis] = calloc((size_t)dim[axis], sizeof *w->total[axis]);
		if (!w->total[axis] || !w->mean)
			return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the logits of %d classes", classes);
		for (int64_t i = 0; i < w->count[axis] * n; i++) {
			const int64_t at = begin_of(w, axis, i / n) + i % n;

			if (at >= 0 && at < dim[axis])
				w->total[axis][at] += weight(i % n, n);
		}
	}
	return SL_OK;
}

void sl_windows_close(struct sl_windows *w)
{
	free(w->mean);
	for (int axis = 0; axis < 3; axis++)
		free(w->total[axis]);
	*w = (struct sl_windows){.mean = NULL};
}

int64_t sl_windows_count(const struct sl_windows *w)
{
	return w->count[0] * w->count[1] * w->count[2];
}

void sl_windows_begin(const struct sl_windows *w, int64_t i, int64_t at[3])
{
	for (int axis = 2; axis >= 0; axis--) {
		at[axis] = begin_of(w, axis, i % w->count[axis]);
		i /= w->count[axis];
	}
}

/* The part that place i of a window has in the mean of a voxel, along one axis; 0: it lies outside. */
static float share(const struct sl_windows *w, int axis, int64_t begin, int64_t i)
{
	const int64_t at = begin + i;

	return at < 0 || at >= w->dim[axis] ? 0 : (float)(weight(i, w->patch[axis]) / w->total[axis][at]);
}

void sl_windows_add(struct sl_windows *w, int64_t i, const float *logits)
{
	const int64_t *n = w->patch, *dim = w->dim;
	float across[SL_CONF_MAX_PATCH];
	int64_t at[3];

	sl_windows_begin(w, i, at);
	for (int64_t x = 0; x < n[2]; x++)
		across[x] = share(w, 2, at[2], x);
	for (int64_t r = 0; r < n[0] * n[1]; r++) {
		const int64_t d = r / n[1], h = r % n[1];
		const float row = share(w, 0, at[0], d) * share(w, 1, at[1], h);
		const int64_t to = (((at[0] + d) * dim[1] + at[1] + h) * dim[2] + at[2]) * w->classes;

		for (int64_t v = 0; v < n[2] * w->classes && row > 0; v++) {
			const float x = logits[r * n[2] * w->classes + v], by = row * across[v / w->classes];

			w->undefined |= !isfinite(x);
			if (by > 0)
				w->mean[to + v] += by * x;
		}
	}
}

/* row [W, classes] = between four rows of means. */
static void blend(const struct sl_windows *w, const struct sl_between *d, const struct sl_between *h, float *row)
{
	const int64_t n = w->dim[2] * w->classes;
	const float *corner[4];

	for (int k = 0; k < 4; k++)
		corner[k] = w->mean + ((k < 2 ? d->low : d->high) * w->dim[1] + (k % 2 ? h->high : h->low)) * n;
	for (int64_t i = 0; i < n; i++) {
		const float up = corner[0][i] + (corner[1][i] - corner[0][i]) * h->share;
		const float down = corner[2][i] + (corner[3][i] - corner[2][i]) * h->share;

		row[i] = up + (down - up) * d->share;
	}
}

static uint8_t choose(const float *row, const struct sl_between *x, int classes)
{
	const float *low = row + x->low * classes, *high = row + x->high * classes;
	float most = -INFINITY;
	int best = 0;

	for (int k = 0; k < classes; k++) {
		const float logit = low[k] + (high[k] - low[k]) * x->share;

		best = logit > most ? k : best;
		most = fmaxf(logit, most);
	}
	return (uint8_t)best;
}

enum sl_err sl_windows_label(const struct sl_windows *w, const struct sl_volume_head *head,
			     const struct sl_volume_back *back, uint8_t *label, struct sl_fail *fail)
{
	const int64_t *n = head->kept, *step = back->view.step;
	struct sl_between *axis[3] = {NULL};
	float *row = malloc((size_t)w->dim[2] * (size_t)w->classes * sizeof *row);
	bool fits = row != NULL;

	memset(label, 0, (size_t)(back->file.dim[0] * back->file.dim[1] * back->file.dim[2]));
	label += back->view.first;
	for (int k = 0; k < 3; k++) {
		label += head->crop[k] * step[k];
		axis[k] = malloc((size_t)n[k] * sizeof *axis[k]);
		fits = fits && axis[k];
		if (axis[k])
			sl_between_lay(axis[k], n[k], 1 / back->step[k], w->dim[k]);
	}
	for (int64_t r = 0; r < n[0] * n[1] && fits; r++) {
		blend(w, &axis[0][r / n[1]], &axis[1][r % n[1]], row);
		for (int64_t x = 0; x < n[2]; x++)
			label[r / n[1] * step[0] + r % n[1] * step[1] + x * step[2]] =
				choose(row, &axis[2][x], w->classes);
	}
	for (int k = 0; k < 3; k++)
		free(axis[k]);
	free(row);
	if (w->undefined)
		return sl_fail_set(
			fail, SL_ERR_NONFINITE,
			"the network's outputs hold NaN or Inf: look at this case, and whether `splitc eval` "
			"has a loss");
	return fits ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a mask");
}
