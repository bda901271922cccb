/* The lengths of a chunk's rows. A payload of head_act begins with them if its tensor has tokens in dimension 0.
 * They are a u16 for every row, little endian, which counts its tokens; then zeros up to a multiple of 16 bytes. If
 * rows are padded, a length counts the tokens before the padding, and all rows of the tensor have the same number of
 * tokens. If rows are cached, two u32 of each row come before the zeros: the row of the cache, and how many tokens
 * that row has already. */
#ifndef SL_CODEC_LENGTHS_H
#define SL_CODEC_LENGTHS_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/graph/tensor.h"

static inline size_t sl_lengths_bytes(int64_t rows, bool cached)
{
	return ((size_t)rows * (sizeof(uint16_t) + (cached ? 2 * sizeof(uint32_t) : 0)) + 15) / 16 * 16;
}

/* dims->begin must not be NULL, and no row may have more than 65535 tokens. `at` has room for sl_lengths_bytes. */
void sl_lengths_write(const struct sl_dims *dims, uint8_t *at);

/* Takes the lengths of `rows` rows off the front of *in. Fills begin [rows + 1]; for padded rows also pieces [2·rows
 * + 1], for cached rows also cached [2·rows], which are NULL otherwise. PAYLOAD, with nothing written, if `in` is
 * too short, a length is 0 or above row_tokens, their sum is not `tokens`, or a padding byte is not zero. For padded
 * rows, `tokens` must be the same number for each row, at most row_tokens, and no length may be above that; their
 * sum may be less. The rows of the cache must ascend, and none may get more than row_tokens. What the cache has, the
 * executor checks (sl_exec_cache_take). */
enum sl_err sl_lengths_take(struct sl_bytes *in, int64_t rows, int64_t tokens, int64_t row_tokens, uint32_t *begin,
			    uint32_t *pieces, uint32_t *cached, struct sl_fail *fail) SL_MUST_CHECK;

/* The choice of tokens follows the lengths if only chosen tokens of the middle's output cross. It is a bit for each
 * token of the chunk, the lowest of a byte first, then zeros up to a multiple of 16 bytes. */
static inline size_t sl_choice_bytes(int64_t tokens)
{
	return ((size_t)tokens + 127) / 128 * 16;
}

void sl_choice_write(const struct sl_dims *dims, uint8_t *at);

/* Takes the choice among `tokens` tokens off the front of *in: their number in *chosen, their indices in place
 * [most]. PAYLOAD, with nothing written, if `in` is too short, no token is chosen, more than `most` are, or a bit
 * behind the last token is set. */
enum sl_err sl_choice_take(struct sl_bytes *in, int64_t tokens, int64_t most, uint32_t *place, uint32_t *chosen,
			   struct sl_fail *fail) SL_MUST_CHECK;

/* The homes follow, if the server keeps rows of head_act: a u32 for each row, then zeros up to a multiple of 16
 * bytes. It is 0 if the row is not kept, else 1 + its home, the index of its first token in the server's store. A
 * payload that ends here has no tensor: the server takes all rows from its store. */
static inline size_t sl_homes_bytes(int64_t rows)
{
	return ((size_t)rows * sizeof(uint32_t) + 15) / 16 * 16;
}

#endif
