/* Epochs of a run's links. The server accepts a link only if its epoch is above that of the link it has, so each epoch
 * must be above all earlier ones, whichever process opened them. The time of day alone does not do, since clocks go
 * back: the run's folder also remembers the last number. */
#ifndef SL_CLIENT_PERSIST_EPOCH_H
#define SL_CLIENT_PERSIST_EPOCH_H

#include <stdint.h>

/* The number from which this process' links count up; the first link has one more. It is the time of day `now_s`, or,
 * where the clock is behind, one above the number of the last process; in units of 2^-20 s, so that the links of one
 * process stay below those of the next. It is written to `dir`/link-epoch before it is used; a warning says where that
 * fails. `dir` "": no other process will go on with the run, and nothing is written. */
uint64_t sl_epoch_begin(const char *dir, uint64_t now_s);
/* A link of this process has risen to `epoch`: the next process begins above it. */
void sl_epoch_raise(const char *dir, uint64_t epoch);

#endif
