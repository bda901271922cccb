/* The reference with activations in 16 bits: what BF16 and FP16 mean, for executors on a host without a GPU. Every op
 * is tests/ref on values that were read from 16 bits, and what it gives is rounded into them. */
#ifndef SL_TESTS_MIXED_H
#define SL_TESTS_MIXED_H

#include "common/exec/backend.h"

/* Fills *be; close with be->ops->close(be). One at a time. */
enum sl_err mixed_backend_open(struct sl_backend *be, struct sl_fail *fail) SL_MUST_CHECK;

#endif
