#include "common/nn/insert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"

enum {
	MAX_SIZE = 1 << 20,
	MAX_STEPS = 1000000000,
	MAX_L1 = 1000000,
	SIDES = 2,
	MOST_OPS = SIDES * 2 * SL_INSERT_MAX_ITEMS
};

enum item_kind { ITEM_CONV, ITEM_LINEAR, ITEM_DECAY };

struct item {
	enum item_kind kind;
	int c; /* channels or features that cross */
	int k, stride, pad;
	struct sl_decay decay; /* but `full` */
};

struct items {
	int n;
	struct item item[SL_INSERT_MAX_ITEMS];
};

/* ---- text */

/* Digits at *text, `low` … `high`. */
static bool read_number(const char **text, int64_t low, int64_t high, int64_t *out)
{
	int64_t n = 0;
	const char *start = *text;

	for (; **text >= '0' && **text <= '9' && n <= high; ++*text)
		n = n * 10 + (**text - '0');
	*out = n;
	return *text > start && n >= low && n <= high;
}

static bool read_size(const char **text, int low, int *out)
{
	int64_t n;
	bool good = read_number(text, low, MAX_SIZE, &n);

	*out = (int)n;
	return good;
}

static bool read_word(const char **text, const char *word)
{
	size_t len = strlen(word);

	if (strncmp(*text, word, len) != 0)
		return false;
	*text += len;
	return true;
}

/* ",k=3,s=3": each at most once. */
static bool read_options(const char **text, struct item *it)
{
	const struct {
		const char *word;
		int low, *to;
	} option[] = {{",k=", 1, &it->k}, {",s=", 1, &it->stride}, {",p=", 0, &it->pad}};
	enum { N = sizeof option / sizeof option[0] };
	bool seen[N] = {false};

	while (**text == ',') {
		int i = 0;

		while (i < N && (seen[i] || !read_word(text, option[i].word)))
			i++;
		if (i == N || !read_size(text, option[i].low, option[i].to))
			return false;
		seen[i] = true;
	}
	return it->pad < it->k;
}

/* A decimal fraction, 0 … `high`; strtod alone would also take blanks, signs, hexadecimal and "nan". */
static bool read_fraction(const char **text, double high, double *out)
{
	char *end;

	if (!(**text >= '0' && **text <= '9') || (text[0][0] == '0' && (text[0][1] | 32) == 'x'))
		return false;
	*out = strtod(*text, &end);
	*text = end;
	return *out <= high;
}

/* The rest of "decaylinear:rate=0.9,every=300,times=9,l1=1e-4,from=0": each at most once, the first three always. */
static bool read_decay(const char **text, struct sl_decay *d)
{
	int64_t times = 0;
	const struct {
		const char *word;
		int64_t low, high, *whole; /* either this */
		double most, *fraction;    /* or this */
	} option[] = {
		{"rate=", 0, 0, NULL, 1, &d->rate},
		{"every=", 1, MAX_STEPS, &d->every, 0, NULL},
		{"times=", 1, SL_DECAY_MAX_TIMES, &times, 0, NULL},
		{"l1=", 0, 0, NULL, MAX_L1, &d->l1},
		{"from=", 0, (int64_t)MAX_STEPS * SL_DECAY_MAX_TIMES, &d->from, 0, NULL},
	};
	enum { N = sizeof option / sizeof option[0] };
	bool seen[N] = {false}, good;

	do {
		int i = 0;

		while (i < N && (seen[i] || !read_word(text, option[i].word)))
			i++;
		if (i == N)
			return false;
		seen[i] = true;
		good = option[i].whole ? read_number(text, option[i].low, option[i].high, option[i].whole)
				       : read_fraction(text, option[i].most, option[i].fraction);
	} while (good && read_word(text, ","));
	d->times = (int)times;
	if (d->from > d->every * times)
		d->from = d->every * times;
	return good && d->rate > 0 && d->every && times;
}

static bool read_item(const char **text, struct item *it)
{
	*it = (struct item){.k = 1, .stride = 1};
	if (read_word(text, "decaylinear:")) {
		it->kind = ITEM_DECAY;
		return read_decay(text, &it->decay);
	}
	if (read_word(text, "linear:")) {
		it->kind = ITEM_LINEAR;
		return read_size(text, 1, &it->c);
	}
	return read_word(text, "conv:") && read_size(text, 1, &it->c) && read_options(text, it);
}

static enum sl_err parse(const char *text, struct items *out, struct sl_fail *fail)
{
	const char *at = text;
	bool good = true;

	*out = (struct items){0};
	if (!*text || strcmp(text, "none") == 0)
		return SL_OK;
	do {
		if (out->n == SL_INSERT_MAX_ITEMS)
			return sl_fail_set(fail, SL_ERR_CONFIG, "at most %d layers joined with '+', got \"%.100s\"",
					   SL_INSERT_MAX_ITEMS, text);
		good = read_item(&at, &out->item[out->n++]);
	} while (good && *at == '+' && *++at);
	for (int i = 0; i + 1 < out->n && good; i++)
		if (out->item[i].kind == ITEM_DECAY)
			return sl_fail_set(fail, SL_ERR_CONFIG, "decaylinear must be the last of \"%.100s\"", text);
	if (good && !*at && at[-1] != '+')
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_CONFIG,
			   "\"%.100s\" is not none, conv:C[,k=K][,s=S][,p=P] (p below k), linear:F or "
			   "decaylinear:rate=R,every=S,times=T[,l1=L][,from=A] (R above 0 and at most 1, T 1 to %d, "
			   "S 1 to %d), or several joined with '+', as conv:20,k=3,s=3 is",
			   text, SL_DECAY_MAX_TIMES, MAX_STEPS);
}

/* The shortest that reads back as x. */
static const char *fraction_text(double x, char out[32])
{
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(out, 32, "%.*g", digits, x);
		if (strtod(out, NULL) == x)
			break;
	}
	return out;
}

static void write_item(const struct item *it, char *out, size_t cap)
{
	char a[48] = "", b[48] = "", c[48] = "", number[32];

	if (it->kind == ITEM_DECAY) {
		const struct sl_decay *d = &it->decay;

		if (d->l1 > 0)
			snprintf(a, sizeof a, ",l1=%s", fraction_text(d->l1, number));
		if (d->from)
			snprintf(b, sizeof b, ",from=%" PRId64, d->from);
		snprintf(out, cap, "decaylinear:rate=%s,every=%" PRId64 ",times=%d%s%s", fraction_text(d->rate, number),
			 d->every, d->times, a, b);
		return;
	}
	if (it->k != 1)
		snprintf(a, sizeof a, ",k=%d", it->k);
	if (it->stride != 1)
		snprintf(b, sizeof b, ",s=%d", it->stride);
	if (it->pad != 0)
		snprintf(c, sizeof c, ",p=%d", it->pad);
	snprintf(out, cap, "%s:%d%s%s%s", it->kind == ITEM_CONV ? "conv" : "linear", it->c, a, b, c);
}

static enum sl_err write_items(const struct items *items, char *out, struct sl_fail *fail)
{
	char made[SL_INSERT_TEXT] = "", item[2 * SL_INSERT_TEXT];
	size_t n = 0;

	for (int i = 0; i < items->n; i++) {
		write_item(&items->item[i], item, sizeof item);
		n += (size_t)snprintf(made + n, sizeof made - n, "%s%s", i ? "+" : "", item);
		if (n >= sizeof made)
			return sl_fail_set(fail, SL_ERR_CONFIG, "the insert is longer than %d bytes",
					   SL_INSERT_TEXT - 1);
	}
	memcpy(out, made, sizeof made);
	return SL_OK;
}

enum sl_err sl_insert_canonical(const char *text, char *out, struct sl_fail *fail)
{
	return sl_insert_advance(text, 0, out, fail);
}

enum sl_err sl_insert_advance(const char *text, int64_t steps, char *out, struct sl_fail *fail)
{
	struct items items;
	enum sl_err err = parse(text, &items, fail);
	struct sl_decay *d;

	if (err)
		return err;
	d = items.n ? &items.item[items.n - 1].decay : NULL;
	if (d) { /* all 0 in other layers */
		int64_t left = d->every * d->times - d->from;

		d->from += steps < left ? steps : left;
	}
	return write_items(&items, out, fail);
}

/* ---- ops */

/* The new ops of one side of one cut, in order; `value` numbers and shapes run through them. */
struct splice {
	struct sl_model *model;
	struct sl_fail *fail;
	const char *key; /* "insert.head" */
	struct sl_op op[MOST_OPS];
	int n_op;
	int value; /* what the next op reads */
	struct sl_shape shape;
	uint16_t stream; /* of the next op */
};

static enum sl_err grow(void **list, int count, int more, size_t size, struct sl_fail *fail)
{
	void *bigger = realloc(*list, (size_t)(count + more) * size);

	if (!bigger)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for an insert");
	*list = bigger;
	return SL_OK;
}

static enum sl_err add_param(struct splice *s, struct sl_op *op, const char *suffix, struct sl_param param)
{
	struct sl_model *m = s->model;
	int64_t count;
	enum sl_err err;

	if (!sl_shape_count_checked(&param.shape, INT32_MAX, &count))
		return sl_fail_at(s->fail, s->key, SL_ERR_CONFIG, "%s has too large a %s", op->name, suffix);
	err = grow((void **)&m->param, m->n_param, 1, sizeof *m->param, s->fail);
	if (err)
		return err;
	param.trainable = param.optional = true;
	snprintf(param.name, sizeof param.name, "%.80s.%s", op->name, suffix);
	op->param[op->n_param++] = m->n_param;
	m->param[m->n_param++] = param;
	return SL_OK;
}

static enum sl_err add_bias(struct splice *s, struct sl_op *op, int count)
{
	return add_param(
		s, op, "bias",
		(struct sl_param){.shape = sl_shape1(count), .file_shape = sl_shape1(count), .init = SL_INIT_ZERO});
}

static struct sl_op *begin_op(struct splice *s, enum sl_op_kind kind, bool restore, int item)
{
	struct sl_op *op = &s->op[s->n_op];

	*op = (struct sl_op){.kind = kind, .stream = s->stream, .in = {s->value}, .n_in = 1};
	op->in_shape[0] = s->shape;
	snprintf(op->name, sizeof op->name, "%s%s.%d", s->key, restore ? ".restore" : "", item);
	return op;
}

static enum sl_err finish_op(struct splice *s, struct sl_op *op)
{
	struct sl_fail why;
	int64_t count;
	enum sl_err err = sl_op_infer_shape(op, &why);

	if (err)
		return sl_fail_at(s->fail, s->key, err, "%s", why.text);
	if (!sl_shape_count_checked(&op->out_shape, INT32_MAX, &count))
		return sl_fail_at(s->fail, s->key, SL_ERR_CONFIG, "%s makes too large a tensor", op->name);
	op->out = s->model->n_value++;
	s->value = op->out;
	s->shape = op->out_shape;
	s->stream++;
	s->n_op++;
	return SL_OK;
}

/* Nothing but linear layers lies between, so variance is kept where that of a weight is 1 / terms of a sum. */
static struct sl_param conv_weight(int a, int k, int b, int64_t terms)
{
	return (struct sl_param){
		.shape = sl_shape4(a, k, k, b),
		.file_shape = sl_shape4(a, b, k, k),
		.layout = SL_LAYOUT_OHWI_FROM_OIHW,
		.init = SL_INIT_KAIMING_LINEAR,
		.fan = terms,
	};
}

static enum sl_err add_conv(struct splice *s, bool restore, int i, int out_c, const struct item *it)
{
	struct sl_op *op = begin_op(s, SL_OP_CONV2D, restore, i);
	int in_c = (int)s->shape.dim[3];
	enum sl_err err;

	op->u.conv = (struct sl_conv_attr){in_c, out_c, it->k, it->k, it->stride, it->pad, 1, true};
	err = add_param(s, op, "weight", conv_weight(out_c, it->k, in_c, (int64_t)in_c * it->k * it->k));
	if (!err)
		err = add_bias(s, op, out_c);
	return err ? err : finish_op(s, op);
}

/* Back to `shape`. An output is a sum over about (K/S)² positions of the input. */
static enum sl_err add_convt(struct splice *s, int i, const struct sl_shape *shape, const struct item *it)
{
	struct sl_op *op = begin_op(s, SL_OP_CONVT2D, true, i);
	int in_c = (int)s->shape.dim[3], out_c = (int)shape->dim[3];
	int64_t reach = (it->k + it->stride - 1) / it->stride;
	enum sl_err err;

	op->u.convt = (struct sl_convt_attr){
		.in_c = in_c,
		.out_c = out_c,
		.kh = it->k,
		.kw = it->k,
		.stride = it->stride,
		.pad = it->pad,
		.out_pad_h = (int)((shape->dim[1] + 2 * it->pad - it->k) % it->stride),
		.out_pad_w = (int)((shape->dim[2] + 2 * it->pad - it->k) % it->stride),
		.bias = true,
	};
	err = add_param(s, op, "weight", conv_weight(in_c, it->k, out_c, in_c * reach * reach));
	if (!err)
		err = add_bias(s, op, out_c);
	return err ? err : finish_op(s, op);
}

/* [N,H,W,C] as a 1×1 convolution, [N,F] as what it is. In a file both are a matrix [out, in]. */
static enum sl_err add_linear(struct splice *s, bool restore, int i, int out_f)
{
	bool image = s->shape.ndim == 4;
	int in_f = (int)s->shape.dim[s->shape.ndim - 1];
	struct sl_op *op = begin_op(s, image ? SL_OP_CONV2D : SL_OP_LINEAR, restore, i);
	enum sl_err err;

	if (image)
		op->u.conv = (struct sl_conv_attr){in_f, out_f, 1, 1, 1, 0, 1, false};
	else
		op->u.linear = (struct sl_linear_attr){in_f, out_f, false, false};
	err = add_param(s, op, "weight",
			(struct sl_param){
				.shape = image ? sl_shape4(out_f, 1, 1, in_f) : sl_shape2(out_f, in_f),
				.file_shape = sl_shape2(out_f, in_f),
				.init = SL_INIT_IDENTITY,
				.fan = in_f,
			});
	return err ? err : finish_op(s, op);
}

/* Both matrices are whole from the first step to the last, [features, features]; the ops are as wide as the live part.
 */
static enum sl_err add_decay(struct splice *s, bool restore, int i, const struct sl_decay *d)
{
	bool image = s->shape.ndim == 4;
	int width = sl_decay_width(d, 0), in_f = restore ? width : d->full, out_f = restore ? d->full : width;
	enum sl_op_kind kind = !image ? SL_OP_LINEAR : restore ? SL_OP_CONVT2D : SL_OP_CONV2D;
	struct sl_op *op = begin_op(s, kind, restore, i);
	enum sl_err err;

	if (!image)
		op->u.linear = (struct sl_linear_attr){in_f, out_f, false, restore};
	else if (restore)
		op->u.convt = (struct sl_convt_attr){in_f, out_f, 1, 1, 1, 0, 0, 0, false};
	else
		op->u.conv = (struct sl_conv_attr){in_f, out_f, 1, 1, 1, 0, 1, false};
	err = add_param(s, op, "weight",
			(struct sl_param){
				.shape = image ? sl_shape4(d->full, 1, 1, d->full) : sl_shape2(d->full, d->full),
				.file_shape = sl_shape2(d->full, d->full),
				.init = SL_INIT_IDENTITY,
				.fan = d->full,
			});
	return err ? err : finish_op(s, op);
}

/* `shape`: of this item's input. */
static enum sl_err add_item(struct splice *s, bool restore, int i, const struct item *it, const struct sl_shape *shape)
{
	int64_t last = shape->dim[shape->ndim - 1];

	if (it->kind == ITEM_DECAY)
		return add_decay(s, restore, i, &it->decay);
	if (it->kind == ITEM_LINEAR)
		return add_linear(s, restore, i, restore ? (int)last : it->c);
	if (shape->ndim != 4)
		return sl_fail_at(s->fail, s->key, SL_ERR_CONFIG, "conv needs [N,H,W,C] at the cut; linear:F would do");
	if (!restore)
		return add_conv(s, false, i, it->c, it);
	if (it->k == 1 && it->stride == 1)
		return add_conv(s, true, i, (int)last, it);
	return add_convt(s, i, shape, it);
}

/* All ops of one cut: the items, then those that undo them. *cross: the value between. */
static enum sl_err build(struct splice *s, struct items *items, int *cross)
{
	struct sl_shape before[SL_INSERT_MAX_ITEMS];
	enum sl_err err = SL_OK;

	for (int i = 0; i < items->n && !err; i++) {
		before[i] = s->shape;
		items->item[i].decay.full =
			items->item[i].kind == ITEM_DECAY ? (int)s->shape.dim[s->shape.ndim - 1] : 0;
		err = add_item(s, false, i, &items->item[i], &before[i]);
	}
	*cross = s->value;
	for (int i = items->n - 1; i >= 0 && !err; i--)
		err = add_item(s, true, i, &items->item[i], &before[i]);
	return err;
}

/* Puts the ops before op `at` of the model; later readers of `value` read what they give instead. The first `front`
 * belong to the unit before. */
static enum sl_err place(struct splice *s, int at, int front, int value)
{
	struct sl_model *m = s->model;
	enum sl_err err = grow((void **)&m->op, m->n_op, s->n_op, sizeof *m->op, s->fail);

	if (err)
		return err;
	for (int i = at; i < m->n_op; i++)
		for (int k = 0; k < m->op[i].n_in; k++)
			if (m->op[i].in[k] == value)
				m->op[i].in[k] = s->value;
	memmove(m->op + at + s->n_op, m->op + at, (size_t)(m->n_op - at) * sizeof *m->op);
	memcpy(m->op + at, s->op, (size_t)s->n_op * sizeof *m->op);
	m->n_op += s->n_op;
	for (int u = 0; u < m->n_unit; u++) {
		struct sl_unit *unit = &m->unit[u];

		unit->first_op += unit->first_op == at ? front : unit->first_op > at ? s->n_op : 0;
		unit->end_op += unit->end_op == at ? front : unit->end_op > at ? s->n_op : 0;
	}
	return SL_OK;
}

static struct sl_shape shape_of(const struct sl_model *m, int value)
{
	for (int i = 0; i < m->n_op; i++)
		if (m->op[i].out == value)
			return m->op[i].out_shape;
	return m->input;
}

/* One side: at boundary `at`, where `*value` crosses. Returns how many ops were put before the boundary. */
static enum sl_err splice_side(struct sl_model *m, const char *key, const char *text, uint16_t stream, int at,
			       int *value, int *front, int *all, struct sl_decay *decay, struct sl_fail *fail)
{
	struct splice s = {.model = m, .fail = fail, .key = key, .value = *value, .stream = stream};
	struct items items;
	struct sl_fail why;
	enum sl_err err = parse(text, &items, &why);
	int cross = *value;

	if (err)
		return sl_fail_at(fail, key, err, "%s", why.text);
	*front = items.n;
	s.shape = shape_of(m, *value);
	err = build(&s, &items, &cross);
	if (!err && s.n_op)
		err = place(&s, at, items.n, *value);
	if (err)
		return err;
	*decay = items.n ? items.item[items.n - 1].decay : (struct sl_decay){0};
	*all = s.n_op;
	*value = cross;
	return SL_OK;
}

enum sl_err sl_insert_splice(struct sl_model *model, struct sl_cut *cut, const char *head, const char *tail,
			     struct sl_decay decay[2], struct sl_fail *fail)
{
	uint16_t stream = (uint16_t)model->n_op;
	int front, all;
	enum sl_err err;

	if (model->n_op + MOST_OPS > SL_RNG_INIT)
		return sl_fail_at(fail, "insert.head", SL_ERR_CONFIG, "the model has too many ops");
	err = splice_side(model, "insert.head", head, stream, cut->head_end_op + 1, &cut->head_value, &front, &all,
			  &decay[0], fail);
	if (err)
		return err;
	cut->head_end_op += front;
	cut->tail_begin_op += all;
	/* the middle may be what lies between the two cuts alone: its first reader may be the tail's cut */
	err = splice_side(model, "insert.tail", tail, stream + MOST_OPS / SIDES, cut->tail_begin_op, &cut->tail_value,
			  &front, &all, &decay[1], fail);
	if (!err)
		cut->tail_begin_op += front;
	return err;
}
