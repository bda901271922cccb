/* data.scale_label: numbers to be predicted are learned by their mean and deviation in the training set. */
#include <math.h>
#include <stdlib.h>

#include <jansson.h>

#include "client/setup/setup.h"
#include "common/base/log.h"

/* Outside of this range of deviations, usual learning rates diverge or hardly learn. */
static const double usual_least = 0.1, usual_most = 10;

/* Measures target k of all samples, in two passes. The deviation of equal numbers counts as 1. */
static struct sl_label_scale measure(const struct sl_set *set, int64_t k)
{
	struct sl_label_scale of = {0};
	double squares = 0;

	for (int64_t i = 0; i < set->count; i++)
		of.mean += (double)set->source->targets(set, i)[k] / (double)set->count;
	for (int64_t i = 0; i < set->count; i++) {
		const double d = (double)set->source->targets(set, i)[k] - of.mean;

		squares += d * d;
	}
	of.deviation = squares > 0 ? sqrt(squares / (double)set->count) : 1;
	return of;
}

static void warn_of_size(const struct sl_set *set, int64_t k, const struct sl_label_scale *of)
{
	const char *name = set->source->class_name ? set->source->class_name(set, (int)k) : NULL;

	sl_log(SL_LOG_WARN, "label-size",
	       "the numbers in %.60s have mean %.3g and deviation %.3g, far from 1: training may end in NaN or learn "
	       "little. Write data.scale_label: true, which learns them scaled and predicts in their own units",
	       name ? name : "the label", of->mean, of->deviation);
}

static enum sl_err measure_all(struct sl_setup *s, struct sl_fail *fail)
{
	const struct sl_set *set = &s->set[SL_SPLIT_TRAIN];
	const int64_t targets = sl_set_targets(set);
	const bool scales = s->conf->data.scale_label == SL_LABEL_SCALED;
	bool warned = scales;

	s->scale = calloc((size_t)targets, sizeof *s->scale);
	if (!s->scale)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the scale of numbers");
	for (int64_t k = 0; k < targets; k++) {
		s->scale[k] = measure(set, k);
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

/* Takes the scale that the model was trained with. */
static enum sl_err recall(struct sl_setup *s, struct sl_fail *fail)
{
	json_t *about = s->about ? json_loads(s->about, 0, NULL) : NULL;
	const json_t *list = json_object_get(about, SL_SETUP_SCALE);
	const size_t targets = (size_t)s->conf->model.classes;
	enum sl_err err = SL_OK;

	if (list)
		s->scale = calloc(targets, sizeof *s->scale);
	for (size_t k = 0; s->scale && k < targets && !err; k++) {
		const json_t *of = json_array_get(list, k);

		s->scale[k].mean = json_number_value(json_array_get(of, 0));
		s->scale[k].deviation = json_number_value(json_array_get(of, 1));
		if (!(s->scale[k].deviation > 0) || json_array_size(list) != targets)
			err = sl_fail_set(fail, SL_ERR_DATA,
					  "the model's " SL_SETUP_SCALE
					  " is not a mean and a deviation for each number");
	}
	if (list && !s->scale)
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the scale of numbers");
	json_decref(about);
	return err;
}

enum sl_err sl_setup_label_scale(struct sl_setup *s, bool train, struct sl_fail *fail)
{
	const struct sl_set *set = &s->set[SL_SPLIT_TRAIN];

	if (s->scale || sl_setup_task(s->conf)->kind != SL_LEARN_NUMBER || !sl_conf_learns_labels(s->conf))
		return SL_OK;
	if (!train)
		return recall(s, fail);
	return set->source->targets ? measure_all(s, fail) : SL_OK;
}
