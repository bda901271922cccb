/* What `splitc data` says of volumes. */
#ifndef SL_CLIENT_CMD_DATA_VOLUMES_H
#define SL_CLIENT_CMD_DATA_VOLUMES_H

#include "common/conf/conf.h"

/* Prepares the volumes that a config names. Reads an epoch of training's patches and those of the evaluation. Prints
 * how many voxels of each class they have, and how fast they came. Errors as those of sl_setup_data and of samples. */
enum sl_err sl_data_volumes(struct sl_conf_client *conf, bool json, struct sl_fail *fail) SL_MUST_CHECK;

#endif
