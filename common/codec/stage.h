/* The table that one method of compression fills, and the services that the chain gives it.
 *
 * A chain is  transform* quantizer? bytes?  :
 *   transform  tensor → side bytes (places, say) and fewer values
 *   quantizer  values → bytes; left out, it is `none`: the values as they are
 *   bytes      bytes → bytes
 * The chain owns the payload's frame (header, sizes, order of parts: docs/CODECS.md) and calls the stages in turn. To
 * decode, every stage first checks its part; only then does the last one of them write.
 *
 * The portable stages work on host memory, their heavy loops come from loops.h. A backend whose tensors live elsewhere
 * supplies stages of its own, of the same ids and payloads (sl_backend_ops.codec_stages); then x, y are its pointers,
 * and its memory holds what passes between stages. Such a stage fills its id and the functions from `open` on: the rest
 * is the portable one's. Side bytes and payloads are always in host memory, side bytes in the backend's locked one.
 */
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

/* On the wire: never reused. */
enum sl_stage_id {
	SL_STAGE_ID_NONE = 1,
	SL_STAGE_ID_F16 = 2,
	SL_STAGE_ID_BF16 = 3,
	SL_STAGE_ID_QUANT = 4,
	SL_STAGE_ID_SORTQUANT = 5,
	SL_STAGE_ID_TERNGRAD = 6,
	SL_STAGE_ID_QSGD = 7,
	SL_STAGE_ID_NORMAL = 8,
	SL_STAGE_ID_TOPK = 16,
	SL_STAGE_ID_RANDOMK = 17,
	SL_STAGE_ID_THRESHOLD = 18,
	SL_STAGE_ID_LOWRANK = 19,
	SL_STAGE_ID_DOWNSAMPLE = 20,
	SL_STAGE_ID_CELLS = 21,
	SL_STAGE_ID_ADAPTIVE = 22,
	SL_STAGE_ID_HADAMARD = 23,
	SL_STAGE_ID_ZSTD = 32
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
	/* The transform in front, where both allow it (finishes, restore_run), or NULL: inverse then hands it its runs
	 * instead of writing x, which is that transform's. */
	const struct sl_codec_stage *front;
	void *front_state;
	bool scratch; /* quantizer: its tensors are memory of the chain, which the next call writes to */
};

struct sl_codec_stage {
	uint16_t id;
	enum sl_stage_kind kind;
	bool pairs;        /* a gradient can use the places of its activation */
	bool keeps_places; /* transform: one value for every element, in its place; a stage behind it can be paired */
	bool finishes;     /* transform: inverse serves env->front */
	bool variable;     /* how many values remain depends on the tensor; no stage behind it needs their shape */
	const char *name;
	const char *usage; /* "quant:b with b = 1…16" */
	const struct sl_arg *args;

	/* What ranges cannot say; `in` is true where the input still has the tensor's channels and samples. NULL: fine.
	 */
	enum sl_err (*check)(const double *arg, bool channels, bool samples, struct sl_fail *fail);
	/* Whether with these arguments it asks where a sample begins. NULL: never. A backend's stage is not for tensors
	 * whose samples have different lengths, where this is true. */
	bool (*by_sample)(const double *arg);
	/* Whether error feedback behind it stays bounded: of n values it loses less than it is given, measured as their
	 * 2-norm in the mean or as their largest magnitude. NULL: always. `instead`: more of what to write where not.
	 */
	bool (*contracts)(const double *arg, int64_t n);
	const char *instead;
	/* Whether a token is coded by itself (sl_codec_by_token). NULL: not. */
	bool (*by_token)(const double *arg, int64_t features);
	bool keeps_channels, keeps_samples; /* transform: dim[0] and the last dimension mean what they meant before */

	/* Largest output for this input. Transform only. `begin` [in->rows + 1], NULL where in->begin is: for
	 * out->begin, where lengths change. */
	void (*shape)(const double *arg, const struct sl_extent *in, struct sl_extent *out, uint32_t *begin);
	/* Most bytes: side (transform), payload (quantizer), or of a packed run of dim[0] bytes (bytes). Where lengths
	 * are not known, for any of them. */
	size_t (*bound)(const double *arg, bool paired, const struct sl_extent *in);
	/* As a paper counts them; quantizer only. */
	double (*nominal)(const double *arg, const struct sl_extent *in);

	/* A backend's: UNAVAILABLE where it has not these options. NULL: it has all. */
	enum sl_err (*offers)(const struct sl_backend *be, const double *arg, struct sl_fail *fail);
	/* Bytes of the state, zeroed, that *state points to where open is called, and that is freed behind close. 0: it
	 * has none, or open makes its own and close frees it. */
	size_t size;
	/* Adds what open, and keep with KEEPS, will take besides. env->pair, env->front: not set. NULL: nothing. */
	void (*memory)(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need);
	/* NULL: no state. Where it fails with a state, that is closed. */
	enum sl_err (*open)(void **state, const struct sl_stage_env *env, struct sl_fail *fail);
	void (*close)(void *state); /* NULL: nothing to do */
	/* Called on the activation's stage when a gradient is paired with it: keep places by slot from now on. */
	enum sl_err (*keep)(void *state, struct sl_fail *fail);
	void (*commit)(void *state); /* NULL: nothing to do */
	void (*rollback)(void *state);
	/* The committed state for checkpoints: most bytes; appends it; takes it off the front of *in (DATA where it is
	 * not a state of this stage, which is then as after open). NULL: the stage has none. */
	size_t (*state_bytes)(const void *state);
	enum sl_err (*save)(const void *state, struct sl_buf *out);
	enum sl_err (*load)(void *state, struct sl_bytes *in);

	/* Transform. forward: NONFINITE, or OK with *ys and *side written. parse: checks side bytes for `count` values,
	 * sets *ys. To both *ys comes as shape() makes it of *xs. inverse: writes all of x; called after parse of the
	 * same call. */
	enum sl_err (*forward)(void *state, const struct sl_codec_call *call, const float *x,
			       const struct sl_extent *xs, sl_f32u *y, struct sl_extent *ys, struct sl_buf *side);
	enum sl_err (*parse)(void *state, const struct sl_codec_call *call, struct sl_bytes side, int64_t count,
			     const struct sl_extent *xs, struct sl_extent *ys, struct sl_fail *fail);
	enum sl_err (*inverse)(void *state, const struct sl_codec_call *call, const sl_f32u *y,
			       const struct sl_extent *ys, float *x, const struct sl_extent *xs);
	/* keeps_places: the same for elements first … first+n-1, which y and x start with, while y is in the caches.
	 * For several threads at once; sl_codec_settle behind it. NULL: only as a whole. */
	void (*restore_run)(const void *state, const sl_f32u *y, int64_t first, int64_t n, float *x);

	/* Quantizer. encode appends at most bound() bytes. decode checks all of `in` before it writes x. */
	enum sl_err (*encode)(void *state, const struct sl_codec_call *call, const float *x, const struct sl_extent *xs,
			      struct sl_buf *out);
	enum sl_err (*decode)(void *state, const struct sl_codec_call *call, struct sl_bytes in, float *x,
			      const struct sl_extent *xs, struct sl_fail *fail);

	/* A backend whose tensors live elsewhere may return when the work is queued, from all of the above and, in
	 * place of encode and decode, from these. Host memory of the call (`in`, side bytes, what was appended to
	 * `out`) is then theirs until collect. That waits, and says what has come of it, if anything was queued for
	 * this slot. `of`: the side bytes of a transform, what a quantizer appended; its length, where only the device
	 * knew it, is right behind it; NULL: of a decoding. Calls for other slots may come between. With `finite`
	 * NONFINITE also where the method could carry it. Where a payload turns out to be none, what decode or inverse
	 * was told to write is as before, or behind another stage, undefined. */
	enum sl_err (*queue_encode)(void *state, const struct sl_codec_call *call, const float *x,
				    const struct sl_extent *xs, const uint32_t *count, bool finite, struct sl_buf *out);
	enum sl_err (*queue_decode)(void *state, const struct sl_codec_call *call, struct sl_bytes in, float *x,
				    const struct sl_extent *xs, struct sl_fail *fail);
	enum sl_err (*collect)(void *state, const struct sl_codec_call *call, struct sl_buf *of, struct sl_fail *fail);
	/* A variable transform's, whose forward may leave *ys as it was, the most: where on the device the number of
	 * values will be, for queue_encode, which is then given the most values as xs; NULL where *ys says it. And that
	 * number, once the call has been collected. `out` is the backend's locked memory then, and what is appended
	 * begins at a multiple of 8. */
	const uint32_t *(*count)(const void *state);
	int64_t (*counted)(const void *state, const struct sl_codec_call *call);
	/* Behind queue_encode, for error feedback: what decode will make of that payload, from what the device has of
	 * it. */
	enum sl_err (*echo)(void *state, float *x, const struct sl_extent *xs);

	/* Bytes. unpack: PAYLOAD where the result would pass out->cap. */
	enum sl_err (*pack)(void *state, struct sl_bytes in, struct sl_buf *out);
	enum sl_err (*unpack)(void *state, struct sl_bytes in, struct sl_buf *out, struct sl_fail *fail);
};

static inline int64_t sl_stage_threads(const struct sl_stage_env *env)
{
	return env->pool == NULL ? 1 : sl_pool_threads(env->pool);
}

/* NULL where no stage has this id (name). */
const struct sl_codec_stage *sl_codec_stage_find(const char *name, size_t len);

/* Elements that a share of n leaves: at least one, where there are some. */
static inline int64_t sl_codec_kept(double share, int64_t n)
{
	int64_t k = llrint(share * (double)n);

	return k < 1 ? n > 0 : k > n ? n : k;
}

/* Units of work in n elements. */
static inline int64_t sl_codec_blocks(int64_t n)
{
	return (n + SL_CODEC_BLOCK - 1) / SL_CODEC_BLOCK;
}

/* Randomness of a quantizer; a transform's is another stream, so that both can stand in one chain. */
static inline struct sl_rng_key sl_codec_key(uint64_t seed, enum sl_dir dir, const struct sl_codec_call *call,
					     enum sl_stage_kind kind)
{
	int stream = SL_RNG_CODEC + (int)dir + (kind == SL_STAGE_TRANSFORM ? SL_DIR_COUNT : 0);

	return (struct sl_rng_key){seed, call->step, call->chunk, (uint16_t)stream};
}

#endif
