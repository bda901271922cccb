/* Fully connected layer: three products of OpenBLAS, each cut into tiles of its result, so that nothing is summed
 * across threads. Every position of a sequence is a row. */
#include <cblas.h>
#include <string.h>

#include "kernels/cpu/impl.h"

enum {
	TILE = 256,
	CHAIN = 320, /* products that are summed one after the other, at most: rounding grows with them */
};

struct job {
	const struct sl_cpu_simd *simd;
	int64_t rows, f, o;
	const float *x, *w, *bias, *dy;
	float *y, *dx, *dw;
	bool add, transposed; /* the latter: w and dw are [F,O] */
};

struct tile {
	int64_t i, j, ni, nj; /* [i, i + ni) × [j, j + nj) of the result */
};

static struct tile tile_at(int64_t block, int64_t rows, int64_t cols)
{
	int64_t across = sl_cpu_blocks(cols, TILE), i = block / across * TILE, j = block % across * TILE;

	return (struct tile){i, j, sl_cpu_min(TILE, rows - i), sl_cpu_min(TILE, cols - j)};
}

static int64_t tiles(int64_t rows, int64_t cols)
{
	return sl_cpu_blocks(rows, TILE) * sl_cpu_blocks(cols, TILE);
}

/* c [t.ni, t.nj] = beta·c + A·B, of depth k, as cblas_sgemm takes them. */
static void product(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, struct tile t, int64_t k, const float *a, int64_t lda,
		    const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
	int64_t chain = sl_cpu_blocks(k, sl_cpu_blocks(k, CHAIN));

	for (int64_t at = 0; at < k; at += chain)
		cblas_sgemm(CblasRowMajor, ta, tb, (int)t.ni, (int)t.nj, (int)sl_cpu_min(chain, k - at), 1.0f,
			    a + at * (ta == CblasTrans ? lda : 1), (int)lda, b + at * (tb == CblasTrans ? 1 : ldb),
			    (int)ldb, at == 0 ? beta : 1.0f, c, (int)ldc);
}

static enum sl_err prepare(struct sl_op_prepare *p)
{
	p->sizes = (struct sl_op_sizes){.workspace_bytes = (size_t)p->op->u.linear.out_f * sizeof(float)};
	return SL_OK;
}

static void forward_tile(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	struct tile t = tile_at(block, j->rows, j->o);

	(void)worker;
	product(CblasNoTrans, j->transposed ? CblasNoTrans : CblasTrans, t, j->f, j->x + t.i * j->f, j->f,
		j->w + t.j * (j->transposed ? 1 : j->f), j->transposed ? j->o : j->f, 0.0f, j->y + t.i * j->o + t.j,
		j->o);
	for (int64_t r = t.i; r < t.i + t.ni && j->bias != NULL; r++)
		j->simd->sum(j->y + r * j->o + t.j, j->y + r * j->o + t.j, j->bias + t.j, t.nj);
}

static void data_tile(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	struct tile t = tile_at(block, j->rows, j->f);

	(void)worker;
	product(CblasNoTrans, j->transposed ? CblasTrans : CblasNoTrans, t, j->o, j->dy + t.i * j->o, j->o,
		j->w + t.j * (j->transposed ? j->o : 1), j->transposed ? j->o : j->f, j->add ? 1.0f : 0.0f,
		j->dx + t.i * j->f + t.j, j->f);
}

static void weight_tile(void *arg, int64_t block, int worker)
{
	const struct job *j = arg;
	int64_t rows = j->transposed ? j->f : j->o, cols = j->transposed ? j->o : j->f;
	const float *left = j->transposed ? j->x : j->dy, *right = j->transposed ? j->dy : j->x;
	struct tile t = tile_at(block, rows, cols);

	(void)worker;
	product(CblasTrans, CblasNoTrans, t, j->rows, left + t.i, rows, right + t.j, cols, 1.0f,
		j->dw + t.i * cols + t.j, cols);
}

static struct job job_of(const struct sl_op_call *call)
{
	const struct sl_linear_attr *a = &call->op->u.linear;

	return (struct job){
		.simd = sl_cpu_simd_of(call->be),
		.rows = sl_shape_count(&call->in[0].shape) / a->in_f,
		.f = a->in_f,
		.o = a->out_f,
		.x = call->in[0].data,
		.w = call->param[0],
		.transposed = a->transposed,
		.bias = a->bias ? call->param[1] : NULL,
	};
}

static enum sl_err forward(const struct sl_op_call *call)
{
	struct job j = job_of(call);

	j.y = call->out.data;
	sl_pool_run(call->be->pool, tiles(j.rows, j.o), forward_tile, &j);
	return SL_OK;
}

static enum sl_err backward(const struct sl_op_call *call)
{
	struct job j = job_of(call);

	j.dy = call->dout.data;
	if (call->grad[0] != NULL) {
		j.dw = call->grad[0];
		sl_pool_run(call->be->pool, tiles(j.o, j.f), weight_tile, &j);
	}
	if (j.bias != NULL && call->grad[1] != NULL) {
		float *total =
			call->workspace; /* a sum of its own, so that rounding does not grow with what is there */

		memset(total, 0, (size_t)j.o * sizeof(float));
		j.simd->row_sum(total, j.dy, j.rows, (int)j.o);
		j.simd->sum(call->grad[1], call->grad[1], total, j.o);
	}
	if (call->din[0].data != NULL) {
		j.dx = call->din[0].data;
		j.add = call->din_add[0];
		sl_pool_run(call->be->pool, tiles(j.rows, j.f), data_tile, &j);
	}
	return SL_OK;
}

const struct sl_kernel sl_cpu_linear = {.prepare = prepare, .forward = forward, .backward = backward};
