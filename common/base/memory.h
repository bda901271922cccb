/* The memory that something will take, counted before any is taken. Its inputs may come from a peer: so sums and
 * products saturate at UINT64_MAX instead of wrapping. */
#ifndef SL_BASE_MEMORY_H
#define SL_BASE_MEMORY_H

#include <stdint.h>

/* In bytes. device: memory of a backend that has its own; host: all other memory, page-locked memory included. */
struct sl_memory {
	uint64_t host, device;
};

/* *sum += count elements of `size` bytes. A negative count saturates the sum. */
static inline void sl_need(uint64_t *sum, int64_t count, uint64_t size)
{
	uint64_t bytes;

	if (count < 0 || __builtin_mul_overflow((uint64_t)count, size, &bytes) ||
	    __builtin_add_overflow(*sum, bytes, sum))
		*sum = UINT64_MAX;
}

static inline void sl_memory_add(struct sl_memory *to, struct sl_memory more)
{
	sl_need(&to->host, 1, more.host);
	sl_need(&to->device, 1, more.device);
}

static inline uint64_t sl_memory_total(struct sl_memory m)
{
	sl_need(&m.host, 1, m.device);
	return m.host;
}

#endif
