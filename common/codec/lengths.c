#include "common/codec/lengths.h"

#include <string.h>

enum { LENGTH = 2, NUMBER = 4 }; /* bytes */

static void put_number(uint8_t *at, uint32_t n)
{
	for (int i = 0; i < NUMBER; i++)
		at[i] = (uint8_t)(n >> 8 * i);
}

static uint32_t number_at(const uint8_t *at)
{
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

void sl_lengths_write(const struct sl_dims *dims, uint8_t *at)
{
	memset(at, 0, sl_lengths_bytes(dims->rows, dims->cached));
	for (int64_t i = 0; i < 2 * dims->rows && dims->cached; i++)
		put_number(at + LENGTH * dims->rows + NUMBER * i, dims->cached[i]);
	for (int64_t i = 0; i < dims->rows; i++) {
		uint32_t length = dims->pieces ? dims->pieces[2 * i + 1] - dims->pieces[2 * i]
					       : dims->begin[i + 1] - dims->begin[i];

		at[LENGTH * i] = (uint8_t)length;
		at[LENGTH * i + 1] = (uint8_t)(length >> 8);
	}
}

static int64_t length_at(const uint8_t *at, int64_t i)
{
	return at[LENGTH * i] | at[LENGTH * i + 1] << 8;
}

static enum sl_err check_cached(const uint8_t *at, int64_t rows, int64_t row_tokens, struct sl_fail *fail)
{
	const uint8_t *pair = at + LENGTH * rows;

	for (int64_t i = 0; i < rows; i++, pair += 2 * NUMBER) {
		const uint32_t row = number_at(pair), past = number_at(pair + NUMBER);

		if (i > 0 && row <= number_at(pair - 2 * NUMBER))
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "row %lld is row %u of the cache, behind row %u",
					   (long long)i, row, number_at(pair - 2 * NUMBER));
		if (past + length_at(at, i) > row_tokens)
			return sl_fail_set(
				fail, SL_ERR_PAYLOAD,
				"row %lld has %lld tokens behind %u that are cached, where a row has at most %lld",
				(long long)i, (long long)length_at(at, i), past, (long long)row_tokens);
	}
	return SL_OK;
}

static enum sl_err check(const uint8_t *at, int64_t rows, int64_t tokens, int64_t row_tokens, bool padded, bool cached,
			 struct sl_fail *fail)
{
	int64_t sum = 0;

	if (padded && (tokens % rows || tokens / rows > row_tokens))
		return sl_fail_set(
			fail, SL_ERR_PAYLOAD,
			"%lld rows are padded to %lld tokens together, where each has the same number, at most %lld",
			(long long)rows, (long long)tokens, (long long)row_tokens);
	if (padded)
		row_tokens = tokens / rows;

	for (int64_t i = 0; i < rows; i++) {
		int64_t length = length_at(at, i);

		if (length < 1 || length > row_tokens)
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "row %lld has %lld tokens, expected 1 to %lld",
					   (long long)i, (long long)length, (long long)row_tokens);
		sum += length;
	}
	if (sum != tokens && !padded)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "rows have %lld tokens together, expected %lld",
				   (long long)sum, (long long)tokens);
	for (size_t i = (size_t)rows * (LENGTH + (cached ? 2 * NUMBER : 0)); i < sl_lengths_bytes(rows, cached); i++) {
		if (at[i] != 0)
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "bytes are set behind the lengths of %lld rows",
					   (long long)rows);
	}
	return cached ? check_cached(at, rows, row_tokens, fail) : SL_OK;
}

enum sl_err sl_lengths_take(struct sl_bytes *in, int64_t rows, int64_t tokens, int64_t row_tokens, uint32_t *begin,
			    uint32_t *pieces, uint32_t *cached, struct sl_fail *fail)
{
	struct sl_bytes rest = *in, lengths;
	enum sl_err err;

	if (sl_bytes_take(&rest, sl_lengths_bytes(rows, cached), &lengths) != SL_OK)
		return sl_fail_set(fail, SL_ERR_PAYLOAD,
				   "payload of %zu bytes is shorter than the lengths of %lld rows", in->len,
				   (long long)rows);
	err = check(lengths.data, rows, tokens, row_tokens, pieces != NULL, cached != NULL, fail);
	if (err)
		return err;
	begin[0] = 0;
	for (int64_t i = 0; i < rows; i++) {
		uint32_t length = (uint32_t)length_at(lengths.data, i);

		begin[i + 1] = begin[i] + (pieces ? (uint32_t)(tokens / rows) : length);
		if (pieces) {
			pieces[2 * i] = begin[i];
			pieces[2 * i + 1] = begin[i] + length;
		}
	}
	if (pieces)
		pieces[2 * rows] = begin[rows];
	for (int64_t i = 0; i < 2 * rows && cached; i++)
		cached[i] = number_at(lengths.data + LENGTH * rows + NUMBER * i);
	*in = rest;
	return SL_OK;
}

void sl_choice_write(const struct sl_dims *dims, uint8_t *at)
{
	memset(at, 0, sl_choice_bytes(dims->tokens));
	for (int64_t i = 0; i < dims->chosen; i++)
		at[dims->place[i] / 8] |= (uint8_t)(1 << dims->place[i] % 8);
}

static bool is_chosen(const uint8_t *at, int64_t token)
{
	return at[token / 8] >> token % 8 & 1;
}

enum sl_err sl_choice_take(struct sl_bytes *in, int64_t tokens, int64_t most, uint32_t *place, uint32_t *chosen,
			   struct sl_fail *fail)
{
	const int64_t bits = (int64_t)sl_choice_bytes(tokens) * 8;
	struct sl_bytes rest = *in, choice;
	uint32_t n = 0;

	if (sl_bytes_take(&rest, sl_choice_bytes(tokens), &choice) != SL_OK)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "payload is shorter than the choice among %lld tokens",
				   (long long)tokens);
	for (int64_t i = 0; i < bits; i++)
		n += is_chosen(choice.data, i);
	for (int64_t i = tokens; i < bits; i++)
		if (is_chosen(choice.data, i))
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "token %lld is chosen, of %lld", (long long)i,
					   (long long)tokens);
	if (n < 1 || (int64_t)n > most)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "%u of %lld tokens are chosen, expected 1 to %lld", n,
				   (long long)tokens, (long long)(most < tokens ? most : tokens));
	*chosen = n;
	for (int64_t i = 0; i < tokens; i++)
		if (is_chosen(choice.data, i))
			*place++ = (uint32_t)i;
	*in = rest;
	return SL_OK;
}
