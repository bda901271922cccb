/* Which batchnorms and activations of a segment are taken over by the convolutions beside them (backend.h: fuses,
 * before, after, whole, reduced). A batchnorm between two such convolutions is not run at all, and its output is never
 * in memory; nor is one that belongs wholly to the convolution in front, and its input is never in memory. */
#ifndef SL_NN_FUSE_H
#define SL_NN_FUSE_H

#include "common/nn/backend.h"
#include "common/nn/plan.h"

/* Of one op; indices of ops in the segment, -1: none. */
struct sl_fusion {
	int before, after;      /* CONV2D: the batchnorms fused with it; before: or the activation */
	int producer, consumer; /* BATCHNORM: the convolutions that it is fused with; ACT: consumer */
	bool whole;             /* both: the batchnorm belongs wholly to its producer */
	bool absorbed;          /* BATCHNORM, ACT: convolutions beside it do all its work; it is not run */
};

/* Fills fusion[segment->n_op]. Where the backend fuses nothing, all are -1. */
void sl_fuse_find(struct sl_fusion *fusion, const struct sl_backend *be, const struct sl_plan_segment *segment);

/* The value that op i reads as its input k: that of the batchnorm where it is fused in front. */
int sl_fuse_input(const struct sl_fusion *fusion, const struct sl_plan_segment *segment, int i, int k);
/* The op whose input's gradient op i writes: that of an activation in front, else its own. */
int sl_fuse_din(const struct sl_fusion *fusion, const struct sl_plan_segment *segment, int i);

/* The value that op i writes: that of the batchnorm where it has that wholly. */
int sl_fuse_output(const struct sl_fusion *fusion, const struct sl_plan_segment *segment, int i);

#endif
