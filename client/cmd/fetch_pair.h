/* A run that was killed or paused: head and tail are in the client's newest checkpoint, the middle is in the server's
 * of the same step. Its model, and an audit of the server. */
#ifndef SL_CLIENT_CMD_FETCH_PAIR_H
#define SL_CLIENT_CMD_FETCH_PAIR_H

#include "client/run/audit.h"

/* Goes on with the run as --resume would, fetches the middle in place of a step, and pauses it again: nothing of the
 * run changes on either side. `setup` has its plan (of a run: trained 0), weights and backend; the model goes to
 * setup->weights, and behind how many steps it is to *step. BUSY: another process has the run. Blocks. */
enum sl_err sl_fetch_pair(struct sl_setup *setup, uint64_t *step, struct sl_fail *fail) SL_MUST_CHECK;
/* Goes on for `steps` steps, each of which is repeated in this process (client/run/audit.h). Then both sides are
 * paused, and --resume goes on from the checkpoint. `setup` has training data, too, and was planned with `audits`.
 * Errors of the above; AUDIT. */
enum sl_err sl_audit_pair(struct sl_setup *setup, uint64_t steps, uint64_t *step, struct sl_audit_sum *sum,
			  struct sl_fail *fail) SL_MUST_CHECK;

#endif
