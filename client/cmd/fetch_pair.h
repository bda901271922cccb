/* The model of a run that was killed or paused, and an audit of its server. Head and tail are in the client's newest
 * checkpoint, the middle is in the server's checkpoint of the same step. */
#ifndef SL_CLIENT_CMD_FETCH_PAIR_H
#define SL_CLIENT_CMD_FETCH_PAIR_H

#include "client/pass/audit.h"

/* Resumes the run as --resume would, fetches the middle instead of a step, and pauses the run again: the run does
 * not change on either side. `setup` has the run's plan (trained 0), weights and backend. The model goes to
 * setup->weights, and the number of steps it was trained to *step. BUSY: another process has the run. Blocks. */
enum sl_err sl_fetch_pair(struct sl_setup *setup, uint64_t *step, struct sl_fail *fail) SL_MUST_CHECK;
/* Resumes the run for `steps` steps, from *step on, and repeats each in this process (client/pass/audit.h). Then
 * pauses it on both sides; --resume continues from the checkpoint. `setup` also has training data, and was planned
 * with `audits`. Errors as above; AUDIT: the server computed something else. */
enum sl_err sl_audit_pair(struct sl_setup *setup, uint64_t steps, uint64_t *step, struct sl_audit_sum *sum,
			  struct sl_fail *fail) SL_MUST_CHECK;

#endif
