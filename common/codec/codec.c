/* The chain: memory, frame, order of stages, error feedback. */
#include "common/codec/codec.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/pool.h"
#include "common/codec/frame.h"
#include "common/codec/impl.h"
#include "common/codec/stage.h"
#include "common/nn/backend.h"

/* 2 GiB of fp32: body lengths fit in 32 bits. */
static const int64_t max_elements = (int64_t)1 << 29;

static struct sl_shape shape_after(const struct sl_codec *c, int transforms, int64_t rows)
{
	struct sl_shape s = sl_shape_rows(c->env.shape, rows);

	for (int i = 0; i < transforms; i++) {
		struct sl_shape in = s;

		c->transform[i].stage->shape(c->transform[i].arg, &in, &s);
	}
	return s;
}

static size_t body_bound(const struct sl_codec *c, int64_t rows)
{
	struct sl_shape s = shape_after(c, c->n_transform, rows);
	size_t bytes = c->quantizer.stage->bound(c->quantizer.arg, false, &s);

	for (int i = 0; i < c->n_transform; i++) {
		s = shape_after(c, i, rows);
		bytes += SL_FRAME_PART_BYTES;
		bytes += c->transform[i].stage->bound(c->transform[i].arg, c->transform[i].paired, &s);
	}
	return bytes;
}

size_t sl_codec_bound(const struct sl_codec *codec, int64_t rows)
{
	size_t body = body_bound(codec, rows);
	struct sl_shape s = sl_shape1((int64_t)body);

	if (codec->bytes.stage == NULL)
		return SL_FRAME_BYTES + body;
	return SL_FRAME_BYTES + 4 + codec->bytes.stage->bound(codec->bytes.arg, false, &s);
}

double sl_codec_nominal_bytes(const struct sl_codec *codec, int64_t rows)
{
	struct sl_shape s = shape_after(codec, codec->n_transform, rows);
	double bytes = codec->quantizer.stage->nominal(codec->quantizer.arg, &s);

	for (int i = 0; i < codec->n_transform; i++)
		bytes *= codec->kept[i];
	return bytes;
}

/* ---- opening */

/* What a stage is stays as it is; what it does is the backend's. */
static struct sl_codec_stage join(const struct sl_codec_stage *plain, const struct sl_codec_stage *device)
{
	struct sl_codec_stage s = *plain;

	s.open = device->open;
	s.close = device->close;
	s.keep = device->keep;
	s.commit = device->commit;
	s.rollback = device->rollback;
	s.state_bytes = device->state_bytes;
	s.save = device->save;
	s.load = device->load;
	s.forward = device->forward;
	s.parse = device->parse;
	s.inverse = device->inverse;
	s.restore_run = device->restore_run;
	s.encode = device->encode;
	s.decode = device->decode;
	return s;
}

/* The backend's version of a stage, or the portable one. */
static enum sl_err resolve(const struct sl_codec *c, const struct sl_codec_stage *stage, struct link *link,
			   struct sl_fail *fail)
{
	link->stage = stage;
	if (!c->device || stage->kind == SL_STAGE_BYTES)
		return SL_OK;
	for (const struct sl_codec_stage *const *s = c->env.be->ops->codec_stages; *s != NULL; s++) {
		if ((*s)->id == stage->id) {
			link->joined = join(stage, *s);
			link->stage = &link->joined;
			return SL_OK;
		}
	}
	link->stage = NULL;
	return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "codec %s: %s has no %s", c->spec.text, c->env.be->ops->name,
			   stage->name);
}

static enum sl_err open_link(struct sl_codec *c, struct link *link, const struct sl_codec_stage *stage,
			     const double *arg, const struct sl_shape *shape, struct sl_fail *fail)
{
	struct sl_codec *pair = c->env.pair;
	struct sl_stage_env env = {.be = c->env.be,
				   .loops = c->loops,
				   .pool = c->pool,
				   .shape = *shape,
				   .slots = c->env.slots,
				   .seed = c->env.seed,
				   .dir = c->env.dir,
				   .pair_dir = c->env.dir,
				   .arg = arg};
	enum sl_err err = resolve(c, stage, link, fail);

	if (err != SL_OK)
		return err;
	link->arg = arg;
	if (link->stage->finishes && c->n_transform > 0 &&
	    c->transform[c->n_transform - 1].stage->restore_run != NULL) {
		link->finishes = true;
		env.front = c->transform[c->n_transform - 1].stage;
		env.front_state = c->transform[c->n_transform - 1].state;
	}
	if (c->paired && stage->pairs && !c->pair_found) {
		link->paired = c->pair_found = true;
		env.pair = pair->transform[c->n_transform].state;
		env.pair_dir = pair->env.dir;
		if (link->stage->keep != NULL) {
			err = link->stage->keep(env.pair, fail);
			if (err != SL_OK)
				return err;
		}
	}
	return link->stage->open == NULL ? SL_OK : link->stage->open(&link->state, &env, fail);
}

static enum sl_err open_links(struct sl_codec *c, struct sl_fail *fail)
{
	static const double no_arg[SL_CODEC_MAX_ARGS];
	int64_t rows = c->env.shape.dim[0];
	struct sl_shape shape = c->env.shape;
	enum sl_err err;

	for (int s = 0; s < c->spec.n_stage; s++) {
		const struct sl_codec_stage *stage = c->spec.stage[s].stage;
		struct link *link = stage->kind == SL_STAGE_TRANSFORM   ? &c->transform[c->n_transform]
				    : stage->kind == SL_STAGE_QUANTIZER ? &c->quantizer
									: &c->bytes;

		err = open_link(c, link, stage, c->spec.stage[s].arg, &shape, fail);
		if (err != SL_OK)
			return err;
		if (stage->kind == SL_STAGE_TRANSFORM) {
			c->kept[c->n_transform++] = 1;
			shape = shape_after(c, c->n_transform, rows);
		}
	}
	if (c->quantizer.stage != NULL)
		return SL_OK;
	return open_link(c, &c->quantizer, sl_codec_stage_find("none", 4), no_arg, &shape, fail);
}

/* True where the last transform writes its values into the payload itself. */
static bool direct(const struct sl_codec *c)
{
	return !c->device && c->n_transform > 0 && c->quantizer.stage->id == SL_STAGE_ID_NONE;
}

static size_t float_bytes(const struct sl_shape *s)
{
	return sl_align((size_t)sl_shape_count(s) * sizeof(float));
}

/* Cuts the scratch out of one arena; with c->arena not opened yet, only counts. */
static size_t lay_out(struct sl_codec *c, bool take)
{
	int64_t rows = c->env.shape.dim[0];
	size_t total = 0;

	for (int i = 0; i < c->n_transform; i++) {
		struct sl_shape in = shape_after(c, i, rows), out = shape_after(c, i + 1, rows);
		bool values = !c->device && !(i == c->n_transform - 1 && direct(c));

		c->side_cap[i] = c->transform[i].stage->bound(c->transform[i].arg, c->transform[i].paired, &in);
		total += sl_align(c->side_cap[i]) + (values ? float_bytes(&out) : 0);
		if (take) {
			c->side[i] = sl_arena_take(&c->arena, c->side_cap[i]);
			if (values)
				c->values[i] = sl_arena_take(&c->arena, float_bytes(&out));
		}
	}
	if (c->bytes.stage != NULL) {
		size_t cap = body_bound(c, rows);

		total += sl_align(cap);
		if (take)
			c->body = (struct sl_buf){sl_arena_take(&c->arena, cap), 0, cap};
	}
	return total;
}

static enum sl_err open_memory(struct sl_codec *c, struct sl_fail *fail)
{
	enum sl_err err;

	if (c->spec.error_feedback) {
		err = sl_feedback_open(c, fail);
		if (err != SL_OK)
			return err;
	}
	if (c->device && c->env.be->ops->host_alloc != NULL) {
		size_t bytes = lay_out(c, false);

		err = c->env.be->ops->host_alloc(c->env.be, bytes, &c->pinned, fail);
		c->arena = (struct sl_arena){.base = c->pinned, .cap = bytes};
	} else {
		err = sl_arena_open(&c->arena, lay_out(c, false), fail);
	}
	if (err != SL_OK)
		return err;
	lay_out(c, true);
	for (int i = 0; c->device && i < c->n_transform; i++) {
		struct sl_shape out = shape_after(c, i + 1, c->env.shape.dim[0]);

		err = c->env.be->ops->alloc(c->env.be, float_bytes(&out), (void **)&c->values[i], fail);
		if (err != SL_OK)
			return err;
	}
	return SL_OK;
}

static enum sl_err check_env(const struct sl_codec_spec *spec, const struct sl_codec_env *env, struct sl_fail *fail)
{
	char text[SL_SHAPE_TEXT];
	int64_t count;

	if (env->slots < 1 || (unsigned)env->dir >= SL_DIR_COUNT)
		return sl_fail_set(fail, SL_ERR_BUG, "codec %s: %d slots, direction %d", spec->text, env->slots,
				   env->dir);
	if (env->shape.ndim < 1 || env->shape.ndim > SL_MAX_DIMS ||
	    !sl_shape_count_checked(&env->shape, max_elements, &count))
		return sl_fail_set(fail, SL_ERR_LIMIT, "codec %s: tensor %s is not within 1 to %lld elements",
				   spec->text, sl_shape_text(&env->shape, text), (long long)max_elements);
	if (env->pair != NULL &&
	    (!sl_codec_spec_pairs(&env->pair->spec, spec) || !sl_shape_equal(&env->pair->env.shape, &env->shape)))
		return sl_fail_set(fail, SL_ERR_BUG, "codec %s does not pair with %s", spec->text,
				   env->pair->spec.text);
	return SL_OK;
}

enum sl_err sl_codec_open(struct sl_codec **out, const struct sl_codec_spec *spec, const struct sl_codec_env *env,
			  struct sl_fail *fail)
{
	const struct sl_backend_ops *ops = env->be == NULL ? NULL : env->be->ops;
	enum sl_err err = check_env(spec, env, fail);
	struct sl_codec *c;

	if (err != SL_OK)
		return err;
	c = calloc(1, sizeof *c);
	if (c == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory");
	c->spec = *spec;
	c->env = *env;
	c->pool = env->be == NULL ? NULL : env->be->pool;
	c->device = ops != NULL && ops->codec_stages != NULL;
	c->loops = ops != NULL && ops->codec_loops != NULL ? ops->codec_loops() : &sl_codec_loops_c;
	if (c->loops->streaming != NULL &&
	    sl_shape_count(&env->shape) * (int64_t)sizeof(float) >= SL_CODEC_STREAM_BYTES)
		c->loops = c->loops->streaming;
	c->paired = env->pair != NULL;
	err = open_links(c, fail);
	if (err != SL_OK)
		goto fail;
	err = open_memory(c, fail);
	if (err != SL_OK)
		goto fail;
	*out = c;
	return SL_OK;
fail:
	sl_codec_close(c);
	return err;
}

static void close_link(struct link *link)
{
	if (link->stage != NULL && link->stage->close != NULL && link->state != NULL)
		link->stage->close(link->state);
}

void sl_codec_close(struct sl_codec *c)
{
	if (c == NULL)
		return;
	for (int i = 0; i < MAX_TRANSFORMS; i++) {
		close_link(&c->transform[i]);
		if (c->device && c->values[i] != NULL)
			c->env.be->ops->free(c->env.be, c->values[i]);
	}
	close_link(&c->quantizer);
	close_link(&c->bytes);
	if (c->pinned != NULL)
		c->env.be->ops->host_free(c->env.be, c->pinned);
	else
		sl_arena_close(&c->arena);
	sl_feedback_close(c);
	free(c);
}

/* ---- encoding */

/* Everything behind the header, before a stage of bytes. `out` has room for body_bound. */
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
		struct sl_shape most = shape_after(c, i + 1, rows), left = most;
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
	if (direct(c))
		out->len += (size_t)sl_shape_count(&s) * sizeof(float);
	else
		err = c->quantizer.stage->encode(c->quantizer.state, call, x, &s, out);
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
		struct sl_shape most = shape_after(c, i + 1, rows);

		err = t->stage->parse(t->state, call, p.side[i], p.count[i], &s[i], &s[i + 1], fail);
		if (err == SL_OK && t->stage->variable)
			c->kept[i] = (double)p.count[i] / (double)sl_shape_count(&most);
	}
	if (err != SL_OK)
		return err;
	if (direct(c)) {
		if (p.values.len != (size_t)sl_shape_count(&s[n]) * sizeof(float))
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "%zu bytes of values, expected %lld", p.values.len,
					   (long long)sl_shape_count(&s[n]) * 4);
		y = (const sl_f32u *)p.values.data;
	} else {
		float *values = n == 0 ? x : c->values[n - 1];

		err = c->quantizer.stage->decode(c->quantizer.state, call, p.values, values, &s[n], fail);
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
	if (sl_bytes_take(&in, 4, &size) != SL_OK || sl_get_u32(size.data) > body_bound(c, rows))
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "declared size is missing or above %zu bytes",
				   body_bound(c, rows));
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

/* ---- the step */

static void each_link(struct sl_codec *c, bool commit)
{
	struct link *links[MAX_TRANSFORMS + 1];
	int n = 0;

	for (int i = 0; i < c->n_transform; i++)
		links[n++] = &c->transform[i];
	links[n++] = &c->quantizer;
	for (int i = 0; i < n; i++) {
		void (*fn)(void *) = commit ? links[i]->stage->commit : links[i]->stage->rollback;

		if (fn != NULL)
			fn(links[i]->state);
	}
}

void sl_codec_commit(struct sl_codec *c)
{
	each_link(c, true);
	for (int s = 0; c->residual != NULL && s < c->env.slots; s++) {
		struct residual *r = &c->residual[s];
		float *old = r->current;

		if (!r->has_pending)
			continue;
		r->current = r->pending;
		r->pending = old;
		r->has_current = true;
		r->has_pending = false;
	}
}

void sl_codec_rollback(struct sl_codec *c)
{
	each_link(c, false);
	for (int s = 0; c->residual != NULL && s < c->env.slots; s++)
		c->residual[s].has_pending = false;
}
