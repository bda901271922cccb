/* The parts of the data: which one is read, and what it is called. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/class_name.h"
#include "client/data/parts.h"
#include "client/setup/about.h"
#include "common/base/log.h"

enum { MOST_SEEN = 1 << 26, LISTED = 5, THIN_SAMPLES = 10, THIN_GROUPS = 5 };

static const char *const words[SL_PARTS_COUNT] = {"training", "validation", "test"};

/* An evaluation without training reads the test part, or else the validation part. */
static enum sl_parts_own part_of(const struct sl_setup *s, enum sl_split split)
{
	const struct sl_conf_client *c = s->conf;
	const bool tests = s->reads == SL_READS_TEST && c->data.split.test > 0;

	return split == SL_SPLIT_TRAIN                                    ? SL_PARTS_TRAIN
	       : tests || !(c->data.split.folds || c->data.split.val > 0) ? SL_PARTS_TEST
									  : SL_PARTS_VAL;
}

/* Members or sources do not all have the labels, or the names, so a row's part follows from its place. */
static bool by_place(const struct sl_conf_client *c)
{
	return sl_agreed_is_vertical(&c->agreed) || c->data.also.n || c->also;
}

bool sl_setup_stratifies(const struct sl_setup *s)
{
	const struct sl_conf_client *c = s->conf;
	json_t *about, *split;
	bool older;

	if (!sl_conf_splits(c) || sl_setup_task(c)->kind != SL_LEARN_CLASSES || sl_conf_lacks_labels(c) || by_place(c))
		return false;
	if (s->reads != SL_READS_TEST) /* it trains */
		return true;
	about = sl_about_parse(s);
	split = json_object_get(about, "split");
	older = json_is_object(split) && !json_object_get(split, "by_class");
	json_decref(about);
	return !older;
}

bool sl_setup_choose_part(const struct sl_setup *s, enum sl_split split, struct sl_parts *out)
{
	const struct sl_conf_client *c = s->conf;

	if (!sl_conf_splits(c))
		return false;
	*out = (struct sl_parts){
		.share = {c->data.split.train, c->data.split.val, c->data.split.test},
		.folds = c->data.split.folds,
		.fold = c->data.split.fold,
		.seed = (uint64_t)c->data.split.seed,
		.by = c->data.split.by,
		.by_place = by_place(c),
		.own = part_of(s, split),
		.by_class = sl_setup_stratifies(s),
	};
	return true;
}

const char *sl_setup_part(const struct sl_setup *s, enum sl_split split)
{
	if (split == SL_SPLIT_TRAIN || sl_conf_splits(s->conf))
		return words[part_of(s, split)];
	return s->set[SL_SPLIT_TEST].part && !s->conf->data.test_files.n ? s->set[SL_SPLIT_TEST].part
									 : words[SL_PARTS_TEST];
}

bool sl_setup_has_test_part(const struct sl_setup *s)
{
	return sl_conf_splits(s->conf) && s->conf->data.split.test > 0 && part_of(s, SL_SPLIT_TEST) != SL_PARTS_TEST;
}

/* How many samples each class of a part has, and of how many groups these are. */
struct counted {
	int classes, groups;
	int64_t *samples, *of; /* [classes] */
};

static void count_close(struct counted *c)
{
	free(c->samples);
	free(c->of);
}

/* False: the part has no classes, or there is no memory. */
static bool count_part(struct counted *c, const struct sl_set *set)
{
	const bool grouped = set->groups && set->classes < MOST_SEEN / set->groups;
	uint8_t *seen = calloc(grouped ? (size_t)set->groups * (size_t)(set->classes + 1) : 1, 1);
	struct sl_room room = {0};
	struct sl_fail never;
	bool fine;

	*c = (struct counted){.classes = set->classes,
			      .samples = calloc((size_t)set->classes, sizeof *c->samples),
			      .of = calloc((size_t)set->classes, sizeof *c->of)};
	fine = seen && c->samples && c->of;
	for (int64_t i = 0; i < set->count && fine; i++) {
		int32_t label;

		fine = sl_set_label(set, i, &room, &label, &never) == SL_OK && label >= 0 && label < set->classes;
		if (fine)
			c->samples[label]++;
		for (int k = 0; k < 2 && fine && grouped; k++) /* of the class; of any */
			seen[(size_t)(k ? set->classes : label) * (size_t)set->groups + (size_t)set->group[i]] = 1;
	}
	for (int64_t g = 0; g < set->groups && fine && grouped; g++) {
		c->groups += seen[(size_t)set->classes * (size_t)set->groups + (size_t)g];
		for (int k = 0; k < set->classes; k++)
			c->of[k] += seen[(size_t)k * (size_t)set->groups + (size_t)g];
	}
	sl_room_close(&room);
	free(seen);
	return fine;
}

/* "; ill 6 of 1 group, well 126 of 21 groups", of at most LISTED classes. */
static void list_classes(const struct counted *c, const struct sl_set *set, char out[SL_FAIL_TEXT])
{
	char name[SL_CLASS_NAME_BYTES];
	int n = 0;

	out[0] = 0;
	for (int k = 0; k < c->classes && c->classes <= LISTED; k++) {
		n += snprintf(out + n, SL_FAIL_TEXT - (size_t)n, "%s%.30s %lld", k ? ", " : ": ",
			      sl_class_name(set, k, name), (long long)c->samples[k]);
		if (c->groups)
			n += snprintf(out + n, SL_FAIL_TEXT - (size_t)n, " of %lld group%s", (long long)c->of[k],
				      sl_plural(c->of[k]));
	}
}

/* Warns where a class has too few samples, or groups, for a figure. */
static void warn_thin(const struct sl_setup *s, const struct counted *c)
{
	const struct sl_set *set = &s->set[SL_SPLIT_TEST];
	char name[SL_CLASS_NAME_BYTES], groups[48] = "", others[48] = "";
	int thin = 0, least = 0;

	for (int k = 0; k < c->classes; k++) {
		if (!c->samples[k] || (c->samples[k] >= THIN_SAMPLES && (!c->groups || c->of[k] >= THIN_GROUPS)))
			continue;
		least = !thin || c->samples[k] < c->samples[least] ? k : least;
		thin++;
	}
	if (!thin || s->conf->data.test_limit || s->conf->agreed.share.group[0])
		return;
	if (c->groups)
		snprintf(groups, sizeof groups, ", of %lld group%s", (long long)c->of[least], sl_plural(c->of[least]));
	if (thin > 1)
		snprintf(others, sizeof others, "; and few of %d other class%s", thin - 1, thin > 2 ? "es" : "");
	sl_log(SL_LOG_WARN, "thin-part",
	       "the %s part has %lld sample%s of class \"%.60s\"%s%s: figures of so few say little. A larger part has "
	       "more; "
	       "data.split.folds evaluate all samples",
	       sl_setup_part(s, SL_SPLIT_TEST), (long long)c->samples[least], sl_plural(c->samples[least]),
	       sl_class_name(set, least, name), groups, others);
}

int64_t sl_setup_groups(const struct sl_set *set)
{
	uint8_t *seen = calloc((size_t)set->groups + 1, 1);
	int64_t groups = 0;

	for (int64_t i = 0; i < set->count && seen && set->groups; i++) {
		groups += !seen[set->group[i]];
		seen[set->group[i]] = 1;
	}
	free(seen);
	return groups;
}

void sl_setup_note_part(const struct sl_setup *s, enum sl_split split)
{
	const struct sl_set *set = &s->set[split];
	const char *by = s->conf->data.split.by;
	const bool even = sl_setup_stratifies(s), classes = sl_set_has_classes(set) && !sl_conf_lacks_labels(s->conf) &&
							    sl_setup_task(s->conf)->kind == SL_LEARN_CLASSES;
	struct counted c = {.classes = 0};
	bool counted;
	char list[SL_FAIL_TEXT] = "";

	if (s->given || s->streams || s->conf->also)
		return;
	counted = classes && count_part(&c, set);
	if (counted)
		list_classes(&c, set, list);
	if (sl_conf_splits(s->conf))
		sl_log(SL_LOG_INFO, "data-split", "%lld samples are for %s%s%s%s%s%s", (long long)set->count,
		       sl_setup_part(s, split), even || by[0] ? ", divided by " : "", even ? "class" : "",
		       even && by[0] ? " and " : "", by, list);
	if (counted && split == SL_SPLIT_TEST)
		warn_thin(s, &c);
	count_close(&c);
}
