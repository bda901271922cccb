/* What coding one chunk costs a processor, before it is done: for whoever lets strangers choose codec and shape.
 * docs/results/security.md has what was measured beside it. */
#ifndef SL_CODEC_COST_H
#define SL_CODEC_COST_H

#include "common/codec/codec.h"
#include "common/codec/extent.h"

/* Seconds of one thread. `piece_s`: of the longest piece, between which a worker's job gives way (worker.h). */
struct sl_cost {
	double task_s, piece_s;
};

/* The greater piece, and both tasks behind each other. */
void sl_cost_add(struct sl_cost *sum, struct sl_cost cost);
/* Of a tensor that is at most this large; begin is NULL. Nothing is allocated; it may be as large as it likes. */
struct sl_cost sl_codec_cost(const struct sl_codec_spec *spec, const struct sl_extent *most, bool encodes);

#endif
