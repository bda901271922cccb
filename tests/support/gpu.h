/* The first device of the CUDA module, for tests that need a GPU: a group's setup and teardown. */
#ifndef SL_TESTS_GPU_H
#define SL_TESTS_GPU_H

#include "common/exec/backend.h"

extern struct sl_backend gpu; /* ops is NULL if no device can be opened */

int gpu_open(void **state); /* succeeds without a device, too, and prints why there is none */
int gpu_close(void **state);

#define NEEDS_GPU()   \
	if (!gpu.ops) \
	skip()

#endif
