#include "server/trunk/cost.h"

#include "common/base/pieces.h"
#include "common/session/agree.h"

/* Nanoseconds of one thread, rounded up (docs/results/security.md). weight_ns: to initialize a weight; pass_weight_ns:
 * to load it from memory in a pass, which matters if there are few rows. */
static const double weight_ns = 40, pass_weight_ns = 2.5;

/* Backward has two products where forward has one; frozen weights save the one for their gradient. */
static bool is_frozen(const struct sl_segment_op *op, double products)
{
	return products > 1 && op->op.n_param && !op->learns;
}

struct sl_cost sl_segment_cost(const struct sl_plan *plan, double products)
{
	const struct sl_plan_segment *s = &plan->segment[SL_MIDDLE];
	struct sl_cost sum = {0};

	for (int i = 0; i < s->n_op; i++)
		if (products <= 1 || s->op[i].backward)
			sl_cost_add(&sum, sl_op_cost(&s->op[i].op, products - is_frozen(&s->op[i], products)));
	sum.task_s += products * (double)s->weight_count * pass_weight_ns * 1e-9;
	return sum;
}

struct sl_cost sl_weights_cost(const struct sl_plan *plan)
{
	const struct sl_plan_segment *s = &plan->segment[SL_MIDDLE];
	const double n = (double)s->weight_count, piece = SL_PIECE_BYTES / sizeof(float);
	struct sl_cost sum = {n * weight_ns * 1e-9, (n < piece ? n : piece) * weight_ns * 1e-9};

	for (int i = 0; i < s->n_op; i++)
		sl_cost_add(&sum, sl_op_start_cost(&s->op[i].op, plan->spec.row_tokens));
	return sum;
}

/* Adds the codecs of a run's further values. */
static void add_values(struct sl_cost *sum, const struct sl_plan *plan, bool mid, const struct sl_codec_spec *spec,
		       bool encodes)
{
	struct sl_extent x = sl_cut_extent(plan, mid);

	for (int v = 1; v < sl_plan_cut_values(plan, mid); v++) {
		x.shape = sl_plan_value_shape(plan, mid, v, x.shape.dim[0]);
		sl_cost_add(sum, sl_codec_cost(spec, &x, encodes));
	}
}

static struct sl_cost pass_cost(const struct sl_plan *plan, const struct sl_codec_spec *from, bool from_mid,
				const struct sl_codec_spec *to, double products)
{
	const struct sl_extent in = sl_cut_extent(plan, from_mid), out = sl_cut_extent(plan, !from_mid);
	struct sl_cost sum = sl_segment_cost(plan, products);

	sl_cost_add(&sum, sl_codec_cost(from, &in, false));
	sl_cost_add(&sum, sl_codec_cost(to, &out, true));
	add_values(&sum, plan, from_mid, from, false);
	add_values(&sum, plan, !from_mid, to, true);
	return sum;
}

struct sl_cost sl_session_cost(const struct sl_plan *plan, const struct sl_codec_spec codec[SL_DIR_COUNT])
{
	const struct sl_cost tasks[] = {
		pass_cost(plan, &codec[SL_DIR_HEAD_ACT], false, &codec[SL_DIR_MID_ACT], 1),
		pass_cost(plan, &codec[SL_DIR_MID_GRAD], true, &codec[SL_DIR_HEAD_GRAD], 2),
		sl_weights_cost(plan),
	};
	struct sl_cost most = {0};

	for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
		most.task_s = tasks[i].task_s > most.task_s ? tasks[i].task_s : most.task_s;
		most.piece_s = tasks[i].piece_s > most.piece_s ? tasks[i].piece_s : most.piece_s;
	}
	return most;
}

enum sl_err sl_session_cost_check(const struct sl_cost *cost, int task_s, int piece_ms, struct sl_fail *fail)
{
	if (task_s && cost->task_s > task_s)
		return sl_fail_set(
			fail, SL_ERR_LIMIT,
			"the longest task of this session takes about %.0f s of one thread, and the server's "
			"limits.task_s is %d: take more chunks, a smaller batch or other codecs",
			cost->task_s, task_s);
	if (piece_ms && cost->piece_s * 1e3 > piece_ms)
		return sl_fail_set(
			fail, SL_ERR_LIMIT,
			"a task of this session would keep others waiting for about %.0f ms at a time, and the "
			"server's limits.piece_ms is %d: take smaller images, more chunks or other codecs",
			cost->piece_s * 1e3, piece_ms);
	return SL_OK;
}
