/* The gradient of an embedding, of which a step reads few rows, as it crosses: those rows alone that hold anything but
 * zeros. Reading gives back every bit of the gradient.
 *
 *   u32 n   u32 row[n], ascending   f32 values[n][features] */
#ifndef SL_SESSION_MEAN_ROWS_H
#define SL_SESSION_MEAN_ROWS_H

#include "common/base/buf.h"
#include "common/base/err.h"

/* Most bytes of `rows` rows of `features` floats each. */
uint64_t sl_rows_bound(int64_t rows, int64_t features);
/* Appends. */
enum sl_err sl_rows_write(const float *x, int64_t rows, int64_t features, struct sl_buf *out) SL_MUST_CHECK;
/* PAYLOAD with a sentence: numbers or length are not of such a gradient; nothing is written. */
enum sl_err sl_rows_read(float *x, int64_t rows, int64_t features, struct sl_bytes in,
			 struct sl_fail *fail) SL_MUST_CHECK;

#endif
