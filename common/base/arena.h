/* One mapping, made at plan time, from which everything a segment needs is cut: no malloc per step.
 * Anonymous memory with MADV_HUGEPAGE, faulted in at open, so that no page fault falls into a step. */
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

/* SL_ARENA_ALIGN-aligned, zeroed at open. NULL only where the arena was opened too small: a bug of the planner. */
void *sl_arena_take(struct sl_arena *arena, size_t bytes);

/* Gives the whole pages within back to the system. They read as zeros then, and come back as they are written. */
void sl_pages_drop(void *mem, size_t bytes);

static inline size_t sl_align(size_t bytes)
{
	return (bytes + SL_ARENA_ALIGN - 1) & ~(size_t)(SL_ARENA_ALIGN - 1);
}

#endif
