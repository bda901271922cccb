#include "common/graph/tensor.h"

#include <inttypes.h>
#include <stdio.h>

size_t sl_dtype_bytes(enum sl_dtype dtype)
{
	static const size_t bytes[SL_DTYPE_COUNT] = {
		[SL_F32] = 4, [SL_F16] = 2, [SL_BF16] = 2, [SL_I32] = 4, [SL_I64] = 8, [SL_U8] = 1,
	};

	return (unsigned)dtype < SL_DTYPE_COUNT ? bytes[dtype] : 0;
}

bool sl_shape_equal(const struct sl_shape *a, const struct sl_shape *b)
{
	if (a->ndim != b->ndim)
		return false;
	for (int i = 0; i < a->ndim; i++)
		if (a->dim[i] != b->dim[i])
			return false;
	return true;
}

bool sl_shape_count_checked(const struct sl_shape *s, int64_t max, int64_t *count)
{
	int64_t n = 1;

	if (s->ndim < 0 || s->ndim > SL_MAX_DIMS)
		return false;
	for (int i = 0; i < s->ndim; i++)
		if (s->dim[i] < 1 || __builtin_mul_overflow(n, s->dim[i], &n) || n > max)
			return false;
	if (n > max)
		return false;
	*count = n;
	return true;
}

const char *sl_shape_text(const struct sl_shape *s, char out[SL_SHAPE_TEXT])
{
	int at = snprintf(out, SL_SHAPE_TEXT, "[");

	for (int i = 0; i < s->ndim && at < SL_SHAPE_TEXT; i++)
		at += snprintf(out + at, (size_t)(SL_SHAPE_TEXT - at), i ? ",%" PRId64 : "%" PRId64, s->dim[i]);
	if (at < SL_SHAPE_TEXT)
		snprintf(out + at, (size_t)(SL_SHAPE_TEXT - at), "]");
	return out;
}

void sl_dims_take(uint32_t *numbers, int64_t most, const uint32_t *begin, const uint32_t *pieces,
		  const uint32_t *cached, int64_t first, int64_t rows)
{
	uint32_t *to = sl_dims_pairs(numbers, most);

	for (int64_t i = 0; i <= rows; i++)
		numbers[i] = begin[first + i] - begin[first];
	for (int64_t i = 0; pieces && i <= 2 * rows; i++)
		to[i] = pieces[2 * first + i] - begin[first];
	for (int64_t i = 0; cached && i < 2 * rows; i++)
		to[i] = cached[2 * first + i];
}
