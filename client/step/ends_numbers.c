/* Numbers to be predicted, as they are and as the network learns them (data.scale_label). */
#include "client/step/ends.h"

int64_t sl_ends_targets(const struct sl_ends *ends)
{
	const struct sl_model *model = ends->plan->model;

	return sl_learn_targets(model->task, model->classes);
}

/* The mean of what sets have. */
static double mean_of(const struct sl_label_scale *scale, int64_t k)
{
	return scale[k].mean - scale[k].centre;
}

const float *sl_ends_numbers(struct sl_ends *ends, const struct sl_chunk *c)
{
	const int64_t targets = sl_ends_targets(ends), first = c->answer * targets;
	const float *number = (const float *)ends->feed.target + first;
	const struct sl_label_scale *scale = ends->use.scale;

	for (int64_t i = 0; i < c->call.dims.rows * targets && scale; i++)
		ends->scaled[first + i] =
			(float)(((double)number[i] - mean_of(scale, i % targets)) / scale[i % targets].deviation);
	return scale ? ends->scaled + first : number;
}

void sl_ends_unscale(const struct sl_ends *ends, const struct sl_chunk *c, float *output)
{
	const int64_t targets = sl_ends_targets(ends);
	const struct sl_label_scale *scale = ends->use.scale;

	for (int64_t i = 0; i < c->call.dims.rows * targets && scale && output; i++)
		output[i] = (float)((double)output[i] * scale[i % targets].deviation + mean_of(scale, i % targets));
}
