/* The CUDA module's first device, for tests that need one: setup and teardown of a group. */
#ifndef SL_TESTS_GPU_H
#define SL_TESTS_GPU_H

#include "common/exec/backend.h"

extern struct sl_backend gpu; /* ops NULL: none answers */

int gpu_open(void **state); /* prints why not */
int gpu_close(void **state);

#define NEEDS_GPU()   \
	if (!gpu.ops) \
	skip()

#endif
