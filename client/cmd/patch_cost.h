/* What a patch of volumes costs this client: seconds of computation, by a measured rate, and bytes. */
#ifndef SL_CLIENT_CMD_PATCH_COST_H
#define SL_CLIENT_CMD_PATCH_COST_H

#include "client/cmd/command.h"

/* An object (docs/OUTPUT.md), which the caller drops; NULL: the network has no volumes. It computes a layer as the
 * largest of head and tail for a moment, with the config's threads. Errors of sl_port_run_bytes; NOMEM. */
enum sl_err sl_patch_cost(json_t **out, const struct sl_setup *setup, bool local, struct sl_fail *fail) SL_MUST_CHECK;
void sl_patch_cost_print(const json_t *cost, bool whole); /* whole: of cases */

#endif
