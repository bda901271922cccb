/* Estimates the processor time of coding one chunk. The server needs it because clients choose codec and shape.
 * docs/results/security.md compares it with measurements. */
#ifndef SL_CODEC_COST_H
#define SL_CODEC_COST_H

#include "common/codec/codec.h"
#include "common/codec/extent.h"

/* Seconds of one thread: for a task, and for its longest piece. A worker's job gives way between pieces (worker.h). */
struct sl_cost {
	double task_s, piece_s;
};

/* *sum becomes the cost of both tasks, one after the other: the sum of task_s, and the larger piece_s. */
void sl_cost_add(struct sl_cost *sum, struct sl_cost cost);
/* For tensors of at most this extent, whose `begin` is NULL. Nothing is allocated, so any size is fine. */
struct sl_cost sl_codec_cost(const struct sl_codec_spec *spec, const struct sl_extent *most, bool encodes);

#endif
