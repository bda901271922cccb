#include "client/cmd/data_tokens.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cmd/command.h"
#include "client/data/class_name.h"
#include "client/text/tokenizer.h"
#include "common/base/clock.h"
#include "common/base/wrap.h"

enum { SHOWN_CLASSES = 40, SAMPLES = 5, SAMPLE_BYTES = 400, LENGTHS = 4, PARTS = SL_SPLIT_COUNT + 1 };

struct split {
	int64_t rows, tokens, groups; /* groups: of data.split.by */
	int64_t *of_class;            /* [classes] */
	int64_t length[LENGTHS];      /* of rows: minimum, median, p90, maximum */
	double least, most, sum;      /* of targets that are numbers */
};

struct look {
	struct sl_setup setup;
	struct sl_set test; /* the test part that data.split keeps beside the validation part, if there is one */
	int parts;          /* of the data: training and the evaluated part, and maybe `test` */
	struct split split[PARTS];
	int most;        /* tokens of a row that is padded to the maximum */
	double batch[3]; /* mean tokens of a training batch: without padding, padded to its longest row, to `most` */
	double tokens_s; /* tokens read and tokenized per second; 0: the data have no text */
	int64_t features[2]; /* numbers per token or row that cross before and after the middle; 0: not known */
	bool per_token[2];   /* else per row */
	char sample[SAMPLES][SAMPLE_BYTES]; /* the first rows of training; "": no text */
};

static const char *const length_name[LENGTHS] = {"min", "median", "p90", "max"};

static struct sl_set *set_of(struct look *l, int part)
{
	return part < SL_SPLIT_COUNT ? &l->setup.set[part] : &l->test;
}

static const char *word_of(const struct look *l, int part)
{
	return part < SL_SPLIT_COUNT ? sl_setup_part(&l->setup, (enum sl_split)part) : "test";
}

/* A part's member in JSON. Where only one part is beside training, it is "test" whatever its word. */
static const char *key_of(const struct look *l, int part)
{
	return !part ? "train" : part + 1 < l->parts ? "validation" : "test";
}

static int by_size(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Finds minimum, median, p90 and maximum of lengths, by nearest rank. */
static void take_lengths(struct split *s, int64_t *length)
{
	static const double share[LENGTHS] = {0, 0.5, 0.9, 1};

	qsort(length, (size_t)s->rows, sizeof *length, by_size);
	for (int i = 0; i < LENGTHS; i++) {
		const int64_t rank = (int64_t)(share[i] * (double)s->rows + 0.999999);

		s->length[i] = length[rank ? rank - 1 : 0];
	}
}

/* Whether samples have labels. Texts for a language model have none. */
static bool has_labels(const struct sl_set *set)
{
	return set->classes || set->field[SL_FIELD_TARGET].dtype == SL_F32;
}

/* The number of classes, or of several labels, which have names; 0: numbers, or no labels. */
static int names_of(const struct sl_set *set)
{
	const struct sl_field_type *target = &set->field[SL_FIELD_TARGET];

	return target->ndim && strcmp(target->name, "labels") == 0 ? (int)sl_set_targets(set) : set->classes;
}

static void take_target(struct split *s, const struct sl_set *set, const void *target, int64_t row)
{
	for (int k = 0; k < names_of(set) && !set->classes; k++)
		s->of_class[k] += ((const float *)target)[k] > 0.5f;
	if (set->classes)
		s->of_class[*(const int32_t *)target]++;
	if (set->classes || !has_labels(set))
		return;
	s->least = row && s->least < *(const float *)target ? s->least : *(const float *)target;
	s->most = row && s->most > *(const float *)target ? s->most : *(const float *)target;
	s->sum += *(const float *)target;
}

static enum sl_err count_rows(struct split *s, const struct sl_set *set, struct sl_fail *fail)
{
	int64_t *length = calloc((size_t)set->count, sizeof *length);
	struct sl_room room = {0};
	enum sl_err err = SL_OK;

	s->rows = set->count;
	s->groups = sl_setup_groups(set);
	s->of_class = calloc((size_t)names_of(set) + 1, sizeof *s->of_class);
	if (!length || !s->of_class)
		err = sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for a survey");
	for (int64_t i = 0; i < set->count && !err; i++) {
		struct sl_value value[SL_FIELD_COUNT];

		length[i] = set->source->extent(set, i);
		s->tokens += length[i];
		err = set->source->sample(set, i, &room, value, fail);
		if (!err)
			take_target(s, set, value[SL_FIELD_TARGET].data, i);
	}
	if (!err)
		take_lengths(s, length);
	sl_room_close(&room);
	free(length);
	return err;
}

/* Counts the tokens of one epoch's batches, as training has them. */
static enum sl_err count_batches(struct look *l, struct sl_fail *fail)
{
	const struct sl_batch *batch;
	struct sl_loader *loader;
	enum sl_err err = sl_setup_loader(&l->setup, SL_SPLIT_TRAIN, NULL, NULL, &loader, fail);
	int64_t n;

	if (err)
		return err;
	n = sl_loader_batches(loader);
	for (int64_t i = 0; i < n && !err; i++) {
		uint32_t longest = 0;

		err = sl_loader_next(loader, &batch);
		if (err) {
			sl_fail_set(fail, err, "the loader: %s", sl_err_text(err));
			break;
		}
		for (int64_t r = 0; r < batch->rows; r++)
			longest = batch->begin[r + 1] - batch->begin[r] > longest
					  ? batch->begin[r + 1] - batch->begin[r]
					  : longest;
		l->batch[0] += (double)batch->begin[batch->rows] / (double)n;
		l->batch[1] += (double)longest * (double)batch->rows / (double)n;
		l->batch[2] += (double)l->most * (double)batch->rows / (double)n;
		sl_loader_release(loader, batch);
	}
	sl_loader_close(loader);
	return err;
}

/* Writes tokens as the vocabulary spells them, so that a terminal cannot be misled. */
static void write_sample(char out[SAMPLE_BYTES], const struct sl_tokenizer *t, const int32_t *id, int64_t n)
{
	size_t at = 0;

	for (int64_t i = 0; i < n; i++) {
		const char *text = sl_tokenizer_text(t, id[i]);

		if (at + strlen(text) + 8 > SAMPLE_BYTES) {
			strcpy(out + at, " …");
			return;
		}
		at += (size_t)snprintf(out + at, SAMPLE_BYTES - at, "%s%s", i ? " " : "", text);
	}
	sl_text_make_safe(out, '?');
}

static enum sl_err take_samples(struct look *l, struct sl_fail *fail)
{
	const struct sl_set *set = &l->setup.set[SL_SPLIT_TRAIN];
	struct sl_tokenizer *tokenizer;
	struct sl_room room = {0};
	enum sl_err err;

	if (!l->setup.conf->data.tokenizer[0])
		return SL_OK;
	err = sl_tokenizer_open(&tokenizer, l->setup.conf->data.tokenizer, fail);
	if (err)
		return err;
	for (int i = 0; i < SAMPLES && i < set->count && !err; i++) {
		struct sl_value value[SL_FIELD_COUNT];

		err = set->source->sample(set, i, &room, value, fail);
		if (!err)
			write_sample(l->sample[i], tokenizer, value[SL_FIELD_INPUT].data, value[SL_FIELD_INPUT].dim[0]);
	}
	sl_room_close(&room);
	sl_tokenizer_close(tokenizer);
	return err;
}

static int64_t limited(int64_t count, int limit)
{
	return limit && limit < count ? limit : count;
}

/* Opens the data and tokenizes all of them, to measure the time; applies the limits afterwards. */
static enum sl_err open_data(struct look *l, struct sl_conf_client *conf, struct sl_fail *fail)
{
	const int test = conf->data.test_limit, limit[] = {conf->data.train_limit, test, test};
	const int classes = conf->model.classes;
	const uint64_t began = sl_now_ns();
	int64_t tokens = 0;
	enum sl_err err;

	if (sl_setup_task(conf)->met && classes > 1)
		conf->model.classes = INT_MAX; /* they are counted here */
	conf->data.train_limit = conf->data.test_limit = 0;
	conf->data.token_cache = false;
	err = sl_setup_data(&l->setup, true, fail);
	l->parts = SL_SPLIT_COUNT;
	if (!err && sl_setup_has_test_part(&l->setup)) {
		l->parts = PARTS;
		err = sl_setup_test_part(&l->setup, &l->test, fail);
	}
	if (!err && conf->data.tokenizer[0])
		l->tokens_s = 1e9 / (double)(sl_now_ns() - began + 1);
	for (int part = 0; part < l->parts && !err; part++) {
		struct sl_set *set = set_of(l, part);

		for (int64_t i = 0; i < set->count; i++)
			tokens += set->source->extent(set, i);
		set->count = limited(set->count, limit[part]);
	}
	l->tokens_s *= (double)tokens;
	conf->model.classes = classes;
	return err;
}

/* Finds how wide the tensors are that cross. That stays unknown if the network does not fit the data, or is not
 * there. */
static void take_features(struct look *l, const struct sl_conf_client *conf)
{
	struct sl_setup setup = {.reads = SL_READS_NONE};
	struct sl_fail why;

	if (sl_setup_plan(&setup, conf, &why) == SL_OK)
		for (int mid = 0; mid < 2; mid++) {
			l->features[mid] = sl_plan_plain_count(setup.plan, mid);
			l->per_token[mid] = setup.plan->plain_per_token[mid];
		}
	sl_setup_close(&setup);
}

/* Bytes of a batch of so many tokens that cross a cut in one direction, as fp32. */
static double bytes_of(const struct look *l, int mid, double tokens)
{
	const double rows = (double)l->setup.conf->agreed.batch;

	return (l->per_token[mid] ? tokens : rows) * (double)l->features[mid] * (double)sizeof(float);
}

static double least_of(const struct split *s)
{
	return s->least;
}

static double mean_of(const struct split *s)
{
	return s->sum / (double)s->rows;
}

static double most_of(const struct split *s)
{
	return s->most;
}

/* Prints a line of four digits behind the point for each part. */
static void print_row(const struct look *l, const char *name, double (*of)(const struct split *s))
{
	printf("%-32s", name);
	for (int part = 0; part < l->parts; part++)
		printf(" %10.4f", of(&l->split[part]));
	putchar('\n');
}

static void print_count(const struct look *l, const char *name, size_t offset)
{
	printf("%-32s", name);
	for (int part = 0; part < l->parts; part++)
		printf(" %10" PRId64, *(const int64_t *)(const void *)((const char *)&l->split[part] + offset));
	putchar('\n');
}

static void print_table(const struct look *l)
{
	static const char *const cut[2] = {"head_act", "mid_act"};
	const struct sl_set *set = &l->setup.set[SL_SPLIT_TRAIN];
	const struct split *s = l->split;
	const int names = names_of(set);
	char name[SL_CLASS_NAME_BYTES];

	printf("%-32s", names ? "class" : has_labels(set) ? "numbers" : "");
	for (int part = 0; part < l->parts; part++)
		printf(" %10s", word_of(l, part));
	putchar('\n');
	for (int i = 0; i < names && i < SHOWN_CLASSES; i++) {
		sl_print_cell(stdout, sl_class_name(set, i, name), 0, 32);
		for (int part = 0; part < l->parts; part++)
			printf(" %10" PRId64, s[part].of_class[i]);
		putchar('\n');
	}
	if (names > SHOWN_CLASSES)
		printf("and %d more; --json has all\n", names - SHOWN_CLASSES);
	if (!names && has_labels(set)) {
		print_row(l, "min", least_of);
		print_row(l, "mean", mean_of);
		print_row(l, "max", most_of);
	}
	print_count(l, "rows", offsetof(struct split, rows));
	if (s->groups)
		print_count(l, "groups (data.split.by)", offsetof(struct split, groups));
	print_count(l, "tokens", offsetof(struct split, tokens));
	for (size_t i = 0; i < LENGTHS; i++) {
		snprintf(name, sizeof name, "tokens of a row, %s", length_name[i]);
		print_count(l, name, offsetof(struct split, length) + i * sizeof s->length[0]);
	}
	printf("\nbatch       %.0f tokens; padded to its longest row %.0f, to %d tokens a row %.0f\n", l->batch[0],
	       l->batch[1], l->most, l->batch[2]);
	for (int mid = 0; mid < 2 && l->features[mid]; mid++)
		printf("%-11s %.1f kB a batch as fp32; padded %.1f and %.1f kB\n", cut[mid],
		       bytes_of(l, mid, l->batch[0]) / 1e3, bytes_of(l, mid, l->batch[1]) / 1e3,
		       bytes_of(l, mid, l->batch[2]) / 1e3);
	if (l->tokens_s > 0)
		printf("throughput  %.2f million tokens/s read and tokenized by one thread\n", l->tokens_s / 1e6);
	for (int i = 0; i < SAMPLES && l->sample[i][0]; i++)
		printf("%s%s\n", i ? "            " : "samples     ", l->sample[i]);
}

static json_t *split_json(const struct split *s)
{
	json_t *out = json_pack("{s:I, s:I, s:I}", "samples", (json_int_t)s->rows, "groups", (json_int_t)s->groups,
				"tokens", (json_int_t)s->tokens);
	json_t *length = json_object();

	for (int i = 0; i < LENGTHS; i++)
		json_object_set_new(length, length_name[i], json_integer((json_int_t)s->length[i]));
	json_object_set_new(out, "length", length);
	return out;
}

static void print_json(const struct look *l)
{
	const struct sl_set *set = &l->setup.set[SL_SPLIT_TRAIN];
	json_t *root = json_pack("{s:i, s:s, s:s}", "schema", 2, "kind", set->source->name, "evaluated_part",
				 word_of(l, SL_SPLIT_TEST));
	json_t *samples = json_array(), *classes = json_array();
	char name[SL_CLASS_NAME_BYTES];

	for (int i = 0; i < names_of(set); i++) {
		json_t *one = json_pack("{s:s}", "name", sl_class_name(set, i, name));

		for (int part = 0; part < l->parts; part++)
			json_object_set_new(one, key_of(l, part), json_integer((json_int_t)l->split[part].of_class[i]));
		json_array_append_new(classes, one);
	}
	json_object_set_new(root, "classes", classes);
	for (int part = 0; part < l->parts; part++)
		json_object_set_new(root, key_of(l, part), split_json(&l->split[part]));
	json_object_set_new(root, "batch",
			    json_pack("{s:f, s:f, s:f}", "tokens", l->batch[0], "padded_longest", l->batch[1],
				      "padded_max", l->batch[2]));
	json_object_set_new(root, "head_act_features", json_integer((json_int_t)l->features[0]));
	json_object_set_new(root, "mid_act_features", json_integer((json_int_t)l->features[1]));
	json_object_set_new(root, "tokens_s", l->tokens_s > 0 ? json_real(l->tokens_s) : json_null());
	for (int i = 0; i < SAMPLES && l->sample[i][0]; i++)
		json_array_append_new(samples, json_string(l->sample[i]));
	json_object_set_new(root, "text", samples);
	sl_command_print_json(root, JSON_INDENT(2));
}

enum sl_err sl_data_tokens(struct sl_conf_client *conf, bool json, struct sl_fail *fail)
{
	struct look l = {.setup.conf = conf, .setup.takes.vocab = INT_MAX};
	const int pad = conf->data.pad;
	enum sl_err err;

	conf->data.pad = SL_CONF_PAD_NONE;                  /* the report counts what padding would add */
	conf->insert.head[0] = conf->insert.tail[0] = '\0'; /* it also counts what crosses without inserts */
	l.most = conf->data.max_length ? conf->data.max_length : conf->model.tokens;
	err = open_data(&l, conf, fail);
	for (int part = 0; part < l.parts && !err; part++)
		err = count_rows(&l.split[part], set_of(&l, part), fail);
	if (!err)
		err = count_batches(&l, fail);
	if (!err)
		err = take_samples(&l, fail);
	conf->data.pad = pad; /* a network may need it */
	if (!err) {
		take_features(&l, conf);
		(json ? print_json : print_table)(&l);
	}
	for (int part = 0; part < PARTS; part++)
		free(l.split[part].of_class);
	sl_set_close(&l.test);
	sl_setup_close(&l.setup);
	return err;
}
