/* How similar two sets of pictures or vectors are. Sums have a fixed order, so results do not depend on threads.
 * A figure of values that hold NaN or Inf is NAN: undefined. */
#ifndef SL_CLIENT_FIGURES_SIMILARITY_H
#define SL_CLIENT_FIGURES_SIMILARITY_H

#include <stdint.h>

#include "common/base/err.h"

/* Peak signal-to-noise ratio of values whose peak is 1, in dB: 10 log10(1 / mean squared error), at most 100. */
double sl_leak_psnr(const float *x, const float *y, int64_t n);

/* Structural similarity of pictures [h, w, c] with values in [0, 1], the mean over window positions and channels (Wang
 * et al., "Image quality assessment: from error visibility to structural similarity", 2004). The window is a Gaussian
 * of 11 × 11 with σ 1.5, and lies inside the picture. It is smaller only if height or width is: then min(h, w) square.
 * K1 is 0.01, K2 0.03. */
double sl_leak_ssim(const float *x, const float *y, int h, int w, int c);

/* Share of rows of `y` [n, d] whose nearest row of `x` [n, d] has the same index. */
double sl_leak_retrieved(const float *x, const float *y, int64_t n, int64_t d);

/* Squared distance correlation of x [n, dx] and y [n, dy], without bias (Székely and Rizzo, 2014): about 0 for
 * independent x and y in any number of dimensions, and possibly negative; 0 where all x or all y are equal. n ≥ 4.
 * NOMEM. */
enum sl_err sl_leak_dcor(double *out, const float *x, int64_t dx, const float *y, int64_t dy, int64_t n) SL_MUST_CHECK;

/* Share of the variation of y, column [first, first + wide) of rows [n, d], that `guess` [n, d] explains: 1 − Σ (y −
 * guess)² / Σ (y − mean)². Below 0: guessing the mean is better. NAN also if the column is constant up to
 * rounding. */
double sl_leak_r2(const float *guess, const float *y, int64_t n, int64_t d, int64_t first, int64_t wide);

/* Mean, percentiles and median of x [n]; NAN if n is 0 or an x is NAN. The function sorts `x`. */
struct sl_leak_spread {
	double mean, p10, p90, median;
};
struct sl_leak_spread sl_leak_spread(double *x, int64_t n);

/* The 95 % interval of a share that was found in n independent samples (Wilson, 1927). NAN: the share is NAN, or n is
 * 0. */
void sl_leak_interval(double share, int64_t n, double *low, double *high);

/* Σ (x − y)²; Σ x·y */
double sl_leak_distance(const float *x, const float *y, int64_t d);
double sl_leak_dot(const float *x, const float *y, int64_t d);

#endif
