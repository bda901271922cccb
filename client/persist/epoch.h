/* Epochs of a run's links. The server accepts a link only if its epoch is above that of the session's present link. So
 * each epoch must be above all earlier ones, whichever process opened them. The time of day alone is not enough, since
 * clocks may go back: a file in the run's folder also stores the last number. */
#ifndef SL_CLIENT_PERSIST_EPOCH_H
#define SL_CLIENT_PERSIST_EPOCH_H

#include <stdint.h>

/* Returns the number from which this process' links count up; the first link has one more. It is the time of day now_s
 * in seconds, or one more than the last process had, if the clock is behind that; times 2^20, so that one process has
 * room for 2^20 links. The seconds are written to `dir`/link-epoch first; a failure is only a warning. `dir` "": no
 * other process will go on with the run, and nothing is read or written. */
uint64_t sl_epoch_begin(const char *dir, uint64_t now_s);
/* The server made a link of this process use `epoch`: makes the next process begin above it. */
void sl_epoch_raise(const char *dir, uint64_t epoch);

#endif
