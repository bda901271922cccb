/* What is checked of states: assertions on those that are written and held, and a refusal of one that the server's
 * state does not match. */
#include "client/train/recover_check.h"

#include <inttypes.h>
#include <stdio.h>

#include "client/train/recover.h"
#include "common/base/assert.h"
#include "common/base/log.h"

void sl_recover_check_write(const struct sl_archive *a, const struct sl_checkpoint *c, uint64_t step)
{
	/* a file of a later step is of a history that was given up */
	if (!sl_archive_begins_anew(a))
		sl_assert_int(sl_archive_newest(a), <=, step);
	sl_assert(!sl_archive_busy(a));
	sl_assert_int(c->n_pin, <, SL_LAST_RUN_STEPS);
	for (int i = 0; i < c->n_pin; i++) {
		sl_assert_int(c->pin[i], <, step);
		if (i)
			sl_assert_int(c->pin[i], <, c->pin[i - 1]);
	}
}

void sl_recover_check_held(const struct sl_client_state *live, const struct sl_client_state *ahead)
{
	if (live && ahead)
		sl_assert_int(ahead->step, >, live->step); /* by more than one, where a member was away */
}

/* The same step on both sides is not enough: the same link's COMMIT must have made both states. */
enum sl_err sl_recover_check_made(const struct sl_remote *remote, const struct sl_client_state *s, struct sl_fail *fail)
{
	if (sl_remote_made(remote) == s->made || sl_session_has_ends(sl_remote_session(remote)))
		return SL_OK;
	if (sl_remote_made(remote) == SL_MADE_UNKNOWN) {
		sl_log(SL_LOG_WARN, "ends-behind",
		       "the group did not wait: this member goes on with its head and tail of step %" PRIu64, s->step);
		return SL_OK;
	}
	return sl_fail_set(fail, SL_ERR_MISMATCH,
			   "the server's state of step %" PRIu64
			   " is not the one that this run left there (link %" PRIu64 " made it, not %" PRIu64
			   "): another process went on with this run, or an older copy of one "
			   "side's files was put back. To begin anew, give --fresh",
			   s->step, sl_remote_made(remote), s->made);
}

enum sl_err sl_recover_check_step(const struct sl_checkpoint *c, uint64_t step, struct sl_fail *fail)
{
	uint64_t noted = 0;

	return sscanf(sl_checkpoint_noted(c, "position"), "%" SCNu64, &noted) == 1 && noted == step
		       ? SL_OK
		       : sl_fail_set(fail, SL_ERR_DATA,
				     "the checkpoint of step %" PRIu64 ": its notes on the run are of step %" PRIu64,
				     step, noted);
}
