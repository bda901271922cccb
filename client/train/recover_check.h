/* Assertions on what recover.c writes and holds. A failure aborts (common/base/assert.h). Loop thread. */
#ifndef SL_CLIENT_TRAIN_RECOVER_CHECK_H
#define SL_CLIENT_TRAIN_RECOVER_CHECK_H

#include "client/persist/archive.h"

/* Before the state after `step` is written with the notes and pins of *c. */
void sl_recover_check_write(const struct sl_archive *archive, const struct sl_checkpoint *c, uint64_t step);
/* The state of the step under way, and the one with that step applied; NULL: there is none. */
void sl_recover_check_held(const struct sl_client_state *live, const struct sl_client_state *ahead);

#endif
