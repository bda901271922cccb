#include "client/text/token_image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/base/newfile.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "caches of tokens are little endian");

/* VERSION goes up with each change of the file's format, or of the tokens that a tokenizer makes of a text. */
enum { VERSION = 7, ARRAYS = 6 };

static const char magic[8] = "sltokens";

struct head {
	char magic[8];
	uint64_t key, count, tokens, width, hash; /* hash: of the other numbers, and of all bytes behind the head */
};

struct array {
	void **data;
	uint64_t bytes;
};

static void arrays_of(struct sl_token_image *m, struct array out[ARRAYS])
{
	out[0] = (struct array){(void **)&m->at, (m->count + 1) * sizeof *m->at};
	out[1] = (struct array){(void **)&m->value, m->count * sizeof *m->value};
	out[2] = (struct array){(void **)&m->first, m->count * sizeof *m->first};
	out[3] = (struct array){(void **)&m->whole, m->count * sizeof *m->whole};
	out[4] = (struct array){(void **)&m->key, m->count * sizeof *m->key};
	out[5] = (struct array){&m->id, m->tokens * m->width};
}

void sl_token_image_free(struct sl_token_image *m)
{
	free(m->at);
	free(m->value);
	free(m->first);
	free(m->whole);
	free(m->key);
	free(m->id);
	*m = (struct sl_token_image){0};
}

/* Hashes are chained: each is the seed of the next. */
static void mix(uint64_t *hash, const void *data, size_t len)
{
	*hash = XXH3_64bits_withSeed(data, len, *hash);
}

static void mix_text(uint64_t *hash, const char *text)
{
	mix(hash, text ? text : "", text ? strlen(text) + 1 : 0);
}

static void mix_number(uint64_t *hash, uint64_t number)
{
	mix(hash, &number, sizeof number);
}

static void mix_column(uint64_t *hash, const struct sl_records_column *column)
{
	mix_text(hash, column->name);
	mix_number(hash, (uint64_t)column->number);
}

uint64_t sl_token_image_key(const struct sl_token_set_spec *spec, struct sl_bytes text)
{
	const struct sl_records_spec *r = &spec->records;
	uint64_t key = VERSION;

	mix_number(&key, sl_tokenizer_hash(spec->tokenizer));
	mix_number(&key, (uint64_t)spec->max_length);
	mix_number(&key, (uint64_t)r->format << 3 | (uint64_t)r->exact << 2 | (uint64_t)r->header << 1 | r->skip_short);
	mix_column(&key, &r->a);
	mix_column(&key, &r->b);
	mix_column(&key, &r->label);
	mix_number(&key, (uint64_t)spec->labels.classes << 1 | spec->labels.regression);
	for (int i = 0; spec->labels.name && spec->labels.name[i]; i++)
		mix_text(&key, spec->labels.name[i]);
	if (spec->labels.centre != 0)
		mix(&key, &spec->labels.centre, sizeof spec->labels.centre);
	if (spec->next.on) {
		mix_number(&key, (uint64_t)spec->next.pack << 2 | (uint64_t)spec->next.all << 1 | 1);
		mix_number(&key, (uint64_t)(uint32_t)spec->next.end);
	}
	mix_number(&key, spec->parts.hash);
	mix(&key, text.data, text.len);
	return key;
}

static uint64_t hash_of(const struct head *head, const struct sl_token_image *image)
{
	struct sl_token_image m = *image;
	struct array array[ARRAYS];
	uint64_t hash = head->key;

	arrays_of(&m, array);
	mix_number(&hash, m.count);
	mix_number(&hash, m.tokens);
	mix_number(&hash, m.width);
	for (int i = 0; i < ARRAYS; i++)
		mix(&hash, *array[i].data, array[i].bytes);
	return hash;
}

/* Checks a cache's rows, labels and ids: a right hash does not prove that we wrote them. */
static bool is_sound(const struct sl_token_image *m, const struct sl_token_set_spec *spec)
{
	uint32_t size = (uint32_t)sl_tokenizer_size(spec->tokenizer);
	const uint64_t most = spec->max_length ? (uint64_t)spec->max_length : INT32_MAX;
	bool labelled = spec->records.label.name || spec->records.label.number >= 0;

	if (m->at[0] != 0 || m->at[m->count] != m->tokens)
		return false;
	for (uint64_t i = 0; i < m->count; i++) {
		uint64_t n = m->at[i + 1] - m->at[i];
		const union sl_label *v = &m->value[i];

		if (m->at[i + 1] <= m->at[i] || m->at[i + 1] > m->tokens || n > most || m->first[i] > n ||
		    m->whole[i] < n || m->whole[i] > INT32_MAX)
			return false;
		if (!labelled                 ? v->label != -1
		    : spec->labels.regression ? !isfinite(v->target)
					      : v->label < 0 || v->label >= spec->labels.classes)
			return false;
	}
	for (uint64_t i = 0; i < m->tokens; i++)
		if (sl_token_image_id(m, i) >= size)
			return false;
	return true;
}

/* Copies the arrays out of a file's bytes. False: the sizes do not fit, or there is no memory. */
static bool take(struct sl_token_image *m, const uint8_t *data, size_t len)
{
	struct array array[ARRAYS];
	uint64_t want = sizeof(struct head);

	if ((m->width != sizeof(uint16_t) && m->width != sizeof(uint32_t)) || m->count < 1 ||
	    m->count > SL_TOKEN_SET_MOST || m->tokens > SL_TOKEN_FILE_MOST)
		return false;
	arrays_of(m, array);
	for (int i = 0; i < ARRAYS; i++)
		want += array[i].bytes;
	if (want != len)
		return false;
	data += sizeof(struct head);
	for (int i = 0; i < ARRAYS; i++) {
		*array[i].data = malloc(array[i].bytes + 1);
		if (!*array[i].data)
			return false;
		memcpy(*array[i].data, data, array[i].bytes);
		data += array[i].bytes;
	}
	return true;
}

bool sl_token_image_read(struct sl_token_image *image, const char *path, uint64_t key,
			 const struct sl_token_set_spec *spec)
{
	struct sl_token_image m = {0};
	struct sl_fail fail;
	struct head head;
	uint8_t *data = NULL;
	size_t len = 0;
	bool good = false;

	if (access(path, F_OK) != 0 || sl_file_read(path, SL_TOKEN_FILE_MOST, &data, &len, &fail) != SL_OK)
		return false;
	if (len >= sizeof head) {
		memcpy(&head, data, sizeof head);
		m.count = head.count;
		m.tokens = head.tokens;
		m.width = head.width;
		good = memcmp(head.magic, magic, sizeof magic) == 0 && head.key == key && take(&m, data, len) &&
		       hash_of(&head, &m) == head.hash && is_sound(&m, spec);
	}
	free(data);
	if (good)
		*image = m;
	else
		sl_token_image_free(&m);
	return good;
}

enum sl_err sl_token_image_write(const struct sl_token_image *image, const char *path, uint64_t key,
				 struct sl_fail *fail)
{
	struct sl_token_image m = *image;
	struct head head = {.key = key, .count = m.count, .tokens = m.tokens, .width = m.width};
	struct array array[ARRAYS];
	struct sl_newfile file;
	enum sl_err err = sl_newfile_open(&file, path, 0600, SL_FP_NONE, fail);

	if (err)
		return err;
	arrays_of(&m, array);
	memcpy(head.magic, magic, sizeof magic);
	head.hash = hash_of(&head, &m);
	err = sl_newfile_write(&file, &head, sizeof head, fail);
	for (int i = 0; i < ARRAYS && !err; i++)
		err = sl_newfile_write(&file, *array[i].data, array[i].bytes, fail);
	return err ? err : sl_newfile_finish(&file, fail);
}
