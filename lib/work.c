/* The tasks of a pass, on the worker: encode what the caller gave, decode what the server sent. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/link/wire.h"
#include "lib/impl.h"

static enum sl_err slots_open(const struct split_middle *m, struct sl_lib_slots *s, bool mid, bool gradient,
			      struct sl_fail *fail)
{
	const struct sl_graph *g = &m->plan->segment[SL_MIDDLE].graph;
	const int chunks = sl_plan_chunks_of(m->plan, m->plan->spec.batch);
	enum sl_err err = SL_OK;

	s->mid = mid;
	s->n = sl_plan_cut_values(m->plan, mid);
	for (int v = 0; v < s->n && !err; v++) {
		const struct sl_shape shape = sl_plan_value_shape(m->plan, mid, v, sl_plan_cut_most(m->plan, mid));
		void *data;

		s->value[v].row = sl_shape_row(&shape);
		s->value[v].stride =
			(int64_t)(sl_align((size_t)sl_shape_count(&shape) * sizeof(float)) / sizeof(float));
		if (gradient && !mid && (m->plan->spec.no_grad[0] || g->in[v].still))
			continue;
		err = m->be.ops->alloc((struct sl_backend *)(uintptr_t)&m->be,
				       (size_t)chunks * (size_t)s->value[v].stride * sizeof(float), &data, fail);
		s->value[v].data = err ? NULL : data;
	}
	return err;
}

enum sl_err sl_lib_slots_open(struct split_middle *m, struct sl_fail *fail)
{
	enum sl_err err = slots_open(m, &m->x, false, false, fail);

	if (!err)
		err = slots_open(m, &m->y, true, false, fail);
	if (!err)
		err = slots_open(m, &m->dy, true, true, fail);
	if (!err)
		err = slots_open(m, &m->dx, false, true, fail);
	m->begin = calloc((size_t)m->plan->spec.chunks * (size_t)(m->plan->rows + 1), sizeof *m->begin);
	return !err && !m->begin ? sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a batch") : err;
}

void sl_lib_slots_close(struct split_middle *m)
{
	struct sl_lib_slots *all[] = {&m->x, &m->y, &m->dy, &m->dx};

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		for (int v = 0; v < all[i]->n; v++)
			if (all[i]->value[v].data)
				m->be.ops->free(&m->be, all[i]->value[v].data);
	free(m->begin);
}

uint32_t *sl_lib_begin(const struct split_middle *m, int chunk)
{
	return m->begin + chunk * (m->plan->rows + 1);
}

/* The number of rows, or tokens, in chunk i of a call; *first: how many come before it. */
static int64_t part_of(const struct split_middle *m, const struct sl_lib_call *c, bool mid, int i, int64_t *first)
{
	const int64_t row = i * m->plan->rows, rows = sl_plan_chunk_rows(m->plan, c->rows, i);
	const uint32_t *begin = sl_lib_begin(m, c->first);

	if (!sl_plan_cut_per_token(m->plan, mid)) {
		*first = row;
		return rows;
	}
	*first = begin[row];
	return begin[row + rows] - begin[row];
}

void sl_lib_scatter(const struct split_middle *m, const struct sl_lib_call *c, struct sl_lib_slots *s,
		    const float *const from[])
{
	for (int i = 0; i < c->chunks; i++) {
		int64_t first, count = part_of(m, c, s->mid, i, &first);

		s->left_out[c->first + i] = 0;
		for (int v = 0; v < s->n; v++) {
			const int64_t row = s->value[v].row;

			if (from[v])
				memcpy(s->value[v].data + (c->first + i) * s->value[v].stride, from[v] + first * row,
				       (size_t)(count * row) * sizeof(float));
			else
				s->left_out[c->first + i] |= (uint8_t)(1u << v);
		}
	}
}

void sl_lib_gather(const struct split_middle *m, const struct sl_lib_call *c, const struct sl_lib_slots *s,
		   float *const to[])
{
	for (int i = 0; i < c->chunks; i++) {
		int64_t first, count = part_of(m, c, s->mid, i, &first);

		for (int v = 0; v < s->n; v++)
			if (to[v])
				memcpy(to[v] + first * s->value[v].row,
				       s->value[v].data + (c->first + i) * s->value[v].stride,
				       (size_t)(count * s->value[v].row) * sizeof(float));
	}
}

/* The tensors of a chunk; without data where a gradient does not cross. */
static void slot(struct split_middle *m, const struct sl_lib_slots *s, int chunk, struct sl_tensor x[SL_CUT_VALUES])
{
	const struct sl_dims dims = sl_port_dims(sl_link_port(m->link), chunk);
	const int64_t count = sl_plan_cut_count(m->plan, s->mid, &dims);

	for (int v = 0; v < s->n; v++) {
		float *data = s->value[v].data;

		x[v] = (struct sl_tensor){
			.dtype = SL_F32,
			.shape = sl_plan_value_shape(m->plan, s->mid, v, count),
			.data = !data || s->left_out[chunk] >> v & 1 ? NULL : data + chunk * s->value[v].stride,
			.be = &m->be};
	}
}

static enum sl_err encode(struct split_middle *m, enum sl_dir dir, const struct sl_lib_slots *s, int chunk,
			  struct sl_fail *fail)
{
	struct sl_tensor x[SL_CUT_VALUES];

	slot(m, s, chunk, x);
	return sl_port_encode(sl_link_port(m->link), dir, chunk, x, fail);
}

/* If the caller has already seen these tensors, another link must bring the same bits. */
static enum sl_err decode(struct split_middle *m, enum sl_dir dir, struct sl_lib_slots *s, int chunk,
			  struct sl_fail *fail)
{
	struct sl_tensor x[SL_CUT_VALUES];
	enum sl_err err;
	uint64_t hash = 0;

	slot(m, s, chunk, x);
	err = sl_port_decode(sl_link_port(m->link), dir, chunk, x, fail);
	if (!err && sl_link_session(m->link)->training) /* our server has checked; another may not */
		err = sl_port_finite(x, s->n, dir, chunk, fail);
	if (err)
		return err;
	for (int v = 0; v < s->n; v++)
		if (x[v].data)
			hash = hash * 3 + sl_wire_hash((struct sl_bytes){
						  x[v].data, (size_t)sl_shape_count(&x[v].shape) * sizeof(float)});
	if (s->seen[chunk] && hash != s->hash[chunk])
		return sl_fail_set(fail, SL_ERR_MISMATCH,
				   "the server has computed step %" PRIu64
				   " again, with another result: its CPU, GPU or "
				   "program has changed, so the step cannot go on; go back to a token, or begin anew",
				   m->step);
	s->hash[chunk] = hash;
	return SL_OK;
}

/* The server has applied the step: this side's codecs follow. */
static enum sl_err commit(struct split_middle *m, struct sl_fail *fail)
{
	struct sl_port *port = sl_link_port(m->link);
	enum sl_err err = sl_port_set_done(port, m->step + 1, fail);

	if (err)
		return err;
	if (!sl_session_skips(sl_link_session(m->link)))
		sl_port_commit_codecs(port);
	m->applied = m->step + 1;
	return SL_OK;
}

enum sl_err sl_lib_run(void *arg, enum sl_task task, int chunk, struct sl_fail *fail)
{
	struct split_middle *m = arg;

	switch (task) {
	case SL_TASK_HEAD_FWD:
		return encode(m, SL_DIR_HEAD_ACT, &m->x, chunk, fail);
	case SL_TASK_TAIL:
		return decode(m, SL_DIR_MID_ACT, &m->y, chunk, fail);
	case SL_TASK_GRAD:
		return encode(m, SL_DIR_MID_GRAD, &m->dy, chunk, fail);
	case SL_TASK_HEAD_BWD:
		return decode(m, SL_DIR_HEAD_GRAD, &m->dx, chunk, fail);
	case SL_TASK_COMMIT:
		return commit(m, fail);
	default:
		return sl_fail_set(fail, SL_ERR_BUG, "a client has no task %s", sl_task_name(task));
	}
}

float *sl_lib_place(void *arg, enum sl_dir dir, int chunk)
{
	const struct split_middle *m = arg;
	const struct sl_lib_slots *s = dir == SL_DIR_MID_ACT ? &m->y : &m->dx;

	return s->value[0].data + chunk * s->value[0].stride;
}
