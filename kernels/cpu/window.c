/* Neighbouring slices of volumes side by side in the channels (struct sl_window_attr). A block is some pixels of the
 * output. Parts are added up in the order of the slices that they come from: the same bits for any number of threads.
 */
#include <string.h>

#include "kernels/cpu/impl.h"

/* The narrow side has volumes of d slices of `plane` pixels of c channels; the wide side has `out` slices, each with
 * k·c channels. */
struct job {
	const struct sl_window_attr *a;
	const struct sl_cpu_simd *simd;
	const float *from;
	float *to;
	int64_t n, d, out, plane, c;
	int64_t per_block; /* pixels */
	bool add;
};

static int64_t wide_channels(const struct job *j)
{
	return j->a->k * j->c;
}

/* Fills n pixels of the wide side, from pixel p of slice o of volume v on. */
static void spread_pixels(const struct job *j, int64_t v, int64_t o, int64_t p, int64_t n)
{
	const int64_t wide = wide_channels(j), c = j->c;
	float *to = j->to + ((v * j->out + o) * j->plane + p) * wide;

	for (int i = 0; i < j->a->k; i++, to += c) {
		const int64_t at = o * j->a->stride - j->a->pad + (int64_t)i * j->a->dilation;
		const bool inside = at >= 0 && at < j->d;
		const float *from = inside ? j->from + ((v * j->d + at) * j->plane + p) * c : NULL;

		for (int64_t m = 0; m < n && (inside || !j->add); m++)
			if (!inside)
				memset(to + m * wide, 0, (size_t)c * sizeof *to);
			else if (j->add)
				j->simd->sum(to + m * wide, to + m * wide, from + m * c, c);
			else
				memcpy(to + m * wide, from + m * c, (size_t)c * sizeof *to);
	}
}

/* Fills n pixels of the narrow side, from pixel p of slice `at` of volume v on. */
static void collect_pixels(const struct job *j, int64_t v, int64_t at, int64_t p, int64_t n)
{
	const int64_t wide = wide_channels(j), c = j->c;
	float *to = j->to + ((v * j->d + at) * j->plane + p) * c;
	bool add = j->add;

	for (int i = j->a->k - 1; i >= 0; i--) { /* the slices in which it is part i come in ascending order */
		const int64_t far = at + j->a->pad - (int64_t)i * j->a->dilation, o = far / j->a->stride;
		const float *from = j->from + i * c;

		if (far < 0 || far % j->a->stride || o >= j->out)
			continue;
		from += ((v * j->out + o) * j->plane + p) * wide;
		for (int64_t m = 0; m < n; m++)
			if (add)
				j->simd->sum(to + m * c, to + m * c, from + m * wide, c);
			else
				memcpy(to + m * c, from + m * wide, (size_t)c * sizeof *to);
		add = true;
	}
	if (!add)
		memset(to, 0, (size_t)(n * c) * sizeof *to);
}

static void run_block(const struct job *j, int64_t block, int64_t slices,
		      void (*run)(const struct job *j, int64_t v, int64_t slice, int64_t p, int64_t n))
{
	const int64_t all = j->n * slices * j->plane, end = sl_cpu_min((block + 1) * j->per_block, all);
	int64_t n;

	for (int64_t m = block * j->per_block; m < end; m += n) {
		const int64_t slice = m / j->plane, p = m % j->plane;

		n = sl_cpu_min(j->plane - p, end - m);
		run(j, slice / slices, slice % slices, p, n);
	}
}

static void spread(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;

	run_block(j, block, j->out, spread_pixels);
}

static void collect(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;

	run_block(j, block, j->d, collect_pixels);
}

/* `in` and `out` are the op's input and output, or in backward their gradients. */
static void run(const struct sl_op_call *call, const struct sl_tensor *in, const struct sl_tensor *out, bool backward,
		bool add)
{
	const struct sl_op *op = call->op;
	const bool back = op->u.window.back > 0, spreads = back == backward;
	const struct sl_shape *narrow = back ? &out->shape : &in->shape, *wide = back ? &in->shape : &out->shape;
	const int64_t h = in->shape.dim[1] / op->slices;
	struct job j = {.a = &op->u.window,
			.simd = sl_cpu_simd_of(call->be),
			.from = backward ? out->data : in->data,
			.to = backward ? in->data : out->data,
			.n = in->shape.dim[0],
			.d = narrow->dim[1] / h,
			.out = wide->dim[1] / h,
			.plane = h * in->shape.dim[2],
			.c = narrow->dim[3],
			.add = add};

	j.per_block = SL_CPU_BLOCK / wide_channels(&j);
	j.per_block = j.per_block < 1 ? 1 : j.per_block;
	sl_pool_run(call->be->pool, sl_cpu_blocks(j.n * (spreads ? j.out : j.d) * j.plane, j.per_block),
		    spreads ? spread : collect, &j);
}

static enum sl_err forward(const struct sl_op_call *call)
{
	run(call, &call->in[0], &call->out, false, false);
	return SL_OK;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	if (call->din[0].data)
		run(call, &call->din[0], &call->dout, true, call->din_add[0]);
	return SL_OK;
}

const struct sl_kernel sl_cpu_op_window = {.forward = forward, .backward = backward};
