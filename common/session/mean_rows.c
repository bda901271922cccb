#include "common/session/mean_rows.h"

#include <inttypes.h>
#include <string.h>

enum { NUMBER = sizeof(uint32_t) };

uint64_t sl_rows_bound(int64_t rows, int64_t features)
{
	return NUMBER + (uint64_t)rows * (NUMBER + (uint64_t)features * sizeof(float));
}

/* Whether all bits of a row are 0. A negative zero is not nothing: it has a bit. */
static bool is_nothing(const float *x, int64_t features)
{
	uint32_t bits;

	for (int64_t i = 0; i < features; i++) {
		memcpy(&bits, x + i, sizeof bits);
		if (bits)
			return false;
	}
	return true;
}

enum sl_err sl_rows_write(const float *x, int64_t rows, int64_t features, struct sl_buf *out)
{
	const size_t begin = out->len;
	uint32_t n = 0;
	enum sl_err err = sl_buf_put(out, &n, sizeof n);

	for (int64_t row = 0; row < rows && !err; row++) {
		const uint32_t number = (uint32_t)row;

		if (is_nothing(x + row * features, features))
			continue;
		err = sl_buf_put(out, &number, sizeof number);
		n++;
	}
	if (err)
		return err;
	memcpy(out->data + begin, &n, sizeof n);
	for (uint32_t i = 0; i < n && !err; i++) {
		uint32_t row;

		memcpy(&row, out->data + begin + (1 + (size_t)i) * NUMBER, sizeof row);
		err = sl_buf_put(out, x + (int64_t)row * features, (size_t)features * sizeof *x);
	}
	return err;
}

static uint32_t number_at(struct sl_bytes in, uint32_t i)
{
	uint32_t number;

	memcpy(&number, in.data + (size_t)i * NUMBER, sizeof number);
	return number;
}

/* Says what is wrong with a payload; NULL: nothing. */
static const char *look(int64_t rows, int64_t features, struct sl_bytes in)
{
	const uint64_t n = in.len < NUMBER ? 0 : number_at(in, 0);

	if (in.len < NUMBER)
		return "has no count of rows";
	if (n > (uint64_t)rows)
		return "has more rows than the table";
	if (in.len != sl_rows_bound((int64_t)n, features))
		return "has another length than its rows";
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t row = number_at(in, 1 + i);

		if (row >= (uint64_t)rows)
			return "has a row that the table has not";
		if (i && row <= number_at(in, i))
			return "has rows that do not ascend";
	}
	return NULL;
}

enum sl_err sl_rows_read(float *x, int64_t rows, int64_t features, struct sl_bytes in, struct sl_fail *fail)
{
	const char *why = look(rows, features, in);
	const size_t bytes = (size_t)features * sizeof *x;
	uint32_t n;

	if (why)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "the gradient of a table of %" PRId64 " rows %s", rows, why);
	n = number_at(in, 0);
	memset(x, 0, (size_t)rows * bytes);
	for (uint32_t i = 0; i < n; i++)
		memcpy(x + (int64_t)number_at(in, 1 + i) * features,
		       in.data + (1 + (size_t)n) * NUMBER + (size_t)i * bytes, bytes);
	return SL_OK;
}
