/* Text and vocabularies for tests of tokenizers, generated from numbers alone, so that an
 * independent tokenizer can read the same. tests/e2e/tools/make_text.c writes them to files. A
 * change here changes tests/golden/tokens/digests.txt. */
#ifndef SL_TESTS_SUPPORT_MADE_TEXT_H
#define SL_TESTS_SUPPORT_MADE_TEXT_H

#include <stddef.h>
#include <stdint.h>

enum { MADE_STRINGS = 10000, MADE_STRING_BYTES = 8192 };

/* Makes string `index`, of any code points; returns its length in bytes. */
size_t made_string(uint64_t index, char out[MADE_STRING_BYTES]);

/* A tokenizer's files as NUL-terminated text, which the caller frees. Both functions end the
 * program if memory is short. */
char *made_words(void);                                /* vocab.txt, for WordPiece */
void made_pairs(char **vocab_json, char **merges_txt); /* trained on the first strings */

#endif
