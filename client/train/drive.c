#include "client/train/drive.h"

#include "client/train/local_group.h"

enum sl_err sl_drive(struct sl_setup *setup, const struct sl_drive_options *options, bool local, struct sl_fail *fail)
{
	if (local && setup->conf->agreed.share.group[0] && !setup->alone && !options->eval_only)
		return sl_drive_local_group(setup, options, fail);
	if (local)
		return sl_drive_local(setup, options, fail);
	return sl_drive_remote(setup, options, fail);
}
