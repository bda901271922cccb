#include "common/nn/plan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

enum { PARAM_ALIGN = 16 }; /* floats of a cache line */

static int64_t param_room(int64_t count)
{
	return (count + PARAM_ALIGN - 1) / PARAM_ALIGN * PARAM_ALIGN;
}

int sl_plan_chunks_of(const struct sl_plan *plan, int64_t batch_rows)
{
	return (int)((batch_rows + plan->rows - 1) / plan->rows);
}

int64_t sl_plan_chunk_rows(const struct sl_plan *plan, int64_t batch_rows, int chunk)
{
	int64_t left = batch_rows - (int64_t)chunk * plan->rows;

	return left < plan->rows ? left : plan->rows;
}

struct sl_shape sl_plan_cut_shape(const struct sl_plan *plan, bool mid, int64_t rows)
{
	return sl_shape_rows(plan->segment[mid ? SL_TAIL : SL_MIDDLE].in_shape, rows);
}

struct sl_shape sl_plan_cut_shape_after(const struct sl_plan *plan, bool mid, int64_t rows, uint64_t done)
{
	struct sl_shape shape = sl_plan_cut_shape(plan, mid, rows);

	if (plan->decay[mid].full)
		shape.dim[shape.ndim - 1] = sl_decay_width(&plan->decay[mid], done);
	return shape;
}

int64_t sl_plan_plain_count(const struct sl_plan *plan, bool mid)
{
	return sl_shape_row(&plan->plain[mid]);
}

/* How many ops of [first, end) read `value`. */
static int consumers(const struct sl_model *m, int first, int end, int value)
{
	int n = 0;

	for (int i = first; i < end; i++)
		for (int k = 0; k < m->op[i].n_in; k++)
			n += m->op[i].in[k] == value;
	return n;
}

/* The activation that can ride on batchnorm op `i`: the next op, and the only reader of its output. */
static bool fuses_act(const struct sl_model *m, int i, int end)
{
	const struct sl_op *bn = &m->op[i];

	return bn->kind == SL_OP_BATCHNORM && bn->u.bn.act == SL_ACT_NONE && i + 1 < end &&
	       m->op[i + 1].kind == SL_OP_ACT && m->op[i + 1].in[0] == bn->out && consumers(m, i, end, bn->out) == 1;
}

static void set_rows(struct sl_op *op, int64_t rows)
{
	for (int k = 0; k < op->n_in; k++)
		op->in_shape[k].dim[0] = rows;
	if (op->kind != SL_OP_XENT)
		op->out_shape.dim[0] = rows;
}

static void copy_ops(struct sl_plan_segment *s, const struct sl_model *m, int first, int end, int64_t rows)
{
	for (int i = first; i < end; i++) {
		struct sl_segment_op *to = &s->op[s->n_op++];

		to->op = m->op[i];
		s->macs += sl_op_macs(&m->op[i], 1);
		if (fuses_act(m, i, end)) {
			to->op.u.bn.act = m->op[i + 1].u.act;
			to->op.out = m->op[i + 1].out;
			i++;
		}
		set_rows(&to->op, rows);
		to->op.precision = s->precision;
	}
}

static void place_params(struct sl_plan_segment *s, const struct sl_model *m, bool trainable)
{
	for (int i = 0; i < s->n_op; i++) {
		struct sl_segment_op *so = &s->op[i];

		for (int k = 0; k < so->op.n_param; k++) {
			const struct sl_param *p = &m->param[so->op.param[k]];

			if (p->trainable != trainable)
				continue;
			so->param[k] = s->n_param;
			s->param[s->n_param++] =
				(struct sl_segment_param){so->op.param[k], s->weight_count, sl_shape_count(&p->shape)};
			s->weight_count += param_room(sl_shape_count(&p->shape));
		}
	}
	if (trainable)
		s->trainable_count = s->weight_count;
}

/* Walks backward as the executor will: an input's gradient is wanted unless it is the head's (the images), and it is
 * added to where a later op has written it already. */
static enum sl_err mark_gradients(struct sl_plan_segment *s, int n_value)
{
	bool *written = calloc((size_t)n_value, sizeof *written);

	if (!written)
		return SL_ERR_NOMEM;
	for (int i = s->n_op - 1; i >= 0; i--) {
		struct sl_segment_op *so = &s->op[i];

		for (int k = 0; k < so->op.n_in; k++) {
			int v = so->op.in[k];

			so->din_want[k] = !(s->which == SL_HEAD && v == s->in_value);
			so->din_add[k] = written[v];
			written[v] = true;
		}
	}
	free(written);
	return SL_OK;
}

static void mark_narrow(struct sl_plan_segment *s, int value)
{
	for (int i = 0; i < s->n_op; i++)
		s->op[i].narrows = s->op[i].narrows || s->op[i].op.out == value || s->op[i].op.in[0] == value;
}

static enum sl_err build_segment(struct sl_plan *plan, enum sl_segment which, struct sl_fail *fail)
{
	struct sl_plan_segment *s = &plan->segment[which];
	const struct sl_model *m = plan->model;
	int n_param = 0, first, end;

	sl_cut_ops(&plan->cut, m, which, &first, &end);
	if (end <= first)
		return sl_fail_set(fail, SL_ERR_BUG, "segment %d of the cut holds no op", (int)which);
	for (int i = first; i < end; i++)
		n_param += m->op[i].n_param;
	s->which = which;
	s->precision = which == SL_MIDDLE ? plan->spec.precision : SL_PRECISION_FP32;
	s->moments = sl_optimizer_moments(plan->spec.optimizer.kind);
	s->op = calloc((size_t)(end - first), sizeof *s->op);
	s->param = calloc((size_t)n_param + 1, sizeof *s->param);
	if (!s->op || !s->param)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the plan");
	copy_ops(s, m, first, end, plan->rows);
	if (plan->decay[0].full)
		mark_narrow(s, plan->cut.head_value);
	if (plan->decay[1].full)
		mark_narrow(s, plan->cut.tail_value);
	place_params(s, m, true);
	place_params(s, m, false);
	s->in_value = s->op[0].op.in[0];
	s->out_value = s->op[s->n_op - 1].op.out;
	s->in_shape = s->op[0].op.in_shape[0];
	s->out_shape = s->op[s->n_op - 1].op.out_shape;
	return mark_gradients(s, m->n_value) ? sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the plan") : SL_OK;
}

static void feed(XXH3_state_t *x, const char *fmt, ...) SL_PRINTF(2, 3);

static void feed(XXH3_state_t *x, const char *fmt, ...)
{
	char line[SL_PLAN_NOTE_MAX + 256];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	XXH3_128bits_update(x, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
}

static void feed_shape(XXH3_state_t *x, const struct sl_shape *s)
{
	char text[SL_SHAPE_TEXT];

	feed(x, " %s", sl_shape_text(s, text));
}

static void feed_op(XXH3_state_t *x, const struct sl_op *op)
{
	feed(x, "\n%s %s %u", sl_op_kind_name(op->kind), op->name, op->stream);
	for (int k = 0; k < op->n_in; k++)
		feed_shape(x, &op->in_shape[k]);
	feed_shape(x, &op->out_shape);
	switch (op->kind) {
	case SL_OP_CONV2D:
		feed(x, " k%dx%d s%d p%d g%d b%d", op->u.conv.kh, op->u.conv.kw, op->u.conv.stride, op->u.conv.pad,
		     op->u.conv.groups, op->u.conv.bias);
		break;
	case SL_OP_CONVT2D:
		feed(x, " k%dx%d s%d p%d o%dx%d b%d", op->u.convt.kh, op->u.convt.kw, op->u.convt.stride,
		     op->u.convt.pad, op->u.convt.out_pad_h, op->u.convt.out_pad_w, op->u.convt.bias);
		break;
	case SL_OP_BATCHNORM:
		feed(x, " e%a m%a a%d", (double)op->u.bn.eps, (double)op->u.bn.momentum, op->u.bn.act);
		break;
	case SL_OP_ACT:
		feed(x, " a%d", op->u.act);
		break;
	case SL_OP_MAXPOOL:
	case SL_OP_AVGPOOL:
		feed(x, " k%d s%d p%d", op->u.pool.k, op->u.pool.stride, op->u.pool.pad);
		break;
	case SL_OP_LINEAR:
		if (op->u.linear.transposed)
			feed(x, " transposed");
		break;
	case SL_OP_DROPOUT:
		feed(x, " p%a", (double)op->u.dropout.p);
		break;
	case SL_OP_SCALE:
		feed(x, " b%a", (double)op->u.scale.by);
		break;
	default:
		break;
	}
}

static enum sl_err hash_plan(struct sl_plan *plan)
{
	XXH3_state_t *x = XXH3_createState();
	XXH128_canonical_t canonical;

	if (!x)
		return SL_ERR_NOMEM;
	XXH3_128bits_reset(x);
	feed(x, "split plan 1\n%s classes=%d batch=%" PRId64 " chunks=%d seed=%" PRIu64 "\n%s", plan->model->name,
	     plan->model->classes, plan->spec.batch, plan->spec.chunks, plan->spec.seed, plan->spec.note);
	if (plan->spec.precision != SL_PRECISION_FP32)
		feed(x, "\nprecision %s", sl_precision_name(plan->spec.precision));
	for (int i = 0; i < 2; i++) {
		const struct sl_decay *d = &plan->decay[i];

		if (d->full)
			feed(x, "\ndecay %d %d %a %" PRId64 " %d %a %" PRId64, i, d->full, d->rate, d->every, d->times,
			     d->l1, d->from);
	}
	for (int r = 0; r < SL_SEGMENT_COUNT; r++) {
		const struct sl_plan_segment *s = &plan->segment[r];

		feed(x, "\n%s %" PRId64, sl_segment_name((enum sl_segment)r), s->weight_count);
		for (int i = 0; i < s->n_op; i++)
			feed_op(x, &s->op[i].op);
		for (int i = 0; i < s->n_param; i++)
			feed(x, "\n%s@%" PRId64, plan->model->param[s->param[i].model_param].name, s->param[i].offset);
	}
	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(x));
	memcpy(plan->hash, canonical.digest, SL_PLAN_HASH_BYTES);
	XXH3_freeState(x);
	return SL_OK;
}

static const char *given(const char *text)
{
	return text[0] ? text : NULL;
}

static struct sl_shape value_shape(const struct sl_model *m, int value)
{
	for (int i = 0; i < m->n_op; i++)
		if (m->op[i].out == value)
			return m->op[i].out_shape;
	return m->input;
}

static enum sl_err find_cut(struct sl_plan *plan, struct sl_fail *fail)
{
	const struct sl_cut_spec *c = &plan->spec.cut;

	enum sl_err err = sl_cut_find(&plan->cut, plan->model, given(c->partition), given(c->head_end),
				      given(c->tail_begin), fail);

	if (err)
		return err;
	plan->plain[0] = value_shape(plan->model, plan->cut.head_value);
	plan->plain[1] = value_shape(plan->model, plan->cut.tail_value);
	return sl_insert_splice(plan->model, &plan->cut, plan->spec.insert_head, plan->spec.insert_tail, plan->decay,
				fail);
}

static enum sl_err check_spec(const struct sl_plan_spec *spec, struct sl_fail *fail)
{
	if (spec->batch < 1 || spec->batch > SL_PLAN_MAX_BATCH)
		return sl_fail_at(fail, "train.batch", SL_ERR_CONFIG, "batch must be 1 to %d, not %" PRId64,
				  SL_PLAN_MAX_BATCH, spec->batch);
	if (spec->chunks < 1 || spec->chunks > SL_PLAN_MAX_CHUNKS || spec->chunks > spec->batch)
		return sl_fail_at(fail, "train.chunks", SL_ERR_CONFIG,
				  "chunks must be 1 to %" PRId64 " (the batch is %" PRId64 ", the most is %d), not %d",
				  spec->batch < SL_PLAN_MAX_CHUNKS ? spec->batch : (int64_t)SL_PLAN_MAX_CHUNKS,
				  spec->batch, SL_PLAN_MAX_CHUNKS, spec->chunks);
	if ((unsigned)spec->precision >= SL_PRECISION_COUNT)
		return sl_fail_at(fail, "train.precision", SL_ERR_CONFIG, "no precision has the number %d",
				  (int)spec->precision);
	return sl_optimizer_check(&spec->optimizer, fail);
}

enum sl_err sl_plan_open(struct sl_plan **out, const struct sl_plan_spec *spec, struct sl_fail *fail)
{
	struct sl_plan *plan;
	enum sl_err err = check_spec(spec, fail);

	if (err)
		return err;
	plan = calloc(1, sizeof *plan);
	if (!plan)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the plan");
	plan->spec = *spec;
	plan->rows = (spec->batch + spec->chunks - 1) / spec->chunks;
	err = sl_model_open(&plan->model, &spec->model, fail);
	if (!err)
		err = find_cut(plan, fail);
	for (int which = 0; which < SL_SEGMENT_COUNT && !err; which++)
		err = build_segment(plan, (enum sl_segment)which, fail);
	if (!err && hash_plan(plan))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the plan's hash");
	if (err) {
		sl_plan_close(plan);
		return err;
	}
	*out = plan;
	return SL_OK;
}

void sl_plan_close(struct sl_plan *plan)
{
	if (!plan)
		return;
	for (int r = 0; r < SL_SEGMENT_COUNT; r++) {
		free(plan->segment[r].op);
		free(plan->segment[r].param);
	}
	sl_model_close(plan->model);
	free(plan);
}
