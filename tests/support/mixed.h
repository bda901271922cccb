/* A backend for BF16 and FP16 on a host without a GPU, for tests of executors. It defines what these precisions
 * mean: an op of tests/ref computes on values read from 16 bits, and its results are rounded to 16 bits. */
#ifndef SL_TESTS_MIXED_H
#define SL_TESTS_MIXED_H

#include "common/exec/backend.h"

/* Fills *be; close it with be->ops->close(be). Only one may be open at a time. */
enum sl_err mixed_backend_open(struct sl_backend *be, struct sl_fail *fail) SL_MUST_CHECK;

#endif
