/* What a cut allows, and where another one would be better. */
#include "client/setup/setup.h"
#include "common/base/log.h"

void sl_setup_advise_cut(const struct sl_setup *s)
{
	const struct sl_plan *plan = s->plan;
	const double head = (double)plan->segment[SL_HEAD].macs,
		     all = head + (double)plan->segment[SL_MIDDLE].macs + (double)plan->segment[SL_TAIL].macs;
	struct sl_cut other = {0};
	double part;

	if (head > all / 2)
		sl_log(SL_LOG_WARN, "cut-heavy",
		       "the head has %.0f %% of all multiplications, which this host computes: end it earlier with "
		       "partition or head_end",
		       100 * head / all);
	if (sl_cut_cheaper(&plan->cut, plan->model, s->conf->cut_values, &other, &part))
		sl_log(SL_LOG_INFO, "cut-skips",
		       "%s would send %.0f %% of these bytes, because skips stay at the client", other.text,
		       100 * part);
}

enum sl_err sl_setup_try_feedback(const struct sl_setup *s, enum sl_dir dir, bool mid, struct sl_fail *fail)
{
	struct sl_extent most = sl_cut_extent(s->plan, mid);
	enum sl_err err = sl_codec_feeds_back(&s->agreement.codec[dir], &most, fail);

	for (int v = 1; v < sl_plan_cut_values(s->plan, mid) && !err; v++) {
		most.shape = sl_plan_value_shape(s->plan, mid, v, most.shape.dim[0]);
		err = sl_codec_feeds_back(&s->agreement.codec[dir], &most, fail);
	}
	return err;
}
