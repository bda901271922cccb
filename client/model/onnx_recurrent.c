/* Recurrent layers. nn.LSTM, nn.GRU and nn.RNN are unrolled: a step becomes nodes of our graph, and all steps share the
 * parameters. Cells that a module calls in a loop are nodes like others. Both begin from a state of zeros. */
#include "client/model/onnx_recurrent.h"

#include <stdlib.h>
#include <string.h>

#include "client/model/onnx_arithmetic.h"

static bool is_blank(const Onnx__Tensor *t)
{
	bool blank = t->data_type == SL_ONNX_FLOAT && t->n_float_data == 0;

	for (size_t i = 0; i < t->raw_data.len && blank; i++)
		blank = t->raw_data.data[i] == 0;
	return blank;
}

/* Whether v is zeros that the file makes, of n_dim dimensions: [batch, features], or in front of it layers. */
static bool is_zeros(const struct sl_onnx_import *im, const struct sl_onnx_value *v, int n_dim)
{
	bool zeros = v && v->value < 0 && v->n_dim == n_dim && !v->summed;

	if (zeros && v->constant)
		return !sl_onnx_learns(im, v->constant) && is_blank(v->constant);
	zeros = zeros && v->is_mask;
	for (int w = 0; w < 2 && zeros; w++)
		for (int z = 0; z < SL_ONNX_ZONES; z++)
			zeros &= v->mask.at[w][z] == 0;
	return zeros;
}

/* Whether x is a computed value of the same size. */
static bool is_like(const struct sl_onnx_value *x, const struct sl_onnx_value *zeros)
{
	return x && x->value >= 0 && x->view.n_axis == 2 && !x->permuted && !x->summed &&
	       sl_onnx_axis_size(&x->view, 0) == zeros->dim[0] && sl_onnx_axis_size(&x->view, 1) == zeros->dim[1];
}

static bool read_with_zeros(struct sl_onnx_import *im)
{
	const char *kind = im->node->op_type;
	const bool sum = strcmp(kind, "Add") == 0, product = strcmp(kind, "Mul") == 0;

	if ((!sum && !product && strcmp(kind, "Sub") != 0) || im->node->n_input != 2)
		return false;
	for (size_t i = 0; i < 2 && !im->b->err; i++) {
		const struct sl_onnx_value *zeros = sl_onnx_in(im, i), *x = sl_onnx_in(im, 1 - i);

		if (!is_zeros(im, zeros, 2) || !is_like(x, zeros))
			continue;
		if (!product && (sum || i == 1))
			sl_onnx_out_same(im, x);
		else /* a product is computed, because each value must have a reader */
			sl_onnx_out_like(im, sl_build_scale(im->b, im->name, x->value, product ? 0 : -1), x);
		return true;
	}
	return false;
}

/* The parameter of input `i` as a value of every row. */
static void repeat_row(struct sl_onnx_import *im, size_t i, int64_t features)
{
	const struct sl_graph *g = im->b->graph;
	const int before = im->n_param, like = g->n_node ? g->node[g->n_node - 1].out : SL_BUILD_INPUT;
	const struct sl_shape shape = sl_shape1(features);
	const Onnx__Tensor *row = sl_onnx_param_in(im, i, 1);

	if (!row || !sl_onnx_vector_of(im, row, features))
		return;
	if (g->value[like].lead != SL_PER_ROW) {
		sl_onnx_refuse(im, "it begins from zeros for each token, which is not read");
		return;
	}
	sl_onnx_use_params(im, before);
	sl_onnx_out(im, sl_build_repeat(im->b, im->name, like, shape, shape, SL_LAYOUT_SAME));
}

bool sl_onnx_read_repeated_row(struct sl_onnx_import *im, const int64_t *to, int n)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);

	if (!v || v->value >= 0 || v->n_dim != 1 || n != 2 || to[0] != im->batch || v->n_readers < 2 ||
	    !sl_onnx_learns(im, v->constant))
		return false;
	repeat_row(im, 0, to[1]);
	return true;
}

bool sl_onnx_read_product_of_zeros(struct sl_onnx_import *im)
{
	const bool gemm = im->node->op_type[0] == 'G';
	const struct sl_onnx_value *zeros = sl_onnx_in(im, 0), *weight = sl_onnx_in(im, 1);
	struct sl_onnx_value made;

	if (im->b->err || !is_zeros(im, zeros, 2) || !weight || !weight->constant || weight->constant->n_dims != 2 ||
	    !sl_onnx_learns(im, weight->constant))
		return false;
	made = (struct sl_onnx_value){.value = -1, .is_mask = true, .n_dim = 2};
	made.dim[0] = zeros->dim[0];
	made.dim[1] = weight->constant->dims[!gemm && !weight->transposed];
	if (gemm && im->node->n_input > 2 && im->node->input[2][0])
		repeat_row(im, 2, made.dim[1]);
	else
		sl_onnx_out_same(im, &made);
	return true;
}

/* ---- layers */

/* Rows of a parameter's gates, in multiples of the hidden size, in the order in which the file joins them: torch has
 * the gates i, f, g, o of LSTM and r, z, n of GRU, and ONNX i, o, f, g and z, r, n. */
static const struct layer {
	const char *kind;
	int nodes; /* of a step */
	int gates, pieces, from[3], to[3];
} layers[] = {
	{"LSTM", 17, 4, 3, {0, 3, 1}, {1, 4, 3}}, {"GRU", 20, 3, 3, {1, 0, 2}, {2, 1, 3}}, {"RNN", 5, 1, 0, {0}, {0}}};

enum { WEIGHT_IH, BIAS_IH, WEIGHT_HH, BIAS_HH, PARAMS };

/* One direction of a layer. */
struct cell {
	struct sl_onnx_import *im;
	const struct layer *layer;
	const char *param[PARAMS]; /* of torch; biases NULL: none */
	int hidden;
	bool relu;
	int x, h, c; /* values: the input's share of all steps' gates, [steps · gates · hidden]; the state, −1: zeros */
};

static const struct layer *layer_of(const char *kind)
{
	for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
		if (strcmp(layers[i].kind, kind) == 0)
			return &layers[i];
	return NULL;
}

/* The node that makes a value, of that kind and with inputs; NULL: it is none. */
static const Onnx__Node *made_by(struct sl_onnx_import *im, const char *name, const char *kind)
{
	const struct sl_onnx_value *v = sl_onnx_find(im, name);
	const Onnx__Node *n = v && v->maker >= 0 ? im->onnx->graph->node[v->maker] : NULL;

	return n && n->n_input && strcmp(n->op_type, kind) == 0 ? n : NULL;
}

/* Clears live[] of the nodes behind a weight or a state, each once. */
static void skip(struct sl_onnx_import *im, const char *name, bool *live, int depth)
{
	static const char *const kinds[] = {"Concat", "Slice", "Unsqueeze", "Expand"};
	const struct sl_onnx_value *v = sl_onnx_find(im, name);
	const Onnx__Node *n = v && v->maker >= 0 && live[v->maker] ? im->onnx->graph->node[v->maker] : NULL;
	size_t k = 0;

	while (n && k < 4 && strcmp(n->op_type, kinds[k]) != 0)
		k++;
	if (!n || k == 4 || depth == 8)
		return;
	live[v->maker] = false;
	for (size_t i = 0; i < n->n_input && (k == 0 || i == 0); i++) /* only a Concat has more than one tensor */
		skip(im, n->input[i], live, depth + 1);
}

void sl_onnx_skip_weights(struct sl_onnx_import *im, bool *live)
{
	const Onnx__Graph *g = im->onnx->graph;

	for (size_t i = 0; i < g->n_node; i++)
		for (size_t k = 1; k < g->node[i]->n_input && layer_of(g->node[i]->op_type) && live[i]; k++)
			skip(im, g->node[i]->input[k], live, 0);
}

static bool piece_is(struct sl_onnx_import *im, const Onnx__Node *slice, int64_t from, int64_t to)
{
	int64_t a[SL_ONNX_INTS], b[SL_ONNX_INTS], axis[SL_ONNX_INTS];

	return slice && slice->n_input == 4 && sl_onnx_ints_of(sl_onnx_find(im, slice->input[1]), a) == 1 &&
	       sl_onnx_ints_of(sl_onnx_find(im, slice->input[2]), b) == 1 &&
	       sl_onnx_ints_of(sl_onnx_find(im, slice->input[3]), axis) == 1 && axis[0] == 0 && a[0] == from &&
	       b[0] == to;
}

/* The parameter whose gates the value `name` has in ONNX's order; NULL: it is none. */
static const char *reordered(struct sl_onnx_import *im, const char *name, const struct cell *c)
{
	const Onnx__Node *join = c->layer->pieces ? made_by(im, name, "Concat") : NULL;

	if (c->layer->pieces && (!join || join->n_input != (size_t)c->layer->pieces))
		return NULL;
	for (int k = 0; k < c->layer->pieces; k++) {
		const Onnx__Node *slice = made_by(im, join->input[k], "Slice");

		if (!piece_is(im, slice, c->layer->from[k] * c->hidden, c->layer->to[k] * c->hidden) ||
		    strcmp(slice->input[0], made_by(im, join->input[0], "Slice")->input[0]) != 0)
			return NULL;
		name = slice->input[0];
	}
	return sl_onnx_find_init(im->onnx, name) ? name : NULL;
}

/* Input `i` of the layer for a direction, without the axis of directions; NULL: torch does not write it so. */
static const char *of_direction(struct sl_onnx_import *im, size_t i, int direction, int directions)
{
	const char *name = im->node->input[i];
	const Onnx__Node *n = directions > 1 ? made_by(im, name, "Concat") : NULL;

	if (directions > 1 && (!n || n->n_input != 2))
		return NULL;
	n = made_by(im, n ? n->input[direction] : name, "Unsqueeze");
	return n ? n->input[0] : NULL;
}

/* Checks a parameter, and notes that the graph uses it. */
static void take(struct cell *c, int which, const char *name, int64_t columns)
{
	const Onnx__Tensor *t = name ? sl_onnx_param_named(c->im, name) : NULL;
	const size_t n_dims = columns ? 2 : 1;

	if (!c->im->b->err && (!t || t->n_dims != n_dims || t->dims[0] != (int64_t)c->layer->gates * c->hidden ||
			       (columns && t->dims[1] != columns)))
		sl_onnx_refuse(c->im,
			       "its weights are not as torch writes them; export with do_constant_folding=False");
	c->param[which] = name;
}

static void take_params(struct cell *c, int64_t features, int direction, int directions)
{
	struct sl_onnx_import *im = c->im;
	const bool biased = im->node->n_input > 3 && im->node->input[3][0];
	const char *w = of_direction(im, 1, direction, directions), *r = of_direction(im, 2, direction, directions);
	const char *b = biased ? of_direction(im, 3, direction, directions) : NULL;
	const Onnx__Node *both = b ? made_by(im, b, "Concat") : NULL;

	take(c, WEIGHT_IH, w ? reordered(im, w, c) : NULL, features);
	take(c, WEIGHT_HH, r ? reordered(im, r, c) : NULL, c->hidden);
	if (!biased)
		return;
	take(c, BIAS_IH, both && both->n_input == 2 ? reordered(im, both->input[0], c) : NULL, 0);
	take(c, BIAS_HH, both && both->n_input == 2 ? reordered(im, both->input[1], c) : NULL, 0);
}

/* Columns [first, first + n) of a value of rows, or the value itself if it has no others. */
static int columns(const struct cell *c, int v, int first, int n)
{
	if (v < 0 || sl_onnx_last_of(c->im, v) == n)
		return v;
	return sl_build_resample(
		c->im->b, c->im->name, v,
		(struct sl_resample_attr){.axis = 1, .size = n, .first = first, .step = 1, .window = 1});
}

static int curve(const struct cell *c, int v, enum sl_op_kind kind)
{
	return c->relu ? sl_build_act(c->im->b, c->im->name, v, SL_ACT_RELU)
		       : sl_build_smooth(c->im->b, c->im->name, v, kind, false);
}

static int plus(const struct cell *c, int a, int b)
{
	return b < 0 ? a : sl_build_add(c->im->b, c->im->name, a, b);
}

static int times(const struct cell *c, int a, int b)
{
	return sl_build_mul(c->im->b, c->im->name, a, b);
}

/* The state's share of a step's gates; −1: nothing. `like`: any value of rows. */
static int from_state(const struct cell *c, int like)
{
	struct sl_build *b = c->im->b;
	const int rows = c->layer->gates * c->hidden;
	const bool biased = c->param[BIAS_HH];

	b->param_name = c->param + WEIGHT_HH;
	if (c->h >= 0)
		return sl_build_linear(b, c->im->name, c->h, rows, biased, (struct sl_init){SL_INIT_ZERO, 0});
	b->param_name = c->param + BIAS_HH;
	return biased ? sl_build_repeat(b, c->im->name, like, sl_shape1(rows), sl_shape1(rows), SL_LAYOUT_SAME) : -1;
}

/* c = σ(f)·c + σ(i)·tanh(g), h = σ(o)·tanh(c) */
static void lstm_step(struct cell *c, int x)
{
	const int n = c->hidden, gates = plus(c, x, from_state(c, x));
	const int i = curve(c, columns(c, gates, 0, n), SL_OP_SIGMOID);
	const int fresh = times(c, i, curve(c, columns(c, gates, 2 * n, n), SL_OP_TANH));
	const int kept = c->c < 0 ? -1 : times(c, curve(c, columns(c, gates, n, n), SL_OP_SIGMOID), c->c);
	const int o = curve(c, columns(c, gates, 3 * n, n), SL_OP_SIGMOID);

	c->c = plus(c, fresh, kept);
	c->h = times(c, o, curve(c, c->c, SL_OP_TANH));
}

/* Gate `which` of both shares, through a sigmoid. */
static int gru_gate(const struct cell *c, int x, int of_h, int which)
{
	const int n = c->hidden, own = columns(c, x, which * n, n);

	return curve(c, plus(c, own, of_h < 0 ? -1 : columns(c, of_h, which * n, n)), SL_OP_SIGMOID);
}

/* n = tanh(x_n + σ(r)·h_n), h = n + σ(z)·(h − n) */
static void gru_step(struct cell *c, int x)
{
	const int n = c->hidden, of_h = from_state(c, x), z = gru_gate(c, x, of_h, 1);
	int fresh = columns(c, x, 2 * n, n), minus;

	if (of_h >= 0) {
		const int r = gru_gate(c, x, of_h, 0);

		fresh = plus(c, fresh, times(c, r, columns(c, of_h, 2 * n, n)));
	}
	fresh = curve(c, fresh, SL_OP_TANH);
	minus = plus(c, sl_build_scale(c->im->b, c->im->name, fresh, -1), c->h);
	c->h = plus(c, fresh, times(c, z, minus));
}

static void step(struct cell *c, int t)
{
	const int n = c->layer->gates * c->hidden, x = columns(c, c->x, t * n, n);

	if (c->layer->gates == 4)
		lstm_step(c, x);
	else if (c->layer->gates == 3)
		gru_step(c, x);
	else
		c->h = curve(c, plus(c, x, from_state(c, x)), SL_OP_TANH);
}

/* The input's share of the gates of all steps, by one product. x: [steps, features] */
static int from_input(const struct cell *c, int x, int64_t steps)
{
	struct sl_onnx_import *im = c->im;
	const int rows = c->layer->gates * c->hidden;
	struct sl_onnx_value all = {0};
	struct sl_shape s;

	im->b->param_name = c->param;
	all.value = sl_build_linear(im->b, im->name, x, rows, c->param[BIAS_IH], (struct sl_init){SL_INIT_ZERO, 0});
	if (im->b->err)
		return -1;
	s = sl_build_shape(im->b, all.value);
	all.view = sl_onnx_view_of(im, &s);
	return sl_onnx_arrange(im, &all, (int[]){1, 2}, 2, &(int64_t){steps * rows}, 1);
}

/* Values of rows side by side, joined two and two. */
static int joined(struct sl_onnx_import *im, const int *v, int n)
{
	const int first = n == 1 ? v[0] : joined(im, v, n / 2);

	return n == 1 ? first : sl_build_concat(im->b, im->name, first, joined(im, v + n / 2, n - n / 2), 1);
}

/* Output `i` becomes a value of rows with the axes [size[0], …, batch, features]. */
static void put(struct sl_onnx_import *im, size_t i, int value, const int64_t *size, int n)
{
	struct sl_onnx_value *to = sl_onnx_find(im, im->node->output[i]);
	struct sl_onnx_view view = {.n_atom = n + 1, .n_axis = n + 1, .size = {im->batch}};

	for (int k = 0; k < n; k++)
		view.size[k + 1] = size[k];
	for (int k = 0; k < n + 1; k++)
		view.axis[k] = (struct sl_onnx_axis){1, {k == n - 1 ? 0 : k == n ? n : k + 1}};
	to->value = value;
	to->view = view;
	to->known = true;
}

static bool wants(struct sl_onnx_import *im, size_t i)
{
	return i < im->node->n_output && im->node->output[i][0] && sl_onnx_find(im, im->node->output[i])->needed;
}

/* Runs the directions over all steps, and sets the outputs: all states h, the last h, the last c. */
static void unroll(struct cell *c, int directions, int steps)
{
	struct sl_onnx_import *im = c->im;
	int *h = calloc((size_t)steps * (size_t)directions, sizeof *h), last[2], kept[2];

	if (!h)
		sl_onnx_refuse(im, "no memory for its %d steps", steps);
	for (int d = 0; d < directions && !im->b->err; d++) {
		for (int t = 0; t < steps; t++) {
			const int at = d ? steps - 1 - t : t;

			step(&c[d], at);
			h[at * directions + d] = c[d].h;
		}
		last[d] = c[d].h;
		kept[d] = c[d].c;
	}
	if (!im->b->err && wants(im, 0))
		put(im, 0, joined(im, h, steps * directions), (int64_t[]){steps, directions, c->hidden}, 3);
	if (!im->b->err && wants(im, 1))
		put(im, 1, joined(im, last, directions), (int64_t[]){directions, c->hidden}, 2);
	if (!im->b->err && wants(im, 2))
		put(im, 2, joined(im, kept, directions), (int64_t[]){directions, c->hidden}, 2);
	free(h);
}

/* 1 or 2; 0: the other direction alone, which torch has not. */
static int directions_of(struct sl_onnx_import *im)
{
	const Onnx__Attribute *a = sl_onnx_attr(im, "direction", SL_ONNX_ATTR_STRING);

	return !a || sl_onnx_is_word(a->s, "forward") ? 1 : sl_onnx_is_word(a->s, "bidirectional") ? 2 : 0;
}

static bool begins_from_zeros(struct sl_onnx_import *im, size_t i)
{
	const char *name = i < im->node->n_input ? im->node->input[i] : "";
	const Onnx__Node *part = made_by(im, name, "Expand");

	name = part ? part->input[0] : name;
	part = made_by(im, name, "Slice");
	return !name[0] || is_zeros(im, sl_onnx_find(im, part ? part->input[0] : name), 3);
}

/* 0: Tanh, 1: Relu; −1: others, which torch has not. */
static int activation(struct sl_onnx_import *im, int directions)
{
	const Onnx__Attribute *a = sl_onnx_attr(im, "activations", SL_ONNX_ATTR_STRINGS);
	int relu = 0, tanh = 0;

	if (!a)
		return 0;
	for (size_t i = 0; i < a->n_strings; i++) {
		relu += sl_onnx_is_word(a->strings[i], "Relu");
		tanh += sl_onnx_is_word(a->strings[i], "Tanh");
	}
	return a->n_strings != (size_t)directions || (relu != directions && tanh != directions) ? -1 : relu > 0;
}

static void check_layer(struct sl_onnx_import *im, const struct layer *layer, int directions, int64_t hidden, int relu)
{
	const bool sequence = im->node->n_input > 4 && im->node->input[4][0];

	if (directions == 0 || sequence || (layer->gates == 3 && sl_onnx_attr_int(im, "linear_before_reset", 0) != 1) ||
	    (layer->gates > 1 && sl_onnx_attr(im, "activations", SL_ONNX_ATTR_STRINGS)) || relu < 0 || hidden < 1 ||
	    hidden > SL_ONNX_MOST)
		sl_onnx_refuse(im, "it is none of torch's nn.LSTM, nn.GRU and nn.RNN over whole rows");
	else if (!begins_from_zeros(im, 5) || !begins_from_zeros(im, 6))
		sl_onnx_refuse(im, "it begins from a state of its own, where zeros are read");
}

/* The input as [steps, features]; −1 after a refusal. */
static int input_of(struct sl_onnx_import *im, const struct layer *layer, int directions, int64_t *steps,
		    int64_t *features)
{
	struct sl_onnx_value *x = sl_onnx_in(im, 0);

	if (sl_onnx_data_in(im, 0, 0) < 0)
		return -1;
	if (sl_onnx_per_token(im, x)) {
		sl_onnx_refuse_mixed(im);
		return -1;
	}
	if (x->view.n_axis != 3 || sl_onnx_batch_axis(&x->view) != 1) {
		sl_onnx_refuse(im, "its input is not [steps, batch, features]%s", SL_ONNX_OF_ONE(im));
		return -1;
	}
	*steps = sl_onnx_axis_size(&x->view, 0);
	*features = sl_onnx_axis_size(&x->view, 2);
	if (*steps * directions * layer->nodes > SL_GRAPH_MOST_NODES) {
		sl_onnx_refuse(
			im,
			"its %lld steps would be more than %d nodes: make rows shorter, such as by a convolution "
			"with a stride in front",
			(long long)*steps, SL_GRAPH_MOST_NODES);
		return -1;
	}
	return sl_onnx_arrange_axes(im, x, (int[]){0, 2}, 2, 1);
}

/* Names the nodes after the layer, as those of other layers are named. */
static void name_by_weights(struct sl_onnx_import *im, const struct layer *layer, int64_t hidden, int directions)
{
	const struct cell c = {.layer = layer, .hidden = (int)hidden};
	const char *weights = of_direction(im, 1, 0, directions), *name = weights ? reordered(im, weights, &c) : NULL;

	if (name)
		(void)sl_onnx_name_by(im, name);
}

static void read_layer(struct sl_onnx_import *im, const struct layer *layer)
{
	const int directions = directions_of(im);
	const int64_t hidden = sl_onnx_attr_int(im, "hidden_size", 0);
	const int relu = activation(im, directions);
	struct cell c[2];
	int64_t steps = 0, features = 0;
	int x;

	check_layer(im, layer, directions, hidden, relu);
	if (!im->b->err)
		name_by_weights(im, layer, hidden, directions);
	x = im->b->err ? -1 : input_of(im, layer, directions, &steps, &features);
	for (int d = 0; d < directions && !im->b->err; d++) {
		c[d] = (struct cell){.im = im, .layer = layer, .hidden = (int)hidden, .relu = relu, .h = -1, .c = -1};
		take_params(&c[d], features, d, directions);
		if (!im->b->err)
			c[d].x = from_input(&c[d], x, steps);
	}
	if (!im->b->err)
		unroll(c, directions, (int)steps);
}

bool sl_onnx_read_recurrent(struct sl_onnx_import *im)
{
	const struct layer *layer = layer_of(im->node->op_type);

	if (layer)
		read_layer(im, layer);
	return layer || read_with_zeros(im);
}
