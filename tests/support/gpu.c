#include "tests/support/gpu.h"
#include "tests/support/unit.h"

#include "kernels/module.h"

struct sl_backend gpu;

int gpu_open(void **state)
{
	struct sl_fail fail;

	if (sl_module_open(NULL, &gpu, 0, &fail))
		print_message("SKIP %s\n", fail.text);
	return 0;
}

int gpu_close(void **state)
{
	if (gpu.ops)
		gpu.ops->close(&gpu);
	return 0;
}
