/* Where everything of a segment lies in memory: a pure function of the segment and of what its kernels asked for.
 *
 * Three regions. A *slot* per chunk in flight holds what lives from forward to backward: the input, the output, values
 * that backward reads, and the two gradients at the cut. *Saved* areas of the kernels are per chunk too and live until
 * commit. *Scratch* is one region for all chunks, since a segment computes one chunk at a time: values and gradients
 * that die within a pass share it by their lifetimes. The tail runs forward and backward of a chunk in one go, so its
 * saved values lie in scratch as well.
 *
 * Recompute divides the nodes into stretches, between which a single value lives. That one is kept in the slot. Values
 * within a stretch die with the forward pass, and in front of the stretch's backward they are computed again. So they
 * have two places in scratch (Chen et al. 2016). */
#ifndef SL_EXEC_LAYOUT_H
#define SL_EXEC_LAYOUT_H

#include "common/exec/backend.h"
#include "common/exec/plan.h"
#include "common/exec/rewrite.h"

enum sl_region { SL_REGION_NONE, SL_REGION_SLOT, SL_REGION_SCRATCH };

struct sl_place {
	enum sl_region region;
	size_t offset; /* bytes */
};

/* A segment of 16 bits has what crosses a cut twice: as fp32, which callers and codecs see, and as its ops do. */
enum sl_edge { SL_EDGE_IN, SL_EDGE_OUT, SL_EDGE_DOUT, SL_EDGE_DIN, SL_EDGES };

struct sl_layout {
	struct sl_place *value;         /* [n_value] of the graph; NONE: not of this segment */
	struct sl_place *again;         /* [n_value] where backward, and what is computed again before it, have it */
	struct sl_place *grad;          /* [n_value]; NONE: nobody wants it */
	int *stretch, n_stretch;        /* [n_stretch + 1] the first node of each, and n_node */
	bool *repeats;                  /* [n_node] it is computed again before its stretch's backward */
	size_t *saved_offset;           /* [n_op] of the segment */
	size_t *cache_offset;           /* [n_op], as if the cache had one row */
	struct sl_place edge[SL_EDGES]; /* fp32, in the slot; NONE: the segment's own values are what crosses */
	size_t slot_bytes, scratch_bytes, saved_bytes, workspace_bytes;
	size_t cache_bytes; /* of a row */
};

/* One stretch of all nodes, none of which repeats. `sizes` [n_op]: what prepare answered; `node` [n_node]: from
 * sl_rewrite. Free with sl_layout_close. */
enum sl_err sl_layout_open(struct sl_layout *layout, const struct sl_plan_segment *segment,
			   const struct sl_exec_node *node, int n_node, const struct sl_op_sizes *sizes) SL_MUST_CHECK;
/* The same with recompute, with the stretches that take the least memory of those that are tried, for `slots` slots.
 * Nothing changes where none takes less. Not of a tail, nor in 16 bits. */
enum sl_err sl_layout_recompute(struct sl_layout *layout, const struct sl_plan_segment *segment,
				const struct sl_exec_node *node, int n_node, int slots) SL_MUST_CHECK;
void sl_layout_close(struct sl_layout *layout);

#endif
