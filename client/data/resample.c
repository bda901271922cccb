#include "client/data/resample.h"

#include <math.h>
#include <string.h>

enum { CHANNELS = 3, BITS = 22 };

/* The filter of one axis: output i is Σ weight[i · taps + k] · in[first[i] + k], k < count[i]. */
struct axis {
	int taps, n;
	int *first, *count;
	int32_t *weight; /* for bytes */
	double *share;   /* for floats, in place of `weight` */
};

static int taps_of(double in, int out)
{
	const double scale = in / out;

	return (int)ceil(scale < 1 ? 1 : scale) * 2 + 1;
}

/* Fills the filter for the box [begin, end) of the input. It may read the input's pixels [low, high). */
static void fill_axis(struct axis *a, double begin, double end, int low, int high)
{
	const double scale = (end - begin) / a->n, wide = scale < 1 ? 1 : scale;

	for (int i = 0; i < a->n; i++) {
		const double centre = begin + (i + 0.5) * scale;
		const ptrdiff_t at = (ptrdiff_t)i * a->taps;
		int first = (int)(centre - wide + 0.5), last = (int)(centre + wide + 0.5), n;
		double sum = 0, value;

		first = first < low ? low : first;
		last = last > high ? high : last;
		n = last - first;
		for (int k = 0; k < n; k++) {
			value = 1 - fabs((k + first - centre + 0.5) / wide);
			sum += value > 0 ? value : 0;
		}
		for (int k = 0; k < n; k++) {
			value = 1 - fabs((k + first - centre + 0.5) / wide);
			value = sum > 0 && value > 0 ? value / sum : 0;
			if (a->share)
				a->share[at + k] = value;
			else
				a->weight[at + k] = (int32_t)(0.5 + value * (1 << BITS));
		}
		a->first[i] = first;
		a->count[i] = n;
	}
}

static uint8_t rounded(int32_t sum)
{
	sum >>= BITS;
	return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* out [n, 3] = in [·, 3] */
static void stretch_row(const struct axis *a, uint8_t *restrict out, const uint8_t *restrict in)
{
	for (int x = 0; x < a->n; x++) {
		const int32_t *weight = a->weight + (ptrdiff_t)x * a->taps;
		const uint8_t *at = in + (ptrdiff_t)a->first[x] * CHANNELS;
		int32_t r = 1 << (BITS - 1), g = r, b = r;

		for (int k = 0; k < a->count[x]; k++, at += CHANNELS) {
			r += weight[k] * at[0];
			g += weight[k] * at[1];
			b += weight[k] * at[2];
		}
		out[CHANNELS * x] = rounded(r);
		out[CHANNELS * x + 1] = rounded(g);
		out[CHANNELS * x + 2] = rounded(b);
	}
}

/* out [bytes] = Σ weight[k] · rows[k]; the rows are contiguous */
static void mix_rows(uint8_t *restrict out, const uint8_t *restrict rows, size_t bytes, const int32_t *weight,
		     int count, int32_t *restrict sum)
{
	for (size_t i = 0; i < bytes; i++)
		sum[i] = 1 << (BITS - 1);
	for (int k = 0; k < count; k++) {
		const uint8_t *row = rows + (size_t)k * bytes;
		const int32_t w = weight[k];

		for (size_t i = 0; i < bytes; i++)
			sum[i] += w * row[i];
	}
	for (size_t i = 0; i < bytes; i++)
		out[i] = rounded(sum[i]);
}

static size_t aligned(size_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

static size_t axis_bytes(int out, int taps)
{
	return aligned((size_t)out * 2 * sizeof(int)) + aligned((size_t)out * (size_t)taps * sizeof(int32_t));
}

static uint8_t *take_axis(struct axis *a, uint8_t *at, int out, int taps)
{
	*a = (struct axis){.taps = taps, .n = out, .first = (int *)(void *)at};
	a->count = a->first + out;
	at += aligned((size_t)out * 2 * sizeof(int));
	a->weight = (int32_t *)(void *)at;
	return at + aligned((size_t)out * (size_t)taps * sizeof(int32_t));
}

/* Whether an axis needs no filter: the box is whole pixels, as many as come out. */
static bool is_copy(double begin, double end, int out)
{
	return end - begin == out && begin == floor(begin);
}

enum sl_err sl_resample(uint8_t *out, int out_h, int out_w, const uint8_t *in, int in_h, int in_w,
			const struct sl_box *box, struct sl_room *room)
{
	const size_t in_row = (size_t)in_w * CHANNELS, row = (size_t)out_w * CHANNELS;
	const int top = (int)floor(box->top), left = (int)floor(box->left);
	const int bottom = (int)fmin(ceil(box->bottom), in_h), right = (int)fmin(ceil(box->right), in_w);
	const int taps_x = taps_of(box->right - box->left, out_w), taps_y = taps_of(box->bottom - box->top, out_h);
	const bool narrow = is_copy(box->left, box->right, out_w), low = is_copy(box->top, box->bottom, out_h);
	struct axis x, y;
	uint8_t *at, *wide;
	int32_t *sum;

	if (sl_room_need(room, axis_bytes(out_w, taps_x) + axis_bytes(out_h, taps_y) + aligned(row * sizeof(int32_t)) +
				       (size_t)(bottom - top) * row))
		return SL_ERR_NOMEM;
	at = take_axis(&x, room->data, out_w, taps_x);
	at = take_axis(&y, at, out_h, taps_y);
	sum = (int32_t *)(void *)at;
	wide = low ? out : at + aligned(row * sizeof(int32_t));
	fill_axis(&x, box->left, box->right, left, right);
	fill_axis(&y, box->top, box->bottom, top, bottom);
	for (int r = top; r < bottom; r++) {
		if (narrow)
			memcpy(wide + (size_t)(r - top) * row, in + (size_t)r * in_row + (size_t)left * CHANNELS, row);
		else
			stretch_row(&x, wide + (size_t)(r - top) * row, in + (size_t)r * in_row);
	}
	for (int r = 0; r < out_h && !low; r++)
		mix_rows(out + (size_t)r * row, wide + (size_t)(y.first[r] - top) * row, row,
			 y.weight + (ptrdiff_t)r * taps_y, y.count[r], sum);
	return SL_OK;
}

static uint8_t *take_shares(struct axis *a, uint8_t *at, int out, int taps)
{
	*a = (struct axis){.taps = taps, .n = out, .share = (double *)(void *)at};
	at += aligned((size_t)out * (size_t)taps * sizeof(double));
	a->first = (int *)(void *)at;
	a->count = a->first + out;
	return at + aligned((size_t)out * 2 * sizeof(int));
}

/* Filters one line of numbers with stride `apart`: out[i · apart] = Σ share[k] · in[(first[i] + k) · apart]. */
static void mix_line(const struct axis *a, float *out, const float *in, ptrdiff_t apart)
{
	for (int i = 0; i < a->n; i++) {
		const double *share = a->share + (ptrdiff_t)i * a->taps;
		double sum = 0;

		for (int k = 0; k < a->count[i]; k++)
			sum += (double)in[(a->first[i] + k) * apart] * share[k];
		out[i * apart] = (float)sum;
	}
}

enum sl_err sl_resample_deep(float *out, int out_h, int out_w, const float *in, int in_h, int in_w, int channels,
			     const struct sl_box *box, struct sl_room *room)
{
	const ptrdiff_t in_row = (ptrdiff_t)in_w * channels, row = (ptrdiff_t)out_w * channels;
	const int top = (int)floor(box->top), left = (int)floor(box->left);
	const int bottom = (int)fmin(ceil(box->bottom), in_h), right = (int)fmin(ceil(box->right), in_w);
	const int taps_x = taps_of(box->right - box->left, out_w), taps_y = taps_of(box->bottom - box->top, out_h);
	const bool narrow = is_copy(box->left, box->right, out_w), low = is_copy(box->top, box->bottom, out_h);
	struct axis x, y;
	float *wide;

	if (sl_room_need(room, aligned((size_t)out_w * (size_t)taps_x * sizeof(double)) +
				       aligned((size_t)out_h * (size_t)taps_y * sizeof(double)) +
				       aligned((size_t)out_w * 2 * sizeof(int)) +
				       aligned((size_t)out_h * 2 * sizeof(int)) +
				       (size_t)(bottom - top) * (size_t)row * sizeof(float)))
		return SL_ERR_NOMEM;
	wide = (float *)(void *)take_shares(&y, take_shares(&x, room->data, out_w, taps_x), out_h, taps_y);
	if (low)
		wide = out;
	fill_axis(&x, box->left, box->right, left, right);
	fill_axis(&y, box->top - top, box->bottom - top, 0, bottom - top);
	for (int r = top; r < bottom; r++) {
		float *line = wide + (r - top) * row;

		if (narrow)
			memcpy(line, in + r * in_row + (ptrdiff_t)left * channels, (size_t)row * sizeof *line);
		for (int k = 0; k < channels && !narrow; k++)
			mix_line(&x, line + k, in + r * in_row + k, channels);
	}
	for (ptrdiff_t i = 0; i < row && !low; i++)
		mix_line(&y, out + i, wide + i, row);
	return SL_OK;
}
