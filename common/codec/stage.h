/* The table that one method of compression fills, and the services that the chain gives it.
 *
 * A chain is  transform* quantizer? bytes?  :
 *   transform  tensor → side bytes (places, say) and fewer values
 *   quantizer  values → bytes; left out, it is `none`: the values as they are
 *   bytes      bytes → bytes
 * The chain owns the payload's frame (header, sizes, order of parts: docs/CODECS.md) and calls the stages in turn. In
 * decoding, every stage first checks its part; only then is anything written.
 *
 * The portable stages work on host memory; their heavy loops come from loops.h. A backend whose tensors live elsewhere
 * supplies stages of its own, with the same ids and payloads (sl_backend_ops.codec_stages). Then x and y are pointers
 * of that backend, and values between stages are in its memory. Such a stage fills its id and the members from `size`
 * on; the portable stage has the rest. Side bytes and payloads are always in host memory, side bytes in page-locked
 * memory of the backend. */
#ifndef SL_CODEC_STAGE_H
#define SL_CODEC_STAGE_H

#include <math.h>

#include "common/base/args.h"
#include "common/base/memory.h"
#include "common/base/pool.h"
#include "common/codec/codec.h"
#include "common/codec/extent.h"
#include "common/codec/loops.h"

enum sl_stage_kind { SL_STAGE_TRANSFORM, SL_STAGE_QUANTIZER, SL_STAGE_BYTES };

enum sl_stage_id {
#define SL_STAGE_ROW(KIND, id, ...) SL_STAGE_ID_##KIND = (id),
#include "common/codec/stages.def"
};

struct sl_stage_env {
	struct sl_backend *be;
	const struct sl_codec_loops *loops;
	struct sl_pool *pool;
	struct sl_extent most; /* largest input; begin is NULL */
	int slots;
	uint64_t seed;
	enum sl_dir dir;
	const double *arg;
	void *pair; /* state of the same stage of the activation's codec, or NULL */
	enum sl_dir pair_dir;
	/* The transform in front, if this stage `finishes` and that one has restore_run; else NULL. inverse then
	 * passes its runs to front->restore_run, which writes x. */
	const struct sl_codec_stage *front;
	void *front_state;
	bool scratch; /* quantizer: its tensors are memory of the chain, which the next call overwrites */
};

struct sl_codec_stage {
	uint16_t id;
	enum sl_stage_kind kind;
	bool pairs;        /* a gradient can be paired with its activation: same places, or downsample's adjoint */
	bool keeps_places; /* transform: one value for every element, in its place; a later stage can be paired */
	bool finishes;     /* transform: inverse can do that of env->front, too */
	bool variable;     /* how many values remain depends on the tensor; no stage behind it needs their shape */
	const char *name;
	const char *usage; /* "quant:b with b = 1…16" */
	const struct sl_arg *args;

	/* Checks what the ranges of arguments cannot express. `channels`, `samples`: the input still has those of
	 * the tensor. NULL: nothing to check. */
	enum sl_err (*check)(const double *arg, bool channels, bool samples, struct sl_fail *fail);
	/* Whether the stage, with these arguments, needs to know where a sample begins. NULL: never. A backend has
	 * no such stage for tensors whose samples have different lengths. */
	bool (*by_sample)(const double *arg);
	/* Whether error feedback behind it stays bounded: of n values it loses less than it is given, measured as
	 * their mean 2-norm or their largest magnitude. NULL: always. `instead`: what to write if not, appended to
	 * the message. */
	bool (*contracts)(const double *arg, const struct sl_extent *in);
	const char *instead;
	/* Whether a token is coded by itself (sl_codec_by_token). NULL: never. */
	bool (*by_token)(const double *arg, int64_t features);
	/* Quantizer: the index of the argument that is 1 where a byte stage follows. No text gives it. 0: there is
	 * none. */
	int follows_arg;
	/* Quantizer: by variant of a codec, the index of the argument that takes the place of the first one. 0: none.
	 */
	int variant_arg[SL_CODEC_VARIANTS];
	bool keeps_channels, keeps_samples; /* transform: the last dimension, dim[0], keep their meaning */

	/* Transform: the largest output for this input. `begin` [in->rows + 1] is memory for out->begin, if lengths
	 * change; NULL if in->begin is NULL. */
	void (*shape)(const double *arg, const struct sl_extent *in, struct sl_extent *out, uint32_t *begin);
	/* The most bytes: of side bytes (transform), of the payload (quantizer), of dim[0] packed bytes (bytes). If
	 * lengths are not known: for any lengths. */
	size_t (*bound)(const double *arg, bool paired, const struct sl_extent *in);
	/* Quantizer: bytes as papers count them. */
	double (*nominal)(const double *arg, const struct sl_extent *in);

	/* Bytes of the state. The chain allocates it zeroed, in *state, before open, and frees it after close. 0:
	 * there is no state, or open allocates it and close frees it. */
	size_t size;
	/* Adds the memory that open and, for SL_CODEC_KEEPS, keep take besides. env->pair and env->front are not
	 * set. NULL: none. */
	void (*memory)(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need);
	/* NULL: no state. If it fails, a state that exists is closed. */
	enum sl_err (*open)(void **state, const struct sl_stage_env *env, struct sl_fail *fail);
	void (*close)(void *state); /* NULL: nothing to do */
	/* Called on the activation's stage when a gradient is paired with it: keep places by slot from now on. */
	enum sl_err (*keep)(void *state, struct sl_fail *fail);
	void (*commit)(void *state); /* NULL: nothing to do */
	void (*rollback)(void *state);
	/* The committed state, for checkpoints. state_bytes: its most bytes. save: appends it. load: takes it off
	 * the front of *in; DATA if that is not a state of this stage, which is then as after open. NULL: the stage
	 * has none. state_most: an upper bound of state_bytes, before open. */
	size_t (*state_most)(const struct sl_stage_env *env);
	size_t (*state_bytes)(const void *state);
	enum sl_err (*save)(const void *state, struct sl_buf *out);
	enum sl_err (*load)(void *state, struct sl_bytes *in);

	/* Transform. forward: writes y, *ys and *side; NONFINITE. parse: checks side bytes for `count` values, and
	 * sets *ys. Both get *ys as shape() makes it from *xs. inverse: writes all of x. It is called after parse of
	 * the same call or, for error feedback on a device, after forward. */
	enum sl_err (*forward)(void *state, const struct sl_codec_call *call, const float *x,
			       const struct sl_extent *xs, sl_f32u *y, struct sl_extent *ys, struct sl_buf *side);
	enum sl_err (*parse)(void *state, const struct sl_codec_call *call, struct sl_bytes side, int64_t count,
			     const struct sl_extent *xs, struct sl_extent *ys, struct sl_fail *fail);
	enum sl_err (*inverse)(void *state, const struct sl_codec_call *call, const sl_f32u *y,
			       const struct sl_extent *ys, float *x, const struct sl_extent *xs);
	/* keeps_places: inverse of elements first … first+n-1, with which y and x begin, while y is in the caches.
	 * Several threads may call it at once; sl_codec_settle follows. NULL: only inverse as a whole. */
	void (*restore_run)(const void *state, const sl_f32u *y, int64_t first, int64_t n, float *x);

	/* Quantizer. encode appends at most bound() bytes. decode checks all of `in` before it writes x. */
	enum sl_err (*encode)(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			      struct sl_buf *out);
	enum sl_err (*decode)(void *state, const struct sl_codec_call *call, struct sl_bytes in, float *x,
			      const struct sl_extent *xs, struct sl_fail *fail);

	/* A backend whose tensors live elsewhere may return when the work is queued, from all of the above and, in
	 * place of encode and decode, from these. Host memory of the call (`in`, side bytes, what was appended to
	 * `out`) then belongs to the stage until collect. collect waits for what is queued for this slot, if
	 * anything, and returns its error. `of`: the side bytes of a transform, or what a quantizer appended;
	 * afterwards its length is right, even if only the device knew it. NULL: a decoding. Calls for other slots
	 * may come between. `finite`: NaN and Inf are NONFINITE even if the method could carry them. If a payload
	 * turns out to be malformed, the output of decode or inverse is as before or, behind another stage,
	 * undefined. */
	enum sl_err (*queue_encode)(void *state, const struct sl_codec_call *call, const float *x,
				    const struct sl_extent *xs, const uint32_t *count, bool finite, struct sl_buf *out);
	enum sl_err (*queue_decode)(void *state, const struct sl_codec_call *call, struct sl_bytes in, float *x,
				    const struct sl_extent *xs, struct sl_fail *fail);
	enum sl_err (*collect)(void *state, const struct sl_codec_call *call, struct sl_buf *of, struct sl_fail *fail);
	/* For a variable transform whose forward leaves *ys at the most, because only the device will know the
	 * number of values. count: where on the device that number will be, for queue_encode, which then gets the
	 * most values as xs; NULL if *ys has it. counted: the number, after collect. `out` is then page-locked
	 * memory of the backend, and what is appended begins at a multiple of 8. */
	const uint32_t *(*count)(const void *state);
	int64_t (*counted)(const void *state, const struct sl_codec_call *call);
	/* After queue_encode, for error feedback: writes to x what decode will make of that payload, from data of
	 * the device. */
	enum sl_err (*echo)(void *state, float *x, const struct sl_extent *xs);

	/* Bytes. unpack: PAYLOAD if the result would pass out->cap. */
	enum sl_err (*pack)(void *state, struct sl_bytes in, struct sl_buf *out);
	enum sl_err (*unpack)(void *state, struct sl_bytes in, struct sl_buf *out, struct sl_fail *fail);
};

static inline int64_t sl_stage_threads(const struct sl_stage_env *env)
{
	return env->pool == NULL ? 1 : sl_pool_threads(env->pool);
}

/* NULL if no stage has this name. */
const struct sl_codec_stage *sl_codec_stage_find(const char *name, size_t len);

/* How many of n elements a share keeps: at least one, if there are any. */
static inline int64_t sl_codec_kept(double share, int64_t n)
{
	int64_t k = llrint(share * (double)n);

	return k < 1 ? n > 0 : k > n ? n : k;
}

/* The range of quant's codes that are `step` apart, and among which is zero. */
static inline struct sl_range sl_codec_change_range(int bits, float step)
{
	const int levels = (1 << bits) - 1, zero = levels / 2;

	return (struct sl_range){-(float)zero * step, (float)(levels - zero) * step, 0};
}

/* Blocks of SL_CODEC_BLOCK in n elements. */
static inline int64_t sl_codec_blocks(int64_t n)
{
	return (n + SL_CODEC_BLOCK - 1) / SL_CODEC_BLOCK;
}

/* The random stream of a quantizer or of a transform: they differ, so that both can be in one chain. */
static inline struct sl_rng_key sl_codec_key(uint64_t seed, enum sl_dir dir, const struct sl_codec_call *call,
					     enum sl_stage_kind kind)
{
	int stream = SL_RNG_CODEC + (int)dir + (kind == SL_STAGE_TRANSFORM ? SL_DIR_COUNT : 0);

	return (struct sl_rng_key){seed, call->step, call->chunk, (uint16_t)stream};
}

#endif
