#include "kernels/cpu/principal.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>

enum { ROWS = 256 }; /* rows whose products are summed together */

struct sl_principal {
	int size, waiting; /* size; rows added but not yet summed */
	int64_t n;
	double *sum, *square; /* [size]; [size, size], its upper triangle: sums of products */
	double *rows;         /* [ROWS, size] */
};

/* LAPACK's function in OpenBLAS, whose headers do not declare it: eigenvalues number `low` to `high` in
 * ascending order, with their vectors as columns of z (column-major). */
extern void dsyevr_(const char *jobz, const char *range, const char *uplo, const int *n, double *a, const int *lda,
		    const double *vl, const double *vu, const int *low, const int *high, const double *abstol, int *m,
		    double *w, double *z, const int *ldz, int *isuppz, double *work, const int *lwork, int *iwork,
		    const int *liwork, int *info);

enum sl_err sl_principal_open(struct sl_principal **out, int size)
{
	const size_t n = (size_t)size;
	struct sl_principal *p = calloc(1, sizeof *p);

	*out = p;
	if (!p)
		return SL_ERR_NOMEM;
	p->size = size;
	p->sum = calloc(n + n * n + ROWS * n, sizeof *p->sum);
	if (!p->sum) {
		sl_principal_close(p);
		*out = NULL;
		return SL_ERR_NOMEM;
	}
	p->square = p->sum + n;
	p->rows = p->square + n * n;
	return SL_OK;
}

void sl_principal_close(struct sl_principal *p)
{
	if (p)
		free(p->sum);
	free(p);
}

/* Adds the products of the waiting rows. */
static void flush(struct sl_principal *p)
{
	if (p->waiting)
		cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, p->size, p->waiting, 1, p->rows, p->size, 1,
			    p->square, p->size);
	p->waiting = 0;
}

void sl_principal_add(struct sl_principal *p, const float *x)
{
	double *row = p->rows + (int64_t)p->waiting * p->size;

	for (int i = 0; i < p->size; i++) {
		row[i] = (double)x[i];
		p->sum[i] += row[i];
	}
	p->n++;
	if (++p->waiting == ROWS)
		flush(p);
}

void sl_principal_mean(const struct sl_principal *p, float *mean)
{
	for (int i = 0; i < p->size; i++)
		mean[i] = p->n ? (float)(p->sum[i] / (double)p->n) : 0;
}

/* Turns the sums of products into the covariance around `centre`, which need not be the mean. Returns its
 * trace. */
static double centre_on(struct sl_principal *p, const float *centre)
{
	const double n = (double)p->n;
	double trace = 0;

	flush(p);
	for (int i = 0; i < p->size; i++) {
		for (int k = i; k < p->size; k++) {
			double *at = &p->square[(int64_t)i * p->size + k];
			const double a = (double)centre[i], b = (double)centre[k];

			*at = (*at - a * p->sum[k] - p->sum[i] * b) / n + a * b;
		}
		trace += p->square[(int64_t)i * p->size + i];
	}
	return trace;
}

enum sl_err sl_principal_find(struct sl_principal *p, const float *centre, int count, float *axis, double *rest)
{
	const int size = p->size, low = size - count + 1, lwork = 26 * size, liwork = 10 * size;
	const double none = 0, trace = centre_on(p, centre);
	double *value = malloc((size_t)size * (size_t)(count + 1 + 26) * sizeof *value);
	int *whole = malloc((size_t)size * (2 + 10) * sizeof *whole), found = 0, info = 1;
	double *axes = value ? value + size : NULL, kept = 0;

	if (value && whole && isfinite(trace) && trace > 0) /* a row-major upper triangle is a column-major lower one */
		dsyevr_("V", "I", "L", &size, p->square, &size, &none, &none, &low, &size, &none, &found, value, axes,
			&size, whole, axes + (int64_t)size * count, &lwork, whole + 2 * (int64_t)size, &liwork, &info);
	for (int c = 0; c < count && !info; c++) {
		kept += value[count - 1 - c];
		for (int i = 0; i < size; i++)
			axis[(int64_t)c * size + i] = (float)axes[(int64_t)(count - 1 - c) * size + i];
	}
	*rest = info ? 1 : fmax(0, 1 - kept / trace);
	free(whole);
	free(value);
	return !value || !whole ? SL_ERR_NOMEM : info ? SL_ERR_NONFINITE : SL_OK;
}
