#include "common/model/insert.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIZE = 1 << 20, MAX_STEPS = SL_DECAY_MAX_EVERY, MAX_L1 = SL_DECAY_MAX_L1 };

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
static bool read_options(const char **text, struct sl_insert_item *it)
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

static bool read_item(const char **text, struct sl_insert_item *it)
{
	*it = (struct sl_insert_item){.k = 1, .stride = 1};
	if (read_word(text, "decaylinear:")) {
		it->kind = SL_INSERT_DECAY;
		return read_decay(text, &it->decay);
	}
	if (read_word(text, "linear:")) {
		it->kind = SL_INSERT_LINEAR;
		return read_size(text, 1, &it->c);
	}
	return read_word(text, "conv:") && read_size(text, 1, &it->c) && read_options(text, it);
}

static enum sl_err parse(const char *text, struct sl_insert *out, struct sl_fail *fail)
{
	const char *at = text;
	bool good = true;

	*out = (struct sl_insert){0};
	if (!*text || strcmp(text, "none") == 0)
		return SL_OK;
	do {
		if (out->n == SL_INSERT_MAX_ITEMS)
			return sl_fail_set(fail, SL_ERR_CONFIG, "at most %d layers joined with '+', got \"%.100s\"",
					   SL_INSERT_MAX_ITEMS, text);
		good = read_item(&at, &out->item[out->n++]);
	} while (good && *at == '+' && *++at);
	for (int i = 0; i + 1 < out->n && good; i++)
		if (out->item[i].kind == SL_INSERT_DECAY)
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

static void write_item(const struct sl_insert_item *it, char *out, size_t cap)
{
	char a[48] = "", b[48] = "", c[48] = "", number[32];

	if (it->kind == SL_INSERT_DECAY) {
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
	snprintf(out, cap, "%s:%d%s%s%s", it->kind == SL_INSERT_CONV ? "conv" : "linear", it->c, a, b, c);
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

enum sl_err sl_insert_canonical(const char *text, char *out, struct sl_fail *fail)
{
	return sl_insert_advance(text, 0, out, fail);
}

enum sl_err sl_insert_advance(const char *text, int64_t steps, char *out, struct sl_fail *fail)
{
	struct sl_insert items;
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

/* ---- layers */

enum sl_err sl_insert_parse(struct sl_insert *out, const char *key, const char *text, struct sl_fail *fail)
{
	struct sl_fail why;
	enum sl_err err = parse(text, out, &why);

	out->key = key;
	return err ? sl_fail_at(fail, key, err, "%s", why.text) : SL_OK;
}

/* Nothing but linear layers lies between, so variance is kept where that of a weight is 1 / terms of a sum. */
static struct sl_init keeping_variance(int64_t terms)
{
	return sl_init_normal(sqrt(1.0 / (double)terms));
}

static int add_conv(struct sl_build *b, const char *name, int value, int out_c, const struct sl_insert_item *it)
{
	const struct sl_build_window w = {
		.out_c = out_c, .k = it->k, .stride = it->stride, .pad = it->pad, .bias = true};
	const int64_t in_c = sl_build_shape(b, value).dim[3];

	return sl_build_conv_from(b, name, value, w, keeping_variance(in_c * it->k * it->k));
}

/* Back to the shape before. An output is a sum over about (K/S)² positions of the input. */
static int add_convt(struct sl_build *b, const char *name, int value, const struct sl_insert_item *it)
{
	const int64_t *to = it->before.dim, reach = (it->k + it->stride - 1) / it->stride;
	const struct sl_build_window w = {
		.out_c = (int)to[3], .k = it->k, .stride = it->stride, .pad = it->pad, .bias = true};
	const int64_t in_c = sl_build_shape(b, value).dim[3];

	return sl_build_convt(b, name, value, w, to[1], to[2], keeping_variance(in_c * reach * reach));
}

int sl_insert_build(struct sl_insert *insert, struct sl_build *b, int value)
{
	for (int i = 0; i < insert->n && b->err == SL_OK; i++) {
		struct sl_insert_item *it = &insert->item[i];
		char name[SL_NAME_MAX];
		int last;

		snprintf(name, sizeof name, "%s.%d", insert->key, i);
		it->before = sl_build_shape(b, value);
		last = (int)it->before.dim[it->before.ndim - 1];
		it->decay.full = it->kind == SL_INSERT_DECAY ? last : 0;
		if (it->kind != SL_INSERT_CONV)
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
	for (int i = insert->n - 1; i >= 0 && b->err == SL_OK; i--) {
		const struct sl_insert_item *it = &insert->item[i];
		const int last = (int)it->before.dim[it->before.ndim - 1];
		char name[SL_NAME_MAX];

		snprintf(name, sizeof name, "%s.restore.%d", insert->key, i);
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
