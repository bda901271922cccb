/* The functions of cublasLt.h. Descriptors are checked for errors that would show on a device. */
#include "tests/support/cuda_sim/cublasLt.h"
#include "tests/support/cuda_sim/cuda_bf16.h"
#include "tests/support/cuda_sim/cuda_fp16.h"

#include <vector>

struct sim_blas {
	int unused;
};
struct sim_wish {
	uint32_t align[4]; /* alignments promised for a, b, c and d */
};
struct sim_desc {
	cublasComputeType_t compute;
	cublasOperation_t a, b;
};
struct sim_matrix {
	cudaDataType_t type;
	uint64_t rows, cols;
	int64_t ld;
};

static float get(const void *base, cudaDataType_t type, int64_t at)
{
	if (type == CUDA_R_32F)
		return ((const float *)base)[at];
	const uint16_t bits = ((const uint16_t *)base)[at];

	return type == CUDA_R_16BF ? __uint_as_float((uint32_t)bits << 16) : __half2float(__ushort_as_half(bits));
}

static void put(void *base, cudaDataType_t type, int64_t at, float v)
{
	if (type == CUDA_R_32F)
		((float *)base)[at] = v;
	else
		((uint16_t *)base)[at] =
			type == CUDA_R_16BF ? __float2bfloat16_rn(v).x : __half_as_ushort(__float2half_rn(v));
}

/* Rounds to 10 bits of mantissa, the most that a device may do. */
static float tf32(float v)
{
	const uint32_t bits = __float_as_uint(v);

	return v - v != 0 ? v : __uint_as_float((bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000);
}

/* op(x) as rows of floats: [outer][inner]; the sum runs over inner. */
static std::vector<float> rows_of(const void *x, const sim_matrix *l, bool inner_is_row, bool round)
{
	const int64_t inner = (int64_t)(inner_is_row ? l->rows : l->cols),
		      outer = (int64_t)(inner_is_row ? l->cols : l->rows);
	std::vector<float> out((size_t)(inner * outer));

	for (int64_t o = 0; o < outer; o++)
		for (int64_t i = 0; i < inner; i++) {
			const float v = get(x, l->type, inner_is_row ? o * l->ld + i : i * l->ld + o);

			out[(size_t)(o * inner + i)] = round ? tf32(v) : v;
		}
	return out;
}

static double dot(const float *a, const float *b, int64_t n)
{
	double sum[4] = {};
	int64_t i = 0;

	for (; i + 4 <= n; i += 4)
		for (int k = 0; k < 4; k++)
			sum[k] += (double)a[i + k] * b[i + k];
	for (; i < n; i++)
		sum[0] += (double)a[i] * b[i];
	return sum[0] + sum[1] + sum[2] + sum[3];
}

struct sim_product {
	sim_desc desc;
	sim_matrix la, lb, lc, ld;
	const void *a, *b, *c;
	void *d;
	float alpha, beta;
};

static void multiply(const sim_product &p)
{
	const bool round = p.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
	const std::vector<float> x = rows_of(p.a, &p.la, p.desc.a == CUBLAS_OP_T, round);
	const std::vector<float> y = rows_of(p.b, &p.lb, p.desc.b == CUBLAS_OP_N, round);
	const int64_t k = (int64_t)(p.desc.a == CUBLAS_OP_T ? p.la.rows : p.la.cols);

	for (int64_t j = 0; j < (int64_t)p.ld.cols; j++)
		for (int64_t i = 0; i < (int64_t)p.ld.rows; i++) {
			float v = p.alpha * (float)dot(&x[(size_t)(i * k)], &y[(size_t)(j * k)], k);

			if (p.beta != 0)
				v += p.beta * get(p.c, p.lc.type, j * p.lc.ld + i);
			put(p.d, p.ld.type, j * p.ld.ld + i, v);
		}
}

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
	*out = new sim_blas{};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
	delete handle;
	return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
	return status == CUBLAS_STATUS_SUCCESS ? "success" : "refused by the simulation";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute, cudaDataType_t scale)
{
	if (scale != CUDA_R_32F)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	*out = new sim_desc{compute, CUBLAS_OP_N, CUBLAS_OP_N};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
	delete desc;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
					      const void *value, size_t bytes)
{
	if (bytes != sizeof(cublasOperation_t))
		return CUBLAS_STATUS_INVALID_VALUE;
	(attribute == CUBLASLT_MATMUL_DESC_TRANSA ? desc->a : desc->b) = *(const cublasOperation_t *)value;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows, uint64_t cols,
					  int64_t ld)
{
	if (ld < (int64_t)rows)
		return CUBLAS_STATUS_INVALID_VALUE;
	*out = new sim_matrix{type, rows, cols, ld};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
	delete layout;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
	*out = new sim_wish{};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wish)
{
	delete wish;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t wish,
						    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
						    size_t bytes)
{
	const size_t size = attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? sizeof(uint64_t) : sizeof(uint32_t);

	if (bytes != size)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (attribute >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
		wish->align[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES] = *(const uint32_t *)value;
	return CUBLAS_STATUS_SUCCESS;
}

/* Accepts the combinations of types that cublasLtMatmul's documentation lists for sums in fp32. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
					      cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
					      cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t wish, int,
					      cublasLtMatmulHeuristicResult_t *out, int *count)
{
	const bool types = a->type == b->type && c->type == d->type && (c->type == CUDA_R_32F || c->type == a->type);
	const uint64_t m = desc->a ? a->cols : a->rows, k = desc->a ? a->rows : a->cols;
	const uint64_t n = desc->b ? b->rows : b->cols, k_b = desc->b ? b->cols : b->rows;
	const bool plain = desc->compute == CUBLAS_COMPUTE_32F || a->type == CUDA_R_32F;

	*count = types && plain && k == k_b && c->rows == m && c->cols == n;
	*out = {{{wish->align[0], wish->align[1], wish->align[2], wish->align[3]}}, 0, CUBLAS_STATUS_SUCCESS};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
			      cublasLtMatrixLayout_t la, const void *b, cublasLtMatrixLayout_t lb, const void *beta,
			      const void *c, cublasLtMatrixLayout_t lc, void *d, cublasLtMatrixLayout_t ld,
			      const cublasLtMatmulAlgo_t *algo, void *, size_t, cudaStream_t stream)
{
	const void *const at[] = {a, b, c, d};

	for (int i = 0; i < 4; i++)
		if (algo->align[i] == 0 || (uintptr_t)at[i] % algo->align[i] != 0)
			return CUBLAS_STATUS_INVALID_VALUE;
	const sim_product product = {
		*desc, *la, *lb, *lc, *ld, a, b, c, d, *(const float *)alpha, *(const float *)beta};

	return sim_later(stream, [=] { multiply(product); }) ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}
}
