/* A network's inputs behind the first. And values that stay at home (plan.h): from the head to the tail, and their
 * gradients back; both lie in the host's memory. */
#include <string.h>

#include "client/step/ends.h"

enum sl_err sl_ends_take_more(struct sl_ends *ends, const struct sl_chunk *c)
{
	enum sl_err err = SL_OK;

	for (int k = 1; k < ends->plan->segment[SL_HEAD].graph.n_in && !err; k++) {
		const struct sl_tensor x = sl_exec_field(ends->head, SL_END_IN, k, c->call.slot, &c->call.dims);
		const float *from = ends->feed.more[k - 1];

		err = x.be->ops->upload(x.be, x.data, from + c->first * sl_shape_row(&x.shape),
					(size_t)sl_shape_count(&x.shape) * sizeof *from);
	}
	return err;
}

void sl_ends_carry_home(struct sl_ends *ends, const struct sl_exec_call *call)
{
	const struct sl_homes homes = sl_plan_homes(ends->plan);

	for (int k = 0; k < homes.n; k++) {
		const bool input = homes.input && k == 0;
		const int field = input ? 0 : homes.head_field + k - homes.input;
		const struct sl_tensor from =
			sl_exec_field(ends->head, input ? SL_END_IN : SL_END_OUT, field, call->slot, &call->dims);
		const struct sl_tensor to =
			sl_exec_field(ends->tail, SL_END_IN, homes.tail_field + k, call->slot, &call->dims);

		memcpy(to.data, from.data, (size_t)sl_shape_count(&to.shape) * sizeof(float));
	}
}

void sl_ends_carry_home_back(struct sl_ends *ends, const struct sl_exec_call *call)
{
	const struct sl_homes homes = sl_plan_homes(ends->plan);
	const struct sl_field *out = ends->plan->segment[SL_HEAD].graph.out;

	for (int k = homes.input; k < homes.n; k++) {
		const int field = homes.head_field + k - homes.input;
		const struct sl_tensor from =
			sl_exec_field(ends->tail, SL_END_DIN, homes.tail_field + k, call->slot, &call->dims);
		const struct sl_tensor to = sl_exec_field(ends->head, SL_END_DOUT, field, call->slot, &call->dims);
		const int64_t n = sl_shape_count(&to.shape);
		bool crosses = false;

		for (int i = 0; i < homes.head_field; i++)
			crosses = crosses || out[i].value == out[field].value;
		if (!crosses)
			memcpy(to.data, from.data, (size_t)n * sizeof(float));
		else
			for (int64_t i = 0; i < n; i++)
				((float *)to.data)[i] += ((const float *)from.data)[i];
	}
}
