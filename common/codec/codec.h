/* Codecs turn an activation or a gradient into the bytes that cross the link, and back.
 *
 * A codec is a chain of stages ("topk:0.2|quant:8|zstd:3"); payload formats are in docs/CODECS.md. Encoding is
 * deterministic: the same tensor, seed, call and state give the same bytes, on every backend and for any number of
 * threads. Decoding never trusts its input: every count, index and size is checked before anything is written, and a
 * payload that is too short or too long is refused.
 *
 * Some state outlives a step: residuals of error feedback, warm factors, tokens that are kept. It changes at
 * sl_codec_commit only, so a step that is run again gives the same bytes. The places that a gradient takes over from
 * its activation are kept by slot. */
#ifndef SL_CODEC_CODEC_H
#define SL_CODEC_CODEC_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/memory.h"
#include "common/base/rng.h"
#include "common/graph/tensor.h"

struct sl_backend;

/* The four tensors of a chunk, in the order in which they cross the link. The numbers are those of the wire format. */
enum sl_dir { SL_DIR_HEAD_ACT, SL_DIR_MID_ACT, SL_DIR_MID_GRAD, SL_DIR_HEAD_GRAD, SL_DIR_COUNT };

const char *sl_dir_name(enum sl_dir dir); /* "head_act" … */

enum { SL_CODEC_SPEC_MAX = 128, SL_CODEC_MAX_STAGES = 4, SL_CODEC_MAX_ARGS = 7 };

struct sl_codec_stage; /* stage.h: the table that one method fills */

/* A parsed and validated specification. `text` is its canonical form (defaults left out), equal on both sides. */
struct sl_codec_spec {
	char text[SL_CODEC_SPEC_MAX];
	bool error_feedback; /* what encoding loses is added to the same chunk of the next step */
	bool of_change;      /* made by sl_codec_spec_variant: it codes changes */
	int n_stage;
	struct {
		const struct sl_codec_stage *stage;
		double arg[SL_CODEC_MAX_ARGS]; /* in the order of the stage's `args` */
	} stage[SL_CODEC_MAX_STAGES];
};

/* Parses a specification. CONFIG, with a sentence that says what is allowed ("quant:b with b = 1…16, got
 * 'quant:17'"). */
enum sl_err sl_codec_parse(const char *text, struct sl_codec_spec *out, struct sl_fail *fail) SL_MUST_CHECK;

/* Whether a gradient sent by `grad` can be paired with an activation sent by `act`. It can if both chains have the
 * same stages up to the first one that chooses places, or is downsample. */
bool sl_codec_spec_pairs(const struct sl_codec_spec *act, const struct sl_codec_spec *grad);

/* Whether a token of so many features decodes to the same values in any step and beside any other tokens. If so,
 * nothing is drawn at random, and no scale is shared by several tokens. */
bool sl_codec_by_token(const struct sl_codec_spec *spec, int64_t features);

/* quant's change=b: a token of mid_act that crosses again is coded as its change, if env.keep_tokens is set. eval=b: of
 * evaluations and predictions. False: the specification has no such option. Else *out codes these calls. */
enum sl_codec_variant { SL_CODEC_CHANGE, SL_CODEC_EVAL, SL_CODEC_VARIANTS };
bool sl_codec_spec_variant(const struct sl_codec_spec *spec, enum sl_codec_variant variant, struct sl_codec_spec *out);

struct sl_extent;
/* CONFIG if the specification has error feedback, but a stage may lose as much as it is given, for tensors as large
 * as `most`. Then the residual would grow from step to step. The sentence says what to write instead. */
enum sl_err sl_codec_feeds_back(const struct sl_codec_spec *spec, const struct sl_extent *most,
				struct sl_fail *fail) SL_MUST_CHECK;

struct sl_codec;

struct sl_codec_env {
	struct sl_backend *be; /* where tensors live and encode/decode run; its pool is used. Not owned */
	struct sl_shape shape; /* largest: dim[0] is the most rows of a chunk or, with row_tokens, the most tokens */
	int64_t row_tokens;    /* 0: dim[0] counts rows. Else tokens, in rows of 1 … row_tokens, at most 65535 */
	int64_t rows;          /* with row_tokens: most rows of a chunk */
	int64_t keep_tokens;   /* tokens of the data set that a codec of changes keeps; 0: it codes values alone */
	int slots;             /* chunks that can be in flight at once */
	uint64_t seed;
	enum sl_dir dir;
	/* For a gradient: this side's codec of the activation of the same tensor, if sl_codec_spec_pairs. It must
	 * outlive this one. NULL: not paired. */
	struct sl_codec *pair;
	/* A run may carry several values. `next` is the env of the next one, borrowed during the call, whose `pair` is
	 * ignored; `value` its number. NULL: it is the last. */
	const struct sl_codec_env *next;
	int value;
};

/* PAIRED: the codec of a gradient that takes over the places of its activation. KEEPS: that activation's codec. */
enum sl_codec_pairing { SL_CODEC_ALONE, SL_CODEC_KEEPS, SL_CODEC_PAIRED };

/* What a codec needs. `memory` is an upper bound, without malloc's own bytes; at most a few structs above the truth. */
struct sl_codec_need {
	struct sl_memory memory;
	size_t bound; /* sl_codec_bound for the most rows */
	bool plain;   /* sl_codec_is_plain */
	size_t state; /* at least sl_codec_state_bytes; equal, but for warm factors */
};
/* How many values a payload of this codec carries. */
int sl_codec_values(const struct sl_codec *codec);
/* Computed before anything is allocated; `spec` and `env` may come from a peer. `pairing` replaces env->pair, which
 * is ignored. Errors are those of sl_codec_open, except NOMEM, DEVICE, and CONFIG for a stage that does not accept
 * tensors of this shape: only sl_codec_open finds those. */
enum sl_err sl_codec_need(const struct sl_codec_spec *spec, const struct sl_codec_env *env,
			  enum sl_codec_pairing pairing, struct sl_codec_need *out, struct sl_fail *fail) SL_MUST_CHECK;
/* Opens a codec of all values and allocates all of its memory. Where it has several, it is never plain and does not
 * queue, and x in the functions below is an array of them. A gradient without data is left out; its codec's state does
 * not change, and a decoder makes it zero. */
enum sl_err sl_codec_open(struct sl_codec **out, const struct sl_codec_spec *spec, const struct sl_codec_env *env,
			  struct sl_fail *fail) SL_MUST_CHECK;
void sl_codec_close(struct sl_codec *codec); /* NULL is fine */

/* The most bytes of one payload of a tensor with `dim0` in dimension 0, however that is divided into rows. */
size_t sl_codec_bound(const struct sl_codec *codec, int64_t dim0);
/* Bytes of one payload as papers count them: without headers, and without indices if the method's authors count
 * none. Shares that depend on the tensor, or on the lengths of its rows, are those of the last call. */
double sl_codec_nominal_bytes(const struct sl_codec *codec, int64_t dim0);

struct sl_codec_call {
	int slot;      /* [0, slots): where this chunk's places are kept between activation and gradient */
	uint64_t step; /* for the randomness of stochastic methods */
	uint16_t chunk;
	bool training; /* false: residuals and warm factors are neither used nor changed */
	/* With env.row_tokens: the chunk's rows, of 1 to row_tokens tokens each; dims.tokens is the tensor's dim[0].
	 * Other codecs ignore it, and so does sl_codec_collect. */
	struct sl_dims dims;
	/* [dims.rows] 1 + where the first token of a row is kept, below env.keep_tokens; 0, or NULL: nowhere. For a
	 * codec of changes; its tensor has the chosen tokens or, without a choice, all. Borrowed */
	const uint32_t *home;
	float code_step; /* how far apart quant's codes are, of which one is zero; 0: as far as the values need */
};

/* Appends one payload to *out (host memory). NONFINITE if x holds NaN or Inf and the method cannot carry it; LIMIT
 * if *out has less room than the bound. On failure out->len is as before. */
enum sl_err sl_codec_encode(struct sl_codec *codec, const struct sl_codec_call *call, const struct sl_tensor *x,
			    struct sl_buf *out) SL_MUST_CHECK;
/* Writes all of x; its shape and call->dims say what is expected. PAYLOAD, with nothing written, if `in` is not a
 * payload of this codec for this shape; of several values those in front of the wrong one are written. */
enum sl_err sl_codec_decode(struct sl_codec *codec, const struct sl_codec_call *call, struct sl_bytes in,
			    struct sl_tensor *x, struct sl_fail *fail) SL_MUST_CHECK;

/* Like encode and decode; but on a backend that queues work (sl_backend_ops.ahead) they may return before all is
 * done. `out` is page-locked memory of the backend (host_alloc), and its end, data + len, is a multiple of 8.
 *
 * *later: the work was queued. `in` (or *out from its old length on) and x then belong to the codec until
 * sl_codec_collect was called for the same call. That function waits, returns the error, and appends to *out what
 * was not known before; `out` is NULL for a decoding. If it fails, *out has no payload behind its old length, and a
 * decoded x may have been written.
 *
 * The caller ensures that no queued work uses the tensor that a decoder is to write, and that no two calls under way
 * have the same slot. All calls under way encode, or all decode: the backend must have finished its queue before a
 * codec turns from one to the other. */
enum sl_err sl_codec_queue_encode(struct sl_codec *codec, const struct sl_codec_call *call, const struct sl_tensor *x,
				  struct sl_buf *out, bool *later) SL_MUST_CHECK;
enum sl_err sl_codec_queue_decode(struct sl_codec *codec, const struct sl_codec_call *call, struct sl_bytes in,
				  struct sl_tensor *x, bool *later, struct sl_fail *fail) SL_MUST_CHECK;
/* Whether these return early. If so, a NaN or Inf in training is NONFINITE, even if the method could carry it. */
bool sl_codec_queues(const struct sl_codec *codec);
enum sl_err sl_codec_collect(struct sl_codec *codec, const struct sl_codec_call *call, struct sl_buf *out,
			     struct sl_fail *fail) SL_MUST_CHECK;

/* Whether a payload is SL_FRAME_BYTES (frame.h) and then the tensor as it lies in host memory. Such a tensor can be
 * sent from its place and received into it, without encoding or decoding. */
bool sl_codec_is_plain(const struct sl_codec *codec);
/* plain_head writes those SL_FRAME_BYTES for a tensor with `dim0` in dimension 0. plain_check makes decode's checks
 * on received ones; `len` is the length of the whole payload. */
void sl_codec_plain_head(const struct sl_codec *codec, int64_t dim0, uint8_t *head);
enum sl_err sl_codec_plain_check(const struct sl_codec *codec, const uint8_t *head, size_t len,
				 const struct sl_tensor *x, struct sl_fail *fail) SL_MUST_CHECK;

/* Commit: the step took place; pending state becomes current. Rollback: pending state is dropped. */
void sl_codec_commit(struct sl_codec *codec);
void sl_codec_rollback(struct sl_codec *codec);

/* The committed state (residuals, warm factors) as bytes, little endian, for checkpoints. `state_bytes`: most bytes of
 * a save; 8 for a codec without state. */
size_t sl_codec_state_bytes(const struct sl_codec *codec);
enum sl_err sl_codec_save(const struct sl_codec *codec, struct sl_buf *out) SL_MUST_CHECK;
/* Replaces the committed state, and drops pending state. DATA if `in` is not a state of this codec, which is then as
 * after open. */
enum sl_err sl_codec_load(struct sl_codec *codec, struct sl_bytes in) SL_MUST_CHECK;
/* Resets all state, committed and pending, to that after open. */
void sl_codec_forget(struct sl_codec *codec);

/* All stages, in order of id; NULL ends the list. */
const struct sl_codec_stage *const *sl_codec_stages(void);

#endif
