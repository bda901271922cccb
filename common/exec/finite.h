/* Detects NaN and Inf in tensors, before they are sent or applied. */
#ifndef SL_EXEC_FINITE_H
#define SL_EXEC_FINITE_H

#include "common/exec/backend.h"

/* *finite = whether no element of x [count], in be's memory, is NaN or Inf. */
enum sl_err sl_finite(struct sl_backend *be, const float *x, int64_t count, bool *finite) SL_MUST_CHECK;
bool sl_finite_host(const float *x, int64_t count); /* the same for host memory */
/* Index of the first NaN or Inf of x [count] in host memory; `count` if there is none. */
int64_t sl_finite_find(const float *x, int64_t count);
/* NONFINITE, with a sentence that has `name` and `chunk`, if x has a NaN or Inf. */
enum sl_err sl_finite_tensor(const struct sl_tensor *x, const char *name, int chunk,
			     struct sl_fail *fail) SL_MUST_CHECK;

#endif
