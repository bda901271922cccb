/* A backend with the device's codecs alone, on a simulated device (tests/support/cuda_sim) in host
 * memory. */
#ifndef SL_TESTS_GPU_CODECS_SIM_H
#define SL_TESTS_GPU_CODECS_SIM_H

#include "common/exec/backend.h"

/* ahead: calls of several slots may overlap, although each does its work at once. */
extern struct sl_backend sim_codec_backend, sim_codec_backend_ahead;

#endif
