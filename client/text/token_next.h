/* Rows of a causal language model, in which tokens guess the next one: texts, or prompts with what follows them. */
#ifndef SL_CLIENT_TEXT_TOKEN_NEXT_H
#define SL_CLIENT_TEXT_TOKEN_NEXT_H

#include "client/text/tokenizer.h"

/* A text is a row, cut at the most tokens of a row; or longer ones go on in further rows; or all texts stand one behind
 * the other, in rows of the most tokens. */
enum sl_token_pack { SL_TOKEN_PACK_NONE, SL_TOKEN_PACK_SPLIT, SL_TOKEN_PACK_JOIN };

struct sl_token_next {
	bool on;
	bool all;    /* tokens of a prompt have a loss, too */
	int32_t end; /* this token follows each text; -1: none does */
	enum sl_token_pack pack;
};

/* A row: no token of [0, first) is a label. NOMEM, LIMIT. */
typedef enum sl_err sl_token_row_fn(void *arg, const struct sl_tokens *row, struct sl_fail *fail);

/* Makes rows of at most `most` tokens, at least 2, for one set. Rows without a label are left out and counted. */
struct sl_token_packer {
	const struct sl_token_next *how;
	struct sl_tokenizer_work *work;
	int32_t most;
	sl_token_row_fn *put;
	void *arg;
	int64_t left_out;
	/* its own; begin zeroed */
	int32_t *id;
	size_t cap;
	int32_t n;
	char *text;
};

/* `b` stands behind `a` without anything between; data NULL: there is none. Where the tokens of `a` and those of both
 * are no longer the same, the completion begins: a token may hold letters of both. As sl_tokenizer_encode. */
enum sl_err sl_token_packer_add(struct sl_token_packer *p, struct sl_bytes a, struct sl_bytes b,
				struct sl_fail *fail) SL_MUST_CHECK;
/* What is left of joined texts becomes a row. */
enum sl_err sl_token_packer_end(struct sl_token_packer *p, struct sl_fail *fail) SL_MUST_CHECK;
void sl_token_packer_close(struct sl_token_packer *p);

#endif
