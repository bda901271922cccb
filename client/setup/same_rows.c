/* Rows, pictures and cases of the evaluation that training has, too. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "client/data/parts.h"
#include "client/setup/setup.h"
#include "common/base/log.h"

enum { MOST_ROWS = 1 << 22 }; /* of training, whose hashes take 32 MB */
/* Pictures of the evaluation that are compared, with how many of training, and how many of these are read for it. */
enum { MOST_COMPARED = 512, MOST_FILES = 1 << 17, MOST_READ = 4096 };

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Hashes the inputs of the first n samples, sorted. NULL: one cannot be read, or no memory. */
static uint64_t *hash_rows(const struct sl_set *set, int64_t n)
{
	uint64_t *hash = malloc((size_t)n * sizeof *hash);
	struct sl_room room = {0};
	struct sl_fail why;
	int64_t i = 0;

	for (; hash && i < n; i++) {
		struct sl_value value[SL_FIELD_COUNT];

		if (set->source->sample(set, i, &room, value, &why) != SL_OK)
			break;
		hash[i] = XXH3_64bits(value[SL_FIELD_INPUT].data,
				      (size_t)value[SL_FIELD_INPUT].dim[0] * sizeof(float)); /* or ids, as wide */
	}
	sl_room_close(&room);
	if (hash && i == n) {
		qsort(hash, (size_t)n, sizeof *hash, by_value);
		return hash;
	}
	free(hash);
	return NULL;
}

/* A picture's file. */
struct file {
	int64_t size, index;
	uint64_t hash;
};

static int by_size(const void *a, const void *b)
{
	const struct file *x = a, *y = b;

	return (x->size > y->size) - (x->size < y->size);
}

/* The sizes of n of the set's files, evenly spread, sorted. NULL: no memory. */
static struct file *find_files(const struct sl_set *set, int64_t n)
{
	struct file *file = malloc((size_t)n * sizeof *file);

	for (int64_t i = 0; file && i < n; i++) {
		file[i].index = i * set->count / n;
		file[i].size = set->source->file(set, file[i].index, NULL);
	}
	if (file)
		qsort(file, (size_t)n, sizeof *file, by_size);
	return file;
}

static void hash_file(struct file *f, const struct sl_set *set, struct sl_room *room)
{
	const int64_t len = set->source->file(set, f->index, room);

	f->hash = len < 0 ? 0 : XXH3_64bits(room->file, (size_t)len);
}

/* How many of the m files have the contents of one of the n, which are many: only those of equal sizes are read, up to
 * MOST_READ of them. */
static int64_t count_shared(const struct sl_set *const set[2], struct file *many, int64_t n, struct file *few,
			    int64_t m)
{
	struct sl_room room = {0};
	int64_t shared = 0, read = 0;

	for (int64_t i = 0, k = 0; i < m; i++) {
		bool found = false;
		int64_t at;

		while (k < n && many[k].size < few[i].size)
			k++;
		if (few[i].size <= 0 || k == n || many[k].size != few[i].size)
			continue;
		hash_file(&few[i], set[SL_SPLIT_TEST], &room);
		for (at = k; at < n && many[at].size == few[i].size && !found; at++) {
			if (!many[at].hash && read++ < MOST_READ)
				hash_file(&many[at], set[SL_SPLIT_TRAIN], &room);
			found = many[at].hash && many[at].hash == few[i].hash;
		}
		shared += found;
	}
	sl_room_close(&room);
	return shared;
}

/* Pictures of the evaluation, whatever their names, that training has, too. */
static void warn_of_pictures(const struct sl_set *train, const struct sl_set *test)
{
	const struct sl_set *const set[2] = {[SL_SPLIT_TRAIN] = train, [SL_SPLIT_TEST] = test};
	const int64_t n = train->count < MOST_FILES ? train->count : MOST_FILES;
	const int64_t m = test->count < MOST_COMPARED ? test->count : MOST_COMPARED;
	struct file *many = find_files(train, n), *few = many ? find_files(test, m) : NULL;
	int64_t shared = 0;

	for (int64_t i = 0; few && i < n; i++)
		many[i].hash = 0;
	if (few)
		shared = count_shared(set, many, n, few, m);
	free(many);
	free(few);
	if (shared)
		sl_log(SL_LOG_WARN, shared == m ? "same-data" : "same-rows",
		       "%lld of %lld pictures of the evaluation that were compared are pictures of training, too, "
		       "under "
		       "whatever name, so its figures are too good: take them out, or divide the data by data.split",
		       (long long)shared, (long long)m);
}

/* Cases of the evaluation, whatever their names, that training has, too. Parts of data.split may both have one that
 * lies in the folder twice. */
static void warn_of_cases(const struct sl_set *train, const struct sl_set *test)
{
	uint64_t *own = malloc((size_t)train->count * sizeof *own + 1), last = 0;
	int64_t m = 0, shared = 0;

	for (int64_t i = 0; own && i < train->count; i++)
		own[i] = train->source->images(train, i);
	if (own)
		qsort(own, (size_t)train->count, sizeof *own, by_value);
	for (int64_t i = 0; own && i < test->count; i++) { /* samples of a case follow each other */
		const uint64_t hash = test->source->images(test, i);

		if (i && hash == last)
			continue;
		last = hash;
		m++;
		shared += bsearch(&hash, own, (size_t)train->count, sizeof *own, by_value) != NULL;
	}
	free(own);
	if (shared)
		sl_log(SL_LOG_WARN, shared == m ? "same-data" : "same-rows",
		       "%lld of %lld cases of the evaluation have the images of cases of training, under whatever "
		       "name, so its figures are too good: take them out",
		       (long long)shared, (long long)m);
}

static int by_beginning(const void *a, const void *b)
{
	const struct sl_parts_row *x = a, *y = b;

	return x->value != y->value ? (x->value > y->value) - (x->value < y->value) : (x->at > y->at) - (x->at < y->at);
}

/* Notes the beginnings of a set's names, which of a case with several samples is one. Returns how many there are.
 * `at` tells the sets apart. */
static int64_t note_set(struct sl_parts_row *row, const struct sl_set *set, int at)
{
	char room[2][SL_FAIL_TEXT * 4] = {"", ""};
	int64_t n = 0;

	for (int64_t i = 0; i < set->count; i++) {
		const char *path = set->source->sample_name(set, i, room[i % 2], sizeof room[0]), *name;

		if (strcmp(path, room[(i + 1) % 2]) == 0 || !sl_parts_note_beginning(&row[n], path, &name))
			continue;
		row[n].label = (uint64_t)i;
		row[n++].at = at;
	}
	return n;
}

/* Counts the rows of the test set, `at` 1, whose beginnings training has, too. *example: the index of one. */
static int64_t count_in_both(struct sl_parts_row *row, int64_t n, int64_t *values, int64_t *example)
{
	int64_t shared = 0;
	bool trained = false;

	qsort(row, (size_t)n, sizeof *row, by_beginning);
	*values = 0;
	for (int64_t i = 0; i < n; i++) {
		if (!i || row[i].value != row[i - 1].value) {
			++*values;
			trained = row[i].at == 0;
		}
		if (row[i].at == 1 && trained && !shared++)
			*example = (int64_t)row[i].label;
	}
	return shared;
}

/* Warns of pictures or cases of the evaluation whose names are those of patients of training. Beginnings about as few
 * as classes name these, and those of many rows are no patients. */
static void warn_of_patients(const struct sl_set *train, const struct sl_set *test)
{
	const bool cases = train->source->images, whole = train->field[SL_FIELD_TARGET].ndim == 0;
	struct sl_parts_row *row = calloc((size_t)(train->count + test->count) + 1, sizeof *row);
	const int64_t least = cases ? SL_PARTS_LEAST_CASES : SL_PARTS_LEAST, classes = whole ? train->classes : 0;
	int64_t n = 0, of_test = 0, values = 0, example = 0, shared = 0;
	char room[SL_FAIL_TEXT * 4];

	if (row) {
		n = note_set(row, train, 0);
		of_test = note_set(row + n, test, 1);
		shared = count_in_both(row, n + of_test, &values, &example);
	}
	free(row);
	if (!shared || values < least || values < 2 * classes || n + of_test > SL_PARTS_MOST_ROWS * values)
		return;
	sl_log(SL_LOG_WARN, "rows-repeat",
	       "the names of %lld of %lld %s of the evaluation begin, before their last number, as names of training "
	       "do, "
	       "such as \"%.200s\". If a beginning is one patient, figures are too good: move each patient to one "
	       "part, "
	       "or let data.split divide one folder, with data.split.by: '([^/]*)[-_.][0-9]+([.][^.]*)?$'",
	       (long long)shared, (long long)of_test, cases ? "cases" : "pictures",
	       test->source->sample_name(test, example, room, sizeof room));
}

void sl_setup_warn_of_rows(const struct sl_setup *s)
{
	const struct sl_set *train = &s->set[SL_SPLIT_TRAIN], *test = &s->set[SL_SPLIT_TEST];
	const int64_t n = train->count < MOST_ROWS ? train->count : MOST_ROWS;
	int64_t repeated = 0, shared = 0;
	uint64_t *own, *other;

	if (!s->further && train->source->images)
		warn_of_cases(train, test);
	if (s->further || sl_conf_splits(s->conf) || !train->source->fingerprint)
		return;
	if (train->source->images || (strcmp(train->source->name, "images") == 0 && train->source->sample_name))
		warn_of_patients(train, test);
	if (train->source->file && test->source->file)
		warn_of_pictures(train, test);
	if (train->field[0].ndim != 1)
		return;
	own = hash_rows(train, n);
	other = own ? hash_rows(test, test->count) : NULL;
	for (int64_t i = 1; other && i < n; i++)
		repeated += own[i] == own[i - 1];
	for (int64_t i = 0; other && i < test->count; i++)
		shared += bsearch(&other[i], own, (size_t)n, sizeof *own, by_value) != NULL;
	free(own);
	free(other);
	/* Columns of few values repeat rows everywhere: then training has as many of them twice. */
	if ((double)shared / (double)test->count > 0.01 + 2 * (double)repeated / (double)n)
		sl_log(SL_LOG_WARN, "same-rows",
		       "%lld of %lld samples of the evaluation are samples of training, too, so its figures are too "
		       "good: take them out, or divide the data by data.split",
		       (long long)shared, (long long)test->count);
}
