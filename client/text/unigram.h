/* SentencePiece's unigram model, as XLM-R and CamemBERT have it: of all ways to put a word together from pieces, the
 * one whose sum of log-probabilities is highest (Kudo 2018, arXiv:1804.10959, by Viterbi's algorithm). Before that each
 * character is replaced by what a table says, mostly its compatible form (NFKC). As in upstream's fast tokenizers the
 * table is asked for clusters of less than 6 bytes, else for single characters, and its shortest match counts. */
#ifndef SL_CLIENT_TEXT_UNIGRAM_H
#define SL_CLIENT_TEXT_UNIGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/text/vocab.h"
#include "common/base/err.h"

enum { SL_UNIGRAM_PIECE_MOST = 1024, SL_UNIGRAM_MAPPED_MOST = 64 }; /* bytes of a piece, and of a replacement */

/* Constant once made: any thread. It begins zeroed. */
struct sl_unigram {
	double *score; /* [n] log-probabilities of ids 0 … n - 1 */
	int32_t n;
	size_t longest; /* bytes of the longest piece */
	double unknown; /* of a character that no piece begins with alone */
	uint32_t *trie; /* [units] a double array (Darts) from characters to places in `map`; NULL: none is replaced */
	size_t units;
	char *map; /* [map_len] replacements, each with a NUL behind it */
	size_t map_len;
	bool no_end; /* white space at the text's end is removed */
	bool no_run; /* a run of spaces becomes one */
	bool spaces; /* white space divides words, and is no part of them */
};

/* Reads the table of replacements, as SentencePiece writes it, in base64. DATA: it is no such table; NOMEM. */
enum sl_err sl_unigram_table(struct sl_unigram *u, const char *base64, size_t len) SL_MUST_CHECK;
void sl_unigram_free(struct sl_unigram *u); /* idempotent */

/* A copy of the text as the model sees it; *len becomes its length. The caller frees it. NULL: no memory. */
char *sl_unigram_clean(const struct sl_unigram *u, const char *text, size_t *len);

/* Bytes of memory that sl_unigram_pieces takes for a word. */
size_t sl_unigram_room(size_t len);
/* Writes the ids of a word to id[len] and returns their number. Characters without a piece are `unk`, several of them
 * once. */
size_t sl_unigram_pieces(const struct sl_unigram *u, const struct sl_vocab *vocab, int32_t unk, const char *word,
			 size_t len, int32_t *id, void *room);

#endif
