#include "common/weights/weights.h"

#include <stdlib.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* a state on the stack */
#include <xxhash.h>

#include "common/base/pieces.h"
#include "common/base/worker.h"

enum sl_err sl_weights_open(struct sl_weights *w, const struct sl_model *model, struct sl_fail *fail)
{
	int64_t count = 0;

	for (int i = 0; i < model->graph.n_param; i++)
		count += sl_shape_count(&model->graph.param[i].shape);
	*w = (struct sl_weights){model->graph.n_param, calloc((size_t)model->graph.n_param, sizeof *w->value),
				 calloc((size_t)count, sizeof *w->storage)};
	if (!w->value || !w->storage) {
		sl_weights_close(w);
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the weights");
	}
	count = 0;
	for (int i = 0; i < model->graph.n_param; i++) {
		w->value[i] = w->storage + count;
		count += sl_shape_count(&model->graph.param[i].shape);
	}
	return SL_OK;
}

void sl_weights_close(struct sl_weights *w)
{
	free(w->value);
	free(w->storage);
	*w = (struct sl_weights){0};
}

void sl_weights_init(struct sl_weights *w, const struct sl_model *model, uint64_t seed)
{
	for (int i = 0; i < model->graph.n_param; i++)
		sl_param_init(&model->graph.param[i], seed, w->value[i]);
}

void sl_weights_init_range(const struct sl_plan_segment *segment, uint64_t seed, float *range)
{
	sl_clear(range, (size_t)segment->weight_count * sizeof *range);
	for (int i = 0; i < segment->n_param; i++)
		sl_param_init(&segment->graph.param[segment->param[i].graph_param], seed,
			      range + segment->param[i].offset);
}

void sl_weights_pack(const struct sl_weights *w, const struct sl_plan_segment *segment, float *range)
{
	memset(range, 0, (size_t)segment->weight_count * sizeof *range);
	for (int i = 0; i < segment->n_param; i++) {
		const struct sl_segment_param *p = &segment->param[i];

		memcpy(range + p->offset, w->value[p->model_param], (size_t)p->count * sizeof *range);
	}
}

void sl_weights_unpack(struct sl_weights *w, const struct sl_plan_segment *segment, const float *range)
{
	for (int i = 0; i < segment->n_param; i++) {
		const struct sl_segment_param *p = &segment->param[i];

		memcpy(w->value[p->model_param], range + p->offset, (size_t)p->count * sizeof *range);
	}
}

void sl_weights_hash(const float *range, int64_t count, uint8_t out[16])
{
	const size_t bytes = (size_t)count * sizeof *range;
	XXH128_canonical_t canonical;
	XXH3_state_t state;

	XXH3_128bits_reset(&state);
	for (size_t at = 0, n; at < bytes; at += n) {
		n = sl_piece(bytes - at);
		(void)XXH3_128bits_update(&state, (const char *)range + at, n);
		sl_worker_turn();
	}
	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
	memcpy(out, canonical.digest, 16);
}
