#include "common/session/mean.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/worker.h"
#include "common/exec/clip.h"
#include "common/exec/finite.h"
#include "common/exec/optimizer.h"
#include "common/session/mean_rows.h"

enum sl_err sl_end_check(const struct sl_end_layout *l, const float *change, struct sl_fail *fail)
{
	const int64_t at = sl_finite_find(change, l->floats);

	if (at >= l->floats)
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_NONFINITE, "NaN or Inf in the %s of head and tail",
			   at < l->grads ? (l->round ? "weights" : "gradients") : "statistics");
}

enum sl_err sl_end_check_norm(const struct sl_end_layout *l, const float *change, double factor, double most,
			      struct sl_fail *fail)
{
	const double norm = most > 0 ? sqrt(sl_squares(change, l->grads)) * factor : 0;

	if (norm <= most)
		return SL_OK;
	return sl_fail_at(fail, "share.member_norm", SL_ERR_NONFINITE,
			  "the norm of this member's %s of head and tail is %g, and share.member_norm is %g",
			  l->round ? "change" : "gradient", norm, most);
}

enum sl_err sl_end_check_moments(const struct sl_end_layout *l, const float *change, uint64_t done,
				 struct sl_fail *fail)
{
	/* only Adam's second moment must not be negative: it takes its square root */
	const float *last = change + l->grads + l->stats + (l->moments > 1 ? l->grads : 0);
	uint64_t applied;

	if (!sl_steps_read(&applied, change + l->floats - 2) || applied > done)
		return sl_fail_set(fail, SL_ERR_PAYLOAD,
				   "the optimizer of head and tail says that it has done more steps than the run, or "
				   "its count is not a number");
	for (int64_t i = 0; i < l->grads && l->moments > 1; i++)
		if (!(last[i] >= 0))
			return sl_fail_set(fail, SL_ERR_PAYLOAD,
					   "the optimizer of head and tail has a second moment of %g", (double)last[i]);
	return SL_OK;
}

/* ---- the bytes that cross */

struct sl_end_coder {
	const struct sl_end_layout *layout;
	struct sl_backend *be;
	int n;                   /* vectors */
	int64_t all;             /* elements of the only vector; 0: one vector for each of the layout's parameters */
	struct sl_codec **codec; /* [n]; NULL: a table, which crosses as rows (mean_rows.h) */
	uint64_t rows_bytes;     /* bytes of all tables' rows in the last change */
	size_t bound;
};

enum { LENGTH = sizeof(uint32_t) };

static int vectors_of(const struct sl_end_coder_env *env)
{
	return env->all ? env->layout->grads > 0 : env->layout->n;
}

static int64_t elements_of(const struct sl_end_layout *l, bool all, int i)
{
	return all ? l->grads : l->count[i];
}

/* Whether a vector is a table that crosses as the rows that a step has touched: without a codec. */
static bool by_rows(const struct sl_end_coder_env *env, int i)
{
	return !env->all && env->layout->row[i] && strcmp(env->spec->text, "none") == 0;
}

static uint64_t table_bound(const struct sl_end_layout *l, int i)
{
	return sl_rows_bound(l->count[i] / l->row[i], l->row[i]);
}

static struct sl_codec_env codec_env(const struct sl_end_coder_env *env, int i)
{
	return (struct sl_codec_env){
		.be = env->be,
		.shape = {.ndim = 2, .dim = {1, elements_of(env->layout, env->all, i)}},
		.slots = 1,
		/* a seed of their own: dir and chunk also occur with a chunk's tensors */
		.seed = env->seed ^ (UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(env->member + 2)),
		.dir = SL_DIR_HEAD_GRAD,
	};
}

/* Bytes of a change that no codec sees. */
static uint64_t plain_bytes(const struct sl_end_layout *l)
{
	return (uint64_t)(l->floats - l->grads) * sizeof(float);
}

enum sl_err sl_end_coder_need(const struct sl_end_coder_env *env, uint64_t *memory, uint64_t *bound,
			      struct sl_fail *fail)
{
	uint64_t bytes = plain_bytes(env->layout), host = 0;

	sl_need(&host, vectors_of(env), sizeof(struct sl_codec *));
	for (int i = 0; i < vectors_of(env); i++) {
		const struct sl_codec_env of = codec_env(env, i);
		struct sl_codec_need need = {0};
		enum sl_err err = SL_OK;

		if (by_rows(env, i))
			need.bound = table_bound(env->layout, i);
		else
			err = sl_codec_need(env->spec, &of, SL_CODEC_ALONE, &need, fail);
		if (err)
			return err;
		sl_need(&host, 1, need.memory.host);
		sl_need(&bytes, 1, need.bound);
		sl_need(&bytes, 1, LENGTH);
	}
	*memory = host;
	*bound = bytes;
	return SL_OK;
}

struct sl_cost sl_end_pass_cost(const struct sl_end_layout *l)
{
	static const double pass_ns = 4;
	const double s = (double)l->floats * pass_ns * 1e-9;

	return (struct sl_cost){s, s};
}

struct sl_cost sl_end_coder_cost(const struct sl_end_coder_env *env, bool encodes)
{
	struct sl_cost sum = sl_end_pass_cost(env->layout);

	for (int i = 0; i < vectors_of(env); i++) {
		const struct sl_codec_env of = codec_env(env, i);
		const struct sl_extent e = sl_extent_of(of.shape);

		if (!by_rows(env, i))
			sl_cost_add(&sum, sl_codec_cost(env->spec, &e, encodes));
	}
	return sum;
}

enum sl_err sl_end_coder_open(struct sl_end_coder **out, const struct sl_end_coder_env *env, struct sl_fail *fail)
{
	struct sl_end_coder *c = calloc(1, sizeof *c);
	const int n = vectors_of(env);
	enum sl_err err = SL_OK;

	if (c)
		c->codec = calloc((size_t)n + 1, sizeof(struct sl_codec *));
	if (!c || !c->codec) {
		sl_end_coder_close(c);
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the codecs of head and tail");
	}
	c->layout = env->layout;
	c->be = env->be;
	c->n = n;
	c->all = env->all ? env->layout->grads : 0;
	c->bound = plain_bytes(env->layout);
	for (int i = 0; i < n && !err; i++) {
		const struct sl_codec_env of = codec_env(env, i);

		if (!by_rows(env, i))
			err = sl_codec_open(&c->codec[i], env->spec, &of, fail);
		if (!err)
			c->bound +=
				LENGTH + (c->codec[i] ? sl_codec_bound(c->codec[i], 1) : table_bound(env->layout, i));
	}
	if (err) {
		sl_end_coder_close(c);
		return err;
	}
	*out = c;
	return SL_OK;
}

void sl_end_coder_close(struct sl_end_coder *c)
{
	if (!c)
		return;
	for (int i = 0; i < c->n && c->codec; i++)
		sl_codec_close(c->codec[i]);
	free(c->codec);
	free(c);
}

size_t sl_end_coder_bound(const struct sl_end_coder *c)
{
	return c->bound;
}

double sl_end_coder_nominal(const struct sl_end_coder *c)
{
	double bytes = (double)plain_bytes(c->layout) + (double)c->rows_bytes;

	for (int i = 0; i < c->n; i++)
		bytes += c->codec[i] ? sl_codec_nominal_bytes(c->codec[i], 1) : 0;
	return bytes;
}

static struct sl_tensor vector_at(const struct sl_end_coder *c, int i, const float *at)
{
	return (struct sl_tensor){.be = c->be,
				  .data = (void *)(uintptr_t)at,
				  .dtype = SL_F32,
				  .shape = {.ndim = 2, .dim = {1, elements_of(c->layout, c->all > 0, i)}}};
}

static struct sl_codec_call call_of(uint64_t step, int i)
{
	return (struct sl_codec_call){.step = step, .chunk = (uint16_t)i, .training = true, .dims = sl_dims_rows(1)};
}

static enum sl_err encode_vector(struct sl_end_coder *c, uint64_t step, int i, const float *at, struct sl_buf *out)
{
	const struct sl_codec_call call = call_of(step, i);
	const struct sl_tensor x = vector_at(c, i, at);
	const int64_t row = c->codec[i] ? 0 : c->layout->row[i];

	return row ? sl_rows_write(at, c->layout->count[i] / row, row, out)
		   : sl_codec_encode(c->codec[i], &call, &x, out);
}

enum sl_err sl_end_encode(struct sl_end_coder *c, uint64_t step, const float *change, struct sl_buf *out)
{
	const float *at = change;
	const size_t began = out->len;
	enum sl_err err = SL_OK;

	c->rows_bytes = 0;
	for (int i = 0; i < c->n && !err; i++) {
		const size_t was = out->len;
		uint32_t bytes = 0;

		err = sl_buf_put(out, &bytes, sizeof bytes);
		if (!err)
			err = encode_vector(c, step, i, at, out);
		if (err)
			break;
		bytes = (uint32_t)(out->len - was - LENGTH);
		memcpy(out->data + was, &bytes, sizeof bytes);
		c->rows_bytes += c->codec[i] ? 0 : bytes;
		at += elements_of(c->layout, c->all > 0, i);
	}
	if (!err)
		sl_assert_int(at - change, ==, c->n ? c->layout->grads : 0); /* all of it, once */
	if (!err)
		err = sl_buf_put(out, change + c->layout->grads, plain_bytes(c->layout));
	if (!err) /* the other side has room for so many bytes */
		sl_assert_int(out->len - began, <=, c->bound);
	return err;
}

static enum sl_err decode_vector(struct sl_end_coder *c, uint64_t step, int i, struct sl_bytes *in, float *at,
				 struct sl_fail *fail)
{
	const struct sl_codec_call call = call_of(step, i);
	struct sl_tensor x = vector_at(c, i, at);
	struct sl_bytes length, payload;
	uint32_t bytes;

	if (sl_bytes_take(in, LENGTH, &length))
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "gradients of head and tail end before parameter %d of %d", i,
				   c->n);
	memcpy(&bytes, length.data, sizeof bytes);
	if (sl_bytes_take(in, bytes, &payload))
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "gradients of head and tail end within parameter %d of %d", i,
				   c->n);
	if (c->codec[i])
		return sl_codec_decode(c->codec[i], &call, payload, &x, fail);
	c->rows_bytes += bytes;
	return sl_rows_read(at, c->layout->count[i] / c->layout->row[i], c->layout->row[i], payload, fail);
}

enum sl_err sl_end_decode(struct sl_end_coder *c, uint64_t step, struct sl_bytes in, float *change,
			  struct sl_fail *fail)
{
	float *at = change;

	c->rows_bytes = 0;
	for (int i = 0; i < c->n; i++) {
		enum sl_err err = decode_vector(c, step, i, &in, at, fail);

		if (err)
			return err;
		at += elements_of(c->layout, c->all > 0, i);
	}
	sl_assert_int(at - change, ==, c->n ? c->layout->grads : 0);
	if (in.len != plain_bytes(c->layout))
		return sl_fail_set(fail, SL_ERR_PAYLOAD,
				   "%zu bytes of statistics of head and tail, where there are %llu", in.len,
				   (unsigned long long)plain_bytes(c->layout));
	memcpy(change + c->layout->grads, in.data, in.len);
	return SL_OK;
}

void sl_end_coder_commit(struct sl_end_coder *c)
{
	for (int i = 0; c && i < c->n; i++)
		if (c->codec[i])
			sl_codec_commit(c->codec[i]);
}

void sl_end_coder_rollback(struct sl_end_coder *c)
{
	for (int i = 0; c && i < c->n; i++)
		if (c->codec[i])
			sl_codec_rollback(c->codec[i]);
}

void sl_end_coder_forget(struct sl_end_coder *c)
{
	for (int i = 0; c && i < c->n; i++)
		if (c->codec[i])
			sl_codec_forget(c->codec[i]);
}

size_t sl_end_coder_state_bytes(const struct sl_end_coder *c)
{
	size_t bytes = 0;

	for (int i = 0; c && i < c->n; i++)
		bytes += LENGTH + (c->codec[i] ? sl_codec_state_bytes(c->codec[i]) : 0);
	return bytes;
}

/* Writes for each codec a u32 length and its state. */
enum sl_err sl_end_coder_save(const struct sl_end_coder *c, struct sl_buf *out)
{
	const size_t began = out->len;
	enum sl_err err = SL_OK;

	for (int i = 0; c && i < c->n && !err; i++) {
		const size_t was = out->len;
		uint32_t bytes = 0;

		err = sl_buf_put(out, &bytes, sizeof bytes);
		if (!err && c->codec[i])
			err = sl_codec_save(c->codec[i], out);
		bytes = (uint32_t)(out->len - was - LENGTH);
		if (!err)
			memcpy(out->data + was, &bytes, sizeof bytes);
	}
	if (!err)
		sl_assert_int(out->len - began, <=, sl_end_coder_state_bytes(c));
	return err;
}

enum sl_err sl_end_coder_load(struct sl_end_coder *c, struct sl_bytes in)
{
	enum sl_err err = SL_OK;

	for (int i = 0; c && i < c->n && !err; i++) {
		struct sl_bytes length, state;
		uint32_t bytes = 0;

		err = sl_bytes_take(&in, LENGTH, &length);
		if (!err)
			memcpy(&bytes, length.data, sizeof bytes);
		if (!err)
			err = sl_bytes_take(&in, bytes, &state);
		if (!err)
			err = c->codec[i] ? sl_codec_load(c->codec[i], state) : state.len ? SL_ERR_DATA : SL_OK;
	}
	if (!err && in.len)
		err = SL_ERR_DATA;
	if (err)
		sl_end_coder_forget(c);
	return err;
}

/* ---- the trunk's sum */

enum sl_err sl_end_sum_open(struct sl_end_sum *s, const struct sl_end_coder_env *env, struct sl_fail *fail)
{
	enum sl_err err;

	*s = (struct sl_end_sum){.layout = env->layout};
	err = sl_end_coder_open(&s->coder, env, fail);
	if (err)
		return err;
	s->sum = calloc((size_t)env->layout->floats + 1, sizeof *s->sum);
	if (env->layout->round)
		s->total = calloc((size_t)env->layout->floats + 1, sizeof *s->total);
	if (s->sum && (s->total || !env->layout->round))
		return SL_OK;
	sl_end_sum_close(s);
	return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the mean of heads and tails");
}

void sl_end_sum_close(struct sl_end_sum *s)
{
	sl_end_coder_close(s->coder);
	free(s->sum);
	free(s->total);
	*s = (struct sl_end_sum){0};
}

void sl_end_sum_begin(struct sl_end_sum *s)
{
	s->n = 0;
	s->rows = s->applied = 0;
	if (s->total)
		memset(s->total, 0, (size_t)s->layout->floats * sizeof *s->total);
}

void sl_end_sum_add(struct sl_end_sum *s, const float *change)
{
	const struct sl_end_layout *l = s->layout;
	float *sum = s->sum, *keep = sum + l->grads, *add = keep + l->stats;
	const float *its_keep = change + l->grads, *its_add = its_keep + l->stats;

	if (!s->n++) {
		memcpy(sum, change, (size_t)l->floats * sizeof *sum);
		return;
	}
	for (int64_t i = 0; i < l->grads; i++)
		sum[i] += change[i];
	for (int64_t i = 0; i < l->stats; i++) {
		keep[i] *= its_keep[i];
		add[i] = sl_change_statistic(its_keep[i], add[i], its_add[i]);
	}
	sl_worker_turn();
}

void sl_end_sum_add_rows(struct sl_end_sum *s, const float *change, uint64_t rows)
{
	const int64_t count = s->layout->floats - 2;
	uint64_t applied;

	if (!rows)
		return;
	s->n++;
	s->rows += rows;
	for (int64_t i = 0; i < count; i++)
		s->total[i] += (double)rows * (double)change[i];
	if (sl_steps_read(&applied, change + count) && applied > s->applied)
		s->applied = applied;
	sl_worker_turn();
}

/* The round's average, as in exec/average.h. */
static void divide_by_rows(struct sl_end_sum *s)
{
	const int64_t count = s->layout->floats - 2;

	sl_assert_int(s->rows, >, 0);
	for (int64_t i = 0; i < count; i++)
		s->sum[i] = (float)(s->total[i] / (double)s->rows);
	sl_steps_write(s->applied, s->sum + count);
}

static void multiply(struct sl_end_sum *s, double factor)
{
	const float by = (float)factor;

	for (int64_t i = 0; i < s->layout->grads && by != 1; i++)
		s->sum[i] *= by;
}

double sl_end_sum_clip(struct sl_end_sum *s, double factor, double clip_norm, double middle)
{
	const float *x = s->sum;
	double ends = 0, by;

	multiply(s, factor);
	for (int i = 0; i < s->layout->n; x += s->layout->count[i++])
		ends += sl_squares(x, s->layout->count[i]);
	by = sl_clip_factor(clip_norm, (double[3]){ends, middle, 0});
	multiply(s, by);
	return by;
}

enum sl_err sl_end_sum_encode(struct sl_end_sum *s, double factor, uint64_t step, struct sl_buf *out,
			      struct sl_fail *fail)
{
	enum sl_err err;

	if (s->layout->round)
		divide_by_rows(s);
	else
		multiply(s, factor);
	err = sl_end_check(s->layout, s->sum, fail);
	if (err)
		return err;
	err = sl_end_encode(s->coder, step, s->sum, out);
	return err ? sl_fail_set(fail, err, "end_mean of step %llu: %s", (unsigned long long)step, sl_err_text(err))
		   : SL_OK;
}
