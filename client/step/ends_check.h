/* What holds of a batch that head and tail take, and of both between two steps: assertions. */
#ifndef SL_CLIENT_STEP_ENDS_CHECK_H
#define SL_CLIENT_STEP_ENDS_CHECK_H

#include "client/step/ends.h"

/* Behind sl_ends_take: the chunks are the batch, one behind the other. */
void sl_ends_check_batch(const struct sl_ends *ends);
/* A task works on a chunk of the batch under way. */
void sl_ends_check_chunk(const struct sl_ends *ends, int chunk);
/* Before both ends are stepped, and behind that: they stand at the same step. NULL: another party has it. */
void sl_ends_check_done(const struct sl_ends *ends, uint64_t done);

#endif
