/* Rows for a causal language model, which predicts the next token: of texts, or of prompts with their completions. */
#ifndef SL_CLIENT_TEXT_TOKEN_NEXT_H
#define SL_CLIENT_TEXT_TOKEN_NEXT_H

#include "client/text/tokenizer.h"

/* How texts become rows, which have at most a given number of tokens. NONE: each text is a row, cut off at that number.
 * SPLIT: longer texts go on in further rows. JOIN: all texts stand one after the other, in rows of that number. */
enum sl_token_pack { SL_TOKEN_PACK_NONE, SL_TOKEN_PACK_SPLIT, SL_TOKEN_PACK_JOIN };

struct sl_token_next {
	bool on;
	bool all;    /* the tokens of a prompt have a loss, too */
	int32_t end; /* this token follows each text; -1: none does */
	enum sl_token_pack pack;
};

/* Takes a row, whose tokens [0, first) are no labels. NOMEM; DATA: too long. */
typedef enum sl_err sl_token_row_fn(void *arg, const struct sl_tokens *row, struct sl_fail *fail);

/* Makes rows of at most `most` tokens, at least 2, for one set. Rows without a label are left out and counted. */
struct sl_token_packer {
	const struct sl_token_next *how;
	struct sl_tokenizer_work *work;
	int32_t most;
	sl_token_row_fn *put;
	void *arg;
	int64_t left_out;
	/* private; begin zeroed */
	int32_t *id;
	size_t cap;
	int32_t n;
	char *text;
};

/* Adds a text `a`, or a prompt `a` and directly after it a completion `b` (b.data NULL: there is none). Both are
 * tokenized together; the completion begins at the first token that differs from those of `a` alone, as a token may
 * hold letters of both. Errors as sl_tokenizer_encode. */
enum sl_err sl_token_packer_add(struct sl_token_packer *p, struct sl_bytes a, struct sl_bytes b,
				struct sl_fail *fail) SL_MUST_CHECK;
/* Makes the last row of what is left of joined texts. */
enum sl_err sl_token_packer_end(struct sl_token_packer *p, struct sl_fail *fail) SL_MUST_CHECK;
void sl_token_packer_close(struct sl_token_packer *p);

#endif
