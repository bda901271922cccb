/* Coroutines with their own stacks, switched without a system call; the address sanitizer is told
 * of every switch. Only one thread of a process may resume them. */
#ifndef SL_TESTS_CUDA_SIM_FIBER_H
#define SL_TESTS_CUDA_SIM_FIBER_H

#include <stdbool.h>

enum { FIBERS = 1024 };

/* Allocates memory for all fibers; false if there is none. */
bool fiber_ready(void);
/* Resumes fiber i < FIBERS until it pauses: from where it last paused, or at the start of `run`,
 * which never returns. */
void fiber_resume(unsigned i, void (*run)(void));
/* Whether `at` lies on a fiber's stack. */
bool fiber_owns(const void *at);
/* Switches back to fiber_resume's caller. Called on a fiber. */
void fiber_pause(void);

#endif
