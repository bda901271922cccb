/* What changes in a head and tail that members share (mean.h): from the client's plan. */
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "common/graph/graph_text.h"
#include "common/session/mean.h"

/* The elements of a row, if the parameter is the table of an embedding or a lookup; else 0. */
static int64_t row_of(const struct sl_plan_segment *s, int param)
{
	for (int i = 0; i < s->n_op; i++)
		if (s->op[i].op.kind == SL_OP_EMBEDDING && s->op[i].param[0] == param)
			return s->op[i].op.u.embedding.features;
		else if (s->op[i].op.kind == SL_OP_LOOKUP && s->op[i].param[0] == param)
			return s->op[i].op.u.lookup.features;
	return 0;
}

static int count_params(const struct sl_plan_segment *s, int64_t *count, int64_t *row)
{
	int n = 0;

	for (int i = 0; i < s->n_param; i++) {
		if (s->param[i].offset >= s->trainable_count)
			continue;
		if (count) {
			count[n] = s->param[i].count;
			row[n] = row_of(s, i);
		}
		n++;
	}
	return n;
}

enum sl_err sl_end_layout_settle(struct sl_end_layout *l, const struct sl_plan_spec *spec, struct sl_fail *fail)
{
	l->round = spec->ends_round > 0;
	l->moments = l->round && spec->shared_ends == SL_ENDS_MOMENTS ? sl_optimizer_moments(spec->optimizer.kind) : 0;
	l->floats = l->round ? (1 + l->moments) * l->grads + l->stats + 2 : l->grads + 2 * l->stats;
	return l->floats <= SL_END_MAX_FLOATS
		       ? SL_OK
		       : sl_fail_set(fail, SL_ERR_LIMIT, "head and tail have more elements than a group can share");
}

struct sl_end_layout sl_end_layout_state(const struct sl_end_layout *l, const struct sl_plan_spec *spec)
{
	struct sl_end_layout state = *l;

	state.round = true;
	state.moments = sl_optimizer_moments(spec->optimizer.kind);
	state.floats = (1 + state.moments) * l->grads + l->stats + 2;
	return state;
}

static void feed(void *arg, const char *text, size_t len)
{
	XXH3_64bits_update(arg, text, len);
}

/* Members with equal parameters may differ in other layers: in dropout, or in an activation. */
static enum sl_err hash_graphs(uint64_t *out, const struct sl_plan *plan)
{
	XXH3_state_t *x = XXH3_createState();

	if (!x)
		return SL_ERR_NOMEM;
	XXH3_64bits_reset(x);
	sl_graph_write(&plan->segment[SL_HEAD].graph, feed, x);
	sl_graph_write(&plan->segment[SL_TAIL].graph, feed, x);
	*out = XXH3_64bits_digest(x);
	XXH3_freeState(x);
	return SL_OK;
}

enum sl_err sl_end_layout_of(struct sl_end_layout *out, const struct sl_plan *plan, struct sl_fail *fail)
{
	const struct sl_plan_segment *head = &plan->segment[SL_HEAD], *tail = &plan->segment[SL_TAIL];
	const struct sl_change_count of_head = sl_exec_change_count(head), of_tail = sl_exec_change_count(tail);
	const int n = count_params(head, NULL, NULL);
	struct sl_end_layout l = {.n = n + count_params(tail, NULL, NULL),
				  .grads = of_head.grad + of_tail.grad,
				  .stats = of_head.stat + of_tail.stat};

	if (!l.grads && !l.stats)
		return sl_fail_at(fail, "share.ends", SL_ERR_CONFIG,
				  "nothing in head and tail learns, so there is nothing to share: take private");
	if (sl_end_layout_settle(&l, &plan->spec, fail))
		return fail->code;
	l.count = calloc(2 * (size_t)l.n + 1, sizeof *l.count);
	if (!l.count || hash_graphs(&l.graphs, plan)) {
		free(l.count);
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the gradients of head and tail");
	}
	l.row = l.count + l.n;
	(void)count_params(head, l.count, l.row);
	(void)count_params(tail, l.count + n, l.row + n);
	*out = l;
	return SL_OK;
}

enum sl_err sl_end_layout_copy(struct sl_end_layout *out, const struct sl_end_layout *from)
{
	int64_t *count = malloc((2 * (size_t)from->n + 1) * sizeof *count);

	if (!count)
		return SL_ERR_NOMEM;
	*out = *from;
	memcpy(count, from->count, (size_t)from->n * sizeof *count);
	memcpy(count + from->n, from->row, (size_t)from->n * sizeof *count);
	out->count = count;
	out->row = count + from->n;
	return SL_OK;
}

void sl_end_layout_close(struct sl_end_layout *l)
{
	free(l->count);
	*l = (struct sl_end_layout){0};
}

struct sl_change sl_end_change(const struct sl_end_layout *l, const struct sl_plan *plan, enum sl_segment which,
			       float *change)
{
	const struct sl_change_count head =
		which == SL_TAIL ? sl_exec_change_count(&plan->segment[SL_HEAD]) : (struct sl_change_count){0};

	return (struct sl_change){change + head.grad, change + l->grads + head.stat,
				  change + l->grads + l->stats + head.stat};
}
