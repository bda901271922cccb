/* train.class_weights: the weight of each class or label in the training loss. */
#include <stdlib.h>
#include <string.h>

#include "client/setup/setup.h"

/* Counts the samples of each class: count [classes]. */
static enum sl_err count_classes(const struct sl_set *set, int64_t *count, struct sl_fail *fail)
{
	struct sl_room room = {0};
	enum sl_err err = SL_OK;

	for (int64_t i = 0; i < set->count && !err; i++) {
		int32_t label = -1;

		err = sl_set_label(set, i, &room, &label, fail);
		if (!err && label >= 0 && label < set->classes)
			count[label]++;
	}
	sl_room_close(&room);
	return err;
}

static void count_labels(const struct sl_set *set, int64_t *count)
{
	for (int64_t i = 0; i < set->count; i++) {
		const float *has = set->source->targets(set, i);

		for (int64_t k = 0; k < sl_set_targets(set); k++)
			count[k] += has[k] > 0.5f;
	}
}

/* A class has weight n / (classes that occur · samples of the class), as sklearn's "balanced". A label has samples
 * without it / samples with it, as for torch's pos_weight. One that no sample has, or every sample, has weight 1. */
static void balance(float *weight, const int64_t *count, int classes, int64_t n, bool labels)
{
	int occur = 0;

	for (int k = 0; k < classes; k++)
		occur += count[k] > 0;
	for (int k = 0; k < classes; k++) {
		const double of = (double)count[k], rest = labels ? (double)n - of : (double)n / occur;

		weight[k] = count[k] && rest > 0 ? (float)(rest / of) : 1;
	}
}

static enum sl_err balance_set(struct sl_setup *s, struct sl_fail *fail)
{
	const struct sl_set *set = &s->set[SL_SPLIT_TRAIN];
	const int classes = s->conf->model.classes;
	const bool labels = sl_setup_task(s->conf)->kind == SL_LEARN_LABELS;
	int64_t *count = calloc((size_t)classes, sizeof *count);
	enum sl_err err = count ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the weights of classes");

	if (!err)
		err = sl_setup_split(s, SL_SPLIT_TRAIN, fail);
	if (!err && labels)
		count_labels(set, count);
	else if (!err)
		err = count_classes(set, count, fail);
	if (!err)
		balance(s->class_weight, count, classes, set->count, labels);
	free(count);
	return err;
}

enum sl_err sl_setup_class_weights(struct sl_setup *s, struct sl_fail *fail)
{
	const struct sl_conf_list *asked = &s->conf->train.class_weights;
	const int classes = s->conf->model.classes;

	if (!asked->n || strcmp(asked->item[0], "none") == 0 || s->class_weight || !s->plan)
		return SL_OK;
	s->class_weight = calloc((size_t)classes, sizeof *s->class_weight);
	if (!s->class_weight)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the weights of classes");
	if (strcmp(asked->item[0], "balanced") == 0)
		return balance_set(s, fail);
	for (int k = 0; k < classes && k < asked->n; k++)
		s->class_weight[k] = strtof(asked->item[k], NULL);
	return SL_OK;
}
