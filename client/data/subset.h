/* One member's part of a set that all members of a group have. Which samples it has is a function of labels, seed and
 * number of members alone, so each member knows what the others have. */
#ifndef SL_CLIENT_DATA_SUBSET_H
#define SL_CLIENT_DATA_SUBSET_H

#include "client/data/source.h"
#include "common/conf/conf.h"

struct sl_subset_spec {
	/* IID: equal parts of the set in random order. BY_LABEL: equal parts of the set in order of its labels.
	 * DIRICHLET: of each label, shares that are drawn from a Dirichlet distribution of concentration alpha. */
	struct sl_conf_parts parts;
	int member, members;
	uint64_t seed;
};

/* *set becomes its samples index[count], and owns them and what it was: sl_set_close closes both. NOMEM, and nothing
 * has changed. */
enum sl_err sl_subset_of(struct sl_set *set, int32_t *index, int64_t count, struct sl_fail *fail) SL_MUST_CHECK;

/* *set becomes the member's part, and owns what it was: sl_set_close closes both. count[members]: samples of each part.
 * On failure *set is as it was. CONFIG: a member has no sample, or the set has no labels; what reading a sample gives;
 * NOMEM. */
enum sl_err sl_subset_open(struct sl_set *set, const struct sl_subset_spec *spec, int64_t *count,
			   struct sl_fail *fail) SL_MUST_CHECK;

#endif
