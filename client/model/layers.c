/* The layers of model.h. Each adds a node with its parameters. */
#include "client/model/lora.h"
#include "common/graph/model_impl.h"

static void add_vector(struct sl_build *b, struct sl_draft *d, const char *suffix, int64_t count,
		       enum sl_init_kind init, enum sl_role role)
{
	sl_draft_param(b, d,
		       &(struct sl_made_param){
			       .suffix = suffix, .shape = sl_shape1(count), .init = {.kind = init}, .role = role});
}

/* The last dimension of a value; 1 after a failure. */
static int64_t last_of(const struct sl_build *b, int value)
{
	struct sl_shape shape = b->err || value < 0 ? sl_shape1(1) : sl_build_shape(b, value);

	return shape.dim[shape.ndim - 1];
}

/* Makes a layer one of volumes: `tall` channels are those of k slices, and a weight has `rows` times as many. */
static void of_volumes(struct sl_draft *d, struct sl_made_param *weight, const struct sl_build_window *w, int64_t rows,
		       int64_t tall)
{
	d->node.slices = w->slices;
	weight->file = sl_shape4(rows, tall / w->k, w->k, (int64_t)w->k * w->k);
	weight->layout = SL_LAYOUT_OHWI_FROM_OIDHW;
	weight->channels = w->k;
}

int sl_build_conv_from(struct sl_build *b, const char *name, int in, struct sl_build_window w, struct sl_init init)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_CONV2D, name, in);
	const int groups = w.groups ? w.groups : 1;
	const int64_t in_c = last_of(b, in), out_c = w.depthwise ? in_c : w.out_c;
	const int64_t per =
		in_c < groups ? 1 : in_c / groups; /* the check of shapes refuses groups that do not divide */
	const bool depthwise = w.depthwise || (groups > 1 && groups == in_c && in_c == out_c);
	struct sl_made_param weight = {.suffix = ".weight",
				       .shape = sl_shape4(out_c, w.k, w.k, per),
				       .init = init,
				       .file = sl_shape4(out_c, per, w.k, w.k),
				       .layout = SL_LAYOUT_OHWI_FROM_OIHW};

	d.node.u.conv.stride = w.stride ? w.stride : 1;
	d.node.u.conv.pad = w.pad;
	d.node.u.conv.groups = groups;
	if (depthwise) {
		d.node.u.conv.groups = (int)in_c;
		weight.shape = (struct sl_shape){3, {w.k, w.k, in_c}};
		weight.file = sl_shape4(in_c, 1, w.k, w.k);
		weight.layout = SL_LAYOUT_HWC_FROM_C1HW;
	}
	if (w.slices)
		of_volumes(&d, &weight, &w, out_c, per);
	sl_draft_param(b, &d, &weight);
	if (w.bias)
		sl_draft_param(
			b, &d,
			&(struct sl_made_param){.suffix = ".bias", .shape = sl_shape1(out_c), .init = w.bias_init});
	return sl_draft_finish(b, &d);
}

int sl_build_conv(struct sl_build *b, const char *name, int in, struct sl_build_window w)
{
	const int64_t out_c = w.depthwise ? last_of(b, in) : w.out_c;

	return sl_build_conv_from(b, name, in, w, sl_init_normal(sqrt(2.0 / (double)(out_c * w.k * w.k))));
}

int sl_build_convt(struct sl_build *b, const char *name, int in, struct sl_build_window w, int64_t height,
		   int64_t width, struct sl_init init)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_CONVT2D, name, in);
	const int64_t in_c = last_of(b, in);
	const int stride = w.stride ? w.stride : 1;
	struct sl_made_param weight = {.suffix = ".weight",
				       .shape = sl_shape4(in_c, w.k, w.k, w.out_c),
				       .init = init,
				       .file = sl_shape4(in_c, w.out_c, w.k, w.k),
				       .layout = SL_LAYOUT_OHWI_FROM_OIHW};

	d.node.u.convt.stride = stride;
	d.node.u.convt.pad = w.pad;
	d.node.u.convt.groups = 1;
	d.node.u.convt.out_pad_h = (int)((height + 2 * w.pad - w.k) % stride);
	d.node.u.convt.out_pad_w = (int)((width + 2 * w.pad - w.k) % stride);
	if (w.slices)
		of_volumes(&d, &weight, &w, in_c, w.out_c);
	sl_draft_param(b, &d, &weight);
	if (w.bias)
		add_vector(b, &d, ".bias", w.out_c, SL_INIT_ZERO, SL_LEARNS);
	return sl_draft_finish(b, &d);
}

int sl_build_depth(struct sl_build *b, const char *name, int in, int slices, struct sl_window_attr attr)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_WINDOW, name, in);

	d.node.slices = slices;
	d.node.u.window = attr;
	return sl_draft_finish(b, &d);
}

int sl_build_bn(struct sl_build *b, const char *name, int in)
{
	return sl_build_bn_from(b, name, in, SL_INIT_ONE);
}

int sl_build_bn_from(struct sl_build *b, const char *name, int in, enum sl_init_kind weight)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_BATCHNORM, name, in);
	const int64_t c = last_of(b, in);

	add_vector(b, &d, ".weight", c, weight, SL_LEARNS);
	add_vector(b, &d, ".bias", c, SL_INIT_ZERO, SL_LEARNS);
	add_vector(b, &d, ".running_mean", c, SL_INIT_ZERO, SL_STATISTIC);
	add_vector(b, &d, ".running_var", c, SL_INIT_ONE, SL_STATISTIC);
	return sl_draft_finish(b, &d);
}

int sl_build_act(struct sl_build *b, const char *name, int in, enum sl_act act)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_ACT, name, in);

	d.node.u.act = act;
	return sl_draft_finish(b, &d);
}

int sl_build_add(struct sl_build *b, const char *name, int x, int y)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_ADD, name, x);

	d.in[d.node.n_in++] = y;
	return sl_draft_finish(b, &d);
}

int sl_build_mul(struct sl_build *b, const char *name, int x, int y)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_MUL, name, x);

	d.in[d.node.n_in++] = y;
	return sl_draft_finish(b, &d);
}

int sl_build_smooth(struct sl_build *b, const char *name, int in, enum sl_op_kind kind, bool approximate)
{
	struct sl_draft d = sl_draft_begin(b, kind, name, in);

	if (kind == SL_OP_GELU)
		d.node.u.gelu.tanh = approximate;
	return sl_draft_finish(b, &d);
}

int sl_build_attention(struct sl_build *b, const char *name, int q, int k, int v, struct sl_attention_attr attr)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_ATTENTION, name, q);

	d.in[d.node.n_in++] = k;
	d.in[d.node.n_in++] = v;
	d.node.u.attention = attr;
	return sl_draft_finish(b, &d);
}

int sl_build_layernorm(struct sl_build *b, const char *name, int in, float eps, bool bias)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_LAYERNORM, name, in);

	d.node.u.norm.eps = eps;
	add_vector(b, &d, ".weight", last_of(b, in), SL_INIT_ONE, SL_LEARNS);
	if (bias)
		add_vector(b, &d, ".bias", last_of(b, in), SL_INIT_ZERO, SL_LEARNS);
	return sl_draft_finish(b, &d);
}

int sl_build_rmsnorm(struct sl_build *b, const char *name, int in, int features, float eps, bool plus)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_RMSNORM, name, in);

	d.node.u.norm.eps = eps;
	d.node.u.norm.plus = plus;
	add_vector(b, &d, ".weight", features, plus ? SL_INIT_ZERO : SL_INIT_ONE, SL_LEARNS);
	return sl_draft_finish(b, &d);
}

int sl_build_pool(struct sl_build *b, const char *name, int in, enum sl_op_kind kind, struct sl_pool_attr attr)
{
	struct sl_draft d = sl_draft_begin(b, kind, name, in);

	d.node.u.pool = attr;
	return sl_draft_finish(b, &d);
}

int sl_build_scale(struct sl_build *b, const char *name, int in, float by)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_SCALE, name, in);

	d.node.u.scale.by = by;
	return sl_draft_finish(b, &d);
}

int sl_build_resample(struct sl_build *b, const char *name, int in, struct sl_resample_attr attr)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_RESAMPLE, name, in);

	d.node.u.resample = attr;
	return sl_draft_finish(b, &d);
}

int sl_build_matmul(struct sl_build *b, const char *name, int in, int out_f, struct sl_init init)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_LINEAR, name, in);
	int out;

	d.node.u.linear.transposed = true;
	sl_draft_param(
		b, &d,
		&(struct sl_made_param){.suffix = ".weight", .shape = sl_shape2(last_of(b, in), out_f), .init = init});
	add_vector(b, &d, ".bias", out_f, SL_INIT_ZERO, SL_LEARNS);
	out = sl_draft_finish(b, &d);
	return out >= 0 && sl_lora_wants(b, name) ? sl_lora_build(b, name, in, out, d.param[0], true) : out;
}

int sl_build_flatten(struct sl_build *b, const char *name, int in)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_FLATTEN, name, in);

	return sl_draft_finish(b, &d);
}

int sl_build_dropout(struct sl_build *b, const char *name, int in, float p)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_DROPOUT, name, in);

	d.node.u.dropout.p = p;
	return sl_draft_finish(b, &d);
}

/* The shape [1,H,W,C] of the image, of several pixels, from which `value` was flattened; only elementwise ops may lie
 * between. NULL: there is none. Weights that read such a value have another order in weight files. */
static const struct sl_shape *flattened(const struct sl_build *b, int value)
{
	while (!b->err && value >= 0 && b->graph->value[value].maker >= 0) {
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
	struct sl_draft d = sl_draft_begin(b, SL_OP_LINEAR, name, in);
	const struct sl_shape *image = flattened(b, in);
	struct sl_made_param weight = {.suffix = ".weight", .shape = sl_shape2(out_f, last_of(b, in)), .init = init};
	int out;

	if (image) {
		weight.layout = SL_LAYOUT_HWC_FROM_CHW;
		weight.channels = image->dim[3];
	}
	sl_draft_param(b, &d, &weight);
	if (bias)
		sl_draft_param(b, &d,
			       &(struct sl_made_param){.suffix = ".bias", .shape = sl_shape1(out_f), .init = *bias});
	out = sl_draft_finish(b, &d);
	return out >= 0 && sl_lora_wants(b, name) ? sl_lora_build(b, name, in, out, d.param[0], false) : out;
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
	const bool image = !b->err && in >= 0 && sl_build_shape(b, in).ndim == 4;
	const int64_t in_f = last_of(b, in), rows = transposed ? in_f : out_f, cols = transposed ? out_f : in_f;
	struct sl_draft d = sl_draft_begin(b,
					   !image       ? SL_OP_LINEAR
					   : transposed ? SL_OP_CONVT2D
							: SL_OP_CONV2D,
					   name, in);

	if (!image)
		d.node.u.linear.transposed = transposed;
	sl_draft_param(b, &d,
		       &(struct sl_made_param){.suffix = ".weight",
					       .shape = image ? sl_shape4(rows, 1, 1, cols) : sl_shape2(rows, cols),
					       .init = {.kind = SL_INIT_EYE},
					       .file = sl_shape2(rows, cols)});
	return sl_draft_finish(b, &d);
}

int sl_build_transpose(struct sl_build *b, const char *name, int in, int tokens, int most)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_TRANSPOSE, name, in);

	d.node.u.transpose.tokens = tokens;
	d.node.u.transpose.most = most;
	return sl_draft_finish(b, &d);
}

int sl_build_gelu(struct sl_build *b, const char *name, int in)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_GELU, name, in);

	return sl_draft_finish(b, &d);
}

int sl_build_lookup(struct sl_build *b, const char *name, int in, struct sl_embedding_attr attr, struct sl_init init)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_EMBEDDING, name, in);

	d.node.u.embedding = attr;
	sl_draft_param(b, &d,
		       &(struct sl_made_param){
			       .suffix = ".weight", .shape = sl_shape2(attr.rows, attr.features), .init = init});
	return sl_draft_finish(b, &d);
}

int sl_build_embedding(struct sl_build *b, const char *name, int in, int features, double std)
{
	const struct sl_embedding_attr attr = {.rows = b->model->vocab, .features = features};

	return sl_build_lookup(b, name, in, attr, sl_init_normal(std));
}

int sl_build_select(struct sl_build *b, const char *name, int in)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_SELECT, name, in);

	return sl_draft_finish(b, &d);
}

int sl_build_gather(struct sl_build *b, const char *name, int in, float share)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_GATHER, name, in);

	d.node.u.gather.share = share;
	return sl_draft_finish(b, &d);
}

int sl_build_decoder(struct sl_build *b, const char *name, int in, int weight, const char *bias, struct sl_init init)
{
	const int rows = b->model->vocab;
	struct sl_draft d = sl_draft_begin(b, SL_OP_LINEAR, name, in), named = d;

	if (weight >= 0)
		d.param[d.node.n_param++] = weight;
	else
		sl_draft_param(b, &d,
			       &(struct sl_made_param){
				       .suffix = ".weight", .shape = sl_shape2(rows, last_of(b, in)), .init = init});
	if (!bias)
		return sl_draft_finish(b, &d);
	sl_build_name(b, named.node.name, bias, "");
	named.node.n_param = d.node.n_param;
	sl_draft_param(b, &named, &(struct sl_made_param){.suffix = "", .shape = sl_shape1(rows)});
	d.param[d.node.n_param++] = named.param[named.node.n_param - 1];
	return sl_draft_finish(b, &d);
}

int sl_build_loss(struct sl_build *b, const char *name, int logits)
{
	struct sl_draft d = sl_draft_begin(b, b->model->task->loss, name, logits);
	int loss;

	d.in[d.node.n_in++] = SL_BUILD_LABEL;
	if (!b->err && last_of(b, logits) != b->model->classes)
		sl_build_refuse(b, "%s: %lld logits for %d classes", name, (long long)last_of(b, logits),
				b->model->classes);
	loss = sl_draft_finish(b, &d);
	if (!b->err)
		b->err = sl_graph_add_output(b->graph, "loss", loss, NULL, b->fail);
	return loss;
}

int sl_build_mse(struct sl_build *b, const char *name, int in, int target)
{
	struct sl_draft d = sl_draft_begin(b, SL_OP_MSE, name, in);
	int loss;

	d.in[d.node.n_in++] = target;
	loss = sl_draft_finish(b, &d);
	if (!b->err)
		b->err = sl_graph_add_output(b->graph, "loss", loss, NULL, b->fail);
	return loss;
}
