#include "client/text/token_set.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "client/text/token_image.h"
#include "common/base/log.h"

struct sl_token_set {
	struct sl_token_image image;
};

struct builder;

/* The rows of one part (struct sl_token_parts), while they are made. */
struct pile {
	struct builder *b;
	struct sl_token_packer packer;
	uint64_t key; /* of the part's last text */
};

/* A set that is being read. */
struct builder {
	const struct sl_token_set_spec *spec;
	struct sl_tokenizer_work *work;
	struct pile pile[SL_TOKEN_SET_PARTS];
	struct sl_token_image image; /* each of its arrays grows by itself */
	uint64_t cap_rows, cap_tokens;
};

static bool grow(void **array, uint64_t cap, size_t size)
{
	void *grown = realloc(*array, cap * size);

	if (grown)
		*array = grown;
	return grown != NULL;
}

static bool room_for_row(struct builder *b, uint64_t tokens)
{
	struct sl_token_image *m = &b->image;

	if (m->count == b->cap_rows) {
		b->cap_rows = 2 * b->cap_rows + 1024;
		if (!grow((void **)&m->at, b->cap_rows + 1, sizeof *m->at) ||
		    !grow((void **)&m->value, b->cap_rows, sizeof *m->value) ||
		    !grow((void **)&m->first, b->cap_rows, sizeof *m->first) ||
		    !grow((void **)&m->whole, b->cap_rows, sizeof *m->whole) ||
		    !grow((void **)&m->key, b->cap_rows, sizeof *m->key))
			return false;
	}
	if (m->tokens + tokens > b->cap_tokens) {
		b->cap_tokens = 2 * (m->tokens + tokens) + 4096;
		return grow(&m->id, b->cap_tokens, m->width);
	}
	return true;
}

static enum sl_err put_row(struct builder *b, const struct sl_tokens *row, union sl_label value, uint64_t key,
			   struct sl_fail *fail)
{
	struct sl_token_image *m = &b->image;

	if (m->count == SL_TOKEN_SET_MOST)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: more than %d rows", b->spec->records.path,
				   SL_TOKEN_SET_MOST);
	if (!room_for_row(b, (uint64_t)row->n))
		return sl_fail_set(fail, SL_ERR_NOMEM, "%s: no memory for its tokens", b->spec->records.path);
	m->at[m->count] = m->tokens;
	m->value[m->count] = value;
	m->key[m->count] = key;
	m->first[m->count] = (uint32_t)row->first;
	m->whole[m->count++] = (uint32_t)row->whole;
	for (int32_t i = 0; i < row->n; i++, m->tokens++)
		if (m->width == sizeof(uint16_t))
			((uint16_t *)m->id)[m->tokens] = (uint16_t)row->id[i];
		else
			((uint32_t *)m->id)[m->tokens] = (uint32_t)row->id[i];
	m->at[m->count] = m->tokens;
	return SL_OK;
}

static enum sl_err put_next(void *arg, const struct sl_tokens *row, struct sl_fail *fail)
{
	const struct pile *p = arg;

	return put_row(p->b, row, (union sl_label){.label = -1}, p->key, fail);
}

static uint64_t key_of(const struct sl_record *row)
{
	const uint64_t key = XXH3_64bits(row->a.data, row->a.len);

	return row->b.data ? XXH3_64bits_withSeed(row->b.data, row->b.len, key) : key;
}

static enum sl_err pack_row(struct builder *b, const struct sl_record *row, struct sl_fail *fail)
{
	const struct sl_token_parts *parts = &b->spec->parts;
	const uint64_t key = key_of(row);
	struct pile *p = &b->pile[parts->of ? parts->of(parts->arg, key) : 0];

	p->key = key;
	return sl_token_packer_add(&p->packer, row->a, row->b, fail);
}

static enum sl_err read_row(struct builder *b, const struct sl_record *row, struct sl_fail *fail)
{
	union sl_label value = {.label = -1};
	struct sl_tokens tokens;
	enum sl_err err = SL_OK;

	if (b->spec->next.on) {
		err = pack_row(b, row, fail);
		return err ? sl_fail_set(fail, err, "%s:%zu: %s", b->spec->records.path, row->line, fail->text) : err;
	}
	if (row->a.len == 0 || (row->b.data && row->b.len == 0))
		err = sl_fail_set(fail, SL_ERR_DATA, "an empty text");
	if (!err && row->label.data)
		err = sl_label_read(&b->spec->labels, row->label, &value, fail);
	if (!err)
		err = sl_tokenizer_encode(b->work, row->a, row->b, b->spec->max_length, &tokens, fail);
	if (!err && tokens.n == 0)
		err = sl_fail_set(fail, SL_ERR_DATA, "nothing is left of the text");
	if (err)
		return sl_fail_set(fail, err, "%s:%zu: %s", b->spec->records.path, row->line, fail->text);
	return put_row(b, &tokens, value, key_of(row), fail);
}

static enum sl_err read_rows(struct builder *b, struct sl_bytes text, struct sl_fail *fail)
{
	struct sl_records *records;
	struct sl_record row;
	int64_t left_out = 0;
	enum sl_err err = text.data ? sl_records_open_bytes(&records, &b->spec->records, text, fail)
				    : sl_records_open(&records, &b->spec->records, fail);

	if (err)
		return err;
	do {
		err = sl_records_next(records, &row, fail);
		if (!err && row.a.data)
			err = read_row(b, &row, fail);
	} while (!err && row.a.data);
	for (int i = 0; i < SL_TOKEN_SET_PARTS && !err; i++) {
		err = sl_token_packer_end(&b->pile[i].packer, fail);
		left_out += b->pile[i].packer.left_out;
	}
	if (!err && b->image.count == 0)
		err = sl_fail_set(fail, SL_ERR_DATA, "%s: no rows", b->spec->records.path);
	if (!err && sl_records_skipped(records))
		sl_log(SL_LOG_WARN, "short-rows", "%s: %zu rows with too few columns were left out",
		       b->spec->records.path, sl_records_skipped(records));
	if (!err && left_out)
		sl_log(SL_LOG_INFO, "rows-without-loss", "%s: %lld rows without a token to be guessed were left out",
		       b->spec->records.path, (long long)left_out);
	sl_records_close(records);
	return err;
}

static enum sl_err build(struct sl_token_image *out, const struct sl_token_set_spec *spec, struct sl_bytes text,
			 struct sl_fail *fail)
{
	struct builder b = {.spec = spec};
	enum sl_err err = sl_tokenizer_work_open(&b.work, spec->tokenizer, fail);

	for (int i = 0; i < SL_TOKEN_SET_PARTS; i++)
		b.pile[i] = (struct pile){.b = &b,
					  .packer = {.how = &spec->next,
						     .work = b.work,
						     .most = spec->max_length,
						     .put = put_next,
						     .arg = &b.pile[i]}};
	b.image.width = sl_tokenizer_size(spec->tokenizer) <= UINT16_MAX + 1 ? sizeof(uint16_t) : sizeof(uint32_t);
	if (!err)
		err = read_rows(&b, text, fail);
	for (int i = 0; i < SL_TOKEN_SET_PARTS; i++)
		sl_token_packer_close(&b.pile[i].packer);
	sl_tokenizer_work_close(b.work);
	if (err)
		sl_token_image_free(&b.image);
	else
		*out = b.image;
	return err;
}

/* The path of the cache; false: there is to be none, or its path is too long. */
static bool cache_path(const struct sl_token_set_spec *spec, char path[PATH_MAX])
{
	return spec->cache && strcmp(spec->records.path, "-") != 0 &&
	       snprintf(path, PATH_MAX, "%s.tokens", spec->records.path) < PATH_MAX;
}

static void keep(const struct sl_token_image *image, const char *path, uint64_t key)
{
	struct sl_fail fail;

	if (sl_token_image_write(image, path, key, &fail) != SL_OK)
		sl_log(SL_LOG_INFO, "no-token-cache", "%s; the text is tokenized again next time", fail.text);
}

enum sl_err sl_token_set_open(struct sl_token_set **out, const struct sl_token_set_spec *spec, struct sl_fail *fail)
{
	struct sl_token_set *set = calloc(1, sizeof *set);
	uint8_t *text = NULL;
	size_t len = 0;
	char path[PATH_MAX];
	bool keeps = cache_path(spec, path), cached = false;
	uint64_t key = 0;
	enum sl_err err = set ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a set of texts");

	if (!err && !spec->text.data && strcmp(spec->records.path, "-") != 0)
		err = sl_file_read(spec->records.path, SL_TOKEN_FILE_MOST, &text, &len, fail);
	if (!err) {
		const struct sl_bytes all = spec->text.data ? spec->text : (struct sl_bytes){text, len};

		key = sl_token_image_key(spec, all);
		cached = keeps && sl_token_image_read(&set->image, path, key, spec);
		if (!cached)
			err = build(&set->image, spec, all, fail);
	}
	if (!err && keeps && !cached)
		keep(&set->image, path, key);
	free(text);
	if (err)
		free(set);
	else
		*out = set;
	return err;
}

void sl_token_set_close(struct sl_token_set *set)
{
	if (set)
		sl_token_image_free(&set->image);
	free(set);
}

int64_t sl_token_set_count(const struct sl_token_set *set)
{
	return (int64_t)set->image.count;
}

uint64_t sl_token_set_hash(const struct sl_token_set *set, uint64_t seed)
{
	const struct sl_token_image *m = &set->image;
	uint64_t hash = XXH3_64bits_withSeed(m->id, m->tokens * m->width, seed);

	hash = XXH3_64bits_withSeed(m->at, m->count * sizeof *m->at, hash);
	return XXH3_64bits_withSeed(m->value, m->count * sizeof *m->value, hash);
}

uint64_t sl_token_set_key(const struct sl_token_set *set, int64_t index)
{
	return set->image.key[index];
}

int32_t sl_token_set_length(const struct sl_token_set *set, int64_t index)
{
	return (int32_t)(set->image.at[index + 1] - set->image.at[index]);
}

int32_t sl_token_set_longest(const struct sl_token_set *set)
{
	int32_t longest = 0;

	for (int64_t i = 0; i < sl_token_set_count(set); i++)
		if (sl_token_set_length(set, i) > longest)
			longest = sl_token_set_length(set, i);
	return longest;
}

const union sl_label *sl_token_set_value(const struct sl_token_set *set, int64_t index)
{
	return &set->image.value[index];
}

struct sl_token_sample sl_token_set_sample(const struct sl_token_set *set, int64_t index, int32_t *id)
{
	const struct sl_token_image *m = &set->image;
	struct sl_token_sample s = {.n = sl_token_set_length(set, index),
				    .first = (int32_t)m->first[index],
				    .whole = (int32_t)m->whole[index],
				    .value = m->value[index]};

	for (int32_t i = 0; i < s.n; i++)
		id[i] = (int32_t)sl_token_image_id(m, m->at[index] + (uint64_t)i);
	return s;
}
