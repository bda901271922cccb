/* NaN and Inf, found before they are sent or applied. */
#ifndef SL_EXEC_FINITE_H
#define SL_EXEC_FINITE_H

#include "common/exec/backend.h"

/* *finite: none of x [count], in be's memory, is NaN or Inf. */
enum sl_err sl_finite(struct sl_backend *be, const float *x, int64_t count, bool *finite) SL_MUST_CHECK;
bool sl_finite_host(const float *x, int64_t count);
/* The first one that is not, in host memory; count: none. */
int64_t sl_finite_find(const float *x, int64_t count);
/* NONFINITE, and a sentence with `name` and chunk, where x holds one. */
enum sl_err sl_finite_tensor(const struct sl_tensor *x, const char *name, int chunk,
			     struct sl_fail *fail) SL_MUST_CHECK;

#endif
