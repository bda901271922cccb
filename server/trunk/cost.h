/* What a session's longest task will cost the server, said before it is let in. */
#ifndef SL_SERVER_TRUNK_COST_H
#define SL_SERVER_TRUNK_COST_H

#include "common/codec/cost.h"
#include "common/exec/plan.h"

/* Of one thread of a CPU: a chunk forward or backward, with its codecs, or the first weights. The longest piece is that
 * of any of them. */
struct sl_cost sl_session_cost(const struct sl_plan *plan, const struct sl_codec_spec codec[SL_DIR_COUNT]);
/* One op of a plan, `products` 1 forward and 2 backward; and whether ops of a kind have a price (cost_op.c). */
struct sl_cost sl_op_cost(const struct sl_op *op, double products);
bool sl_op_has_price(enum sl_op_kind kind);
/* What its kernel makes before the first pass: rotary positions of rows of so many tokens at most. */
struct sl_cost sl_op_start_cost(const struct sl_op *op, int64_t row_tokens);
/* Its parts without codecs: one chunk through the middle, `products` 1 forward and 2 backward; and its first weights,
 * with what kernels make before the first pass. */
struct sl_cost sl_segment_cost(const struct sl_plan *plan, double products);
struct sl_cost sl_weights_cost(const struct sl_plan *plan);
/* LIMIT, with both values and the key, where it is above `task_s` or `piece_ms`; 0: no limit. */
enum sl_err sl_session_cost_check(const struct sl_cost *cost, int task_s, int piece_ms,
				  struct sl_fail *fail) SL_MUST_CHECK;

#endif
