/* The module's only exported symbol; checks whether a device can run what was built. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/cuda.h"

static enum sl_err properties(int device, struct cudaDeviceProp *out, struct sl_fail *fail)
{
	int count = 0;
	cudaError_t status = cudaGetDeviceCount(&count);

	if (status != cudaSuccess || count == 0)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "no CUDA device: %s",
				   status ? cudaGetErrorString(status) : "the driver lists none");
	if (device < 0 || device >= count)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "no CUDA device %d: there %s %d, numbered from 0", device,
				   count == 1 ? "is" : "are", count);
	status = cudaGetDeviceProperties(out, device);
	if (status != cudaSuccess)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "CUDA device %d does not answer: %s", device,
				   cudaGetErrorString(status));
	return SL_OK;
}

static enum sl_err describe(int device, char out[SL_MODULE_TEXT], struct sl_fail *fail)
{
	struct cudaDeviceProp p;
	int driver = 0, runtime = 0;
	enum sl_err err = properties(device, &p, fail);

	if (err)
		return err;
	cudaDriverGetVersion(&driver);
	cudaRuntimeGetVersion(&runtime);
	snprintf(out, SL_MODULE_TEXT,
		 "%.100s, sm_%d%d, %d multiprocessors, %.1f GiB, driver for CUDA %d.%d, runtime %d.%d", p.name, p.major,
		 p.minor, p.multiProcessorCount, (double)p.totalGlobalMem / (1 << 30), driver / 1000,
		 driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
	return SL_OK;
}

/* Whether the module has machine code for a device. CU_ARCHS lists compute capabilities times ten; code for
 * one of them also runs on later devices of the same major version. Other devices can at most run what the
 * driver compiles from the PTX of the first one. */
static bool has_code_for(int sm)
{
	const char *at = CU_ARCHS;

	for (char *end; *at; at = end) {
		const int arch = (int)strtol(at, &end, 10);

		if (end == at)
			break;
		if (arch / 10 == sm / 10 && arch <= sm)
			return true;
	}
	return false;
}

static enum sl_err refuse(const struct cudaDeviceProp *p, int device, const char *why, struct sl_fail *fail)
{
	const int sm = 10 * p->major + p->minor;

	if (has_code_for(sm))
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "CUDA device %d (%.100s, sm_%d) does not start: %s",
				   device, p->name, sm, why);
	return sl_fail_set(fail, SL_ERR_UNAVAILABLE,
			   "CUDA device %d (%.100s, sm_%d) cannot run this module, which was built for sm " CU_ARCHS
			   " (%s): build it with CUDA_ARCHS=%d%s",
			   device, p->name, sm, why, sm, sm < 75 ? " and CUDA 12; CUDA 13 begins with sm 75" : "");
}

static enum sl_err open_device(struct sl_backend *be, const struct sl_module_options *options, struct sl_fail *fail)
{
	struct cudaDeviceProp p;
	enum sl_err err = properties(options->device, &p, fail);
	cudaError_t status;

	if (err)
		return err;
	status = cu_choose_device(options->device);
	if (status == cudaSuccess)
		status = cu_probe();
	if (status != cudaSuccess) {
		cudaGetLastError();
		return refuse(&p, options->device, cudaGetErrorString(status), fail);
	}
	return cu_backend_open(be, options, fail);
}

__attribute__((visibility("default"))) sl_module_fn sl_cuda_module;

const struct sl_module *sl_cuda_module(void)
{
	static struct sl_module module = {.abi = SL_MODULE_ABI, .describe = describe, .open = open_device};

	module.table_bytes = sl_module_table_bytes();
	return &module;
}
