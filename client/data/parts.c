#include "client/data/parts.h"

#include <ctype.h>
#include <limits.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "client/data/subset.h"
#include "common/base/log.h"

uint64_t sl_parts_key(const void *data, size_t bytes)
{
	return XXH3_64bits(data, bytes);
}

static uint64_t hash_of(const struct sl_parts *p, uint64_t key)
{
	return XXH3_64bits_withSeed(&key, sizeof key, p->seed);
}

/* The part at `u` of the whole, in [0, 1). */
static enum sl_parts_own part_at(const struct sl_parts *p, double u)
{
	const double rest = 1 - p->share[SL_PARTS_TEST], v = rest > 0 ? u / rest : 1;

	if (v >= 1)
		return SL_PARTS_TEST;
	if (p->folds)
		return (int)(v * p->folds) == p->fold ? SL_PARTS_VAL : SL_PARTS_TRAIN;
	return v * rest < p->share[SL_PARTS_TRAIN] ? SL_PARTS_TRAIN : SL_PARTS_VAL;
}

enum sl_parts_own sl_parts_of(const struct sl_parts *p, uint64_t key)
{
	return part_at(p, (double)(hash_of(p, key) >> 11) * 0x1p-53);
}

struct deal {
	const struct sl_set *set;
	const struct sl_set_spec *spec;
	uint64_t *key; /* [set->count] */
	bool named;    /* keys are what the regular expression `by` matches in names */
	regex_t by;
};

static enum sl_err match(const struct deal *d, const char *name, uint64_t *key, struct sl_fail *fail)
{
	regmatch_t at[2];

	if (regexec(&d->by, name, 2, at, 0) != 0)
		return sl_fail_at(fail, "data.split.by", SL_ERR_DATA, "%.200s: its name does not match \"%.80s\"", name,
				  d->spec->parts->by);
	if (at[1].rm_so < 0)
		at[1] = at[0];
	*key = sl_parts_key(name + at[1].rm_so, (size_t)(at[1].rm_eo - at[1].rm_so));
	return SL_OK;
}

/* The part of a path behind its class's folder, which a picture may change when it gets another label. A table's or a
 * mask's picture has no such folder: the whole path. webdataset's "SHARD: NAME": the name. */
static const char *below_class(const struct sl_set *set, int64_t index, const char *path)
{
	char folder[NAME_MAX + 3] = ": ";
	const char *at;

	if (set->source->class_name && sl_set_has_classes(set) && !set->field[SL_FIELD_TARGET].ndim)
		snprintf(folder, sizeof folder, "/%s/", set->source->class_name(set, set->source->label(set, index)));
	at = strstr(path, folder);
	return at ? at + strlen(folder) : path;
}

static enum sl_err key_of_name(const struct deal *d, int64_t index, uint64_t *key, struct sl_fail *fail)
{
	const size_t skip = d->spec->dir ? strlen(d->spec->dir) : 0;
	char room[SL_FAIL_TEXT * 4];
	const char *name = d->set->source->sample_name(d->set, index, room, sizeof room);

	if (skip && strncmp(name, d->spec->dir, skip) == 0)
		name += skip;
	if (d->named)
		return match(d, name, key, fail);
	name = below_class(d->set, index, name);
	*key = sl_parts_key(name, strlen(name));
	return SL_OK;
}

static enum sl_err key_of(const struct deal *d, int64_t index, uint64_t *key, struct sl_fail *fail)
{
	const struct sl_source *source = d->set->source;

	if (d->spec->parts->by_place) {
		*key = (uint64_t)index;
		return SL_OK;
	}
	if (!source->key && source->sample_name)
		return key_of_name(d, index, key, fail);
	*key = source->key ? source->key(d->set, index) : (uint64_t)index;
	return SL_OK;
}

/* Finds what other regular expressions have, and POSIX's take for something else: \d is the letter d there, a backslash
 * in brackets stands for itself, and *? takes as much as *. NULL: there is nothing such. */
static const char *find_foreign(const char *at)
{
	bool listed = false; /* between brackets */

	for (; *at; at++) {
		if (listed ? at[0] == '\\' && isalpha((unsigned char)at[1])
			   : (at[0] == '\\' && (at[1] == 'd' || at[1] == 'D')) ||
				     (strchr("*+?}", at[0]) && at[1] == '?'))
			return at;
		listed = listed ? at[0] != ']' : at[0] == '[';
		at += !listed && at[0] == '\\' && at[1];
	}
	return NULL;
}

enum { STATES_MOST = 1000, DEEP = 64 };

static const char *behind_brackets(const char *at)
{
	at += *at == '^';
	at += *at == ']';
	at += strcspn(at, "]");
	return at + (*at != 0);
}

/* How often braces repeat, once at least; *at is behind the opening one. */
static int64_t repeats(const char **at)
{
	int64_t most = 1;

	do {
		char *end;
		const long n = strtol(*at, &end, 10);

		most = n > most ? n : most;
		*at = end;
	} while (*(*at)++ == ',');
	*at -= (*at)[-1] == 0;
	return most < RE_DUP_MAX ? most : RE_DUP_MAX;
}

/* About how many states regcomp makes, up to a `)`: it writes out what braces repeat, so ((.{200}){200}){200} would
 * take all memory. Above STATES_MOST it may be any number. */
static int64_t states_of(const char **at, int deep)
{
	int64_t sum = 0, last = 0;

	while (**at && **at != ')' && sum <= STATES_MOST) {
		const char c = *(*at)++;
		const int64_t times = c == '{' ? repeats(at) : strchr("*+?", c) ? 2 : 0;

		if (times) {
			sum += last * (times - 1);
			last *= times;
			continue;
		}
		last = 1;
		if (c == '(') {
			last += deep < DEEP ? states_of(at, deep + 1) : STATES_MOST;
			*at += **at == ')';
		} else if (c == '[') {
			*at = behind_brackets(*at);
		} else if (c == '\\') {
			*at += **at != 0;
		}
		sum += last;
	}
	return sum;
}

static enum sl_err compile_by(struct deal *d, struct sl_fail *fail)
{
	const char *by = d->spec->parts->by, *foreign = find_foreign(by), *from = by;
	char why[120];
	int wrong;

	if (foreign)
		return sl_fail_at(
			fail, "data.split.by", SL_ERR_CONFIG,
			"\"%.2s\" in \"%.80s\" means something else in a regular expression of POSIX: write [0-9] "
			"for digits, and [^_]* for all up to a _",
			foreign, by);
	if (states_of(&from, 0) > STATES_MOST)
		return sl_fail_at(
			fail, "data.split.by", SL_ERR_CONFIG,
			"\"%.80s\" repeats so much that it would take too much memory: repeat less in braces, or "
			"write * in their place",
			by);
	wrong = regcomp(&d->by, by, REG_EXTENDED);
	if (wrong) {
		regerror(wrong, &d->by, why, sizeof why);
		return sl_fail_at(fail, "data.split.by", SL_ERR_CONFIG,
				  "\"%.80s\" is no regular expression over names: %s", by, why);
	}
	d->named = true;
	return SL_OK;
}

static enum sl_err open_by(struct deal *d, struct sl_fail *fail)
{
	if (!d->spec->parts->by[0] || d->set->source->key || strcmp(d->set->field[SL_FIELD_INPUT].name, "image") != 0)
		return SL_OK;
	return compile_by(d, fail);
}

enum sl_err sl_parts_name_keys(const struct sl_set_spec *spec, const struct sl_names *names, uint64_t *keys,
			       struct sl_fail *fail)
{
	struct deal d = {.spec = spec};
	enum sl_err err = spec->parts && spec->parts->by[0] ? compile_by(&d, fail) : SL_OK;

	for (int64_t i = 0; i < names->n && !err; i++) {
		const char *name = sl_name(names, i);

		if (d.named)
			err = match(&d, name, &keys[i], fail);
		else
			keys[i] = sl_parts_key(name, strlen(name));
	}
	if (d.named)
		regfree(&d.by);
	return err;
}

static enum sl_err read_keys(struct deal *d, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	for (int64_t i = 0; i < d->set->count && !err; i++)
		err = key_of(d, i, &d->key[i], fail);
	return err;
}

/* ---- parts with even shares of each class */

/* The samples of one key, which stay together. */
struct unit {
	uint64_t key, hash;
	int64_t samples;
	int32_t class; /* the rarest of theirs */
	enum sl_parts_own part;
};

static int by_key_of_unit(const void *a, const void *b)
{
	const struct unit *x = a, *y = b;

	return x->key != y->key ? (x->key > y->key) - (x->key < y->key) : (x->class > y->class) - (x->class < y->class);
}

static int by_class(const void *a, const void *b)
{
	const struct unit *x = a, *y = b;

	if (x->class != y->class)
		return (x->class > y->class) - (x->class < y->class);
	return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash) : (x->key > y->key) - (x->key < y->key);
}

/* Moves the borders of n units, if they are enough, so that no part with a share is empty. first[p]: the first unit
 * behind those of training and, from VAL on, of the parts before p. */
static void fill_parts(const struct sl_parts *p, int64_t first[SL_PARTS_COUNT], int64_t n)
{
	const int has[SL_PARTS_COUNT] = {p->share[SL_PARTS_TRAIN] > 0, p->share[SL_PARTS_VAL] > 0,
					 p->share[SL_PARTS_TEST] > 0};
	int64_t *val = &first[SL_PARTS_VAL], *test = &first[SL_PARTS_TEST];

	if (n < has[0] + has[1] + has[2])
		return;
	*test = *test < n - has[SL_PARTS_TEST] ? *test : n - has[SL_PARTS_TEST];
	*val = *val < *test - has[SL_PARTS_VAL] ? *val : *test - has[SL_PARTS_VAL];
	*val = *val > has[SL_PARTS_TRAIN] ? *val : has[SL_PARTS_TRAIN];
	*test = *test > *val + has[SL_PARTS_VAL] ? *test : *val + has[SL_PARTS_VAL];
}

/* Deals out n units of one class in the order of their hashes: a unit's place is the middle of its samples. */
static void deal_class(const struct sl_parts *p, struct unit *u, int64_t n)
{
	int64_t all = 0, before = 0, first[SL_PARTS_COUNT] = {0, 0, 0};

	for (int64_t i = 0; i < n; i++)
		all += u[i].samples;
	for (int64_t i = 0; i < n; i++) {
		u[i].part = part_at(p, (double)(2 * before + u[i].samples) / (double)(2 * all));
		before += u[i].samples;
		first[SL_PARTS_VAL] += u[i].part < SL_PARTS_VAL;
		first[SL_PARTS_TEST] += u[i].part < SL_PARTS_TEST;
	}
	if (p->folds) /* which alternate training and validation */
		return;
	fill_parts(p, first, n);
	for (int64_t i = 0; i < n; i++)
		u[i].part = i < first[SL_PARTS_VAL]    ? SL_PARTS_TRAIN
			    : i < first[SL_PARTS_TEST] ? SL_PARTS_VAL
						       : SL_PARTS_TEST;
}

/* Makes a unit of each key: u [count]. Its class is the rarest that one of its samples has. Returns how many. */
static int64_t make_units(const struct deal *d, struct unit *u, const int64_t *of_class)
{
	int64_t n = 0;

	qsort(u, (size_t)d->set->count, sizeof *u, by_key_of_unit);
	for (int64_t i = 0; i < d->set->count; i++) {
		if (n && u[n - 1].key == u[i].key) {
			u[n - 1].samples++;
			if (of_class[u[i].class] < of_class[u[n - 1].class])
				u[n - 1].class = u[i].class;
		} else {
			u[n++] = u[i];
		}
	}
	return n;
}

static enum sl_err read_units(const struct deal *d, struct unit *u, int64_t *of_class, struct sl_fail *fail)
{
	struct sl_room room = {0};
	enum sl_err err = SL_OK;

	for (int64_t i = 0; i < d->set->count && !err; i++) {
		u[i] = (struct unit){d->key[i], hash_of(d->spec->parts, d->key[i]), 1, 0, SL_PARTS_TRAIN};
		err = sl_set_label(d->set, i, &room, &u[i].class, fail);
		if (!err && (u[i].class < 0 || u[i].class >= d->set->classes))
			u[i].class = 0; /* the set's user refuses it */
		if (!err)
			of_class[u[i].class]++;
	}
	sl_room_close(&room);
	return err;
}

/* Deals out the units of each class by itself, and brings them into the order of their keys. */
static enum sl_err deal_units(const struct deal *d, struct unit *u, int64_t *n, struct sl_fail *fail)
{
	int64_t *of_class = calloc((size_t)d->set->classes, sizeof *of_class);
	enum sl_err err = of_class ? read_units(d, u, of_class, fail)
				   : sl_fail_set(fail, SL_ERR_NOMEM, "no memory to share out data");

	if (!err)
		*n = make_units(d, u, of_class);
	free(of_class);
	if (err)
		return err;
	qsort(u, (size_t)*n, sizeof *u, by_class);
	for (int64_t i = 0, end; i < *n; i = end) {
		for (end = i; end < *n && u[end].class == u[i].class;)
			end++;
		deal_class(d->spec->parts, u + i, end - i);
	}
	qsort(u, (size_t)*n, sizeof *u, by_key_of_unit);
	return SL_OK;
}

static int key_to_unit(const void *key, const void *unit)
{
	const uint64_t x = *(const uint64_t *)key, y = ((const struct unit *)unit)->key;

	return (x > y) - (x < y);
}

/* Lists the samples of the wanted part, in order. */
static enum sl_err choose(const struct deal *d, int32_t *own, int64_t *n, struct sl_fail *fail)
{
	const struct sl_parts *p = d->spec->parts;
	const bool even = p->by_class && sl_set_has_classes(d->set);
	struct unit *unit = even ? calloc((size_t)d->set->count + 1, sizeof *unit) : NULL;
	int64_t units = 0;
	enum sl_err err = SL_OK;

	if (even)
		err = unit ? deal_units(d, unit, &units, fail)
			   : sl_fail_set(fail, SL_ERR_NOMEM, "no memory to share out data");
	for (int64_t i = 0; i < d->set->count && !err; i++) {
		const struct unit *of =
			even ? bsearch(&d->key[i], unit, (size_t)units, sizeof *unit, key_to_unit) : NULL;

		if ((of ? of->part : sl_parts_of(p, d->key[i])) == p->own)
			own[(*n)++] = (int32_t)i;
	}
	free(unit);
	return err;
}

static int by_key(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Numbers the groups that `by` makes: group [count]. Returns how many there are; 0: no memory. */
static int number_groups(const struct deal *d, int32_t *group)
{
	const size_t n = (size_t)d->set->count;
	uint64_t *sorted = malloc(n * sizeof *sorted + 1);
	int64_t groups = 0;

	if (!sorted)
		return 0;
	memcpy(sorted, d->key, n * sizeof *sorted);
	qsort(sorted, n, sizeof *sorted, by_key);
	for (size_t i = 0; i < n; i++)
		if (!groups || sorted[groups - 1] != sorted[i])
			sorted[groups++] = sorted[i];
	for (size_t i = 0; i < n; i++)
		group[i] = (int32_t)((const uint64_t *)bsearch(&d->key[i], sorted, (size_t)groups, sizeof *sorted,
							       by_key) -
				     sorted);
	free(sorted);
	return (int)groups;
}

static enum sl_err no_samples(const struct deal *d, struct sl_fail *fail)
{
	static const char *const name[SL_PARTS_COUNT] = {"training", "validation", "test"};

	return sl_fail_at(fail, "data.split", SL_ERR_CONFIG,
			  "none of the %lld samples falls to %s: give it a larger share, or another data.split.seed",
			  (long long)d->set->count, name[d->spec->parts->own]);
}

/* Replaces *set by samples own[n], in their groups. */
static enum sl_err take(struct deal *d, struct sl_set *set, int32_t *own, int64_t n, struct sl_fail *fail)
{
	const bool grouped = d->spec->parts->by[0] && !d->spec->parts->by_place;
	int32_t *group = grouped ? malloc((size_t)set->count * sizeof *group + 1) : NULL;
	struct sl_set whole = *set;
	enum sl_err err;

	whole.groups = group ? number_groups(d, group) : 0;
	whole.group = whole.groups ? group : NULL;
	if (grouped && !whole.groups)
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory to share out data");
	else
		err = sl_subset_of(&whole, own, n, fail);
	free(group);
	if (!err)
		*set = whole;
	return err;
}

bool sl_parts_divides_rows(const struct sl_set_spec *spec)
{
	const struct sl_parts *p = spec->parts;

	return p && !p->by[0] && !p->by_place && p->own == SL_PARTS_TRAIN && spec->split == SL_SPLIT_TRAIN &&
	       !spec->given && !spec->about;
}

static int by_value(const void *a, const void *b)
{
	const struct sl_parts_row *x = a, *y = b;

	if (x->number != y->number)
		return (x->number > y->number) - (x->number < y->number);
	return x->value != y->value ? (x->value > y->value) - (x->value < y->value) : (x->at > y->at) - (x->at < y->at);
}

bool sl_parts_repeat(struct sl_parts_row *row, int64_t n, int64_t least, bool numbers, int64_t *values)
{
	enum { FEW = 8, TIMES = 4 }; /* FEW differences may be chance */
	int64_t several = 0, apart = 0, within = 0, between = 0;
	bool same = false;

	qsort(row, (size_t)n, sizeof *row, by_value);
	*values = n > 0;
	for (int64_t i = 1; i < n; i++) {
		const bool before = same, differ = row[i].label != row[i - 1].label;

		same = row[i].value == row[i - 1].value;
		*values += !same;
		several += same && !before;
		apart += same && row[i].at != row[i - 1].at + 1;
		within += same && differ;
		between += !same && differ;
	}
	return *values >= least && n >= 2 * *values && n <= SL_PARTS_MOST_ROWS * *values && 2 * several >= *values &&
	       (!numbers || 2 * apart <= *values ||
		(between >= FEW && TIMES * within * (*values - 1) <= between * (n - *values)));
}

bool sl_parts_note_beginning(struct sl_parts_row *row, const char *path, const char **name)
{
	const char *slash = strrchr(path, '/'), *dot;
	size_t n, number;

	*name = slash ? slash + 1 : path;
	dot = strrchr(*name, '.');
	number = n = dot && !isdigit((unsigned char)dot[1]) ? (size_t)(dot - *name) : strlen(*name);
	while (n && isdigit((unsigned char)(*name)[n - 1]))
		n--;
	row->value = sl_parts_key(*name, n);
	return n > 1 && n < number && strchr("_.-", (*name)[n - 1]);
}

static void say_series(const struct sl_set_spec *spec, const char *what, int64_t n, int64_t values, const char *name)
{
	sl_log(SL_LOG_WARN, "rows-repeat",
	       "%s: the names of %lld %s begin in %lld ways before their last number, such as \"%.120s\", and "
	       "data.split divides the %s one by one. If a beginning is one patient, set data.split.by: "
	       "'([^/]*)[-_.][0-9]+([.][^.]*)?$': else figures are too good",
	       spec->dir, (long long)n, what, (long long)values, name, what);
}

/* Whether so many names have a beginning, of all, that it may tell a patient: a few others change nothing. */
static bool most(int64_t named, int64_t all)
{
	return 2 * named >= all;
}

/* Warns if most pictures' names tell that several are of one patient. Beginnings about as few as classes name these. */
static void warn_series(const struct sl_set *set, const struct sl_set_spec *spec)
{
	struct sl_parts_row *row = calloc((size_t)set->count + 1, sizeof *row);
	char room[SL_FAIL_TEXT * 4], example[sizeof room] = "";
	const bool pictures = row && !set->source->key && strcmp(set->source->name, "images") == 0;
	const char *name;
	int64_t values, named = 0;

	for (int64_t i = 0; i < set->count && pictures; i++)
		if (sl_parts_note_beginning(&row[named], set->source->sample_name(set, i, room, sizeof room), &name) &&
		    !named++)
			snprintf(example, sizeof example, "%s", name);
	if (most(named, set->count) && sl_parts_repeat(row, named, SL_PARTS_LEAST, false, &values) &&
	    values >= 2 * (int64_t)set->classes)
		say_series(spec, "pictures", named, values, example);
	free(row);
}

void sl_parts_warn_of_cases(const struct sl_set_spec *spec, const struct sl_names *names)
{
	struct sl_parts_row *row = calloc((size_t)names->n + 1, sizeof *row);
	const char *name, *example = "";
	const bool divides = row && sl_parts_divides_rows(spec);
	int64_t values, named = 0;

	for (int64_t i = 0; i < names->n && divides; i++)
		if (sl_parts_note_beginning(&row[named], sl_name(names, i), &name) && !named++)
			example = name;
	if (most(named, names->n) && sl_parts_repeat(row, named, SL_PARTS_LEAST_CASES, false, &values))
		say_series(spec, "cases", named, values, example);
	free(row);
}

enum sl_err sl_parts_take(struct sl_set *set, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	struct deal d = {.set = set, .spec = spec, .key = calloc((size_t)set->count + 1, sizeof *d.key)};
	int32_t *own = malloc((size_t)set->count * sizeof *own + 1);
	int64_t n = 0;
	enum sl_err err =
		own && d.key ? open_by(&d, fail) : sl_fail_set(fail, SL_ERR_NOMEM, "no memory to share out data");

	if (!err)
		err = read_keys(&d, fail);
	if (!err)
		err = choose(&d, own, &n, fail);
	if (!err && sl_parts_divides_rows(spec))
		warn_series(set, spec);
	if (!err && !n)
		err = no_samples(&d, fail);
	if (!err)
		err = take(&d, set, own, n, fail);
	if (err)
		free(own);
	free(d.key);
	if (d.named)
		regfree(&d.by);
	return err;
}
