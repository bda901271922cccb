/* What the CUDA module reports about a device before it uses it (kernels/cuda/entry.c), with fakes
 * of CUDA's runtime. The module here was built for sm 75 80 86 100. */

#include "kernels/cuda/cuda.h"
#include "tests/support/unit.h"

sl_module_fn sl_cuda_module;

/* ---- fakes */

enum { OLD_DRIVER = 35, NO_DEVICE = 100, NO_IMAGE = 209 };

static struct {
	cudaError_t count_status, properties_status, probe_status;
	int count;
	struct cudaDeviceProp properties;
	int chosen, forgotten, opened;
} fake;

cudaError_t cudaGetDeviceCount(int *out)
{
	*out = fake.count;
	return fake.count_status;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device)
{
	(void)device;
	*out = fake.properties;
	return fake.properties_status;
}

cudaError_t cu_choose_device(int device)
{
	fake.chosen = device;
	return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
	fake.forgotten++;
	return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t status)
{
	return status == NO_IMAGE     ? "no kernel image is available for execution on the device"
	       : status == OLD_DRIVER ? "CUDA driver version is insufficient for CUDA runtime version"
	       : status == NO_DEVICE  ? "no CUDA-capable device is detected"
				      : "unknown error";
}

cudaError_t cudaDriverGetVersion(int *out)
{
	*out = 12040;
	return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *out)
{
	*out = 13000;
	return cudaSuccess;
}

cudaError_t cu_probe(void)
{
	return fake.probe_status;
}

enum sl_err cu_backend_open(struct sl_backend *be, const struct sl_module_options *options, struct sl_fail *fail)
{
	(void)be;
	(void)options;
	(void)fail;
	fake.opened++;
	return SL_OK;
}

/* ---- tests */

static enum sl_err open_on(const char *name, int sm, cudaError_t probe, struct sl_fail *fail)
{
	const struct sl_module_options options = {.device = 1};
	struct sl_backend be = {0};

	memset(&fake, 0, sizeof fake);
	fake.count = 2;
	fake.properties = (struct cudaDeviceProp){.major = sm / 10, .minor = sm % 10};
	snprintf(fake.properties.name, sizeof fake.properties.name, "%s", name);
	fake.probe_status = probe;
	*fail = (struct sl_fail){0};
	return sl_cuda_module()->open(&be, &options, fail);
}

static void test_device_that_runs_the_module(void **state)
{
	struct sl_fail fail;

	assert_int_equal(open_on("NVIDIA H200", 90, cudaSuccess, &fail), SL_OK); /* from PTX */
	assert_int_equal(fake.chosen, 1);
	assert_int_equal(fake.opened, 1);
	assert_string_equal(fail.text, "");
}

/* The message names the device, what the module was built for, and what to do. */
static void test_device_that_the_module_was_not_built_for(void **state)
{
	struct sl_fail fail;

	assert_int_equal(open_on("NVIDIA GeForce GTX 1080", 61, NO_IMAGE, &fail), SL_ERR_UNAVAILABLE);
	assert_string_equal(fail.text,
			    "CUDA device 1 (NVIDIA GeForce GTX 1080, sm_61) cannot run this module, which was "
			    "built for sm 75 80 86 100 (no kernel image is available for execution on the "
			    "device): build it with CUDA_ARCHS=61 and CUDA 12; CUDA 13 begins with sm 75");
	assert_int_equal(fake.opened, 0);
	assert_int_equal(fake.forgotten, 1);
	assert_int_equal(open_on("NVIDIA GeForce RTX 5090", 120, NO_IMAGE, &fail), SL_ERR_UNAVAILABLE);
	assert_string_equal(fail.text,
			    "CUDA device 1 (NVIDIA GeForce RTX 5090, sm_120) cannot run this module, which was "
			    "built for sm 75 80 86 100 (no kernel image is available for execution on the "
			    "device): build it with CUDA_ARCHS=120");
}

/* Rebuilding would not help these devices: the module has code for them. */
static void test_device_that_does_not_start(void **state)
{
	static const int served[] = {75, 80, 86, 87, 89, 100, 103};
	static const int unserved[] = {61, 70, 72, 90, 110, 120};
	struct sl_fail fail;

	for (size_t i = 0; i < sizeof served / sizeof served[0]; i++) {
		assert_int_equal(open_on("a device", served[i], cudaErrorUnknown, &fail), SL_ERR_UNAVAILABLE);
		assert_non_null(strstr(fail.text, "does not start: unknown error"));
		assert_null(strstr(fail.text, "CUDA_ARCHS"));
	}
	for (size_t i = 0; i < sizeof unserved / sizeof unserved[0]; i++) {
		assert_int_equal(open_on("a device", unserved[i], cudaErrorUnknown, &fail), SL_ERR_UNAVAILABLE);
		assert_non_null(strstr(fail.text, "CUDA_ARCHS="));
	}
}

/* Even with the longest names, the message ends with the advice. */
static void test_long_names_leave_room_for_the_advice(void **state)
{
	struct sl_fail fail;
	char name[256];

	memset(name, 'x', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	assert_int_equal(open_on(name, 61, NO_IMAGE, &fail), SL_ERR_UNAVAILABLE);
	assert_non_null(strstr(fail.text, "begins with sm 75"));
}

static void test_no_driver_no_device(void **state)
{
	const struct sl_module *module = sl_cuda_module();
	const struct sl_module_options options = {.device = 2};
	struct sl_backend be = {0};
	char text[SL_MODULE_TEXT] = "untouched";
	struct sl_fail fail;

	memset(&fake, 0, sizeof fake);
	fake.count_status = OLD_DRIVER;
	assert_int_equal(module->describe(0, text, &fail), SL_ERR_UNAVAILABLE);
	assert_string_equal(fail.text, "no CUDA device: CUDA driver version is insufficient for CUDA runtime version");
	assert_string_equal(text, "untouched");
	fake.count_status = cudaSuccess;
	assert_int_equal(module->open(&be, &options, &fail), SL_ERR_UNAVAILABLE);
	assert_string_equal(fail.text, "no CUDA device: the driver lists none");
	fake.count = 2;
	assert_int_equal(module->open(&be, &options, &fail), SL_ERR_UNAVAILABLE);
	assert_string_equal(fail.text, "no CUDA device 2: there are 2, numbered from 0");
	fake.properties_status = NO_DEVICE;
	assert_int_equal(module->describe(0, text, &fail), SL_ERR_UNAVAILABLE);
	assert_string_equal(fail.text, "CUDA device 0 does not answer: no CUDA-capable device is detected");
	assert_string_equal(text, "untouched");
	assert_int_equal(fake.opened, 0);
}

static void test_description(void **state)
{
	struct sl_fail fail = {0};
	char text[SL_MODULE_TEXT];

	memset(&fake, 0, sizeof fake);
	fake.count = 1;
	fake.properties = (struct cudaDeviceProp){"NVIDIA H200", 9, 0, 132, (size_t)140 << 30};
	assert_int_equal(sl_cuda_module()->describe(0, text, &fail), SL_OK);
	assert_string_equal(text,
			    "NVIDIA H200, sm_90, 132 multiprocessors, 140.0 GiB, driver for CUDA 12.4, runtime 13.0");
}

/* cuDNN 9.10 is the last for Maxwell, Pascal and Volta; version numbers up to 8.9 count major
 * versions in thousands. */
static void test_cudnn_that_serves_the_device(void **state)
{
	assert_true(dnn_serves(8907, 6, 1));
	assert_true(dnn_serves(91002, 6, 1));
	assert_true(dnn_serves(91002, 7, 0));
	assert_false(dnn_serves(91100, 6, 1));
	assert_false(dnn_serves(91900, 7, 0));
	assert_true(dnn_serves(91900, 7, 5));
	assert_true(dnn_serves(91900, 9, 0));
	assert_true(dnn_serves(91900, 12, 0));
}

/* A refusal by cuDNN makes the caller use another method; a failure is an error. */
static void test_what_cudnn_only_refuses(void **state)
{
	assert_true(dnn_only_refuses(2003)); /* a misaligned pointer */
	assert_true(dnn_only_refuses(3000)); /* not supported */
	assert_true(dnn_only_refuses(3007)); /* no code for this architecture */
	assert_true(dnn_only_refuses(1002)); /* a library of another version */
	assert_true(dnn_only_refuses(1008)); /* one that does not load */
	assert_true(dnn_only_refuses(4001)); /* not compiled */
	assert_false(dnn_only_refuses(0));
	assert_false(dnn_only_refuses(1001)); /* not initialized */
	assert_false(dnn_only_refuses(4000)); /* internal error */
	assert_false(dnn_only_refuses(5000)); /* execution failed */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_device_that_runs_the_module),
		cmocka_unit_test(test_device_that_the_module_was_not_built_for),
		cmocka_unit_test(test_device_that_does_not_start),
		cmocka_unit_test(test_long_names_leave_room_for_the_advice),
		cmocka_unit_test(test_no_driver_no_device),
		cmocka_unit_test(test_description),
		cmocka_unit_test(test_cudnn_that_serves_the_device),
		cmocka_unit_test(test_what_cudnn_only_refuses),
	};

	return cmocka_run_group_tests_name("gpu start", tests, NULL, NULL);
}
