/* The hashes of a plan, which two sides compare before they compute together. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "common/exec/plan.h"
#include "common/graph/graph_text.h"

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

static void feed_text(void *arg, const char *text, size_t len)
{
	XXH3_128bits_update(arg, text, len);
}

/* Hashes the graph and what was derived from it, so that versions that derive it differently do not agree. */
static void feed_segment(XXH3_state_t *x, const struct sl_plan_segment *s)
{
	feed(x, "\n%s %" PRId64 " %" PRId64 "\n", sl_segment_name(s->which), s->trainable_count, s->weight_count);
	sl_graph_write(&s->graph, feed_text, x);
	for (int i = 0; i < s->n_op; i++) {
		const struct sl_op *op = &s->op[i].op;

		feed(x, "\n%s %s", sl_op_kind_name(op->kind), op->name);
		for (int k = 0; k < op->n_in; k++)
			feed_shape(x, &op->in_shape[k]);
		feed_shape(x, &op->out_shape);
	}
	for (int i = 0; i < s->n_param; i++)
		feed(x, "\n%s@%" PRId64, s->graph.param[s->param[i].graph_param].name, s->param[i].offset);
}

/* Hashes the spec, and the planned segments for which `part` is true. */
static enum sl_err digest(const struct sl_plan *plan, const bool part[SL_SEGMENT_COUNT],
			  uint8_t out[SL_PLAN_HASH_BYTES])
{
	XXH3_state_t *x = XXH3_createState();
	XXH128_canonical_t canonical;

	if (!x)
		return SL_ERR_NOMEM;
	XXH3_128bits_reset(x);
	feed(x, "split plan 3\nbatch=%" PRId64 " chunks=%d seed=%" PRIu64 " precision=%s\n%s", plan->spec.batch,
	     plan->spec.chunks, plan->spec.seed, sl_precision_name(plan->spec.precision), plan->spec.note);
	if (plan->spec.chunk_tokens)
		feed(x, "\ntokens %" PRId64 " %" PRId64 "%s", plan->spec.row_tokens, plan->spec.chunk_tokens,
		     plan->spec.padded ? " padded" : "");
	if (plan->spec.no_grad[0] || plan->spec.no_grad[1])
		feed(x, "no_grad=%d,%d\n", plan->spec.no_grad[0], plan->spec.no_grad[1]);
	for (int i = 0; i < SL_SEGMENT_COUNT; i++)
		if (part[i] && plan->segment[i].n_op)
			feed_segment(x, &plan->segment[i]);
	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(x));
	memcpy(out, canonical.digest, SL_PLAN_HASH_BYTES);
	XXH3_freeState(x);
	return SL_OK;
}

static enum sl_err digest_layout(const struct sl_plan *plan, uint8_t out[SL_PLAN_HASH_BYTES])
{
	XXH3_state_t *x = XXH3_createState();
	XXH128_canonical_t canonical;

	if (!x)
		return SL_ERR_NOMEM;
	XXH3_128bits_reset(x);
	for (int i = 0; i < SL_SEGMENT_COUNT; i++) {
		const struct sl_plan_segment *s = &plan->segment[i];

		if (!s->n_op)
			continue;
		feed(x, "\n%s %" PRId64 " %" PRId64 " %" PRId64, sl_segment_name(s->which), s->trainable_count,
		     s->moving_count, s->weight_count);
		for (int k = 0; k < s->n_param; k++) {
			const struct sl_param *p = &s->graph.param[s->param[k].graph_param];

			feed(x, "\n%s@%" PRId64, p->name, s->param[k].offset);
			feed_shape(x, &p->shape);
		}
	}
	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(x));
	memcpy(out, canonical.digest, SL_PLAN_HASH_BYTES);
	XXH3_freeState(x);
	return SL_OK;
}

enum sl_err sl_plan_seal(struct sl_plan *plan, struct sl_fail *fail)
{
	static const bool all[SL_SEGMENT_COUNT] = {true, true, true}, middle[SL_SEGMENT_COUNT] = {[SL_MIDDLE] = true};

	return digest(plan, all, plan->hash) || digest(plan, middle, plan->middle_hash) ||
			       digest_layout(plan, plan->layout_hash)
		       ? sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the plan's hash")
		       : SL_OK;
}
