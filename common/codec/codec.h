/* Codecs: what turns an activation or a gradient into the bytes that cross the link, and back.
 *
 * A codec is a chain of stages ("topk:0.2|quant:8|zstd:3"); payload formats are in docs/CODECS.md. Encoding is a
 * function: same tensor, key and state give the same bytes, on every backend and for any number of threads. Decoding
 * never trusts its input: every count, index and size is checked before anything is written, and a payload that is
 * too short or too long is refused.
 *
 * State (places of a pair, residuals of error feedback, warm factors) belongs to the object and is part of the step
 * transaction: it changes at sl_codec_commit only, so a step that is run again gives the same bytes.
 */
#ifndef SL_CODEC_CODEC_H
#define SL_CODEC_CODEC_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/memory.h"
#include "common/base/rng.h"
#include "common/graph/tensor.h"

struct sl_backend;

/* The four tensors of a chunk, in the order in which they cross; the number is also the wire's. */
enum sl_dir { SL_DIR_HEAD_ACT, SL_DIR_MID_ACT, SL_DIR_MID_GRAD, SL_DIR_HEAD_GRAD, SL_DIR_COUNT };

const char *sl_dir_name(enum sl_dir dir); /* "head_act" … */

enum { SL_CODEC_SPEC_MAX = 128, SL_CODEC_MAX_STAGES = 4, SL_CODEC_MAX_ARGS = 6 };

struct sl_codec_stage; /* stage.h: the table that one method fills */

/* A parsed and validated specification. `text` is its canonical form (defaults left out), equal on both sides. */
struct sl_codec_spec {
	char text[SL_CODEC_SPEC_MAX];
	bool error_feedback; /* what was lost is added to the same chunk of the next step */
	int n_stage;
	struct {
		const struct sl_codec_stage *stage;
		double arg[SL_CODEC_MAX_ARGS]; /* meaning: the stage's table */
	} stage[SL_CODEC_MAX_STAGES];
};

/* CONFIG and a sentence that says what would be right ("quant:b with b = 1…16, got 'quant:17'"). */
enum sl_err sl_codec_parse(const char *text, struct sl_codec_spec *out, struct sl_fail *fail) SL_MUST_CHECK;

/* True where a gradient sent by `grad` can use the places that `act` kept (same stages up to one that chooses places).
 */
bool sl_codec_spec_pairs(const struct sl_codec_spec *act, const struct sl_codec_spec *grad);

/* Whether a token of so many features comes back the same whatever is coded beside it, in any step: nothing is drawn
 * anew, and no scale is that of several tokens. */
bool sl_codec_by_token(const struct sl_codec_spec *spec, int64_t features);

struct sl_extent;
/* CONFIG where the specification has error feedback, and for tensors as large as `most` a stage may lose as much as it
 * is given: then the residual grows from step to step. The sentence says what to write instead. */
enum sl_err sl_codec_feeds_back(const struct sl_codec_spec *spec, const struct sl_extent *most,
				struct sl_fail *fail) SL_MUST_CHECK;

struct sl_codec;

struct sl_codec_env {
	struct sl_backend *be; /* where tensors live and encode/decode run; its pool is used. Not owned */
	struct sl_shape shape; /* largest: dim[0] is the most rows of a chunk, or with row_tokens the most tokens */
	int64_t row_tokens;    /* 0: dim[0] counts rows. Else tokens, in rows of 1 to this many, at most 65535 */
	int64_t rows;          /* with row_tokens: most rows of a chunk */
	int slots;             /* chunks that can be in flight at once */
	uint64_t seed;
	enum sl_dir dir;
	/* For a gradient: this side's codec of the activation of the same tensor, where sl_codec_spec_pairs. It must
	 * outlive this one. NULL: not paired. */
	struct sl_codec *pair;
};

/* PAIRED: a gradient's codec that uses the places of its activation's; KEEPS: that activation's. */
enum sl_codec_pairing { SL_CODEC_ALONE, SL_CODEC_KEEPS, SL_CODEC_PAIRED };

/* What a codec will take, and be. `memory`: at most, malloc's own bytes aside; a few structs less at the least. */
struct sl_codec_need {
	struct sl_memory memory;
	size_t bound; /* sl_codec_bound for the most rows */
	bool plain;   /* sl_codec_is_plain */
};
/* Before anything is allocated, of what may come from a peer: env->pair is not looked at, `pairing` says it. Errors as
 * open's, but for NOMEM and DEVICE, and CONFIG where a stage is not for tensors of this shape: open alone finds that.
 */
enum sl_err sl_codec_need(const struct sl_codec_spec *spec, const struct sl_codec_env *env,
			  enum sl_codec_pairing pairing, struct sl_codec_need *out, struct sl_fail *fail) SL_MUST_CHECK;
/* All memory is taken here. */
enum sl_err sl_codec_open(struct sl_codec **out, const struct sl_codec_spec *spec, const struct sl_codec_env *env,
			  struct sl_fail *fail) SL_MUST_CHECK;
void sl_codec_close(struct sl_codec *codec); /* NULL is fine */

/* Most bytes of one payload, of a tensor with so many in dimension 0, however they are divided into rows. */
size_t sl_codec_bound(const struct sl_codec *codec, int64_t dim0);
/* Bytes of one payload as a paper would count them (no headers, no indices where the method's authors count none). What
 * depends on the tensor, or on the lengths of its rows, is as the last call had it. */
double sl_codec_nominal_bytes(const struct sl_codec *codec, int64_t dim0);

struct sl_codec_call {
	int slot;      /* [0, slots): where this chunk's places are kept between activation and gradient */
	uint64_t step; /* for the randomness of stochastic methods */
	uint16_t chunk;
	bool training; /* false: residuals and warm factors are neither used nor changed */
	/* Where env.row_tokens: the chunk's rows, of 1 to row_tokens tokens each; dims.tokens is the tensor's dim[0].
	 * Of other codecs' tensors it is not looked at. Not needed by sl_codec_collect. */
	struct sl_dims dims;
};

/* Appends one payload to *out (host memory). NONFINITE where x holds NaN or Inf and the method cannot carry it;
 * LIMIT where *out has less room than the bound. On failure out->len is as before. */
enum sl_err sl_codec_encode(struct sl_codec *codec, const struct sl_codec_call *call, const struct sl_tensor *x,
			    struct sl_buf *out) SL_MUST_CHECK;
/* Writes all of x (its shape, and call->dims, say what is expected). PAYLOAD, with nothing written, where `in` is not a
 * payload of this codec for this shape. */
enum sl_err sl_codec_decode(struct sl_codec *codec, const struct sl_codec_call *call, struct sl_bytes in,
			    struct sl_tensor *x, struct sl_fail *fail) SL_MUST_CHECK;

/* As encode and decode, on a backend that queues (sl_backend_ops.ahead): they may return before all is done. `out` is
 * the backend's locked memory (host_alloc), and ends at a multiple of 8.
 *
 * *later: the work was queued. `in` (or *out from its old length on) and x then stay with the codec until
 * sl_codec_collect was called for the same call. That function waits, returns the error, and appends to *out what was
 * not known before; pass NULL for a decoding. Where it fails, *out has no payload behind its old length, and a decoded
 * x may have been written.
 *
 * Nothing that is queued may still use what a decoder is to write. No two calls under way have the same slot. All calls
 * under way encode, or all decode: the backend must have done its queue before a codec turns to the other. */
enum sl_err sl_codec_queue_encode(struct sl_codec *codec, const struct sl_codec_call *call, const struct sl_tensor *x,
				  struct sl_buf *out, bool *later) SL_MUST_CHECK;
enum sl_err sl_codec_queue_decode(struct sl_codec *codec, const struct sl_codec_call *call, struct sl_bytes in,
				  struct sl_tensor *x, bool *later, struct sl_fail *fail) SL_MUST_CHECK;
/* Whether they return early; then a NaN or Inf in training is NONFINITE, be the method able to carry it or not. */
bool sl_codec_queues(const struct sl_codec *codec);
enum sl_err sl_codec_collect(struct sl_codec *codec, const struct sl_codec_call *call, struct sl_buf *out,
			     struct sl_fail *fail) SL_MUST_CHECK;

/* Where a payload is SL_FRAME_BYTES (frame.h) and behind them the tensor as it lies in host memory, so that it can be
 * sent from there and received there, and neither encoded nor decoded. */
bool sl_codec_is_plain(const struct sl_codec *codec);
/* These bytes for a tensor with `dim0` in dimension 0; and the check that decode would make, of those that came: `len`
 * is the whole payload's. */
void sl_codec_plain_head(const struct sl_codec *codec, int64_t dim0, uint8_t *head);
enum sl_err sl_codec_plain_check(const struct sl_codec *codec, const uint8_t *head, size_t len,
				 const struct sl_tensor *x, struct sl_fail *fail) SL_MUST_CHECK;

/* The step took place: pending state becomes current. Rollback: pending state is dropped. */
void sl_codec_commit(struct sl_codec *codec);
void sl_codec_rollback(struct sl_codec *codec);

/* The committed state (residuals, warm factors) as bytes, little endian, for checkpoints. `state_bytes`: most bytes of
 * a save; 8 for a codec without state. */
size_t sl_codec_state_bytes(const struct sl_codec *codec);
enum sl_err sl_codec_save(const struct sl_codec *codec, struct sl_buf *out) SL_MUST_CHECK;
/* Pending state is dropped. DATA, and the codec as after open, where `in` is not a state of this codec. */
enum sl_err sl_codec_load(struct sl_codec *codec, struct sl_bytes in) SL_MUST_CHECK;
/* The state, committed and pending, is that after open. */
void sl_codec_forget(struct sl_codec *codec);

/* For lists: every stage, NULL-terminated, in order of id. */
const struct sl_codec_stage *const *sl_codec_stages(void);

#endif
