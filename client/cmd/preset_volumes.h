/* What splitc init finds out about a folder of NIfTI files. */
#ifndef SL_CLIENT_CMD_PRESET_VOLUMES_H
#define SL_CLIENT_CMD_PRESET_VOLUMES_H

#include "common/conf/conf.h"

struct sl_preset_volumes {
	char patch[3][16];   /* what the network takes: depth, height, width; the strings of data.patch */
	char spacing[3][16]; /* mm, the medians of all files */
	bool ct;             /* the first file has values far below 0, as Hounsfield units have */
};

/* Reads the headers of the files in train/ below `dir`, and the voxels of the first. `conf` has the network's file.
 * CONFIG: the network takes no volumes; else the errors of a file. */
enum sl_err sl_preset_volumes_look(struct sl_preset_volumes *out, const char *dir, const struct sl_conf_client *conf,
				   struct sl_fail *fail) SL_MUST_CHECK;

#endif
