/* How byte-level BPE divides a text into words: GPT-2's pattern, by PCRE2. */
#ifndef SL_CLIENT_TEXT_PATTERN_H
#define SL_CLIENT_TEXT_PATTERN_H

#include <stddef.h>

#include "common/base/err.h"

struct sl_pattern;      /* constant once open: any thread */
struct sl_pattern_work; /* of one thread */

enum sl_err sl_pattern_open(struct sl_pattern **out) SL_MUST_CHECK; /* NOMEM */
void sl_pattern_close(struct sl_pattern *p);                        /* NULL is fine */

enum sl_err sl_pattern_work_open(struct sl_pattern_work **out, const struct sl_pattern *p) SL_MUST_CHECK; /* NOMEM */
void sl_pattern_work_close(struct sl_pattern_work *w); /* NULL is fine */

/* The end of the word that begins at `at` < len of `text`, which is valid UTF-8. NOMEM. */
enum sl_err sl_pattern_next(struct sl_pattern_work *w, const char *text, size_t len, size_t at,
			    size_t *end) SL_MUST_CHECK;

#endif
