#include "client/text/vocab.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static uint32_t first_slot(const struct sl_vocab *v, const char *text, size_t len)
{
	return (uint32_t)XXH3_64bits(text, len) & v->mask;
}

/* The slot that holds the text, or the free one where it would go. */
static uint32_t find_slot(const struct sl_vocab *v, const char *text, size_t len)
{
	uint32_t s = first_slot(v, text, len);

	for (; v->slot[s]; s = (s + 1) & v->mask) {
		int32_t id = (int32_t)v->slot[s] - 1;

		if (sl_vocab_len(v, id) == len && memcmp(v->bytes + v->at[id], text, len) == 0)
			break;
	}
	return s;
}

static enum sl_err take_memory(struct sl_vocab *v, const struct sl_vocab_entry *entry, int32_t n)
{
	uint64_t bytes = 1;
	uint32_t slots = 16;

	for (int32_t i = 0; i < n; i++)
		bytes += entry[i].text ? entry[i].len + 1 : 1;
	if (n > SL_VOCAB_MOST || bytes > UINT32_MAX)
		return SL_ERR_LIMIT;
	while (slots < 2u * (uint32_t)n)
		slots *= 2;
	v->bytes = malloc(bytes);
	v->at = malloc(((size_t)n + 1) * sizeof *v->at);
	v->slot = calloc(slots, sizeof *v->slot);
	v->mask = slots - 1;
	v->n = n;
	return v->bytes && v->at && v->slot ? SL_OK : SL_ERR_NOMEM;
}

enum sl_err sl_vocab_make(struct sl_vocab *out, const struct sl_vocab_entry *entry, int32_t n, int32_t twice[2])
{
	struct sl_vocab v = {0};
	enum sl_err err = take_memory(&v, entry, n);
	uint32_t at = 0;

	for (int32_t id = 0; id < n && !err; id++) {
		size_t len = entry[id].text ? entry[id].len : 0;
		uint32_t slot;

		v.at[id] = at;
		memcpy(v.bytes + at, entry[id].text ? entry[id].text : "", len);
		at += (uint32_t)len;
		v.bytes[at++] = '\0';
		v.at[id + 1] = at;
		if (!entry[id].text)
			continue;
		v.count++;
		v.longest = len > v.longest ? (uint32_t)len : v.longest;
		slot = find_slot(&v, entry[id].text, len);
		if (v.slot[slot]) {
			twice[0] = (int32_t)v.slot[slot] - 1;
			twice[1] = id;
			err = SL_ERR_DATA;
		}
		v.slot[slot] = (uint32_t)id + 1;
	}
	if (err)
		sl_vocab_free(&v);
	else
		*out = v;
	return err;
}

void sl_vocab_free(struct sl_vocab *v)
{
	free(v->bytes);
	free(v->at);
	free(v->slot);
	*v = (struct sl_vocab){0};
}

int32_t sl_vocab_find(const struct sl_vocab *v, const char *text, size_t len)
{
	return len > v->longest ? -1 : (int32_t)v->slot[find_slot(v, text, len)] - 1;
}

const char *sl_vocab_text(const struct sl_vocab *v, int32_t id)
{
	return id < 0 || id >= v->n ? "" : v->bytes + v->at[id];
}
