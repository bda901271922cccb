/* Principal components of vectors that are added one after another: the directions with most of their
 * variance (Pearson 1901; by the eigenvectors of the covariance). Not thread-safe. */
#ifndef SL_CPU_PRINCIPAL_H
#define SL_CPU_PRINCIPAL_H

#include "common/base/err.h"

struct sl_principal;

/* For vectors of `size` numbers; allocates 8·size² bytes. NOMEM. */
enum sl_err sl_principal_open(struct sl_principal **out, int size) SL_MUST_CHECK;
void sl_principal_close(struct sl_principal *p);               /* NULL is fine */
void sl_principal_add(struct sl_principal *p, const float *x); /* [size] */
/* Writes the first `count` components as rows of length 1, axis [count, size]; count is at most `size`.
 * Variance is around centre [size]; *rest is the share of it that these components leave out. It
 * consumes p's sums: call it once, after all sl_principal_add. NOMEM; NONFINITE: the variance is 0, or
 * contains NaN or Inf. */
enum sl_err sl_principal_find(struct sl_principal *p, const float *centre, int count, float *axis,
			      double *rest) SL_MUST_CHECK;
/* The mean of the added vectors, [size]; 0 if there were none. Call it before sl_principal_find. */
void sl_principal_mean(const struct sl_principal *p, float *mean);

#endif
