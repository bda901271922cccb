#include "kernels/module.h"

#include <dlfcn.h>

#include "common/base/program.h"

static const char file_name[] = "libsplit_cuda.so";

enum sl_err sl_module_load(const char *path, const struct sl_module **out, struct sl_fail *fail)
{
	char beside[PATH_MAX];
	const struct sl_module *module;
	sl_module_fn *entry;
	void *handle;

	if (!path)
		path = sl_beside_program(file_name, beside) ? beside : file_name;
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!handle)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "no CUDA module: %s", dlerror());
	entry = (sl_module_fn *)dlsym(handle, "sl_cuda_module");
	if (!entry)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "%s is no module of ours: it has no sl_cuda_module", path);
	module = entry();
	if (module->abi != SL_MODULE_ABI || module->table_bytes != sl_module_table_bytes())
		return sl_fail_set(
			fail, SL_ERR_VERSION,
			"%s was built from other sources (ABI %u, tables %u; here %u, %u): install both together", path,
			module->abi, module->table_bytes, (unsigned)SL_MODULE_ABI, sl_module_table_bytes());
	*out = module;
	return SL_OK;
}

enum sl_err sl_module_open_with(const char *path, struct sl_backend *be, const struct sl_module_options *options,
				struct sl_fail *fail)
{
	const struct sl_module *module;
	enum sl_err err = sl_module_load(path, &module, fail);

	return err ? err : module->open(be, options, fail);
}

enum sl_err sl_module_open(const char *path, struct sl_backend *be, int device, struct sl_fail *fail)
{
	const struct sl_module_options options = {.device = device};

	return sl_module_open_with(path, be, &options, fail);
}
