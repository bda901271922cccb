/* Checks what a network learns (model.task, model.head), and the keys that go with it. */
#include <stdio.h>
#include <string.h>

#include "common/conf/check.h"
#include "common/conf/check_keys.h"

/* A network with one class predicts a number. */
static bool has_numbers(const struct sl_conf_client *c)
{
	return c->model.task == SL_CONF_NUMBERS || (c->model.task == SL_CONF_CLASSES && c->model.classes == 1);
}

static bool is_of_numbers(enum sl_conf_loss loss)
{
	return loss >= SL_CONF_MSE && loss <= SL_CONF_HUBER;
}

/* Checks what a language model excludes. */
static const char *check_head(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	const char *what = c->model.head == SL_CONF_MASKED_LM ? "a masked" : "a causal";

	if (c->model.head == SL_CONF_CLASSIFIER)
		return NULL;
	if (!sl_conf_learns_labels(c))
		return sl_conf_say(why, "train.loss", "%s language model has the loss of its labels alone", what);
	if (c->data.pack == SL_CONF_PACK_JOIN && c->data.columns.n > 1 && c->data.loss_on == SL_CONF_LOSS_COMPLETION)
		return sl_conf_say(why, "data.pack",
				   "join makes rows of several texts, which have no prompt: give data.loss_on: all");
	return NULL;
}

bool sl_conf_weights_fit(const struct sl_conf_client *c)
{
	const struct sl_conf_list *w = &c->train.class_weights;
	const bool word = w->n == 1 && strspn(w->item[0], "0123456789.eE+-") != strlen(w->item[0]);

	return w->n < 1 || word || w->n == c->model.classes;
}

/* Checks train.class_weights: the loss must have classes, and this client must know all of their weights. */
static const char *check_weights(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	const struct sl_conf_list *w = &c->train.class_weights;
	const bool word = w->n == 1 && strspn(w->item[0], "0123456789.eE+-") != strlen(w->item[0]);

	if (w->n < 1 || (word && strcmp(w->item[0], "none") == 0))
		return NULL;
	for (int i = 0; i < w->n && w->n > 1; i++)
		if (strcmp(w->item[i], "none") == 0 || strcmp(w->item[i], "balanced") == 0)
			snprintf(why, SL_CONF_WHY, "%s stands alone, and not in a list", w->item[i]);
	if (!why[0] && !c->model.network[0] && !sl_conf_weights_fit(c)) /* else sl_setup_sizes, which reads the file */
		snprintf(why, SL_CONF_WHY, "needs a number for each of the %d classes or labels, got %d",
			 c->model.classes, w->n);
	if (!why[0] && (!sl_conf_learns_labels(c) || c->model.head != SL_CONF_CLASSIFIER || has_numbers(c)))
		snprintf(why, SL_CONF_WHY, "belongs to classes and several labels; leave this key out");
	if (!why[0] && c->train.mixup > 0)
		snprintf(why, SL_CONF_WHY, "is not possible with train.mixup, whose rows have two classes");
	if (!why[0] && word && c->agreed.share.group[0])
		snprintf(why, SL_CONF_WHY,
			 "would be other weights for each member of the group: give all of them the same list");
	return why[0] ? "train.class_weights" : NULL;
}

/* Checks what a class for each pixel needs. */
static const char *check_pixels(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	const bool balanced = c->train.class_weights.n && strcmp(c->train.class_weights.item[0], "balanced") == 0;
	const bool weighted = c->train.class_weights.n && strcmp(c->train.class_weights.item[0], "none") != 0;
	const struct {
		bool bad;
		const char *key, *why;
	} rule[] = {
		{c->data.kind != SL_DATA_IMAGES && c->data.kind != SL_DATA_VOLUMES && !sl_conf_lacks_labels(c),
		 "model.task", "pixels are of data.kind: images and volumes"},
		{!c->model.network[0], "model.task",
		 "a class for each pixel needs a network that gives one: name its file in "
		 "model.network"},
		{!sl_conf_learns_labels(c) || is_of_numbers(c->train.loss), "train.loss",
		 "a class for each pixel has the loss of its masks alone: labels, dice or dice_ce, or these with "
		 "foreground_ in front"},
		{weighted && (c->train.loss == SL_CONF_DICE || c->train.loss == SL_CONF_FOREGROUND_DICE),
		 "train.class_weights", "they count in cross-entropy: give train.loss: dice_ce or labels"},
		{c->agreed.share.group[0] && c->agreed.share.mode == SL_SHARE_SYNC, "share.mode",
		 "members of a sync step do not know how many pixels of the others count: give serial or rounds"},
		{strcmp(c->data.partition, "by_label") == 0 || strncmp(c->data.partition, "dirichlet", 9) == 0,
		 "data.partition", "a mask has several classes, so no label divides samples: give iid or files"},
		{c->data.sampling == SL_SAMPLING_BALANCED, "data.sampling",
		 "a picture has pixels of several classes: leave this key out"},
		{c->data.exif, "data.exif",
		 "a mask has no such note, so it would not turn with its picture: turn both before"},
		{balanced, "train.class_weights", "of pixels they are a list with a number for each class"},
	};

	for (size_t i = 0; i < sizeof rule / sizeof rule[0] && c->model.task == SL_CONF_PIXELS; i++)
		if (rule[i].bad)
			return sl_conf_say(why, rule[i].key, "%s", rule[i].why);
	return NULL;
}

/* A name that stands twice in data.label; NULL: none does. */
static const char *label_twice(const struct sl_conf_list *label)
{
	for (int i = 0; i < label->n; i++)
		for (int k = 0; k < i; k++)
			if (strcmp(label->item[i], label->item[k]) == 0)
				return label->item[i];
	return NULL;
}

/* Whether data.label may have patterns, so that only the table says how many columns it names. */
static bool has_patterns(const struct sl_conf_client *c)
{
	bool any = false;

	for (int i = 0; i < c->data.label.n && c->data.kind == SL_DATA_CSV; i++)
		any |= strchr(c->data.label.item[i], '*') != NULL;
	return any;
}

const char *sl_conf_check_task(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	const bool numbers = has_numbers(c);
	const bool table = c->data.kind == SL_DATA_CSV, texts = c->data.kind == SL_DATA_TEXT;
	const bool classes = c->model.task == SL_CONF_CLASSES && !numbers;
	const char *key = check_pixels(c, why);

	if (key)
		return key;
	if ((is_of_numbers(c->train.loss) && !numbers) ||
	    (c->train.loss >= SL_CONF_DICE && c->model.task != SL_CONF_PIXELS))
		return sl_conf_say(why, "train.loss",
				   c->train.loss >= SL_CONF_DICE
					   ? "dice and dice_ce are losses of pixels: they need model.task: pixels"
					   : "mse, l1 and huber are losses of numbers: they need model.task: numbers");
	if (!classes && (c->train.label_smoothing > 0 || c->train.mixup > 0))
		return sl_conf_say(why, c->train.mixup > 0 ? "train.mixup" : "train.label_smoothing",
				   "only classes can be mixed or smoothed; leave this key out");
	if (c->model.head != SL_CONF_CLASSIFIER && !classes)
		return sl_conf_say(why, "model.task", "a language model has no labels of its own; leave this key out");
	if (classes && c->data.label.n > 1)
		return sl_conf_say(
			why, "data.label",
			"several columns are several numbers or labels: they need model.task: numbers or labels");
	if (c->model.task == SL_CONF_SEVERAL_LABELS && !table && !texts && c->data.kind != SL_DATA_IMAGES)
		return sl_conf_say(why, "model.task", "several labels are of data.kind: csv, images and text");
	if (c->model.task != SL_CONF_CLASSES && c->model.task != SL_CONF_PIXELS && !sl_conf_lacks_labels(c) &&
	    (table || texts || c->data.kind == SL_DATA_IMAGES) && c->model.classes != c->data.label.n &&
	    !has_patterns(c))
		return sl_conf_say(
			why, "model.classes",
			"data.label names %d column%s, and the network has %d output%s: they must be as many",
			c->data.label.n, sl_plural(c->data.label.n), c->model.classes, sl_plural(c->model.classes));
	if (c->data.label.n < 1)
		return sl_conf_say(why, "data.label", "needs the name of a column");
	if (label_twice(&c->data.label))
		return sl_conf_say(why, "data.label", "%.60s is named twice: name each column or class once",
				   label_twice(&c->data.label));
	why[0] = 0;
	if (check_weights(c, why))
		return "train.class_weights";
	return check_head(c, why);
}
