/* Fibers start with makecontext and switch with the compiler's own setjmp, which neither saves
 * signals nor is intercepted. */
#include "tests/support/cuda_sim/fiber.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define WITH_ASAN
#include <sanitizer/common_interface_defs.h>
enum { STACK_BYTES = 128 << 10 };
#else
enum { STACK_BYTES = 64 << 10 };
#endif

struct fiber {
	ucontext_t start;
	void *at[5];
	bool started;
	void *fake_stack; /* for the address sanitizer */
};

static struct {
	struct fiber fiber[FIBERS];
	unsigned char *stacks;
	unsigned running;
	void *back[5];
	void (*run)(void);
	/* of the thread that resumes */
	void *fake_stack;
	const void *stack;
	size_t stack_bytes;
} all;

bool fiber_ready(void)
{
	if (all.stacks == NULL)
		all.stacks = malloc((size_t)FIBERS * STACK_BYTES);
	return all.stacks != NULL;
}

static unsigned char *stack_of(unsigned i)
{
	return all.stacks + (size_t)i * STACK_BYTES;
}

bool fiber_owns(const void *at)
{
	return (uintptr_t)at - (uintptr_t)all.stacks < (uintptr_t)FIBERS * STACK_BYTES;
}

/* ---- what the sanitizer is told before and after a switch */

static void leave_for(struct fiber *f)
{
	(void)f;
#if defined(WITH_ASAN)
	__sanitizer_start_switch_fiber(&all.fake_stack, stack_of((unsigned)(f - all.fiber)), STACK_BYTES);
#endif
}

static void arrived_at(struct fiber *f)
{
	(void)f;
#if defined(WITH_ASAN)
	__sanitizer_finish_switch_fiber(f->fake_stack, &all.stack, &all.stack_bytes);
#endif
}

static void leave(struct fiber *f)
{
	(void)f;
#if defined(WITH_ASAN)
	__sanitizer_start_switch_fiber(&f->fake_stack, all.stack, all.stack_bytes);
#endif
}

static void arrived(void)
{
#if defined(WITH_ASAN)
	__sanitizer_finish_switch_fiber(all.fake_stack, NULL, NULL);
#endif
}

static void first(void)
{
	arrived_at(&all.fiber[all.running]);
	all.run();
	abort();
}

/* Before each jump the address sanitizer would clean up frames as if they were left for good; they are not. */
#define JUMPS __attribute__((noinline, no_sanitize_address))

static JUMPS void jump(void **to)
{
	__builtin_longjmp(to, 1);
}

static __attribute__((noinline)) void begin(struct fiber *f)
{
	getcontext(&f->start);
	f->start.uc_stack.ss_sp = stack_of(all.running);
	f->start.uc_stack.ss_size = STACK_BYTES;
	makecontext(&f->start, first, 0);
	f->started = true;
	leave_for(f);
	setcontext(&f->start);
}

JUMPS void fiber_resume(unsigned i, void (*run)(void))
{
	struct fiber *f = &all.fiber[i];

	all.running = i;
	all.run = run;
	if (__builtin_setjmp(all.back) != 0) {
		arrived();
		return;
	}
	if (!f->started)
		begin(f);
	leave_for(f);
	jump(f->at);
}

JUMPS void fiber_pause(void)
{
	if (__builtin_setjmp(all.fiber[all.running].at) != 0) {
		arrived_at(&all.fiber[all.running]);
		return;
	}
	leave(&all.fiber[all.running]);
	jump(all.back);
}
