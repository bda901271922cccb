#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/exec/exec_impl.h"

static enum sl_err prepare_op(struct sl_exec *e, const struct sl_op *op, struct sl_exec_form form, void **state,
			      struct sl_op_sizes *sizes, struct sl_fail *fail)
{
	const struct sl_kernel *k = e->be->ops->kernel[op->kind];
	struct sl_op_prepare p = {
		.be = e->be, .op = op, .form = form, .row_tokens = e->plan->spec.row_tokens, .fail = fail};
	enum sl_err err = SL_OK;

	if (!k)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s: the backend %s has no %s", op->name, e->be->ops->name,
				   sl_op_kind_name(op->kind));
	if (k->prepare)
		err = k->prepare(&p);
	*state = p.state;
	e->state_bytes += p.sizes.state_bytes;
	if (p.sizes.workspace_bytes > sizes->workspace_bytes)
		sizes->workspace_bytes = p.sizes.workspace_bytes;
	if (p.sizes.saved_bytes > sizes->saved_bytes)
		sizes->saved_bytes = p.sizes.saved_bytes;
	if (!e->plan->spec.cached)
		return err;
	sizes->cache_bytes = p.sizes.cache_bytes;
	if (!err && op->kind == SL_OP_ATTENTION && !sizes->cache_bytes)
		err = sl_fail_at(fail, "generate.cache", SL_ERR_CONFIG,
				 "the backend %s keeps no keys and values: take false, or a server without a GPU",
				 e->be->ops->name);
	return err;
}

static enum sl_err prepare_ops(struct sl_exec *e, struct sl_op_sizes *sizes, struct sl_fail *fail)
{
	enum sl_err err = sl_narrow_open(e->narrow, &e->n_narrow, e->segment, fail);
	int at = 0; /* the first node at or behind op i */

	for (int i = 0; i < e->segment->n_op && !err; i++) {
		const struct sl_segment_op *so = &e->segment->op[i];
		struct sl_exec_form form = {0};

		at += at < e->n_node && e->node[at].op < i;
		if (at < e->n_node && e->node[at].op == i)
			form = e->node[at].form;
		e->op[i] = &so->op;
		if (!so->narrows)
			err = prepare_op(e, &so->op, form, &e->state[i], &sizes[i], fail);
	}
	for (int i = 0; i < e->n_narrow && !err; i++) {
		struct sl_narrow *w = &e->narrow[i];

		for (int k = 0; k < w->n && !err; k++)
			err = prepare_op(e, &w->op[k], (struct sl_exec_form){0}, &w->state[k], &sizes[w->at], fail);
	}
	return err;
}

/* Has the kernels build what they could not before memory was granted. */
static enum sl_err start_ops(struct sl_exec *e, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	for (int i = 0; i < e->segment->n_op && !err; i++) {
		const struct sl_kernel *k = sl_exec_kernel(e, i);
		struct sl_op_prepare p = {.be = e->be,
					  .op = &e->segment->op[i].op,
					  .row_tokens = e->plan->spec.row_tokens,
					  .fail = fail,
					  .state = e->state[i]};

		if (!k->start || e->segment->op[i].narrows)
			continue;
		err = k->start(&p);
		e->state[i] = p.state;
	}
	return err;
}

static void take_widths(struct sl_exec *e)
{
	for (int i = 0; i < e->n_narrow; i++) {
		const struct sl_narrow *w = &e->narrow[i];

		e->op[w->at] = &w->op[sl_exec_falls(e, i)];
		e->state[w->at] = w->state[sl_exec_falls(e, i)];
	}
}

static enum sl_err clear_fallen(struct sl_exec *e, float *area)
{
	enum sl_err err = SL_OK;

	for (int i = 0; i < e->n_narrow && !err; i++)
		err = sl_narrow_clear(&e->narrow[i], e->be, area, sl_exec_falls(e, i));
	return err;
}

static size_t trainable_bytes(const struct sl_exec *e)
{
	return (size_t)e->segment->trainable_count * sizeof(float);
}

static size_t statistics_bytes(const struct sl_exec *e)
{
	return (size_t)(e->segment->moving_count - e->segment->trainable_count) * sizeof(float);
}

static size_t gradient_bytes(const struct sl_exec *e)
{
	return (size_t)(e->segment->trainable_count + e->segment->tied_count) * sizeof(float);
}

enum sl_err sl_exec_set_done(struct sl_exec *e, uint64_t done)
{
	bool same = true;
	enum sl_err err;

	for (int i = 0; i < e->n_narrow; i++)
		same = same && sl_decay_falls(e->narrow[i].decay, done) == sl_exec_falls(e, i);
	e->done = done;
	if (sl_exec_sum(e) && done % (uint64_t)e->plan->spec.accumulate == 0) {
		err = e->be->ops->zero(e->be, sl_exec_sum(e), trainable_bytes(e));
		if (err)
			return err;
	}
	if (same)
		return SL_OK;
	take_widths(e);
	err = sl_exec_show_average(e, false);
	if (!err)
		err = clear_fallen(e, e->weight);
	if (!err)
		err = sl_exec_lower(e);
	for (int i = 0; i < e->segment->moments && !err; i++)
		err = clear_fallen(e, e->moment[i]);
	return err;
}

static enum sl_err take(struct sl_exec *e, void *out, size_t bytes, struct sl_fail *fail)
{
	void *ptr;
	enum sl_err err = e->be->ops->alloc(e->be, bytes ? bytes : 1, &ptr, fail);

	if (!err)
		memcpy(out, &ptr, sizeof ptr);
	return err;
}

/* Floats of the weight range, and of the fp32 copies of held parameters. */
static size_t all_weights(const struct sl_exec *e)
{
	return (size_t)(e->segment->weight_count + e->wide_count);
}

static size_t low_bytes(const struct sl_exec *e)
{
	const size_t one = sl_dtype_bytes(sl_precision_dtype(e->segment->precision));

	return sl_exec_mixed(e) ? all_weights(e) * one : 0;
}

/* With a single slot the chunk's sum is the batch's. */
static size_t part_bytes(const struct sl_exec *e)
{
	return e->plan->spec.chunk_sums && e->slots > 1 ? trainable_bytes(e) : 0;
}

/* Not 0: the chunks' statistics are combined as those of a group's members would be (sl_exec_try_apart). */
static size_t chunk_trial_bytes(const struct sl_exec *e)
{
	const bool end = e->segment->which != SL_MIDDLE;

	return end && e->be->host_memory && part_bytes(e) && !e->plan->spec.shared ? statistics_bytes(e) : 0;
}

static enum sl_err take_part(struct sl_exec *e, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	e->to = e->grad;
	if (part_bytes(e))
		err = take(e, &e->part, part_bytes(e), fail);
	if (!err && chunk_trial_bytes(e))
		err = take(e, &e->chunk_trial, chunk_trial_bytes(e), fail);
	return err;
}

/* Bytes for the chunks' numbers (sl_dims_numbers), if the backend's kernels cannot read the caller's memory. */
static size_t begin_bytes(const struct sl_exec *e)
{
	return e->plan->spec.chunk_tokens && !e->be->host_memory
		       ? (size_t)e->slots * sl_exec_begin_numbers(e) * sizeof *e->begin
		       : 0;
}

static size_t cache_bytes(const struct sl_exec *e)
{
	return (size_t)e->plan->spec.batch * e->layout.cache_bytes;
}

static enum sl_err take_cache(struct sl_exec *e, struct sl_fail *fail)
{
	e->filled = calloc((size_t)e->plan->spec.batch, sizeof *e->filled);
	return e->filled ? take(e, &e->cache, cache_bytes(e), fail)
			 : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a cache");
}

static enum sl_err take_parameters(struct sl_exec *e, struct sl_fail *fail)
{
	const struct sl_plan_segment *s = e->segment;
	enum sl_err err = take(e, &e->weight, all_weights(e) * sizeof(float), fail);

	for (int i = 0; i < s->moments && !err; i++)
		err = take(e, &e->moment[i], trainable_bytes(e), fail);
	if (!err)
		err = take(e, &e->trial, statistics_bytes(e), fail);
	if (!err && sl_exec_mixed(e))
		err = take(e, &e->weight_low, low_bytes(e), fail);
	return err;
}

enum sl_err sl_exec_allocate(struct sl_exec *e, struct sl_fail *fail)
{
	const struct sl_plan_segment *s = e->segment;
	const struct sl_layout *l = &e->layout;
	size_t slots = (size_t)e->slots;
	enum sl_err err = e->lender ? SL_OK : take_parameters(e, fail);

	e->mark = calloc(slots + 1, sizeof *e->mark);
	if (!err && !e->mark)
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the executor");
	if (!err)
		err = take(e, &e->grad, gradient_bytes(e), fail);
	if (!err)
		err = take_part(e, fail);
	if (!err && s->precision == SL_PRECISION_FP16)
		err = take(e, &e->scale, 2 * sizeof *e->scale, fail);
	if (!err && !e->be->host_memory)
		err = take(e, &e->clip, sizeof *e->clip, fail);
	if (!err && e->scale && sl_exec_set_loss_scale(e, sl_loss_scale_first()))
		err = sl_fail_set(fail, SL_ERR_DEVICE, "the loss scale could not be set");
	if (!err)
		err = take(e, &e->slot_area, slots * l->slot_bytes, fail);
	if (!err)
		err = take(e, &e->saved_area, slots * l->saved_bytes, fail);
	if (!err && !e->bare)
		err = take(e, &e->scratch, l->scratch_bytes, fail);
	if (!err && !e->bare)
		err = take(e, &e->workspace, l->workspace_bytes, fail);
	if (!err && begin_bytes(e))
		err = take(e, &e->begin, begin_bytes(e), fail);
	if (!err && e->plan->spec.cached)
		err = take_cache(e, fail);
	if (!err && !e->bare)
		err = start_ops(e, fail);
	if (!err && sl_exec_table_open(e))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the rows of an embedding");
	return err;
}

static enum sl_err check_precision(const struct sl_plan_segment *s, const struct sl_backend *be, struct sl_fail *fail)
{
	const char *key = s->which == SL_MIDDLE ? "train.precision" : "train.ends_precision";
	unsigned has = be->ops->precisions | 1u << SL_PRECISION_FP32;
	char list[64] = "";

	if (has >> s->precision & 1)
		return SL_OK;
	for (int p = 0; p < SL_PRECISION_COUNT; p++)
		if (has >> p & 1)
			snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", list[0] ? ", " : "",
				 sl_precision_name((enum sl_precision)p));
	return sl_fail_at(fail, key, SL_ERR_CONFIG,
			  "the %s runs on %s, which computes in %s: take that, or for %s a %s that has it",
			  sl_segment_name(s->which), be->ops->name, list, sl_precision_name(s->precision),
			  s->which != SL_MIDDLE                       ? "CPU"
			  : s->precision == SL_PRECISION_BF16_FACTORS ? "server with a CPU"
								      : "server with a GPU");
}

/* Checks that segment and backend can do the sums and averages that the plan asks for. */
static enum sl_err check_sums(const struct sl_exec *e, struct sl_fail *fail)
{
	const bool adds = e->be->host_memory || e->be->ops->add;

	if (e->plan->spec.accumulate > 1 && e->n_narrow)
		return sl_fail_at(fail, "train.accumulate", SL_ERR_CONFIG,
				  "an insert that decays shrinks once in each batch, so batches cannot be accumulated: "
				  "leave this key out");
	if (e->plan->spec.ema > 0 && !adds)
		return sl_fail_at(fail, "train.ema", SL_ERR_CONFIG, "%s cannot average weights: leave this key out",
				  e->be->ops->name);
	if (part_bytes(e) && e->segment->tied_count)
		return sl_fail_at(fail, "train.chunk_sums", SL_ERR_CONFIG,
				  "is not exact where head and tail train the same word table: "
				  "freeze the table, or set this key to false");
	if (part_bytes(e) && !adds)
		return sl_fail_at(fail, "train.chunk_sums", SL_ERR_CONFIG, "%s cannot add up chunks apart: take false",
				  e->be->ops->name);
	return SL_OK;
}

enum sl_err sl_exec_prepare(struct sl_exec **out, const struct sl_plan *plan, enum sl_segment which,
			    struct sl_backend *be, struct sl_fail *fail)
{
	const struct sl_plan_segment *s = &plan->segment[which];
	struct sl_exec *e = calloc(1, sizeof *e);
	struct sl_op_sizes *sizes = calloc((size_t)s->n_op, sizeof *sizes);
	enum sl_err err;

	if (e) {
		*e = (struct sl_exec){.plan = plan,
				      .segment = s,
				      .be = be,
				      .loss_scale = {1, 0},
				      .slots = sl_plan_chunks_of(plan, plan->spec.batch)};
		e->op = calloc((size_t)s->n_op, sizeof *e->op);
		e->state = calloc((size_t)s->n_op, sizeof *e->state);
		e->node = calloc((size_t)s->n_op, sizeof *e->node);
	}
	if (!e || !e->op || !e->state || !e->node || !sizes) {
		if (e) {
			free(e->op);
			free(e->state);
			free(e->node);
		}
		free(e);
		free(sizes);
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the executor");
	}
	err = check_precision(s, be, fail);
	if (!err && sl_rewrite(e->node, &e->n_node, s, be))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the executor's nodes");
	if (!err)
		err = prepare_ops(e, sizes, fail);
	if (!err && sl_exec_held_open(e))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the executor");
	if (!err)
		err = check_sums(e, fail);
	if (!err)
		take_widths(e);
	if (!err && sl_layout_open(&e->layout, s, e->node, e->n_node, sizes))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the layout");
	free(sizes);
	if (!err && be->evaluates && sl_layout_forward(&e->layout, s, e->node, e->n_node))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the layout");
	if (!err && be->recompute)
		err = sl_exec_recompute(e, fail);
	if (err) {
		sl_exec_close(e);
		return err;
	}
	*out = e;
	return SL_OK;
}

enum sl_err sl_exec_recompute(struct sl_exec *e, struct sl_fail *fail)
{
	if (!e->be->host_memory || sl_exec_mixed(e) || e->plan->spec.cached || e->be->evaluates)
		return SL_OK;
	if (sl_layout_recompute(&e->layout, e->segment, e->node, e->n_node, e->slots))
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the layout");
	return SL_OK;
}

enum sl_err sl_exec_open(struct sl_exec **out, const struct sl_plan *plan, enum sl_segment which, struct sl_backend *be,
			 struct sl_fail *fail)
{
	struct sl_exec *e;
	enum sl_err err = sl_exec_prepare(&e, plan, which, be, fail);

	if (err)
		return err;
	err = sl_exec_allocate(e, fail);
	if (err) {
		sl_exec_close(e);
		return err;
	}
	*out = e;
	return SL_OK;
}

static void release_op(struct sl_exec *e, int i, void *state)
{
	const struct sl_kernel *k = sl_exec_kernel(e, i);

	if (k && k->release && state)
		k->release(state);
}

void sl_exec_close(struct sl_exec *e)
{
	if (!e)
		return;
	if (e->be->ops->pass_forget)
		e->be->ops->pass_forget(e->be, e);
	for (int i = 0; i < e->segment->n_op; i++)
		if (!e->segment->op[i].narrows)
			release_op(e, i, e->state[i]);
	for (int i = 0; i < e->n_narrow; i++) {
		for (int k = 0; k < e->narrow[i].n && e->narrow[i].state; k++)
			release_op(e, e->narrow[i].at, e->narrow[i].state[k]);
		sl_narrow_close(&e->narrow[i]);
	}
	if (e->lender) {
		e->weight = e->trial = NULL;
		e->weight_low = NULL;
		memset(e->moment, 0, sizeof e->moment);
	}
	sl_exec_own_gradient(e);
	sl_exec_table_close(e);
	void *const area[] = {e->weight,    e->grad,       e->moment[0], e->moment[1], e->slot_area,   e->moment[2],
			      e->moment[3], e->saved_area, e->scratch,   e->workspace, e->weight_low,  e->scale,
			      e->clip,      e->trial,      e->begin,     e->part,      e->chunk_trial, e->cache};

	for (size_t i = 0; i < sizeof area / sizeof area[0]; i++)
		if (area[i])
			e->be->ops->free(e->be, area[i]);
	sl_layout_close(&e->layout);
	sl_exec_held_close(e);
	free(e->filled);
	free(e->mark);
	free(e->op);
	free(e->state);
	free(e->node);
	free(e);
}

struct sl_exec_memory sl_exec_memory(const struct sl_exec *e)
{
	const struct sl_plan_segment *s = e->segment;
	size_t slots = (size_t)e->slots;
	const size_t moments = (size_t)s->moments * trainable_bytes(e), gradients = gradient_bytes(e) + part_bytes(e);
	const size_t own = all_weights(e) * sizeof(float) + moments + statistics_bytes(e) + low_bytes(e);
	struct sl_exec_memory m = {
		.lent = e->lender ? 0 : own,
		.gradients = gradients,
		.moments = e->lender ? 0 : moments,
		.weights = gradients + chunk_trial_bytes(e) + (e->lender ? 0 : own),
		.slots = slots * (e->layout.slot_bytes + e->layout.saved_bytes) + begin_bytes(e) + cache_bytes(e) +
			 (e->plan->spec.cached ? (size_t)e->plan->spec.batch * sizeof *e->filled : 0),
		.scratch = e->bare ? 0 : e->layout.scratch_bytes + e->layout.workspace_bytes + e->state_bytes,
	};

	m.total = m.weights + m.slots + m.scratch;
	return m;
}

const struct sl_plan *sl_exec_plan(const struct sl_exec *e)
{
	return e->plan;
}

const struct sl_plan_segment *sl_exec_segment(const struct sl_exec *e)
{
	return e->segment;
}

/* Makes weights and moments current, so that other code may read and write them. */
static enum sl_err settle(struct sl_exec *e)
{
	enum sl_err err = sl_exec_table_flush(e);

	return err ? err : sl_exec_show_average(e, false);
}

float *sl_exec_weights_at(struct sl_exec *e)
{
	return e->be->host_memory && !e->lender ? e->weight : NULL;
}

enum sl_err sl_exec_get_front(struct sl_exec *e, float *host, int64_t count)
{
	enum sl_err err = settle(e);

	return err || host == e->weight ? err
					: e->be->ops->download(e->be, host, e->weight, (size_t)count * sizeof *host);
}

enum sl_err sl_exec_get_weights(struct sl_exec *e, float *host)
{
	return sl_exec_get_front(e, host, e->segment->weight_count);
}

enum sl_err sl_exec_get_model(struct sl_exec *e, float *host, int64_t count)
{
	const size_t front = sl_exec_average(e) ? trainable_bytes(e) : 0;
	enum sl_err err = sl_exec_get_front(e, host, count);

	return err || !front ? err : e->be->ops->download(e->be, host, sl_exec_average(e), front);
}

enum sl_err sl_exec_set_moment(struct sl_exec *e, int which, const float *host)
{
	enum sl_err err = settle(e);

	if (!err)
		err = e->be->ops->upload(e->be, e->moment[which], host, trainable_bytes(e));
	return err ? err : clear_fallen(e, e->moment[which]);
}

enum sl_err sl_exec_get_moment(struct sl_exec *e, int which, float *host)
{
	enum sl_err err = settle(e);

	return err ? err : e->be->ops->download(e->be, host, e->moment[which], trainable_bytes(e));
}

uint64_t sl_exec_done(const struct sl_exec *e)
{
	return e->done;
}

uint64_t sl_exec_applied(const struct sl_exec *e)
{
	return e->applied;
}

void sl_exec_set_applied(struct sl_exec *e, uint64_t applied)
{
	e->applied = applied;
}

enum sl_err sl_exec_get_gradients(struct sl_exec *e, float *host)
{
	const float unscale = 1 / e->loss_scale.scale;
	enum sl_err err = e->be->ops->download(e->be, host, e->grad, trainable_bytes(e));

	for (int64_t i = 0; i < e->segment->trainable_count && !err; i++)
		host[i] *= unscale;
	return err;
}

/* Updates the whole 16-bit copy. Frozen weights, behind the statistics, change only when all weights are set. */
static enum sl_err lower_all(struct sl_exec *e)
{
	const struct sl_plan_segment *s = e->segment;
	const enum sl_dtype low = sl_precision_dtype(s->precision);
	const int64_t frozen = (int64_t)all_weights(e) - s->moving_count;
	enum sl_err err = sl_exec_lower(e);

	if (err || !e->weight_low || !frozen)
		return err;
	return e->be->ops->convert(e->be,
				   (unsigned char *)e->weight_low + (size_t)s->moving_count * sl_dtype_bytes(low), low,
				   e->weight + s->moving_count, SL_F32, NULL, frozen);
}

enum sl_err sl_exec_set_weights(struct sl_exec *e, const float *host)
{
	enum sl_err err = settle(e);

	e->tried = e->committed = false;
	if (!err && host != e->weight)
		err = e->be->ops->upload(e->be, e->weight, host, (size_t)e->segment->weight_count * sizeof *host);
	if (!err)
		err = sl_exec_widen(e, host);
	if (!err)
		err = clear_fallen(e, e->weight);
	if (!err)
		err = sl_exec_begin_average(e);
	return err ? err : lower_all(e);
}

struct sl_loss_scale sl_exec_loss_scale(const struct sl_exec *e)
{
	return e->loss_scale;
}

/* Passes read the scale from device memory, so recorded ones stay valid. */
enum sl_err sl_exec_set_loss_scale(struct sl_exec *e, struct sl_loss_scale scale)
{
	const float pair[2] = {scale.scale, 1 / scale.scale};
	bool same = scale.scale == e->loss_scale.scale;

	if (!e->scale)
		return SL_OK;
	e->loss_scale = scale;
	return same ? SL_OK : e->be->ops->upload(e->be, e->scale, pair, sizeof pair);
}
