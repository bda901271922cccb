#include "client/figures/similarity.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/spread.h"
#include "common/exec/finite.h"

enum { WINDOW = 11, LANES = 16 };

/* Sums over d terms: in float lanes within a block, in double over blocks. That is fast, and its order is fixed. */
#define SUM_OF(term)                                                     \
	enum { BLOCK = 1024 };                                           \
	double sum = 0;                                                  \
                                                                         \
	for (int64_t from = 0; from < d; from += BLOCK) {                \
		const int64_t end = d - from < BLOCK ? d : from + BLOCK; \
		float lane[LANES] = {0};                                 \
		int64_t i = from;                                        \
                                                                         \
		for (; i + LANES <= end; i += LANES)                     \
			for (int k = 0; k < LANES; k++)                  \
				lane[k] += (term(x[i + k], y[i + k]));   \
		for (; i < end; i++)                                     \
			lane[0] += (term(x[i], y[i]));                   \
		for (int k = 0; k < LANES; k++)                          \
			sum += (double)lane[k];                          \
	}                                                                \
	return sum
#define SQUARE(a, b)  (((a) - (b)) * ((a) - (b)))
#define PRODUCT(a, b) ((a) * (b))

double sl_leak_distance(const float *x, const float *y, int64_t d)
{
	SUM_OF(SQUARE);
}

double sl_leak_dot(const float *x, const float *y, int64_t d)
{
	SUM_OF(PRODUCT);
}

double sl_leak_psnr(const float *x, const float *y, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
	if (!isfinite(sum))
		return NAN;
	return sum > 0 ? fmin(100, 10 * log10((double)n / sum)) : 100;
}

static int window(double out[WINDOW], int least)
{
	const int n = least < WINDOW ? least : WINDOW;
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += out[i] = exp(-(i - (n - 1) / 2.0) * (i - (n - 1) / 2.0) / (2 * 1.5 * 1.5));
	for (int i = 0; i < n; i++)
		out[i] /= sum;
	return n;
}

/* Of one window of one channel; x and y point to its first pixel. */
static double ssim_at(const float *x, const float *y, int w, int c, const double *gauss, int n)
{
	const double c1 = 0.01 * 0.01, c2 = 0.03 * 0.03;
	double mx = 0, my = 0, xx = 0, yy = 0, xy = 0;

	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++) {
			const double g = gauss[i] * gauss[j], a = (double)x[(i * w + j) * c],
				     b = (double)y[(i * w + j) * c];

			mx += g * a;
			my += g * b;
			xx += g * a * a;
			yy += g * b * b;
			xy += g * a * b;
		}
	return (2 * mx * my + c1) * (2 * (xy - mx * my) + c2) /
	       ((mx * mx + my * my + c1) * (xx - mx * mx + yy - my * my + c2));
}

double sl_leak_ssim(const float *x, const float *y, int h, int w, int c)
{
	double gauss[WINDOW], sum = 0;
	const int n = window(gauss, h < w ? h : w);

	for (int i = 0; i + n <= h; i++)
		for (int j = 0; j + n <= w; j++)
			for (int k = 0; k < c; k++) {
				const int64_t at = ((int64_t)i * w + j) * c + k;

				sum += ssim_at(x + at, y + at, w, c, gauss, n);
			}
	return sum / ((double)(h - n + 1) * (w - n + 1) * c);
}

double sl_leak_retrieved(const float *x, const float *y, int64_t n, int64_t d)
{
	int64_t met = 0;

	if (!sl_finite_host(x, n * d) || !sl_finite_host(y, n * d))
		return NAN;
	for (int64_t i = 0; i < n; i++) {
		double best = INFINITY;
		int64_t at = -1;

		for (int64_t j = 0; j < n; j++) {
			const double distance = sl_leak_distance(x + j * d, y + i * d, d);

			at = distance < best ? j : at;
			best = fmin(best, distance);
		}
		met += at == i;
	}
	return (double)met / (double)n;
}

static void distances(double *to, const float *x, int64_t d, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		to[i * n + i] = 0;
		for (int64_t j = 0; j < i; j++)
			to[i * n + j] = to[j * n + i] = sqrt(sl_leak_distance(x + i * d, x + j * d, d));
	}
}

/* U-centring: subtracts the means of row and column, and adds the overall mean; the diagonal is 0. `row` is scratch,
 * [n]. */
static void centre(double *to, const double *from, double *row, int64_t n)
{
	double all = 0;

	for (int64_t i = 0; i < n; i++) {
		row[i] = 0;
		for (int64_t j = 0; j < n; j++)
			row[i] += from[i * n + j];
		all += row[i];
	}
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < n; j++)
			to[i * n + j] = i == j ? 0
					       : from[i * n + j] - row[i] / (double)(n - 2) - row[j] / (double)(n - 2) +
							 all / (double)((n - 1) * (n - 2));
}

static double dot(const double *a, const double *b, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

enum sl_err sl_leak_dcor(double *out, const float *x, int64_t dx, const float *y, int64_t dy, int64_t n)
{
	double *room = calloc((size_t)(4 * n * n + n), sizeof *room), *a = room + 2 * n * n, *b = a + n * n, by;

	if (!room)
		return SL_ERR_NOMEM;
	distances(room, x, dx, n);
	distances(room + n * n, y, dy, n);
	centre(a, room, b + n * n, n);
	centre(b, room + n * n, b + n * n, n);
	by = sqrt(dot(a, a, n * n) * dot(b, b, n * n));
	*out = by == 0 ? 0 : dot(a, b, n * n) / by; /* NAN where a distance is not finite */
	free(room);
	return SL_OK;
}

double sl_leak_r2(const float *guess, const float *y, int64_t n, int64_t d, int64_t first, int64_t wide)
{
	double missed = 0, all = 0;

	for (int64_t k = first; k < first + wide; k++) {
		double mean = 0, squares = 0;

		for (int64_t i = 0; i < n; i++)
			mean += (double)y[i * d + k];
		mean /= (double)n;
		for (int64_t i = 0; i < n; i++) {
			const double at = (double)y[i * d + k], miss = at - (double)guess[i * d + k];

			missed += miss * miss;
			squares += (at - mean) * (at - mean);
		}
		if (!sl_spread_is_none(squares / (double)n, mean, n))
			all += squares;
	}
	return isfinite(missed) && all > 0 ? 1 - missed / all : NAN;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct sl_leak_spread sl_leak_spread(double *x, int64_t n)
{
	struct sl_leak_spread s = {0};

	for (int64_t i = 0; i < n; i++)
		s.mean += x[i];
	s.mean /= (double)n;
	if (n < 1 || isnan(s.mean))
		return (struct sl_leak_spread){NAN, NAN, NAN, NAN};
	qsort(x, (size_t)n, sizeof *x, by_value);
	s.median = (x[(n - 1) / 2] + x[n / 2]) / 2;
	s.p10 = x[n / 10];
	s.p90 = x[n * 9 / 10 < n ? n * 9 / 10 : n - 1];
	return s;
}

void sl_leak_interval(double share, int64_t n, double *low, double *high)
{
	const double z = 1.959963984540054, by = (double)n, middle = share + z * z / (2 * by),
		     wide = z * sqrt(share * (1 - share) / by + z * z / (4 * by * by));

	*low = n ? fmax(0, (middle - wide) / (1 + z * z / by)) : NAN;
	*high = n ? fmin(1, (middle + wide) / (1 + z * z / by)) : NAN;
	if (isnan(share)) /* fmax and fmin drop it */
		*low = *high = NAN;
}
