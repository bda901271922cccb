/* Where masks of samples are written: below one folder, by the samples' names, in the folders in which these lie apart.
 */
#ifndef SL_CLIENT_RUN_MASK_NAMES_H
#define SL_CLIENT_RUN_MASK_NAMES_H

#include <limits.h>

#include "client/data/source.h"

enum { SL_MASK_NAME = 2 * PATH_MAX + 64 };

struct sl_mask_names {
	const struct sl_set *set; /* borrowed, as dir */
	const char *dir;
	size_t common; /* bytes of the folders that all names have before them */
};

/* CANTCREATE: two samples would have one mask; a mask is there already, unless `force` replaces it; or it would replace
 * a sample. Nothing is written. */
enum sl_err sl_mask_names_open(struct sl_mask_names *names, const struct sl_set *set, const char *dir, bool force,
			       struct sl_fail *fail) SL_MUST_CHECK;
/* The path of a mask, whose folders are made. */
enum sl_err sl_mask_names_path(const struct sl_mask_names *names, int64_t index, char out[SL_MASK_NAME],
			       struct sl_fail *fail) SL_MUST_CHECK;

#endif
