/* Lengths of a chunk's rows. A payload of head_act begins with them where its tensor has tokens in dimension 0: for
 * every row its tokens as u16, little endian, then zeros up to a multiple of 16 bytes. Where rows are padded, these are
 * the tokens in front of the padding, and every row of the tensor has the same number of tokens. Where rows are cached,
 * two u32 of each row come before the zeros: which row of the cache it is, and how many tokens that has before these.
 */
#ifndef SL_CODEC_LENGTHS_H
#define SL_CODEC_LENGTHS_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/graph/tensor.h"

static inline size_t sl_lengths_bytes(int64_t rows, bool cached)
{
	return ((size_t)rows * (sizeof(uint16_t) + (cached ? 2 * sizeof(uint32_t) : 0)) + 15) / 16 * 16;
}

/* dims->begin is not NULL, and no row has more than 65535 tokens. `at` has room for sl_lengths_bytes. */
void sl_lengths_write(const struct sl_dims *dims, uint8_t *at);

/* Takes the lengths of so many rows off the front of *in: begin [rows + 1], of padded rows pieces [2·rows + 1], and of
 * cached rows cached [2·rows], else NULL. PAYLOAD, with nothing written, where `in` is too short for them, one is 0 or
 * above row_tokens, their sum is not `tokens`, or what pads them is not zero. Of padded rows the sum may be less,
 * `tokens` has the same number for each row, at most row_tokens, and no length is above it. Rows of the cache ascend,
 * and none gets more than row_tokens; what the cache has, the executor knows (sl_exec_cache_take). */
enum sl_err sl_lengths_take(struct sl_bytes *in, int64_t rows, int64_t tokens, int64_t row_tokens, uint32_t *begin,
			    uint32_t *pieces, uint32_t *cached, struct sl_fail *fail) SL_MUST_CHECK;

/* Behind the lengths, where only chosen tokens of the middle's output cross: a bit for each token of the chunk, the
 * lowest of a byte first, then zeros up to a multiple of 16 bytes. */
static inline size_t sl_choice_bytes(int64_t tokens)
{
	return ((size_t)tokens + 127) / 128 * 16;
}

void sl_choice_write(const struct sl_dims *dims, uint8_t *at);

/* Takes the choice among so many tokens off the front of *in: *chosen, and place [most]. PAYLOAD, with nothing written,
 * where `in` is too short, no token is chosen, more than `most` are, or a bit behind the last token is set. */
enum sl_err sl_choice_take(struct sl_bytes *in, int64_t tokens, int64_t most, uint32_t *place, uint32_t *chosen,
			   struct sl_fail *fail) SL_MUST_CHECK;

/* Behind these, where the server keeps rows of head_act: for each row a u32, 0: it is not kept, else 1 + its home, the
 * place of its first token in the store; then zeros up to a multiple of 16 bytes. A payload that ends here has no
 * tensor: all of its rows are those that were kept. */
static inline size_t sl_homes_bytes(int64_t rows)
{
	return ((size_t)rows * sizeof(uint32_t) + 15) / 16 * 16;
}

#endif
