/* The token ids of a set, in memory and in a cache file; only for token_set.c. */
#ifndef SL_CLIENT_TEXT_TOKEN_IMAGE_H
#define SL_CLIENT_TEXT_TOKEN_IMAGE_H

#include "client/text/token_set.h"

enum { SL_TOKEN_FILE_MOST = INT32_MAX /* bytes of a file of text, and of a cache */ };

/* Each array is an allocation of its own. first, whole and key are those of the rows (token_set.h). */
struct sl_token_image {
	uint64_t count, tokens;
	size_t width;            /* bytes of an id, 2 or 4 */
	uint64_t *at;            /* [count + 1] where a row begins */
	union sl_label *value;   /* [count] */
	uint32_t *first, *whole; /* [count] */
	uint64_t *key;           /* [count] */
	void *id;                /* [tokens] */
};

static inline uint32_t sl_token_image_id(const struct sl_token_image *m, uint64_t at)
{
	return m->width == sizeof(uint16_t) ? ((const uint16_t *)m->id)[at] : ((const uint32_t *)m->id)[at];
}

void sl_token_image_free(struct sl_token_image *image); /* idempotent; a zeroed one is fine */

/* The XXH3 of all that rows depend on: the tokenizer's files, the text, the columns, the labels, max_length, the parts.
 */
uint64_t sl_token_image_key(const struct sl_token_set_spec *spec, struct sl_bytes text);
/* Reads a cache. False: there is no such file, it has another key, or it is damaged; *image is untouched. */
bool sl_token_image_read(struct sl_token_image *image, const char *path, uint64_t key,
			 const struct sl_token_set_spec *spec);
/* Writes a cache. CANTCREATE, IO. */
enum sl_err sl_token_image_write(const struct sl_token_image *image, const char *path, uint64_t key,
				 struct sl_fail *fail) SL_MUST_CHECK;

#endif
