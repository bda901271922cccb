/* One call of a codec: frame, order of stages, error feedback. Stages of a device queue what they do; a call waits for
 * all of them together at its end, or leaves that to sl_codec_collect. */
#include <string.h>

#include "common/base/assert.h"
#include "common/codec/codec.h"
#include "common/codec/frame.h"
#include "common/codec/impl.h"
#include "common/exec/backend.h"

static struct flight *flight_of(struct sl_codec *c, const struct sl_codec_call *call)
{
	return &c->flight[c->flights > 1 ? call->slot : 0];
}

/* Waits for the work that the stages have queued for this slot. Returns the first error. `body` is the buffer that
 * begin_body had; NULL for a decoding, or for a call that is given up. */
static enum sl_err collect(struct sl_codec *c, const struct sl_codec_call *call, struct sl_buf *body,
			   struct sl_fail *fail)
{
	struct flight *f = flight_of(c, call);
	enum sl_err first = SL_OK;
	const struct link *l;

	for (int i = 0; (l = sl_codec_link(c, i)) != NULL; i++) {
		struct sl_buf values = {0}, *of = body == NULL ? NULL : i < c->n_transform ? &f->side[i] : &values;
		struct sl_fail why;
		enum sl_err err = SL_OK;

		if (of == &values)
			values = (struct sl_buf){body->data + f->values, body->len - f->values, body->len - f->values};
		if (l->stage->collect != NULL)
			err = l->stage->collect(l->state, call, of, &why);
		if (of == &values)
			body->len = f->values + values.len;
		if (!err || first)
			continue;
		first = err;
		*fail = why;
	}
	return first;
}

/* ---- encoding */

/* `later`: the call is collected later. Then this stage checks for NaN and Inf, as callers of a synchronous call do
 * themselves. `count`: see queue_encode. */
static enum sl_err quantize(struct sl_codec *c, const struct sl_codec_call *call, const float *x,
			    const struct sl_extent *xs, const uint32_t *count, bool later, struct sl_buf *out)
{
	const struct sl_codec_stage *q = c->quantizer.stage;

	if (q->queue_encode == NULL)
		return q->encode(c->quantizer.state, call, x, xs, out);
	return q->queue_encode(c->quantizer.state, call, x, xs, count, later && call->training && c->n_transform == 0,
			       out);
}

/* Notes how many of at most `most` values transform i has left. */
static void put_count(struct flight *f, int i, uint8_t *table, int64_t count, int64_t most)
{
	sl_put_u32(table + i * SL_FRAME_TRANSFORM_BYTES, (uint32_t)count);
	f->kept[i] = (double)count / (double)most;
}

/* Finds how many values transform i has left. *count becomes NULL if *s has the number: at once or, if a later stage
 * needs it on the host, after a wait. */
static enum sl_err find_count(struct sl_codec *c, const struct sl_codec_call *call, int i, bool later,
			      struct sl_extent *s, const uint32_t **count)
{
	const struct link *t = &c->transform[i];
	struct sl_fail fail;
	enum sl_err err;

	*count = t->stage->count == NULL ? NULL : t->stage->count(t->state);
	if (*count == NULL || (later && i == c->n_transform - 1))
		return SL_OK;
	*count = NULL;
	err = t->stage->collect(t->state, call, &flight_of(c, call)->side[i], &fail);
	if (!err)
		*s = sl_extent_flat(t->stage->counted(t->state, call));
	return err;
}

/* Writes the body, unpacked, except for the side bytes and their sizes. `out` has room for sl_codec_body_bound. s
 * comes from sl_codec_extents; s[i + 1] becomes what transform i left. */
static enum sl_err begin_body(struct sl_codec *c, const struct sl_codec_call *call, const float *x, struct sl_extent *s,
			      bool later, struct sl_buf *out)
{
	struct flight *f = flight_of(c, call);
	uint8_t *table = out->data + out->len;
	const uint32_t *count = NULL;
	int n = c->n_transform;

	f->table = out->len;
	f->most = 0;
	out->len += (size_t)n * SL_FRAME_TRANSFORM_BYTES;
	for (int i = 0; i < n; i++) {
		struct link *t = &c->transform[i];
		int64_t most = sl_shape_count(&s[i + 1].shape);
		sl_f32u *y = c->values[i] != NULL ? c->values[i] : (sl_f32u *)(out->data + out->len);
		enum sl_err err;

		f->side[i].len = 0;
		err = t->stage->forward(t->state, call, x, &s[i], y, &s[i + 1], &f->side[i]);
		if (!err)
			err = find_count(c, call, i, later, &s[i + 1], &count);
		if (err)
			return err;
		if (count != NULL)
			f->most = most;
		else
			put_count(f, i, table, sl_shape_count(&s[i + 1].shape), most);
		x = c->values[i];
	}
	f->values = out->len;
	if (!sl_codec_direct(c))
		return quantize(c, call, x, &s[n], count, later, out);
	out->len += (size_t)sl_shape_count(&s[n].shape) * sizeof(float);
	return SL_OK;
}

static enum sl_err end_body(struct sl_codec *c, const struct sl_codec_call *call, struct sl_buf *out)
{
	struct flight *f = flight_of(c, call);
	enum sl_err err = SL_OK;

	if (f->most != 0) {
		const struct link *last = &c->transform[c->n_transform - 1];

		put_count(f, c->n_transform - 1, out->data + f->table, last->stage->counted(last->state, call),
			  f->most);
	}

	for (int i = 0; !err && i < c->n_transform; i++) {
		uint8_t *part = out->data + f->table + (size_t)i * SL_FRAME_TRANSFORM_BYTES;

		if (c->transform[i].stage->variable)
			c->kept[i] = f->kept[i];
		sl_put_u32(part + 4, (uint32_t)f->side[i].len);
		err = sl_buf_put(out, f->side[i].data, f->side[i].len);
	}
	return err;
}

static enum sl_err begin_payload(struct sl_codec *c, const struct sl_codec_call *call, const float *x,
				 struct sl_extent *s, bool later, struct sl_buf *out)
{
	struct flight *f = flight_of(c, call);

	sl_frame_write(out->data + out->len, &c->spec, c->paired, s[0].shape.dim[0]);
	out->len += SL_FRAME_BYTES;
	f->body.len = 0;
	return begin_body(c, call, x, s, later, c->bytes.stage == NULL ? out : &f->body);
}

static enum sl_err end_payload(struct sl_codec *c, const struct sl_codec_call *call, struct sl_buf *out,
			       struct sl_fail *fail)
{
	struct flight *f = flight_of(c, call);
	struct sl_buf *body = c->bytes.stage == NULL ? out : &f->body;
	enum sl_err err = collect(c, call, body, fail);

	if (!err)
		err = end_body(c, call, body);
	if (err || c->bytes.stage == NULL)
		return err;
	sl_put_u32(out->data + out->len, (uint32_t)f->body.len);
	out->len += 4;
	return c->bytes.stage->pack(c->bytes.state, (struct sl_bytes){f->body.data, f->body.len}, out);
}

static enum sl_err decode_payload(struct sl_codec *c, const struct sl_codec_call *call, struct sl_bytes in, float *x,
				  struct sl_extent *s, bool later, struct sl_fail *fail);
static enum sl_err restore(struct sl_codec *c, const struct sl_codec_call *call, const sl_f32u *y,
			   const struct sl_extent *s, float *x, struct sl_fail *fail);

static enum sl_err encode_kept(struct sl_codec *c, const struct sl_codec_call *call, const struct sl_tensor *x,
			       struct sl_buf *out);

/* The residual of this call's chunk; NULL without error feedback, or outside of training. */
static struct residual *residual_of(struct sl_codec *c, const struct sl_codec_call *call)
{
	return c->spec.error_feedback && call->training ? &c->residual[call->chunk % c->env.slots] : NULL;
}

/* Computes the pending residual of x, to which the current residual is added already. On a device it runs after
 * begin_payload, from data of the device; on the host after end_payload, from the payload. */
static enum sl_err keep_lost(struct sl_codec *c, const struct sl_codec_call *call, struct sl_bytes payload,
			     const float *x, const struct sl_extent *s)
{
	const struct link *q = &c->quantizer;
	int n = c->n_transform;
	float *values = n == 0 ? c->back : c->values[n - 1];
	struct sl_fail fail;
	enum sl_err err;

	if (c->device) {
		err = q->stage->echo(q->state, values, &s[n]);
		if (!err)
			err = restore(c, call, values, s, c->back, &fail);
	} else {
		struct sl_extent again[MAX_TRANSFORMS + 1] = {s[0]};

		sl_codec_extents(c, again);
		err = decode_payload(c, call, payload, c->back, again, false, &fail);
	}
	if (!err)
		err = sl_feedback_keep(c, residual_of(c, call), x, &s[0]);
	return !err || err == SL_ERR_DEVICE ? err : SL_ERR_BUG;
}

static bool lengths_fit(const struct sl_codec *c, const struct sl_dims *d, int64_t tokens)
{
	bool fit = d->begin != NULL && d->tokens == tokens && d->rows >= 1 && d->rows <= c->env.rows &&
		   d->begin[0] == 0 && d->begin[d->rows] == tokens;

	for (int64_t i = 0; fit && i < d->rows; i++)
		fit = d->begin[i] < d->begin[i + 1] && d->begin[i + 1] - d->begin[i] <= c->env.row_tokens;
	return fit;
}

static bool fits(const struct sl_codec *c, const struct sl_codec_call *call, const struct sl_tensor *x)
{
	struct sl_shape most = sl_shape_rows(c->env.shape, x->shape.dim[0]);

	return x->dtype == SL_F32 && sl_shape_equal(&x->shape, &most) && x->shape.dim[0] >= 1 &&
	       x->shape.dim[0] <= c->env.shape.dim[0] && call->slot >= 0 && call->slot < c->env.slots &&
	       (c->env.row_tokens == 0 || lengths_fit(c, &call->dims, x->shape.dim[0]));
}

/* Sets s to the extents of the tensor and of each transform's largest output. */
static void extents_of(struct sl_codec *c, const struct sl_codec_call *call, const struct sl_tensor *x,
		       struct sl_extent *s)
{
	s[0] = sl_extent_of(x->shape);
	if (c->env.row_tokens != 0)
		s[0] = (struct sl_extent){x->shape, call->dims.rows, c->env.row_tokens, call->dims.begin};
	sl_codec_extents(c, s);
	if (c->env.row_tokens != 0) {
		struct sl_extent most = sl_codec_most_after(c, c->n_transform, x->shape.dim[0]);

		c->share = (double)sl_shape_count(&s[c->n_transform].shape) / (double)sl_shape_count(&most.shape);
	}
}

static enum sl_err encode(struct sl_codec *c, const struct sl_codec_call *call, const struct sl_tensor *t, bool later,
			  struct sl_buf *out)
{
	struct residual *r = residual_of(c, call);
	struct sl_extent s[MAX_TRANSFORMS + 1];
	const float *x = t->data;
	size_t start = out->len;
	struct sl_fail fail;
	enum sl_err err;

	if (!fits(c, call, t))
		return SL_ERR_BUG;
	extents_of(c, call, t, s);
	if (out->cap - out->len < sl_codec_bound_of(c, s))
		return SL_ERR_LIMIT;
	err = r == NULL ? SL_OK : sl_feedback_add(c, r, call, &x, &s[0]);
	if (!err)
		err = begin_payload(c, call, x, s, later, out);
	if (!err && r != NULL && c->device)
		err = keep_lost(c, call, (struct sl_bytes){0}, x, s);
	if (!err && !later)
		err = end_payload(c, call, out, &fail);
	if (!err && r != NULL && !c->device)
		err = keep_lost(c, call, (struct sl_bytes){out->data + start, out->len - start}, x, s);
	if (!err)
		return SL_OK;
	(void)!collect(c, call, NULL, &fail);
	if (r != NULL)
		r->has_pending = false;
	out->len = start;
	return err;
}

/* The codec whose stages code this call, unless it has changes. */
static struct sl_codec *coding(struct sl_codec *c, const struct sl_codec_call *call)
{
	struct sl_codec *eval = c->variant[SL_CODEC_EVAL];

	return c->last = eval != NULL && !call->training ? eval : c;
}

/* A gradient that a run of several values leaves out: it is zero, and has no bytes. */
static bool may_lack(const struct sl_codec *c)
{
	return c->env.dir == SL_DIR_MID_GRAD || c->env.dir == SL_DIR_HEAD_GRAD;
}

enum sl_err sl_codec_encode(struct sl_codec *codec, const struct sl_codec_call *call, const struct sl_tensor *x,
			    struct sl_buf *out)
{
	const size_t start = out->len, table = (size_t)sl_codec_values(codec) * SL_CODEC_VALUE_BYTES;
	struct sl_codec *c = coding(codec, call);
	enum sl_err err = SL_OK;

	if (c->next == NULL)
		return encode_kept(c, call, x, out);
	if (out->cap - out->len < table)
		return SL_ERR_LIMIT;
	out->len += table;
	for (int v = 0; c != NULL && !err; c = c->next, v++) {
		const size_t before = out->len;
		uint64_t bytes;

		if (x[v].data != NULL || !may_lack(c))
			err = encode(c, call, &x[v], false, out);
		c->dim0 = x[v].data != NULL ? x[v].shape.dim[0] : 0;
		sl_assert_int(out->len, >=, before);
		sl_assert_int(out->len, <=, out->cap);
		bytes = out->len - before;
		memcpy(out->data + start + (size_t)v * sizeof bytes, &bytes, sizeof bytes);
	}
	if (err)
		out->len = start;
	return err;
}

bool sl_codec_queues(const struct sl_codec *c)
{
	const struct link *l;
	bool all = c->next == NULL;

	for (int i = 0; (l = sl_codec_link(c, i)) != NULL; i++)
		all = all && l->stage->collect != NULL;
	return all;
}

enum sl_err sl_codec_queue_encode(struct sl_codec *c, const struct sl_codec_call *call, const struct sl_tensor *x,
				  struct sl_buf *out, bool *later)
{
	bool queues = sl_codec_queues(c);
	enum sl_err err = queues ? encode(coding(c, call), call, x, true, out) : sl_codec_encode(c, call, x, out);

	*later = queues && !err;
	return err;
}

/* ---- decoding */

/* A body taken apart: the quantizer's bytes, and the side bytes of every transform. */
struct parts {
	struct sl_bytes values, side[MAX_TRANSFORMS];
	uint32_t count[MAX_TRANSFORMS];
};

static enum sl_err take_apart(const struct sl_codec *c, struct sl_bytes in, struct parts *p, struct sl_fail *fail)
{
	size_t sides = 0;
	struct sl_bytes table;

	if (sl_bytes_take(&in, (size_t)c->n_transform * SL_FRAME_TRANSFORM_BYTES, &table) != SL_OK)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "payload ends within its table of parts");
	for (int i = 0; i < c->n_transform; i++) {
		p->count[i] = sl_get_u32(table.data + i * SL_FRAME_TRANSFORM_BYTES);
		p->side[i].len = sl_get_u32(table.data + i * SL_FRAME_TRANSFORM_BYTES + 4);
		if (p->side[i].len > in.len - sides)
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "side bytes of %s pass the end of the payload",
					   c->transform[i].stage->name);
		sides += p->side[i].len;
	}
	p->values = (struct sl_bytes){in.data, in.len - sides};
	for (int i = 0; i < c->n_transform; i++) {
		p->side[i].data = i == 0 ? in.data + p->values.len : p->side[i - 1].data + p->side[i - 1].len;
	}
	return SL_OK;
}

static enum sl_err dequantize(struct sl_codec *c, const struct sl_codec_call *call, struct sl_bytes in, float *x,
			      const struct sl_extent *xs, struct sl_fail *fail)
{
	const struct sl_codec_stage *q = c->quantizer.stage;

	if (q->queue_decode == NULL)
		return q->decode(c->quantizer.state, call, in, x, xs, fail);
	return q->queue_decode(c->quantizer.state, call, in, x, xs, fail);
}

/* Undoes the transforms, from the last one's output y back to x. s is as begin_body or decode_body left it. */
static enum sl_err restore(struct sl_codec *c, const struct sl_codec_call *call, const sl_f32u *y,
			   const struct sl_extent *s, float *x, struct sl_fail *fail)
{
	for (int i = c->n_transform - 1; i >= 0; i--) {
		struct link *t = &c->transform[i];
		enum sl_err err;
		float *to;

		i -= t->finishes;
		to = i == 0 ? x : c->values[i - 1];
		err = t->stage->inverse(t->state, call, y, &s[i + 1 + t->finishes], to, &s[i + t->finishes]);
		if (err)
			return sl_fail_set(fail, err, "%s cannot restore its tensor", t->stage->name);
		y = to;
	}
	return SL_OK;
}

static enum sl_err decode_body(struct sl_codec *c, const struct sl_codec_call *call, struct sl_bytes in, float *x,
			       struct sl_extent *s, bool later, struct sl_fail *fail)
{
	const sl_f32u *y = NULL;
	int n = c->n_transform;
	struct parts p;
	enum sl_err err = take_apart(c, in, &p, fail);

	for (int i = 0; !err && i < n; i++) {
		struct link *t = &c->transform[i];
		int64_t most = sl_shape_count(&s[i + 1].shape);

		err = t->stage->parse(t->state, call, p.side[i], p.count[i], &s[i], &s[i + 1], fail);
		if (!err && t->stage->variable)
			c->kept[i] = (double)p.count[i] / (double)most;
	}
	if (err)
		return err;
	if (sl_codec_direct(c)) {
		if (p.values.len != (size_t)sl_shape_count(&s[n].shape) * sizeof(float))
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "%zu bytes of values, expected %lld", p.values.len,
					   (long long)sl_shape_count(&s[n].shape) * 4);
		y = (const sl_f32u *)p.values.data;
	} else {
		float *values = n == 0 ? x : c->values[n - 1];

		err = dequantize(c, call, p.values, values, &s[n], fail);
		/* so that nothing more is written if the payload is malformed */
		if (!err && !later)
			err = collect(c, call, NULL, fail);
		if (err)
			return err;
		y = values;
	}
	return restore(c, call, y, s, x, fail);
}

static enum sl_err decode_payload(struct sl_codec *c, const struct sl_codec_call *call, struct sl_bytes in, float *x,
				  struct sl_extent *s, bool later, struct sl_fail *fail)
{
	enum sl_err err = sl_frame_take(&in, &c->spec, c->paired, s[0].shape.dim[0], fail);
	size_t most = sl_codec_body_bound(c, s);
	struct flight *f = flight_of(c, call);
	struct sl_bytes size;
	struct sl_buf body;

	if (err)
		return err;
	if (c->bytes.stage == NULL)
		return decode_body(c, call, in, x, s, later, fail);
	if (sl_bytes_take(&in, 4, &size) != SL_OK || sl_get_u32(size.data) > most)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "declared size is missing or above %zu bytes", most);
	body = (struct sl_buf){f->body.data, 0, sl_get_u32(size.data)};
	err = c->bytes.stage->unpack(c->bytes.state, in, &body, fail);
	if (err)
		return err;
	if (body.len != body.cap)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "unpacked to %zu bytes, %zu were declared", body.len,
				   body.cap);
	return decode_body(c, call, (struct sl_bytes){body.data, body.len}, x, s, later, fail);
}

static enum sl_err decode(struct sl_codec *c, const struct sl_codec_call *call, struct sl_bytes in, bool later,
			  struct sl_tensor *x, struct sl_fail *fail)
{
	struct sl_extent s[MAX_TRANSFORMS + 1];
	struct sl_fail other;
	enum sl_err err;

	if (!fits(c, call, x))
		return sl_fail_set(fail, SL_ERR_BUG, "codec %s: tensor or slot is not of the plan", c->spec.text);
	extents_of(c, call, x, s);
	err = decode_payload(c, call, in, x->data, s, later, fail);
	/* work that earlier stages have queued reads `in` */
	if (err)
		(void)!collect(c, call, NULL, &other);
	return err;
}

/* Decodes values, or changes to what is kept, and keeps them. */
static enum sl_err decode_kept(struct sl_codec *c, const struct sl_codec_call *call, struct sl_bytes in,
			       struct sl_tensor *x, struct sl_fail *fail)
{
	bool change = false, keeps = c->change != NULL && sl_change_find(c->change, call, x, &change);
	enum sl_err err;

	if (change)
		c->last = c->variant[SL_CODEC_CHANGE];
	err = decode(change ? c->last : c, call, in, false, x, fail);
	if (!err && change)
		sl_change_add(c->change, call, c->pool, x->data);
	if (!err && keeps)
		sl_change_keep(c->change, call, x->data);
	return err;
}

/* Encodes values, or changes to what is kept, and keeps what the other side will see. */
static enum sl_err encode_kept(struct sl_codec *c, const struct sl_codec_call *call, const struct sl_tensor *x,
			       struct sl_buf *out)
{
	bool change = false, keeps = c->change != NULL && sl_change_find(c->change, call, x, &change);
	struct sl_codec_call of_change = *call;
	struct sl_tensor in = *x;
	const size_t start = out->len;
	struct sl_fail fail;
	enum sl_err err;

	if (change) {
		c->last = c->variant[SL_CODEC_CHANGE];
		in.data = sl_change_subtract(c->change, call, c->loops, c->pool, x->data, (int)c->spec.stage[0].arg[0],
					     (int)c->last->spec.stage[0].arg[0], &of_change.code_step);
	}
	err = in.data != NULL ? encode(change ? c->last : c, &of_change, &in, false, out) : SL_ERR_NONFINITE;
	if (err || !keeps)
		return err;
	in.data = sl_change_room(c->change, call);
	err = decode_kept(c, call, (struct sl_bytes){out->data + start, out->len - start}, &in, &fail);
	out->len = err ? start : out->len;
	return err ? SL_ERR_BUG : SL_OK;
}

static enum sl_err make_zero(const struct sl_codec *c, const struct sl_tensor *x, struct sl_fail *fail)
{
	const size_t bytes = (size_t)sl_shape_count(&x->shape) * sizeof(float);
	enum sl_err err = SL_OK;

	if (x->data != NULL && c->device)
		err = c->env.be->ops->zero(c->env.be, x->data, bytes);
	else if (x->data != NULL)
		memset(x->data, 0, bytes);
	return !err ? err : sl_fail_set(fail, err, "a gradient could not be set to zero");
}

enum sl_err sl_codec_decode(struct sl_codec *codec, const struct sl_codec_call *call, struct sl_bytes in,
			    struct sl_tensor *x, struct sl_fail *fail)
{
	struct sl_codec *c = coding(codec, call);
	struct sl_bytes table, payload;
	enum sl_err err;

	if (c->next == NULL)
		return decode_kept(c, call, in, x, fail);
	err = sl_bytes_take(&in, (size_t)sl_codec_values(c) * SL_CODEC_VALUE_BYTES, &table);
	if (err)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "payload ends within the lengths of its values");
	for (int v = 0; c != NULL && !err; c = c->next, v++) {
		uint64_t bytes;

		memcpy(&bytes, table.data + (size_t)v * sizeof bytes, sizeof bytes);
		if (bytes > in.len || (c->next == NULL && bytes != in.len))
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "value %d has %llu bytes, and %zu are left", v,
					   (unsigned long long)bytes, in.len);
		(void)!sl_bytes_take(&in, (size_t)bytes, &payload);
		err = bytes == 0 && may_lack(c) ? make_zero(c, &x[v], fail)
		      : x[v].data == NULL       ? sl_fail_set(fail, SL_ERR_PAYLOAD, "value %d has no gradient here", v)
						: decode(c, call, payload, false, &x[v], fail);
		c->dim0 = bytes != 0 ? x[v].shape.dim[0] : 0;
	}
	return err;
}

enum sl_err sl_codec_queue_decode(struct sl_codec *c, const struct sl_codec_call *call, struct sl_bytes in,
				  struct sl_tensor *x, bool *later, struct sl_fail *fail)
{
	bool queues = sl_codec_queues(c);
	enum sl_err err =
		queues ? decode(coding(c, call), call, in, true, x, fail) : sl_codec_decode(c, call, in, x, fail);

	*later = queues && !err;
	return err;
}

enum sl_err sl_codec_collect(struct sl_codec *c, const struct sl_codec_call *call, struct sl_buf *out,
			     struct sl_fail *fail)
{
	struct residual *r = residual_of(c, call);
	enum sl_err err;

	c = coding(c, call);
	err = out == NULL ? collect(c, call, NULL, fail) : end_payload(c, call, out, fail);

	if (err && out != NULL && r != NULL)
		r->has_pending = false;
	return err;
}
