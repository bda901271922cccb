#include "client/figures/overlap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/graph/task.h"

static const float nowhere = 1e30f; /* squared, in mm: further than any voxel */

/* A class in two masks: the smallest box around both. Axis 0 is the one whose neighbours lie side by side. */
struct pair {
	const uint8_t *mask[2];
	int class;
	const int64_t *dim;
	const double *spacing;
	int64_t low[3], side[3];
	float *field;          /* [side 2, side 1, side 0], squared distances to a surface */
	float *distance;       /* of the other surface's voxels */
	struct parabola *line; /* [longest side] */
};

/* A parabola of the lower envelope: its lowest point, and from where on it is the lowest one. */
struct parabola {
	double at, height, begin;
};

static bool is_surface(const struct pair *p, int which, int64_t i, int64_t j, int64_t k)
{
	const int64_t at[3] = {i, j, k}, step[3] = {1, p->dim[0], p->dim[0] * p->dim[1]};
	const uint8_t *x = p->mask[which] + i + j * step[1] + k * step[2];

	if (*x != p->class)
		return false;
	for (int axis = 0; axis < 3; axis++)
		if (at[axis] == 0 || at[axis] == p->dim[axis] - 1 || x[-step[axis]] != p->class ||
		    x[step[axis]] != p->class)
			return true;
	return false;
}

/* Along one line of n numbers: x becomes the least of x at another place and the square of how far away that is. */
static void transform(float *x, int64_t n, int64_t step, double spacing, struct parabola *line)
{
	int64_t last = -1, i = 0;

	for (int64_t q = 0; q < n; q++) {
		const double at = (double)q * spacing, height = (double)x[q * step];
		double begin = -INFINITY;

		if (x[q * step] >= nowhere)
			continue;
		for (; last >= 0; last--) {
			const struct parabola *l = &line[last];

			begin = (height + at * at - l->height - l->at * l->at) / (2 * (at - l->at));
			if (begin > l->begin)
				break;
			begin = -INFINITY;
		}
		line[++last] = (struct parabola){at, height, begin};
	}
	for (int64_t q = 0; q < n && last >= 0; q++) {
		const double at = (double)q * spacing;

		while (i < last && line[i + 1].begin < at)
			i++;
		x[q * step] = (float)((at - line[i].at) * (at - line[i].at) + line[i].height);
	}
}

/* The square of how far each voxel of the box is from the surface of a mask. */
static void fill_field(struct pair *p, int which)
{
	const int64_t *n = p->side, step[3] = {1, n[0], n[0] * n[1]}, voxels = n[0] * n[1] * n[2];

	for (int64_t v = 0; v < voxels; v++)
		p->field[v] =
			is_surface(p, which, p->low[0] + v % n[0], p->low[1] + v / n[0] % n[1], p->low[2] + v / step[2])
				? 0
				: nowhere;
	for (int axis = 0; axis < 3; axis++)
		for (int64_t v = 0; v < voxels; v++)
			if (v / step[axis] % n[axis] == 0)
				transform(p->field + v, n[axis], step[axis], p->spacing[axis], p->line);
}

static int by_size(const void *a, const void *b)
{
	const float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* The percentile of distances from the surface of a mask to that of the other one. */
static double directed(struct pair *p, int which)
{
	const int64_t *n = p->side, voxels = n[0] * n[1] * n[2];
	int64_t surface = 0, low;
	double place, a, b;

	fill_field(p, !which);
	for (int64_t v = 0; v < voxels; v++)
		if (is_surface(p, which, p->low[0] + v % n[0], p->low[1] + v / n[0] % n[1],
			       p->low[2] + v / n[0] / n[1]))
			p->distance[surface++] = p->field[v];
	qsort(p->distance, (size_t)surface, sizeof *p->distance, by_size);
	place = 0.95 * (double)(surface - 1);
	low = (int64_t)place;
	a = sqrt((double)p->distance[low]);
	b = sqrt((double)p->distance[low + 1 < surface ? low + 1 : low]);
	return a + (b - a) * (place - (double)low);
}

static enum sl_err measure(struct pair *p, double *out, struct sl_fail *fail)
{
	const size_t voxels = (size_t)(p->side[0] * p->side[1] * p->side[2]);
	int64_t most = 0;
	bool fits;

	for (int axis = 0; axis < 3; axis++)
		most = p->side[axis] > most ? p->side[axis] : most;
	p->field = malloc(voxels * sizeof *p->field);
	p->distance = malloc(voxels * sizeof *p->distance);
	p->line = malloc((size_t)most * sizeof *p->line);
	fits = p->field && p->distance && p->line;
	if (fits)
		*out = fmax(directed(p, 0), directed(p, 1));
	free(p->field);
	free(p->distance);
	free(p->line);
	return fits ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for distances of %zu voxels", voxels);
}

/* Counts voxels, and finds the box around each class: low, and the last one in `side`. */
static void count(struct sl_overlap *out, struct pair *of, const uint8_t *right, uint8_t *said, const int64_t dim[3])
{
	for (int64_t v = 0; v < dim[0] * dim[1] * dim[2]; v++) {
		const int64_t at[3] = {v % dim[0], v / dim[0] % dim[1], v / dim[0] / dim[1]};

		if (right[v] == SL_LEARN_IGNORED) {
			said[v] = SL_LEARN_IGNORED;
			continue;
		}
		out[right[v]].right++;
		out[said[v]].said++;
		out[right[v]].both += right[v] == said[v];
		for (int k = right[v] == said[v]; k < 2; k++) {
			struct pair *p = &of[k ? said[v] : right[v]];

			for (int axis = 0; axis < 3; axis++) {
				p->low[axis] = at[axis] < p->low[axis] ? at[axis] : p->low[axis];
				p->side[axis] = at[axis] > p->side[axis] ? at[axis] : p->side[axis];
			}
		}
	}
}

enum sl_err sl_overlap_of(struct sl_overlap *out, int classes, const uint8_t *right, uint8_t *said,
			  const int64_t dim[3], const double spacing[3], struct sl_fail *fail)
{
	struct pair *of = calloc((size_t)classes, sizeof *of);
	enum sl_err err = of ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for figures of classes");

	for (int k = 0; k < classes && of; k++) {
		of[k] = (struct pair){.mask = {right, said},
				      .class = k,
				      .dim = dim,
				      .spacing = spacing,
				      .low = {INT64_MAX, INT64_MAX, INT64_MAX}};
		out[k] = (struct sl_overlap){.right = 0};
	}
	if (of)
		count(out, of, right, said, dim);
	for (int k = 0; k < classes && !err; k++) {
		struct sl_overlap *o = &out[k];

		for (int axis = 0; axis < 3; axis++)
			of[k].side[axis] -= of[k].low[axis] - 1;
		o->dice = 2 * (double)o->both / (double)(o->right + o->said);
		o->hd95 = (double)NAN;
		if (k && o->right && o->said)
			err = measure(&of[k], &o->hd95, fail);
	}
	free(of);
	return err;
}
