/* From a config to the data that a run reads. */
#include "client/setup/setup.h"
#include "client/setup/setup_pictures.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "client/data/parts.h"
#include "client/data/stream_set.h"
#include "client/setup/about.h"
#include "client/setup/setup_numbers.h"
#include "client/setup/setup_volumes.h"
#include "common/base/log.h"

/* The arrays to which a struct sl_set_spec points. */
struct names {
	const char *file[SL_CONF_LIST_MAX], *train[SL_CONF_LIST_MAX], *ignore[SL_CONF_LIST_MAX],
		*date[SL_CONF_LIST_MAX], *ids[SL_CONF_LIST_MAX], *column[SL_CONF_LIST_MAX], *label[SL_CONF_LIST_MAX];
	char dir[PATH_MAX];
	struct sl_parts parts;
	struct sl_setup_volume volume;
};

static const char member_mark[] = "%m";

/* data.dir. In a group, %m becomes the member's number, so that all members can have the same config. */
static const char *name_dir(const struct sl_conf_client *c, char out[PATH_MAX])
{
	const char *mark = strstr(c->data.dir, member_mark);

	if (!mark || !c->agreed.share.group[0])
		return c->data.dir;
	snprintf(out, PATH_MAX, "%.*s%d%.*s", (int)(mark - c->data.dir), c->data.dir, c->agreed.share.member,
		 PATH_MAX / 2, mark + sizeof member_mark - 1);
	return out;
}

static void point_to(const char **out, const struct sl_conf_list *list)
{
	for (int i = 0; i < list->n; i++)
		out[i] = list->item[i];
}

static struct sl_set_spec data_spec(const struct sl_setup *s, enum sl_split split, struct names *name)
{
	const struct sl_conf_client *c = s->conf;
	const struct sl_conf_list *files =
		split == SL_SPLIT_TRAIN || sl_conf_splits(c) ? &c->data.train_files : &c->data.test_files;
	struct sl_set_spec spec = {
		.source = sl_conf_data_kinds[c->data.kind],
		.split = split,
		.dir = name_dir(c, name->dir),
		.max_tokens = sl_setup_row_most(c),
		.max_samples = split == SL_SPLIT_TRAIN ? c->data.train_limit : c->data.test_limit,
		.picture = sl_setup_pictures(s),
		.label = name->label,
		.nlabels = c->data.label.n,
		.ignore = name->ignore,
		.nignore = c->data.ignore.n,
		.date = name->date,
		.ndates = c->data.dates.n,
		.id_column = name->ids,
		.nid_columns = c->data.ids.n,
		.buckets = c->data.buckets,
		.room = s->room,
		.rooms = s->rooms,
		.fill = c->data.missing == SL_MISSING_MEAN,
		.form = {",;\t"[c->data.separator], c -> data.decimal == SL_DECIMAL_COMMA},
		.tokenizer = c->data.tokenizer,
		.cache = c->data.token_cache,
		.types = s->takes.types,
		.mark = s->takes.mark,
		.column = name->column,
		.ncolumns = c->data.columns.n,
		.task = sl_setup_task(c),
		.centre = s->centre,
		.labels = c->data.labels[0] ? c->data.labels : NULL,
		.label_id = c->data.label_id,
		.masks = c->data.masks,
		.mask_classes = c->model.classes,
		.volume = sl_setup_volume(&name->volume, c),
		.unlabelled = !sl_setup_task(c)->labelled || sl_conf_lacks_labels(c),
		.id = c->data.kind == SL_DATA_CSV ? c->data.id : "",
		.aligned = s->aligned,
		.blind = sl_conf_lacks_input(c),
		.lacking = c->agreed.share.group[0] != 0,
		.next = {.on = c->model.head == SL_CONF_CAUSAL_LM,
			 .all = c->data.loss_on == SL_CONF_LOSS_ALL,
			 .end = c->model.head == SL_CONF_CAUSAL_LM && c->data.end ? s->takes.learned_end : -1,
			 .pack = (enum sl_token_pack)c->data.pack},
	};

	name->volume.spec.cases = s->cases == SL_CASES_FILES;
	name->volume.spec.predicts = s->cases == SL_CASES_EACH && split == SL_SPLIT_TEST;
	if (sl_setup_choose_part(s, split, &name->parts)) {
		spec.split = SL_SPLIT_TRAIN;
		spec.parts = &name->parts;
	}
	point_to(name->file, files);
	point_to(name->train, &c->data.train_files);
	point_to(name->ignore, &c->data.ignore);
	point_to(name->date, &c->data.dates);
	point_to(name->ids, &c->data.ids);
	point_to(name->column, &c->data.columns);
	point_to(name->label, &c->data.label);
	spec.about = s->recalled;
	if (s->given && split == SL_SPLIT_TEST) {
		spec.given = s->given;
		spec.ngiven = s->ngiven;
		spec.max_samples = 0;
		spec.cache = false;
		return spec;
	}
	if (files->n) {
		spec.files = name->file;
		spec.nfiles = files->n;
	}
	if (c->data.train_files.n) {
		spec.train_files = name->train;
		spec.ntrain_files = c->data.train_files.n;
	}
	return spec;
}

/* Checks the input's channels. *why also says which files were read as sequences of a case. */
static enum sl_err check_input(const struct sl_set_spec *spec, const struct sl_set *set,
			       const struct sl_field_type *wanted, struct sl_fail *why)
{
	const enum sl_err err = sl_set_fits(set, SL_FIELD_INPUT, wanted, why);
	const long long n = err && spec->volume ? set->field[SL_FIELD_INPUT].dim[2] : 0;
	const size_t said = n > 1 ? strlen(why->text) : 0;

	if (n > 1)
		snprintf(why->text + said, sizeof why->text - said,
			 ". %lld files were read as one case of %lld sequences: rename files of several patients, so "
			 "that they do not end in _ and four digits",
			 n, n);
	return err;
}

/* Checks that a split fits the config and the network. `err`: the result of opening its files. */
static enum sl_err check_split(const struct sl_setup *s, const struct sl_set_spec *spec, const struct sl_set *set,
			       enum sl_err err, struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	const struct sl_learn_task *task = sl_setup_task(c);
	const bool labelled = task->labelled && !sl_conf_lacks_labels(c);
	const struct sl_field_type image = {c->data.kind == SL_DATA_VOLUMES ? "volume" : "image",
					    SL_F32,
					    3,
					    {c->model.image.h, c->model.image.w, sl_setup_network_channels(s)}};
	const struct sl_field_type tokens = {"tokens", SL_I32, 1, {0}};
	const struct sl_field_type row = {"row", SL_F32, 1, {0}};
	const struct sl_field_type *wanted = sl_model_takes_tokens(c->model.name) ? &tokens
					     : sl_model_takes_rows(c->model.name) ? &row
										  : &image;
	struct sl_fail why;

	if (err && spec->given && !fail->key[0])
		return err;
	if (err)
		return sl_conf_client_blame(c,
					    fail->key[0]                    ? fail->key
					    : !spec->files                  ? "data.dir"
					    : spec->split == SL_SPLIT_TRAIN ? "data.train_files"
									    : "data.test_files",
					    err, fail);
	if (spec->next.on && !set->next)
		return sl_conf_client_fail(c, "data.kind", fail,
					   "a causal language model reads texts: text, or a task of GLUE of one text");
	if (c->model.head == SL_CONF_MASKED_LM && set->mask.mask < 0)
		return sl_conf_client_fail(c, set->vocab && c->data.tokenizer[0] ? "data.tokenizer" : "data.kind", fail,
					   "a masked language model needs a tokenizer with <mask> or [MASK]");
	if (labelled && set->field[SL_FIELD_TARGET].dtype != task->dtype)
		return sl_conf_client_fail(c, task->met ? "model.classes" : "model.task", fail,
					   task->met ? "%s has numbers to be predicted: give 1 instead of classes"
						     : "%s has classes, and no numbers or several labels",
					   spec->source);
	if (labelled && set->classes > c->model.classes)
		return sl_conf_client_fail(c, "model.classes", fail,
					   "%s has %d classes, the model only %d: give the model as many", spec->source,
					   set->classes, c->model.classes);
	/* `splitc data` does not know how many classes the network has */
	if (task->kind == SL_LEARN_PIXELS && c->data.label.n > 1 && c->data.label.n != c->model.classes &&
	    c->model.classes <= SL_LEARN_IGNORED)
		return sl_conf_client_fail(c, "data.label", fail, "names %d classes, and the network has %d",
					   c->data.label.n, c->model.classes);
	if (task->each && labelled && set->field[SL_FIELD_TARGET].ndim && sl_set_targets(set) != c->model.classes)
		return sl_conf_client_fail(
			c, "data.label", fail,
			"names %lld column%s, and the network has %d output%s: they must be as many, as "
			"with model.classes: %lld",
			(long long)sl_set_targets(set), sl_plural(sl_set_targets(set)), c->model.classes,
			sl_plural(c->model.classes), (long long)sl_set_targets(set));
	if (sl_conf_lacks_input(c)) /* it is another party's, or another source's */
		return SL_OK;
	if (check_input(spec, set, wanted, &why) != SL_OK)
		return sl_conf_client_fail(c, c->data.channels ? "data.channels" : "data.kind", fail, "%s", why.text);
	if (spec->volume && wanted == &image)
		return sl_setup_check_patch(s, spec->volume->patch, fail);
	if (wanted == &row && c->model.features && set->field[SL_FIELD_INPUT].dim[0] != c->model.features)
		return sl_conf_client_fail(
			c, "model.features", fail,
			"%s has rows of %lld number%s, the model takes %d: give it as many, or leave "
			"columns out by data.ignore (each text of a column counts as a number, but in data.ids)",
			spec->source, (long long)set->field[SL_FIELD_INPUT].dim[0],
			sl_plural(set->field[SL_FIELD_INPUT].dim[0]), c->model.features);
	/* `splitc data` asks for the data alone: no network is known then */
	if (s->takes.vocab && set->vocab > s->takes.vocab)
		return sl_conf_client_fail(c,
					   c->model.huggingface[0] ? "model.huggingface"
					   : c->model.network[0]   ? "model.network"
								   : "model.vocab",
					   fail, "%s has tokens below %d, the model only below %d: %s", spec->source,
					   set->vocab, s->takes.vocab,
					   s->takes.vocab == c->model.vocab && !c->model.huggingface[0] &&
							   !c->model.network[0]
						   ? "give the model as many"
						   : "take the tokenizer that belongs to it");
	return SL_OK;
}

/* Texts of a causal language model end with a token that its folder names, also where `splitc data` has no network. */
static enum sl_err find_end(struct sl_setup *s, struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	const bool file = c->model.network[0];
	struct sl_model_spec spec = {.huggingface = file ? NULL : c->model.huggingface,
				     .network = file ? c->model.network : NULL};
	struct sl_model_takes takes;
	struct sl_fail why;
	enum sl_err err;

	if (c->model.head != SL_CONF_CAUSAL_LM)
		return SL_OK;
	snprintf(spec.name, sizeof spec.name, "%.*s", SL_NAME_MAX - 1, c->model.name);
	err = sl_model_takes_of(&takes, &spec, &why);
	if (err)
		return sl_conf_client_fail(c, file ? "model.network" : "model.huggingface", fail, "%s", why.text);
	if (c->data.end && takes.learned_end < 0)
		return sl_conf_client_fail(c, "data.end", fail, "%s names no end token (eos_token_id): give false",
					   file ? c->model.network : "config.json");
	s->takes.learned_end = takes.learned_end;
	return SL_OK;
}

/* Warns of outputs that no sample trains. But a member of a group may hold few of the group's classes, and `splitc
 * data` does not know how many the network has (INT_MAX). */
static void note_few_classes(const struct sl_conf_client *c, const struct sl_set *set)
{
	if (sl_setup_task(c)->kind == SL_LEARN_CLASSES && set->classes < c->model.classes &&
	    c->model.classes < INT_MAX && !c->agreed.share.group[0])
		sl_log(SL_LOG_WARN, "classes",
		       "model.classes is %d, and the training data have %d classes: write model.classes: %d, unless "
		       "the others are to come",
		       c->model.classes, set->classes, set->classes);
}

/* Warns of test data that are not read: data.split divides the training data, and reads no others. */
static void note_left_out(const struct sl_set_spec *spec)
{
	static const char *const ends[] = {"", ".csv", ".tsv", ".jsonl", ".txt"};
	const bool folders = strcmp(spec->source, "images") == 0 && (spec->task->met || spec->labels);
	char train[PATH_MAX], test[PATH_MAX];

	if (!spec->parts || spec->parts->own != SL_PARTS_TRAIN)
		return;
	for (size_t i = !folders; i < (folders ? 1 : sizeof ends / sizeof ends[0]) && !spec->files; i++)
		if (sl_set_usual(train, spec->dir, SL_SPLIT_TRAIN, ends[i]) &&
		    sl_set_usual(test, spec->dir, SL_SPLIT_TEST, ends[i]))
			sl_log(SL_LOG_WARN, "not-read", "%s is not read: data.split divides %s alone", test, train);
}

static enum sl_err check_sampling(const struct sl_setup *s, const struct sl_set *set, struct sl_fail *fail)
{
	if (!s->plan || s->conf->data.sampling != SL_SAMPLING_BALANCED || sl_set_has_classes(set))
		return SL_OK;
	return sl_conf_client_fail(s->conf, "data.sampling", fail,
				   "balanced needs classes, and these data have none: take shuffled");
}

enum sl_err sl_setup_names(struct sl_setup *s, enum sl_split split, struct sl_names *out, struct sl_fail *fail)
{
	struct names name;
	struct sl_set_spec spec;
	struct sl_set set = {0};
	enum sl_err err = sl_about_recall(s, fail);

	if (err)
		return err;
	spec = data_spec(s, split, &name);
	spec.aligned = NULL;
	spec.max_samples = 0;
	name.parts.share[SL_PARTS_TRAIN] = 1; /* all rows */
	name.parts.share[SL_PARTS_VAL] = name.parts.share[SL_PARTS_TEST] = 0;
	name.parts.folds = 0;
	name.parts.own = SL_PARTS_TRAIN;
	err = check_split(s, &spec, &set, sl_set_open(&set, &spec, fail), fail);
	sl_about_forget(s);
	if (!err)
		err = sl_aligned_names(&set, out, fail);
	sl_set_close(&set);
	return err;
}

/* Finds what the network looks up, and which rows to read: those of data.aligned, or that all of data.also have. */
static enum sl_err prepare(struct sl_setup *s, enum sl_split split, struct sl_fail *fail)
{
	const char *path = s->conf->data.aligned;
	const enum sl_err err = sl_setup_room(s, fail);

	if (err || s->conf->data.also.n)
		return err ? err : sl_setup_join(s, split, fail);
	if (!path[0] || s->aligned)
		return SL_OK;
	s->aligned = calloc(1, sizeof *s->aligned);
	if (!s->aligned)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the names of rows");
	return sl_conf_client_blame(s->conf, "data.aligned", sl_aligned_read(s->aligned, path, fail), fail);
}

static enum sl_err open_row(const void *setup, const char *name, const struct sl_set_rows *rows,
			    const struct sl_tokenizer *opened, struct sl_set *out, struct sl_fail *fail)
{
	struct names names;
	struct sl_set_spec spec = data_spec(setup, SL_SPLIT_TEST, &names);

	spec.given = &name;
	spec.ngiven = name != NULL;
	spec.rows = rows;
	spec.opened = opened;
	return sl_set_open(out, &spec, fail);
}

static enum sl_err open_stream(const struct sl_setup *s, struct sl_set *out, struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	const struct sl_stream_set_spec spec = {
		.most = c->agreed.batch,
		.pictures = sl_setup_decodes(c),
		.tokenizer = sl_source_find(sl_conf_data_kinds[c->data.kind])->extent ? c->data.tokenizer : NULL,
		.most_tokens = sl_setup_row_most(c),
		.open = open_row,
		.arg = s,
	};

	return sl_stream_set_open(out, &spec, fail);
}

enum sl_err sl_setup_split(struct sl_setup *s, enum sl_split split, struct sl_fail *fail)
{
	struct names name;
	struct sl_set_spec spec;
	enum sl_err err;

	if (s->set[split].source) /* it was opened for the plan */
		return SL_OK;
	err = find_end(s, fail);
	if (!err)
		err = prepare(s, split, fail);
	if (!err)
		err = sl_about_recall(s, fail);
	if (!err)
		err = sl_setup_centre(s, fail);
	if (err)
		return err;
	spec = data_spec(s, split, &name);
	if (split == SL_SPLIT_TRAIN && s->centred == SL_CENTRE_CHOSEN)
		spec.chosen = s->centre;
	err = s->streams ? open_stream(s, &s->set[split], fail) : sl_set_open(&s->set[split], &spec, fail);
	err = check_split(s, &spec, &s->set[split], err, fail);
	if (!s->streams)
		sl_about_forget(s);
	if (!err && !spec.given)
		err = sl_setup_check_numbers(s->conf, &s->set[split], fail);
	if (!err && split == SL_SPLIT_TRAIN && !s->conf->also)
		note_few_classes(s->conf, &s->set[split]);
	if (!err)
		sl_setup_note_part(s, split);
	if (!err)
		note_left_out(&spec);
	for (int k = 0; k < s->n_features && s->further && !err; k++)
		err = sl_setup_split(&s->further[k], split, fail);
	return err;
}

enum sl_err sl_setup_test_part(const struct sl_setup *s, struct sl_set *out, struct sl_fail *fail)
{
	struct sl_setup own = *s;
	struct names name;
	struct sl_set_spec spec;
	enum sl_err err;

	own.reads = SL_READS_TEST;
	own.recalled = NULL;
	err = sl_about_recall(&own, fail);
	if (err)
		return err;
	spec = data_spec(&own, SL_SPLIT_TEST, &name);
	err = sl_set_open(out, &spec, fail);
	sl_about_forget(&own);
	return err;
}

enum sl_err sl_setup_tokens(struct sl_setup *s, int64_t *row, int64_t *chunk, struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	const int64_t rows = (c->agreed.batch + c->agreed.chunks - 1) / c->agreed.chunks;
	const int first = s->reads == SL_READS_ALL ? SL_SPLIT_TRAIN : SL_SPLIT_TEST;
	enum sl_err err = SL_OK;

	*row = *chunk = 0;
	if (!sl_model_takes_tokens(c->model.name))
		return SL_OK;
	if (c->data.max_length > c->model.tokens)
		return sl_conf_client_fail(c, "data.max_length", fail, "the network takes rows of %d tokens at most",
					   c->model.tokens);
	if (!sl_source_find(sl_conf_data_kinds[c->data.kind])->extent)
		return sl_conf_client_fail(c, "data.kind", fail, "the network takes tokens, and %s has none",
					   sl_conf_data_kinds[c->data.kind]);
	if (s->reads == SL_READS_NONE) {
		*row = c->data.pad == SL_CONF_PAD_MAX ? sl_setup_row_most(c) : c->model.tokens;
		*chunk = rows * *row;
		return SL_OK;
	}
	*row = c->data.pad == SL_CONF_PAD_MAX ? sl_setup_row_most(c) : 1;
	*chunk = rows; /* rows have a token each, at least */
	for (int split = first; split < SL_SPLIT_COUNT && !err; split++) {
		int64_t longest = 0, most = 0;

		err = sl_setup_split(s, (enum sl_split)split, fail);
		if (!err)
			err = sl_set_most_tokens(&s->set[split], 1, &longest, fail);
		if (!err)
			err = sl_set_most_tokens(&s->set[split], rows, &most, fail);
		*row = longest > *row ? longest : *row;
		*chunk = most > *chunk ? most : *chunk;
	}
	if (c->data.pad || c->data.sampling == SL_SAMPLING_BALANCED) /* balanced may take a long row several times */
		*chunk = rows * *row;
	if (!err && *chunk > INT32_MAX)
		return sl_conf_client_fail(c, "train.batch", fail,
					   "a chunk may have %lld tokens, where %d are the most", (long long)*chunk,
					   INT32_MAX);
	return err;
}

static enum sl_err check_count(const struct sl_setup *s, int64_t own, int64_t other, struct sl_fail *fail)
{
	return own == other ? SL_OK
			    : sl_conf_client_fail(s->conf, "data.dir", fail,
						  "has %lld row%s, and the other member's has %lld", (long long)own,
						  sl_plural(own), (long long)other);
}

/* Checks a part without reading its samples. */
static enum sl_err check_unread(struct sl_setup *s, enum sl_split split, struct sl_set *out, struct sl_fail *fail)
{
	enum sl_err err = sl_about_recall(s, fail);
	struct names name;
	struct sl_set_spec spec;

	if (err)
		return err;
	spec = data_spec(s, split, &name);
	err = check_split(s, &spec, out, sl_set_check(out, &spec, fail), fail);
	if (!err)
		note_left_out(&spec);
	sl_about_forget(s);
	return err;
}

/* Opens a part and counts its classes. Left unread are sources of which that makes sense: they have all classes. So are
 * those of which a group has already opened a member's part, since *samples counts the whole. */
static enum sl_err check_part(struct sl_setup *s, enum sl_split split, int64_t *samples, struct sl_fail *fail)
{
	struct names name;
	const struct sl_set_spec spec = data_spec(s, split, &name);
	const struct sl_source *source = sl_source_find(spec.source);
	const bool unread = s->set[split].source || !source || (source->check && (!spec.parts || source->checks_parts));
	struct sl_set set;
	enum sl_err err = unread ? check_unread(s, split, &set, fail) : sl_setup_split(s, split, fail);

	if (!err && !unread)
		set = s->set[split];
	if (!err && split == SL_SPLIT_TRAIN)
		err = check_sampling(s, &set, fail);
	if (!err && s->set[split].source)
		err = sl_setup_check_classes(s, split, fail);
	for (int k = 0; k < s->n_features && !s->further && !err; k++)
		err = check_count(s, set.count, s->features[k].set[split].count, fail);
	if (!err)
		*samples = set.count;
	return err;
}

enum sl_err sl_setup_check_data(struct sl_setup *s, bool train, int64_t *samples, struct sl_fail *fail)
{
	enum sl_err err = sl_setup_check_transforms(s, fail);

	for (int split = train ? SL_SPLIT_TRAIN : SL_SPLIT_TEST; split < SL_SPLIT_COUNT && !err; split++)
		err = prepare(s, (enum sl_split)split, fail);
	samples[SL_SPLIT_TRAIN] = 0;
	for (int split = train ? SL_SPLIT_TRAIN : SL_SPLIT_TEST; split < SL_SPLIT_COUNT && !err; split++)
		err = check_part(s, (enum sl_split)split, &samples[split], fail);
	if (!err && train && s->set[SL_SPLIT_TRAIN].source && s->set[SL_SPLIT_TEST].source) {
		err = sl_setup_label_scale(s, true, fail);
		if (!err)
			err = sl_about_make(s, fail);
		if (!err)
			sl_about_check_begun(s);
	}
	return err || !train ? err : sl_setup_keep(s, fail);
}

/* Checks that two parties of a vertical group have the same rows in one order, as over links their hashes do. */
static enum sl_err check_rows(const struct sl_setup *s, const struct sl_setup *features, enum sl_split split,
			      struct sl_fail *fail)
{
	const struct sl_set *own = &s->set[split], *other = &features->set[split];
	const bool named = s->conf->data.id[0] && features->conf->data.id[0];
	enum sl_err err = check_count(s, own->count, other->count, fail);

	if (err)
		return err;
	for (int64_t i = 0; i < own->count && named; i++) {
		char room[2][NAME_MAX + 1];

		if (strcmp(own->source->id(own, i, room[0], sizeof room[0]),
			   other->source->id(other, i, room[1], sizeof room[1])) != 0)
			return sl_conf_client_fail(s->conf, "data.id", fail,
						   "row %lld has another name at the other member: splitc align finds "
						   "the rows that both have",
						   (long long)i);
	}
	return SL_OK;
}

enum sl_err sl_setup_data(struct sl_setup *s, bool train, struct sl_fail *fail)
{
	enum sl_err err = sl_setup_check_transforms(s, fail);

	if (!err && s->plan && s->plan->segment[SL_HEAD].graph.n_in > 1 && !s->alone && !s->conf->data.also.n)
		err = sl_conf_client_fail(s->conf, "model.network", fail,
					  "has several inputs, each of another member, and only train computes these");
	if (!err && train)
		err = sl_setup_split(s, SL_SPLIT_TRAIN, fail);
	if (!err && train)
		err = check_sampling(s, &s->set[SL_SPLIT_TRAIN], fail);
	if (!err)
		err = sl_setup_split(s, SL_SPLIT_TEST, fail);
	for (int split = train ? SL_SPLIT_TRAIN : SL_SPLIT_TEST; split < SL_SPLIT_COUNT && !err; split++)
		err = sl_setup_check_classes(s, (enum sl_split)split, fail);
	for (int split = train ? SL_SPLIT_TRAIN : SL_SPLIT_TEST; split < SL_SPLIT_COUNT; split++)
		for (int k = 0; k < s->n_features && !err; k++)
			err = check_rows(s, &s->features[k], (enum sl_split)split, fail);
	if (!err && train && s->plan && !s->plan->spec.party)
		sl_setup_advise_cut(s);
	if (!err && train && s->plan && !s->dcor && sl_party_has(s->plan->spec.party, SL_HEAD))
		err = sl_dcor_open(&s->dcor, s->plan, s->set[SL_SPLIT_TEST].count, fail);
	if (!err && train)
		err = sl_setup_keep(s, fail);
	if (!err && train)
		err = sl_setup_class_weights(s, fail);
	if (!err && strcmp(s->set[SL_SPLIT_TEST].field[SL_FIELD_INPUT].name, "image") == 0)
		err = sl_setup_prepare(s, fail);
	if (!err)
		err = sl_setup_label_scale(s, train, fail);
	if (!err && train && s->plan && s->plan->spec.party)
		err = sl_order_open(&s->order, s, fail);
	if (!err && train)
		err = sl_about_make(s, fail);
	if (!err && train)
		sl_about_check_begun(s);
	return err;
}
