#include "tests/support/mixed.h"

#include <stdlib.h>

#include "tests/ref/ref.h"
#include "tests/support/half.h"
#include "tests/support/op_case.h"

static struct sl_backend_ops ops;
static struct sl_kernel kernels[SL_OP_COUNT];
static const struct sl_backend_ops *ref;

/* A 16-bit tensor widened to floats while an op runs; data is NULL if the op has no such tensor. */
struct wide {
	const struct sl_tensor *low;
	struct sl_tensor t;
};

static struct wide widen(const struct sl_tensor *low, bool read)
{
	struct wide w = {low, *low};
	int64_t count = sl_shape_count(&low->shape);

	w.t.dtype = SL_F32;
	if (!low->data)
		return w;
	w.t.data = op_xalloc((size_t)count * sizeof(float));
	if (read)
		half_load(low->dtype, w.t.data, low->data, count);
	return w;
}

static void narrow(struct wide *w, bool write)
{
	if (write && w->t.data)
		half_store(w->low->dtype, w->low->data, w->t.data, sl_shape_count(&w->low->shape));
	free(w->t.data);
}

/* A copy of the call in which a weight that is multiplied has its 16-bit values. */
static struct sl_op_call with_low_weight(const struct sl_op_call *call)
{
	const struct sl_op *op = call->op;
	struct sl_op_call c = *call;
	int64_t count;

	if (!op->n_param || !call->param_low[0] || op->kind == SL_OP_BATCHNORM || sl_op_is_depthwise(op))
		return c;
	count = op_param_count(op, 0);
	c.param[0] = op_xalloc((size_t)count * sizeof(float));
	half_load(sl_precision_dtype(op->precision), c.param[0], call->param_low[0], count);
	return c;
}

static void drop_low_weight(const struct sl_op_call *c, const struct sl_op_call *call)
{
	if (c->param[0] != call->param[0])
		free(c->param[0]);
}

static enum sl_err forward(const struct sl_op_call *call)
{
	struct sl_op_call c = with_low_weight(call);
	struct wide in[SL_OP_MAX_IN], out = widen(&call->out, false);
	enum sl_err err;

	for (int i = 0; i < call->op->n_in; i++) {
		in[i] = widen(&call->in[i], true);
		c.in[i] = in[i].t;
	}
	c.out = out.t;
	err = ref->kernel[call->op->kind]->forward(&c);
	for (int i = 0; i < call->op->n_in; i++)
		narrow(&in[i], false);
	narrow(&out, !err);
	drop_low_weight(&c, call);
	return err;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	struct sl_op_call c = with_low_weight(call);
	struct wide in[SL_OP_MAX_IN], din[SL_OP_MAX_IN];
	struct wide out = widen(&call->out, true), dout = widen(&call->dout, true);
	enum sl_err err;

	for (int i = 0; i < call->op->n_in; i++) {
		in[i] = widen(&call->in[i], true);
		din[i] = widen(&call->din[i], call->din_add[i]);
		c.in[i] = in[i].t;
		c.din[i] = din[i].t;
	}
	c.out = out.t;
	c.dout = dout.t;
	err = ref->kernel[call->op->kind]->backward(&c);
	for (int i = 0; i < call->op->n_in; i++) {
		narrow(&in[i], false);
		narrow(&din[i], !err);
	}
	narrow(&out, false);
	narrow(&dout, false);
	drop_low_weight(&c, call);
	return err;
}

static enum sl_err convert(struct sl_backend *be, void *out, enum sl_dtype to, const void *x, enum sl_dtype from,
			   const float *scale, int64_t count)
{
	float *wide = op_xalloc((size_t)count * sizeof(float));

	(void)be;
	half_load(from, wide, x, count);
	for (int64_t i = 0; i < count && scale; i++)
		wide[i] *= *scale;
	half_store(to, out, wide, count);
	free(wide);
	return SL_OK;
}

enum sl_err mixed_backend_open(struct sl_backend *be, struct sl_fail *fail)
{
	enum sl_err err = sl_ref_backend_open(be, fail);

	if (err)
		return err;
	ref = be->ops;
	ops = *ref;
	ops.name = "mixed";
	ops.precisions = 1u << SL_PRECISION_BF16 | 1u << SL_PRECISION_FP16;
	ops.convert = convert;
	for (int k = 0; k < SL_OP_COUNT; k++) {
		if (!ref->kernel[k])
			continue;
		kernels[k] = *ref->kernel[k];
		kernels[k].forward = forward;
		kernels[k].backward = backward;
		ops.kernel[k] = &kernels[k];
	}
	be->ops = &ops;
	return SL_OK;
}
