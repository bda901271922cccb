/* Points of a schedule: "EPOCH:LR", or an epoch alone. */
#include <math.h>
#include <string.h>

#include "common/conf/check.h"

static const double most_epochs = 1e6, most_lr = 1000; /* the bounds of train.epochs and train.optimizer.lr */

bool sl_conf_point(const char *text, double *epoch, double *lr)
{
	const char *end = text + strlen(text), *colon = lr ? strchr(text, ':') : end;

	return colon && sl_conf_number(text, colon, most_epochs, epoch) &&
	       (!lr || sl_conf_number(colon + 1, end, most_lr, lr));
}

const char *sl_conf_check_epoch(const void *value, char why[SL_CONF_WHY])
{
	double epoch;

	if (sl_conf_point(value, &epoch, NULL))
		return NULL;
	return sl_conf_say(why, why, "must be numbers of epochs from 0 to %g, such as [16, 27], got \"%.60s\"",
			   most_epochs, (const char *)value);
}

const char *sl_conf_check_point(const void *value, char why[SL_CONF_WHY])
{
	double epoch, lr;

	if (sl_conf_point(value, &epoch, &lr))
		return NULL;
	return sl_conf_say(why, why,
			   "must be EPOCH:LR each, an epoch from 0 to %g and a learning rate from 0 to %g, such as "
			   "[0:0, 5:0.4, 24:0], got \"%.60s\"",
			   most_epochs, most_lr, (const char *)value);
}

/* Checks that epochs rise. *highest becomes the largest learning rate; NULL: the items have none. */
static const char *check(const struct sl_conf_list *list, double *highest, char why[SL_CONF_WHY])
{
	double before = -1, epoch = 0, lr = 0;

	for (int i = 0; i < list->n; i++, before = epoch) {
		if (!sl_conf_point(list->item[i], &epoch, highest ? &lr : NULL) || epoch <= before)
			return sl_conf_say(why, why, "the epochs must rise, and \"%.60s\" does not", list->item[i]);
		if (highest)
			*highest = fmax(*highest, lr);
	}
	return NULL;
}

const char *sl_conf_check_epochs(const struct sl_conf_list *milestones, char why[SL_CONF_WHY])
{
	return check(milestones, NULL, why);
}

const char *sl_conf_check_points(const struct sl_conf_list *points, char why[SL_CONF_WHY])
{
	double highest = 0;

	if (check(points, &highest, why))
		return why;
	if (points->n >= 2 && highest > 0)
		return NULL;
	return sl_conf_say(why, why, "needs two points or more, and one of them with a learning rate above 0");
}
