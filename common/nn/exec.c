#include "common/nn/exec.h"

#include <stdlib.h>
#include <string.h>

#include "common/nn/layout.h"

struct sl_exec {
	const struct sl_plan *plan;
	const struct sl_plan_segment *segment;
	struct sl_backend *be;
	void **state;             /* [n_op] the kernels' */
	struct sl_fusion *fusion; /* [n_op] */
	struct sl_layout layout;
	int slots;
	float *weight, *grad, *momentum; /* device: [weight_count], [trainable_count], [trainable_count] */
	unsigned char *slot_area, *scratch, *saved_area, *workspace; /* device */
};

static const struct sl_kernel *kernel_of(const struct sl_exec *e, int i)
{
	return e->be->ops->kernel[e->segment->op[i].op.kind];
}

static enum sl_err prepare_ops(struct sl_exec *e, struct sl_op_sizes *sizes, struct sl_fail *fail)
{
	for (int i = 0; i < e->segment->n_op; i++) {
		const struct sl_op *op = &e->segment->op[i].op;
		const struct sl_kernel *k = kernel_of(e, i);
		enum sl_err err;

		if (!k)
			return sl_fail_set(fail, SL_ERR_CONFIG, "%s: the backend %s has no %s", op->name,
					   e->be->ops->name, sl_op_kind_name(op->kind));
		err = k->prepare(e->be, op, &e->state[i], &sizes[i], fail);
		if (err)
			return err;
	}
	return SL_OK;
}

static enum sl_err take(struct sl_exec *e, void *out, size_t bytes, struct sl_fail *fail)
{
	void *ptr;
	enum sl_err err = e->be->ops->alloc(e->be, bytes ? bytes : 1, &ptr, fail);

	if (!err)
		memcpy(out, &ptr, sizeof ptr);
	return err;
}

enum sl_err sl_exec_allocate(struct sl_exec *e, struct sl_fail *fail)
{
	const struct sl_plan_segment *s = e->segment;
	const struct sl_layout *l = &e->layout;
	size_t slots = (size_t)e->slots;
	enum sl_err err = take(e, &e->weight, (size_t)s->weight_count * sizeof(float), fail);

	if (!err)
		err = take(e, &e->grad, (size_t)s->trainable_count * sizeof(float), fail);
	if (!err)
		err = take(e, &e->momentum, (size_t)s->trainable_count * sizeof(float), fail);
	if (!err)
		err = take(e, &e->slot_area, slots * l->slot_bytes, fail);
	if (!err)
		err = take(e, &e->saved_area, slots * l->saved_bytes, fail);
	if (!err)
		err = take(e, &e->scratch, l->scratch_bytes, fail);
	if (!err)
		err = take(e, &e->workspace, l->workspace_bytes, fail);
	return err;
}

enum sl_err sl_exec_prepare(struct sl_exec **out, const struct sl_plan *plan, enum sl_segment which,
			    struct sl_backend *be, struct sl_fail *fail)
{
	const struct sl_plan_segment *s = &plan->segment[which];
	struct sl_exec *e = calloc(1, sizeof *e);
	struct sl_op_sizes *sizes = calloc((size_t)s->n_op, sizeof *sizes);
	enum sl_err err;

	if (e) {
		*e = (struct sl_exec){
			.plan = plan, .segment = s, .be = be, .slots = sl_plan_chunks_of(plan, plan->spec.batch)};
		e->state = calloc((size_t)s->n_op, sizeof *e->state);
		e->fusion = calloc((size_t)s->n_op, sizeof *e->fusion);
	}
	if (!e || !e->state || !e->fusion || !sizes) {
		if (e) {
			free(e->state);
			free(e->fusion);
		}
		free(e);
		free(sizes);
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the executor");
	}
	sl_fuse_find(e->fusion, be, s);
	err = prepare_ops(e, sizes, fail);
	if (!err && sl_layout_open(&e->layout, plan->model, s, e->fusion, sizes))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the layout");
	free(sizes);
	if (err) {
		sl_exec_close(e);
		return err;
	}
	*out = e;
	return SL_OK;
}

enum sl_err sl_exec_open(struct sl_exec **out, const struct sl_plan *plan, enum sl_segment which, struct sl_backend *be,
			 struct sl_fail *fail)
{
	struct sl_exec *e;
	enum sl_err err = sl_exec_prepare(&e, plan, which, be, fail);

	if (err)
		return err;
	err = sl_exec_allocate(e, fail);
	if (err) {
		sl_exec_close(e);
		return err;
	}
	*out = e;
	return SL_OK;
}

void sl_exec_close(struct sl_exec *e)
{
	if (!e)
		return;
	for (int i = 0; i < e->segment->n_op; i++) {
		const struct sl_kernel *k = kernel_of(e, i);

		if (k && k->release && e->state[i])
			k->release(e->be, e->state[i]);
	}
	void *const area[] = {e->weight, e->grad, e->momentum, e->slot_area, e->saved_area, e->scratch, e->workspace};

	for (size_t i = 0; i < sizeof area / sizeof area[0]; i++)
		if (area[i])
			e->be->ops->free(e->be, area[i]);
	sl_layout_close(&e->layout);
	free(e->state);
	free(e->fusion);
	free(e);
}

struct sl_exec_memory sl_exec_memory(const struct sl_exec *e)
{
	const struct sl_plan_segment *s = e->segment;
	size_t slots = (size_t)e->slots;
	struct sl_exec_memory m = {
		.weights = (size_t)(s->weight_count + 2 * s->trainable_count) * sizeof(float),
		.slots = slots * (e->layout.slot_bytes + e->layout.saved_bytes),
		.scratch = e->layout.scratch_bytes + e->layout.workspace_bytes,
	};

	m.total = m.weights + m.slots + m.scratch;
	return m;
}

const struct sl_plan_segment *sl_exec_segment(const struct sl_exec *e)
{
	return e->segment;
}

enum sl_err sl_exec_set_weights(struct sl_exec *e, const float *host)
{
	return e->be->ops->upload(e->be, e->weight, host, (size_t)e->segment->weight_count * sizeof *host);
}

enum sl_err sl_exec_get_weights(struct sl_exec *e, float *host)
{
	return e->be->ops->download(e->be, host, e->weight, (size_t)e->segment->weight_count * sizeof *host);
}

enum sl_err sl_exec_set_momentum(struct sl_exec *e, const float *host)
{
	return e->be->ops->upload(e->be, e->momentum, host, (size_t)e->segment->trainable_count * sizeof *host);
}

enum sl_err sl_exec_get_momentum(struct sl_exec *e, float *host)
{
	return e->be->ops->download(e->be, host, e->momentum, (size_t)e->segment->trainable_count * sizeof *host);
}

enum sl_err sl_exec_get_gradients(struct sl_exec *e, float *host)
{
	return e->be->ops->download(e->be, host, e->grad, (size_t)e->segment->trainable_count * sizeof *host);
}

static void *address(struct sl_exec *e, const struct sl_place *place, int slot)
{
	switch (place->region) {
	case SL_REGION_SLOT:
		return e->slot_area + (size_t)slot * e->layout.slot_bytes + place->offset;
	case SL_REGION_SCRATCH:
		return e->scratch + place->offset;
	default:
		return NULL;
	}
}

static struct sl_tensor tensor_at(struct sl_exec *e, const struct sl_place *place, int slot, struct sl_shape shape)
{
	return (struct sl_tensor){SL_F32, shape, address(e, place, slot), e->be};
}

struct sl_tensor sl_exec_input(struct sl_exec *e, int slot, int64_t rows)
{
	const struct sl_plan_segment *s = e->segment;

	return tensor_at(e, &e->layout.value[s->in_value], slot, sl_shape_rows(s->in_shape, rows));
}

struct sl_tensor sl_exec_output(struct sl_exec *e, int slot, int64_t rows)
{
	const struct sl_plan_segment *s = e->segment;

	return tensor_at(e, &e->layout.value[s->out_value], slot, sl_shape_rows(s->out_shape, rows));
}

struct sl_tensor sl_exec_dout(struct sl_exec *e, int slot, int64_t rows)
{
	const struct sl_plan_segment *s = e->segment;

	return tensor_at(e, &e->layout.grad[s->out_value], slot, sl_shape_rows(s->out_shape, rows));
}

struct sl_tensor sl_exec_din(struct sl_exec *e, int slot, int64_t rows)
{
	const struct sl_plan_segment *s = e->segment;

	return tensor_at(e, &e->layout.grad[s->in_value], slot, sl_shape_rows(s->in_shape, rows));
}

/* Everything of one op's call but the tensors. */
static struct sl_op_call op_call(struct sl_exec *e, int i, const struct sl_exec_call *call)
{
	const struct sl_segment_op *so = &e->segment->op[i];
	struct sl_op_call c = {
		.rng = {e->plan->spec.seed, call->step, (uint16_t)call->slot, so->op.stream},
		.training = call->training,
		.saved = e->saved_area + (size_t)call->slot * e->layout.saved_bytes + e->layout.saved_offset[i],
		.workspace = e->workspace,
	};

	for (int k = 0; k < so->op.n_param; k++) {
		int64_t offset = e->segment->param[so->param[k]].offset;

		c.param[k] = e->weight + offset;
		c.grad[k] = offset < e->segment->trainable_count ? e->grad + offset : NULL;
	}
	return c;
}

/* An op's call with those of the batchnorms beside it. Points into itself: not to be copied. */
struct fused_call {
	struct sl_op_call call, side_call[2];
	struct sl_op_side side[2];
};

static void open_fused(struct fused_call *f, struct sl_exec *e, int i, const struct sl_exec_call *call)
{
	const int at[2] = {e->fusion[i].before, e->fusion[i].after};

	f->call = op_call(e, i, call);
	for (int k = 0; k < 2; k++) {
		if (at[k] < 0)
			continue;
		f->side_call[k] = op_call(e, at[k], call);
		f->side[k] = (struct sl_op_side){&e->segment->op[at[k]].op, &f->side_call[k]};
	}
	f->call.before = at[0] >= 0 ? &f->side[0] : NULL;
	f->call.after = at[1] >= 0 ? &f->side[1] : NULL;
}

/* A batchnorm whose whole work the convolutions on both sides do. */
static bool is_absorbed(const struct sl_exec *e, int i)
{
	return e->fusion[i].producer >= 0 && e->fusion[i].consumer >= 0;
}

static struct sl_tensor op_input(struct sl_exec *e, int i, int k, int slot, struct sl_shape shape)
{
	return tensor_at(e, &e->layout.value[sl_fuse_input(e->fusion, e->segment, i, k)], slot, shape);
}

static struct sl_shape op_shape(const struct sl_op *op, struct sl_shape shape, int64_t rows, bool output)
{
	return output && op->kind == SL_OP_XENT ? shape : sl_shape_rows(shape, rows);
}

enum sl_err sl_exec_begin(struct sl_exec *e)
{
	return e->be->ops->zero(e->be, e->grad, (size_t)e->segment->trainable_count * sizeof(float));
}

static enum sl_err check_labels(const struct sl_exec *e, const struct sl_exec_loss *loss, int64_t rows)
{
	for (int64_t i = 0; i < rows; i++)
		if (loss->labels[i] < 0 || loss->labels[i] >= e->plan->model->classes)
			return SL_ERR_DATA;
	return SL_OK;
}

static enum sl_err forward_op(struct sl_exec *e, int i, const struct sl_exec_call *call, struct sl_exec_loss *loss)
{
	const struct sl_op *op = &e->segment->op[i].op;
	struct sl_tensor in[SL_OP_MAX_IN], out;
	struct fused_call f;

	open_fused(&f, e, i, call);
	f.call.reduced = e->fusion[i].producer >= 0;
	for (int k = 0; k < op->n_in; k++)
		in[k] = op_input(e, i, k, call->slot, op_shape(op, op->in_shape[k], call->rows, false));
	out = tensor_at(e, &e->layout.value[op->out], call->slot, op_shape(op, op->out_shape, call->rows, true));
	if (op->kind == SL_OP_XENT) {
		f.call.labels = loss->labels;
		f.call.loss_scale = loss->scale;
		f.call.loss_sum = &loss->sum;
		f.call.correct = &loss->correct;
	}
	return kernel_of(e, i)->forward(e->be, op, e->state[i], &f.call, in, &out);
}

enum sl_err sl_exec_forward(struct sl_exec *e, const struct sl_exec_call *call, struct sl_exec_loss *loss)
{
	const struct sl_plan_segment *s = e->segment;
	enum sl_err err = loss ? check_labels(e, loss, call->rows) : SL_OK;

	for (int i = 0; i < s->n_op && !err; i++)
		if (!is_absorbed(e, i))
			err = forward_op(e, i, call, loss);
	return err;
}

static enum sl_err backward_op(struct sl_exec *e, int i, const struct sl_exec_call *call,
			       const struct sl_exec_loss *loss)
{
	const struct sl_segment_op *so = &e->segment->op[i];
	const struct sl_op *op = &so->op;
	const struct sl_fusion *fusion = &e->fusion[i];
	struct sl_tensor in[SL_OP_MAX_IN], din[SL_OP_MAX_IN], out, dout;
	bool keeps_in = sl_op_saves_input(op), keeps_out = sl_op_saves_output(op) || fusion->after >= 0;
	struct sl_shape out_shape = op_shape(op, op->out_shape, call->rows, true);
	struct fused_call f;

	open_fused(&f, e, i, call);
	f.call.reduced = fusion->consumer >= 0;
	for (int k = 0; k < op->n_in; k++) {
		struct sl_shape shape = op_shape(op, op->in_shape[k], call->rows, false);

		in[k] = op_input(e, i, k, call->slot, shape);
		din[k] = tensor_at(e, &e->layout.grad[op->in[k]], call->slot, shape);
		if (!keeps_in)
			in[k].data = NULL;
		if (!so->din_want[k])
			din[k].data = NULL;
	}
	out = tensor_at(e, &e->layout.value[op->out], call->slot, out_shape);
	dout = tensor_at(e, &e->layout.grad[fusion->after >= 0 ? e->segment->op[fusion->after].op.out : op->out],
			 call->slot, out_shape);
	if (!keeps_out)
		out.data = NULL;
	if (op->kind == SL_OP_XENT) {
		f.call.labels = loss->labels;
		f.call.loss_scale = loss->scale;
	}
	return kernel_of(e, i)->backward(e->be, op, e->state[i], &f.call, in, &out,
					 op->kind == SL_OP_XENT ? NULL : &dout, din, so->din_add);
}

enum sl_err sl_exec_backward(struct sl_exec *e, const struct sl_exec_call *call, const struct sl_exec_loss *loss)
{
	enum sl_err err = SL_OK;

	for (int i = e->segment->n_op - 1; i >= 0 && !err; i--)
		if (!is_absorbed(e, i))
			err = backward_op(e, i, call, loss);
	return err;
}

enum sl_err sl_exec_commit(struct sl_exec *e, const struct sl_sgd *sgd, const int64_t *rows, int chunks)
{
	const struct sl_plan_segment *s = e->segment;
	enum sl_err err = SL_OK;

	for (int chunk = 0; chunk < chunks && !err; chunk++) {
		const struct sl_exec_call call = {.slot = chunk, .rows = rows[chunk], .training = true};

		for (int i = 0; i < s->n_op && !err; i++) {
			const struct sl_kernel *k = kernel_of(e, i);
			struct sl_op_call c = op_call(e, i, &call);

			if (k->commit)
				err = k->commit(e->be, &s->op[i].op, e->state[i], &c, rows[chunk]);
		}
	}
	return err ? err : e->be->ops->sgd(e->be, sgd, s->trainable_count, e->weight, e->grad, e->momentum);
}
