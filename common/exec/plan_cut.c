/* What a plan says of its cuts: the tensors that cross, and the values that stay at home. */
#include "common/exec/plan.h"

struct sl_shape sl_plan_cut_shape(const struct sl_plan *plan, bool mid, int64_t rows)
{
	const struct sl_plan_segment *middle = &plan->segment[SL_MIDDLE];

	if (!mid && plan->spec.sends)
		return sl_plan_value_shape(plan, false, 0, rows);
	return sl_shape_rows(mid ? middle->out_shape : middle->in_shape, rows);
}

struct sl_shape sl_plan_cut_shape_after(const struct sl_plan *plan, bool mid, int64_t rows, uint64_t done)
{
	struct sl_shape shape = sl_plan_cut_shape(plan, mid, rows);

	if (plan->decay[mid].tokens) {
		shape.dim[1] = sl_decay_width(&plan->decay[mid], done);
		shape.dim[2] = sl_decay_row_tokens(&plan->decay[mid], done);
	} else if (plan->decay[mid].full) {
		shape.dim[shape.ndim - 1] = sl_decay_width(&plan->decay[mid], done);
	}
	return shape;
}

int sl_plan_cut_values(const struct sl_plan *plan, bool mid)
{
	const struct sl_graph *g = &plan->segment[SL_MIDDLE].graph;

	return mid ? g->n_out : plan->spec.sends ? __builtin_popcount((unsigned)plan->spec.sends) : g->n_in;
}

int sl_plan_cut_field(const struct sl_plan *plan, bool mid, int value)
{
	int left = mid ? 0 : plan->spec.sends;

	for (int v = 0; v < value; v++)
		left &= left - 1;
	return left ? __builtin_ctz((unsigned)left) : value;
}

void sl_plan_settle(struct sl_plan *plan, const struct sl_graph *middle)
{
	bool learns = !plan->spec.sends;

	for (int v = 0; v < middle->n_in; v++)
		learns = learns || ((plan->spec.sends >> v & 1) && !middle->in[v].still);
	plan->spec.no_grad[0] = plan->spec.no_grad[0] || !learns;
}

struct sl_shape sl_plan_value_shape(const struct sl_plan *plan, bool mid, int value, int64_t rows)
{
	const struct sl_graph *g = &plan->segment[SL_MIDDLE].graph;

	value = sl_plan_cut_field(plan, mid, value);
	return sl_shape_rows(g->value[mid ? g->out[value].value : g->in[value].value].shape, rows);
}

int64_t sl_plan_cut_floats(const struct sl_plan *plan, bool mid, int64_t rows)
{
	int64_t floats = 0;

	for (int v = 0; v < sl_plan_cut_values(plan, mid); v++) {
		const struct sl_shape shape = sl_plan_value_shape(plan, mid, v, rows);

		floats += sl_shape_count(&shape);
	}
	return floats;
}

bool sl_plan_lengths_cross(const struct sl_plan *plan)
{
	return sl_plan_cut_per_token(plan, false) || plan->segment[SL_MIDDLE].graph.most;
}

bool sl_plan_cut_per_token(const struct sl_plan *plan, bool mid)
{
	const struct sl_plan_segment *middle = &plan->segment[SL_MIDDLE];

	return middle->graph.value[mid ? middle->out_value : middle->in_value].lead == SL_PER_TOKEN;
}

bool sl_plan_cut_chosen(const struct sl_plan *plan)
{
	const struct sl_plan_segment *middle = &plan->segment[SL_MIDDLE];

	return middle->graph.value[middle->out_value].lead == SL_PER_CHOSEN;
}

int64_t sl_plan_cut_count(const struct sl_plan *plan, bool mid, const struct sl_dims *dims)
{
	if (mid && sl_plan_cut_chosen(plan))
		return dims->chosen;
	return sl_plan_cut_per_token(plan, mid) ? dims->tokens : dims->rows;
}

int64_t sl_plan_cut_most(const struct sl_plan *plan, bool mid)
{
	if (mid && sl_plan_cut_chosen(plan))
		return sl_plan_chosen_most(plan, &plan->segment[SL_MIDDLE].graph);
	return sl_plan_cut_per_token(plan, mid) ? plan->spec.chunk_tokens : plan->rows;
}

int64_t sl_plan_plain_count(const struct sl_plan *plan, bool mid)
{
	return plan->plain[mid];
}

static bool is_field(const struct sl_field *field, int n, int value)
{
	for (int i = 0; i < n; i++)
		if (field[i].value == value)
			return true;
	return false;
}

bool sl_plan_comes_in(const struct sl_graph *g, int value)
{
	return is_field(g->in, g->n_in, value);
}

bool sl_plan_goes_out(const struct sl_graph *g, int value)
{
	return is_field(g->out, g->n_out, value);
}

struct sl_homes sl_plan_homes(const struct sl_plan *plan)
{
	const struct sl_graph *head = &plan->segment[SL_HEAD].graph, *tail = &plan->segment[SL_TAIL].graph;
	struct sl_homes homes = {.head_field = sl_plan_cut_values(plan, false),
				 .tail_field = sl_plan_cut_values(plan, true) + 1};

	if (head->n_in && tail->n_in) {
		homes.n = tail->n_in - homes.tail_field;
		homes.input = head->n_out - homes.head_field < homes.n;
	}
	return homes;
}
