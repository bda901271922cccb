/* Gradient clipping by the norm over all parameters of the three segments, as torch.nn.utils.clip_grad_norm_ defines
 * it. Each segment's squares are summed in double, parameter by parameter, and the segments' sums are added in the
 * order head, middle, tail: the bits do not depend on where a segment is computed. Pure functions. */
#ifndef SL_EXEC_CLIP_H
#define SL_EXEC_CLIP_H

#include <stdint.h>

/* The sum of squares of x [count] in host memory. The order of additions depends only on `count`. */
double sl_squares(const float *x, int64_t count);
/* The same bits as sl_squares of a matrix, all of whose rows are 0 but those in row [n], which ascend. x: its first
 * row; features: length of a row, a multiple of 8. */
double sl_squares_rows(const float *x, int64_t features, const int32_t *row, int n);
/* The norm of the whole gradient; squares [3]: of head, middle, tail. */
double sl_clip_norm(const double squares[3]);
/* The factor for the gradient: clip_norm / (norm + 1e-6), at most 1. clip_norm > 0. */
double sl_clip_factor(double clip_norm, const double squares[3]);

#endif
