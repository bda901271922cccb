/* The inside of the codec object: codec.c opens and closes it, chain.c encodes and decodes, state.c saves and loads. */
#ifndef SL_CODEC_IMPL_H
#define SL_CODEC_IMPL_H

#include "common/base/arena.h"
#include "common/base/memory.h"
#include "common/codec/change.h"
#include "common/codec/stage.h"

enum { MAX_TRANSFORMS = SL_CODEC_MAX_STAGES };

struct link {
	const struct sl_codec_stage *stage; /* NULL: none in this chain */
	struct sl_codec_stage joined;       /* for a backend's stage: `stage` points to it */
	const double *arg;
	void *state;
	bool paired;
	bool finishes; /* its inverse also does that of the transform in front */
};

/* Residuals of one slot: what was lost at the last committed step, and at this one. */
struct residual {
	float *current, *pending;
	bool has_current, has_pending;
};

/* One call, from its beginning to its end; calls for other slots may begin in between. It holds what the payload
 * still lacks. */
struct flight {
	struct sl_buf side[MAX_TRANSFORMS];
	struct sl_buf body;          /* between the chain and a stage of bytes */
	size_t table, values;        /* their offsets in the buffer of the body */
	double kept[MAX_TRANSFORMS]; /* becomes c->kept at the end */
	int64_t most;                /* the most values, if only the device knows their number; 0: the table has it */
};

struct sl_codec {
	struct sl_codec_spec spec;
	struct sl_codec_env env;
	const struct sl_codec_loops *loops;
	struct sl_pool *pool;
	bool device;             /* tensors are not in host memory: stages are the backend's */
	bool paired, pair_found; /* with an activation's codec; the transform that pairs was found */

	struct sl_codec *next; /* of the run's next value; NULL: there is none */
	int64_t dim0;          /* dimension 0 of the last call's tensor */

	int n_transform;
	struct link transform[MAX_TRANSFORMS], quantizer, bytes;
	double kept[MAX_TRANSFORMS]; /* share of its largest output that a variable transform left last time */

	struct sl_arena arena;
	void *pinned;                    /* the arena's memory if the backend has page-locked memory, else NULL */
	float *values[MAX_TRANSFORMS];   /* the output of transform i */
	uint32_t *begin[MAX_TRANSFORMS]; /* where the samples of that output begin; NULL: all have one length */
	double share;                    /* values of the last call's lengths, as a share of the most for its dim[0] */
	struct flight *flight;           /* [flights]: one for each slot, or 1 if calls do not overlap */
	int flights;
	struct residual
		*residual; /* feedback.c; its memory: `feedback` on the host, else `feedback_there` on the device */
	struct sl_arena feedback;
	void *feedback_there;
	double largest;                              /* the largest mean square of a tensor so far (feedback.c) */
	bool grows;                                  /* feedback.c has warned of a residual */
	float *sum, *back;                           /* tensor + residual; what the other side will see */
	struct sl_change *change;                    /* what is kept; NULL: nothing */
	struct sl_codec *variant[SL_CODEC_VARIANTS]; /* codecs of such calls; NULL: this one codes them */
	struct sl_codec *last;                       /* of these and this one, that of the last call; NULL: none yet */
};

/* Link i of the chain that may have state: the transforms, then the quantizer, then NULL. */
static inline const struct link *sl_codec_link(const struct sl_codec *c, int i)
{
	if (i < c->n_transform)
		return &c->transform[i];
	return i == c->n_transform ? &c->quantizer : NULL;
}

/* The largest extent after the first `transforms` transforms, of a tensor with `dim0` in dimension 0. */
struct sl_extent sl_codec_most_after(const struct sl_codec *c, int transforms, int64_t dim0);
/* s[0] is the tensor; s[i + 1] becomes the largest output of transform i. If lengths are known, they are put into
 * c->begin. */
void sl_codec_extents(const struct sl_codec *c, struct sl_extent *s);
/* The most bytes of the body, before a stage of bytes packs it. */
size_t sl_codec_body_bound(const struct sl_codec *c, const struct sl_extent *s);
size_t sl_codec_bound_of(const struct sl_codec *c, const struct sl_extent *s); /* of the whole payload */
/* Sets up a codec without any memory: finds its stages, in the backend's version. `paired`: with an activation's
 * codec, whether or not env->pair is set. UNAVAILABLE if the backend lacks something; *c may then be closed or just
 * dropped. */
enum sl_err sl_codec_find(struct sl_codec *c, const struct sl_codec_spec *spec, const struct sl_codec_env *env,
			  bool paired, struct sl_fail *fail) SL_MUST_CHECK;
/* Whether a codec of this run has another one for such calls: changes need one value whose tokens are kept. */
static inline bool sl_codec_has_variant(const struct sl_codec_spec *spec, const struct sl_codec_env *env,
					enum sl_codec_variant variant, struct sl_codec_spec *out)
{
	return (variant != SL_CODEC_CHANGE || (env->keep_tokens != 0 && env->next == NULL)) &&
	       sl_codec_spec_variant(spec, variant, out);
}
struct sl_stage_env sl_codec_stage_env(const struct sl_codec *c, const struct link *link);
/* Bytes of the scratch. `take`: also takes it from c->arena. */
size_t sl_codec_lay_out(struct sl_codec *c, bool take);
size_t sl_codec_values_bytes(const struct sl_extent *e); /* of values of this extent */
/* Whether the last transform writes its values straight into the payload. */
bool sl_codec_direct(const struct sl_codec *c);

enum { SL_CODEC_VALUE_BYTES = 8 }; /* a value's length, in front of a payload, or of a state, of several */
/* The following ones of one value of several. */
size_t sl_codec_value_bound(const struct sl_codec *c, int64_t dim0);

/* feedback.c */
void sl_feedback_memory(const struct sl_codec *c, struct sl_memory *need);
enum sl_err sl_feedback_open(struct sl_codec *c, struct sl_fail *fail) SL_MUST_CHECK;
void sl_feedback_close(struct sl_codec *c);
/* Adds the residual, if there is one: *x becomes c->sum. `e` is the extent of x. Warns if residuals grow without
 * bound. */
enum sl_err sl_feedback_add(struct sl_codec *c, const struct residual *r, const struct sl_codec_call *call,
			    const float **x, const struct sl_extent *e) SL_MUST_CHECK;
/* The pending residual becomes x minus c->back. */
enum sl_err sl_feedback_keep(struct sl_codec *c, struct residual *r, const float *x,
			     const struct sl_extent *e) SL_MUST_CHECK;
size_t sl_feedback_floats(const struct sl_codec *c); /* of a residual */
/* state.c: bytes of the state of one value's codec, without kept tokens; memory is not needed. */
size_t sl_codec_state_most(const struct sl_codec *c);
enum sl_err sl_feedback_save(const struct sl_codec *c, const struct residual *r, struct sl_buf *out) SL_MUST_CHECK;
enum sl_err sl_feedback_load(struct sl_codec *c, struct residual *r, struct sl_bytes in) SL_MUST_CHECK;

#endif
