/* The table that a backend fills: memory, one kernel per op, the optimizer's update.
 *
 * Threads: all functions of one backend object are called from one thread (the worker). A CPU backend returns when
 * the work is done; a GPU backend may return when it is queued: `fence` says when it is done.
 * Determinism: same inputs, same bits, for any number of threads.
 */
#ifndef SL_EXEC_BACKEND_H
#define SL_EXEC_BACKEND_H

#include "common/base/err.h"
#include "common/base/rng.h"
#include "common/exec/optimizer.h"
#include "common/graph/op.h"

struct sl_pool;
struct sl_codec_stage; /* common/codec/stage.h */
struct sl_codec_loops; /* common/codec/loops.h */

/* ---- one op */

/* What a kernel does beside the work of its own op. All 0: nothing. */
struct sl_exec_form {
	/* CONV2D, what it does of the op in front. NORM: in[0] is the *input* x of that batchnorm, and the convolution
	 * normalises and activates as it reads; its din is the gradient at the batchnorm's output, and backward also
	 * finishes the batchnorm's own gradients. ACT: in[0] is the input of that activation, and din the gradient
	 * there: nothing is left for the activation to do.
	 * XENT: with LINEAR the executor computes the logits of some rows at a time (exec_blocks.c). Forward turns
	 * in[0], these logits, into their gradient times loss_scale, in place. It keeps nothing, and there is no
	 * backward. */
	enum sl_pre { SL_PRE_NONE, SL_PRE_NORM, SL_PRE_ACT, SL_PRE_LINEAR } pre;
	/* CONV2D, what it does of the batchnorm behind. STATS: forward also finishes the statistics of `out`; in
	 * backward dout is the gradient at the batchnorm's output, which it puts through the batchnorm first, and `out`
	 * is given. WHOLE: everything, where nobody wants din. Forward's out, and backward's out and dout are the
	 * batchnorm's; its input is never in memory. */
	enum sl_post { SL_POST_NONE, SL_POST_STATS, SL_POST_WHOLE } post;
	/* BATCHNORM, what is left of it. STATS: forward only takes statistics (out.data is NULL); backward finds the
	 * parameters' gradients done, and makes din of them. APPLY: forward finds the statistics taken; backward only
	 * makes the parameters' gradients (din[0].data is NULL). */
	enum sl_half { SL_HALF_BOTH, SL_HALF_STATS, SL_HALF_APPLY } half;
};

/* How a loss takes its labels. All 0: each row's loss is -log p(label). */
struct sl_xent_rule {
	float smoothing; /* 0 … 1: this share of every target falls to all classes alike, the rest to the label */
	bool ignores;    /* rows whose label is `ignored` count for nothing: no loss, no gradient, never correct */
	int32_t ignored; /* any number */
	/* Of mixed rows: `share` [N] of the target is at the label, the rest at the `other` one [N]. Host order,
	 * checked as labels are; NULL: all of it is at the label. */
	const int32_t *other;
	const float *share;
	/* [K], host; NULL: all 1. Of XENT the share of each class in a target is multiplied by its weight, as torch's
	 * `weight` does before the mean; of MSE with BCE it is pos_weight. */
	const float *weight;
	float dice; /* what the Dice loss of a picture counts beside the cross-entropy of a pixel */
};

/* Rows of logits, each with a label: [N, K] or [N, H, W, K]. */
static inline int64_t sl_xent_rows(const struct sl_shape *logits)
{
	return sl_shape_count(logits) / logits->dim[logits->ndim - 1];
}

/* A parameter in 16 bits: IEEE half, or else bfloat16. Data NULL: it is none. */
struct sl_held {
	const uint16_t *data;
	bool f16;
};

/* One call of a kernel for one chunk: what forward, backward and commit read. Pointers are in the backend's memory,
 * shapes have the chunk's rows: at most those that `op` was prepared for. */
struct sl_op_call {
	struct sl_backend *be;
	const struct sl_op *op;
	void *state; /* what `prepare` left */
	/* Forward writes `out` whole, and never reads it. Backward has in[] and out as forward had them, as far as op.h
	 * says that they are saved; else their data is NULL. It reads dout (XENT has none), and writes din[i] unless
	 * that one's data is NULL: nobody wants it. With din_add[i] it adds to din[i] instead. In commit all data is
	 * NULL, and the shapes say what the chunk was. */
	struct sl_tensor in[SL_OP_MAX_IN], out;
	struct sl_tensor dout, din[SL_OP_MAX_IN];
	bool din_add[SL_OP_MAX_IN];
	/* Rows and tokens of the chunk; begin in the backend's memory, where anything of the part is per token. */
	struct sl_dims dims;
	struct sl_rng_key rng;         /* seed, step, chunk, op->stream: dropout draws element i of its output */
	bool training;                 /* false: batchnorm uses running statistics, dropout passes through */
	float *param[SL_OP_MAX_PARAM]; /* in the order of op.h */
	/* Of a kernel that `takes_held`, in place of param[0], which is NULL: its numbers in 16 bits. */
	struct sl_held held;
	/* Of the same shapes; backward adds to them. NULL: not wanted, as of running statistics and of what is frozen.
	 */
	float *grad[SL_OP_MAX_PARAM];
	/* Where op->precision is of 16 bits: the parameters once more, as such; else NULL. Biases and what batchnorm
	 * has are read from `param`. */
	const void *param_low[SL_OP_MAX_PARAM];
	/* Where dims.cached is not NULL: of this op, for each row of the cache cache_bytes, which last from
	 * pass to pass. */
	void *cache;
	void *saved;     /* kernel's own `saved_bytes` of this op and chunk, kept forward → backward → commit */
	void *workspace; /* scratch of this call, at least `workspace_bytes`, contents undefined */
	/* What this call does of other ops, or leaves to them; and the calls of those, without tensors. */
	struct sl_exec_form form;
	const struct sl_op_call *pre, *post; /* NULL where `form` has NONE */
	/* Losses only, labels of XENT: */
	struct sl_xent_rule rule;
	const int32_t *labels; /* [N], host order checked before: 0 ≤ label < K, or ignored */
	const float *targets;  /* [N, K], host; MSE; NULL: all are 0 */
	float loss_scale;      /* 1/rows that the loss averages over; gradient of logits is multiplied by it */
	double *loss_sum;      /* host; forward stores the sum of the losses of this chunk's rows */
	int64_t *correct;      /* host; forward stores how many rows have their largest logit at the label; 0 of MSE */
};

struct sl_op_sizes {
	size_t workspace_bytes; /* shared by all ops of a segment */
	size_t saved_bytes;     /* per op and chunk in flight */
	size_t cache_bytes;     /* per op and row of the cache, where there is one; 0: the kernel has none */
	size_t state_bytes;     /* per op, in host memory: what `start` will make */
};

/* What `prepare` is asked, and what it answers: `state` and `sizes`, which are zero before. `start` gets back what
 * `prepare` has answered. */
struct sl_op_prepare {
	struct sl_backend *be;
	const struct sl_op *op;   /* in_shape[*].dim[0]: the most rows of a chunk */
	struct sl_exec_form form; /* of all its calls */
	int64_t row_tokens;       /* that a row of the plan has at most; 0: op->most */
	struct sl_fail *fail;
	void *state;
	struct sl_op_sizes sizes;
};

struct sl_kernel {
	/* Once, at plan time. On failure there is no state to release. NULL: nothing to prepare, and all sizes are 0.
	 */
	enum sl_err (*prepare)(struct sl_op_prepare *p);
	/* Once, behind prepare, when there is room for sizes.state_bytes: makes the part of the state whose size or
	 * time a peer chooses, and gives way meanwhile. On failure p->state is still what prepare left. NULL: there is
	 * no such part. Not of an op that narrows. */
	enum sl_err (*start)(struct sl_op_prepare *p);
	void (*release)(void *state); /* NULL where there is no state; a state of NULL is fine */
	enum sl_err (*forward)(const struct sl_op_call *call);
	/* Parameter gradients are always added. */
	enum sl_err (*backward)(const struct sl_op_call *call);
	/* At commit(step), once per chunk in chunk order, for state that a step changes (BN running statistics, from
	 * `saved`). NULL where there is none. */
	enum sl_err (*commit)(const struct sl_op_call *call);
	/* Whether calls of this op may have that form (rewrite.h asks). NULL: none but the one that is all 0. */
	bool (*takes)(const struct sl_op *op, struct sl_exec_form form);
	bool takes_held; /* parameter 0 in 16 bits, in host memory; else the executor makes fp32 of it */
};

/* Both, for callers that count no memory. */
static inline enum sl_err sl_kernel_open(const struct sl_kernel *k, struct sl_op_prepare *p)
{
	enum sl_err err = k->prepare ? k->prepare(p) : SL_OK;

	return err || !k->start ? err : k->start(p);
}

/* ---- one pass */

/* What an executor computes for one chunk. What it queues depends on these alone, step excepted: of that, the
 * randomness of dropout. */
enum sl_pass_kind { SL_PASS_FORWARD, SL_PASS_BACKWARD, SL_PASS_COMMIT };
struct sl_pass {
	const void *owner; /* the executor */
	enum sl_pass_kind kind;
	int slot;
	bool training;
	int64_t rows;
	int64_t width_in, width_out; /* floats of a row at the segment's ends */
	uint64_t step;
};
/* PLAIN: compute it. RECORD: compute it, then call pass_end. DONE: it is queued as it was recorded. */
enum sl_pass_way { SL_PASS_PLAIN, SL_PASS_RECORD, SL_PASS_DONE };

/* ---- the backend */

struct sl_backend_ops {
	const char *name; /* "ref", "cpu", "cuda" */
	enum sl_err (*alloc)(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail); /* zeroed */
	void (*free)(struct sl_backend *be, void *ptr);
	/* What alloc can give out now, and at most while nobody else, this process included, uses the device. NULL:
	 * memory is the host's, which does not say. */
	enum sl_err (*free_bytes)(struct sl_backend *be, uint64_t *left, uint64_t *all);
	/* Both return when done. */
	enum sl_err (*upload)(struct sl_backend *be, void *dst, const void *host_src, size_t bytes);
	enum sl_err (*download)(struct sl_backend *be, void *host_dst, const void *src, size_t bytes);
	enum sl_err (*zero)(struct sl_backend *be, void *dst, size_t bytes);
	/* Calls done(arg) once everything queued before is complete, on a thread of the backend; a CPU backend calls it
	 * at once. Those of one backend are called in order. */
	enum sl_err (*fence)(struct sl_backend *be, void (*done)(void *arg), void *arg);
	/* Optional, with `fence`: work of one task may be queued while that of another is under way, and copies to and
	 * from locked host memory run beside it (the queue_… functions of codec stages). */
	bool ahead;
	/* Optional, all or none, where work is queued. A mark notes when all that was queued before it is done; seconds
	 * from one to another, once a fence behind both has passed, or all is known to be done. mark_close takes NULL.
	 */
	enum sl_err (*mark_open)(struct sl_backend *be, void **mark);
	enum sl_err (*mark)(struct sl_backend *be, void *mark);
	enum sl_err (*between)(struct sl_backend *be, const void *from, const void *to, double *seconds);
	void (*mark_close)(struct sl_backend *be, void *mark);
	/* One step of an optimizer (optimizer.h). weight, grad, moment[i]: [count] each, one range over all parameters
	 * of a segment; as many moments as the kind has, the others NULL. grad is read. Queued. */
	enum sl_err (*update)(struct sl_backend *be, const struct sl_update *update, int64_t count, float *weight,
			      const float *grad, float *const moment[SL_MOMENTS_MOST]);
	/* Precisions beside FP32 that kernels compute in: bits 1 << enum sl_precision. */
	unsigned precisions;
	/* With precisions of 16 bits: out [count], of type `to`, = x [count], of type `from`, × *scale; both types F32,
	 * F16 or BF16. `scale` in the backend's memory, read when the work is done; NULL: 1. out = x where the types
	 * are as wide. Beyond a type's range lies Inf. Queued. */
	enum sl_err (*convert)(struct sl_backend *be, void *out, enum sl_dtype to, const void *x, enum sl_dtype from,
			       const float *scale, int64_t count);
	/* *finite: none of x [count] is NaN or Inf. Returns when that is known. NULL: it is found out on the host. */
	enum sl_err (*finite)(struct sl_backend *be, const float *x, int64_t count, bool *finite);
	const struct sl_kernel *kernel[SL_OP_COUNT]; /* NULL: the plan refuses the op on this backend */
	/* Optional, both or neither: page-locked host memory, zeroed, which uploads and downloads reach at the full
	 * rate of the bus, and without a copy of their own. NULL: ordinary memory is as good. host_free takes NULL. */
	enum sl_err (*host_alloc)(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail);
	void (*host_free)(struct sl_backend *be, void *ptr);
	/* Codec stages of a backend whose memory is not the host's, NULL-terminated. NULL: the portable ones. They may
	 * lack methods and options: then sl_codec_open says UNAVAILABLE, and the host has to code. */
	const struct sl_codec_stage *const *codec_stages;
	/* Optional, with codec_stages, for error feedback: out [count] = a + sign·b, sign 1 or -1; queued. NULL: codecs
	 * with feedback are UNAVAILABLE. */
	enum sl_err (*combine)(struct sl_backend *be, float *out, const float *a, const float *b, float sign,
			       int64_t count);
	/* Of a backend whose memory is not the host's, optional: sum [count] += x; queued. NULL: plans with chunk_sums
	 * are refused. */
	enum sl_err (*add)(struct sl_backend *be, float *sum, const float *x, int64_t count);
	/* Faster loops for the portable stages, chosen for this CPU. NULL: the portable ones. */
	const struct sl_codec_loops *(*codec_loops)(void);
	/* Optional, all or none: passes that are recorded once, and then launched as one. Between pass_begin with
	 * RECORD and pass_end only kernels of the pass are called; `recorded` is what they said. pass_end: DONE, or
	 * PLAIN: nothing was computed, do it now. pass_forget: before memory of the owner's passes goes, on any thread,
	 * but none of its own passes is under way. */
	enum sl_err (*pass_begin)(struct sl_backend *be, const struct sl_pass *pass, enum sl_pass_way *way);
	enum sl_err (*pass_end)(struct sl_backend *be, enum sl_err recorded, enum sl_pass_way *way);
	void (*pass_forget)(struct sl_backend *be, const void *owner);
	/* Optional: the device has reported an error that stays, and every call says DEVICE until the process has
	 * started again. Any thread. NULL: there is no such error. */
	bool (*failed)(const struct sl_backend *be);
	void (*close)(struct sl_backend *be);
};

struct sl_backend {
	const struct sl_backend_ops *ops;
	struct sl_pool *pool; /* not owned; NULL: single-threaded */
	bool host_memory;     /* its tensors can be read and written by the host directly */
	/* Of tests: so many bytes of logits at a time (SL_PRE_LINEAR), of any number of classes. 0: SL_LOGIT_BYTES,
	 * where there are more than SL_LOGITS_FEW. */
	size_t logit_bytes;
	bool recompute; /* executors compute activations again where that takes less memory (sl_exec_recompute) */
	void *impl;
};

#endif
