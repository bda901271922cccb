/* Counts what is allocated: every malloc, calloc, realloc and arena (--wrap: Makefile), and what is asked of a
 * simulated device. Bytes that were asked for; what is freed meanwhile stays counted. One thread. */
#ifndef SL_TESTS_COUNTED_H
#define SL_TESTS_COUNTED_H

#include "common/base/memory.h"
#include "common/exec/backend.h"

void counted_begin(void);
struct sl_memory counted_end(void);
/* All codecs of a simulated device (tests/support/gpu_codecs/sim.h), whose allocations are counted. ahead: it queues.
 * Of two such backends the last counts for both. */
struct sl_backend counted_backend(bool ahead);

#endif
