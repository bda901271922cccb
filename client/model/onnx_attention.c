/* Products with a weight are linear layers. Products of two computed values are attention, as torch writes it out:
 * softmax(q·kᵀ·scale + mask)·v, with batch and heads as axes of their own, or as one. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/model/onnx_arithmetic.h"
#include "client/model/onnx_recurrent.h"
#include "client/model/onnx_tokens.h"
#include "client/model/onnx_windows.h"

enum { MOST_PARTS = 16 }; /* into which more queries than keys may be cut */
/* The least factor by which scores may be scaled after they were masked: hidden ones must stay hidden. 1/64 is the
 * scale of heads with 4,096 features. */
#define LEAST_FACTOR (1 / 64.0f)

/* ---- linear layers */

/* The next node, if it adds a vector of `out` numbers, the layer's bias, which becomes a parameter; else -1. */
static int bias_behind(struct sl_onnx_import *im, int64_t out)
{
	const int add = sl_onnx_next(im, im->index, "Add");
	const Onnx__Node *n = add < 0 ? NULL : im->onnx->graph->node[add];
	const char *mine = im->node->output[0];
	const char *name = !n || n->n_input != 2 ? "" : n->input[strcmp(n->input[0], mine) == 0];
	const Onnx__Tensor *t = name[0] ? sl_onnx_find_init(im->onnx, name) : NULL;

	if (!t || t->n_dims != 1 || t->dims[0] != out)
		return -1;
	(void)!sl_onnx_param_named(im, name);
	return add;
}

/* A linear layer. `turned`: the node takes the weight as [out, in], else as [in, out]. The bias is input 2, or the next
 * node adds it. */
static void linear(struct sl_onnx_import *im, bool turned)
{
	struct sl_onnx_value *v = sl_onnx_in(im, 0);
	struct sl_onnx_value *w = sl_onnx_in(im, 1);
	const bool transposed = w && w->transposed != turned;
	const int before = im->n_param;
	const Onnx__Tensor *weight;
	struct sl_onnx_view view;
	bool bias;
	int last, x, add;
	int64_t in, out;

	if (sl_onnx_data_in(im, 0, 0) < 0)
		return;
	last = v->view.n_axis - 1;
	if (w)
		w->transposed = false; /* `transposed` has it; a transposed parameter would be refused */
	weight = sl_onnx_param_in(im, 1, 2);
	if (!weight)
		return;
	in = weight->dims[transposed];
	out = weight->dims[!transposed];
	if (in != sl_onnx_axis_size(&v->view, last) || last == sl_onnx_batch_axis(&v->view) || out > SL_ONNX_MOST) {
		sl_onnx_refuse(im, "its weight '%.96s' does not fit rows of %lld", weight->name,
			       (long long)sl_onnx_axis_size(&v->view, last));
		return;
	}
	if (v->permuted) { /* back to the file's order, which the weight has */
		x = sl_onnx_arrange_axes(im, v, (int[]){1}, v->view.n_axis == 2, 0);
	} else {
		x = sl_onnx_innermost(im, v, last, true);
	}
	view = v->view;
	sl_onnx_resize_axis(&view, last, out);
	bias = im->node->n_input > 2 && im->node->input[2][0];
	add = bias ? -1 : bias_behind(im, out);
	if (bias && !sl_onnx_vector_of(im, sl_onnx_param_in(im, 2, 1), out))
		return;
	bias |= add >= 0;
	sl_onnx_use_params(im, before);
	if (im->b->err)
		return;
	x = transposed ? sl_build_linear(im->b, im->name, x, (int)out, bias, (struct sl_init){SL_INIT_ZERO, 0})
		       : sl_build_matmul(im->b, im->name, x, (int)out, bias, (struct sl_init){0});
	if (add >= 0) {
		im->done[add] = true;
		im->end = add;
	}
	sl_onnx_out_view(im, x, &view);
}

/* The input is the rows of all tokens, [batch · tokens, features]. */
void sl_onnx_read_gemm_of_tokens(struct sl_onnx_import *im)
{
	linear(im, true);
}

/* ---- attention */

/* Whether the axes are batch, heads, and two more; or batch and heads as one axis, and two more. Windows may stand
 * beside the batch in axis 0. */
static bool is_headed(const struct sl_onnx_view *v)
{
	bool is = (v->n_axis == 4 || v->n_axis == 3) && v->n_atom >= 3 && sl_onnx_batch_axis(v) == 0;

	for (int k = 1; k < v->axis[0].n; k++)
		is &= v->axis[0].atom[k] != 0;
	return is;
}

/* Arranges v as [tokens, heads · features]. `s`, `d`: its axes of tokens and features. *heads: the number of heads. */
static int heads_of(struct sl_onnx_import *im, struct sl_onnx_value *v, int s, int d, int64_t *heads)
{
	int atom[SL_ONNX_ATOMS], n = 0, from;
	const int64_t tokens = sl_onnx_axis_size(&v->view, s), features = sl_onnx_axis_size(&v->view, d);

	for (int k = 0; k < v->view.axis[s].n; k++)
		atom[n++] = v->view.axis[s].atom[k];
	from = n;
	for (int i = 0; i < v->view.n_axis - 2; i++)
		for (int k = 0; k < v->view.axis[i].n && n < SL_ONNX_ATOMS; k++)
			if (v->view.axis[i].atom[k])
				atom[n++] = v->view.axis[i].atom[k];
	*heads = 1;
	for (; from < n; from++)
		*heads *= v->view.size[atom[from]];
	for (int k = 0; k < v->view.axis[d].n && n < SL_ONNX_ATOMS; k++)
		atom[n++] = v->view.axis[d].atom[k];
	return sl_onnx_arrange(im, v, atom, n, (int64_t[]){tokens, *heads * features}, 2);
}

/* The product of queries and keys. */
static void scores(struct sl_onnx_import *im, struct sl_onnx_value q, struct sl_onnx_value k)
{
	struct sl_onnx_value made = {.value = -1};
	const int last = q.view.n_axis - 1;
	int64_t heads, same;

	if (!is_headed(&q.view) || !is_headed(&k.view) || q.view.n_axis != k.view.n_axis ||
	    sl_onnx_axis_size(&q.view, 0) != sl_onnx_axis_size(&k.view, 0) ||
	    sl_onnx_axis_size(&q.view, 0) % im->batch ||
	    sl_onnx_axis_size(&q.view, last) != sl_onnx_axis_size(&k.view, last - 1)) {
		sl_onnx_refuse(im, "it multiplies two computed values, which is read as attention alone, of as many "
				   "features of queries as of keys");
		return;
	}
	made.scores = (struct sl_onnx_scores){.d = (int)sl_onnx_axis_size(&q.view, last),
					      .s = sl_onnx_axis_size(&k.view, last),
					      .n_query = sl_onnx_axis_size(&q.view, last - 1),
					      .first = sl_onnx_axis_size(&q.view, 0),
					      .n_axis = q.view.n_axis,
					      .scale = 1};
	made.scores.q = heads_of(im, &q, last - 1, last, &heads);
	made.scores.k = heads_of(im, &k, last, last - 1, &same);
	made.scores.heads = (int)heads;
	if (heads != same || heads > SL_ONNX_MOST)
		sl_onnx_refuse(im, "queries and keys have other numbers of heads");
	sl_onnx_out_same(im, &made);
}

/* Attention whose queries are not as many as its keys. It runs in parts, each with as many queries as keys. Zeros fill
 * up the last part, and their outputs are cut off. */
static int attend_in_parts(struct sl_onnx_import *im, const struct sl_onnx_scores *s, int q, int v,
			   struct sl_attention_attr a)
{
	struct sl_resample_attr part = {.axis = 1, .size = (int)s->s, .mode = SL_RESAMPLE_CUT, .step = 1, .window = 1};
	int all = -1;

	if (a.causal || s->n_query > SL_ONNX_MOST || (s->n_query + s->s - 1) / s->s > MOST_PARTS) {
		sl_onnx_refuse(im, "%lld queries of %lld keys have a causal mask, or are more than %d times as many",
			       (long long)s->n_query, (long long)s->s, MOST_PARTS);
		return -1;
	}
	for (; part.first < s->n_query; part.first += part.size) {
		int x = sl_build_resample(im->b, im->name, q, part);

		x = sl_build_attention(im->b, im->name, x, s->k, v, a);
		all = all < 0 ? x : sl_build_concat(im->b, im->name, all, x, 1);
	}
	part.first = 0;
	part.size = (int)s->n_query;
	return sl_build_resample(im->b, im->name, all, part);
}

/* The product of the scores s, after softmax, and the attention's values v. */
static void attend(struct sl_onnx_import *im, const struct sl_onnx_scores *s, struct sl_onnx_value v)
{
	const int last = v.view.n_axis - 1;
	const float scale = s->scale * sqrtf((float)s->d);
	struct sl_attention_attr a = {.heads = s->heads, .causal = s->causal, .p = s->p};
	struct sl_onnx_view view = {.n_atom = 4, .n_axis = s->n_axis, .size = {im->batch, s->n_query, s->heads, s->d}};
	int64_t heads;
	int x, q = s->q;

	if (!s->softmax || v.view.n_axis != s->n_axis || !is_headed(&v.view) ||
	    sl_onnx_axis_size(&v.view, 0) != s->first || sl_onnx_axis_size(&v.view, last - 1) != s->s ||
	    sl_onnx_axis_size(&v.view, last) != s->d) {
		sl_onnx_refuse(im,
			       "it multiplies what is no attention of its values: each has as many features as a key");
		return;
	}
	x = heads_of(im, &v, last - 1, last, &heads);
	if (heads != s->heads)
		sl_onnx_refuse(im, "keys and values have other numbers of heads");
	if (im->b->err)
		return;
	if (fabsf(scale - 1) > 1e-6f)
		q = sl_build_scale(im->b, im->name, q, scale);
	x = s->n_query == s->s ? sl_build_attention(im->b, im->name, q, s->k, x, a) : attend_in_parts(im, s, q, x, a);
	view.axis[0] = s->n_axis == 4 ? (struct sl_onnx_axis){1, {0}} : (struct sl_onnx_axis){2, {0, 2}};
	view.axis[1] = s->n_axis == 4 ? (struct sl_onnx_axis){1, {2}} : (struct sl_onnx_axis){1, {1}};
	view.axis[2] = s->n_axis == 4 ? (struct sl_onnx_axis){1, {1}} : (struct sl_onnx_axis){1, {3}};
	view.axis[3] = (struct sl_onnx_axis){1, {3}};
	if (s->n_axis == 4 && s->first != im->batch && /* windows come before heads */
	    !sl_onnx_reshape_view(&view, (int64_t[]){s->first, s->heads / (s->first / im->batch), s->n_query, s->d}, 4))
		sl_onnx_refuse(im, "its windows are no parts of samples");
	sl_onnx_out_view(im, x, &view);
}

/* ---- torch.einsum, whose equation names the axes of two inputs and of the output by letters */

enum { LETTERS = SL_ONNX_ATOMS + 1 };

static bool read_equation(struct sl_onnx_import *im, char word[3][LETTERS])
{
	const Onnx__Attribute *a = sl_onnx_attr(im, "equation", SL_ONNX_ATTR_STRING);
	int at = 0, n = 0;

	for (size_t i = 0; a && i < a->s.len; i++) {
		const char c = (char)a->s.data[i];

		if (c == ',' || c == '>') {
			at++;
			n = 0;
		} else if (c != ' ' && c != '-') {
			if (c < 'A' || at > 2 || n == LETTERS - 1 || strchr(word[at], c))
				return false;
			word[at][n++] = c;
		}
	}
	return at == 2;
}

/* Copies the letters of `from` that are in `other` (`has`), or are not, and that are in `third` (`third_has`), or are
 * not. */
static void pick(char out[LETTERS], const char *from, const char *other, bool has, const char *third, bool third_has)
{
	for (; *from; from++)
		if ((strchr(other, *from) != NULL) == has && (strchr(third, *from) != NULL) == third_has)
			*out++ = *from;
	*out = 0;
}

static void reorder(struct sl_onnx_value *v, const char *has, const char *want)
{
	const struct sl_onnx_view view = v->view;

	for (int i = 0; want[i]; i++)
		v->view.axis[i] = view.axis[strchr(has, want[i]) - has];
}

/* einsum of two inputs over one common axis: reorders their axes, and reads it as MatMul is read. */
static void einsum(struct sl_onnx_import *im)
{
	char word[3][LETTERS] = {{0}}, same[LETTERS], inner[LETTERS], own[2][LETTERS], want[3][3 * LETTERS];
	const struct sl_onnx_value *in[2] = {sl_onnx_in(im, 0), sl_onnx_in(im, 1)};
	bool fits = !im->b->err && in[0] && in[1] && in[1]->value >= 0 && read_equation(im, word), soft, first;
	struct sl_onnx_value a, b;

	soft = fits && in[0]->scores.heads;
	fits = fits && (soft || in[0]->value >= 0) && (int)strlen(word[1]) == in[1]->view.n_axis &&
	       (int)strlen(word[0]) == (soft ? in[0]->scores.n_axis : in[0]->view.n_axis);
	pick(same, word[0], word[1], true, word[2], true);
	pick(inner, word[0], word[1], true, word[2], false);
	pick(own[0], word[0], word[1], false, word[2], true);
	pick(own[1], word[1], word[0], false, word[2], true);
	for (int i = 0; i < 3; i++)
		fits &= strlen(word[i]) == strlen(same) + 2;
	if (!fits || strlen(inner) != 1 || strlen(own[0]) != 1 || strlen(own[1]) != 1) {
		sl_onnx_refuse(
			im, "of torch's einsum products of two values over one axis are read, as attention has them");
		return;
	}
	first = soft || strchr(word[2], *own[0]) < strchr(word[2], *own[1]); /* in scores, queries come before keys */
	snprintf(want[0], sizeof *want, "%s%s%s", same, own[!first], inner);
	snprintf(want[1], sizeof *want, "%s%s%s", same, inner, own[first]);
	snprintf(want[2], sizeof *want, "%s%s%s", same, own[!first], own[first]);
	a = *in[!first];
	b = *in[first];
	reorder(&b, word[first], want[1]);
	if (strcmp(soft ? word[0] : word[2], want[soft ? 0 : 2]) != 0) {
		sl_onnx_refuse(
			im, "einsum has the scores of attention in another order than [batch, heads, queries, keys]");
	} else if (soft) {
		attend(im, &a.scores, b);
		reorder(sl_onnx_find(im, im->node->output[0]), want[2], word[2]);
	} else {
		reorder(&a, word[!first], want[0]);
		scores(im, a, b);
	}
}

/* Rows of v are multiplied by their weights and summed: w is [batch, …, 1, rows], v [batch, …, rows, features]. */
static void weigh(struct sl_onnx_import *im, struct sl_onnx_value w, struct sl_onnx_value *v)
{
	const int last = w.view.n_axis - 1;
	const struct sl_onnx_axis rows = w.view.axis[last];

	if (last < 2 || v->view.n_axis != last + 1 || sl_onnx_axis_size(&w.view, last - 1) != 1 ||
	    sl_onnx_axis_size(&w.view, last) != sl_onnx_axis_size(&v->view, last - 1)) {
		sl_onnx_refuse(im,
			       "a softmax outside attention multiplies rows by one weight each: write (w * x).sum()");
		return;
	}
	w.view.axis[last] = w.view.axis[last - 1];
	w.view.axis[last - 1] = rows;
	sl_onnx_out_pair(im, SL_OP_MUL, "multiplies", &w, v);
	if (!im->b->err)
		sl_onnx_out_sum(im, sl_onnx_find(im, im->node->output[0]), last - 1, true);
}

void sl_onnx_read_matmul(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *a = sl_onnx_in(im, 0), *b = sl_onnx_in(im, 1);

	if (im->b->err || !a || !b) {
		sl_onnx_refuse(im, "an input is left out");
		return;
	}
	if (im->node->op_type[0] == 'E') {
		einsum(im);
		return;
	}
	if (sl_onnx_read_product_of_zeros(im))
		return;
	if (a->scores.heads && b->value >= 0) {
		attend(im, &a->scores, *b);
		return;
	}
	if (b->value < 0) {
		linear(im, false);
		return;
	}
	if (sl_onnx_data_in(im, 0, 0) < 0 || sl_onnx_data_in(im, 1, 0) < 0)
		return;
	if (a->weights)
		weigh(im, *a, sl_onnx_in(im, 1));
	else
		scores(im, *a, *b);
}

bool sl_onnx_read_scores(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, 0), *w = sl_onnx_in(im, 1);
	const char *kind = im->node->op_type;
	const size_t mask = v && v->scores.heads ? 1 : 0;
	struct sl_onnx_value made;
	struct sl_onnx_mask added;
	float by = 0;

	v = mask ? v : w;
	if (im->b->err || !v || !v->scores.heads)
		return false;
	made = *v;
	if (mask && (strcmp(kind, "Mul") == 0 || strcmp(kind, "Div") == 0) && sl_onnx_fixed_in(im, 1, &by) && by != 0 &&
	    !made.scores.softmax && (!made.scores.causal || (kind[0] == 'M' ? by : 1 / by) >= LEAST_FACTOR))
		made.scores.scale *= kind[0] == 'M' ? by : 1 / by;
	else if (strcmp(kind, "Add") == 0 && !made.scores.softmax && sl_onnx_mask_in(im, mask, &added))
		made.scores.causal |= sl_onnx_hides_behind(im, &added);
	else if (strcmp(kind, "Dropout") == 0 && made.scores.softmax && made.scores.p == 0 &&
		 sl_onnx_scalar_in(im, 1, &by) && by >= 0 && by < 1)
		made.scores.p = by;
	else
		sl_onnx_refuse(im,
			       "of scores of attention it is not read: those are scaled, masked by a causal mask or "
			       "one of padding, put through softmax and dropped out");
	sl_onnx_out_same(im, &made);
	return true;
}

void sl_onnx_read_softmax(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);
	const int64_t axis = sl_onnx_attr_int(im, "axis", -1);
	struct sl_onnx_value made;

	if (im->b->err)
		return;
	if (v && v->value >= 0 && !v->permuted && !v->summed && !sl_onnx_per_token(im, v) &&
	    strcmp(im->node->output[0], im->onnx->out->name) != 0 && axis >= -v->view.n_axis && axis < v->view.n_axis) {
		made = *v;
		sl_onnx_out_softmax(im, &made, (int)(axis + v->view.n_axis) % v->view.n_axis);
		return;
	}
	if (!v || !v->scores.heads || v->scores.softmax || (axis != -1 && axis != v->scores.n_axis - 1)) {
		sl_onnx_refuse(im, "of tokens softmax is read in attention alone, over the keys; leave it out at the "
				   "end of a network: the loss has it");
		return;
	}
	made = *v;
	made.scores.softmax = true;
	sl_onnx_out_same(im, &made);
}
