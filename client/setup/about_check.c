/* The one door for all that reads trained weights (about.h). */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/setup/about.h"
#include "common/base/log.h"
#include "common/telemetry/json.h"

/* What is compared: what the weights' file says, and what config and data say now. */
struct sides {
	const struct sl_setup *s; /* whose data `now` describes */
	const json_t *then, *now;
	const char *whose; /* "the model", or the key that names its file */
	const char *path;  /* of a further run: the file, which data.like can name; else NULL */
};

static void warn_of_other(const struct sides *x, const char *key, const char *advice)
{
	const json_t *was = json_object_get(x->then, key), *is = json_object_get(x->now, key);
	char *a = sl_json_dump(was, JSON_ENCODE_ANY | JSON_COMPACT);
	char *b = sl_json_dump(is, JSON_ENCODE_ANY | JSON_COMPACT);

	if (!was != !is || (was && !json_equal(was, is)))
		sl_log(SL_LOG_WARN, "other-data", "%s was trained with %s %.300s, and this config has %.300s%s",
		       x->whose, key, a ? a : "of its own", b ? b : "none", advice);
	free(a);
	free(b);
}

/* The first element that differs; SIZE_MAX: none does. */
static size_t first_other(const json_t *a, const json_t *b)
{
	const size_t n = json_array_size(a), m = json_array_size(b);
	size_t i = 0;

	while (i < n && i < m && json_equal(json_array_get(a, i), json_array_get(b, i)))
		i++;
	return i < n || i < m ? i : SIZE_MAX;
}

static const char *text_of(const json_t *x, const char *none)
{
	return json_is_string(x) ? json_string_value(x) : none;
}

/* Compares classes, as far as both name them: one side may lack the last ones. A further run learns the others. */
static enum sl_err same_labels(const struct sides *x, struct sl_fail *fail)
{
	const json_t *was = json_object_get(x->then, "classes"), *is = json_object_get(x->now, "classes");
	const size_t i = was && is ? first_other(was, is) : SIZE_MAX;
	const char *task = sl_setup_task(x->s->conf)->name, *learned = text_of(json_object_get(x->then, "task"), task);

	if (strcmp(learned, task) != 0)
		return x->path ? SL_OK
			       : sl_fail_set(fail, SL_ERR_MISMATCH,
					     "the model learned %s (model.task), and this config says %s: put the task "
					     "back",
					     learned, task);
	if (i == SIZE_MAX || i == json_array_size(is) || (x->path && i == json_array_size(was)))
		return SL_OK;
	if (!x->path)
		return sl_fail_set(
			fail, SL_ERR_MISMATCH,
			"class %zu of the data is %.60s, and was %.60s when the model was trained, so its answers "
			"would count as other classes: put the training data back",
			i, text_of(json_array_get(is, i), "none"), text_of(json_array_get(was, i), "none"));
	sl_log(SL_LOG_WARN, "other-data",
	       "class %zu of the data is %.60s, and %s learned %.60s as that: its outputs stand for others until they "
	       "are "
	       "learned anew. Name the classes so that they have the model's order",
	       i, text_of(json_array_get(is, i), "none"), x->whose, text_of(json_array_get(was, i), "none"));
	return SL_OK;
}

static double of(const json_t *x, const char *key)
{
	return json_number_value(json_object_get(x, key));
}

/* Whether two columns become other features. Means and deviations of two samples of the same data differ a little. */
static bool is_other_column(const json_t *was, const json_t *is)
{
	static const double little = 0.1;
	const double deviation = of(was, "deviation");
	json_t *a = json_copy((json_t *)was), *b = json_copy((json_t *)is);
	bool other;

	for (int i = 0; i < 2; i++) {
		json_object_del(i ? a : b, "mean");
		json_object_del(i ? a : b, "deviation");
	}
	other = !json_equal(a, b) || fabs(of(was, "mean") - of(is, "mean")) > little * deviation ||
		fabs(deviation - of(is, "deviation")) > little * deviation;
	json_decref(a);
	json_decref(b);
	return other;
}

static void check_columns(const struct sides *x)
{
	const json_t *was = json_object_get(x->then, "columns"), *is = json_object_get(x->now, "columns");
	const size_t n = json_array_size(was), m = json_array_size(is);
	size_t i = 0;

	while (i < n && i < m && !is_other_column(json_array_get(was, i), json_array_get(is, i)))
		i++;
	if (!was || !is || (i == n && i == m))
		return;
	sl_log(SL_LOG_WARN, "other-columns",
	       "%s was trained with other columns, texts, means or deviations than these, or in another order, from "
	       "column %zu on, so its weights mistake them. data.like%s%.200s takes those of the model",
	       x->whose, i + 1, x->path ? ": " : "", x->path ? x->path : "");
}

/* Warns of weights that learned numbers by another scale: their outputs now stand for others. */
static void check_scale(const struct sides *x)
{
	const json_t *was = json_object_get(x->then, SL_SETUP_SCALE), *is = json_object_get(x->now, SL_SETUP_SCALE);
	const char *task = text_of(json_object_get(x->then, "task"), "");

	if (sl_setup_task(x->s->conf)->kind != SL_LEARN_NUMBER || strcmp(task, sl_setup_task(x->s->conf)->name) != 0)
		return;
	for (size_t k = 0; k < json_array_size(was) || k < json_array_size(is); k++) {
		const json_t *a = json_array_get(was, k), *b = json_array_get(is, k);
		const double mean[2] = {json_number_value(json_array_get(a, 0)),
					json_number_value(json_array_get(b, 0))};
		const double deviation[2] = {a ? json_number_value(json_array_get(a, 1)) : 1,
					     b ? json_number_value(json_array_get(b, 1)) : 1};

		if (fabs(mean[0] - mean[1]) <= 0 && fabs(deviation[0] - deviation[1]) <= 0)
			continue;
		sl_log(SL_LOG_WARN, "other-scale",
		       "%s predicts a number as output * %.6g + %.6g, and this run as output * %.6g + %.6g: its "
		       "predictions are others until it has learned them anew. Of a table, data.scale_label: true and "
		       "data.like: %.200s take the scale of the model",
		       x->whose, deviation[0], mean[0], deviation[1], mean[1], x->path);
		return;
	}
}

/* Whether an older version wrote the file: for one channel its Normalize has three numbers, and it has no Grayscale. */
static bool is_older_grey(const json_t *then)
{
	const char *first = text_of(json_array_get(json_object_get(then, "transforms"), 0), "");

	return json_object_get(then, "channels") && strcmp(first, "Grayscale()") != 0;
}

/* Compares how samples become inputs. A further run may be meant to learn by longer texts or another codec: it is told
 * of inputs that its weights mistake. */
static void check_inputs(const struct sides *x)
{
	static const char *const of_pictures[] = {"image", "channels", "bits", "exif", "window", "transforms"};
	static const struct {
		const char *key, *advice;
		bool further;
	} of_both[] = {{"tokenizer", "", true},
		       {"jpeg", "", false}, /* older files lack these */
		       {"volume", " (data.patch, data.spacing, data.axes, data.intensity, data.size)", true},
		       {"max_length", "", false},
		       {"text_columns", " (data.columns)", false},
		       {"end", " (data.end)", false},
		       {"loss_on", " (data.loss_on)", false},
		       {"network",
			": it computes otherwise with these weights. Compare model.name, model.form, insert, the files "
			"of model.huggingface or model.network, and with an insert the cut, with the training's",
			false},
		       {"lora_alpha", " (lora.alpha), by which adapters count", false},
		       {SL_ABOUT_CODEC, " for what enters and leaves the middle: it learned with that loss", false}};
	const bool pictures = json_object_get(x->then, "transforms") && json_object_get(x->now, "transforms");

	for (size_t i = 0; i < sizeof of_pictures / sizeof of_pictures[0]; i++)
		if (pictures && !is_older_grey(x->then))
			warn_of_other(x, of_pictures[i], "");
	for (size_t i = 0; i < sizeof of_both / sizeof of_both[0]; i++)
		if (json_object_get(x->then, of_both[i].key) && json_object_get(x->now, of_both[i].key) &&
		    (!x->path || of_both[i].further))
			warn_of_other(x, of_both[i].key, of_both[i].advice);
}

/* The door: compares all that both sides say, of what this member has. */
static enum sl_err compare(const struct sides *x, struct sl_fail *fail)
{
	const struct sl_conf_client *c = x->s->conf;
	enum sl_err err = sl_conf_lacks_labels(c) ? SL_OK : same_labels(x, fail);

	if (err)
		return err;
	if (!sl_conf_lacks_input(c)) {
		check_inputs(x);
		check_columns(x);
	}
	if (x->path && !c->also && !sl_conf_lacks_labels(c))
		check_scale(x);
	return SL_OK;
}

/* What a file says of a source, whose data are `now`: it may have been one of data.also then, or the only one. A new
 * reference, or NULL. */
static json_t *source_in(json_t *all, const struct sl_conf_client *c, const json_t *now)
{
	static const char *const key[] = {"transforms", "tokenizer", "columns"};
	json_t *also = json_object_get(all, SL_ABOUT_ALSO), *from = sl_about_source(all, c), *own;
	size_t k = 0, i;

	if (from != all || (c->also && also))
		return json_incref(from);
	while (k < sizeof key / sizeof key[0] && !json_object_get(now, key[k]))
		k++;
	own = json_copy(all);
	if (k < sizeof key / sizeof key[0] && !json_array_size(json_object_get(now, SL_ABOUT_ALSO)))
		json_array_foreach(also, i, from) if (json_object_get(from, key[k]) && !json_object_get(own, key[k]))
			json_object_update_missing(own, from);
	return own;
}

/* Warns of samples to evaluate that may have trained. */
static void check_samples(const struct sides *x, json_t *then, json_t *now)
{
	const struct sl_conf_client *c = x->s->conf;
	const json_t *train = json_object_get(then, sl_about_split[SL_SPLIT_TRAIN]), *was, *is;

	if (x->s->given || x->s->streams)
		return;
	sl_about_fingerprints(now, x->s);
	(void)sl_about_warn_of_same(then, now, x->s->set[SL_SPLIT_TEST].source->file != NULL);
	if (!sl_conf_splits(c) || !train)
		return;
	if (!json_object_get(then, "split"))
		json_object_set_new(then, "split", json_null());
	warn_of_other(x, "split", ": samples of its training may be among these");
	was = json_object_get(then, SL_ABOUT_ROWS);
	is = json_object_get(now, SL_ABOUT_ROWS);
	if (was && is && !json_equal(was, is))
		sl_log(SL_LOG_WARN, "other-rows",
		       "data.split divides the rows of data.also by their place, and they are not those of the "
		       "training: "
		       "samples of it may be among these. Put its files back, or name new ones without data.split");
}

/* Compares an evaluation's source with what the file says: `all`. */
static enum sl_err check_set(const struct sl_setup *s, json_t *all, struct sl_fail *fail)
{
	json_t *now = sl_about_set(s, &s->set[SL_SPLIT_TEST]), *then = source_in(all, s->conf, now);
	const struct sides x = {s, then, now, "the model", NULL};
	enum sl_err err = then ? compare(&x, fail) : SL_OK;

	if (!err && then)
		check_samples(&x, then, now);
	json_decref(then);
	json_decref(now);
	return err;
}

/* What the file says that gives a run its first weights, if it says anything; *key and `path` name it. */
static json_t *begun_with(const struct sl_conf_client *c, const char **key, char path[PATH_MAX])
{
	const char *const from[][3] = {{"lora.adapter", c->lora.adapter, "/adapter_model.safetensors"},
				       {"model.weights", c->model.weights, ""},
				       {"model.network", c->model.network, ""},
				       {"model.huggingface", c->model.huggingface, "/model.safetensors"}};

	for (size_t i = 0; i < sizeof from / sizeof from[0]; i++)
		if (from[i][1][0]) {
			*key = from[i][0];
			return snprintf(path, PATH_MAX, "%s%s", from[i][1], from[i][2]) < PATH_MAX ? sl_about_note(path)
												   : NULL;
		}
	return NULL;
}

void sl_about_warn_of_columns(const struct sl_conf_client *c, const char *path)
{
	if (c->data.kind != SL_DATA_CSV || sl_conf_lacks_input(c) || c->data.like[0] || access(path, R_OK) != 0)
		return;
	sl_log(SL_LOG_WARN, "columns-measured",
	       "%.300s does not say which columns, means and deviations it learned: those of the training data count. "
	       "If it learned others, data.like names a file that says them",
	       path);
}

void sl_about_check_begun(const struct sl_setup *s)
{
	char path[PATH_MAX];
	const char *key;
	json_t *all = begun_with(s->conf, &key, path), *now = all ? sl_about_parse(s) : NULL;
	struct sides x = {s, source_in(all, s->conf, now), now, key, path};
	struct sl_fail never;

	if (!all && s->conf->model.weights[0] && !s->conf->lora.adapter[0]) /* a file of a network may be untrained */
		sl_about_warn_of_columns(s->conf, s->conf->model.weights);
	if (all) {
		sl_about_check_end(path);
		(void)!compare(&x, &never);
	}
	json_decref((json_t *)x.then);
	for (int k = 0; all && k < s->n_features && s->further; k++) {
		x.s = &s->further[k];
		x.now = json_array_get(json_object_get(now, SL_ABOUT_ALSO), (size_t)k);
		x.then = source_in(all, x.s->conf, x.now);
		(void)!compare(&x, &never);
		json_decref((json_t *)x.then);
	}
	json_decref(now);
	json_decref(all);
}

enum sl_err sl_about_check(const struct sl_setup *s, struct sl_fail *fail)
{
	char path[PATH_MAX];
	const char *key;
	json_t *all = s->weights_file ? sl_about_parse(s) : begun_with(s->conf, &key, path);
	enum sl_err err = all ? check_set(s, all, fail) : SL_OK;

	for (int k = 0; all && k < s->n_features && !err; k++)
		err = check_set(&s->features[k], all, fail);
	json_decref(all);
	return err;
}

/* Compares what `now` has, alone. Drops both. */
static void check_part(const struct sl_setup *s, json_t *then, json_t *now)
{
	check_inputs(&(struct sides){s, then, now, "the model", NULL});
	json_decref(then);
	json_decref(now);
}

void sl_about_check_network(const struct sl_setup *s)
{
	json_t *now = json_object();

	sl_about_network(now, s);
	check_part(s, sl_about_parse(s), now);
}

void sl_about_check_tokenizer(const struct sl_setup *s, uint64_t tokenizer)
{
	json_t *now = json_object();

	sl_about_tokenizer(now, tokenizer);
	check_part(s, sl_about_parse(s), now);
}
