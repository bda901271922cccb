/* Counts the bytes that malloc, calloc, realloc, arenas (--wrap: Makefile) and a simulated device
 * are asked for. Freed memory stays counted. One thread. */
#ifndef SL_TESTS_COUNTED_H
#define SL_TESTS_COUNTED_H

#include "common/base/memory.h"
#include "common/exec/backend.h"

void counted_begin(void);
struct sl_memory counted_end(void);
/* A simulated device with all its codecs, whose allocations are counted. ahead: it queues its work.
 * The last such backend opened counts for all. */
struct sl_backend counted_backend(bool ahead);

#endif
