/* An implementation of the precisions' rounding for tests, independent of the product's: to
 * nearest, ties to even, Inf beyond the range. */
#ifndef SL_TESTS_HALF_H
#define SL_TESTS_HALF_H

#include "common/graph/precision.h"

/* Rounds x as a precision does: BF16 and FP16 as stored values, TF32 as an operand of a product;
 * FP32 leaves it alone. */
float half_round(enum sl_precision p, float x);
void half_round_all(enum sl_precision p, float *x, int64_t count); /* x NULL: does nothing */
/* Conversion to and from the type in memory: SL_F32, SL_BF16 or SL_F16. */
void half_store(enum sl_dtype type, void *out, const float *x, int64_t count);
void half_load(enum sl_dtype type, float *out, const void *x, int64_t count);

#endif
