/* The interface of a backend: memory, one kernel per op, the optimizer's update.
 *
 * Threads: all functions of one backend object are called from one thread (the worker), unless stated otherwise. A CPU
 * backend returns when the work is done. A GPU backend may return when it is queued; `fence` reports when it is done.
 * Determinism: the same inputs give the same bits, for any number of threads.
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

/* Fusion: work of neighbouring ops that a kernel does together with its own op's. All 0: none. */
struct sl_exec_form {
	/* CONV2D: which work of the preceding op it does. NORM: in[0] is the *input* x of the preceding batchnorm,
	 * which the convolution normalises and activates while it reads. din is the gradient of the batchnorm's output,
	 * and backward also completes the gradients of the batchnorm's parameters. ACT: in[0] is the input of the
	 * preceding activation, and din the gradient of that input; the activation has no call of its own.
	 * WINDOW: the convolution reads the slices of the preceding window where they are. in[0].data and din[0].data
	 * are those of the window's input; in[0].shape and din[0].shape stay those of its output, which is never in
	 * memory.
	 * ADD: NORM, likewise, for in[0] alone, where the batchnorm has no activation.
	 * XENT: LINEAR means that the executor computes the logits of a block of rows at a time (exec_blocks.c).
	 * Forward replaces in[0], these logits, with their gradient times loss_scale. It saves nothing, and there is no
	 * backward. */
	enum sl_pre { SL_PRE_NONE, SL_PRE_NORM, SL_PRE_ACT, SL_PRE_WINDOW, SL_PRE_LINEAR } pre;
	const struct sl_op *window; /* SL_PRE_WINDOW: that op of the plan, never a way back; else NULL */
	bool window_din;            /* SL_PRE_WINDOW: din is needed */
	/* CONV2D: which work of the following batchnorm it does. STATS: forward also computes the statistics of `out`.
	 * In backward dout is the gradient of the batchnorm's output, from which the kernel first computes that of the
	 * batchnorm's input; it gets `out` for that. WHOLE: all work, if nobody needs din. Forward's out, and
	 * backward's out and dout, are those of the batchnorm, whose input is never in memory.
	 * ADD: ACT, the following activation, all of it. Likewise out and dout are those of the activation. */
	enum sl_post { SL_POST_NONE, SL_POST_STATS, SL_POST_WHOLE, SL_POST_ACT } post;
	/* BATCHNORM: which work is left to its own kernel. STATS: forward only computes statistics (out.data is NULL);
	 * backward gets the finished gradients of the parameters, and computes din from them. APPLY: forward gets the
	 * finished statistics; backward only computes the gradients of the parameters (din[0].data is NULL). */
	enum sl_half { SL_HALF_BOTH, SL_HALF_STATS, SL_HALF_APPLY } half;
};

/* How a loss treats its labels. All 0: each row's loss is -log p(label). */
struct sl_xent_rule {
	float smoothing; /* label smoothing, 0 … 1: this share of a target is spread evenly over all classes */
	bool ignores;    /* rows whose label is `ignored` are left out: no loss, no gradient, never correct */
	int32_t ignored; /* any number */
	/* For mixed rows: `share` [N] of the target is at the label, the rest at the `other` label [N]. In host memory,
	 * and checked as labels are. NULL: all of the target is at the label. */
	const int32_t *other;
	const float *share;
	/* [K], host memory; NULL: all 1. XENT multiplies each class' share of a target by its weight, as torch's
	 * `weight` does before the mean. For MSE with BCE it is pos_weight. */
	const float *weight;
	float dice; /* factor on each picture's Dice loss in the sum, where each pixel's cross-entropy counts once */
};

/* Number of rows of logits, [N, K] or [N, H, W, K]; each has a label. */
static inline int64_t sl_xent_rows(const struct sl_shape *logits)
{
	return sl_shape_count(logits) / logits->dim[logits->ndim - 1];
}

/* A parameter that is held in 16 bits: IEEE half if f16, else bfloat16. data NULL: there is none. */
struct sl_held {
	const uint16_t *data;
	bool f16;
};

/* The arguments of forward, backward and commit, for one op and one chunk. Pointers are to the backend's memory. Shapes
 * have the chunk's rows, at most as many as `op` was prepared for. */
struct sl_op_call {
	struct sl_backend *be;
	const struct sl_op *op;
	void *state; /* from `prepare` and `start` */
	/* Forward writes all of `out`, and never reads it. Backward gets in[] and out as in forward if they are saved
	 * (op.h); else their data is NULL. It reads dout, which a loss lacks. It writes din[i], or adds to it if
	 * din_add[i]; if its data is NULL, nobody needs that gradient. In commit all data is NULL, and only the shapes
	 * count. */
	struct sl_tensor in[SL_OP_MAX_IN], out;
	struct sl_tensor dout, din[SL_OP_MAX_IN];
	bool din_add[SL_OP_MAX_IN];
	/* Rows and tokens of the chunk. If the segment has per-token values, its arrays are in the backend's memory. */
	struct sl_dims dims;
	struct sl_rng_key rng;         /* seed, step, chunk, op->stream: dropout draws element i of its output */
	bool training;                 /* false: batchnorm uses running statistics, dropout passes through */
	float *param[SL_OP_MAX_PARAM]; /* in the order of op.h */
	/* Parameter 0 in 16 bits, if it is held so and the kernel has `takes_held`; param[0] is then NULL. */
	struct sl_held held;
	/* Gradients, of the parameters' shapes; backward adds to them. NULL: not needed, as for running statistics and
	 * frozen parameters. */
	float *grad[SL_OP_MAX_PARAM];
	/* If op->precision is a 16-bit one: copies of the parameters in that type; else NULL. Kernels read biases and
	 * batchnorm's parameters from `param`. */
	const void *param_low[SL_OP_MAX_PARAM];
	/* If dims.cached is not NULL: this op's cache of keys and values, cache_bytes for each row of the cache. It is
	 * kept from pass to pass. */
	void *cache;
	void *saved;     /* kernel's own `saved_bytes` of this op and chunk, kept forward → backward → commit */
	void *workspace; /* scratch of this call, at least `workspace_bytes`, contents undefined */
	/* Which work of its op and the op's neighbours this call does; the neighbours' arguments, without tensors. */
	struct sl_exec_form form;
	const struct sl_op_call *pre, *post; /* NULL if `form` has NONE */
	/* The rest is for losses: */
	struct sl_xent_rule rule;
	const int32_t *labels; /* XENT: [N], host memory; the caller has checked 0 ≤ label < K, or ignored */
	const float *targets;  /* MSE: [N, K], host memory; NULL: all are 0 */
	float loss_scale;      /* factor on the gradient of the logits: 1 / rows that the loss averages over */
	double *loss_sum;      /* host; forward stores the sum of the losses of this chunk's rows */
	double *dice_sum; /* host; forward stores the sum of the pictures' Dice losses, if there are any. NULL: no */
	int64_t *correct; /* host; forward stores how many rows have their largest logit at the label; 0 for MSE */
};

struct sl_op_sizes {
	size_t workspace_bytes; /* of one area that all ops of a segment share */
	size_t saved_bytes;     /* per op and chunk in flight */
	size_t cache_bytes;     /* per op and row of the cache, if there is one; 0: the kernel has no cache */
	size_t state_bytes;     /* per op, in host memory: what `start` will allocate */
};

/* Arguments of `prepare`, and its results `state` and `sizes`, which are zero before. `start` gets `state` back, and
 * may change it. */
struct sl_op_prepare {
	struct sl_backend *be;
	const struct sl_op *op;   /* in_shape[*].dim[0]: the most rows of a chunk */
	struct sl_exec_form form; /* the form of all calls */
	int64_t row_tokens;       /* tokens of a row at most in this plan; 0: op->most */
	struct sl_fail *fail;
	void *state;
	struct sl_op_sizes sizes;
};

struct sl_kernel {
	/* Called once, when the executor is prepared. On failure there is no state to release. NULL: there is nothing
	 * to prepare, and all sizes are 0. */
	enum sl_err (*prepare)(struct sl_op_prepare *p);
	/* Called once after prepare, when the memory for sizes.state_bytes is granted. Builds the part of the state
	 * whose size or time a peer can choose, and meanwhile lets other jobs run (base/worker.h). On failure p->state
	 * is as prepare left it. NULL: there is no such part. Not called for ops that narrow. */
	enum sl_err (*start)(struct sl_op_prepare *p);
	void (*release)(void *state); /* NULL: there is never a state; a state of NULL is fine */
	enum sl_err (*forward)(const struct sl_op_call *call);
	/* Always adds to the parameters' gradients. */
	enum sl_err (*backward)(const struct sl_op_call *call);
	/* Called once per chunk, in chunk order, when a step is committed: updates state that a step changes (running
	 * statistics of batchnorm, from `saved`). NULL: there is no such state. */
	enum sl_err (*commit)(const struct sl_op_call *call);
	/* Whether the kernel supports that form of this op (rewrite.c asks). NULL: only the form that is all 0. */
	bool (*takes)(const struct sl_op *op, struct sl_exec_form form);
	bool takes_held; /* reads parameter 0 in 16 bits, in host memory; else the executor converts it to fp32 */
};

/* Calls prepare and start, for callers that do not account for memory. */
static inline enum sl_err sl_kernel_open(const struct sl_kernel *k, struct sl_op_prepare *p)
{
	enum sl_err err = k->prepare ? k->prepare(p) : SL_OK;

	return err || !k->start ? err : k->start(p);
}

/* ---- one pass */

/* One pass of an executor over one chunk. The work that it queues depends only on these fields, so a backend may replay
 * a recorded one. `step` affects nothing but the random numbers of dropout. */
enum sl_pass_kind { SL_PASS_FORWARD, SL_PASS_BACKWARD, SL_PASS_COMMIT };
struct sl_pass {
	const void *owner; /* the executor */
	enum sl_pass_kind kind;
	int slot;
	bool training;
	int64_t rows;
	int64_t width_in, width_out; /* floats of a row of the segment's input, and of its output */
	uint64_t step;
};
/* What the executor must do. PLAIN: compute the pass. RECORD: compute it, then call pass_end. DONE: nothing, because
 * the recorded pass has been queued. */
enum sl_pass_way { SL_PASS_PLAIN, SL_PASS_RECORD, SL_PASS_DONE };

/* ---- the backend */

struct sl_backend_ops {
	const char *name; /* "ref", "cpu", "cuda" */
	enum sl_err (*alloc)(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail); /* zeroed */
	void (*free)(struct sl_backend *be, void *ptr);
	/* *left = bytes that alloc can give out now; *all = the same if nobody, this process included, used the device.
	 * NULL: memory is the host's, for which nobody knows. */
	enum sl_err (*free_bytes)(struct sl_backend *be, uint64_t *left, uint64_t *all);
	/* Both return when the copy is complete. */
	enum sl_err (*upload)(struct sl_backend *be, void *dst, const void *host_src, size_t bytes);
	enum sl_err (*download)(struct sl_backend *be, void *host_dst, const void *src, size_t bytes);
	enum sl_err (*zero)(struct sl_backend *be, void *dst, size_t bytes);
	/* Calls done(arg) once everything queued before is complete, on a thread of the backend; a CPU backend calls it
	 * at once. A backend's calls of `done` keep the order of their fences. */
	enum sl_err (*fence)(struct sl_backend *be, void (*done)(void *arg), void *arg);
	/* Optional: the caller may queue the work of one task while that of another is under way. Copies to and from
	 * page-locked host memory then run concurrently (the queue_… functions of codec stages). */
	bool ahead;
	/* Optional, all or none, for backends that queue: marks measure time. A queued mark notes when all work queued
	 * before it is done. `between` gives the seconds from one mark to another, after a fence behind both has passed
	 * or all work is known to be done. mark_close takes NULL. */
	enum sl_err (*mark_open)(struct sl_backend *be, void **mark);
	enum sl_err (*mark)(struct sl_backend *be, void *mark);
	enum sl_err (*between)(struct sl_backend *be, const void *from, const void *to, double *seconds);
	void (*mark_close)(struct sl_backend *be, void *mark);
	/* One step of an optimizer (optimizer.h) on a range of a segment's parameters. weight, grad, moment[i]: [count]
	 * each; as many moments as the optimizer has, the others NULL. grad is only read. Queued. */
	enum sl_err (*update)(struct sl_backend *be, const struct sl_update *update, int64_t count, float *weight,
			      const float *grad, float *const moment[SL_MOMENTS_MOST]);
	/* Precisions other than FP32 in which kernels compute: bits 1 << enum sl_precision. */
	unsigned precisions;
	/* For 16-bit precisions, and for copies in device memory: out [count] of type `to` = x [count] of type `from` ×
	 * *scale. Both types are F32, F16 or BF16. `scale` is in the backend's memory, and is read when the work runs;
	 * NULL: 1. `out` may be `x` if both types have one width. A result beyond the range of `to` is Inf. Queued. */
	enum sl_err (*convert)(struct sl_backend *be, void *out, enum sl_dtype to, const void *x, enum sl_dtype from,
			       const float *scale, int64_t count);
	/* *finite = whether none of x [count] is NaN or Inf. Returns when that is known. NULL: the host must look. */
	enum sl_err (*finite)(struct sl_backend *be, const float *x, int64_t count, bool *finite);
	const struct sl_kernel *kernel[SL_OP_COUNT]; /* NULL: the plan refuses the op on this backend */
	/* Optional, both or neither: page-locked host memory, zeroed. Uploads and downloads of it run at the full rate
	 * of the bus, without a staging copy. NULL: ordinary memory is as good. host_free takes NULL. */
	enum sl_err (*host_alloc)(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail);
	void (*host_free)(struct sl_backend *be, void *ptr);
	/* Codec stages of a backend whose memory is not the host's; the list ends with NULL. NULL: the portable ones.
	 * If a method or option is missing, sl_codec_open returns UNAVAILABLE, and the host must encode and decode. */
	const struct sl_codec_stage *const *codec_stages;
	/* Optional, with codec_stages, for error feedback: out [count] = a + sign·b, sign 1 or -1; queued. NULL: codecs
	 * with feedback are UNAVAILABLE. */
	enum sl_err (*combine)(struct sl_backend *be, float *out, const float *a, const float *b, float sign,
			       int64_t count);
	/* Optional, for a backend whose memory is not the host's: sum [count] += x. Queued. NULL: plans with chunk_sums
	 * or averaged weights, and groups, are refused. */
	enum sl_err (*add)(struct sl_backend *be, float *sum, const float *x, int64_t count);
	/* Faster inner loops for the portable stages, chosen for this CPU. NULL: the portable ones. */
	const struct sl_codec_loops *(*codec_loops)(void);
	/* Optional, all or none: a pass is recorded once, and then launched as a whole. Between pass_begin with RECORD
	 * and pass_end the executor only calls the pass's kernels; `recorded` is the error that they returned. pass_end
	 * gives DONE, or PLAIN: nothing was computed, so compute it now. pass_forget is called on any thread before
	 * memory of the owner's passes is freed; none of them is under way then. */
	enum sl_err (*pass_begin)(struct sl_backend *be, const struct sl_pass *pass, enum sl_pass_way *way);
	enum sl_err (*pass_end)(struct sl_backend *be, enum sl_err recorded, enum sl_pass_way *way);
	void (*pass_forget)(struct sl_backend *be, const void *owner);
	/* Optional: whether the device has reported a permanent error, after which every call returns DEVICE until the
	 * process restarts. Any thread. NULL: there is no such error. */
	bool (*failed)(const struct sl_backend *be);
	void (*close)(struct sl_backend *be);
};

struct sl_backend {
	const struct sl_backend_ops *ops;
	struct sl_pool *pool; /* not owned; NULL: single-threaded */
	bool host_memory;     /* the host can read and write its tensors directly */
	/* For tests: bytes of logits in memory at a time (SL_PRE_LINEAR), for any number of classes. 0: SL_LOGIT_BYTES,
	 * and only with more than SL_LOGITS_FEW classes. */
	size_t logit_bytes;
	bool evaluates; /* executors compute no backward pass, so that activations take less memory */
	bool recompute; /* executors recompute activations if that takes less memory (sl_exec_recompute) */
	void *impl;
};

#endif
