/* A small network (small_plan.h) as three executors on one backend; the functions here copy its
 * tensors across the cuts. All functions fail the test on an error. */
#ifndef SL_TESTS_SMALL_NET_H
#define SL_TESTS_SMALL_NET_H

#include "common/exec/exec.h"
#include "tests/support/small_plan.h"

struct sl_pool;

struct small_net {
	struct sl_plan *plan;
	struct sl_backend be;
	struct sl_exec *exec[SL_SEGMENT_COUNT];
	float *carrier; /* room for the largest tensor at a cut */
	double loss;
	int64_t correct;
};

struct small_net_how {
	const char *partition;
	int chunks;
	bool ref; /* use the reference backend; else the CPU's, with `pool` */
	struct sl_pool *pool;
	const struct sl_optimizer *optimizer; /* NULL: SGD with momentum */
	const char *insert;                   /* layers at the head's end; NULL: none */
	const struct sl_conf_list *freeze;    /* NULL: none */
	bool chunk_sums;
};

extern const struct sl_optimizer small_net_adamw;

struct small_batch {
	float image[SMALL_BATCH * SMALL_IMAGE * SMALL_IMAGE * 3];
	int32_t label[SMALL_BATCH];
};

void small_net_open(struct small_net *n, const struct small_net_how *how);
void small_net_close(struct small_net *n);
void small_net_batch(struct small_batch *b, uint64_t step);
/* For one chunk. Forward: head and middle. Backward: the tail, then middle and head backward; adds
 * to n->loss and n->correct. */
void small_net_forward(struct small_net *n, const struct small_batch *b, int64_t batch_rows, int chunk, uint64_t step);
void small_net_backward(struct small_net *n, const struct small_batch *b, int64_t batch_rows, int chunk, uint64_t step);
/* A step without its commit: forward of chunk i + 1 comes before backward of chunk i. */
void small_net_compute(struct small_net *n, int64_t batch_rows, uint64_t step);
void small_net_commit(struct small_net *n, int64_t batch_rows);

typedef enum sl_err small_net_get_fn(struct sl_exec *exec, float *host);

/* Weights or gradients of a segment, malloc'ed. */
float *small_net_get(struct small_net *n, int which, small_net_get_fn *fn, int64_t *count);
/* Whether all segments of a and b have the same bits. */
bool small_net_same(struct small_net *a, struct small_net *b, small_net_get_fn *fn);

#endif
