/* What the files of the source of volumes share: volumes.c, and volume_cache.c, which prepares cases. */
#ifndef SL_CLIENT_DATA_VOLUMES_IMPL_H
#define SL_CLIENT_DATA_VOLUMES_IMPL_H

#include "client/data/volume.h"
#include "client/data/volume_list.h"
#include "client/data/volume_step.h"

struct sl_volumes {
	struct sl_volume_list list;
	struct sl_names classes;
	struct sl_volume_spec spec;
	struct sl_volume *at; /* [cases] */
	uint64_t *hash;       /* [cases] */
	uint64_t *key;        /* [cases], of data.split */
	int64_t *begin;       /* [cases + 1], a case's samples */
	bool unprepared;      /* cases are for prediction: a sample is one of them */
	bool draws;           /* samples are drawn anew in each epoch; else they cover the cases */
	int mask_classes;
	struct sl_step step[SL_VOLUME_STEPS];
};

/* Maps case i if it is prepared. `path` becomes that of its prepared file. */
enum sl_err sl_volumes_look_up(struct sl_volumes *v, int64_t i, const struct sl_volume_files *files,
			       char path[PATH_MAX], struct sl_fail *fail) SL_MUST_CHECK;
/* DATA: the mask of a prepared case has a class that the network lacks. */
enum sl_err sl_volumes_check_classes(const struct sl_volumes *v, int64_t i, const struct sl_volume_files *files,
				     struct sl_fail *fail) SL_MUST_CHECK;
/* Maps all cases. Those are prepared first that were not yet, or whose prepared file is damaged. */
enum sl_err sl_volumes_prepare(struct sl_volumes *v, struct sl_fail *fail) SL_MUST_CHECK;
/* Maps the cases for prediction that were prepared before. NOMEM. */
enum sl_err sl_volumes_find(struct sl_volumes *v, struct sl_fail *fail) SL_MUST_CHECK;
/* Gives a case for prediction: as it was prepared before, unless that is damaged, or else `here`, prepared in memory,
 * which the caller closes. Any thread. */
enum sl_err sl_volumes_given(const struct sl_volumes *v, int64_t index, const struct sl_volume **out,
			     struct sl_volume *here, struct sl_fail *fail) SL_MUST_CHECK;

#endif
