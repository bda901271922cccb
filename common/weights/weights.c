#include "common/weights/weights.h"

#include <stdlib.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* for a state on the stack */
#include <xxhash.h>

#include "common/base/half.h"
#include "common/base/pieces.h"
#include "common/base/worker.h"

enum { PIECE = 1 << 16 }; /* on the stack */

static int64_t floats_of(const struct sl_param *p)
{
	return p->held ? 0 : sl_shape_count(&p->shape);
}

int64_t sl_weights_floats(const struct sl_model *model)
{
	int64_t count = 0;

	for (int i = 0; i < model->graph.n_param; i++)
		count += floats_of(&model->graph.param[i]);
	return count;
}

enum sl_err sl_weights_open(struct sl_weights *w, const struct sl_model *model, struct sl_fail *fail)
{
	int64_t count = sl_weights_floats(model);

	*w = (struct sl_weights){.n_param = model->graph.n_param,
				 .value = calloc((size_t)model->graph.n_param, sizeof *w->value),
				 .storage = calloc((size_t)count + 1, sizeof *w->storage),
				 .held = calloc((size_t)model->graph.n_param, sizeof *w->held)};
	if (!w->value || !w->storage || !w->held) {
		sl_weights_close(w);
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the weights");
	}
	count = 0;
	for (int i = 0; i < model->graph.n_param; i++) {
		w->value[i] = model->graph.param[i].held ? NULL : w->storage + count;
		count += floats_of(&model->graph.param[i]);
	}
	return SL_OK;
}

void sl_weights_share(struct sl_weights *w, const struct sl_weights *from)
{
	memcpy(w->held, from->held, (size_t)w->n_param * sizeof *w->held);
}

enum sl_err sl_weights_widen(struct sl_weights *w, const struct sl_model *model, struct sl_fail *fail)
{
	int64_t count = 0;

	for (int i = 0; i < w->n_param; i++)
		count += w->value[i] ? 0 : sl_shape_count(&model->graph.param[i].shape);
	if (!count)
		return SL_OK;
	w->wide = malloc((size_t)count * sizeof *w->wide);
	if (!w->wide)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the weights in 32 bits");
	count = 0;
	for (int i = 0; i < w->n_param; i++) {
		const struct sl_param *p = &model->graph.param[i];

		if (w->value[i])
			continue;
		w->value[i] = w->wide + count;
		count += sl_shape_count(&p->shape);
		sl_widen(w->value[i], w->held[i], sl_shape_count(&p->shape), p->held == SL_F16);
	}
	return SL_OK;
}

void sl_weights_close(struct sl_weights *w)
{
	free(w->value);
	free(w->storage);
	free(w->held);
	free(w->wide);
	sl_st_close(w->file);
	*w = (struct sl_weights){0};
}

void sl_weights_init(struct sl_weights *w, const struct sl_model *model, uint64_t seed)
{
	for (int i = 0; i < model->graph.n_param; i++)
		if (w->value[i])
			sl_param_init(&model->graph.param[i], seed, w->value[i]);
}

void sl_weights_init_range(const struct sl_plan_segment *segment, uint64_t seed, float *range)
{
	sl_clear(range, (size_t)segment->weight_count * sizeof *range);
	for (int i = 0; i < segment->n_param; i++)
		if (!segment->param[i].held)
			sl_param_init(&segment->graph.param[segment->param[i].graph_param], seed,
				      range + segment->param[i].offset);
}

/* The bytes that a range has for the parameter. NULL: none, for held parameters of head and tail. */
static const void *source_of(const struct sl_weights *w, const struct sl_plan_segment *s,
			     const struct sl_segment_param *p, size_t *bytes)
{
	*bytes = (size_t)p->count * (p->held ? sizeof(uint16_t) : sizeof(float));
	if (p->held && s->which != SL_MIDDLE)
		return NULL;
	return p->held ? (const void *)w->held[p->model_param] : w->value[p->model_param];
}

void sl_weights_pack_piece(const struct sl_weights *w, const struct sl_plan_segment *s, size_t from, size_t len,
			   void *to)
{
	memset(to, 0, len);
	for (int i = 0; i < s->n_param; i++) {
		const size_t at = (size_t)s->param[i].offset * sizeof(float);
		size_t bytes;
		const char *source = source_of(w, s, &s->param[i], &bytes);
		const size_t first = at > from ? at : from, end = at + bytes < from + len ? at + bytes : from + len;

		if (source && first < end)
			memcpy((char *)to + (first - from), source + (first - at), end - first);
	}
}

void sl_weights_pack(const struct sl_weights *w, const struct sl_plan_segment *segment, float *range)
{
	sl_weights_pack_piece(w, segment, 0, (size_t)segment->weight_count * sizeof *range, range);
}

void sl_weights_unpack(struct sl_weights *w, const struct sl_plan_segment *segment, const float *range, int64_t count,
		       const struct sl_weights *rest)
{
	for (int i = 0; i < segment->n_param; i++) {
		const struct sl_segment_param *p = &segment->param[i];
		const float *from = p->offset + p->count <= count ? range + p->offset : rest->value[p->model_param];

		if (!p->held && from != w->value[p->model_param])
			memcpy(w->value[p->model_param], from, (size_t)p->count * sizeof *range);
	}
}

static void digest(const XXH3_state_t *state, uint8_t out[16])
{
	XXH128_canonical_t canonical;

	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
	memcpy(out, canonical.digest, 16);
}

void sl_weights_hash_packed(const struct sl_weights *w, const struct sl_plan_segment *segment, uint8_t out[16])
{
	const size_t bytes = (size_t)segment->weight_count * sizeof(float);
	char piece[PIECE];
	XXH3_state_t state;

	XXH3_128bits_reset(&state);
	for (size_t at = 0, n; at < bytes; at += n) {
		n = bytes - at < PIECE ? bytes - at : PIECE;
		sl_weights_pack_piece(w, segment, at, n, piece);
		(void)XXH3_128bits_update(&state, piece, n);
	}
	digest(&state, out);
}

void sl_weights_hash(const float *range, int64_t count, uint8_t out[16])
{
	const size_t bytes = (size_t)count * sizeof *range;
	XXH3_state_t state;

	XXH3_128bits_reset(&state);
	for (size_t at = 0, n; at < bytes; at += n) {
		n = sl_piece(bytes - at);
		(void)XXH3_128bits_update(&state, (const char *)range + at, n);
		sl_worker_turn();
	}
	digest(&state, out);
}
