/* data.scale_label: numbers to be predicted are learned by their mean and deviation in the training set. */
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/setup/about.h"
#include "common/base/log.h"
#include "common/base/spread.h"

/* Outside of this range of deviations, usual learning rates diverge or hardly learn. */
static const double usual_least = 0.1, usual_most = 10;

/* Measures target k of all samples, in two passes. */
static struct sl_label_scale measure(const struct sl_set *set, int64_t k)
{
	const double n = (double)set->count;
	double sum = 0, squares = 0, mean;

	for (int64_t i = 0; i < set->count; i++)
		sum += (double)set->source->targets(set, i)[k];
	mean = sum / n;
	for (int64_t i = 0; i < set->count; i++) {
		const double d = (double)set->source->targets(set, i)[k] - mean;

		squares += d * d;
	}
	return (struct sl_label_scale){mean, sl_spread(squares / n, mean, set->count), 0};
}

static const char *name_of(const struct sl_set *set, int64_t k)
{
	const bool named = set->source->class_name && k < sl_set_targets(set);

	return (named ? set->source->class_name(set, (int)k) : NULL) ?: "the label";
}

static void warn_of_size(const struct sl_set *set, int64_t k, const struct sl_label_scale *of)
{
	sl_log(SL_LOG_WARN, "label-size",
	       "the numbers in %.60s have mean %.3g and deviation %.3g, far from 1: training may end in NaN or learn "
	       "little. Write data.scale_label: true, which learns them scaled and predicts in their own units",
	       name_of(set, k), of->mean, of->deviation);
}

/* Takes the scale in `about`, which a model or another run says of its data; none, if it has none. */
static enum sl_err take(struct sl_setup *s, const json_t *about, struct sl_fail *fail)
{
	const json_t *list = json_object_get(about, SL_SETUP_SCALE);
	const size_t targets = (size_t)s->conf->model.classes;

	s->scale = list ? calloc(targets, sizeof *s->scale) : NULL;
	if (list && !s->scale)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the scale of numbers");
	for (size_t k = 0; s->scale && k < targets; k++) {
		const json_t *of = json_array_get(list, k);

		s->scale[k] = (struct sl_label_scale){json_number_value(json_array_get(of, 0)),
						      json_number_value(json_array_get(of, 1)),
						      json_number_value(json_array_get(of, 2))};
		if (!(s->scale[k].deviation > 0) || json_array_size(list) != targets)
			return sl_fail_set(fail, SL_ERR_DATA,
					   "the model's " SL_SETUP_SCALE
					   " is not a mean and a deviation for each number");
	}
	return SL_OK;
}

enum sl_err sl_setup_centre(struct sl_setup *s, struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	const bool of_labels = sl_setup_task(c)->kind == SL_LEARN_NUMBER && sl_conf_learns_labels(c);
	const bool learns = !s->about && s->reads == SL_READS_ALL && c->data.scale_label == SL_LABEL_SCALED &&
			    !sl_conf_lacks_labels(c);
	json_t *about = NULL, *list;
	enum sl_err err = SL_OK;

	if (s->centred || !of_labels)
		return SL_OK;
	if (learns && c->data.like[0])
		err = sl_conf_client_blame(c, "data.like", sl_about_file(&about, c->data.like, fail), fail);
	else if (s->about)
		about = json_loads(s->about, 0, NULL);
	list = json_object_get(about, SL_SETUP_SCALE);
	s->centred = learns && !list ? SL_CENTRE_CHOSEN : SL_CENTRE_KNOWN;
	for (size_t k = 0; k < json_array_size(list) && k < SL_CONF_LABELS_MAX; k++)
		s->centre[k] = json_number_value(json_array_get(json_array_get(list, k), 2));
	json_decref(about);
	return err;
}

/* Takes the scale that the model was trained with. */
static enum sl_err recall(struct sl_setup *s, struct sl_fail *fail)
{
	json_t *about = s->about ? json_loads(s->about, 0, NULL) : NULL;
	const enum sl_err err = take(s, about, fail);

	json_decref(about);
	return err;
}

/* Takes the scale of data.like, if its numbers have the same names. */
static enum sl_err take_like(struct sl_setup *s, struct sl_fail *fail)
{
	const struct sl_set *set = &s->set[SL_SPLIT_TRAIN];
	json_t *about = NULL;
	enum sl_err err = s->conf->data.like[0] ? sl_about_file(&about, s->conf->data.like, fail) : SL_OK;

	if (!err)
		err = take(s, about, fail);
	for (int k = 0; !err && s->scale && set->source->class_name && k < sl_set_targets(set); k++) {
		const char *is = set->source->class_name(set, k);
		const char *was = json_string_value(json_array_get(json_object_get(about, "classes"), (size_t)k));

		if (was && is && strcmp(was, is) != 0)
			err = sl_fail_set(fail, SL_ERR_DATA,
					  "its number %d is %.60s, and data.label names %.60s there: the scale of one "
					  "does not suit the other",
					  k + 1, was, is);
	}
	json_decref(about);
	return sl_conf_client_blame(s->conf, "data.like", err, fail);
}

/* Notes numbers that have lost their differences: they are kept in floats. */
static void note_rounding(struct sl_setup *s, int64_t k, const struct sl_label_scale *of)
{
	const double step = fabs(of->mean) * (double)FLT_EPSILON;

	if (step > of->deviation / 100)
		s->rounding[k] = step;
}

static void note_all(struct sl_setup *s, const struct sl_set *set)
{
	for (int64_t k = 0; k < sl_set_targets(set); k++) {
		const struct sl_label_scale of = measure(set, k);

		note_rounding(s, k, &of);
	}
}

static void warn_of_rounding(const struct sl_setup *s, const struct sl_set *set)
{
	int n = 0;

	for (int k = 0; k < SL_CONF_LABELS_MAX; k++)
		if (s->rounding[k] > 0 && n++ < SL_CONF_LIST_MAX)
			sl_log(SL_LOG_WARN, "label-rounded",
			       "floats of 32 bits hold the numbers in %.60s in steps of %.2g: what is learned, "
			       "predicted and measured is rounded to that. Train anew with data.scale_label: true",
			       name_of(set, k), s->rounding[k]);
	if (n > SL_CONF_LIST_MAX)
		sl_log(SL_LOG_WARN, "label-rounded", "the same holds for %d more columns", n - SL_CONF_LIST_MAX);
}

/* Finds the rounding that the model notes; for a model of an older version, that of the numbers to evaluate. */
static void recall_rounding(struct sl_setup *s)
{
	const struct sl_set *set = &s->set[SL_SPLIT_TEST];
	const bool known = !s->given && !s->streams && !sl_conf_lacks_labels(s->conf) && set->source->targets;
	json_t *about = s->about ? json_loads(s->about, 0, NULL) : NULL;
	const json_t *list = json_object_get(about, SL_SETUP_ROUNDING);

	if (!list && known)
		note_all(s, set);
	for (int k = 0; k < SL_CONF_LABELS_MAX && list; k++)
		s->rounding[k] = json_number_value(json_array_get(list, (size_t)k));
	json_decref(about);
}

static enum sl_err measure_all(struct sl_setup *s, struct sl_fail *fail)
{
	const struct sl_set *set = &s->set[SL_SPLIT_TRAIN];
	const int64_t targets = sl_set_targets(set);
	const bool scales = s->conf->data.scale_label == SL_LABEL_SCALED;
	const enum sl_err err = scales ? take_like(s, fail) : SL_OK;
	bool warned = scales;

	if (s->scale)
		note_all(s, set);
	if (err || s->scale)
		return err;
	s->scale = calloc((size_t)targets, sizeof *s->scale);
	if (!s->scale)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the scale of numbers");
	for (int64_t k = 0; k < targets; k++) {
		s->scale[k] = measure(set, k);
		note_rounding(s, k, &s->scale[k]);
		s->scale[k].centre = s->centre[k];
		s->scale[k].mean += s->centre[k];
		if (warned || (s->scale[k].deviation >= usual_least && s->scale[k].deviation <= usual_most))
			continue;
		warn_of_size(set, k, &s->scale[k]);
		warned = true;
	}
	if (!scales) {
		free(s->scale);
		s->scale = NULL;
	}
	return SL_OK;
}

enum sl_err sl_setup_label_scale(struct sl_setup *s, bool train, struct sl_fail *fail)
{
	const struct sl_set *set = &s->set[SL_SPLIT_TRAIN];
	enum sl_err err;

	if (s->scale || (train && sl_conf_lacks_labels(s->conf)) || sl_setup_task(s->conf)->kind != SL_LEARN_NUMBER ||
	    !sl_conf_learns_labels(s->conf))
		return SL_OK;
	if (!train) {
		err = recall(s, fail);
		if (!err)
			recall_rounding(s);
	} else {
		err = set->source->targets ? measure_all(s, fail) : SL_OK;
	}
	if (!err)
		warn_of_rounding(s, train ? set : &s->set[SL_SPLIT_TEST]);
	return err;
}
