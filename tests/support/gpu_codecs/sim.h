/* A backend that is all codecs of the device on a simulated one (tests/support/cuda_sim), whose memory is the host's.
 */
#ifndef SL_TESTS_GPU_CODECS_SIM_H
#define SL_TESTS_GPU_CODECS_SIM_H

#include "common/exec/backend.h"

/* ahead: calls of several slots may be under way, though what they queue is done at once. */
extern struct sl_backend sim_codec_backend, sim_codec_backend_ahead;

#endif
