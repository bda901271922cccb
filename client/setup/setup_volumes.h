/* The part of a setup that is about volumes. */
#ifndef SL_CLIENT_SETUP_SETUP_VOLUMES_H
#define SL_CLIENT_SETUP_SETUP_VOLUMES_H

#include "client/data/volume.h"
#include "client/setup/setup.h"

struct sl_setup_volume {
	struct sl_volume_spec spec; /* points to `cache`, and into the config */
	char cache[PATH_MAX];
};

/* Fills *out with how volumes are prepared and cut, and returns &out->spec; NULL: the data are others. The config has
 * been checked (sl_conf_check_volumes). */
const struct sl_volume_spec *sl_setup_volume(struct sl_setup_volume *out, const struct sl_conf_client *conf);
/* Checks that patches are what the network takes, a picture of their slices, one below the other; and that it has a
 * class for each voxel. CONFIG. */
enum sl_err sl_setup_check_patch(const struct sl_setup *s, const int64_t patch[3], struct sl_fail *fail) SL_MUST_CHECK;

#endif
