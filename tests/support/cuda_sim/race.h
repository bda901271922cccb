/* Who may race with whom: what grid.c says to race/race.c, or to traffic/traffic.c which counts instead, in builds
 * whose accesses are watched (SIM_RACECHECK). */
#ifndef SL_TESTS_CUDA_SIM_RACE_H
#define SL_TESTS_CUDA_SIM_RACE_H

#include <stddef.h>

#if defined(SIM_RACECHECK)

/* Accesses between the two are of threads of blocks, and watched. `shared`: where shared memory lies. */
void race_launch(const void *shared, size_t shared_bytes);
void race_launched(void);
void race_block(unsigned block, unsigned threads);
/* The thread that runs from here on. */
void race_thread(unsigned thread);
/* The running thread: at a barrier, behind it, at a fence. */
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
