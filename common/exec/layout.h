/* The memory layout of a segment: a pure function of the segment and of the sizes that its kernels asked for.
 *
 * There are three regions. A *slot* per chunk in flight holds what lives from forward to backward: the input, the
 * output, values that backward reads, and the gradients at the segment's ends. *Saved* areas of the kernels are per
 * chunk too, and live until commit. *Scratch* is one region for all chunks, since a segment computes one chunk at a
 * time: values and gradients that die within a pass share it by their lifetimes. The tail runs forward and backward of
 * a chunk in one go, so its saved values lie in scratch as well.
 *
 * Recompute (Chen et al. 2016) divides the nodes into stretches. A single value goes from one stretch to the next; it
 * is kept in the slot, in a tail in scratch. Values within a stretch die with the forward pass, and are computed again
 * just before the stretch's backward. So they have two places in scratch. A tail's last stretch is not computed again.
 */
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

/* The tensors at a segment's ends. A 16-bit segment has each twice: in fp32 for callers and codecs, in 16 bits for its
 * ops. */
enum sl_edge { SL_EDGE_IN, SL_EDGE_OUT, SL_EDGE_DOUT, SL_EDGE_DIN, SL_EDGES };

struct sl_layout {
	struct sl_place *value;         /* [n_value of the graph]; NONE: never in memory */
	struct sl_place *again;         /* [n_value]: the place in backward, recomputed values included */
	struct sl_place *grad;          /* [n_value]: of the value's gradient; NONE: nobody needs it */
	int *stretch, n_stretch;        /* [n_stretch + 1]: the first node of each stretch, then n_node */
	bool forward;                   /* there is no backward (sl_layout_forward) */
	bool *repeats;                  /* [n_node]: it is computed again before its stretch's backward */
	size_t *saved_offset;           /* [n_op] of the segment */
	size_t *cache_offset;           /* [n_op], for a cache of one row; multiply by the number of rows */
	struct sl_place edge[SL_EDGES]; /* the fp32 copies, in the slot; NONE: the segment's own values are fp32 */
	size_t slot_bytes, scratch_bytes, saved_bytes, workspace_bytes;
	size_t cache_bytes; /* of one row of the cache */
};

/* Makes a layout without recompute: one stretch of all nodes. `sizes` [n_op]: from the kernels' prepare; `node`
 * [n_node]: from sl_rewrite. NOMEM. Free with sl_layout_close. */
enum sl_err sl_layout_open(struct sl_layout *layout, const struct sl_plan_segment *segment,
			   const struct sl_exec_node *node, int n_node, const struct sl_op_sizes *sizes) SL_MUST_CHECK;
/* Changes the layout to recompute, with those of the tried stretches that take the least memory for `slots` slots. It
 * stays as it is if none takes less. Not for a 16-bit segment. NOMEM. */
enum sl_err sl_layout_recompute(struct sl_layout *layout, const struct sl_plan_segment *segment,
				const struct sl_exec_node *node, int n_node, int slots) SL_MUST_CHECK;
/* Changes a new layout to one for forward passes alone: values die after their last reader, and have no gradients.
 * NOMEM. */
enum sl_err sl_layout_forward(struct sl_layout *layout, const struct sl_plan_segment *segment,
			      const struct sl_exec_node *node, int n_node) SL_MUST_CHECK;
void sl_layout_close(struct sl_layout *layout);

#endif
