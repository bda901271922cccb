/* One member's part of a data set that all members of a group have. The assignment is a function of labels, seed and
 * number of members alone, so each member knows what the others have. */
#ifndef SL_CLIENT_DATA_SUBSET_H
#define SL_CLIENT_DATA_SUBSET_H

#include "client/data/source.h"
#include "common/conf/conf.h"

struct sl_subset_spec {
	/* IID: equal parts of the set in random order. BY_LABEL: equal parts of the set in order of its labels.
	 * DIRICHLET: each label's samples are divided by shares from a Dirichlet distribution of concentration
	 * alpha. */
	struct sl_conf_parts parts;
	int member, members;
	uint64_t seed;
};

/* Replaces *set by its samples index[count]. The new set owns `index` and the old set: sl_set_close closes both.
 * NOMEM: nothing has changed. */
enum sl_err sl_subset_of(struct sl_set *set, int32_t *index, int64_t count, struct sl_fail *fail) SL_MUST_CHECK;

/* Replaces *set by the samples of this split that `aligned` names, in its order. Errors of sl_aligned_places; NOMEM:
 * nothing has changed. */
enum sl_err sl_subset_aligned(struct sl_set *set, const struct sl_aligned *aligned, enum sl_split split,
			      struct sl_fail *fail) SL_MUST_CHECK;

/* Replaces *set by `wanted` of its samples, spread evenly, if it has more; 0: all. NOMEM: nothing has changed. */
enum sl_err sl_subset_spread(struct sl_set *set, int64_t wanted, struct sl_fail *fail) SL_MUST_CHECK;

/* Replaces *set by the member's part. The new set owns the old one: sl_set_close closes both. count[members] becomes
 * the number of samples of each part. On failure *set is unchanged. CONFIG: a member has no sample, or the set has
 * no labels; errors of reading a sample; NOMEM. */
enum sl_err sl_subset_open(struct sl_set *set, const struct sl_subset_spec *spec, int64_t *count,
			   struct sl_fail *fail) SL_MUST_CHECK;

#endif
