#include "client/model/insert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/args.h"

enum { MAX_SIZE = 1 << 20, MAX_STEPS = SL_DECAY_MAX_EVERY, MAX_L1 = SL_DECAY_MAX_L1 };

/* ---- text */

static const struct sl_arg conv_args[] = {
	{.key = "c", .type = SL_ARG_INT, .positional = true, .required = true, .least = 1, .most = MAX_SIZE},
	{.key = "k", .type = SL_ARG_INT, .least = 1, .most = MAX_SIZE, .otherwise = 1},
	{.key = "s", .type = SL_ARG_INT, .least = 1, .most = MAX_SIZE, .otherwise = 1},
	{.key = "p", .type = SL_ARG_INT, .least = 0, .most = MAX_SIZE},
	{0},
};

static const struct sl_arg linear_args[] = {
	{.key = "f", .type = SL_ARG_INT, .positional = true, .required = true, .least = 1, .most = MAX_SIZE},
	{.key = "tokens", .type = SL_ARG_INT, .most = UINT16_MAX},
	{0},
};

static const struct sl_arg decay_args[] = {
	{.key = "rate", .type = SL_ARG_REAL, .required = true, .least = 0, .most = 1},
	{.key = "every", .type = SL_ARG_INT, .required = true, .least = 1, .most = MAX_STEPS},
	{.key = "times", .type = SL_ARG_INT, .required = true, .least = 1, .most = SL_DECAY_MAX_TIMES},
	{.key = "l1", .type = SL_ARG_REAL, .from_least = true, .most = MAX_L1},
	{.key = "from", .type = SL_ARG_INT, .most = (double)MAX_STEPS * SL_DECAY_MAX_TIMES},
	{.key = "rate2", .type = SL_ARG_REAL, .from_least = true, .most = 1},
	{0},
};

static const struct sl_args kinds[] = {
	[SL_INSERT_CONV] = {"", "conv", "conv:C[,k=K][,s=S][,p=P] with sizes of 1 and more, and P below K", conv_args,
			    NULL},
	[SL_INSERT_LINEAR] = {"", "linear", "linear:F[,tokens=N] with F of 1 and more, N up to 65535", linear_args,
			      NULL},
	[SL_INSERT_DECAY] = {"", "decaylinear",
			     "decaylinear:rate=R,every=S,times=T[,l1=L][,from=A][,rate2=Q] with R and Q above 0 and at "
			     "most 1, S 1 to 1000000000, T 1 to 64",
			     decay_args, NULL},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static void set_item(struct sl_insert_item *it, enum sl_insert_kind kind, const double *value)
{
	*it = (struct sl_insert_item){.kind = kind, .k = 1, .stride = 1};
	if (kind == SL_INSERT_DECAY) {
		struct sl_decay *d = &it->decay;

		*d = (struct sl_decay){.rate = value[0],
				       .every = (int64_t)value[1],
				       .times = (int)value[2],
				       .l1 = value[3],
				       .from = (int64_t)value[4],
				       .rate2 = value[5]};
		if (d->from > d->every * d->times)
			d->from = d->every * d->times;
		return;
	}
	it->c = (int)value[0];
	if (kind == SL_INSERT_LINEAR)
		it->tokens = (int)value[1];
	if (kind == SL_INSERT_CONV) {
		it->k = (int)value[1];
		it->stride = (int)value[2];
		it->pad = (int)value[3];
	}
}

static enum sl_err read_item(const char *text, size_t len, struct sl_insert_item *it, struct sl_fail *fail)
{
	const size_t name_len = strcspn(text, ":,+");
	double value[SL_ARGS_MAX];
	enum sl_err err;

	for (int i = 0; i < N_KINDS; i++) {
		if (strlen(kinds[i].name) != name_len || memcmp(kinds[i].name, text, name_len) != 0)
			continue;
		err = sl_args_read(&kinds[i], text + name_len, len - name_len, value, fail);
		if (err)
			return err;
		set_item(it, (enum sl_insert_kind)i, value);
		if (it->pad >= it->k)
			return sl_fail_set(fail, SL_ERR_CONFIG, "%s, got p=%d and k=%d", kinds[i].usage, it->pad,
					   it->k);
		return SL_OK;
	}
	return sl_fail_set(fail, SL_ERR_CONFIG,
			   "an insert is none, a preset such as bottleneck:58, or conv, linear and decaylinear joined "
			   "with '+' as in conv:20,k=3,s=3+linear:8, got '%.*s'",
			   (int)(name_len < 100 ? name_len : 100), text);
}

/* Both sides of each bottleneck. Its number says how many times fewer elements cross at 224². */
static const struct {
	const char *name, *side[2];
} presets[] = {{"bottleneck:58", {"conv:32,k=4,s=4+conv:4", "conv:400+conv:100"}},
	       {"bottleneck:83", {"conv:32,k=8,s=8+conv:16", "conv:300+conv:50"}},
	       {"bottleneck:153", {"conv:32,k=8,s=8+conv:8", "conv:300+conv:30"}}};
enum { N_PRESETS = sizeof presets / sizeof presets[0] };

static enum sl_err read_preset(const char **text, bool tail, struct sl_fail *fail)
{
	for (int i = 0; i < N_PRESETS; i++)
		if (strcmp(*text, presets[i].name) == 0) {
			*text = presets[i].side[tail];
			return SL_OK;
		}
	return strncmp(*text, "bottleneck", 10) != 0
		       ? SL_OK
		       : sl_fail_set(fail, SL_ERR_CONFIG, "there are %s, %s and %s, got \"%.100s\"", presets[0].name,
				     presets[1].name, presets[2].name, *text);
}

static enum sl_err parse(const char *text, bool tail, struct sl_insert *out, struct sl_fail *fail)
{
	enum sl_err unknown = read_preset(&text, tail, fail);

	*out = (struct sl_insert){0};
	if (unknown || !*text || strcmp(text, "none") == 0)
		return unknown;
	for (const char *at = text;;) {
		const size_t len = sl_args_plus(at, strlen(at));
		enum sl_err err;

		if (out->n == SL_INSERT_MAX_ITEMS)
			return sl_fail_set(fail, SL_ERR_CONFIG, "at most %d layers joined with '+', got \"%.100s\"",
					   SL_INSERT_MAX_ITEMS, text);
		if (out->n && (out->item[out->n - 1].kind == SL_INSERT_DECAY || out->item[out->n - 1].tokens))
			return sl_fail_set(fail, SL_ERR_CONFIG, "%s must be the last of \"%.100s\"",
					   out->item[out->n - 1].tokens ? "linear with tokens" : "decaylinear", text);
		err = read_item(at, len, &out->item[out->n], fail);
		if (err)
			return err;
		out->n++;
		if (!at[len])
			return SL_OK;
		at += len + 1;
	}
}

static void write_item(const struct sl_insert_item *it, char *out, size_t cap)
{
	const struct sl_decay *d = &it->decay;
	const double decay[] = {d->rate, (double)d->every, d->times, d->l1, (double)d->from, d->rate2};
	const double sizes[] = {it->c, it->k, it->stride, it->pad}, linear[] = {it->c, it->tokens};

	sl_args_write(&kinds[it->kind],
		      it->kind == SL_INSERT_DECAY    ? decay
		      : it->kind == SL_INSERT_LINEAR ? linear
						     : sizes,
		      out, cap);
}

static enum sl_err write_items(const struct sl_insert *items, char *out, struct sl_fail *fail)
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

enum sl_err sl_insert_advance(const char *text, bool tail, int64_t steps, char *out, struct sl_fail *fail)
{
	struct sl_insert items;
	enum sl_err err = parse(text, tail, &items, fail);
	struct sl_decay *d;

	if (err)
		return err;
	d = items.n ? &items.item[items.n - 1].decay : NULL;
	if (d) { /* in other layers it is all 0, and stays so */
		int64_t left = d->every * d->times - d->from;

		d->from += steps < left ? steps : left;
	}
	return write_items(&items, out, fail);
}

/* ---- layers */

enum sl_err sl_insert_parse(struct sl_insert *out, const char *key, const char *text, struct sl_fail *fail)
{
	struct sl_fail why;
	enum sl_err err = parse(text, strcmp(key, "insert.tail") == 0, out, &why);

	out->key = key;
	return err ? sl_fail_at(fail, key, err, "%s", why.text) : SL_OK;
}

/* Only linear layers lie between, so weights with a variance of 1 / (terms of a sum) keep the variance of values. */
static struct sl_init keeping_variance(int64_t terms)
{
	return sl_init_normal(sqrt(1.0 / (double)terms));
}

static const char *of_part(char out[SL_NAME_MAX], const char *name, const char *part)
{
	snprintf(out, SL_NAME_MAX, "%.64s.%s", name, part);
	return out;
}

/* Whether a convolution looks along the depth of volumes, too. */
static bool spans(const struct sl_insert_item *it)
{
	return it->slices && (it->k > 1 || it->stride > 1);
}

static int add_conv(struct sl_build *b, const char *name, int value, int out_c, const struct sl_insert_item *it)
{
	const struct sl_window_attr along = {.k = it->k, .stride = it->stride, .pad = it->pad, .dilation = 1};
	struct sl_build_window w = {.out_c = out_c, .k = it->k, .stride = it->stride, .pad = it->pad, .bias = true};
	char window[SL_NAME_MAX];
	int64_t in_c;

	if (spans(it)) {
		value = sl_build_depth(b, of_part(window, name, "window"), value, it->slices, along);
		w.slices = it->made;
	}
	in_c = sl_build_shape(b, value).dim[3];
	return sl_build_conv_from(b, name, value, w, keeping_variance(in_c * it->k * it->k));
}

/* Restores the shape before. An output is a sum over about (K/S)² positions of the input; of volumes (K/S)³. */
static int add_convt(struct sl_build *b, const char *name, int value, const struct sl_insert_item *it)
{
	const int64_t *to = it->before.dim, reach = (it->k + it->stride - 1) / it->stride;
	const struct sl_window_attr along = {
		.k = it->k, .stride = it->stride, .pad = it->pad, .dilation = 1, .back = it->slices};
	struct sl_build_window w = {
		.out_c = (int)to[3], .k = it->k, .stride = it->stride, .pad = it->pad, .bias = true};
	const int64_t terms = sl_build_shape(b, value).dim[3] * reach * reach;
	char window[SL_NAME_MAX];

	if (!spans(it))
		return sl_build_convt(b, name, value, w, to[1], to[2], keeping_variance(terms));
	w.out_c *= it->k;
	w.slices = it->made;
	value = sl_build_convt(b, name, value, w, to[1] / it->slices, to[2], keeping_variance(terms * reach));
	return sl_build_depth(b, of_part(window, name, "window"), value, it->made, along);
}

static bool has_second_pair(const struct sl_insert_item *it)
{
	return it->tokens > 0 || it->decay.rate2 > 0;
}

/* Adds a layer over the features of tokens [F], a transpose to rows [F,S], and a layer over the S tokens. */
static int add_pairs(struct sl_insert *insert, struct sl_insert_item *it, struct sl_build *b, const char *name,
		     int features, int value)
{
	const char *key = it->tokens ? "tokens" : "rate2";
	char second[SL_NAME_MAX];

	if (b->graph->value[value].lead != SL_PER_TOKEN) {
		sl_build_refuse(b,
				"%s lowers the number of a row's tokens, and here no tokens cross: leave it out, or "
				"cut where tokens cross",
				key);
		return -1;
	}
	if (!insert->row_tokens) {
		sl_build_refuse(b, "%s needs rows that all have the same number of tokens: set data.pad to max", key);
		return -1;
	}
	it->row_tokens = (int)insert->row_tokens;
	it->decay.tokens = it->kind == SL_INSERT_DECAY ? it->row_tokens : 0;
	insert->most = b->graph->most;
	value = sl_build_identity(b, name, value, features, false);
	value = sl_build_transpose(b, of_part(second, name, "transpose"), value, it->row_tokens, 0);
	return sl_build_identity(b, of_part(second, name, "tokens"), value, it->tokens ? it->tokens : it->row_tokens,
				 false);
}

static int restore_tokens(const struct sl_insert *insert, const struct sl_insert_item *it, struct sl_build *b,
			  const char *name, int value)
{
	char second[SL_NAME_MAX];

	value = sl_build_identity(b, of_part(second, name, "tokens"), value, it->row_tokens,
				  it->kind == SL_INSERT_DECAY);
	return sl_build_transpose(b, of_part(second, name, "transpose"), value, 0, insert->most);
}

/* Notes the slices of an item's input and output. Returns those of its output. */
static int set_slices(struct sl_insert_item *it, int slices, struct sl_build *b)
{
	it->slices = slices > 0 && it->kind == SL_INSERT_CONV ? slices : 0;
	it->made = slices;
	if (slices < 0 && it->kind == SL_INSERT_CONV && (it->k > 1 || it->stride > 1))
		sl_build_refuse(b,
				"k and s above 1 need the number of slices at the cut, and no layer next to it tells: "
				"cut behind a convolution, or give conv:%d",
				it->c);
	else if (spans(it))
		it->made = (slices + 2 * it->pad - it->k) / it->stride + 1;
	return it->made;
}

int sl_insert_build(struct sl_insert *insert, struct sl_build *b, int value)
{
	int slices = insert->slices;

	for (int i = 0; i < insert->n && !b->err; i++) {
		struct sl_insert_item *it = &insert->item[i];
		char name[SL_NAME_MAX];
		int last;

		snprintf(name, sizeof name, "%s.%d", insert->key, i);
		it->before = sl_build_shape(b, value);
		slices = set_slices(it, slices, b);
		last = (int)it->before.dim[it->before.ndim - 1];
		it->decay.full = it->kind == SL_INSERT_DECAY ? last : 0;
		if (has_second_pair(it))
			value = add_pairs(insert, it, b, name, it->decay.full ? last : it->c, value);
		else if (it->kind != SL_INSERT_CONV)
			value = sl_build_identity(b, name, value, it->decay.full ? last : it->c, false);
		else if (it->before.ndim == 4)
			value = add_conv(b, name, value, it->c, it);
		else
			sl_build_refuse(b, "conv needs [N,H,W,C] at the cut; linear:F would do");
	}
	return value;
}

int sl_insert_restore(const struct sl_insert *insert, struct sl_build *b, int value)
{
	for (int i = insert->n - 1; i >= 0 && !b->err; i--) {
		const struct sl_insert_item *it = &insert->item[i];
		const int last = (int)it->before.dim[it->before.ndim - 1];
		char name[SL_NAME_MAX];

		snprintf(name, sizeof name, "%s.restore.%d", insert->key, i);
		if (has_second_pair(it))
			value = restore_tokens(insert, it, b, name, value);
		if (it->kind != SL_INSERT_CONV)
			value = sl_build_identity(b, name, value, last, it->kind == SL_INSERT_DECAY);
		else if (it->k == 1 && it->stride == 1)
			value = add_conv(b, name, value, last, it);
		else
			value = add_convt(b, name, value, it);
	}
	return value;
}

struct sl_decay sl_insert_decay(const struct sl_insert *insert)
{
	return insert->n ? insert->item[insert->n - 1].decay : (struct sl_decay){0};
}
