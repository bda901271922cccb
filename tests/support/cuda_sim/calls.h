/* The functions that gcc calls at every access of kernels compiled with -fsanitize=thread. One file
 * of a program includes this and defines accessed(), which handles the accesses. */
#ifndef SL_TESTS_CUDA_SIM_CALLS_H
#define SL_TESTS_CUDA_SIM_CALLS_H

#include <stdbool.h>
#include <stddef.h>

enum kind { READ, WRITE, ATOMIC, ATOMIC_READ };

/* Called before the access; `pc` is the instruction. An atomic maximum begins with an ATOMIC_READ. */
static void accessed(const void *ptr, size_t bytes, enum kind kind, const void *pc);

#define PC __builtin_return_address(0)

void __tsan_init(void);
void __tsan_func_entry(void *pc);
void __tsan_func_exit(void);
void __tsan_read_range(void *p, size_t bytes);
void __tsan_write_range(void *p, size_t bytes);

void __tsan_init(void)
{
}

void __tsan_func_entry(void *pc)
{
	(void)pc;
}

void __tsan_func_exit(void)
{
}

void __tsan_read_range(void *p, size_t bytes)
{
	accessed(p, bytes, READ, PC);
}

void __tsan_write_range(void *p, size_t bytes)
{
	accessed(p, bytes, WRITE, PC);
}

#define CALL(name, bytes, kind)                   \
	void name(void *p);                       \
	void name(void *p)                        \
	{                                         \
		accessed(p, (bytes), (kind), PC); \
	}

#define CALLS(bytes)                                    \
	CALL(__tsan_read##bytes, bytes, READ)           \
	CALL(__tsan_write##bytes, bytes, WRITE)         \
	CALL(__tsan_unaligned_read##bytes, bytes, READ) \
	CALL(__tsan_unaligned_write##bytes, bytes, WRITE)

CALLS(1)
CALLS(2)
CALLS(4)
CALLS(8)
CALLS(16)

/* Atomics of 32 bits; kernels use no others. */

#define ATOMIC_CALL(name, expression)                               \
	unsigned name(volatile unsigned *p, unsigned v, int order); \
	unsigned name(volatile unsigned *p, unsigned v, int order)  \
	{                                                           \
		const unsigned old = *p;                            \
                                                                    \
		(void)order;                                        \
		accessed((const void *)p, sizeof *p, ATOMIC, PC);   \
		*p = (expression);                                  \
		return old;                                         \
	}

ATOMIC_CALL(__tsan_atomic32_fetch_add, old + v)
ATOMIC_CALL(__tsan_atomic32_fetch_or, old | v)
ATOMIC_CALL(__tsan_atomic32_fetch_and, old &v)
ATOMIC_CALL(__tsan_atomic32_exchange, v)

unsigned __tsan_atomic32_load(const volatile unsigned *p, int order);
unsigned __tsan_atomic32_load(const volatile unsigned *p, int order)
{
	(void)order;
	accessed((const void *)p, sizeof *p, ATOMIC_READ, PC);
	return *p;
}

bool __tsan_atomic32_compare_exchange_strong(volatile unsigned *p, unsigned *want, unsigned v, int order, int other);
bool __tsan_atomic32_compare_exchange_strong(volatile unsigned *p, unsigned *want, unsigned v, int order, int other)
{
	const unsigned old = *p;
	const bool equal = old == *want;

	(void)order;
	(void)other;
	accessed((const void *)p, sizeof *p, ATOMIC, PC);
	if (equal)
		*p = v;
	*want = old;
	return equal;
}

#endif
