#include "server/trunk/member_ends.h"

#include <stdlib.h>

#include "common/link/sealed.h"
#include "server/trunk/cost.h"

struct sl_backend *sl_member_ends_host(const struct sl_middle *m)
{
	return m->env.host_be ? m->env.host_be : m->env.be;
}

/* A member's change is decoded in a task of its own. A second task adds up all changes, and encodes the mean. */
static enum sl_err check_cost(const struct sl_middle *m, struct sl_fail *fail)
{
	const struct sl_end_layout *l = &m->ends.layout;
	const struct sl_end_coder_env grad = sl_agreement_coder(&m->agreement, l, SL_END_GRAD, NULL),
				      mean = sl_agreement_coder(&m->agreement, l, SL_END_MEAN, NULL);
	const struct sl_cost told = sl_end_coder_cost(&grad, false);
	struct sl_cost sum = sl_end_coder_cost(&mean, true), pass = sl_end_pass_cost(l);
	struct sl_fail why;
	enum sl_err err;

	pass.task_s *= m->agreement.agreed.share.clients;
	sl_cost_add(&sum, pass);
	err = sl_session_cost_check(&told, m->env.task_s, m->env.piece_ms, &why);
	if (!err)
		err = sl_session_cost_check(&sum, m->env.task_s, m->env.piece_ms, &why);
	return err ? sl_fail_set(fail, err, "shared heads and tails: %.400s", why.text) : SL_OK;
}

size_t sl_member_ends_state_bytes(const struct sl_middle *m)
{
	return (size_t)sl_end_layout_state(&m->ends.layout, &m->trunk.plan->spec).floats * sizeof(float) +
	       (m->agreement.agreed.share.seal ? SL_SEALED_BYTES : 0);
}

enum sl_err sl_member_ends_hear(struct sl_middle *m, struct sl_bytes text, struct sl_fail *fail)
{
	struct sl_memory *to = &m->memory.payloads;
	enum sl_err err = sl_agreement_ends(&m->ends.layout, text, fail);

	if (!err)
		err = sl_end_layout_settle(&m->ends.layout, &m->trunk.plan->spec, fail);
	if (!err)
		err = check_cost(m, fail);
	for (int end = 0; end < SL_END_COUNT && !err; end++) {
		const struct sl_end_coder_env env = sl_agreement_coder(&m->agreement, &m->ends.layout,
								       (enum sl_ends_run)end, sl_member_ends_host(m));
		uint64_t memory, bound;

		err = sl_end_coder_need(&env, &memory, &bound, fail);
		if (err)
			break;
		if (end == SL_END_GRAD) /* the mean is the group's to encode */
			sl_need(&m->memory.codecs.host, 1, memory);
		sl_need(&to->host, 1, bound);
	}
	if (!err)
		sl_need(&to->host, (uint64_t)m->ends.layout.floats, sizeof(float)); /* the change */
	if (!err)
		sl_need(&to->host, 1, sl_member_ends_state_bytes(m));
	return err;
}

void sl_member_ends_close(struct sl_middle *m)
{
	sl_end_coder_close(m->ends.coder);
	sl_end_layout_close(&m->ends.layout);
	free(m->ends.change);
}
