/* The hash of a safetensors file, in a note of its own header. It covers header and data. In the header that is hashed,
 * the note's value is SL_ST_HASH_OPEN, since a hash cannot cover itself. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* for a state on the stack */
#include <xxhash.h>

#include "common/base/worker.h"
#include "common/weights/safetensors_impl.h"

enum { DIGITS = sizeof SL_ST_HASH_OPEN - 1, CHUNK_BYTES = 1 << 18 };

/* The digits of the note's value in a header; NULL: it has no such note. */
static char *digits_in(char *header)
{
	static const char before[] = "\"" SL_ST_HASH "\":\"";
	char *at = strstr(header, before);

	at = at ? at + sizeof before - 1 : NULL;
	return at && strlen(at) > DIGITS && at[DIGITS] == '"' ? at : NULL;
}

static void put_digits(char *at, const XXH3_state_t *state)
{
	char text[DIGITS + 1];

	snprintf(text, sizeof text, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(state));
	memcpy(at, text, DIGITS);
}

void sl_st_put_hash(char *header, const struct sl_st_item *const *items, const uint64_t *bytes, int n)
{
	char *at = digits_in(header);
	XXH3_state_t state;

	if (!at)
		return;
	XXH3_64bits_reset(&state);
	(void)XXH3_64bits_update(&state, header, strlen(header));
	for (int i = 0; i < n; i++)
		(void)XXH3_64bits_update(&state, items[i]->data, (size_t)bytes[i]);
	put_digits(at, &state);
}

/* Hashes [from, end) of the file. `piece`: CHUNK_BYTES of memory. */
static enum sl_err hash_data(const struct sl_st_file *f, uint64_t from, uint64_t end, void *piece, XXH3_state_t *state,
			     struct sl_fail *fail)
{
	for (size_t n; from < end; from += n) {
		enum sl_err err;

		n = end - from < CHUNK_BYTES ? (size_t)(end - from) : CHUNK_BYTES;
		sl_worker_turn();
		err = sl_st_read_at(f, from, piece, n, fail);
		if (err)
			return err;
		(void)XXH3_64bits_update(state, piece, n);
	}
	return SL_OK;
}

static enum sl_err check_file(const struct sl_st_file *f, bool *changed, struct sl_fail *fail)
{
	const size_t len = (size_t)f->data_start - sizeof(uint64_t);
	char want[DIGITS + 1], *piece = malloc(CHUNK_BYTES), *header = calloc(len + 1, 1), *at;
	uint64_t bytes = 0;
	XXH3_state_t state;
	enum sl_err err = piece && header ? sl_st_read_at(f, sizeof bytes, header, len, fail)
					  : sl_fail_set(fail, SL_ERR_NOMEM, "%s: no memory to check it", f->name);

	for (int i = 0; i < f->n_tensor; i++)
		bytes += f->tensor[i].bytes;
	at = err ? NULL : digits_in(header);
	if (at) {
		snprintf(want, sizeof want, "%.*s", DIGITS, at);
		memcpy(at, SL_ST_HASH_OPEN, DIGITS);
		header[strlen(header) - strspn(strrchr(header, '}') + 1, " ")] = 0; /* blanks that fill it up */
		XXH3_64bits_reset(&state);
		(void)XXH3_64bits_update(&state, header, strlen(header));
		err = hash_data(f, f->data_start, f->data_start + bytes, piece, &state, fail);
	}
	if (at && !err) {
		put_digits(at, &state);
		*changed = *changed || memcmp(want, at, DIGITS) != 0;
	}
	free(piece);
	free(header);
	return err;
}

enum sl_err sl_st_check_hash(const struct sl_st_file *file, bool *changed, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	*changed = false;
	if (!file->n_shard)
		return check_file(file, changed, fail);
	for (int i = 0; i < file->n_shard && !err; i++)
		err = check_file(file->shard[i], changed, fail);
	return err;
}
