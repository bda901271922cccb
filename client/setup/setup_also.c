/* From a config to its further sources of data (data.also), whose rows are joined by id. */
#include <stdlib.h>
#include <string.h>

#include "client/setup/setup_pictures.h"
#include "common/base/log.h"

enum sl_err sl_setup_further(struct sl_setup *s, struct sl_fail *fail)
{
	const int n = s->further ? 0 : sl_conf_also_count(s->conf);
	char why[SL_CONF_WHY];
	enum sl_err err = SL_OK;

	if (!n)
		return SL_OK;
	s->features = s->further = calloc((size_t)n, sizeof *s->further);
	s->further_conf = calloc((size_t)n, sizeof *s->further_conf);
	s->aligned = calloc(1, sizeof *s->aligned);
	if (!s->further || !s->further_conf || !s->aligned)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for sources of data");
	s->n_features = n;
	for (int k = 0; k < n && !err; k++) {
		struct sl_setup *from = &s->further[k];

		if (sl_conf_also(&s->further_conf[k], s->conf, k, why))
			return sl_conf_client_fail(s->conf, "data.also", fail, "%s", why);
		*from = (struct sl_setup){
			.conf = &s->further_conf[k],
			.reads = s->reads,
			.aligned = s->aligned,
			.about = s->about ? strdup(s->about) : NULL,
		};
		err = sl_setup_sizes(&s->further_conf[k], fail);
		if (!err)
			err = sl_setup_check_transforms(from, fail);
		if (!err && sl_setup_decodes(from->conf))
			err = sl_setup_prepare(from, fail);
	}
	return err;
}

enum sl_err sl_setup_join(struct sl_setup *s, enum sl_split split, struct sl_fail *fail)
{
	const enum sl_split list = sl_conf_splits(s->conf) ? SL_SPLIT_TRAIN : split;
	struct sl_names name[1 + SL_CONF_ALSO] = {0};
	enum sl_err err = sl_setup_further(s, fail);

	if (err || s->aligned->row[list].n)
		return err;
	for (int k = 0; k <= s->n_features && !err; k++) {
		struct sl_setup *from = k ? &s->further[k - 1] : s;

		err = sl_setup_names(from, list, &name[k], fail);
		if (!err)
			err = sl_conf_client_blame(from->conf, "data.id", sl_aligned_check(&name[k], fail), fail);
	}
	if (!err)
		err = sl_conf_client_blame(s->conf, "data.also",
					   sl_aligned_join(s->aligned, list, name, s->n_features + 1, fail), fail);
	for (int k = 0; k <= s->n_features; k++) {
		const int64_t out = name[k].n - s->aligned->row[list].n;

		if (!err && out)
			sl_log(SL_LOG_INFO, "data-joined",
			       "%lld of %lld rows of %s to %s are left out: not all sources "
			       "have them",
			       (long long)out, (long long)name[k].n,
			       k ? s->further_conf[k - 1].data.dir : s->conf->data.dir,
			       sl_conf_splits(s->conf)   ? "divide"
			       : split == SL_SPLIT_TRAIN ? "train on"
							 : "evaluate on");
		sl_names_close(&name[k]);
	}
	return err;
}
