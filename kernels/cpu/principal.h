/* Principal components: of vectors that are added one after another, the directions that hold most of their variance
 * (Pearson 1901; by the eigenvectors of the covariance). One thread's. */
#ifndef SL_CPU_PRINCIPAL_H
#define SL_CPU_PRINCIPAL_H

#include "common/base/err.h"

struct sl_principal;

/* Of vectors of `size` numbers: takes 8·size² bytes. NOMEM. */
enum sl_err sl_principal_open(struct sl_principal **out, int size) SL_MUST_CHECK;
void sl_principal_close(struct sl_principal *p);               /* NULL is fine */
void sl_principal_add(struct sl_principal *p, const float *x); /* [size] */
/* The `count` first components as rows of length 1, axis [count, size]; count at most `size`. Variance is around centre
 * [size], and *rest the share of it that these leave out. Ends p's sums: call it once, behind sl_principal_add. NOMEM;
 * NONFINITE: there is no variance, or NaN or Inf is in it. */
enum sl_err sl_principal_find(struct sl_principal *p, const float *centre, int count, float *axis,
			      double *rest) SL_MUST_CHECK;
/* Means of what was added: mean [size]; 0 where nothing was. Before sl_principal_find. */
void sl_principal_mean(const struct sl_principal *p, float *mean);

#endif
