/* The Gaussian error linear unit, gelu(x) = x·Φ(x), element by element in blocks. Φ comes from erfc, which keeps its
 * digits where Φ is small; 1 + erf would lose them. */
#include <math.h>

#include "kernels/cpu/impl.h"

enum { BLOCK = SL_CPU_BLOCK / 8 }; /* erfc is most of the work: blocks are small */

struct job {
	int64_t n;
	float *out; /* y or dx */
	const float *x, *dy;
	bool add;
};

static int64_t end_of(const struct job *j, int64_t block)
{
	return sl_cpu_min(j->n, (block + 1) * BLOCK);
}

static float normal_below(float x)
{
	return 0.5f * erfcf(-x * (float)M_SQRT1_2);
}

static void forward_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;

	(void)worker;
	for (int64_t i = block * BLOCK; i < end_of(j, block); i++)
		j->out[i] = j->x[i] * normal_below(j->x[i]);
}

/* d/dx x·Φ(x) = Φ(x) + x·exp(−x²/2)/√(2π) */
static void backward_block(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;

	(void)worker;
	for (int64_t i = block * BLOCK; i < end_of(j, block); i++) {
		float x = j->x[i], density = 0.398942280f * expf(-0.5f * x * x);
		float dx = j->dy[i] * (normal_below(x) + x * density);

		j->out[i] = j->add ? j->out[i] + dx : dx;
	}
}

static enum sl_err forward(const struct sl_op_call *call)
{
	struct job j = {.n = sl_shape_count(&call->in[0].shape), .out = call->out.data, .x = call->in[0].data};

	sl_pool_run(call->be->pool, sl_cpu_blocks(j.n, BLOCK), forward_block, &j);
	return SL_OK;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	struct job j = {.n = sl_shape_count(&call->dout.shape),
			.out = call->din[0].data,
			.x = call->in[0].data,
			.dy = call->dout.data,
			.add = call->din_add[0]};

	if (j.out != NULL)
		sl_pool_run(call->be->pool, sl_cpu_blocks(j.n, BLOCK), backward_block, &j);
	return SL_OK;
}

const struct sl_kernel sl_cpu_gelu = {.forward = forward, .backward = backward};
