/* How much one set of pictures or vectors says of another. All sums are in double, in a fixed order. */
#ifndef SL_CLIENT_LEAK_METRICS_H
#define SL_CLIENT_LEAK_METRICS_H

#include <stdint.h>

#include "common/base/err.h"

/* Peak signal-to-noise ratio of values whose peak is 1, in dB: 10 log10(1 / mean squared error). The same: 100. */
double sl_leak_psnr(const float *x, const float *y, int64_t n);

/* Structural similarity of pictures [h, w, c] with values in [0, 1], the mean over places and channels (Wang et al.,
 * "Image quality assessment: from error visibility to structural similarity", 2004). The window is a Gaussian of
 * 11 × 11 with σ 1.5, and lies inside the picture; of a smaller picture it is as large as that. K is 0.01 and 0.03. */
double sl_leak_ssim(const float *x, const float *y, int h, int w, int c);

/* Share of rows of `y` [n, d] whose nearest row of `x` [n, d] is the one of the same number. */
double sl_leak_retrieved(const float *x, const float *y, int64_t n, int64_t d);

/* Distance correlation of x [n, dx] and y [n, dy], squared. `usual`: as Székely, Rizzo and Bakirov have it, 2007.
 * `corrected`: without its bias (Székely and Rizzo, 2014). Where x and y are independent, this one is about 0 in any
 * number of dimensions, and may be below 0. n ≥ 4. NOMEM. */
struct sl_leak_dcor {
	double usual, corrected;
};
enum sl_err sl_leak_dcor(struct sl_leak_dcor *out, const float *x, int64_t dx, const float *y, int64_t dy,
			 int64_t n) SL_MUST_CHECK;

/* Mean, and the value that a tenth and nine tenths of them are below; sorts `x`. */
struct sl_leak_spread {
	double mean, p10, p90;
};
struct sl_leak_spread sl_leak_spread(double *x, int64_t n);

/* Σ (x − y)²; Σ x·y */
double sl_leak_distance(const float *x, const float *y, int64_t d);
double sl_leak_dot(const float *x, const float *y, int64_t d);

#endif
