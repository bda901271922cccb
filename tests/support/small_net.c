#include "tests/support/small_net.h"
#include "tests/support/unit.h"

#include "common/base/rng.h"
#include "common/weights/weights.h"
#include "kernels/cpu/cpu.h"
#include "tests/ref/ref.h"

static const struct sl_optimizer sgd = {.momentum = 0.9, .weight_decay = 1e-4};
const struct sl_optimizer small_net_adamw = {
	.kind = SL_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-4, .weight_decay = 0.1};

void small_net_open(struct small_net *n, const struct small_net_how *how)
{
	struct sl_weights w;
	struct sl_fail fail;

	*n = (struct small_net){.plan = small_plan_open_freezing(how->partition, how->chunks,
								 how->optimizer ? how->optimizer : &sgd,
								 how->insert ? how->insert : "", how->freeze)};
	n->plan->spec.chunk_sums = how->chunk_sums;
	assert_int_equal(how->ref ? sl_ref_backend_open(&n->be, &fail) : sl_cpu_backend_open(&n->be, how->pool, &fail),
			 SL_OK);
	assert_int_equal(sl_weights_open(&w, n->plan->model, &fail), SL_OK);
	sl_weights_init(&w, n->plan->model, 3);
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		const struct sl_plan_segment *s = &n->plan->segment[which];
		float *range = malloc((size_t)s->weight_count * sizeof *range), *alone;

		if (sl_exec_open(&n->exec[which], n->plan, (enum sl_segment)which, &n->be, &fail) != SL_OK)
			fail_msg("%s", fail.text);
		sl_weights_pack(&w, s, range);
		assert_int_equal(sl_exec_set_weights(n->exec[which], range), SL_OK);
		/* a server initializes its segment alone and must get the same values */
		alone = malloc((size_t)s->weight_count * sizeof *alone);
		sl_weights_init_range(s, 3, alone);
		assert_memory_equal(range, alone, (size_t)s->weight_count * sizeof *range);
		free(alone);
		free(range);
	}
	sl_weights_close(&w);
	n->carrier = malloc((size_t)n->plan->rows * SMALL_IMAGE * SMALL_IMAGE * 96 * sizeof(float));
}

void small_net_close(struct small_net *n)
{
	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		sl_exec_close(n->exec[which]);
	n->be.ops->close(&n->be);
	sl_plan_close(n->plan);
	free(n->carrier);
}

static void carry(struct small_net *n, const struct sl_tensor *from, struct sl_tensor to)
{
	size_t bytes = small_plan_bytes(&from->shape);

	assert_true(sl_shape_equal(&from->shape, &to.shape));
	assert_int_equal(n->be.ops->download(&n->be, n->carrier, from->data, bytes), SL_OK);
	assert_int_equal(n->be.ops->upload(&n->be, to.data, n->carrier, bytes), SL_OK);
}

void small_net_batch(struct small_batch *b, uint64_t step)
{
	const struct sl_rng_key key = {.seed = 5, .step = step, .tensor = SL_RNG_TEST};

	for (uint32_t i = 0; i < SMALL_BATCH * SMALL_IMAGE * SMALL_IMAGE * 3; i++)
		b->image[i] = 2 * sl_rng_unit(sl_rng_u32(&key, i)) - 1;
	for (uint32_t i = 0; i < SMALL_BATCH; i++)
		b->label[i] = (int32_t)sl_rng_below(sl_rng_u32(&key, 1u << 24 | i), SMALL_CLASSES);
}

static struct sl_exec_call call_of(const struct small_net *n, int64_t batch_rows, int chunk, uint64_t step)
{
	return (struct sl_exec_call){chunk, chunk, sl_dims_rows(sl_plan_chunk_rows(n->plan, batch_rows, chunk)), step,
				     true};
}

void small_net_forward(struct small_net *n, const struct small_batch *b, int64_t batch_rows, int chunk, uint64_t step)
{
	struct sl_exec_call call = call_of(n, batch_rows, chunk, step);
	struct sl_tensor in = sl_exec_input(n->exec[SL_HEAD], chunk, call.dims.rows);
	int64_t row = SMALL_IMAGE * SMALL_IMAGE * 3;

	assert_int_equal(n->be.ops->upload(&n->be, in.data, b->image + chunk * n->plan->rows * row,
					   (size_t)(call.dims.rows * row) * sizeof(float)),
			 SL_OK);
	for (int which = SL_HEAD; which <= SL_MIDDLE; which++) {
		struct sl_tensor out;

		assert_int_equal(sl_exec_forward(n->exec[which], &call, NULL), SL_OK);
		out = sl_exec_output(n->exec[which], chunk, call.dims.rows);
		carry(n, &out, sl_exec_input(n->exec[which + 1], chunk, call.dims.rows));
	}
}

void small_net_backward(struct small_net *n, const struct small_batch *b, int64_t batch_rows, int chunk, uint64_t step)
{
	struct sl_exec_call call = call_of(n, batch_rows, chunk, step);
	struct sl_exec_loss loss = {.labels = b->label + chunk * n->plan->rows, .scale = 1.0f / (float)batch_rows};

	assert_int_equal(sl_exec_forward(n->exec[SL_TAIL], &call, &loss), SL_OK);
	assert_int_equal(sl_exec_backward(n->exec[SL_TAIL], &call, &loss), SL_OK);
	n->loss += loss.sum / (double)batch_rows;
	n->correct += loss.correct;
	for (int which = SL_MIDDLE; which >= SL_HEAD; which--) {
		struct sl_tensor din = sl_exec_din(n->exec[which + 1], chunk, call.dims.rows);

		carry(n, &din, sl_exec_dout(n->exec[which], chunk, call.dims.rows));
		assert_int_equal(sl_exec_backward(n->exec[which], &call, NULL), SL_OK);
	}
}

void small_net_compute(struct small_net *n, int64_t batch_rows, uint64_t step)
{
	static struct small_batch b;
	int chunks = sl_plan_chunks_of(n->plan, batch_rows);

	small_net_batch(&b, step);
	n->loss = 0;
	n->correct = 0;
	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		assert_int_equal(sl_exec_begin(n->exec[which]), SL_OK);
	small_net_forward(n, &b, batch_rows, 0, step);
	for (int chunk = 0; chunk < chunks; chunk++) {
		if (chunk + 1 < chunks)
			small_net_forward(n, &b, batch_rows, chunk + 1, step);
		small_net_backward(n, &b, batch_rows, chunk, step);
	}
}

void small_net_commit(struct small_net *n, int64_t batch_rows)
{
	int64_t rows[SL_PLAN_MAX_CHUNKS];
	int chunks = sl_plan_chunks_of(n->plan, batch_rows);

	for (int i = 0; i < chunks; i++)
		rows[i] = sl_plan_chunk_rows(n->plan, batch_rows, i);
	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		assert_int_equal(sl_exec_commit(n->exec[which], 0.05, rows, chunks), SL_OK);
}

float *small_net_get(struct small_net *n, int which, small_net_get_fn *fn, int64_t *count)
{
	const struct sl_plan_segment *s = &n->plan->segment[which];
	float *v;

	*count = fn == sl_exec_get_weights ? s->weight_count : s->trainable_count;
	v = malloc((size_t)*count * sizeof *v);
	assert_int_equal(fn(n->exec[which], v), SL_OK);
	return v;
}

bool small_net_same(struct small_net *a, struct small_net *b, small_net_get_fn *fn)
{
	bool same = true;

	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		int64_t count;
		float *x = small_net_get(a, which, fn, &count), *y = small_net_get(b, which, fn, &count);

		same = same && memcmp(x, y, (size_t)count * sizeof *x) == 0;
		free(x);
		free(y);
	}
	return same;
}
