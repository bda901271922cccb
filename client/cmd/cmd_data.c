#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cmd/command.h"
#include "client/cmd/data_tokens.h"
#include "client/cmd/data_volumes.h"
#include "client/data/class_name.h"
#include "client/data/picture_write.h"
#include "client/data/sheet.h"
#include "client/data/survey.h"
#include "client/setup/setup_pictures.h"
#include "common/base/clock.h"
#include "common/base/text.h"
#include "common/base/wrap.h"

static const char *const usage[] = {
	"splitc data CONFIG [--sheet FILE.png] [--set KEY=VALUE]… [--json]",
	"Reads all pictures or tables that a config names, and prints classes, counts, sizes, mean and deviation. It "
	"also prints how many samples per second can be prepared for training.",
	"For a table it prints classes, counts, and how many numbers the network gets for a row: model.features.",
	"Mean and deviation are those of the training pictures as an evaluation has them, before Normalize. Pictures "
	"that cannot be read are named, and the exit status is 65.",
	"For texts it prints how many tokens the rows have, how large a batch is on the link with and without padding, "
	"and how fast texts are tokenized. The first rows are shown as tokens.",
	"For volumes it prints which share of voxels each class has in an epoch's patches, or how many cases it has, "
	"and how fast they come.",
	"--sheet draws samples as training has them: cropped, flipped and so on, with their labels. "
	"Masks are laid over the pictures.",
	NULL,
};

enum { SHOWN_CLASSES = 40, ON_SHEET = 64, MEASURE_MS = 3000, CHANNELS = 3, PARTS = SL_SPLIT_COUNT + 1 };

struct look {
	struct sl_setup setup;
	struct sl_pool *pool;
	struct sl_set test; /* the test part that data.split keeps beside the validation part, if there is one */
	int parts;          /* of the data: training and the evaluated part, and maybe `test` */
	struct sl_survey survey[1 + SL_CONF_ALSO][PARTS]; /* by source: [0] is the first, data.also is behind */
	double samples_per_s;
	int threads;
};

static const struct sl_set *set_of(const struct look *l, int part)
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

static bool is_table(const struct look *l)
{
	return strcmp(l->setup.set[SL_SPLIT_TRAIN].field[SL_FIELD_INPUT].name, "row") == 0;
}

/* How many numbers a table's row has. */
static int64_t features_of(const struct look *l)
{
	return l->setup.set[SL_SPLIT_TRAIN].field[SL_FIELD_INPUT].dim[0];
}

/* The transform of an evaluation. The caller closes *own, which is set if the config has none. */
static enum sl_err fixed_transform(const struct look *l, const struct sl_transform **out, struct sl_transform **own,
				   struct sl_fail *fail)
{
	const int64_t *side = l->setup.set[SL_SPLIT_TRAIN].field[SL_FIELD_INPUT].dim;
	struct sl_conf_list list;
	enum sl_err err;

	*out = l->setup.transform[SL_SPLIT_TEST];
	if (*out)
		return SL_OK;
	sl_transform_usual(&list, (int)side[0], (int)side[1], false); /* for CIFAR, whose pixels are RGB of 8 bits */
	err = sl_transform_open(own,
				&(struct sl_transform_spec){.step = (const char(*)[SL_CONF_TEXT])list.item,
							    .n = list.n,
							    .out_h = (int)side[0],
							    .out_w = (int)side[1],
							    .norm = SL_NORMALIZE_NONE,
							    .fixed = true},
				fail);
	*out = *own;
	return err;
}

static enum sl_err read_all(struct look *l, struct sl_fail *fail)
{
	const struct sl_transform *transform;
	struct sl_transform *own = NULL;
	enum sl_err err = SL_OK;

	for (int k = 0; k < l->setup.n_features; k++) {
		const struct sl_setup *from = &l->setup.further[k];

		for (int split = 0; split < SL_SPLIT_COUNT && from->transform[SL_SPLIT_TEST] && !err; split++)
			err = sl_survey_take(&l->survey[1 + k][split], &from->set[split],
					     from->transform[SL_SPLIT_TEST], l->pool, fail);
	}
	for (int part = 0; part < l->parts && is_table(l) && !err; part++)
		err = sl_survey_rows(&l->survey[0][part], set_of(l, part), fail);
	if (err || is_table(l))
		return err;
	err = fixed_transform(l, &transform, &own, fail);

	for (int part = 0; part < l->parts && !err; part++)
		err = sl_survey_take(&l->survey[0][part], set_of(l, part), transform, l->pool, fail);
	sl_transform_close(own);
	return err;
}

/* Mean and deviation that training's images are normalised by. */
static void training_norm(const struct look *l, float mean[CHANNELS], float std[CHANNELS])
{
	if (l->setup.transform[SL_SPLIT_TRAIN])
		sl_transform_norm(l->setup.transform[SL_SPLIT_TRAIN], mean, std);
	else
		sl_norm_values(sl_augment_spec(l->setup.augment)->norm, mean, std);
}

static enum sl_err draw_sheet(const struct look *l, const struct sl_batch *batch, const char *path,
			      struct sl_fail *fail)
{
	const struct sl_set *set = &l->setup.set[SL_SPLIT_TRAIN];
	const int64_t *dim = batch->field[SL_FIELD_INPUT].type.dim;
	const size_t pixels = (size_t)dim[0] * (size_t)dim[1], channels = (size_t)dim[2];
	const float *x = batch->field[SL_FIELD_INPUT].data;
	float mean[CHANNELS], std[CHANNELS], *image = malloc(pixels * CHANNELS * sizeof *image);
	const bool masked = set->field[SL_FIELD_TARGET].ndim > 1;
	const int n = batch->rows < ON_SHEET ? (int)batch->rows : ON_SHEET;
	struct sl_sheet *sheet;
	enum sl_err err = image ? sl_sheet_open(&sheet, n, (int)dim[0], (int)dim[1], fail)
				: sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a sheet");

	if (err) {
		free(image);
		return err;
	}
	training_norm(l, mean, std);
	for (int i = 0; i < n && !err; i++, x += pixels * channels) {
		char name[SL_CLASS_NAME_BYTES];

		const int32_t *mask = masked ? sl_batch_labels(batch) + (size_t)i * pixels : NULL;

		for (size_t k = 0; k < pixels * CHANNELS; k++) {
			const size_t c = channels == 1 ? 0 : k % CHANNELS;

			image[k] = x[k / CHANNELS * channels + c] * std[c] + mean[c];
			if (mask && mask[k / CHANNELS]) {
				uint8_t rgb[CHANNELS];

				sl_picture_class_colour(mask[k / CHANNELS], rgb);
				image[k] = (image[k] + (float)rgb[k % CHANNELS] / 255) / 2;
			}
		}
		err = sl_sheet_put(sheet, i, image,
				   set->classes && !masked ? sl_class_name(set, sl_batch_labels(batch)[i], name) : "",
				   fail);
	}
	if (!err)
		err = sl_sheet_write(sheet, path, fail);
	sl_sheet_close(sheet);
	free(image);
	return err;
}

/* Draws the first batch on the sheet; then measures batches for some seconds, or one epoch. */
static enum sl_err run_loader(struct look *l, const char *sheet, struct sl_fail *fail)
{
	const struct sl_batch *batch;
	struct sl_loader *loader;
	uint64_t began = sl_now_ms(), took = 0;
	int64_t samples = 0;
	enum sl_err err = sl_setup_loader(&l->setup, SL_SPLIT_TRAIN, NULL, NULL, &loader, fail);

	if (err)
		return err;
	for (int64_t i = 0; i < sl_loader_batches(loader) && took < MEASURE_MS && !err; i++) {
		err = sl_loader_next(loader, &batch);
		if (err) {
			sl_fail_set(fail, err, "the loader: %s", sl_err_text(err));
			break;
		}
		if (batch->err) { /* the survey has said why */
			sl_loader_release(loader, batch);
			continue;
		}
		samples += batch->rows;
		took = sl_now_ms() - began;
		if (sheet) {
			err = draw_sheet(l, batch, sheet, fail);
			sheet = NULL;
			began = sl_now_ms();
			samples = 0;
			took = 0;
		}
		sl_loader_release(loader, batch);
	}
	l->samples_per_s = took ? (double)samples * 1e3 / (double)took : 0;
	sl_loader_close(loader);
	return err;
}

/* The number of classes of all parts: a set of tar files knows none above its own labels, so they may differ. */
static int classes_of(const struct look *l)
{
	int most = 0;

	for (int part = 0; part < l->parts; part++)
		most = l->survey[0][part].classes > most ? l->survey[0][part].classes : most;
	return most;
}

/* Samples that a source cannot read. */
static int64_t unreadable(const struct look *l, int part)
{
	int64_t bad = 0;

	for (int k = 0; k <= SL_CONF_ALSO; k++)
		bad += l->survey[k][part].bad;
	return bad;
}

static int64_t counted(const struct sl_survey *s, int class)
{
	return class < s->classes ? s->of_class[class] : 0;
}

static void print_classes(const struct look *l)
{
	const struct sl_set *set = &l->setup.set[SL_SPLIT_TRAIN];
	const struct sl_survey *s = l->survey[0];
	const int classes = classes_of(l);

	printf("%-32s", "class");
	for (int part = 0; part < l->parts; part++)
		printf(" %10s", word_of(l, part));
	putchar('\n');
	for (int i = 0; i < classes && i < SHOWN_CLASSES; i++) {
		char name[SL_CLASS_NAME_BYTES];

		sl_print_cell(stdout, sl_class_name(set, i, name), 0, 32);
		for (int part = 0; part < l->parts; part++)
			printf(" %10" PRId64, counted(&s[part], i));
		putchar('\n');
	}
	if (classes > SHOWN_CLASSES)
		printf("and %d more; --json has all\n", classes - SHOWN_CLASSES);
	printf("%-32s", "all");
	for (int part = 0; part < l->parts; part++)
		printf(" %10" PRId64, s[part].samples - s[part].bad);
	putchar('\n');
	if (sl_setup_groups(set)) {
		printf("%-32s", "groups (data.split.by)");
		for (int part = 0; part < l->parts; part++)
			printf(" %10" PRId64, sl_setup_groups(set_of(l, part)));
		putchar('\n');
	}
	putchar('\n');
}

static void print_sizes(const struct sl_survey *s)
{
	printf("width       %d to %d, median %d\n", s->least_w, s->most_w, s->median_w);
	printf("height      %d to %d, median %d\n", s->least_h, s->most_h, s->median_h);
	if (s->channels == 1) {
		printf("mean        %.4f\ndeviation   %.4f\n            Normalize(%.4f, %.4f)\n", s->mean[0],
		       s->deviation[0], s->mean[0], s->deviation[0]);
		return;
	}
	printf("mean        %.4f, %.4f, %.4f\n", s->mean[0], s->mean[1], s->mean[2]);
	printf("deviation   %.4f, %.4f, %.4f\n", s->deviation[0], s->deviation[1], s->deviation[2]);
	printf("            Normalize((%.4f, %.4f, %.4f), (%.4f, %.4f, %.4f))\n", s->mean[0], s->mean[1], s->mean[2],
	       s->deviation[0], s->deviation[1], s->deviation[2]);
}

/* The columns of ids, as the set describes them: an object of their rows. The caller releases it. */
static json_t *ids_of(const struct look *l)
{
	const struct sl_set *set = &l->setup.set[SL_SPLIT_TRAIN];
	json_t *about = json_object(), *out = json_object(), *column;
	size_t i;

	if (set->source->describe)
		set->source->describe(set, about);
	json_array_foreach(json_object_get(about, "columns"), i, column) if (json_object_get(column, "ids"))
		json_object_set(out, json_string_value(json_object_get(column, "name")),
				json_object_get(column, "rows"));
	json_decref(about);
	return out;
}

static void print_ids(const struct look *l)
{
	json_t *ids = ids_of(l), *rows;
	const char *name;

	json_object_foreach(ids, name, rows)
		printf("ids         %" JSON_INTEGER_FORMAT " rows of an embedding for column \"%s\"\n",
		       json_integer_value(rows), name);
	json_decref(ids);
}

static void print_table(const struct look *l)
{
	print_classes(l);
	if (is_table(l))
		printf("features    %" PRId64 " number%s in each row (model.features)\n", features_of(l),
		       sl_plural(features_of(l)));
	if (is_table(l))
		print_ids(l);
	else
		print_sizes(&l->survey[0][SL_SPLIT_TRAIN]);
	if (l->samples_per_s > 0)
		printf("throughput  %.0f samples/s prepared for training by %d thread%s\n", l->samples_per_s,
		       l->threads, sl_plural(l->threads));
	for (int part = 0; part < SL_SPLIT_COUNT; part++)
		if (l->setup.set[part].passed_over)
			printf("passed over %" PRId64 " file%s of %s, not pictures: %s\n",
			       l->setup.set[part].passed_over, sl_plural(l->setup.set[part].passed_over),
			       word_of(l, part), l->setup.set[part].passed_kinds);
	for (int part = 0; part < l->parts; part++)
		if (unreadable(l, part))
			printf("unreadable  %" PRId64 " of %" PRId64 " samples of %s\n", unreadable(l, part),
			       l->survey[0][part].samples, word_of(l, part));
}

static json_t *by_channel(const double x[CHANNELS], int n)
{
	return n == 1 ? json_pack("[f]", x[0]) : json_pack("[f, f, f]", x[0], x[1], x[2]);
}

static void put_sizes(json_t *root, const struct sl_survey *s)
{
	json_object_set_new(root, "width",
			    json_pack("{s:i, s:i, s:i}", "min", s->least_w, "median", s->median_w, "max", s->most_w));
	json_object_set_new(root, "height",
			    json_pack("{s:i, s:i, s:i}", "min", s->least_h, "median", s->median_h, "max", s->most_h));
	json_object_set_new(root, "mean", by_channel(s->mean, s->channels));
	json_object_set_new(root, "deviation", by_channel(s->deviation, s->channels));
}

static void print_json(const struct look *l)
{
	const struct sl_set *set = &l->setup.set[SL_SPLIT_TRAIN];
	const struct sl_survey *s = l->survey[0];
	json_t *root = json_pack("{s:i, s:s, s:s}", "schema", 2, "kind", l->setup.set[0].source->name, "evaluated_part",
				 word_of(l, SL_SPLIT_TEST));
	json_t *classes = json_array();

	for (int i = 0; i < classes_of(l); i++) {
		char name[SL_CLASS_NAME_BYTES];
		json_t *one = json_pack("{s:s}", "name", sl_class_name(set, i, name));

		for (int part = 0; part < l->parts; part++)
			json_object_set_new(one, key_of(l, part), json_integer((json_int_t)counted(&s[part], i)));
		json_array_append_new(classes, one);
	}
	json_object_set_new(root, "classes", classes);
	for (int part = 0; part < l->parts; part++)
		json_object_set_new(root, key_of(l, part),
				    json_pack("{s:I, s:I, s:I, s:I, s:s}", "samples", (json_int_t)s[part].samples,
					      "groups", (json_int_t)sl_setup_groups(set_of(l, part)), "unreadable",
					      (json_int_t)unreadable(l, part), "passed_over",
					      (json_int_t)set_of(l, part)->passed_over, "passed_kinds",
					      set_of(l, part)->passed_kinds));
	if (is_table(l)) {
		json_object_set_new(root, "features", json_integer(features_of(l)));
		json_object_set_new(root, "ids", ids_of(l));
	} else {
		put_sizes(root, &s[SL_SPLIT_TRAIN]);
	}
	json_object_set_new(root, "samples_s", l->samples_per_s > 0 ? json_real(l->samples_per_s) : json_null());
	json_object_set_new(root, "threads", json_integer(l->threads));
	sl_command_print_json(root, JSON_INDENT(2));
}

/* Reports the samples that cannot be read; returns the exit status. */
static int name_bad(const struct look *l)
{
	int64_t bad = 0;

	for (int k = 0; k < (1 + SL_CONF_ALSO) * PARTS; k++) {
		const int part = k % PARTS;
		const struct sl_survey *s = &l->survey[k / PARTS][part];

		for (int i = 0; i < s->n_why; i++)
			(void)sl_command_failed(&s->why[i]);
		if (s->bad > s->n_why)
			fprintf(stderr, "splitc: and %" PRId64 " more of %s\n", s->bad - s->n_why, word_of(l, part));
		bad += s->bad;
	}
	return bad ? sl_err_exit_status(SL_ERR_DATA) : 0;
}

static enum sl_err look_at(struct look *l, const struct sl_options *o, struct sl_fail *fail)
{
	enum sl_err err = l->setup.alone ? sl_setup_share(&l->setup, fail) : SL_OK;

	if (!err)
		err = sl_setup_data(&l->setup, true, fail);
	l->parts = SL_SPLIT_COUNT;
	if (!err && sl_setup_has_test_part(&l->setup)) {
		l->parts = PARTS;
		err = sl_setup_test_part(&l->setup, &l->test, fail);
	}
	if (!err && !is_table(l) && strcmp(l->setup.set[SL_SPLIT_TRAIN].field[SL_FIELD_INPUT].name, "image") != 0)
		err = sl_conf_client_fail(l->setup.conf, "data.kind", fail,
					  "has neither pictures nor a table to look at");
	if (!err && is_table(l) && o->sheet)
		err = sl_fail_set(fail, SL_ERR_USAGE, "data: a table has no pictures to draw with --sheet");
	for (int k = 0; k < l->setup.n_features && !err; k++)
		if (sl_setup_decodes(l->setup.further[k].conf))
			l->threads = sl_setup_loader_threads(l->setup.further[k].conf);
	if (!err)
		err = sl_pool_open(&l->pool, l->threads, fail);
	if (!err) {
		l->threads = sl_pool_threads(l->pool);
		err = read_all(l, fail);
	}
	if (!err)
		err = run_loader(l, o->sheet, fail);
	return err;
}

int splitc_data(int argc, char **argv)
{
	struct sl_options o = {.command = "data", .usage = usage, .keys = &sl_conf_client_schema};
	static struct look l;
	struct sl_conf_client conf;
	struct sl_fail fail;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_CONFIG | SL_OPT_JSON | SL_OPT_DATA, 1);

	if (status < 0)
		status = sl_options_load(&o, SL_USES_TRAIN_SET | SL_USES_TEST_SET | SL_USES_DEMO, &conf);
	if (status >= 0)
		return status;
	if (o.sheet && !sl_ends_with(o.sheet, ".png"))
		return sl_command_refuse("data --sheet: name a file that ends with .png");
	if (o.sheet && sl_source_find(sl_conf_data_kinds[conf.data.kind])->extent)
		return sl_command_refuse("data: texts have no pictures to draw with --sheet");
	if (sl_source_find(sl_conf_data_kinds[conf.data.kind])->extent)
		return sl_data_tokens(&conf, o.json, &fail) ? sl_command_failed(&fail) : 0;
	if (conf.data.kind == SL_DATA_VOLUMES)
		return o.sheet ? sl_command_refuse("data: volumes are not drawn: leave out --sheet")
		       : sl_data_volumes(&conf, o.json, &fail) ? sl_command_failed(&fail)
							       : 0;
	l.setup.conf = &conf;
	l.setup.reads = SL_READS_ALL;
	l.setup.alone = strcmp(conf.data.partition, "batch") != 0; /* which divides batches, not the set */
	l.threads = sl_setup_loader_threads(&conf);
	if (sl_setup_task(&conf)->met && !(conf.model.task == SL_CONF_PIXELS && conf.model.classes))
		conf.model.classes = INT_MAX; /* they are counted here; those of masks are the network's */
	conf.model.features = 0;              /* counted, too */
	if (look_at(&l, &o, &fail) != SL_OK) {
		status = sl_command_failed(&fail);
	} else {
		(o.json ? print_json : print_table)(&l);
		status = name_bad(&l);
	}
	for (int k = 0; k < (1 + SL_CONF_ALSO) * PARTS; k++)
		sl_survey_close(&l.survey[k / PARTS][k % PARTS]);
	sl_set_close(&l.test);
	sl_pool_close(l.pool);
	sl_setup_close(&l.setup);
	return status;
}
