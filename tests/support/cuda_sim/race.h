/* Calls by which grid.c tells race/race.c which threads run and how they are ordered. traffic/traffic.c
 * implements them, too, and counts instead. Used in builds with watched accesses (SIM_RACECHECK). */
#ifndef SL_TESTS_CUDA_SIM_RACE_H
#define SL_TESTS_CUDA_SIM_RACE_H

#include <stddef.h>

#if defined(SIM_RACECHECK)

/* Accesses between these two calls are made by the launch's threads and are watched. `shared`: the
 * address of shared memory. */
void race_launch(const void *shared, size_t shared_bytes);
void race_launched(void);
void race_block(unsigned block, unsigned threads);
/* The thread that runs from now on. */
void race_thread(unsigned thread);
/* The running thread reaches a barrier, leaves it, or executes a fence. */
void race_arrive(void);
void race_leave(unsigned round);
void race_fence(void);

#else

#define race_launch(shared, bytes) ((void)0)
#define race_launched()            ((void)0)
#define race_block(block, threads) ((void)(block))
#define race_thread(thread)        ((void)(thread))
#define race_arrive()              ((void)0)
#define race_leave(round)          ((void)0)
#define race_fence()               ((void)0)

#endif

#endif
