/* `--local` of a group: all members and their trunk in one process. The oracle of a group over links: each member
 * writes to log.dir/member-N what a client that is member N writes to its log.dir. */
#ifndef SL_CLIENT_TRAIN_LOCAL_GROUP_H
#define SL_CLIENT_TRAIN_LOCAL_GROUP_H

#include "client/train/drive.h"

/* `setup` has its config and a backend. */
enum sl_err sl_drive_local_group(struct sl_setup *setup, const struct sl_drive_options *options,
				 struct sl_fail *fail) SL_MUST_CHECK;

#endif
