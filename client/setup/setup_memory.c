/* What memory a config needs. */
#include "client/setup/setup.h"

enum sl_err sl_setup_memory(const struct sl_setup *setup, enum sl_session_role role, struct sl_backend *be,
			    struct sl_session_memory *out, struct sl_fail *fail)
{
	const enum sl_segment part[2] = {role == SL_SESSION_CLIENT ? SL_HEAD : SL_MIDDLE, SL_TAIL};
	struct sl_exec *exec[2] = {NULL, NULL};
	enum sl_err err = SL_OK;
	int n = 0;

	for (int i = 0; i < (role == SL_SESSION_CLIENT ? 2 : 1) && !err; i++)
		if (sl_party_has(setup->plan->spec.party, part[i]))
			err = sl_exec_prepare(&exec[n++], setup->plan, part[i], be, fail);
	if (!err)
		err = sl_session_memory(out, (const struct sl_exec *[]){exec[0], exec[1]}, role, false, be, NULL,
					setup->agreement.codec, fail);
	sl_exec_close(exec[0]);
	sl_exec_close(exec[1]);
	return err;
}

bool sl_setup_recomputes(const struct sl_setup *setup, struct sl_backend *be)
{
	struct sl_session_memory need;
	struct sl_fail why;

	if (setup->conf->recompute != SL_RECOMPUTE_AUTO)
		return setup->conf->recompute == SL_RECOMPUTE_ON;
	/* an error here comes up again, and is reported, where the plan is used */
	return setup->plan && !sl_setup_memory(setup, SL_SESSION_CLIENT, be, &need, &why) &&
	       sl_session_memory_sum(&need).host > sl_host_bytes();
}
