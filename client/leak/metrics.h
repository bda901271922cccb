/* How similar two sets of pictures or vectors are. Sums have a fixed order, so results do not depend on threads. */
#ifndef SL_CLIENT_LEAK_METRICS_H
#define SL_CLIENT_LEAK_METRICS_H

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

/* Squared distance correlation of x [n, dx] and y [n, dy]. `usual`: by Székely, Rizzo and Bakirov, 2007. `corrected`:
 * bias-corrected (Székely and Rizzo, 2014): about 0 for independent x and y in any number of dimensions, and possibly
 * negative. n ≥ 4. NOMEM. */
struct sl_leak_dcor {
	double usual, corrected;
};
enum sl_err sl_leak_dcor(struct sl_leak_dcor *out, const float *x, int64_t dx, const float *y, int64_t dy,
			 int64_t n) SL_MUST_CHECK;

/* Mean, 10th and 90th percentile of x [n]; 0 if n is 0. The function sorts `x`. */
struct sl_leak_spread {
	double mean, p10, p90;
};
struct sl_leak_spread sl_leak_spread(double *x, int64_t n);

/* Σ (x − y)²; Σ x·y */
double sl_leak_distance(const float *x, const float *y, int64_t d);
double sl_leak_dot(const float *x, const float *y, int64_t d);

#endif
