/* An arena: one memory mapping, made when a plan is made, from which its owner cuts everything that a step needs.
 * So a step never calls malloc. The memory is anonymous, advised MADV_HUGEPAGE and faulted in at open: no page
 * fault falls into a step. */
#ifndef SL_BASE_ARENA_H
#define SL_BASE_ARENA_H

#include <stddef.h>

#include "common/base/err.h"

enum { SL_ARENA_ALIGN = 64 }; /* one cache line, one AVX-512 register */

struct sl_arena {
	unsigned char *base;
	size_t used, cap; /* bytes */
};

/* `bytes` may be 0. NOMEM with errno's text in *fail. */
enum sl_err sl_arena_open(struct sl_arena *arena, size_t bytes, struct sl_fail *fail) SL_MUST_CHECK;
void sl_arena_close(struct sl_arena *arena); /* idempotent */

/* Takes the next `bytes`, aligned to SL_ARENA_ALIGN and zeroed at open. NULL if the arena was opened too small,
 * which is a bug of the planner. */
void *sl_arena_take(struct sl_arena *arena, size_t bytes);

/* Returns the whole pages within [mem, mem + bytes) to the system. They read as zeros from then on; a write
 * allocates them again. */
void sl_pages_drop(void *mem, size_t bytes);

static inline size_t sl_align(size_t bytes)
{
	return (bytes + SL_ARENA_ALIGN - 1) & ~(size_t)(SL_ARENA_ALIGN - 1);
}

#endif
