/* Matrix products through cuBLASLt. Choosing an algorithm costs the host far more than the launch. So each
 * shape's algorithm is chosen once, when the op that needs it is prepared, and kept. */
#include <string.h>

#include "common/base/log.h"
#include "kernels/cuda/cuda.h"

static uint32_t place_of(const struct cu_gemm_key *key)
{
	uint64_t h = (uint64_t)key->m * 0x9E3779B97F4A7C15u;

	h = (h ^ (uint64_t)key->n) * 0xC2B2AE3D27D4EB4Fu;
	h = (h ^ (uint64_t)key->k) * 0x165667B19E3779F9u;
	h ^= (uint64_t)(key->in << 6 | key->out << 4 | key->tf32 << 3 | key->ta << 2 | key->tb << 1 | key->aligned) *
	     0x9E3779B97F4A7C15u;
	return (uint32_t)(h >> 40) % CU_GEMMS;
}

static void forget(struct cu_gemm *g)
{
	if (g->a)
		cublasLtMatrixLayoutDestroy(g->a);
	if (g->b)
		cublasLtMatrixLayoutDestroy(g->b);
	if (g->c)
		cublasLtMatrixLayoutDestroy(g->c);
	if (g->desc)
		cublasLtMatmulDescDestroy(g->desc);
	*g = (struct cu_gemm){0};
}

static cudaDataType_t data_type(uint8_t type)
{
	return type == CU_BF16 ? CUDA_R_16BF : type == CU_F16 ? CUDA_R_16F : CUDA_R_32F;
}

/* cuBLAS is column-major, so it sees the transposes: C^T[n,m] = op(B)^T · op(A)^T. Our B is its A. */
static cublasStatus_t describe(struct cu_gemm *g)
{
	const struct cu_gemm_key *key = &g->key;
	const cublasOperation_t op_a = key->tb ? CUBLAS_OP_T : CUBLAS_OP_N, op_b = key->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
	const uint64_t n = (uint64_t)key->n, m = (uint64_t)key->m, k = (uint64_t)key->k;
	cublasStatus_t status = cublasLtMatmulDescCreate(
		&g->desc, key->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);

	if (!status)
		status = cublasLtMatmulDescSetAttribute(g->desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof(op_a));
	if (!status)
		status = cublasLtMatmulDescSetAttribute(g->desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof(op_b));
	if (!status)
		status = cublasLtMatrixLayoutCreate(&g->a, data_type(key->in), key->tb ? k : n, key->tb ? n : k,
						    key->tb ? key->k : key->n);
	if (!status)
		status = cublasLtMatrixLayoutCreate(&g->b, data_type(key->in), key->ta ? m : k, key->ta ? k : m,
						    key->ta ? key->m : key->k);
	if (!status)
		status = cublasLtMatrixLayoutCreate(&g->c, data_type(key->out), n, m, key->n);
	return status;
}

static cublasStatus_t choose(struct cuda *cu, struct cu_gemm *g)
{
	const size_t workspace = CU_BLAS_WORKSPACE;
	const uint32_t align = g->key.aligned ? 16 : (uint32_t)cu_type_bytes((enum cu_type)g->key.in);
	/* not INPLACE, whose blocks add in their order of arrival; and no 16-bit sums of parts */
	const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE |
				 (g->key.out == CU_F32 ? CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE : 0);
	static const cublasLtMatmulPreferenceAttributes_t alignment[] = {
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
	cublasLtMatmulHeuristicResult_t found;
	cublasLtMatmulPreference_t wish = NULL;
	int count = 0;
	cublasStatus_t status = cublasLtMatmulPreferenceCreate(&wish);

	if (!status)
		status = cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
							      &workspace, sizeof(workspace));
	if (!status)
		status = cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
							      &schemes, sizeof(schemes));
	for (size_t i = 0; i < sizeof(alignment) / sizeof(alignment[0]) && !status; i++)
		status = cublasLtMatmulPreferenceSetAttribute(wish, alignment[i], &align, sizeof(align));
	if (!status)
		status = cublasLtMatmulAlgoGetHeuristic(cu->blas, g->desc, g->a, g->b, g->c, g->c, wish, 1, &found,
							&count);
	if (!status)
		status = count ? found.state : CUBLAS_STATUS_NOT_SUPPORTED;
	if (!status) {
		g->algo = found.algo;
		g->workspace_bytes = found.workspaceSize;
	}
	if (wish)
		cublasLtMatmulPreferenceDestroy(wish);
	return status;
}

static enum sl_err failed(const struct cu_gemm_key *key, cublasStatus_t status)
{
	sl_log(SL_LOG_ERROR, "cublas-error", "product [%lld,%lld] = [%lld,%lld] x [%lld,%lld]: %s", (long long)key->m,
	       (long long)key->n, (long long)key->m, (long long)key->k, (long long)key->k, (long long)key->n,
	       cublasLtGetStatusString(status));
	return SL_ERR_DEVICE;
}

/* The kept description of a shape, or a new one. If the entries near its hash are all in use, it replaces one
 * of them. */
static enum sl_err find(struct cuda *cu, const struct cu_gemm_key *key, struct cu_gemm **out)
{
	enum { PROBES = 16 };
	const uint32_t place = place_of(key);
	struct cu_gemm *g = NULL;
	cublasStatus_t status;

	for (uint32_t i = 0; i < PROBES; i++) {
		g = &cu->gemm[(place + i) % CU_GEMMS];
		if (g->desc && !memcmp(&g->key, key, sizeof(*key))) {
			*out = g;
			return SL_OK;
		}
		if (!g->desc)
			break;
	}
	forget(g);
	g->key = *key;
	status = describe(g);
	if (!status)
		status = choose(cu, g);
	if (status) {
		forget(g);
		return failed(key, status);
	}
	*out = g;
	return SL_OK;
}

static struct cu_gemm_key key_of(struct cu_gemm_type type, bool aligned, bool ta, bool tb, int64_t m, int64_t n,
				 int64_t k)
{
	struct cu_gemm_key key;

	memset(&key, 0, sizeof(key)); /* keys are compared as bytes */
	key.m = m;
	key.n = n;
	key.k = k;
	key.ta = ta;
	key.tb = tb;
	key.aligned = aligned;
	key.tf32 = type.tf32;
	key.in = (uint8_t)type.in;
	key.out = (uint8_t)type.out;
	return key;
}

enum sl_err cu_gemm_prepare(struct cuda *cu, struct cu_gemm_type type, bool ta, bool tb, int64_t m, int64_t n,
			    int64_t k)
{
	const struct cu_gemm_key key = key_of(type, true, ta, tb, m, n, k);
	struct cu_gemm *g;

	return find(cu, &key, &g);
}

enum sl_err cu_gemm(struct cuda *cu, struct cu_gemm_type type, void *c, const void *a, bool ta, const void *b, bool tb,
		    int64_t m, int64_t n, int64_t k, float beta)
{
	const bool aligned = (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) & 15) == 0;
	const struct cu_gemm_key key = key_of(type, aligned, ta, tb, m, n, k);
	const float one = 1;
	cublasStatus_t status;
	struct cu_gemm *g;
	enum sl_err err = find(cu, &key, &g);

	if (err)
		return err;
	status = cublasLtMatmul(cu->blas, g->desc, &one, b, g->a, a, g->b, &beta, c, g->c, c, g->c, &g->algo,
				cu->blas_workspace, g->workspace_bytes, cu->stream);
	return status ? failed(&key, status) : SL_OK;
}

void cu_gemm_close(struct cuda *cu)
{
	for (int i = 0; i < CU_GEMMS; i++)
		forget(&cu->gemm[i]);
}
