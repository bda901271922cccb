/* Bytes that something will take, said before any are taken. What they are counted from may come from a peer: sums and
 * products end at UINT64_MAX, where others would wrap. */
#ifndef SL_BASE_MEMORY_H
#define SL_BASE_MEMORY_H

#include <stdint.h>

/* device: the memory of a backend that has its own; host: all other, locked memory among it. */
struct sl_memory {
	uint64_t host, device;
};

/* *sum += count elements of `size` bytes; count < 0 counts as too many. */
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
