/* Assertions on what recover.c writes and holds. A failure aborts (common/base/assert.h). What files and the server say
 * is refused instead. Loop thread. */
#ifndef SL_CLIENT_TRAIN_RECOVER_CHECK_H
#define SL_CLIENT_TRAIN_RECOVER_CHECK_H

#include "client/persist/archive.h"

/* Before the state after `step` is written with the notes and pins of *c. */
void sl_recover_check_write(const struct sl_archive *archive, const struct sl_checkpoint *c, uint64_t step);
/* The state of the step under way, and the one with that step applied; NULL: there is none. */
void sl_recover_check_held(const struct sl_client_state *live, const struct sl_client_state *ahead);

/* DATA: the notes on the run of the file of `step` are of another step. */
enum sl_err sl_recover_check_step(const struct sl_checkpoint *c, uint64_t step, struct sl_fail *fail) SL_MUST_CHECK;

#endif
