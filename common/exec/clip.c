#include "common/exec/clip.h"

#include <math.h>

enum { LANES = 8 }; /* independent partial sums, so that the compiler can use vectors */

double sl_squares(const float *x, int64_t count)
{
	double lane[LANES] = {0}, sum = 0;
	int64_t i = 0;

	for (; i + LANES <= count; i += LANES)
		for (int k = 0; k < LANES; k++)
			lane[k] += (double)x[i + k] * (double)x[i + k];
	for (int k = 0; k < LANES; k++)
		sum += lane[k];
	for (; i < count; i++)
		sum += (double)x[i] * (double)x[i];
	return sum;
}

double sl_squares_rows(const float *x, int64_t features, const int32_t *row, int n)
{
	double lane[LANES] = {0}, sum = 0;

	for (int r = 0; r < n; r++) {
		const float *at = x + row[r] * features;

		for (int64_t i = 0; i < features; i += LANES)
			for (int k = 0; k < LANES; k++)
				lane[k] += (double)at[i + k] * (double)at[i + k];
	}
	for (int k = 0; k < LANES; k++)
		sum += lane[k];
	return sum;
}

static const double torch_epsilon = 1e-6;

double sl_clip_norm(const double squares[3])
{
	return sqrt(squares[0] + squares[1] + squares[2]);
}

double sl_clip_factor(double clip_norm, const double squares[3])
{
	double factor = clip_norm / (sl_clip_norm(squares) + torch_epsilon);

	return factor < 1 ? factor : 1;
}
