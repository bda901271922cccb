/* Reads tensors of integers (I64, I32, U8), which the product does not need. */
#ifndef SL_TESTS_WHOLE_H
#define SL_TESTS_WHOLE_H

#include <string.h>

#include "common/weights/safetensors.h"

/* out: [count]. Returns DATA for another dtype. */
static inline enum sl_err whole_read(const struct sl_st_file *file, const struct sl_st_tensor *t, int64_t *out,
				     struct sl_fail *fail)
{
	const bool bytes = strcmp(t->dtype, "U8") == 0, narrow = strcmp(t->dtype, "I32") == 0;
	const size_t n = (size_t)t->count;
	/* The raw bytes go to the end of `out`, so that widening from the front overwrites only what has been read. */
	char *from = (char *)(out + n) - t->bytes;
	enum sl_err err;

	if (!bytes && !narrow && strcmp(t->dtype, "I64") != 0)
		return sl_fail_set(fail, SL_ERR_DATA, "\"%.96s\" is %.16s, not I64, I32 or U8", t->name, t->dtype);
	err = sl_st_read_raw(file, t, 0, from, (size_t)t->bytes, fail);
	for (size_t i = 0; i < n && !err && (bytes || narrow); i++) {
		int32_t x;

		if (narrow)
			memcpy(&x, from + 4 * i, sizeof x);
		out[i] = narrow ? x : (uint8_t)from[i];
	}
	return err;
}

#endif
