#include "common/nn/model.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/nn/lora.h"

enum { FIRST_CAP = 32 };

void sl_model_close(struct sl_model *model)
{
	if (!model)
		return;
	sl_graph_close(&model->graph);
	free(model->file);
	free(model->unit);
	free(model->adapter);
	free(model);
}

/* Keeps the first failure only: what follows it is its consequence. */
static int give_up(struct sl_build *b, enum sl_err err)
{
	if (b->err == SL_OK)
		b->err = err;
	return -1;
}

void sl_build_refuse(struct sl_build *b, const char *fmt, ...)
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

static bool copy_name(struct sl_build *b, char dst[SL_NAME_MAX], const char *name, const char *suffix)
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
static bool grow(struct sl_build *b, void **list, int count, int *cap, size_t size)
{
	int more = *cap ? *cap * 2 : FIRST_CAP;
	void *bigger;

	if (count < *cap)
		return true;
	bigger = realloc(*list, (size_t)more * size);
	if (!bigger) {
		give_up(b, sl_fail_set(b->fail, SL_ERR_NOMEM, "no memory for a model of %d parts", more));
		return false;
	}
	*list = bigger;
	*cap = more;
	return true;
}

static enum sl_err open_model(struct sl_build *b, const char *name, const struct sl_field *input,
			      const struct sl_graph_value *value, int classes, enum sl_lead labels,
			      struct sl_fail *fail)
{
	struct sl_model *m = calloc(1, sizeof(*m));
	enum sl_err err;

	*b = (struct sl_build){.model = m, .fail = fail};
	if (!m)
		return b->err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a model");
	b->graph = &m->graph;
	m->classes = classes;
	if (copy_name(b, m->name, name, "")) {
		err = sl_graph_add_input(b->graph, input->name, value->dtype, value->lead, value->shape, input->most,
					 NULL, fail);
		if (!err)
			err = classes == 1 && labels == SL_PER_ROW
				      ? sl_graph_add_input(b->graph, "number", SL_F32, SL_PER_ROW, sl_shape2(1, 1), 1,
							   NULL, fail)
				      : sl_graph_add_input(b->graph, "label", SL_I32, labels, sl_shape1(1), 1, NULL,
							   fail);
		b->err = err;
	}
	if (b->err != SL_OK) {
		sl_model_close(m);
		b->model = NULL;
	}
	return b->err;
}

enum sl_err sl_build_open(struct sl_build *b, const char *name, struct sl_shape image, int classes,
			  struct sl_fail *fail)
{
	const struct sl_field input = {.name = "image", .most = 1};
	const struct sl_graph_value value = {.dtype = SL_F32, .lead = SL_PER_ROW, .shape = image};

	return open_model(b, name, &input, &value, classes, SL_PER_ROW, fail);
}

enum sl_err sl_build_open_rows(struct sl_build *b, const char *name, int features, int classes, struct sl_fail *fail)
{
	const struct sl_field input = {.name = "row", .most = 1};
	const struct sl_graph_value value = {.dtype = SL_F32, .lead = SL_PER_ROW, .shape = sl_shape2(1, features)};

	return open_model(b, name, &input, &value, classes, SL_PER_ROW, fail);
}

enum sl_err sl_build_open_tokens(struct sl_build *b, const char *name, int most, int vocab, int classes,
				 struct sl_fail *fail)
{
	const struct sl_field input = {.name = "tokens", .most = most};
	const struct sl_graph_value value = {.dtype = SL_I32, .lead = SL_PER_TOKEN, .shape = sl_shape1(1)};
	enum sl_err err = open_model(b, name, &input, &value, classes, SL_PER_ROW, fail);

	if (!err)
		b->model->vocab = vocab;
	return err;
}

enum sl_err sl_build_open_masked(struct sl_build *b, const char *name, int most, int vocab, struct sl_fail *fail)
{
	const struct sl_field input = {.name = "tokens", .most = most};
	const struct sl_graph_value value = {.dtype = SL_I32, .lead = SL_PER_TOKEN, .shape = sl_shape1(1)};
	enum sl_err err = open_model(b, name, &input, &value, vocab, SL_PER_CHOSEN, fail);

	if (!err) {
		b->model->vocab = vocab;
		b->model->masked = true;
	}
	return err;
}

/* A node under construction; nothing is done after a failure. */
struct draft {
	struct sl_node node;
	int in[SL_OP_MAX_IN], param[SL_OP_MAX_PARAM];
};

static struct draft begin(struct sl_build *b, enum sl_op_kind kind, const char *name, int in)
{
	struct draft d = {.node = sl_node_of(kind), .in = {in}};

	d.node.stream = (uint16_t)b->graph->n_node;
	d.node.n_in = 1;
	copy_name(b, d.node.name, name, "");
	if (b->err == SL_OK && (in < 0 || in >= b->graph->n_value))
		give_up(b, sl_fail_set(b->fail, SL_ERR_BUG, "%s: there is no value %d yet", name, in));
	return d;
}

static int finish(struct sl_build *b, struct draft *d)
{
	enum sl_err err;
	int out;

	if (b->err != SL_OK)
		return -1;
	if (b->graph->n_node >= SL_RNG_INIT)
		return give_up(b, sl_fail_set(b->fail, SL_ERR_CONFIG, "%s: too large a model", d->node.name));
	err = sl_graph_add_node(b->graph, &d->node, d->in, d->param, &out, b->fail);
	return err ? give_up(b, err) : out;
}

/* What a parameter is, besides its name. `file`: [0] where weight files have the same shape. */
struct made_param {
	const char *suffix;
	struct sl_shape shape;
	struct sl_init init;
	enum sl_role role;
	struct sl_shape file;
	enum sl_param_layout layout;
	int64_t channels;
};

static void add_param(struct sl_build *b, struct draft *d, const struct made_param *made)
{
	struct sl_model *m = b->model;
	const bool frozen = b->lora && !b->adapting && !b->head && !b->insert && made->role == SL_LEARNS;
	struct sl_param param = {.shape = made->shape,
				 .init = made->init,
				 .stream = (uint32_t)m->graph.n_param,
				 .role = frozen ? SL_FROZEN : made->role};
	const char *given = b->param_name ? b->param_name[d->node.n_param] : NULL;
	enum sl_err err;

	if (b->err != SL_OK || !copy_name(b, param.name, given ? given : d->node.name, given ? "" : made->suffix) ||
	    !grow(b, (void **)&m->file, m->graph.n_param, &m->cap_file, sizeof(*m->file)))
		return;
	m->file[m->graph.n_param] = (struct sl_file_param){.shape = made->file.ndim ? made->file : made->shape,
							   .layout = made->layout,
							   .channels = made->channels,
							   .optional = b->insert || b->adapting,
							   .head = b->head};
	d->param[d->node.n_param++] = b->graph->n_param;
	err = sl_graph_add_param(b->graph, &param, b->fail);
	if (!err && b->graph != &m->graph)
		err = sl_graph_add_param(&m->graph, &param, b->fail);
	if (err)
		give_up(b, err);
}

static void add_vector(struct sl_build *b, struct draft *d, const char *suffix, int64_t count, enum sl_init_kind init,
		       enum sl_role role)
{
	add_param(b, d,
		  &(struct made_param){
			  .suffix = suffix, .shape = sl_shape1(count), .init = {.kind = init}, .role = role});
}

/* What the last dimension of a value counts; 1 after a failure. */
static int64_t last_of(const struct sl_build *b, int value)
{
	struct sl_shape shape = b->err != SL_OK || value < 0 ? sl_shape1(1) : sl_build_shape(b, value);

	return shape.dim[shape.ndim - 1];
}

int sl_build_conv_from(struct sl_build *b, const char *name, int in, struct sl_build_window w, struct sl_init init)
{
	struct draft d = begin(b, SL_OP_CONV2D, name, in);
	const int groups = w.groups ? w.groups : 1;
	const int64_t in_c = last_of(b, in), out_c = w.depthwise ? in_c : w.out_c;
	const int64_t per = in_c < groups ? 1 : in_c / groups; /* what does not divide is refused with the shapes */
	const bool depthwise = w.depthwise || (groups > 1 && groups == in_c && in_c == out_c);
	struct made_param weight = {.suffix = ".weight",
				    .shape = sl_shape4(out_c, w.k, w.k, per),
				    .init = init,
				    .file = sl_shape4(out_c, per, w.k, w.k),
				    .layout = SL_LAYOUT_OHWI_FROM_OIHW};

	d.node.u.conv.stride = w.stride ? w.stride : 1;
	d.node.u.conv.pad = w.pad;
	d.node.u.conv.groups = groups;
	d.node.u.conv.dilation = w.dilation ? w.dilation : 1;
	if (depthwise) {
		d.node.u.conv.groups = (int)in_c;
		weight.shape = (struct sl_shape){3, {w.k, w.k, in_c}};
		weight.file = sl_shape4(in_c, 1, w.k, w.k);
		weight.layout = SL_LAYOUT_HWC_FROM_C1HW;
	}
	add_param(b, &d, &weight);
	if (w.bias)
		add_param(b, &d,
			  &(struct made_param){.suffix = ".bias", .shape = sl_shape1(out_c), .init = w.bias_init});
	return finish(b, &d);
}

int sl_build_conv(struct sl_build *b, const char *name, int in, struct sl_build_window w)
{
	const int64_t out_c = w.depthwise ? last_of(b, in) : w.out_c;

	return sl_build_conv_from(b, name, in, w, sl_init_normal(sqrt(2.0 / (double)(out_c * w.k * w.k))));
}

int sl_build_convt(struct sl_build *b, const char *name, int in, struct sl_build_window w, int64_t height,
		   int64_t width, struct sl_init init)
{
	struct draft d = begin(b, SL_OP_CONVT2D, name, in);
	const int64_t in_c = last_of(b, in);
	const int stride = w.stride ? w.stride : 1;

	d.node.u.convt.stride = stride;
	d.node.u.convt.pad = w.pad;
	d.node.u.convt.out_pad_h = (int)((height + 2 * w.pad - w.k) % stride);
	d.node.u.convt.out_pad_w = (int)((width + 2 * w.pad - w.k) % stride);
	add_param(b, &d,
		  &(struct made_param){.suffix = ".weight",
				       .shape = sl_shape4(in_c, w.k, w.k, w.out_c),
				       .init = init,
				       .file = sl_shape4(in_c, w.out_c, w.k, w.k),
				       .layout = SL_LAYOUT_OHWI_FROM_OIHW});
	if (w.bias)
		add_vector(b, &d, ".bias", w.out_c, SL_INIT_ZERO, SL_LEARNS);
	return finish(b, &d);
}

int sl_build_bn(struct sl_build *b, const char *name, int in)
{
	return sl_build_bn_from(b, name, in, SL_INIT_ONE);
}

int sl_build_bn_from(struct sl_build *b, const char *name, int in, enum sl_init_kind weight)
{
	const struct sl_bn_attr usual = sl_node_of(SL_OP_BATCHNORM).u.bn;

	return sl_build_bn_with(b, name, in, weight, usual.eps, usual.momentum);
}

int sl_build_bn_with(struct sl_build *b, const char *name, int in, enum sl_init_kind weight, float eps, float momentum)
{
	struct draft d = begin(b, SL_OP_BATCHNORM, name, in);
	const int64_t c = last_of(b, in);

	d.node.u.bn.eps = eps;
	d.node.u.bn.momentum = momentum;
	add_vector(b, &d, ".weight", c, weight, SL_LEARNS);
	add_vector(b, &d, ".bias", c, SL_INIT_ZERO, SL_LEARNS);
	add_vector(b, &d, ".running_mean", c, SL_INIT_ZERO, SL_STATISTIC);
	add_vector(b, &d, ".running_var", c, SL_INIT_ONE, SL_STATISTIC);
	return finish(b, &d);
}

int sl_build_act(struct sl_build *b, const char *name, int in, enum sl_act act)
{
	struct draft d = begin(b, SL_OP_ACT, name, in);

	d.node.u.act = act;
	return finish(b, &d);
}

int sl_build_add(struct sl_build *b, const char *name, int x, int y)
{
	struct draft d = begin(b, SL_OP_ADD, name, x);

	d.in[d.node.n_in++] = y;
	return finish(b, &d);
}

int sl_build_mul(struct sl_build *b, const char *name, int x, int y)
{
	return sl_build_pair(b, name, SL_OP_MUL, x, y);
}

int sl_build_pair(struct sl_build *b, const char *name, enum sl_op_kind kind, int x, int y)
{
	struct draft d = begin(b, kind, name, x);

	d.in[d.node.n_in++] = y;
	return finish(b, &d);
}

int sl_build_smooth(struct sl_build *b, const char *name, int in, enum sl_op_kind kind, bool approximate)
{
	struct draft d = begin(b, kind, name, in);

	if (kind == SL_OP_GELU)
		d.node.u.gelu.tanh = approximate;
	return finish(b, &d);
}

int sl_build_attention(struct sl_build *b, const char *name, int q, int k, int v, struct sl_attention_attr attr)
{
	struct draft d = begin(b, SL_OP_ATTENTION, name, q);

	d.in[d.node.n_in++] = k;
	d.in[d.node.n_in++] = v;
	d.node.u.attention = attr;
	return finish(b, &d);
}

int sl_build_layernorm(struct sl_build *b, const char *name, int in, float eps)
{
	struct draft d = begin(b, SL_OP_LAYERNORM, name, in);

	d.node.u.norm.eps = eps;
	add_vector(b, &d, ".weight", last_of(b, in), SL_INIT_ONE, SL_LEARNS);
	add_vector(b, &d, ".bias", last_of(b, in), SL_INIT_ZERO, SL_LEARNS);
	return finish(b, &d);
}

int sl_build_rmsnorm(struct sl_build *b, const char *name, int in, float eps)
{
	struct draft d = begin(b, SL_OP_RMSNORM, name, in);

	d.node.u.norm.eps = eps;
	add_vector(b, &d, ".weight", last_of(b, in), SL_INIT_ONE, SL_LEARNS);
	return finish(b, &d);
}

int sl_build_pool(struct sl_build *b, const char *name, int in, enum sl_op_kind kind, struct sl_pool_attr attr)
{
	struct draft d = begin(b, kind, name, in);

	d.node.u.pool = attr;
	return finish(b, &d);
}

int sl_build_scale(struct sl_build *b, const char *name, int in, float by)
{
	struct draft d = begin(b, SL_OP_SCALE, name, in);

	d.node.u.scale.by = by;
	return finish(b, &d);
}

int sl_build_flatten(struct sl_build *b, const char *name, int in)
{
	struct draft d = begin(b, SL_OP_FLATTEN, name, in);

	return finish(b, &d);
}

int sl_build_dropout(struct sl_build *b, const char *name, int in, float p)
{
	struct draft d = begin(b, SL_OP_DROPOUT, name, in);

	d.node.u.dropout.p = p;
	return finish(b, &d);
}

/* The image [1,H,W,C] of more than one pixel that `value` is flattened from, with dropout or activations on the way;
 * NULL: there is none. Weight files know such values in another order. */
static const struct sl_shape *flattened(const struct sl_build *b, int value)
{
	while (b->err == SL_OK && value >= 0 && b->graph->value[value].maker >= 0) {
		const struct sl_node *n = &b->graph->node[b->graph->value[value].maker];
		const struct sl_shape *from;

		value = b->graph->link[n->in];
		from = &b->graph->value[value].shape;
		if (n->kind == SL_OP_FLATTEN)
			return from->ndim == 4 && from->dim[1] * from->dim[2] > 1 ? from : NULL;
		if (!sl_op_is_elementwise(n->kind))
			return NULL;
	}
	return NULL;
}

static int linear(struct sl_build *b, const char *name, int in, int out_f, struct sl_init init,
		  const struct sl_init *bias)
{
	struct draft d = begin(b, SL_OP_LINEAR, name, in);
	const struct sl_shape *image = flattened(b, in);
	struct made_param weight = {.suffix = ".weight", .shape = sl_shape2(out_f, last_of(b, in)), .init = init};
	int out;

	if (image) {
		weight.layout = SL_LAYOUT_HWC_FROM_CHW;
		weight.channels = image->dim[3];
	}
	add_param(b, &d, &weight);
	if (bias)
		add_param(b, &d, &(struct made_param){.suffix = ".bias", .shape = sl_shape1(out_f), .init = *bias});
	out = finish(b, &d);
	return out >= 0 && sl_lora_wants(b, name) ? sl_lora_build(b, name, in, out, d.param[0]) : out;
}

int sl_build_linear(struct sl_build *b, const char *name, int in, int out_f, bool bias, struct sl_init init)
{
	return linear(b, name, in, out_f, init, bias ? &(struct sl_init){SL_INIT_ZERO, 0} : NULL);
}

int sl_build_linear_as_torch(struct sl_build *b, const char *name, int in, int out_f)
{
	const struct sl_init init = sl_init_as_torch(last_of(b, in));

	return linear(b, name, in, out_f, init, &init);
}

int sl_build_identity(struct sl_build *b, const char *name, int in, int out_f, bool transposed)
{
	const bool image = b->err == SL_OK && in >= 0 && sl_build_shape(b, in).ndim == 4;
	const int64_t in_f = last_of(b, in), rows = transposed ? in_f : out_f, cols = transposed ? out_f : in_f;
	struct draft d = begin(b, !image ? SL_OP_LINEAR : transposed ? SL_OP_CONVT2D : SL_OP_CONV2D, name, in);

	if (!image)
		d.node.u.linear.transposed = transposed;
	add_param(b, &d,
		  &(struct made_param){.suffix = ".weight",
				       .shape = image ? sl_shape4(rows, 1, 1, cols) : sl_shape2(rows, cols),
				       .init = {.kind = SL_INIT_EYE},
				       .file = sl_shape2(rows, cols)});
	return finish(b, &d);
}

int sl_build_gelu(struct sl_build *b, const char *name, int in)
{
	struct draft d = begin(b, SL_OP_GELU, name, in);

	return finish(b, &d);
}

int sl_build_lookup(struct sl_build *b, const char *name, int in, struct sl_embedding_attr attr, struct sl_init init)
{
	struct draft d = begin(b, SL_OP_EMBEDDING, name, in);

	d.node.u.embedding = attr;
	add_param(
		b, &d,
		&(struct made_param){.suffix = ".weight", .shape = sl_shape2(attr.rows, attr.features), .init = init});
	return finish(b, &d);
}

int sl_build_embedding(struct sl_build *b, const char *name, int in, int features, double std)
{
	const struct sl_embedding_attr attr = {.rows = b->model->vocab, .features = features};

	return sl_build_lookup(b, name, in, attr, sl_init_normal(std));
}

void sl_build_adapter(struct sl_build *b, const struct sl_adapter *adapter)
{
	struct sl_model *m = b->model;

	if (b->err == SL_OK && grow(b, (void **)&m->adapter, m->n_adapter, &m->cap_adapter, sizeof(*m->adapter)))
		m->adapter[m->n_adapter++] = *adapter;
}

void sl_build_new_head(struct sl_build *b)
{
	b->head = true;
}

int sl_build_select(struct sl_build *b, const char *name, int in)
{
	struct draft d = begin(b, SL_OP_SELECT, name, in);

	return finish(b, &d);
}

int sl_build_gather(struct sl_build *b, const char *name, int in, float share)
{
	struct draft d = begin(b, SL_OP_GATHER, name, in);

	d.node.u.gather.share = share;
	return finish(b, &d);
}

int sl_build_decoder(struct sl_build *b, const char *name, int in, int weight, const char *bias, struct sl_init init)
{
	const int rows = b->model->vocab;
	struct draft d = begin(b, SL_OP_LINEAR, name, in), named = d;

	if (weight >= 0)
		d.param[d.node.n_param++] = weight;
	else
		add_param(b, &d,
			  &(struct made_param){
				  .suffix = ".weight", .shape = sl_shape2(rows, last_of(b, in)), .init = init});
	copy_name(b, named.node.name, bias, "");
	named.node.n_param = d.node.n_param;
	add_param(b, &named, &(struct made_param){.suffix = "", .shape = sl_shape1(rows)});
	d.param[d.node.n_param++] = named.param[named.node.n_param - 1];
	return finish(b, &d);
}

int sl_build_loss(struct sl_build *b, const char *name, int logits)
{
	const bool number = b->model->classes == 1 && !b->model->masked;
	struct draft d = begin(b, number ? SL_OP_MSE : SL_OP_XENT, name, logits);
	int loss;

	d.in[d.node.n_in++] = SL_BUILD_LABEL;
	if (b->err == SL_OK && last_of(b, logits) != b->model->classes)
		sl_build_refuse(b, "%s: %lld logits for %d classes", name, (long long)last_of(b, logits),
				b->model->classes);
	loss = finish(b, &d);
	if (b->err == SL_OK)
		b->err = sl_graph_add_output(b->graph, "loss", loss, NULL, b->fail);
	return loss;
}

int sl_build_mse(struct sl_build *b, const char *name, int in, int target)
{
	struct draft d = begin(b, SL_OP_MSE, name, in);
	int loss;

	d.in[d.node.n_in++] = target;
	loss = finish(b, &d);
	if (b->err == SL_OK)
		b->err = sl_graph_add_output(b->graph, "loss", loss, NULL, b->fail);
	return loss;
}

void sl_build_unit(struct sl_build *b, const char *name)
{
	sl_build_unit_at(b, name, b->model->graph.n_node);
}

void sl_build_unit_at(struct sl_build *b, const char *name, int first_node)
{
	struct sl_model *m = b->model;
	struct sl_unit *unit;

	if (b->err != SL_OK || !grow(b, (void **)&m->unit, m->n_unit, &m->cap_unit, sizeof(*m->unit)))
		return;
	unit = &m->unit[m->n_unit];
	if (!copy_name(b, unit->name, name, ""))
		return;
	unit->first_node = first_node;
	if (m->n_unit > 0)
		unit[-1].end_node = first_node;
	m->n_unit++;
}

static enum sl_err check_units(struct sl_build *b)
{
	struct sl_model *m = b->model;

	if (m->n_unit == 0 || m->unit[0].first_node != 0)
		return sl_fail_set(b->fail, SL_ERR_BUG, "%s: its first node lies in no unit", m->name);
	m->unit[m->n_unit - 1].end_node = m->graph.n_node;
	for (int i = 0; i < m->n_unit; i++)
		if (m->unit[i].end_node <= m->unit[i].first_node)
			return sl_fail_set(b->fail, SL_ERR_BUG, "%s: unit %s is empty", m->name, m->unit[i].name);
	return SL_OK;
}

enum sl_err sl_build_finish(struct sl_build *b, struct sl_model **out)
{
	if (b->err == SL_OK)
		b->err = check_units(b);
	if (b->err == SL_OK)
		b->err = sl_graph_check(b->graph, b->fail);
	if (b->err == SL_OK) {
		b->model->n_plain = b->model->graph.n_param;
		*out = b->model;
	} else {
		sl_model_close(b->model);
	}
	b->model = NULL;
	return b->err;
}
