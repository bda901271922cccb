/* How many samples each class or label has: train.class_weights, and classes that no sample has. */
#include <stdlib.h>
#include <string.h>

#include "client/data/class_name.h"
#include "client/setup/setup.h"
#include "common/base/log.h"

enum { UNEQUAL = 5 };

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

/* A label counts where a sample has it. */
static void count_labels(const struct sl_set *set, int64_t *count)
{
	for (int64_t i = 0; i < set->count; i++) {
		const float *has = set->source->targets(set, i);

		for (int64_t k = 0; k < sl_set_targets(set); k++)
			count[k] += has[k] > 0.5f;
	}
}

static enum sl_err count_any(const struct sl_set *set, bool labels, int64_t *count, struct sl_fail *fail)
{
	if (!labels)
		return count_classes(set, count, fail);
	count_labels(set, count);
	return SL_OK;
}

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to count classes");
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
	enum sl_err err = count ? SL_OK : no_memory(fail);

	if (!err)
		err = sl_setup_split(s, SL_SPLIT_TRAIN, fail);
	if (!err)
		err = count_any(set, labels, count, fail);
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

/* ---- classes that no sample has */

/* Warns of the classes or labels without a sample: `missing` of `classes`, `first` before the others. */
static void warn_missing(const struct sl_setup *s, enum sl_split split, int classes, int missing, int first)
{
	const struct sl_conf_client *c = s->conf;
	const bool train = split == SL_SPLIT_TRAIN, labels = sl_setup_task(c)->kind == SL_LEARN_LABELS;
	const bool asked = train ? c->data.train_limit : c->data.test_limit;
	const char *part = train ? "training" : "the evaluation";
	char name[SL_CLASS_NAME_BYTES];

	sl_log(asked ? SL_LOG_INFO : SL_LOG_WARN, "class-missing", "%s \"%.60s\"%s: no sample of %s%s has it%s, so %s",
	       labels ? "label" : "class", sl_class_name(&s->set[split], first, name),
	       missing > 1 ? ", and others" : "", part, c->agreed.share.group[0] ? " at this member" : "",
	       sl_conf_splits(c) ? " (data.split gives them all to other parts: another data.split.seed may not)" : "",
	       train ? "it is not learned here" : "the figures say nothing of it");
	if (missing > 1)
		sl_log(SL_LOG_INFO, "classes-missing", "%s has samples of %d of %d %s", part, classes - missing,
		       classes, labels ? "labels" : "classes");
}

/* Whether the smallest class, *least, has less than 1 / UNEQUAL of the samples of *most: accuracy says little then. */
static bool are_unequal(const int64_t *count, int classes, int *least, int *most)
{
	*least = -1;
	*most = 0;
	for (int k = 0; k < classes; k++) {
		*most = count[k] > count[*most] ? k : *most;
		if (count[k] && (*least < 0 || count[k] < count[*least]))
			*least = k;
	}
	return *least >= 0 && count[*least] * UNEQUAL < count[*most];
}

bool sl_setup_is_unequal(const struct sl_set *set)
{
	int64_t *count = sl_set_has_classes(set) ? calloc((size_t)set->classes, sizeof *count) : NULL;
	struct sl_fail never;
	int least, most;
	const bool unequal =
		count && count_classes(set, count, &never) == SL_OK && are_unequal(count, set->classes, &least, &most);

	free(count);
	return unequal;
}

static void warn_unequal(const struct sl_setup *s, const struct sl_set *set, const int64_t *count, int classes)
{
	const struct sl_conf_client *c = s->conf;
	const struct sl_conf_list *weights = &c->train.class_weights;
	char name[2][SL_CLASS_NAME_BYTES];
	int least, most;

	if (!are_unequal(count, classes, &least, &most) || c->agreed.share.group[0] ||
	    c->data.sampling == SL_SAMPLING_BALANCED || (weights->n && strcmp(weights->item[0], "none") != 0))
		return;
	sl_log(SL_LOG_WARN, "unequal-classes",
	       "of %lld training samples %lld are of class \"%.60s\", and %lld of \"%.60s\", so accuracy says little: "
	       "data.sampling: balanced or train.class_weights: balanced teach small classes, and train.metrics: "
	       "[balanced_accuracy, auc] judge them",
	       (long long)set->count, (long long)count[least], sl_class_name(set, least, name[0]),
	       (long long)count[most], sl_class_name(set, most, name[1]));
}

int sl_setup_majority(const struct sl_setup *s, double *share)
{
	const struct sl_set *set = &s->set[SL_SPLIT_TEST];
	const bool known = sl_set_has_classes(set) && set->count && !s->given && !s->streams &&
			   sl_setup_task(s->conf)->kind == SL_LEARN_CLASSES && !sl_conf_lacks_labels(s->conf);
	int64_t *count = known ? calloc((size_t)set->classes, sizeof *count) : NULL;
	struct sl_fail never;
	int most = -1;

	if (count && count_classes(set, count, &never) == SL_OK)
		for (int k = 0; k < set->classes; k++)
			most = most < 0 || count[k] > count[most] ? k : most;
	if (most >= 0)
		*share = (double)count[most] / (double)set->count;
	free(count);
	return most;
}

enum sl_err sl_setup_check_classes(const struct sl_setup *s, enum sl_split split, struct sl_fail *fail)
{
	const struct sl_set *set = &s->set[split];
	const bool labels = sl_setup_task(s->conf)->kind == SL_LEARN_LABELS && set->source->targets;
	const int classes = labels ? (int)sl_set_targets(set) : sl_set_has_classes(set) ? set->classes : 0;
	int64_t *count;
	int missing = 0, first = 0;
	enum sl_err err;

	if (!classes || s->given || s->streams || sl_conf_lacks_labels(s->conf) ||
	    sl_setup_task(s->conf)->kind > SL_LEARN_LABELS)
		return SL_OK;
	count = calloc((size_t)classes, sizeof *count);
	err = count ? count_any(set, labels, count, fail) : no_memory(fail);
	for (int k = classes - 1; k >= 0 && !err; k--) {
		missing += !count[k];
		first = count[k] ? first : k;
	}
	if (!err && split == SL_SPLIT_TRAIN && !labels)
		warn_unequal(s, set, count, classes);
	free(count);
	if (err || !missing)
		return err;
	if (split == SL_SPLIT_TRAIN && !labels && missing == classes - 1 && !s->conf->agreed.share.group[0]) {
		sl_fail_set(fail, SL_ERR_DATA,
			    "all samples of training have the same class: a classifier needs two or more%s",
			    sl_conf_splits(s->conf) ? "; another seed divides them otherwise" : "");
		return sl_conf_client_blame(s->conf, sl_conf_splits(s->conf) ? "data.split.seed" : "data.dir",
					    SL_ERR_DATA, fail);
	}
	warn_missing(s, split, classes, missing, first);
	return SL_OK;
}
