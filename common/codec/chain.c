/* One call of a codec: frame, order of stages, error feedback. */
#include "common/codec/codec.h"
#include "common/codec/frame.h"
#include "common/codec/impl.h"

/* ---- quantizers, at once or in two halves */

static enum sl_err collect(struct sl_codec *c, const struct sl_codec_call *call, struct sl_fail *fail)
{
	return c->quantizer.stage->collect(c->quantizer.state, call, fail);
}

/* The payload holds what the quantizer wrote and a header: it can leave the quantizer later than the call. */
static bool alone(const struct sl_codec *c)
{
	return c->quantizer.stage->collect != NULL && c->n_transform == 0 && c->bytes.stage == NULL;
}

/* c->later, if the caller has set it: collect comes later. */
static enum sl_err quantize(struct sl_codec *c, const struct sl_codec_call *call, const float *x,
			    const struct sl_shape *xs, struct sl_buf *out)
{
	const struct sl_codec_stage *q = c->quantizer.stage;
	struct sl_fail fail;
	enum sl_err err;

	if (q->collect == NULL)
		return q->encode(c->quantizer.state, call, x, xs, out);
	err = q->queue_encode(c->quantizer.state, call, x, xs, c->later && call->training, out);
	return err != SL_OK || c->later ? err : collect(c, call, &fail);
}

static enum sl_err restore(struct sl_codec *c, const struct sl_codec_call *call, struct sl_bytes in, float *x,
			   const struct sl_shape *xs, struct sl_fail *fail)
{
	const struct sl_codec_stage *q = c->quantizer.stage;
	enum sl_err err;

	if (q->collect == NULL)
		return q->decode(c->quantizer.state, call, in, x, xs, fail);
	err = q->queue_decode(c->quantizer.state, call, in, x, xs, fail);
	return err != SL_OK || c->later ? err : collect(c, call, fail);
}

/* ---- encoding */

/* Everything behind the header, before a stage of bytes. `out` has room for sl_codec_body_bound. */
static enum sl_err encode_body(struct sl_codec *c, const struct sl_codec_call *call, const float *x, int64_t rows,
			       struct sl_buf *out)
{
	struct sl_shape s = sl_shape_rows(c->env.shape, rows);
	uint8_t *table = out->data + out->len;
	struct sl_buf side[MAX_TRANSFORMS];
	enum sl_err err = SL_OK;

	out->len += (size_t)c->n_transform * SL_FRAME_PART_BYTES;
	for (int i = 0; i < c->n_transform; i++) {
		struct link *t = &c->transform[i];
		struct sl_shape most = sl_codec_shape_after(c, i + 1, rows), left = most;
		sl_f32u *y = c->values[i] != NULL ? c->values[i] : (sl_f32u *)(out->data + out->len);

		side[i] = (struct sl_buf){c->side[i], 0, c->side_cap[i]};
		err = t->stage->forward(t->state, call, x, &s, y, &left, &side[i]);
		if (err != SL_OK)
			return err;
		sl_put_u32(table + i * SL_FRAME_PART_BYTES, (uint32_t)sl_shape_count(&left));
		sl_put_u32(table + i * SL_FRAME_PART_BYTES + 4, (uint32_t)side[i].len);
		if (t->stage->variable)
			c->kept[i] = (double)sl_shape_count(&left) / (double)sl_shape_count(&most);
		s = left;
		x = c->values[i];
	}
	if (sl_codec_direct(c))
		out->len += (size_t)sl_shape_count(&s) * sizeof(float);
	else
		err = quantize(c, call, x, &s, out);
	for (int i = 0; err == SL_OK && i < c->n_transform; i++)
		err = sl_buf_put(out, side[i].data, side[i].len);
	return err;
}

static enum sl_err encode_payload(struct sl_codec *c, const struct sl_codec_call *call, const float *x, int64_t rows,
				  struct sl_buf *out)
{
	size_t start = out->len;
	uint8_t *head = out->data + start;
	enum sl_err err;

	sl_frame_write(head, &c->spec, c->paired, rows);
	out->len += SL_FRAME_BYTES;
	if (c->bytes.stage == NULL) {
		err = encode_body(c, call, x, rows, out);
	} else {
		c->body.len = 0;
		err = encode_body(c, call, x, rows, &c->body);
		if (err == SL_OK) {
			sl_put_u32(out->data + out->len, (uint32_t)c->body.len);
			out->len += 4;
			err = c->bytes.stage->pack(c->bytes.state, (struct sl_bytes){c->body.data, c->body.len}, out);
		}
	}
	if (err != SL_OK)
		out->len = start;
	return err;
}

static enum sl_err decode_payload(struct sl_codec *c, const struct sl_codec_call *call, struct sl_bytes in, float *x,
				  int64_t rows, struct sl_fail *fail);

/* Encodes x + residual, and keeps what was lost as the pending residual. */
static enum sl_err encode_with_feedback(struct sl_codec *c, const struct sl_codec_call *call, const float *x,
					int64_t rows, struct sl_buf *out)
{
	struct residual *r = &c->residual[call->chunk % c->env.slots];
	int64_t n = rows * sl_shape_row(&c->env.shape);
	size_t start = out->len;
	struct sl_fail fail;
	enum sl_err err = sl_feedback_add(c, r, &x, n);

	if (err == SL_OK)
		err = encode_payload(c, call, x, rows, out);
	if (err != SL_OK)
		return err;
	err = decode_payload(c, call, (struct sl_bytes){out->data + start, out->len - start}, c->back, rows, &fail);
	err = err == SL_OK ? sl_feedback_keep(c, r, x, n) : err == SL_ERR_DEVICE ? err : SL_ERR_BUG;
	if (err != SL_OK)
		out->len = start;
	return err;
}

static bool fits(const struct sl_codec *c, const struct sl_codec_call *call, const struct sl_tensor *x)
{
	struct sl_shape most = sl_shape_rows(c->env.shape, x->shape.dim[0]);

	return x->dtype == SL_F32 && sl_shape_equal(&x->shape, &most) && x->shape.dim[0] >= 1 &&
	       x->shape.dim[0] <= c->env.shape.dim[0] && call->slot >= 0 && call->slot < c->env.slots;
}

enum sl_err sl_codec_encode(struct sl_codec *c, const struct sl_codec_call *call, const struct sl_tensor *x,
			    struct sl_buf *out)
{
	int64_t rows = x->shape.dim[0];

	if (!fits(c, call, x))
		return SL_ERR_BUG;
	if (out->cap - out->len < sl_codec_bound(c, rows))
		return SL_ERR_LIMIT;
	if (c->spec.error_feedback && call->training)
		return encode_with_feedback(c, call, x->data, rows, out);
	return encode_payload(c, call, x->data, rows, out);
}

bool sl_codec_queues(const struct sl_codec *c, bool training)
{
	return alone(c) && !(c->spec.error_feedback && training);
}

enum sl_err sl_codec_queue_encode(struct sl_codec *c, const struct sl_codec_call *call, const struct sl_tensor *x,
				  struct sl_buf *out, bool *later)
{
	enum sl_err err;

	c->later = sl_codec_queues(c, call->training);
	err = sl_codec_encode(c, call, x, out);
	*later = c->later && err == SL_OK;
	c->later = false;
	return err;
}

/* ---- decoding */

/* A body taken apart: what the quantizer left, and the side bytes of every transform. */
struct parts {
	struct sl_bytes values, side[MAX_TRANSFORMS];
	uint32_t count[MAX_TRANSFORMS];
};

static enum sl_err take_apart(const struct sl_codec *c, struct sl_bytes in, struct parts *p, struct sl_fail *fail)
{
	size_t sides = 0;
	struct sl_bytes table;

	if (sl_bytes_take(&in, (size_t)c->n_transform * SL_FRAME_PART_BYTES, &table) != SL_OK)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "payload ends within its table of parts");
	for (int i = 0; i < c->n_transform; i++) {
		p->count[i] = sl_get_u32(table.data + i * SL_FRAME_PART_BYTES);
		p->side[i].len = sl_get_u32(table.data + i * SL_FRAME_PART_BYTES + 4);
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

static enum sl_err decode_body(struct sl_codec *c, const struct sl_codec_call *call, struct sl_bytes in, float *x,
			       int64_t rows, struct sl_fail *fail)
{
	struct sl_shape s[MAX_TRANSFORMS + 1];
	const sl_f32u *y = NULL;
	int n = c->n_transform;
	struct parts p;
	enum sl_err err = take_apart(c, in, &p, fail);

	s[0] = sl_shape_rows(c->env.shape, rows);
	for (int i = 0; err == SL_OK && i < n; i++) {
		struct link *t = &c->transform[i];
		struct sl_shape most = sl_codec_shape_after(c, i + 1, rows);

		err = t->stage->parse(t->state, call, p.side[i], p.count[i], &s[i], &s[i + 1], fail);
		if (err == SL_OK && t->stage->variable)
			c->kept[i] = (double)p.count[i] / (double)sl_shape_count(&most);
	}
	if (err != SL_OK)
		return err;
	if (sl_codec_direct(c)) {
		if (p.values.len != (size_t)sl_shape_count(&s[n]) * sizeof(float))
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "%zu bytes of values, expected %lld", p.values.len,
					   (long long)sl_shape_count(&s[n]) * 4);
		y = (const sl_f32u *)p.values.data;
	} else {
		float *values = n == 0 ? x : c->values[n - 1];

		err = restore(c, call, p.values, values, &s[n], fail);
		if (err != SL_OK)
			return err;
		y = values;
	}
	for (int i = n - 1; i >= 0; i--) {
		struct link *t = &c->transform[i];
		float *to;

		i -= t->finishes;
		to = i == 0 ? x : c->values[i - 1];
		err = t->stage->inverse(t->state, call, y, &s[i + 1 + t->finishes], to, &s[i + t->finishes]);
		if (err != SL_OK)
			return sl_fail_set(fail, err, "%s cannot restore its tensor", t->stage->name);
		y = to;
	}
	return SL_OK;
}

static enum sl_err decode_payload(struct sl_codec *c, const struct sl_codec_call *call, struct sl_bytes in, float *x,
				  int64_t rows, struct sl_fail *fail)
{
	enum sl_err err = sl_frame_take(&in, &c->spec, c->paired, rows, fail);
	struct sl_bytes size;
	struct sl_buf body;

	if (err != SL_OK)
		return err;
	if (c->bytes.stage == NULL)
		return decode_body(c, call, in, x, rows, fail);
	if (sl_bytes_take(&in, 4, &size) != SL_OK || sl_get_u32(size.data) > sl_codec_body_bound(c, rows))
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "declared size is missing or above %zu bytes",
				   sl_codec_body_bound(c, rows));
	body = (struct sl_buf){c->body.data, 0, sl_get_u32(size.data)};
	err = c->bytes.stage->unpack(c->bytes.state, in, &body, fail);
	if (err != SL_OK)
		return err;
	if (body.len != body.cap)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "unpacked to %zu bytes, %zu were declared", body.len,
				   body.cap);
	return decode_body(c, call, (struct sl_bytes){body.data, body.len}, x, rows, fail);
}

enum sl_err sl_codec_decode(struct sl_codec *c, const struct sl_codec_call *call, struct sl_bytes in,
			    struct sl_tensor *x, struct sl_fail *fail)
{
	if (!fits(c, call, x))
		return sl_fail_set(fail, SL_ERR_BUG, "codec %s: tensor or slot is not of the plan", c->spec.text);
	return decode_payload(c, call, in, x->data, x->shape.dim[0], fail);
}

enum sl_err sl_codec_queue_decode(struct sl_codec *c, const struct sl_codec_call *call, struct sl_bytes in,
				  struct sl_tensor *x, bool *later, struct sl_fail *fail)
{
	enum sl_err err;

	c->later = alone(c);
	err = sl_codec_decode(c, call, in, x, fail);
	*later = c->later && err == SL_OK;
	c->later = false;
	return err;
}

enum sl_err sl_codec_collect(struct sl_codec *c, const struct sl_codec_call *call, struct sl_fail *fail)
{
	return collect(c, call, fail);
}
