/* Coroutines on stacks of their own, switched without a system call; the address sanitizer is told of every
 * switch. One thread of a process resumes them. */
#ifndef SL_TESTS_CUDA_SIM_FIBER_H
#define SL_TESTS_CUDA_SIM_FIBER_H

#include <stdbool.h>

enum { FIBERS = 1024 };

/* Memory for all of them; false where there is none. */
bool fiber_ready(void);
/* Fiber i < FIBERS goes on until it pauses: where it paused last, or at the begin of `run`, which never returns. */
void fiber_resume(unsigned i, void (*run)(void));
/* Whether `at` lies on the stack of one. */
bool fiber_owns(const void *at);
/* Back to fiber_resume's caller. Called on a fiber. */
void fiber_pause(void);

#endif
