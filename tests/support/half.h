/* Values as a precision keeps them, in the test's own words: to nearest, ties to even, Inf beyond the range. */
#ifndef SL_TESTS_HALF_H
#define SL_TESTS_HALF_H

#include "common/graph/precision.h"

/* What is left of x: in BF16 and FP16 where it is stored, in TF32 where it is multiplied, in FP32 all. */
float half_round(enum sl_precision p, float x);
void half_round_all(enum sl_precision p, float *x, int64_t count); /* x NULL: nothing */
/* As it lies in memory: SL_F32, SL_BF16 or SL_F16. */
void half_store(enum sl_dtype type, void *out, const float *x, int64_t count);
void half_load(enum sl_dtype type, float *out, const void *x, int64_t count);

#endif
