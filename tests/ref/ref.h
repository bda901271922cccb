/* The reference backend: every op in plain loops with double accumulators, written straight from its formula and
 * never tuned. It is what the other backends are compared with, and what "the formula" means where they differ.
 *
 * What common/exec/backend.h leaves open is settled here, as torch has it unless said:
 * - relu, relu6: the gradient at a kink (exactly 0, exactly 6) is 0.
 * - NaN: comes out of every op that it goes into, relu, relu6 and maxpool included, so that a run which diverges is
 *   seen; but an element that dropout drops is 0.
 * - maxpool: the first largest element of a window in row-major order takes the gradient; padding never wins.
 * - avgpool: divides by k·k, padding counted; the whole plane by H·W.
 * - batchnorm: a chunk with one value per channel (torch refuses it) has variance 0, and enters running_var as 0.
 * - batchnorm: backward with training = false takes the running statistics as constants.
 * - xent: the largest logit of a row is the first one among equals. No output tensor is written: out may be NULL.
 *
 * Memory is host memory. One thread; the pool of the backend is not used. */
#ifndef SL_TESTS_REF_REF_H
#define SL_TESTS_REF_REF_H

#include "common/exec/backend.h"

/* Fills *be; close with be->ops->close(be). */
enum sl_err sl_ref_backend_open(struct sl_backend *be, struct sl_fail *fail) SL_MUST_CHECK;

#endif
