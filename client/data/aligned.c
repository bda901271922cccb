#include "client/data/aligned.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/text/unicode.h"
#include "common/base/log.h"
#include "common/base/newfile.h"

/* What a line begins with: the names of rows by split, the secret, and the end, without which the file was cut. */
static const char *const words[] = {"train ", "test ", "secret ", "end"};
enum { SECRET = SL_SPLIT_COUNT, END, WORDS };

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the names of rows");
}

/* ---- the file */

/* *seen: the word of the line before; -1: there is none. */
static enum sl_err take_line(struct sl_aligned *a, const char *text, size_t number, int *seen, struct sl_fail *fail)
{
	const char *rest;
	int word = 0;

	while (word < WORDS && strncmp(text, words[word], strlen(words[word])) != 0)
		word++;
	rest = word < WORDS ? text + strlen(words[word]) : "";
	if (word == SECRET ? *seen >= 0 || !sl_key_parse(&a->secret, rest, strlen(rest))
			   : *seen < 0 || *seen == END || (word == END) != !*rest)
		return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: is it a file of splitc align, unchanged?", a->path,
				   number);
	*seen = word;
	return word >= SL_SPLIT_COUNT || sl_names_add(&a->row[word], rest) ? SL_OK : no_memory(fail);
}

enum sl_err sl_aligned_read(struct sl_aligned *out, const char *path, struct sl_fail *fail)
{
	int seen = -1;
	uint8_t *data;
	size_t len;
	enum sl_err err = sl_file_read_guarded(path, INT32_MAX, &data, &len, fail);
	char *at = err ? NULL : (char *)data;

	if (err == SL_ERR_NOINPUT)
		return sl_fail_set(fail, err, "%s cannot be read: splitc align writes it", path);
	if (err)
		return err;
	snprintf(out->path, sizeof out->path, "%s", path);
	(void)strsep(&at, "\n"); /* the first line is for people */
	for (size_t number = 2; !err && at && *at; number++) {
		const char *line = strsep(&at, "\n");

		err = take_line(out, line, number, &seen, fail);
	}
	if (!err && (seen != END || !at || at != (char *)data + len))
		err = sl_fail_set(fail, SL_ERR_DATA, "%s has no end: was it cut? Run splitc align again", path);
	explicit_bzero(data, len);
	free(data);
	return err;
}

void sl_aligned_close(struct sl_aligned *a)
{
	for (int split = 0; split < SL_SPLIT_COUNT; split++)
		sl_names_close(&a->row[split]);
	explicit_bzero(a, sizeof *a);
}

enum sl_err sl_aligned_write(const struct sl_aligned *a, const char *group, struct sl_fail *fail)
{
	char secret[SL_KEY_TEXT], *text = NULL;
	size_t len = 0;
	FILE *file = open_memstream(&text, &len);
	enum sl_err err;

	if (!file)
		return no_memory(fail);
	sl_key_print(&a->secret, secret);
	fprintf(file,
		"# splitc align: the rows that both members of group %s have, in their order, and a secret of both\n",
		group);
	fprintf(file, "%s%s\n", words[SECRET], secret);
	for (int split = 0; split < SL_SPLIT_COUNT; split++)
		for (int64_t i = 0; i < a->row[split].n; i++)
			fprintf(file, "%s%s\n", words[split], sl_name(&a->row[split], i));
	fprintf(file, "%s\n", words[END]);
	explicit_bzero(secret, sizeof secret);
	err = fclose(file) ? no_memory(fail) : sl_newfile_put(a->path, 0600, SL_FP_NONE, text, len, fail);
	if (text)
		explicit_bzero(text, len);
	free(text);
	return err;
}

/* ---- names */

enum sl_err sl_aligned_names(const struct sl_set *set, struct sl_names *out, struct sl_fail *fail)
{
	for (int64_t i = 0; i < set->count; i++) {
		char room[NAME_MAX + 1];

		if (!sl_names_add(out, set->source->id(set, i, room, sizeof room)))
			return no_memory(fail);
	}
	return SL_OK;
}

struct place {
	const char *name;
	int32_t at; /* among the names */
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct place *)a)->name, ((const struct place *)b)->name);
}

/* The names, sorted; the caller frees them. NULL: no memory. */
static struct place *sort(const struct sl_names *names)
{
	struct place *place = malloc((size_t)names->n * sizeof *place + 1);

	for (int64_t i = 0; i < names->n && place; i++)
		place[i] = (struct place){sl_name(names, i), (int32_t)i};
	if (place)
		qsort(place, (size_t)names->n, sizeof *place, by_name);
	return place;
}

static enum sl_err called_twice(const char *name, int64_t first, int64_t second, struct sl_fail *fail)
{
	return sl_fail_at(fail, "data.id", SL_ERR_DATA,
			  "rows %" PRId64 " and %" PRId64
			  " are both called \"%.60s\": each row needs a name of its own",
			  first + 1, second + 1, name);
}

/* DATA: this name and the one behind it are equal. */
static enum sl_err check_next(const struct place *p, const struct place *end, struct sl_fail *fail)
{
	const bool behind = p + 1 < end && p[0].at > p[1].at;

	return p + 1 >= end || strcmp(p[0].name, p[1].name) != 0
		       ? SL_OK
		       : called_twice(p->name, p[behind].at, p[!behind].at, fail);
}

/* Whether valid UTF-8 begins or ends with a blank. */
static bool has_blank(const char *name)
{
	size_t first = 0, last = strlen(name);

	while (last && sl_utf8_continues(name[--last]))
		;
	return *name && (sl_is_space(sl_utf8_next(name, &first)) || sl_is_space(sl_utf8_next(name, &last)));
}

/* Warns of names that another member or source is unlikely to have. */
static void warn_of_blanks(const struct sl_names *names)
{
	const char *first = NULL;
	int64_t n = 0;

	for (int64_t i = 0; i < names->n; i++)
		if (has_blank(sl_name(names, i)) && !n++)
			first = sl_name(names, i);
	if (n)
		sl_log(SL_LOG_WARN, "ids-with-blanks",
		       "data.id: %" PRId64 " of %" PRId64 " names begin or end with a blank, \"%.60s\" first: a row "
		       "without it elsewhere counts as another",
		       n, names->n, first);
}

enum sl_err sl_aligned_check(const struct sl_names *names, struct sl_fail *fail)
{
	int64_t twice[2];

	if (!sl_names_twice(names, twice))
		return no_memory(fail);
	for (int64_t i = 0; i < names->n; i++) {
		const char *name = sl_name(names, i);

		if (!*name || !sl_text_is_safe(name, strlen(name)))
			return sl_fail_at(fail, "data.id", SL_ERR_DATA, "row %" PRId64 " %s", i + 1,
					  *name ? "has a name with control characters" : "has no name");
	}
	if (twice[0] >= 0)
		return called_twice(sl_name(names, twice[0]), twice[0], twice[1], fail);
	warn_of_blanks(names);
	return SL_OK;
}

enum sl_err sl_aligned_join(struct sl_aligned *out, enum sl_split split, const struct sl_names *names, int n,
			    struct sl_fail *fail)
{
	struct place **place = calloc((size_t)n, sizeof *place);
	bool fits = place != NULL;

	for (int k = 1; k < n && fits; k++)
		fits = (place[k] = sort(&names[k])) != NULL;
	for (int64_t i = 0; i < names[0].n && fits; i++) {
		const struct place want = {sl_name(&names[0], i), 0};
		bool has = true;

		for (int k = 1; k < n && has; k++)
			has = bsearch(&want, place[k], (size_t)names[k].n, sizeof want, by_name);
		fits = !has || sl_names_add(&out->row[split], want.name);
	}
	for (int k = 1; k < n && place; k++)
		free(place[k]);
	free(place);
	if (!fits)
		return no_memory(fail);
	return out->row[split].n
		       ? SL_OK
		       : sl_fail_set(fail, SL_ERR_DATA,
				     "the sources have no common row: the first is called \"%.60s\" here, and "
				     "\"%.60s\" there",
				     names[0].n ? sl_name(&names[0], 0) : "", names[1].n ? sl_name(&names[1], 0) : "");
}

enum sl_err sl_aligned_places(const struct sl_aligned *a, enum sl_split split, const struct sl_names *names,
			      int32_t **out, struct sl_fail *fail)
{
	const struct sl_names *rows = &a->row[split];
	struct place *place = sort(names);
	int32_t *at = malloc((size_t)rows->n * sizeof *at + 1);
	enum sl_err err = place && at ? SL_OK : no_memory(fail);

	if (!err && !rows->n)
		err = sl_fail_at(fail, "data.aligned", SL_ERR_DATA,
				 "%s has no rows to %s: it was made %s data.split; run splitc align again", a->path,
				 split == SL_SPLIT_TRAIN ? "train on" : "evaluate on", split ? "with" : "without");
	for (int64_t i = 0; i < rows->n && !err; i++) {
		const struct place want = {sl_name(rows, i), 0};
		const struct place *found = bsearch(&want, place, (size_t)names->n, sizeof *place, by_name);

		if (!found)
			err = sl_fail_at(fail, "data.aligned", SL_ERR_DATA,
					 "these data have no row \"%.60s\", which %s names: run splitc align again",
					 want.name, a->path);
		else if (found > place)
			err = check_next(found - 1, place + names->n, fail);
		if (!err)
			err = check_next(found, place + names->n, fail);
		if (!err)
			at[i] = found->at;
	}
	free(place);
	if (err)
		free(at);
	else
		*out = at;
	return err;
}
