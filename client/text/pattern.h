/* How byte-level BPE divides a text into words: a few known patterns, by PCRE2. A pattern from a file is never
 * compiled. */
#ifndef SL_CLIENT_TEXT_PATTERN_H
#define SL_CLIENT_TEXT_PATTERN_H

#include <stddef.h>

#include "client/text/spec.h"

struct sl_pattern;      /* constant once open: any thread */
struct sl_pattern_work; /* of one thread */

enum sl_err sl_pattern_open(struct sl_pattern **out, enum sl_tok_words words) SL_MUST_CHECK; /* NOMEM */
void sl_pattern_close(struct sl_pattern *p);                                                 /* NULL is fine */

/* The pattern that a file spells so; COUNT: it is not known. */
enum sl_tok_words sl_pattern_find(const char *spelled);

enum sl_err sl_pattern_work_open(struct sl_pattern_work **out, const struct sl_pattern *p) SL_MUST_CHECK; /* NOMEM */
void sl_pattern_work_close(struct sl_pattern_work *w); /* NULL is fine */

/* The end of the word that begins at `at` < len of `text`, which is valid UTF-8. NOMEM. */
enum sl_err sl_pattern_next(struct sl_pattern_work *w, const char *text, size_t len, size_t at,
			    size_t *end) SL_MUST_CHECK;

#endif
