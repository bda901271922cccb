/* Divides a text into words for byte-level BPE, by a few known patterns of PCRE2. A pattern from a file is never
 * compiled. */
#ifndef SL_CLIENT_TEXT_PATTERN_H
#define SL_CLIENT_TEXT_PATTERN_H

#include <stddef.h>

#include "client/text/spec.h"

struct sl_pattern;      /* constant once open: any thread */
struct sl_pattern_work; /* of one thread */

enum sl_err sl_pattern_open(struct sl_pattern **out, enum sl_tok_words words) SL_MUST_CHECK; /* NOMEM */
void sl_pattern_close(struct sl_pattern *p);                                                 /* NULL is fine */

/* The known pattern that tokenizer.json spells like this; COUNT: there is none. */
enum sl_tok_words sl_pattern_find(const char *spelled);

enum sl_err sl_pattern_work_open(struct sl_pattern_work **out, const struct sl_pattern *p) SL_MUST_CHECK; /* NOMEM */
void sl_pattern_work_close(struct sl_pattern_work *w); /* NULL is fine */

/* Finds the end of the word that begins at `at` < len. `text` must be valid UTF-8. NOMEM. */
enum sl_err sl_pattern_next(struct sl_pattern_work *w, const char *text, size_t len, size_t at,
			    size_t *end) SL_MUST_CHECK;

#endif
