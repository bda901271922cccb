/* Differential privacy (privacy.…): each sample's row is clipped and gets noise, and its releases are counted. So what
 * else tells of rows has to stay at home, and no row may depend on another one. */
#include <string.h>

#include "common/conf/check_keys.h"

const char *sl_conf_check_privacy(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	const struct sl_agreed *a = &c->agreed;
	const struct {
		bool is;
		const char *key, *says;
	} refused[] = {
		{c->noise.key[0] != 0, "noise.key", "privacy adds its own noise: leave noise.… out"},
		{c->data.sampling != SL_SAMPLING_SHUFFLED, "data.sampling",
		 "with privacy each row crosses once in an epoch: shuffled alone is counted"},
		{c->train.class_weights.n > 0 && strcmp(c->train.class_weights.item[0], "none") != 0,
		 "train.class_weights",
		 "a batch divides by the weights of its labels, so a gradient tells of other samples: leave it out"},
		{c->model.task == SL_CONF_PIXELS || c->model.head != SL_CONF_CLASSIFIER, "model.task",
		 "a batch divides by all its labels, and a sample has several: privacy counts tasks with one label for "
		 "each sample, or numbers"},
		{c->train.mixup > 0, "train.mixup",
		 "a mixed row tells of two samples, and privacy counts one: leave it out"},
		{a->clip_norm > 0, "train.clip_norm",
		 "the norms of gradients cross without noise: with privacy leave it out"},
		{a->share.group[0] != 0, "share.group",
		 "privacy counts the releases of one client: in a group it is not known yet"},
		{c->train.phases.n > 0, "train.phases",
		 "privacy counts the epochs of one phase: leave train.phases out"},
	};

	if (c->privacy.clip <= 0) {
		if (c->privacy.noise > 0 || c->privacy.clip_grad > 0 || c->privacy.budget > 0 || c->privacy.key[0])
			return sl_conf_say(why, "privacy.clip",
					   "privacy needs clip, the largest norm of a sample's head_act");
		return NULL;
	}
	if (c->privacy.clip_grad <= 0)
		return sl_conf_say(why, "privacy.clip_grad",
				   "privacy needs it: the largest norm of the gradient of a sample's loss");
	if (c->privacy.noise <= 0)
		return sl_conf_say(why, "privacy.noise", "privacy needs noise above 0: without it epsilon is infinite");
	if (c->privacy.delta <= 0)
		return sl_conf_say(why, "privacy.delta",
				   "privacy needs delta above 0, below 1 / the number of samples");
	if (!c->privacy.key[0])
		return sl_conf_say(why, "privacy.key", "privacy needs a key file (splitc keygen --out FILE)");
	if (strcmp(c->privacy.key, c->auth.secret_key) == 0)
		return sl_conf_say(why, "privacy.key",
				   "is the key of auth, whose use others see: make one for this alone");
	for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
		if (refused[i].is)
			return sl_conf_say(why, refused[i].key, "%s", refused[i].says);
	return NULL;
}
