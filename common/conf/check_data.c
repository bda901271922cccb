/* Checks the keys of the section data, but for which sources they belong to (check_client.c). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/conf/check.h"
#include "common/conf/check_keys.h"

static const char *check_split(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	const double all = c->data.split.train + c->data.split.val + c->data.split.test;

	if (!c->data.split.folds && (all > 0 ? fabs(all - 1) > 1e-6 : false))
		return sl_conf_say(why, "data.split.train",
				   "train, val and test must add up to 1, and are %g, %g and %g", c->data.split.train,
				   c->data.split.val, c->data.split.test);
	if (!c->data.split.folds && all > 0 && !(c->data.split.train > 0))
		return sl_conf_say(why, c->data.split.val > 0 ? "data.split.val" : "data.split.test",
				   "leaves nothing to train with: give train a share");
	if (c->data.split.train > 0 && !(c->data.split.train < 1))
		return sl_conf_say(why, "data.split.train",
				   "leaves nothing to evaluate with: give val or test a share");
	if (c->data.split.folds == 1 || (c->data.split.folds && c->data.split.test >= 1))
		return sl_conf_say(why, "data.split.folds", "needs 2 or more, and test a share below 1");
	if (c->data.split.folds && c->data.split.fold >= c->data.split.folds)
		return sl_conf_say(why, "data.split.fold", "must be below data.split.folds (%d), got %d",
				   c->data.split.folds, c->data.split.fold);
	return NULL;
}

const char *sl_conf_check_data(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	const char *blame;

	if (c->data.kind < SL_DATA_IMAGES && !c->data.transforms.n != !c->data.test_transforms.n)
		return sl_conf_say(why, c->data.transforms.n ? "data.transforms" : "data.test_transforms",
				   "data.transforms and data.test_transforms: both, or none of them");
	if (c->data.kind >= SL_DATA_COLA && !c->data.tokenizer[0])
		return sl_conf_say(why, "data.tokenizer",
				   "texts need a tokenizer: a folder with tokenizer.json, vocab.json and "
				   "merges.txt, or vocab.txt");
	if (c->data.columns.n < 1 || c->data.columns.n > 2)
		return sl_conf_say(why, "data.columns", "one column of text, or two of pairs");
	blame = check_split(c, why);
	return blame ? blame : sl_conf_check_volumes(c, why);
}
