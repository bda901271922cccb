/* Clipping of a gradient by its norm over all parameters of the three parts, as torch.nn.utils.clip_grad_norm_ defines
 * it. Each part's square is summed in double, parameter by parameter, and the parts are added in the order head,
 * middle, tail: the same bits wherever the parts are. Pure. */
#ifndef SL_EXEC_CLIP_H
#define SL_EXEC_CLIP_H

#include <stdint.h>

/* Of x [count] in host memory. The order of the sum depends on `count` alone. */
double sl_squares(const float *x, int64_t count);
/* The same of a matrix whose rows are 0 but for row[n], in ascending order; x is its first row. features: a multiple
 * of 8. The same bits. */
double sl_squares_rows(const float *x, int64_t features, const int32_t *row, int n);
/* The norm of the whole gradient; squares [3] of head, middle, tail. */
double sl_clip_norm(const double squares[3]);
/* What the gradient is multiplied by, above 0 and at most 1: clip_norm / (norm + 1e-6), where that is below 1.
 * clip_norm > 0. */
double sl_clip_factor(double clip_norm, const double squares[3]);

#endif
