/* The rest of CUDA's runtime that a whole module needs, with the host's memory as the device's; no cuDNN. */
#include "tests/support/cuda_sim/cuda_runtime_api.h"
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/cuda.h"

static atomic_size_t taken_bytes; /* device memory in use */

static size_t most_bytes(void)
{
	const char *text = getenv("SPLIT_SIM_MEMORY");

	return text ? (size_t)strtoull(text, NULL, 10) : (size_t)16 << 30;
}

static cudaError_t take(void **out, size_t bytes)
{
	const uint32_t poison = SIM_POISON;

	if (bytes > most_bytes() || posix_memalign(out, 256, bytes ? bytes : 1))
		return sim_says(cudaErrorMemoryAllocation);
	for (size_t i = 0; i < bytes; i += sizeof poison)
		memcpy((unsigned char *)*out + i, &poison, bytes - i < sizeof poison ? bytes - i : sizeof poison);
	return cudaSuccess;
}

/* Memory held by other programs: the number in a file, which a test may change. */
static size_t others_bytes(void)
{
	const char *path = getenv("SPLIT_SIM_OTHERS");
	FILE *f = path ? fopen(path, "r") : NULL;
	size_t bytes = 0;

	if (f && fscanf(f, "%zu", &bytes) != 1)
		bytes = 0;
	if (f)
		fclose(f);
	return bytes;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *all)
{
	size_t taken = atomic_load(&taken_bytes) + others_bytes();

	*all = most_bytes();
	*left = taken < *all ? *all - taken : 0;
	return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
	size_t left, all;
	cudaError_t status = cudaMemGetInfo(&left, &all);

	status = bytes > left ? sim_says(cudaErrorMemoryAllocation) : take(out, bytes);
	if (status != cudaSuccess)
		return status;
	atomic_fetch_add(&taken_bytes, malloc_usable_size(*out));
	return sim_own(*out, bytes);
}

cudaError_t cudaFree(void *ptr)
{
	atomic_fetch_sub(&taken_bytes, malloc_usable_size(ptr));
	return cudaFreeHost(ptr);
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
	cudaError_t err = take(out, bytes);

	(void)flags;
	return err ? err : sim_lock(*out, bytes);
}

cudaError_t cudaFreeHost(void *ptr)
{
	sim_forget(ptr);
	cudaDeviceSynchronize();
	free(ptr);
	return cudaSuccess;
}

static int devices(void)
{
	const char *text = getenv("SPLIT_SIM_DEVICES");

	return text ? atoi(text) : 1;
}

static cudaError_t is_there(int device)
{
	return device < 0 || device >= devices() ? sim_says(cudaErrorInvalidValue) : cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
	cudaError_t status = is_there(device);

	if (status == cudaSuccess)
		sim_device = device;
	return status;
}

cudaError_t cudaGetDeviceCount(int *out)
{
	*out = devices();
	return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device)
{
	*out = (struct cudaDeviceProp){"simulated on a CPU", 9, 0, 1, most_bytes()};
	return is_there(device);
}

cudaError_t cudaDeviceGetAttribute(int *out, enum cudaDeviceAttr attribute, int device)
{
	(void)attribute;
	*out = 9;
	return is_there(device);
}

cudaError_t cudaDriverGetVersion(int *out)
{
	*out = 0;
	return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *out)
{
	*out = 0;
	return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t status)
{
	return status == cudaSuccess ? "no error" : "refused by the simulation";
}

/* kernels/cuda/dnn.c: as on a host without cuDNN */

enum sl_err dnn_open(struct dnn **out, cudaStream_t stream, struct sl_fail *fail)
{
	(void)out;
	(void)stream;
	return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "no cuDNN: simulated on a CPU");
}

void dnn_close(struct dnn *dnn)
{
	(void)dnn;
}

size_t dnn_version(const struct dnn *dnn)
{
	(void)dnn;
	return 0;
}

enum sl_err dnn_conv_open(struct dnn_conv **out, struct dnn *dnn, const struct cu_window *win, int64_t out_c,
			  enum sl_precision precision, bool inexact_order, size_t limit_bytes, struct sl_fail *fail)
{
	(void)out;
	(void)dnn;
	(void)win;
	(void)out_c;
	(void)precision;
	(void)inexact_order;
	(void)limit_bytes;
	return sl_fail_set(fail, SL_ERR_BUG, "no cuDNN");
}

void dnn_conv_close(struct dnn_conv *conv)
{
	(void)conv;
}

size_t dnn_conv_workspace(const struct dnn_conv *conv)
{
	(void)conv;
	return 0;
}

bool dnn_conv_has(struct dnn_conv *conv, enum dnn_pass pass, int64_t rows)
{
	(void)conv;
	(void)pass;
	(void)rows;
	return false;
}

enum sl_err dnn_conv_forward(struct dnn_conv *conv, void *out, const void *x, const void *w, void *workspace)
{
	(void)conv;
	(void)out;
	(void)x;
	(void)w;
	(void)workspace;
	return SL_ERR_BUG;
}

enum sl_err dnn_conv_data(struct dnn_conv *conv, void *dx, bool add, const void *dout, const void *w, void *workspace)
{
	(void)conv;
	(void)dx;
	(void)add;
	(void)dout;
	(void)w;
	(void)workspace;
	return SL_ERR_BUG;
}

enum sl_err dnn_conv_weight(struct dnn_conv *conv, float *dw, const float *dout, const float *x, void *workspace)
{
	(void)conv;
	(void)dw;
	(void)dout;
	(void)x;
	(void)workspace;
	return SL_ERR_BUG;
}
