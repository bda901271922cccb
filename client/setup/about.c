#include "client/setup/about.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "client/model/network.h"
#include "client/model/weights_file.h"
#include "client/persist/jsonl.h"
#include "client/persist/model_file.h"
#include "client/setup/setup_pictures.h"
#include "common/base/log.h"
#include "common/base/newfile.h"
#include "common/base/text.h"
#include "common/session/checkpoint.h"
#include "common/telemetry/json.h"

enum { MOST_CLASS_NAMES = 100000, MOST_BYTES = 64 << 20 };

void sl_about_classes(json_t *about, const struct sl_set *set)
{
	const int n = set->classes ? set->classes : set->field[SL_FIELD_TARGET].ndim ? (int)sl_set_targets(set) : 0;
	json_t *list;

	if (!n || !set->source->class_name || n > MOST_CLASS_NAMES)
		return;
	list = json_array();
	for (int i = 0; i < n; i++)
		json_array_append_new(list, sl_json_text(set->source->class_name(set, i)));
	json_object_set_new(about, "classes", list);
}

static json_t *hash_json(uint64_t hash)
{
	return json_sprintf("%016" PRIx64, hash);
}

void sl_about_tokenizer(json_t *about, uint64_t tokenizer)
{
	json_object_set_new(about, "tokenizer", hash_json(tokenizer));
}

static void add_texts(json_t *about, const struct sl_setup *s, const struct sl_set *set)
{
	const struct sl_conf_client *c = s->conf;
	json_t *list = json_array();

	sl_about_tokenizer(about, set->tokenizer);
	json_object_set_new(about, "max_length", json_integer(sl_setup_row_most(s->conf)));
	json_object_set_new(about, "text_columns", list);
	for (int i = 0; i < c->data.columns.n; i++)
		json_array_append_new(list, sl_json_text(c->data.columns.item[i]));
	if (c->model.head != SL_CONF_CAUSAL_LM)
		return;
	json_object_set_new(about, "end", json_boolean(c->data.end));
	json_object_set_new(about, "loss_on", json_string(c->data.loss_on == SL_CONF_LOSS_ALL ? "all" : "completion"));
}

const char *const sl_about_split[SL_SPLIT_COUNT] = {"train", "test"};

/* How data.split divides the samples; null without it. */
static json_t *split_of(const struct sl_setup *s)
{
	const struct sl_conf_client *c = s->conf;
	json_t *split;

	if (!sl_conf_splits(c))
		return json_null();
	split = json_pack("{s:f, s:f, s:f, s:o, s:I, s:i, s:i}", "train", c->data.split.train, "val", c->data.split.val,
			  "test", c->data.split.test, "by", sl_json_text(c->data.split.by), "seed",
			  (json_int_t)c->data.split.seed, "folds", c->data.split.folds, "fold", c->data.split.fold);
	if (sl_setup_stratifies(s)) /* files of older versions lack it */
		json_object_set_new(split, "by_class", json_true());
	return split;
}

void sl_about_fingerprints(json_t *about, const struct sl_setup *s)
{
	const int limit[SL_SPLIT_COUNT] = {s->conf->data.train_limit, s->conf->data.test_limit};

	for (int split = 0; split < SL_SPLIT_COUNT; split++) {
		const struct sl_set *set = &s->set[split];
		uint64_t hash;

		if (!set->source || !(set->source->fingerprint || sl_conf_splits(s->conf)))
			continue;
		hash = set->source->fingerprint ? set->source->fingerprint(set) : 0;
		for (int k = 0; k < s->n_features && s->further; k++)
			hash = hash * 31 + s->further[k].set[split].source->fingerprint(&s->further[k].set[split]);
		json_object_set_new(about, sl_about_split[split],
				    json_pack("{s:I, s:i, s:o}", "samples", (json_int_t)set->count, "limit",
					      limit[split], "fingerprint", hash_json(hash)));
		if (set->source->images) /* samples are patches */
			json_object_set_new(json_object_get(about, sl_about_split[split]), "cases",
					    json_integer(sl_set_cases(set)));
	}
	if (!sl_conf_splits(s->conf))
		return;
	json_object_set_new(about, "split", split_of(s));
	if (s->further) /* these are divided by place */
		json_object_set_new(about, SL_ABOUT_ROWS,
				    hash_json(XXH3_64bits(s->aligned->row[SL_SPLIT_TRAIN].text,
							  s->aligned->row[SL_SPLIT_TRAIN].bytes)));
}

/* NULL: the text, which may be NULL, is no JSON object. */
static json_t *parse(const char *text)
{
	json_t *about = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;

	if (json_is_object(about))
		return about;
	json_decref(about);
	return NULL;
}

json_t *sl_about_note(const char *path)
{
	char *text = sl_weights_note(path, SL_MODEL_DATA);
	json_t *about = parse(text);

	free(text);
	return about;
}

/* The network's inputs that a source gives; a new reference. NULL: the config need not name the only one. */
static json_t *inputs_of(const struct sl_conf_client *c)
{
	json_t *list = c->inputs.n || sl_conf_lacks_input(c) ? json_array() : NULL;

	for (int i = 0; i < c->inputs.n; i++)
		json_array_append_new(list, json_string(c->inputs.item[i]));
	return list;
}

json_t *sl_about_source(json_t *all, const struct sl_conf_client *c)
{
	json_t *also = json_object_get(all, SL_ABOUT_ALSO), *inputs = inputs_of(c), *entry = all, *found = NULL;

	for (size_t i = 0; inputs && entry && !found; entry = json_array_get(also, i++))
		found = json_equal(json_object_get(entry, SL_ABOUT_INPUTS), inputs) ? entry : NULL;
	json_decref(inputs);
	return found ? found : c->also && also ? json_array_get(also, (size_t)c->also - 1) : all;
}

json_t *sl_about_parse(const struct sl_setup *s)
{
	json_t *about = parse(s->about), *own;

	if (!s->conf->also)
		return about;
	own = json_incref(sl_about_source(about, s->conf));
	json_decref(about);
	return own;
}

static const char thresholds_key[] = "thresholds";

static char *dump(const json_t *about)
{
	return sl_json_dump(about, JSON_COMPACT);
}

/* A network that learns to restore an activation has no hash: its graph lacks the layers behind that activation. */
void sl_about_network(json_t *about, const struct sl_setup *s)
{
	uint64_t hash = s->plan && s->plan->model && !s->plan->spec.party && sl_conf_learns_labels(s->conf)
				? sl_network_hash(s->plan)
				: 0;

	if (hash)
		json_object_set_new(about, "network", hash_json(hash));
	if (s->conf->lora.rank)
		json_object_set_new(about, "lora_alpha", json_real(s->conf->lora.alpha));
	if (s->plan && !s->plan->spec.party)
		json_object_set_new(about, SL_ABOUT_CODEC,
				    json_pack("[s, s]", s->agreement.codec[SL_DIR_HEAD_ACT].text,
					      s->agreement.codec[SL_DIR_MID_ACT].text));
}

json_t *sl_about_set(const struct sl_setup *s, const struct sl_set *set)
{
	json_t *about = json_pack("{s:i, s:s, s:s}", "schema", 1, "kind", set->source->name, "task",
				  sl_setup_task(s->conf)->name);

	json_object_set_new(about, SL_ABOUT_INPUTS, inputs_of(s->conf)); /* of NULL it sets nothing */
	if (!sl_conf_lacks_labels(s->conf))                              /* the member with labels names them */
		sl_about_classes(about, set);
	if (strcmp(set->field[SL_FIELD_INPUT].name, "image") == 0)
		sl_about_pictures(about, s, set);
	if (set->tokenizer)
		add_texts(about, s, set);
	if (set->source->describe)
		set->source->describe(set, about);
	return about;
}

static void add_scale(json_t *about, const struct sl_setup *s)
{
	json_t *list = json_array();

	for (int64_t i = 0; s->scale && i < sl_set_targets(&s->set[SL_SPLIT_TRAIN]); i++)
		json_array_append_new(list, s->scale[i].centre != 0
						    ? json_pack("[f, f, f]", s->scale[i].mean, s->scale[i].deviation,
								s->scale[i].centre)
						    : json_pack("[f, f]", s->scale[i].mean, s->scale[i].deviation));
	if (s->scale)
		json_object_set(about, SL_SETUP_SCALE, list);
	json_decref(list);
	list = sl_jsonl_rounding(s->rounding, s->conf->model.classes);
	if (!json_is_null(list))
		json_object_set(about, SL_SETUP_ROUNDING, list);
	json_decref(list);
}

bool sl_about_warn_of_same(const json_t *then, const json_t *now, bool files)
{
	const json_t *train = json_object_get(then, sl_about_split[SL_SPLIT_TRAIN]),
		     *test = json_object_get(now, sl_about_split[SL_SPLIT_TEST]);
	const char *own = json_string_value(json_object_get(test, "fingerprint"));

	/* with data.split both name the whole set, whose parts have no sample in common */
	if (!own || !strtoull(own, NULL, 16) || (json_object_get(then, "split") && json_object_get(now, "split")) ||
	    !json_equal(json_object_get(train, "fingerprint"), json_object_get(test, "fingerprint")))
		return false;
	sl_log(SL_LOG_WARN, "same-data",
	       "the samples of the evaluation %s those of training, so its figures say nothing of new samples: give "
	       "others as val or test, or divide the data by data.split",
	       files ? "have the names and sizes of" : "are");
	return true;
}

json_t *sl_about_describe(const struct sl_setup *s)
{
	const bool several = s->n_features + !sl_conf_lacks_input(s->conf) > 1 || s->further;
	const struct sl_setup *from = several ? s : sl_setup_input(s);
	json_t *about = sl_about_set(from, &from->set[SL_SPLIT_TRAIN]);
	json_t *labels = from != s ? sl_about_set(s, &s->set[SL_SPLIT_TRAIN]) : NULL, *also = json_array();

	json_object_del(from != s ? labels : NULL, SL_ABOUT_INPUTS); /* an only input is not named */
	json_object_update_missing(about, labels);
	json_decref(labels);
	for (int k = 0; k < s->n_features && several; k++)
		json_array_append_new(also, sl_about_set(&s->features[k], &s->features[k].set[SL_SPLIT_TRAIN]));
	if (several)
		json_object_set(about, SL_ABOUT_ALSO, also);
	json_decref(also);
	add_scale(about, s);
	return about;
}

/* What --resume compares, for a checkpoint's note. NULL: it is too long for one. */
static char *kept_of(const json_t *about)
{
	const char *const key[] = {"train",     "test",         "split", SL_SETUP_SCALE, "max_length",
				   "tokenizer", "text_columns", "end",   "loss_on"};
	json_t *kept = json_object();
	char *text;

	for (size_t i = 0; i < sizeof key / sizeof key[0]; i++)
		if (json_object_get(about, key[i]))
			json_object_set(kept, key[i], json_object_get(about, key[i]));
	text = dump(kept);
	json_decref(kept);
	if (!text || strlen(text) < SL_CHECKPOINT_NOTE)
		return text;
	free(text);
	return NULL;
}

enum sl_err sl_about_make(struct sl_setup *s, struct sl_fail *fail)
{
	json_t *about = sl_about_describe(s);

	sl_about_fingerprints(about, s);
	/* the contents of files say more than their names and sizes */
	if ((!s->further && s->set[SL_SPLIT_TRAIN].source->file && s->set[SL_SPLIT_TEST].source->file) ||
	    !sl_about_warn_of_same(about, about, false))
		sl_setup_warn_of_rows(s);
	json_object_set_new(about, "evaluated_part", json_string(sl_setup_part(s, SL_SPLIT_TEST)));
	sl_about_network(about, s);
	free(s->about);
	free(s->kept);
	s->about = dump(about);
	s->kept = kept_of(about);
	json_decref(about);
	if (sl_setup_task(s->conf)->kind == SL_LEARN_LABELS && !s->threshold)
		s->threshold = calloc((size_t)s->conf->model.classes, sizeof *s->threshold);
	return s->about ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for what is known of the data");
}

char *sl_about_text(const struct sl_setup *s, const struct sl_about_reached *at)
{
	const bool found = s->threshold && s->threshold[0] > 0,
		   member = at && at->made && at->made != SL_MADE_UNKNOWN && s->plan->spec.party;
	json_t *about = found || at ? sl_about_parse(s) : NULL, *list = json_array();
	char *text;

	for (int i = 0; found && i < s->conf->model.classes && about; i++)
		json_array_append_new(list, json_real(s->threshold[i]));
	if (about && found)
		json_object_set(about, thresholds_key, list);
	if (about && member)
		json_object_set_new(about, SL_ABOUT_RUN, hash_json(at->made));
	if (about && at)
		sl_about_add_unfinished(about, s, at);
	text = about ? dump(about) : s->about ? strdup(s->about) : NULL;
	json_decref(list);
	json_decref(about);
	return text;
}

void sl_about_read(struct sl_setup *s, const char *path)
{
	char kept[PATH_MAX];
	uint8_t *data;
	struct sl_fail fail;
	size_t len;

	free(s->about);
	s->about = path ? sl_weights_note(path, SL_MODEL_DATA) : NULL;
	if (path || !s->conf->log.dir[0] || sl_log_dir_path(kept, s->conf, SL_ABOUT_FILE, &fail) != SL_OK ||
	    sl_file_read(kept, MOST_BYTES, &data, &len, &fail) != SL_OK)
		return;
	s->about = (char *)data; /* a NUL stands behind it */
}

enum sl_err sl_about_file(json_t **out, const char *path, struct sl_fail *fail)
{
	const bool model = sl_ends_with(path, ".safetensors");
	uint8_t *text = model ? (uint8_t *)sl_weights_note(path, SL_MODEL_DATA) : NULL;
	size_t len;
	const enum sl_err err = model ? SL_OK : sl_file_read(path, MOST_BYTES, &text, &len, fail);

	if (err)
		return err;
	*out = parse((const char *)text); /* a NUL stands behind a file's bytes, too */
	free(text);
	return SL_OK;
}

/* Reads what data.like says: of a source of data.also what it says of the source in that place, if that was a table.
 * The caller drops *out. DATA: it has no columns. */
static enum sl_err load(json_t **out, const struct sl_conf_client *c, struct sl_fail *fail)
{
	json_t *all, *own;
	const enum sl_err err = sl_about_file(&all, c->data.like, fail);

	if (err)
		return err;
	own = sl_about_source(all, c);
	*out = json_incref(json_object_get(own, "columns") ? own : all);
	json_decref(all);
	if (json_object_get(*out, "columns"))
		return SL_OK;
	json_decref(*out);
	*out = NULL;
	return sl_fail_set(fail, SL_ERR_DATA,
			   "%.200s has no columns: give about.json of a run's log.dir, or a model that was trained on "
			   "a table",
			   c->data.like);
}

void sl_about_forget(struct sl_setup *s)
{
	json_decref(s->recalled);
	s->recalled = NULL;
}

enum sl_err sl_about_recall(struct sl_setup *s, struct sl_fail *fail)
{
	if (s->given || (s->reads == SL_READS_TEST && s->conf->data.kind == SL_DATA_CSV && sl_setup_input(s) == s))
		s->recalled = sl_about_parse(s);
	if (s->recalled && sl_conf_lacks_input(s->conf)) /* the file may name another member's */
		json_object_set_new(s->recalled, "columns", json_array());
	if (s->recalled && !s->given && !json_object_get(s->recalled, "columns"))
		sl_about_forget(s);
	if (s->recalled || s->given || !s->conf->data.like[0])
		return SL_OK;
	return sl_conf_client_blame(s->conf, "data.like", load(&s->recalled, s->conf, fail), fail);
}

enum sl_err sl_about_keep(const struct sl_setup *s, struct sl_fail *fail)
{
	char path[PATH_MAX], *text = s->conf->log.dir[0] ? sl_about_text(s, NULL) : NULL;
	enum sl_err err = text ? sl_log_dir_path(path, s->conf, SL_ABOUT_FILE, fail) : SL_OK;

	if (!err && text)
		err = sl_newfile_put(path, 0600, SL_FP_NONE, text, strlen(text), fail);
	free(text);
	return err;
}

/* Copies the thresholds that the run's earlier evaluations have found. */
static void recall_thresholds(const struct sl_setup *s, const json_t *then)
{
	const json_t *list = json_object_get(then, thresholds_key);
	const size_t n = (size_t)s->conf->model.classes;

	for (size_t i = 0; i < n && s->threshold && json_array_size(list) == n; i++)
		s->threshold[i] = json_number_value(json_array_get(list, i));
}

/* Whether the samples differ. With another data.train_limit or data.test_limit they may. */
static bool is_other(const json_t *a, const json_t *b)
{
	const char *then = json_string_value(json_object_get(a, "fingerprint"));
	const char *now = json_string_value(json_object_get(b, "fingerprint"));

	return then && now && strcmp(then, now) != 0 &&
	       json_integer_value(json_object_get(a, "limit")) == json_integer_value(json_object_get(b, "limit"));
}

static enum sl_err same_split(const struct sl_setup *s, const json_t *then, struct sl_fail *fail)
{
	json_t *was = json_object_get(then, "split"), *is = split_of(s);
	json_t *older = json_is_object(was) && !json_object_get(was, "by_class") ? json_copy(is) : NULL;
	char *text = sl_json_dump(was, JSON_COMPACT);
	enum sl_err err = SL_OK;

	if (older)
		json_object_del(older, "by_class");
	if (older && !json_equal(older, is) && json_equal(older, was))
		err = sl_fail_set(
			fail, SL_ERR_MISMATCH,
			"an older version began the run in '%.150s': its data.split did not divide each class by "
			"itself, so its evaluated samples could be in training now; end it with that version, or "
			"begin a new run with --fresh",
			s->conf->log.dir);
	else if (then && !json_equal(was ? was : json_null(), is))
		err = sl_fail_set(
			fail, SL_ERR_MISMATCH,
			"data.split is not that of the run in '%.150s', which is %.200s: its evaluated samples "
			"could be in training now; put it back, or begin a new run with --fresh",
			s->conf->log.dir, text ? text : "none");
	free(text);
	json_decref(older);
	json_decref(is);
	return err;
}

/* Up to rounding: a run of an older version added up the mean otherwise. */
static bool same_scale(const json_t *then, const json_t *now)
{
	const json_t *was = json_object_get(then, SL_SETUP_SCALE), *is = json_object_get(now, SL_SETUP_SCALE);
	bool same = !was == !is && json_array_size(was) == json_array_size(is);

	for (size_t i = 0; same && i < 3 * json_array_size(is); i++) {
		const double a = json_number_value(json_array_get(json_array_get(was, i / 3), i % 3));
		const double b = json_number_value(json_array_get(json_array_get(is, i / 3), i % 3));

		same = fabs(a - b) <= 1e-12 * (fabs(a) + fabs(b));
	}
	return same;
}

/* The key of the config that made other samples of the same data, or NULL. */
static const char *other_key(const json_t *then, const json_t *now)
{
	static const char *const key[][3] = {
		{"max_length", "data.max_length"}, {"tokenizer", "data.tokenizer"},
		{"text_columns", "data.columns"},  {"end", "data.end"},
		{"loss_on", "data.loss_on"},       {"spacing", "data.spacing", "volume"},
		{"axes", "data.axes", "volume"},   {"intensity", "data.intensity", "volume"},
		{"by", "data.intensity", "volume"}};

	for (size_t i = 0; i < sizeof key / sizeof key[0]; i++) {
		const char *of = key[i][2];
		const json_t *was = json_object_get(of ? json_object_get(then, of) : then, key[i][0]),
			     *is = json_object_get(of ? json_object_get(now, of) : now, key[i][0]);

		if (was && is && !json_equal(was, is))
			return key[i][1];
	}
	return NULL;
}

/* What the run's newest checkpoint says of its data, or its last state; NULL: nothing. */
static json_t *noted(const char *dir)
{
	static const char *const prefix[] = {SL_CHECKPOINT_CLIENT, SL_CHECKPOINT_DONE};
	char name[64], path[PATH_MAX];
	json_t *kept = NULL;

	for (int i = 0; i < 2 && !kept; i++) {
		uint64_t step = UINT64_MAX;
		char *text = NULL;

		if (!sl_checkpoint_older(dir, prefix[i], &step))
			continue;
		sl_checkpoint_name(name, sizeof name, prefix[i], step);
		if (snprintf(path, sizeof path, "%s/%s", dir, name) < PATH_MAX)
			text = sl_weights_note(path, SL_ABOUT_KEPT);
		kept = parse(text);
		free(text);
	}
	return kept;
}

/* Whether the folder has a checkpoint; else there is nothing to go on from, which is said later. */
static bool has_run(const char *dir)
{
	uint64_t step = UINT64_MAX, done = UINT64_MAX;

	return sl_checkpoint_older(dir, SL_CHECKPOINT_CLIENT, &step) ||
	       sl_checkpoint_older(dir, SL_CHECKPOINT_DONE, &done);
}

/* What the run in log.dir says of its data: its newest checkpoint and about.json. NULL: nothing. */
static json_t *said_of_run(const struct sl_conf_client *c)
{
	struct sl_setup kept = {.conf = c};
	json_t *noted_then = noted(c->log.dir), *then;

	sl_about_read(&kept, NULL);
	then = sl_about_parse(&kept);
	free(kept.about);
	if (!then)
		return noted_then;
	json_object_update(then, noted_then);
	json_decref(noted_then);
	return then;
}

enum sl_err sl_about_compare(const struct sl_setup *s, struct sl_fail *fail)
{
	json_t *now = sl_about_parse(s), *then = said_of_run(s->conf);
	const char *key;
	enum sl_err err = SL_OK;

	if (!then && has_run(s->conf->log.dir))
		sl_log(SL_LOG_WARN, "data-unknown",
		       "%.200s/" SL_ABOUT_FILE " cannot be read, so nothing says which data the run there began with",
		       s->conf->log.dir);
	key = other_key(then, now);
	err = same_split(s, then, fail);
	for (int split = 0; split < SL_SPLIT_COUNT && !err; split++) {
		const json_t *a = json_object_get(then, sl_about_split[split]),
			     *b = json_object_get(now, sl_about_split[split]);

		if (!is_other(a, b))
			continue;
		if (key)
			err = sl_fail_set(
				fail, SL_ERR_MISMATCH,
				"%s is not that of the run in '%.150s', so samples become other inputs: put it "
				"back, or begin a new run with --fresh",
				key, s->conf->log.dir);
		else
			err = sl_fail_set(
				fail, SL_ERR_MISMATCH,
				"the %s data of %.150s are not those that the run in '%.150s' began with: %lld samples "
				"then, %lld now, or other contents; put them back, or begin a new run with --fresh",
				sl_setup_part(s, (enum sl_split)split), s->conf->data.dir, s->conf->log.dir,
				(long long)json_integer_value(json_object_get(a, "samples")),
				(long long)json_integer_value(json_object_get(b, "samples")));
	}
	if (!err && then && !same_scale(then, now))
		err = sl_fail_set(
			fail, SL_ERR_MISMATCH,
			"data.scale_label, or the mean and deviation of the numbers, are not those of the run "
			"in '%.150s': put them back, or begin a new run with --fresh",
			s->conf->log.dir);
	if (!err)
		recall_thresholds(s, then);
	json_decref(then);
	json_decref(now);
	return err;
}
