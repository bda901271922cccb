/* The reference backend: every op in plain loops with double accumulators, written from its formula and never
 * tuned. The other backends are compared with it; where they differ, it defines the result.
 *
 * It settles what common/exec/backend.h leaves open, as torch does unless noted:
 * - relu, relu6: the gradient at a kink (exactly 0, exactly 6) is 0.
 * - NaN: an op with a NaN input has a NaN output, relu, relu6 and maxpool included, so that divergence is
 *   noticed. An element that dropout drops is 0 all the same.
 * - maxpool: the first largest element of a window in row-major order takes the gradient; padding never wins.
 * - avgpool: divides by k·k, padding counted; the whole plane by H·W.
 * - batchnorm: a chunk with one value per channel (torch refuses it) has variance 0, and enters running_var
 *   as 0.
 * - batchnorm: backward with training = false takes the running statistics as constants.
 * - xent: of equal largest logits, the first counts as a row's largest. No output tensor is written: out may
 *   be NULL.
 *
 * Memory is host memory. One thread; the backend's pool is not used. */
#ifndef SL_TESTS_REF_REF_H
#define SL_TESTS_REF_REF_H

#include "common/exec/backend.h"

/* Fills *be; close with be->ops->close(be). */
enum sl_err sl_ref_backend_open(struct sl_backend *be, struct sl_fail *fail) SL_MUST_CHECK;

#endif
