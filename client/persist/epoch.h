/* Epochs of a run's links: the server takes a link whose epoch is above that of the one it has, so each must be above
 * all earlier ones, whichever process opened it. Clocks go back, so a process counts from a number of its own, which
 * the run's folder remembers. */
#ifndef SL_CLIENT_PERSIST_EPOCH_H
#define SL_CLIENT_PERSIST_EPOCH_H

#include <stdint.h>

/* What this process' links count up from, the first being one above: the time of day, `now_s`, or one above what the
 * processes before it had where the clock is behind that; as seconds × 2^20, so that links of one process, fewer than
 * that, stay below those of the next. On the disk in `dir`/link-epoch before it is used; where it cannot be, a warning
 * says so. `dir` "": of no run that another process goes on with. */
uint64_t sl_epoch_begin(const char *dir, uint64_t now_s);
/* A link of this process has risen to `epoch`: the next process begins above it. */
void sl_epoch_raise(const char *dir, uint64_t epoch);

#endif
