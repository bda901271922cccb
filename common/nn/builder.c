#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/nn/model.h"

enum { FIRST_CAP = 32 };

static const int no_input = -1;

/* Keeps the first failure only: what follows it is its consequence. */
static int give_up(struct sl_model_builder *b, enum sl_err err)
{
	if (b->err == SL_OK)
		b->err = err;
	return -1;
}

void sl_builder_refuse(struct sl_model_builder *b, const char *fmt, ...)
{
	char text[SL_FAIL_TEXT];
	va_list args;

	if (b->err != SL_OK)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	give_up(b, sl_fail_set(b->fail, SL_ERR_CONFIG, "%s", text));
}

static bool copy_name(struct sl_model_builder *b, char dst[SL_NAME_MAX], const char *name, const char *suffix)
{
	size_t len = strlen(name), more = strlen(suffix);

	if (len + more >= SL_NAME_MAX) {
		give_up(b, sl_fail_set(b->fail, SL_ERR_CONFIG, "the name %.40s… is longer than %d bytes", name,
				       SL_NAME_MAX - 1));
		return false;
	}
	memcpy(dst, name, len);
	memcpy(dst + len, suffix, more + 1);
	return true;
}

/* Makes room for one more element behind *list, which has `count` of them. */
static bool grow(struct sl_model_builder *b, void **list, int count, int *cap, size_t size)
{
	if (count < *cap)
		return true;
	int more = *cap ? *cap * 2 : FIRST_CAP;
	void *bigger = realloc(*list, (size_t)more * size);
	if (!bigger) {
		give_up(b, sl_fail_set(b->fail, SL_ERR_NOMEM, "no memory for a model of %d parts", more));
		return false;
	}
	*list = bigger;
	*cap = more;
	return true;
}

enum sl_err sl_builder_open(struct sl_model_builder *b, const char *name, struct sl_shape input, int classes,
			    struct sl_fail *fail)
{
	int64_t count;

	memset(b, 0, sizeof(*b));
	b->fail = fail;
	if (!sl_shape_count_checked(&input, INT32_MAX, &count) || input.dim[0] != 1) {
		char text[SL_SHAPE_TEXT];

		b->err = sl_fail_set(fail, SL_ERR_CONFIG, "%s: no model has an input of %s", name,
				     sl_shape_text(&input, text));
		return b->err;
	}
	b->model = calloc(1, sizeof(*b->model));
	if (!b->model)
		return b->err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a model");
	b->model->input = input;
	b->model->classes = classes;
	if (copy_name(b, b->model->name, name, "") &&
	    grow(b, (void **)&b->value_shape, 0, &b->cap_value, sizeof(*b->value_shape))) {
		b->value_shape[0] = input;
		b->model->n_value = 1;
	}
	if (b->err != SL_OK) {
		sl_model_close(b->model);
		b->model = NULL;
	}
	return b->err;
}

/* A new op with its inputs' shapes set; NULL after any failure. It counts once finish_op has accepted it. */
static struct sl_op *begin_op(struct sl_model_builder *b, enum sl_op_kind kind, const char *name, int in0, int in1)
{
	struct sl_model *m = b->model;
	const int in[SL_OP_MAX_IN] = {in0, in1};

	if (b->err != SL_OK || !grow(b, (void **)&m->op, m->n_op, &b->cap_op, sizeof(*m->op)) ||
	    !grow(b, (void **)&b->value_shape, m->n_value, &b->cap_value, sizeof(*b->value_shape)))
		return NULL;
	struct sl_op *op = &m->op[m->n_op];
	memset(op, 0, sizeof(*op));
	op->kind = kind;
	op->stream = (uint16_t)m->n_op;
	op->out = m->n_value;
	if (!copy_name(b, op->name, name, ""))
		return NULL;
	for (int i = 0; i < SL_OP_MAX_IN && in[i] != no_input; i++) {
		if (in[i] < 0 || in[i] >= m->n_value) {
			give_up(b, sl_fail_set(b->fail, SL_ERR_BUG, "%s: there is no value %d yet", name, in[i]));
			return NULL;
		}
		op->in[i] = in[i];
		op->in_shape[i] = b->value_shape[in[i]];
		op->n_in++;
	}
	return op;
}

/* Infers the shape and makes the op part of the model; -1 after a failure. */
static int finish_op(struct sl_model_builder *b, struct sl_op *op)
{
	struct sl_model *m = b->model;
	enum sl_err err;
	int64_t count;

	if (b->err != SL_OK)
		return -1;
	err = sl_op_infer_shape(op, b->fail);
	if (err != SL_OK)
		return give_up(b, err);
	if (!sl_shape_count_checked(&op->out_shape, INT32_MAX, &count) || m->n_op >= SL_RNG_INIT)
		return give_up(b, sl_fail_set(b->fail, SL_ERR_CONFIG, "%s: too large a model", op->name));
	b->value_shape[m->n_value++] = op->out_shape;
	m->n_op++;
	return op->out;
}

/* What a parameter is, beside its name and shapes. */
struct param_kind {
	const char *suffix;
	enum sl_init_kind init;
	enum sl_param_layout layout;
	int64_t fan;
	bool trainable;
};

static void add_param(struct sl_model_builder *b, struct sl_op *op, struct param_kind kind, struct sl_shape shape,
		      struct sl_shape file_shape)
{
	struct sl_model *m = b->model;

	if (b->err != SL_OK || !grow(b, (void **)&m->param, m->n_param, &b->cap_param, sizeof(*m->param)))
		return;
	struct sl_param *p = &m->param[m->n_param];
	*p = (struct sl_param){.shape = shape,
			       .file_shape = file_shape,
			       .layout = kind.layout,
			       .init = kind.init,
			       .fan = kind.fan,
			       .trainable = kind.trainable};
	if (!copy_name(b, p->name, op->name, kind.suffix))
		return;
	op->param[op->n_param++] = m->n_param++;
}

static void add_vector(struct sl_model_builder *b, struct sl_op *op, const char *suffix, int64_t count,
		       enum sl_init_kind init, bool trainable)
{
	add_param(b, op, (struct param_kind){.suffix = suffix, .init = init, .trainable = trainable}, sl_shape1(count),
		  sl_shape1(count));
}

int sl_build_conv_from(struct sl_model_builder *b, const char *name, int in, struct sl_conv_attr attr,
		       enum sl_init_kind init)
{
	struct sl_op *op = begin_op(b, SL_OP_CONV2D, name, in, no_input);
	struct param_kind weight = {.suffix = ".weight",
				    .init = init,
				    .layout = SL_LAYOUT_OHWI_FROM_OIHW,
				    .fan = (int64_t)attr.kh * attr.kw,
				    .trainable = true};

	if (!op)
		return -1;
	op->u.conv = attr;
	weight.fan *= init == SL_INIT_UNIFORM_FAN_IN ? attr.in_c / (attr.groups ? attr.groups : 1) : attr.out_c;
	if (sl_op_is_depthwise(op)) {
		weight.layout = SL_LAYOUT_HWC_FROM_C1HW;
		add_param(b, op, weight, (struct sl_shape){3, {attr.kh, attr.kw, attr.out_c}},
			  sl_shape4(attr.out_c, 1, attr.kh, attr.kw));
	} else {
		add_param(b, op, weight, sl_shape4(attr.out_c, attr.kh, attr.kw, attr.in_c),
			  sl_shape4(attr.out_c, attr.in_c, attr.kh, attr.kw));
	}
	if (attr.bias)
		add_vector(b, op, ".bias", attr.out_c, SL_INIT_ZERO, true);
	return finish_op(b, op);
}

int sl_build_conv(struct sl_model_builder *b, const char *name, int in, struct sl_conv_attr attr)
{
	return sl_build_conv_from(b, name, in, attr, SL_INIT_KAIMING_FAN_OUT);
}

int sl_build_bn(struct sl_model_builder *b, const char *name, int in)
{
	struct sl_op *op = begin_op(b, SL_OP_BATCHNORM, name, in, no_input);

	if (!op)
		return -1;
	op->u.bn = (struct sl_bn_attr){.c = (int)op->in_shape[0].dim[3], .eps = 1e-5f, .momentum = 0.1f};
	add_vector(b, op, ".weight", op->u.bn.c, SL_INIT_ONE, true);
	add_vector(b, op, ".bias", op->u.bn.c, SL_INIT_ZERO, true);
	add_vector(b, op, ".running_mean", op->u.bn.c, SL_INIT_ZERO, false);
	add_vector(b, op, ".running_var", op->u.bn.c, SL_INIT_ONE, false);
	return finish_op(b, op);
}

int sl_build_act(struct sl_model_builder *b, const char *name, int in, enum sl_act act)
{
	struct sl_op *op = begin_op(b, SL_OP_ACT, name, in, no_input);

	if (!op)
		return -1;
	op->u.act = act;
	return finish_op(b, op);
}

int sl_build_add(struct sl_model_builder *b, const char *name, int a, int bb)
{
	struct sl_op *op = begin_op(b, SL_OP_ADD, name, a, bb);

	return op ? finish_op(b, op) : -1;
}

int sl_build_pool(struct sl_model_builder *b, const char *name, int in, enum sl_op_kind kind, struct sl_pool_attr attr)
{
	struct sl_op *op = begin_op(b, kind, name, in, no_input);

	if (!op)
		return -1;
	op->u.pool = attr;
	return finish_op(b, op);
}

int sl_build_scale(struct sl_model_builder *b, const char *name, int in, float by)
{
	struct sl_op *op = begin_op(b, SL_OP_SCALE, name, in, no_input);

	if (!op)
		return -1;
	op->u.scale.by = by;
	return finish_op(b, op);
}

int sl_build_flatten(struct sl_model_builder *b, const char *name, int in)
{
	struct sl_op *op = begin_op(b, SL_OP_FLATTEN, name, in, no_input);

	return op ? finish_op(b, op) : -1;
}

int sl_build_dropout(struct sl_model_builder *b, const char *name, int in, float p)
{
	struct sl_op *op = begin_op(b, SL_OP_DROPOUT, name, in, no_input);

	if (!op)
		return -1;
	op->u.dropout.p = p;
	return finish_op(b, op);
}

int sl_build_linear(struct sl_model_builder *b, const char *name, int in, struct sl_linear_attr attr,
		    enum sl_init_kind init)
{
	struct sl_op *op = begin_op(b, SL_OP_LINEAR, name, in, no_input);
	struct sl_shape weight = sl_shape2(attr.out_f, attr.in_f);

	if (!op)
		return -1;
	op->u.linear = attr;
	add_param(b, op,
		  (struct param_kind){.suffix = ".weight",
				      .init = init,
				      .fan = init == SL_INIT_UNIFORM_FAN_IN ? attr.in_f : attr.out_f,
				      .trainable = true},
		  weight, weight);
	if (attr.bias)
		add_vector(b, op, ".bias", attr.out_f, SL_INIT_ZERO, true);
	return finish_op(b, op);
}

int sl_build_xent(struct sl_model_builder *b, const char *name, int logits)
{
	struct sl_op *op = begin_op(b, SL_OP_XENT, name, logits, no_input);

	if (!op)
		return -1;
	op->u.xent.classes = b->model->classes;
	return finish_op(b, op);
}

void sl_build_unit(struct sl_model_builder *b, const char *name)
{
	struct sl_model *m = b->model;

	if (b->err != SL_OK || !grow(b, (void **)&m->unit, m->n_unit, &b->cap_unit, sizeof(*m->unit)))
		return;
	struct sl_unit *unit = &m->unit[m->n_unit];
	if (!copy_name(b, unit->name, name, ""))
		return;
	unit->first_op = m->n_op;
	if (m->n_unit > 0)
		unit[-1].end_op = m->n_op;
	m->n_unit++;
}

static enum sl_err check_units(struct sl_model_builder *b)
{
	struct sl_model *m = b->model;

	if (m->n_unit == 0 || m->unit[0].first_op != 0)
		return sl_fail_set(b->fail, SL_ERR_BUG, "%s: its first op lies in no unit", m->name);
	m->unit[m->n_unit - 1].end_op = m->n_op;
	for (int i = 0; i < m->n_unit; i++)
		if (m->unit[i].end_op <= m->unit[i].first_op)
			return sl_fail_set(b->fail, SL_ERR_BUG, "%s: unit %s is empty", m->name, m->unit[i].name);
	return SL_OK;
}

enum sl_err sl_builder_finish(struct sl_model_builder *b, struct sl_model **out)
{
	if (b->err == SL_OK)
		b->err = check_units(b);
	free(b->value_shape);
	b->value_shape = NULL;
	if (b->err == SL_OK)
		*out = b->model;
	else
		sl_model_close(b->model);
	b->model = NULL;
	return b->err;
}
