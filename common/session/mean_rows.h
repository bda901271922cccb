/* The payload of an embedding's gradient. A step reads few rows of the table, so only rows with a nonzero bit cross.
 * Reading gives back every bit of the gradient.
 *
 *   u32 n   u32 row[n], ascending   f32 values[n][features] */
#ifndef SL_SESSION_MEAN_ROWS_H
#define SL_SESSION_MEAN_ROWS_H

#include "common/base/buf.h"
#include "common/base/err.h"

/* Most bytes of `rows` rows of `features` floats each. */
uint64_t sl_rows_bound(int64_t rows, int64_t features);
/* Appends the payload to *out. */
enum sl_err sl_rows_write(const float *x, int64_t rows, int64_t features, struct sl_buf *out) SL_MUST_CHECK;
/* PAYLOAD with a sentence, and nothing written: row numbers or length do not fit such a gradient. */
enum sl_err sl_rows_read(float *x, int64_t rows, int64_t features, struct sl_bytes in,
			 struct sl_fail *fail) SL_MUST_CHECK;

#endif
