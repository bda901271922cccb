/* The parts of the data: which one is read, and what it is called. */
#include <string.h>

#include "client/data/parts.h"
#include "client/setup/setup.h"
#include "common/base/log.h"

static const char *const words[SL_PARTS_COUNT] = {"training", "validation", "test"};

/* An evaluation without training reads the test part, or else the validation part. */
static enum sl_parts_own part_of(const struct sl_setup *s, enum sl_split split)
{
	const struct sl_conf_client *c = s->conf;
	const bool tests = s->reads == SL_READS_TEST && c->data.split.test > 0;

	return split == SL_SPLIT_TRAIN                                    ? SL_PARTS_TRAIN
	       : tests || !(c->data.split.folds || c->data.split.val > 0) ? SL_PARTS_TEST
									  : SL_PARTS_VAL;
}

bool sl_setup_choose_part(const struct sl_setup *s, enum sl_split split, struct sl_parts *out)
{
	const struct sl_conf_client *c = s->conf;

	if (!sl_conf_splits(c))
		return false;
	*out = (struct sl_parts){
		.share = {c->data.split.train, c->data.split.val, c->data.split.test},
		.folds = c->data.split.folds,
		.fold = c->data.split.fold,
		.seed = (uint64_t)c->data.split.seed,
		.by = c->data.split.by,
		.by_place = sl_agreed_is_vertical(&c->agreed) || c->data.also.n || c->also,
		.own = part_of(s, split),
	};
	return true;
}

const char *sl_setup_part(const struct sl_setup *s, enum sl_split split)
{
	if (split == SL_SPLIT_TRAIN || sl_conf_splits(s->conf))
		return words[part_of(s, split)];
	return s->set[SL_SPLIT_TEST].part && !s->conf->data.test_files.n ? s->set[SL_SPLIT_TEST].part
									 : words[SL_PARTS_TEST];
}

bool sl_setup_has_test_part(const struct sl_setup *s)
{
	return sl_conf_splits(s->conf) && s->conf->data.split.test > 0 && part_of(s, SL_SPLIT_TEST) != SL_PARTS_TEST;
}

void sl_setup_note_part(const struct sl_setup *s, enum sl_split split)
{
	const char *by = s->conf->data.split.by;

	if (!sl_conf_splits(s->conf) || s->given || s->conf->also)
		return;
	sl_log(SL_LOG_INFO, "data-split", "%lld samples are for %s%s%s", (long long)s->set[split].count,
	       sl_setup_part(s, split), by[0] ? ", divided by " : "", by);
}
