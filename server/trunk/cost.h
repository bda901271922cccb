/* Estimates the processor time of a session's longest task before the session is admitted. */
#ifndef SL_SERVER_TRUNK_COST_H
#define SL_SERVER_TRUNK_COST_H

#include "common/codec/cost.h"
#include "common/exec/plan.h"

/* All costs are upper bounds in seconds of one CPU thread. This one is the largest of: a chunk forward or backward,
 * with its codecs, and making the initial weights. piece_s is the longest piece of any of these. */
struct sl_cost sl_session_cost(const struct sl_plan *plan, const struct sl_codec_spec codec[SL_DIR_COUNT]);
/* One op of a plan (cost_op.c): `products` is 1 for forward, 2 for backward. An op without a price costs INFINITY. */
struct sl_cost sl_op_cost(const struct sl_op *op, double products);
bool sl_op_has_price(enum sl_op_kind kind); /* whether sl_op_cost knows ops of this kind */
/* The tables that an op's kernel makes before the first pass: rotary positions for rows of up to row_tokens tokens. */
struct sl_cost sl_op_start_cost(const struct sl_op *op, int64_t row_tokens);
/* Parts of sl_session_cost, without codecs. _segment_cost: one chunk through the middle, `products` as above.
 * _weights_cost: the initial weights, and the tables that kernels make before the first pass. */
struct sl_cost sl_segment_cost(const struct sl_plan *plan, double products);
struct sl_cost sl_weights_cost(const struct sl_plan *plan);
/* LIMIT: the cost is above `task_s` or `piece_ms` (0: no limit); the text names the key and both values. */
enum sl_err sl_session_cost_check(const struct sl_cost *cost, int task_s, int piece_ms,
				  struct sl_fail *fail) SL_MUST_CHECK;

#endif
