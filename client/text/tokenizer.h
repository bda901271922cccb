/* Turns text into token ids, as Hugging Face's tokenizers do: byte-level BPE (GPT-2, RoBERTa), BPE with marks for
 * spaces (Llama 2, see marked.h), WordPiece (BERT) and unigram (XLM-R). Special tokens that a text spells out, such as
 * "<mask>", become their ids, as upstream. */
#ifndef SL_CLIENT_TEXT_TOKENIZER_H
#define SL_CLIENT_TEXT_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "client/text/spec.h"
#include "common/base/buf.h"
#include "common/base/err.h"

enum { SL_TEXT_MOST = 4 << 20 /* bytes of one text */ };

/* Constant once open: any number of threads may use it. */
struct sl_tokenizer;
/* What one thread needs to use it: buffers, and a cache of words that changes no result. */
struct sl_tokenizer_work;

/* Reads a folder or one file as sl_tok_spec_read does, with its errors. */
enum sl_err sl_tokenizer_open(struct sl_tokenizer **out, const char *path, struct sl_fail *fail) SL_MUST_CHECK;
/* Takes over *spec, even if it fails. `hash`: that of the files. NOMEM. */
enum sl_err sl_tokenizer_make(struct sl_tokenizer **out, struct sl_tok_spec *spec, uint64_t hash,
			      struct sl_fail *fail) SL_MUST_CHECK;
void sl_tokenizer_close(struct sl_tokenizer *t); /* NULL is fine */

enum sl_tok_kind sl_tokenizer_kind(const struct sl_tokenizer *t);
int32_t sl_tokenizer_size(const struct sl_tokenizer *t);                 /* ids lie in [0, size) */
const char *sl_tokenizer_text(const struct sl_tokenizer *t, int32_t id); /* as the vocabulary writes it; "" : none */
/* Writes the text that n tokens stand for, at most sl_tokenizer_decoded(t, n) bytes, and returns its length. Special
 * tokens stand for nothing. The text may begin and end inside a character. */
size_t sl_tokenizer_decode(const struct sl_tokenizer *t, const int32_t *id, int32_t n, char *out);
size_t sl_tokenizer_decoded(const struct sl_tokenizer *t, int32_t n);
int32_t sl_tokenizer_pad(const struct sl_tokenizer *t);  /* <pad> or [PAD]; -1: none */
int32_t sl_tokenizer_mask(const struct sl_tokenizer *t); /* <mask> or [MASK]; -1: none */
/* Writes the ids, at most `most`, that only a sample's form, padding and masks use, and no text; returns how many. */
int sl_tokenizer_special_ids(const struct sl_tokenizer *t, int32_t *id, int most);
int sl_tokenizer_specials(const struct sl_tokenizer *t, bool pair); /* number of special tokens in a sample */
int sl_tokenizer_ending(const struct sl_tokenizer *t);              /* number of them after a single text */
uint64_t sl_tokenizer_hash(const struct sl_tokenizer *t);           /* XXH3 of the files it was read from */

/* `t` has to outlive it. NOMEM. */
enum sl_err sl_tokenizer_work_open(struct sl_tokenizer_work **out, const struct sl_tokenizer *t,
				   struct sl_fail *fail) SL_MUST_CHECK;
void sl_tokenizer_work_close(struct sl_tokenizer_work *w); /* NULL is fine */

/* One sample, valid until the work is used again. */
struct sl_tokens {
	const int32_t *id; /* [n] */
	int32_t n;
	int32_t first; /* ids [0, first) have token type 0, the others 1 */
	int32_t whole; /* ids that there would be without the cut at max_length */
};

/* Encodes `a`, or `a` and `b` (b.data NULL: one text), with special tokens round them, as at most max_length ids (0: no
 * limit). A text that is too long loses tokens at its end. Of a pair the longer text loses tokens first, as in
 * upstream's longest_first. DATA: a text is no UTF-8, and *fail says at which byte, or it is longer than SL_TEXT_MOST;
 * NOMEM. */
enum sl_err sl_tokenizer_encode(struct sl_tokenizer_work *w, struct sl_bytes a, struct sl_bytes b, int32_t max_length,
				struct sl_tokens *out, struct sl_fail *fail) SL_MUST_CHECK;

#endif
