/* Attention masks. Rows have no padding here, so a padding mask hides nothing and is left out; a causal mask becomes an
 * attribute of attention. A mask begins at the ids, or at an input that says which tokens are real. Each node between
 * that and the scores is computed on struct sl_onnx_mask. A mask that would hide other keys is refused. */
#include <math.h>
#include <string.h>

#include "client/model/onnx_tokens.h"
#include "common/base/log.h"

static const float hidden = -1e4f; /* a key is hidden if this or less is added to its score */

static struct sl_onnx_mask uniform(float number)
{
	struct sl_onnx_mask m;

	for (int w = 0; w < 2; w++)
		for (int z = 0; z < SL_ONNX_ZONES; z++)
			m.at[w][z] = number;
	return m;
}

/* ---- constants */

static float element(const Onnx__Tensor *t, int64_t i)
{
	if (t->data_type == SL_ONNX_FLOAT) {
		float v;

		memcpy(&v, (t->has_raw_data ? (const char *)t->raw_data.data : (const char *)t->float_data) + i * 4,
		       sizeof v);
		return v;
	}
	if (t->data_type == SL_ONNX_DOUBLE) {
		double v;

		memcpy(&v, t->raw_data.data + i * 8, sizeof v);
		return (float)v;
	}
	if (t->data_type == SL_ONNX_INT64) {
		int64_t v;

		memcpy(&v, (t->has_raw_data ? (const char *)t->raw_data.data : (const char *)t->int64_data) + i * 8,
		       sizeof v);
		return (float)v;
	}
	return t->has_raw_data ? (float)t->raw_data.data[i] : (float)t->int32_data[i]; /* BOOL */
}

/* A constant as a mask: one number everywhere, or one square [queries, keys] with one number in each zone. False: it is
 * neither. */
static bool of_constant(const Onnx__Tensor *t, struct sl_onnx_mask *out)
{
	const int64_t n = sl_onnx_count(t), side = t->n_dims ? t->dims[t->n_dims - 1] : 1;
	const bool square = t->n_dims > 1 && side > 1 && t->dims[t->n_dims - 2] == side && n == side * side;
	float zone[SL_ONNX_ZONES];

	if (n < 1 || (t->data_type != SL_ONNX_FLOAT && t->data_type != SL_ONNX_INT64 && t->data_type != SL_ONNX_BOOL &&
		      (t->data_type != SL_ONNX_DOUBLE || t->raw_data.len != (size_t)n * 8)))
		return false;
	zone[SL_ONNX_BEFORE] = element(t, square ? side : 0);
	zone[SL_ONNX_OWN] = element(t, 0);
	zone[SL_ONNX_BEHIND] = element(t, square ? 1 : 0);
	for (int64_t i = 0; i < n; i++) {
		const int64_t ahead = square ? i % side - i / side : 0;

		if (element(t, i) != zone[ahead < 0 ? SL_ONNX_BEFORE : ahead > 0 ? SL_ONNX_BEHIND : SL_ONNX_OWN])
			return false;
	}
	for (int w = 0; w < 2; w++)
		memcpy(out->at[w], zone, sizeof zone);
	return true;
}

/* Whether the zones of m still lie in v's last two dimensions, queries and keys; or m is uniform, and has none. */
static bool is_square(const struct sl_onnx_mask *m, const struct sl_onnx_value *v)
{
	const int64_t *end = v->dim + v->n_dim;
	bool same = true;

	for (int w = 0; w < 2; w++)
		for (int z = 0; z < SL_ONNX_ZONES; z++)
			same &= m->at[w][z] == m->at[w][0];
	return same || (v->n_dim > 1 && end[-1] > 1 && end[-1] == end[-2]);
}

bool sl_onnx_mask_in(struct sl_onnx_import *im, size_t i, struct sl_onnx_mask *out)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, i);
	float number;

	if (!v || v->value >= 0 || v->scores.heads || v->is_places)
		return false;
	if (v->is_mask)
		*out = v->mask;
	else if (v->n_ints == 1 || v->is_number)
		*out = uniform(v->n_ints ? (float)v->ints[0] : v->number);
	else if (v->constant && sl_onnx_count(v->constant) == 1 && sl_onnx_scalar_in(im, i, &number))
		*out = uniform(number);
	else if (!v->constant || !of_constant(v->constant, out) ||
		 (sl_onnx_learns(im, v->constant) &&
		  !(out->at[0][SL_ONNX_BEHIND] <= hidden))) /* another parameter may learn */
		return false;
	return is_square(out, v);
}

void sl_onnx_fill_mask(struct sl_onnx_import *im, const Onnx__Tensor *number, const int64_t *dim, int n_dim)
{
	struct sl_onnx_value made = {.value = -1, .is_mask = true, .mask = uniform(0), .n_dim = n_dim};

	if (number && (sl_onnx_count(number) != 1 || !of_constant(number, &made.mask)))
		sl_onnx_refuse(im, "it makes a tensor of constants, which is not read");
	for (int i = 0; i < n_dim; i++)
		made.dim[i] = dim[i];
	sl_onnx_out_same(im, &made);
}

/* ---- masks that hide nothing */

static void note_padding(const struct sl_onnx_import *im)
{
	sl_log(SL_LOG_INFO, "onnx-mask", "%s: rows of tokens have no padding here, so the mask of padding is left out",
	       im->name);
}

/* fits[w]: the mask has the right numbers if real tokens are w. If only one of both fits, this settles im->world.
 * False: none fits, or not the one that was settled before. */
static bool settle(struct sl_onnx_import *im, const bool fits[2])
{
	if (im->world < 0 && fits[0] != fits[1]) {
		im->world = fits[1];
		note_padding(im);
	}
	return fits[im->world < 0 ? 0 : im->world];
}

bool sl_onnx_hides_behind(struct sl_onnx_import *im, const struct sl_onnx_mask *added)
{
	bool fits[2];

	for (int w = 0; w < 2; w++)
		fits[w] = added->at[w][SL_ONNX_BEFORE] == 0 && added->at[w][SL_ONNX_OWN] == 0 &&
			  (added->at[w][SL_ONNX_BEHIND] == 0 || added->at[w][SL_ONNX_BEHIND] <= hidden);
	if (!settle(im, fits)) {
		sl_onnx_refuse(im, "its mask hides other keys than padding and those behind the query");
		return false;
	}
	return added->at[im->world > 0][SL_ONNX_BEHIND] != 0;
}

/* Whether the mask is `is` everywhere. */
static bool settle_all(struct sl_onnx_import *im, const struct sl_onnx_mask *m, float is)
{
	bool fits[2] = {true, true};

	for (int w = 0; w < 2; w++)
		for (int z = 0; z < SL_ONNX_ZONES; z++)
			fits[w] &= m->at[w][z] == is;
	return settle(im, fits);
}

/* ---- dimensions */

/* Broadcasts the mask's dimensions with dim[n], as numpy does. */
static void spread(struct sl_onnx_value *made, const int64_t *dim, int n)
{
	const int more = n - made->n_dim;

	if (more > 0) {
		memmove(made->dim + more, made->dim, (size_t)made->n_dim * sizeof *dim);
		for (int i = 0; i < more; i++)
			made->dim[i] = 1;
		made->n_dim = n;
	}
	for (int i = 0; i < n; i++)
		if (dim[i] > 1)
			made->dim[made->n_dim - n + i] = dim[i];
}

static bool reshaped(struct sl_onnx_import *im, struct sl_onnx_value *made)
{
	int64_t to[SL_ONNX_INTS];
	const int n = sl_onnx_ints_in(im, 1, to);

	if (n < 1 || !sl_onnx_fill_sizes(made->dim, made->n_dim, to, n))
		return false;
	made->n_dim = n;
	memcpy(made->dim, to, (size_t)n * sizeof *to);
	return true;
}

/* Transpose. Where queries and keys are swapped, so are the zones before and after the query. */
static bool turned(struct sl_onnx_import *im, struct sl_onnx_value *made)
{
	const Onnx__Attribute *perm = sl_onnx_attr(im, "perm", SL_ONNX_ATTR_INTS);
	const struct sl_onnx_value from = *made;
	const int n = made->n_dim;

	if (made->is_mask && !is_square(&made->mask, made))
		sl_onnx_refuse(im, "its mask's queries and keys are not its last two axes");
	if (!perm || (int)perm->n_ints != n || n < 2)
		return false;
	for (int i = 0; i < n; i++) {
		if (perm->ints[i] < 0 || perm->ints[i] >= n)
			return false;
		made->dim[i] = from.dim[perm->ints[i]];
	}
	for (int w = 0; w < 2 && perm->ints[n - 1] == n - 2; w++) {
		made->mask.at[w][SL_ONNX_BEFORE] = from.mask.at[w][SL_ONNX_BEHIND];
		made->mask.at[w][SL_ONNX_BEHIND] = from.mask.at[w][SL_ONNX_BEFORE];
	}
	return true;
}

/* ---- arithmetic */

static float computed(const char *kind, float a, float b)
{
	switch (kind[0]) {
	case 'A': /* Add, And */
		return kind[1] == 'd' ? a + b : (float)(a != 0 && b != 0);
	case 'S':
		return a - b;
	case 'M':
		return a * b;
	case 'D':
		return a / b;
	case 'O':
		return (float)(a != 0 || b != 0);
	case 'E':
		return (float)(a == b);
	case 'G':
		return (float)(strchr(kind, 'O') ? a >= b : a > b);
	default: /* Less, LessOrEqual */
		return (float)(strchr(kind, 'O') ? a <= b : a < b);
	}
}

static bool is_one_of(const char *kind, const char *const *list)
{
	while (*list && strcmp(*list, kind) != 0)
		list++;
	return *list;
}

/* Positions as a mask: each key's position relative to the query's. Positions along the last dimension are those of
 * keys; others are the query's own, 0. */
static bool place_in(struct sl_onnx_import *im, size_t i, struct sl_onnx_mask *out)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, i);
	const bool keys = v && v->n_dim && v->dim[v->n_dim - 1] == im->tokens;
	int along = 0;

	for (int d = 0; v && d < v->n_dim; d++)
		along += v->dim[d] == im->tokens;
	if (!v || !v->is_places)
		return false;
	if (along != 1)
		sl_onnx_refuse(im, "positions lie along one axis: compare at[None, :] with at[:, None], not expanded");
	*out = uniform(0);
	for (int w = 0; w < 2 && keys; w++) {
		out->at[w][SL_ONNX_BEFORE] = -1;
		out->at[w][SL_ONNX_BEHIND] = 1;
	}
	return true;
}

/* Whether it is the number of a row's tokens: the sum of a padding mask. */
static bool is_count(const struct sl_onnx_value *v)
{
	return v && v->is_mask && v->summed;
}

/* Input `i` as an operand of arithmetic on masks: positions or a mask, but not a number of tokens. */
static bool operand(struct sl_onnx_import *im, size_t i, struct sl_onnx_mask *out)
{
	if (is_count(sl_onnx_in(im, i)))
		return false;
	return place_in(im, i, out) || sl_onnx_mask_in(im, i, out);
}

/* The mask gets the shape to which all inputs broadcast. */
static void take_dims(struct sl_onnx_import *im, struct sl_onnx_value *made)
{
	for (size_t i = 0; i < im->node->n_input; i++) {
		const struct sl_onnx_value *v = sl_onnx_in(im, i);

		if (v && (v->is_mask || v->is_places || v->constant))
			spread(made, v->dim, v->n_dim);
		else if (v && sl_onnx_is_ids(im, v))
			spread(made, (int64_t[]){im->batch, im->tokens}, 2);
	}
}

/* Arithmetic, comparisons and logic on one or two masks, zone by zone. Positions are only compared with positions. */
static bool arithmetic(struct sl_onnx_import *im, const char *kind)
{
	static const char *const pairs[] = {"Add",         "And",   "Sub",     "Mul",  "Div",
					    "Or",          "Equal", "Greater", "Less", "GreaterOrEqual",
					    "LessOrEqual", NULL};
	struct sl_onnx_value made = {.value = -1, .is_mask = true};
	struct sl_onnx_mask a, b = uniform(0);
	bool places = true;

	for (size_t i = 0; i < im->node->n_input; i++) {
		const struct sl_onnx_value *v = sl_onnx_in(im, i);

		places = v && v->is_places == (i ? places : v->is_places) && (!v->is_places || strchr("EGL", kind[0]));
		if (!places)
			return false;
		places = v->is_places;
	}
	if (!operand(im, 0, &a) || (im->node->n_input > 1 && !operand(im, 1, &b)))
		return false;
	if (strcmp(kind, "Not") != 0 && strcmp(kind, "Neg") != 0 && !is_one_of(kind, pairs))
		return false;
	for (int w = 0; w < 2; w++)
		for (int z = 0; z < SL_ONNX_ZONES; z++)
			made.mask.at[w][z] = strcmp(kind, "Not") == 0   ? (float)(a.at[w][z] == 0)
					     : strcmp(kind, "Neg") == 0 ? -a.at[w][z]
									: computed(kind, a.at[w][z], b.at[w][z]);
	take_dims(im, &made);
	sl_onnx_out_same(im, &made);
	return true;
}

/* Compares ids with the token that rows are padded with: a padding mask, whose result for real tokens is known. */
static bool compared_ids(struct sl_onnx_import *im, const char *kind)
{
	static const char *const kinds[] = {"Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", NULL};
	struct sl_onnx_value made = {.value = -1, .is_mask = true, .mask = uniform(kind[0] == 'G')};
	struct sl_onnx_mask one, all;
	float pad; /* the id that is told from others; by an inequality, from all above it */

	if (!is_one_of(kind, kinds) || !sl_onnx_is_ids(im, sl_onnx_in(im, 0)) || !sl_onnx_mask_in(im, 1, &one))
		return false;
	all = uniform(one.at[0][0]);
	if (memcmp(&one, &all, sizeof one) != 0)
		return false;
	pad = one.at[0][0] - (float)(strcmp(kind, "Less") == 0 || strcmp(kind, "GreaterOrEqual") == 0);
	if (im->pad < 0 && pad >= 0 && pad < SL_MODEL_MAX_VOCAB)
		im->pad = (int32_t)pad;
	im->masked = true;
	if (im->whole)
		sl_onnx_refuse_mixed(im);
	else if (pad != (float)im->pad || (kind[0] != 'E' && pad != 0))
		sl_onnx_refuse(im,
			       "it tells token %s %g from others, where the padding, %d, is told from all others; of "
			       "other padding give a mask as the second input",
			       kind[0] == 'E' ? "id" : "ids up to", (double)pad, (int)im->pad);
	else
		note_padding(im);
	take_dims(im, &made);
	sl_onnx_out_same(im, &made);
	return true;
}

/* ---- values and masks */

/* Where. Of three masks it is a mask. Of a mask, a number and a value it is the value: the mask must choose the value
 * everywhere. If the value is scores, the mask may also choose a number that hides keys. */
static bool where(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *v = NULL;
	struct sl_onnx_value made = {.value = -1, .is_mask = true};
	struct sl_onnx_mask which, in[2], added;
	int of = -1;

	if (!sl_onnx_mask_in(im, 0, &which))
		return false;
	for (int i = 0; i < 2; i++) {
		const struct sl_onnx_value *x = sl_onnx_in(im, (size_t)i + 1);

		if (is_count(x) || !sl_onnx_mask_in(im, (size_t)i + 1, &in[i])) {
			of = of < 0 ? i : 2;
			v = x;
		}
	}
	if (of < 0) {
		for (int w = 0; w < 2; w++)
			for (int z = 0; z < SL_ONNX_ZONES; z++)
				made.mask.at[w][z] = in[which.at[w][z] == 0].at[w][z];
		take_dims(im, &made);
		sl_onnx_out_same(im, &made);
		return true;
	}
	if (of > 1 || !v)
		return false;
	for (int w = 0; w < 2; w++)
		for (int z = 0; z < SL_ONNX_ZONES; z++)
			added.at[w][z] = (which.at[w][z] == 0) == of ? 0 : in[1 - of].at[w][z] <= hidden ? hidden : NAN;
	made = *v;
	if (v->scores.heads && !v->scores.softmax)
		made.scores.causal |= sl_onnx_hides_behind(im, &added);
	else if (!settle_all(im, &added, 0))
		sl_onnx_refuse(im, "torch's where of computed values is not read; multiply by what chooses");
	sl_onnx_out_same(im, &made);
	return true;
}

/* A value times a mask that is 1 for real tokens, or a sum of tokens divided by their number: the same value. */
static bool with_value(struct sl_onnx_import *im, const char *kind)
{
	const bool div = strcmp(kind, "Div") == 0;
	const size_t i = im->node->n_input == 2 && sl_onnx_mask_in(im, 0, &(struct sl_onnx_mask){0}) ? 0 : 1;
	const struct sl_onnx_value *v = sl_onnx_in(im, 1 - i), *by = sl_onnx_in(im, i);
	struct sl_onnx_mask m;
	struct sl_onnx_value made;

	if (!v || !by || v->value < 0 || (!div && strcmp(kind, "Mul") != 0) || (div && i == 0) ||
	    !sl_onnx_mask_in(im, i, &m))
		return false;
	if (by->summed != div || v->summed != div || !settle_all(im, &m, 1))
		sl_onnx_refuse(im, "by a mask a value is multiplied that is 1 of real tokens, and a sum of tokens is "
				   "divided by how many they are");
	made = *v;
	made.summed = false;
	sl_onnx_out_same(im, &made);
	return true;
}

/* Whether the node sums a mask over a row's tokens, which counts them, or bounds their number below by at most 1. A row
 * has a token at least, so such a bound changes nothing. */
static bool counted(struct sl_onnx_import *im, const char *kind, struct sl_onnx_value *made)
{
	int64_t axis[SL_ONNX_INTS];
	float least;

	if (strcmp(kind, "ReduceSum") == 0 && !made->summed && sl_onnx_ints_in(im, 1, axis) == 1) {
		axis[0] += axis[0] < 0 ? made->n_dim : 0;
		made->summed = axis[0] >= 0 && axis[0] < made->n_dim && made->dim[axis[0]] == im->tokens;
		for (int64_t i = axis[0]; made->summed && i < made->n_dim - 1 && !sl_onnx_attr_int(im, "keepdims", 1);
		     i++)
			made->dim[i] = made->dim[i + 1];
		made->n_dim -= !sl_onnx_attr_int(im, "keepdims", 1);
		return made->summed;
	}
	return made->summed && (strcmp(kind, "Clip") == 0 || strcmp(kind, "Max") == 0) && im->node->n_input > 1 &&
	       sl_onnx_scalar_in(im, 1, &least) && least <= 1 && (im->node->n_input < 3 || !im->node->input[2][0]);
}

/* Slice from the first index on: the upper left corner of a causal mask is a causal mask. */
static bool sliced(struct sl_onnx_import *im, struct sl_onnx_value *made)
{
	int64_t from[SL_ONNX_INTS], to[SL_ONNX_INTS], axis[SL_ONNX_INTS], step[SL_ONNX_INTS];
	const int n = sl_onnx_ints_in(im, 1, from);

	if (n < 1 || sl_onnx_ints_in(im, 2, to) != n || sl_onnx_ints_in(im, 3, axis) != n)
		return false;
	for (int i = 0; i < n; i++) {
		const int64_t a = axis[i] < 0 ? axis[i] + made->n_dim : axis[i];

		if (a < 0 || a >= made->n_dim || from[i] ||
		    (im->node->n_input > 4 && (sl_onnx_ints_in(im, 4, step) != n || step[i] != 1)))
			return false;
		made->dim[a] = sl_onnx_bound(to[i], made->dim[a]);
	}
	return true;
}

static bool is_whole(int64_t type)
{
	return type == SL_ONNX_INT64 || type == SL_ONNX_INT32;
}

/* Cast. A number that is not 0 becomes true; its part behind the point is lost to whole numbers. */
static bool casted(struct sl_onnx_import *im, struct sl_onnx_value *made)
{
	const int64_t to = sl_onnx_attr_int(im, "to", SL_ONNX_FLOAT);

	for (int w = 0; w < 2; w++)
		for (int z = 0; z < SL_ONNX_ZONES && to != SL_ONNX_FLOAT; z++)
			made->mask.at[w][z] =
				to == SL_ONNX_BOOL ? (float)(made->mask.at[w][z] != 0) : truncf(made->mask.at[w][z]);
	return made->is_mask || is_whole(to);
}

/* Whether the node only changes the mask's dimensions, or counts tokens; *made becomes its output. */
static bool same(struct sl_onnx_import *im, const char *kind, struct sl_onnx_value *made)
{
	int64_t to[SL_ONNX_INTS];
	int n;

	if (counted(im, kind, made))
		return true;
	if (strcmp(kind, "Reshape") == 0)
		return reshaped(im, made);
	if (strcmp(kind, "Transpose") == 0)
		return turned(im, made);
	if (strcmp(kind, "Slice") == 0)
		return sliced(im, made);
	if (strcmp(kind, "Expand") == 0) {
		n = sl_onnx_ints_in(im, 1, to);
		if (n > 0)
			spread(made, to, n);
		return n > 0;
	}
	return strncmp(kind, "Cast", 4) == 0 ? casted(im, made) : strcmp(kind, "Identity") == 0;
}

/* IsNaN of a softmax is 0: no query has all its keys hidden, so softmax is never NaN. */
static bool is_nan(struct sl_onnx_import *im, const char *kind)
{
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);

	if (strcmp(kind, "IsNaN") != 0 || !v || !v->scores.softmax)
		return false;
	sl_onnx_fill_mask(im, NULL, NULL, 0);
	return true;
}

bool sl_onnx_read_mask(struct sl_onnx_import *im)
{
	const char *kind = im->node->op_type;
	struct sl_onnx_value *first = NULL, made;
	bool masks = false, ids = false;

	for (size_t i = 0; i < im->node->n_input && i < 3 && !im->b->err; i++) {
		struct sl_onnx_value *v = im->node->input[i][0] ? sl_onnx_in(im, i) : NULL;
		const Onnx__Tensor *t = v && v->value < 0 ? v->constant : NULL;

		if (!v)
			continue;
		first = i ? first : v;
		masks |= v->is_mask || v->is_places || v->scores.softmax ||
			 (t && sl_onnx_count(t) > 1 &&
			  (t->data_type == SL_ONNX_BOOL || (t->data_type == SL_ONNX_FLOAT && t->n_dims > 1 &&
							    !sl_onnx_learns(im, t) && of_constant(t, &made.mask))));
		masks |= v->scores.heads && strcmp(kind, "Where") == 0;
		ids |= i == 0 && sl_onnx_is_ids(im, v);
	}
	if (im->b->err || !first || (!masks && !ids))
		return im->b->err;
	made = *first;
	if (ids &&
	    (strcmp(kind, "Identity") == 0 || (strcmp(kind, "Cast") == 0 && is_whole(sl_onnx_attr_int(im, "to", 0))))) {
		sl_onnx_out_same(im, &made);
		return true;
	}
	if ((ids && compared_ids(im, kind)) || is_nan(im, kind) ||
	    (strcmp(kind, "Where") == 0 ? where(im) : arithmetic(im, kind) || with_value(im, kind)))
		return true;
	if (!made.is_mask && !made.is_places) {
		made.is_mask = sl_onnx_mask_in(im, 0, &made.mask);
		made.constant = NULL;
	}
	if (!(made.is_mask || made.is_places) || !same(im, kind, &made))
		return false;
	sl_onnx_out_same(im, &made);
	return true;
}

void sl_onnx_read_trilu(struct sl_onnx_import *im)
{
	const bool upper = sl_onnx_attr_int(im, "upper", 1);
	const struct sl_onnx_value *v = sl_onnx_in(im, 0);
	int64_t k[SL_ONNX_INTS] = {0};
	struct sl_onnx_value made;

	if (im->b->err || !v)
		return;
	made = (struct sl_onnx_value){.value = -1, .is_mask = true, .n_dim = v->n_dim};
	memcpy(made.dim, v->dim, sizeof made.dim);
	if (!sl_onnx_mask_in(im, 0, &made.mask) ||
	    (im->node->n_input > 1 && im->node->input[1][0] &&
	     (sl_onnx_ints_in(im, 1, k) != 1 || k[0] < upper - 1 || k[0] > upper)))
		sl_onnx_refuse(im, "it is of no causal mask, whose diagonal is %d or %d", upper - 1, upper);
	for (int w = 0; w < 2; w++)
		for (int z = 0; z < SL_ONNX_ZONES; z++)
			if (upper ? z - SL_ONNX_OWN < k[0] : z - SL_ONNX_OWN > k[0])
				made.mask.at[w][z] = 0;
	sl_onnx_out_same(im, &made);
}
