/* The paths to which masks of samples are written: below one folder, each with its sample's name, and in those folders
 * of it that not all samples share. */
#ifndef SL_CLIENT_PREDICT_MASK_NAMES_H
#define SL_CLIENT_PREDICT_MASK_NAMES_H

#include <limits.h>

#include "client/data/source.h"

enum { SL_MASK_NAME = 2 * PATH_MAX + 64 };

struct sl_mask_names {
	const struct sl_set *set; /* borrowed, as dir */
	const char *dir, *ending;
	size_t common; /* bytes of the folders with which all names begin */
};

/* `ending`: ".png", which replaces that of a sample's name, or ".nii.gz" of volumes, whose names have none. Writes
 * nothing. CANTCREATE: two samples would have the same mask; a mask exists already, and `force` is false; or a
 * mask would replace a sample. */
enum sl_err sl_mask_names_open(struct sl_mask_names *names, const struct sl_set *set, const char *dir,
			       const char *ending, bool force, struct sl_fail *fail) SL_MUST_CHECK;
/* Gets the path of a mask, and makes its folders. */
enum sl_err sl_mask_names_path(const struct sl_mask_names *names, int64_t index, char out[SL_MASK_NAME],
			       struct sl_fail *fail) SL_MUST_CHECK;

#endif
