/* The status of a running splitc, for the control socket. */
#ifndef SL_CLIENT_REPORT_H
#define SL_CLIENT_REPORT_H

#include "client/remote.h"
#include "client/training.h"

/* JSON (common/telemetry/status.h), malloc'ed; NULL for a request that is not "status". */
char *sl_report_status(const struct sl_setup *setup, const struct sl_training *training, const struct sl_remote *remote,
		       const char *request);

#endif
