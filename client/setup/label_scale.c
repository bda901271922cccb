/* data.scale_label: numbers to be predicted are learned by their mean and deviation in the training set. */
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/model/weights_file.h"
#include "client/persist/model_file.h"
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
	return (struct sl_label_scale){mean, sl_spread(squares / n, mean, set->count)};
}

static void warn_of_size(const struct sl_set *set, int64_t k, const struct sl_label_scale *of)
{
	const char *name = set->source->class_name ? set->source->class_name(set, (int)k) : NULL;

	sl_log(SL_LOG_WARN, "label-size",
	       "the numbers in %.60s have mean %.3g and deviation %.3g, far from 1: training may end in NaN or learn "
	       "little. Write data.scale_label: true, which learns them scaled and predicts in their own units",
	       name ? name : "the label", of->mean, of->deviation);
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

		s->scale[k].mean = json_number_value(json_array_get(of, 0));
		s->scale[k].deviation = json_number_value(json_array_get(of, 1));
		if (!(s->scale[k].deviation > 0) || json_array_size(list) != targets)
			return sl_fail_set(fail, SL_ERR_DATA,
					   "the model's " SL_SETUP_SCALE
					   " is not a mean and a deviation for each number");
	}
	return SL_OK;
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

/* Warns of numbers that have lost their differences: they are kept in floats. */
static void warn_of_rounding(const struct sl_set *set, int64_t k, const struct sl_label_scale *of)
{
	const char *name = set->source->class_name ? set->source->class_name(set, (int)k) : NULL;
	const double step = fabs(of->mean) * (double)FLT_EPSILON;

	if (step > of->deviation / 100)
		sl_log(SL_LOG_WARN, "label-rounded",
		       "the numbers in %.60s are about %.6g, where floats of 32 bits differ by %.2g: what is learned, "
		       "predicted and measured is rounded to that. Subtract a constant from the column",
		       name ? name : "the label", of->mean, step);
}

static enum sl_err measure_all(struct sl_setup *s, struct sl_fail *fail)
{
	const struct sl_set *set = &s->set[SL_SPLIT_TRAIN];
	const int64_t targets = sl_set_targets(set);
	const bool scales = s->conf->data.scale_label == SL_LABEL_SCALED;
	const enum sl_err err = scales ? take_like(s, fail) : SL_OK;
	bool warned = scales;

	if (err || s->scale)
		return err;
	s->scale = calloc((size_t)targets, sizeof *s->scale);
	if (!s->scale)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the scale of numbers");
	for (int64_t k = 0; k < targets; k++) {
		s->scale[k] = measure(set, k);
		warn_of_rounding(set, k, &s->scale[k]);
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

/* Warns if model.weights learned these numbers by another scale: its outputs now stand for others. */
static void check_weights(const struct sl_setup *s)
{
	static const struct sl_label_scale plain = {0, 1};
	const char *path = s->conf->model.weights;
	struct sl_setup then = {.conf = s->conf, .about = path[0] ? sl_weights_note(path, SL_MODEL_DATA) : NULL};
	json_t *about = sl_about_parse(&then);
	const char *task = json_string_value(json_object_get(about, "task"));
	struct sl_fail why;

	if (!s->conf->also && task && strcmp(task, sl_setup_task(s->conf)->name) == 0 &&
	    take(&then, about, &why) == SL_OK)
		for (int k = 0; k < s->conf->model.classes; k++) {
			const struct sl_label_scale *was = then.scale ? &then.scale[k] : &plain;
			const struct sl_label_scale *is = s->scale ? &s->scale[k] : &plain;

			if (was->mean == is->mean && was->deviation == is->deviation)
				continue;
			sl_log(SL_LOG_WARN, "other-scale",
			       "model.weights predicts a number as output * %.6g + %.6g, and this run as output * %.6g "
			       "+ %.6g: its predictions are others until it has learned them anew. Of a table, "
			       "data.scale_label: true and data.like: %.200s take the scale of the model",
			       was->deviation, was->mean, is->deviation, is->mean, path);
			break;
		}
	json_decref(about);
	free(then.scale);
	free(then.about);
}

enum sl_err sl_setup_label_scale(struct sl_setup *s, bool train, struct sl_fail *fail)
{
	const struct sl_set *set = &s->set[SL_SPLIT_TRAIN];
	enum sl_err err;

	if (s->scale || (train && sl_conf_lacks_labels(s->conf)) || sl_setup_task(s->conf)->kind != SL_LEARN_NUMBER ||
	    !sl_conf_learns_labels(s->conf))
		return SL_OK;
	if (!train)
		return recall(s, fail);
	err = set->source->targets ? measure_all(s, fail) : SL_OK;
	if (!err)
		check_weights(s);
	return err;
}
