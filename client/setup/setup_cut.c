/* What a cut allows, and where another one would be better. */
#include "client/setup/setup.h"
#include "common/base/log.h"
#include "common/codec/stage.h"

#include <string.h>

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

/* Slices of a value that crosses, where it is a volume. 0: no layer next to the cut tells. */
static int slices_of(const struct sl_plan *p, bool mid, int value)
{
	const struct sl_graph *head = &p->segment[SL_HEAD].graph, *middle = &p->segment[SL_MIDDLE].graph;
	const int depth = mid ? sl_model_slices(head, head->out[0].value, p->model->depth[0]) : p->model->depth[0];

	return sl_model_slices(mid ? middle : head, (mid ? middle : head)->out[value].value, depth);
}

/* Looks at one stage for a value [N,D·H,W,C] of volumes of `slices`; 0: it is not known of how many. */
static enum sl_err check_stage(const char *name, int64_t f, const struct sl_shape *s, int slices, struct sl_fail *fail)
{
	if (strcmp(name, "downsample") == 0)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "downsample would mix neighbouring slices of volumes: take an insert such as "
				   "conv:8,k=2,s=2 instead, which halves all three directions");
	if (strcmp(name, "cells") != 0 || (slices && s->dim[1] / slices % f == 0))
		return SL_OK;
	if (slices)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "cells:%lld would reach over the border of two slices, which have %lld rows here: "
				   "take a size that divides these",
				   (long long)f, (long long)s->dim[1] / slices);
	return sl_fail_set(fail, SL_ERR_CONFIG,
			   "cells needs the number of slices at the cut, and no layer next to it tells: cut behind a "
			   "convolution, or leave cells out");
}

enum sl_err sl_setup_check_slices(const struct sl_setup *s, enum sl_dir dir, bool mid, struct sl_fail *fail)
{
	const struct sl_codec_spec *codec = &s->agreement.codec[dir];
	enum sl_err err = SL_OK;

	for (int v = 0; s->plan->model->depth[0] && v < sl_plan_cut_values(s->plan, mid); v++) {
		const struct sl_shape shape = sl_plan_value_shape(s->plan, mid, v, 1);

		for (int i = 0; i < codec->n_stage && shape.ndim == 4 && shape.dim[1] > 1 && !err; i++)
			err = check_stage(codec->stage[i].stage->name, (int64_t)codec->stage[i].arg[0], &shape,
					  slices_of(s->plan, mid, v), fail);
	}
	return err;
}
