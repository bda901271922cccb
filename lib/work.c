/* The tasks of a pass, on the worker: encode what the caller gave, decode what the server sent. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/exec/finite.h"
#include "common/link/wire.h"
#include "lib/impl.h"

static enum sl_err slots_open(const struct split_middle *m, struct sl_lib_slots *s, bool mid, struct sl_fail *fail)
{
	const struct sl_shape shape = sl_plan_cut_shape(m->plan, mid, sl_plan_cut_most(m->plan, mid));
	const int chunks = sl_plan_chunks_of(m->plan, m->plan->spec.batch);
	void *data;
	enum sl_err err;

	s->row = sl_shape_row(&shape);
	s->stride = (int64_t)(sl_align((size_t)sl_shape_count(&shape) * sizeof(float)) / sizeof(float));
	err = m->be.ops->alloc((struct sl_backend *)(uintptr_t)&m->be,
			       (size_t)chunks * (size_t)s->stride * sizeof(float), &data, fail);
	s->data = err ? NULL : data;
	return err;
}

enum sl_err sl_lib_slots_open(struct split_middle *m, struct sl_fail *fail)
{
	enum sl_err err = slots_open(m, &m->x, false, fail);

	if (!err)
		err = slots_open(m, &m->y, true, fail);
	if (!err)
		err = slots_open(m, &m->dy, true, fail);
	if (!err && !m->plan->spec.no_grad[0])
		err = slots_open(m, &m->dx, false, fail);
	m->begin = calloc((size_t)m->plan->spec.chunks * (size_t)(m->plan->rows + 1), sizeof *m->begin);
	return !err && !m->begin ? sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a batch") : err;
}

void sl_lib_slots_close(struct split_middle *m)
{
	struct sl_lib_slots *all[] = {&m->x, &m->y, &m->dy, &m->dx};

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		if (all[i]->data)
			m->be.ops->free(&m->be, all[i]->data);
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

void sl_lib_scatter(const struct split_middle *m, const struct sl_lib_call *c, struct sl_lib_slots *s, bool mid,
		    const float *from)
{
	for (int i = 0; i < c->chunks; i++) {
		int64_t first, count = part_of(m, c, mid, i, &first);

		memcpy(s->data + (c->first + i) * s->stride, from + first * s->row,
		       (size_t)(count * s->row) * sizeof(float));
	}
}

void sl_lib_gather(const struct split_middle *m, const struct sl_lib_call *c, const struct sl_lib_slots *s, bool mid,
		   float *to)
{
	for (int i = 0; i < c->chunks; i++) {
		int64_t first, count = part_of(m, c, mid, i, &first);

		memcpy(to + first * s->row, s->data + (c->first + i) * s->stride,
		       (size_t)(count * s->row) * sizeof(float));
	}
}

static struct sl_tensor slot(struct split_middle *m, const struct sl_lib_slots *s, bool mid, int chunk)
{
	const struct sl_dims dims = sl_port_dims(sl_link_port(m->link), chunk);

	return (struct sl_tensor){.dtype = SL_F32,
				  .shape = sl_plan_cut_shape(m->plan, mid, sl_plan_cut_count(m->plan, mid, &dims)),
				  .data = s->data + chunk * s->stride,
				  .be = &m->be};
}

static enum sl_err encode(struct split_middle *m, enum sl_dir dir, const struct sl_lib_slots *s, bool mid, int chunk,
			  struct sl_fail *fail)
{
	const struct sl_tensor x = slot(m, s, mid, chunk);

	return sl_port_encode(sl_link_port(m->link), dir, chunk, &x, fail);
}

/* If the caller has already seen this tensor, another link must bring the same bits. */
static enum sl_err decode(struct split_middle *m, enum sl_dir dir, struct sl_lib_slots *s, bool mid, int chunk,
			  struct sl_fail *fail)
{
	struct sl_tensor x = slot(m, s, mid, chunk);
	enum sl_err err = sl_port_decode(sl_link_port(m->link), dir, chunk, &x, fail);
	uint64_t hash;

	if (!err && sl_link_session(m->link)->training) /* our server has checked; another may not */
		err = sl_finite_tensor(&x, sl_dir_name(dir), chunk, fail);
	if (err)
		return err;
	hash = sl_wire_hash((struct sl_bytes){x.data, (size_t)sl_shape_count(&x.shape) * sizeof(float)});
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
		return encode(m, SL_DIR_HEAD_ACT, &m->x, false, chunk, fail);
	case SL_TASK_TAIL:
		return decode(m, SL_DIR_MID_ACT, &m->y, true, chunk, fail);
	case SL_TASK_GRAD:
		return encode(m, SL_DIR_MID_GRAD, &m->dy, true, chunk, fail);
	case SL_TASK_HEAD_BWD:
		return decode(m, SL_DIR_HEAD_GRAD, &m->dx, false, chunk, fail);
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

	return s->data + chunk * s->stride;
}
