#include "client/cmd/data_volumes.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "client/cmd/command.h"
#include "client/data/class_name.h"
#include "client/setup/setup.h"
#include "common/base/clock.h"
#include "common/base/wrap.h"

/* Voxels of each class in all patches of a part; or, with a class each, cases. */
struct seen {
	int64_t patches, of[SL_LEARN_IGNORED + 1];
	double seconds;
};

static const char *const key[SL_SPLIT_COUNT] = {"train", "test"};

static enum sl_err see(const struct sl_setup *s, enum sl_split split, struct seen *out, struct sl_fail *fail)
{
	const struct sl_field_type *target = &s->set[split].field[SL_FIELD_TARGET];
	const int64_t each = target->ndim ? target->dim[0] * target->dim[1] : 1;
	const uint64_t began = sl_now_ns();
	const struct sl_batch *batch;
	struct sl_loader *loader;
	enum sl_err err = sl_setup_loader(s, split, NULL, NULL, &loader, fail);

	if (err)
		return err;
	for (int64_t i = 0; i < sl_loader_batches(loader) && !err; i++) {
		err = sl_loader_take(loader, &batch, fail);
		if (err)
			break;
		for (int64_t v = 0; v < batch->rows * each; v++)
			out->of[sl_batch_labels(batch)[v]]++;
		out->patches += batch->rows;
		sl_loader_release(loader, batch);
	}
	out->seconds = sl_seconds_since(began);
	sl_loader_close(loader);
	return err;
}

/* The share of a class among the voxels that count. */
static double share(const struct seen *seen, int class)
{
	int64_t all = 0;

	for (int k = 0; k < SL_LEARN_IGNORED; k++)
		all += seen->of[k];
	return all ? (double)seen->of[class] / (double)all : 0;
}

static void print_table(const struct sl_setup *s, const struct seen seen[SL_SPLIT_COUNT])
{
	const struct seen *train = &seen[SL_SPLIT_TRAIN];
	const bool whole = s->conf->data.size.n > 0;

	printf("%-32s %12s %12s\n", whole ? "cases of a class" : "share of voxels", sl_setup_part(s, SL_SPLIT_TRAIN),
	       sl_setup_part(s, SL_SPLIT_TEST));
	for (int k = 0; k < s->set[0].classes; k++) {
		char name[SL_CLASS_NAME_BYTES];

		sl_print_cell(stdout, sl_class_name(&s->set[0], k, name), 0, 32);
		for (int split = 0; split < SL_SPLIT_COUNT; split++)
			if (whole)
				printf(" %12" PRId64, seen[split].of[k]);
			else
				printf(" %10.3f %%", 100 * share(&seen[split], k));
		putchar('\n');
	}
	printf("%-32s %12" PRId64 " %12" PRId64 "\n", "cases", sl_set_cases(&s->set[0]), sl_set_cases(&s->set[1]));
	if (!whole)
		printf("%-32s %12" PRId64 " %12" PRId64 "\n", "patches of an epoch", seen[0].patches, seen[1].patches);
	printf("%-32s %12" PRId64 "\n", "sequences of a case", s->set[0].field[SL_FIELD_INPUT].dim[2]);
	if (train->seconds > 0)
		printf("\nthroughput  %.0f %s/s prepared for training by %d thread%s\n",
		       (double)train->patches / train->seconds, whole ? "cases" : "patches",
		       sl_setup_loader_threads(s->conf), sl_plural(sl_setup_loader_threads(s->conf)));
}

static void print_json(const struct sl_setup *s, const struct seen seen[SL_SPLIT_COUNT])
{
	json_t *classes = json_array(),
	       *root = json_pack("{s:i, s:s, s:s, s:o}", "schema", 2, "kind", "volumes", "evaluated_part",
				 sl_setup_part(s, SL_SPLIT_TEST), "classes", classes);

	for (int k = 0; k < s->set[0].classes; k++) {
		char name[SL_CLASS_NAME_BYTES];

		json_array_append_new(classes,
				      json_pack("{s:s, s:I, s:I}", "name", sl_class_name(&s->set[0], k, name), key[0],
						(json_int_t)seen[0].of[k], key[1], (json_int_t)seen[1].of[k]));
	}
	for (int split = 0; split < SL_SPLIT_COUNT; split++)
		json_object_set_new(root, key[split],
				    json_pack("{s:I, s:I, s:I}", "samples", (json_int_t)seen[split].patches, "cases",
					      (json_int_t)sl_set_cases(&s->set[split]), "sequences",
					      (json_int_t)s->set[split].field[SL_FIELD_INPUT].dim[2]));
	json_object_set_new(root, "samples_s", json_real((double)seen[0].patches / fmax(seen[0].seconds, 1e-9)));
	json_object_set_new(root, "threads", json_integer(sl_setup_loader_threads(s->conf)));
	sl_command_print_json(root, JSON_INDENT(2));
}

enum sl_err sl_data_volumes(struct sl_conf_client *conf, bool json, struct sl_fail *fail)
{
	struct sl_model_sizes sizes;
	static struct sl_setup s;
	static struct seen seen[SL_SPLIT_COUNT];
	enum sl_err err;

	/* the network counts what masks may have; without its file, data.label does */
	if (sl_setup_file_sizes(&sizes, conf, fail) == SL_OK && sizes.classes)
		conf->model.classes = sizes.classes;
	s.conf = conf;
	s.reads = SL_READS_ALL;
	err = sl_setup_data(&s, true, fail);
	for (int split = 0; split < SL_SPLIT_COUNT && !err; split++)
		err = see(&s, (enum sl_split)split, &seen[split], fail);
	if (!err)
		(json ? print_json : print_table)(&s, seen);
	sl_setup_close(&s);
	return err;
}
