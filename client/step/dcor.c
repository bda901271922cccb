#include "client/step/dcor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/figures/similarity.h"
#include "common/base/assert.h"

enum { LEAST = 4, FEW = 16, MOST = 64, ROOM = 8 << 20 }; /* samples; bytes */

struct sl_dcor {
	int64_t samples, most, n;      /* in the set; how many of these are chosen; and are put */
	int64_t in_floats, act_floats; /* of a sample */
	int64_t act_most;              /* that there is room for */
	int64_t sample[MOST];          /* [n] */
	float *act;                    /* [n, act_floats] */
	float in[];                    /* [n, in_floats] */
};

enum sl_err sl_dcor_open(struct sl_dcor **out, const struct sl_plan *plan, int64_t samples, struct sl_fail *fail)
{
	const struct sl_graph *g = &plan->segment[SL_HEAD].graph;
	const int64_t in = sl_shape_row(&g->value[g->in[0].value].shape), all = in + sl_plan_cut_floats(plan, false, 1);
	const int64_t fit = ROOM / (int64_t)sizeof(float) / all, n = fit < FEW ? FEW : fit < MOST ? fit : MOST;
	struct sl_dcor *d;

	*out = NULL;
	if (plan->model->vocab || g->n_in > 1 || samples < LEAST)
		return SL_OK;
	*out = d = calloc(1, sizeof *d + (size_t)(n * all) * sizeof(float));
	if (!d)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for samples of an evaluation");
	d->samples = samples;
	d->most = n < samples ? n : samples;
	d->in_floats = in;
	d->act_most = all - in;
	d->act = d->in + n * in;
	return SL_OK;
}

void sl_dcor_close(struct sl_dcor *d)
{
	free(d);
}

void sl_dcor_put(struct sl_dcor *d, const struct sl_feed *feed, int64_t first, int64_t rows,
		 const struct sl_tensor *act, int n)
{
	const int64_t in = d->in_floats;

	d->act_floats = 0;
	for (int v = 0; v < n; v++)
		d->act_floats += sl_shape_row(&act[v].shape); /* an insert may have narrowed it */
	sl_assert_int(d->act_floats, <=, d->act_most);
	for (int64_t i = 0; i < rows; i++) {
		const int64_t sample = feed->samples[first + i];
		int64_t at = 0;
		float *to;

		if (sample && (sample - 1) * d->most / d->samples == sample * d->most / d->samples)
			continue;
		while (at < d->n && d->sample[at] != sample)
			at++;
		d->n += at == d->n;
		sl_assert_int(d->n, <=, d->most); /* as many are chosen, whatever the order of the batches */
		d->sample[at] = sample;
		memcpy(d->in + at * in, (const float *)feed->input + (first + i) * in, (size_t)in * sizeof(float));
		to = d->act + at * d->act_floats;
		for (int v = 0; v < n; v++) {
			const int64_t row = sl_shape_row(&act[v].shape);

			memcpy(to, (const float *)act[v].data + i * row, (size_t)row * sizeof(float));
			to += row;
		}
	}
}

double sl_dcor_take(struct sl_dcor *d)
{
	double found = NAN;

	if (!d || d->n < LEAST || sl_leak_dcor(&found, d->in, d->in_floats, d->act, d->act_floats, d->n))
		found = NAN;
	if (d)
		d->n = 0;
	return found;
}
