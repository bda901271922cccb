/* Inside of the codec object: codec.c opens and closes it, chain.c encodes and decodes, state.c saves and loads. */
#ifndef SL_CODEC_IMPL_H
#define SL_CODEC_IMPL_H

#include "common/base/arena.h"
#include "common/base/memory.h"
#include "common/codec/stage.h"

enum { MAX_TRANSFORMS = SL_CODEC_MAX_STAGES };

struct link {
	const struct sl_codec_stage *stage; /* NULL: none in this chain */
	struct sl_codec_stage joined;       /* what a backend's stage points to */
	const double *arg;
	void *state;
	bool paired;
	bool finishes; /* its inverse does that of the transform in front, too */
};

/* Residuals of one slot: what was lost at the last committed step, and at this one. */
struct residual {
	float *current, *pending;
	bool has_current, has_pending;
};

/* A call from its beginning to its end, on which other slots' may follow: of a payload what is not in it yet. */
struct flight {
	struct sl_buf side[MAX_TRANSFORMS];
	struct sl_buf body;          /* between the chain and a stage of bytes */
	size_t table, values;        /* where they lie in what the body is appended to */
	double kept[MAX_TRANSFORMS]; /* what c->kept becomes */
	int64_t most; /* of values, where only the device knows how many there are; 0: the table says it */
};

struct sl_codec {
	struct sl_codec_spec spec;
	struct sl_codec_env env;
	const struct sl_codec_loops *loops;
	struct sl_pool *pool;
	bool device;             /* tensors are not in host memory: stages are the backend's */
	bool paired, pair_found; /* with an activation's codec; its transform that pairs is open */

	int n_transform;
	struct link transform[MAX_TRANSFORMS], quantizer, bytes;
	double kept[MAX_TRANSFORMS]; /* share of its largest output that a variable transform left last time */

	struct sl_arena arena;
	void *pinned;                    /* what the arena cuts up where the backend has locked memory, else NULL */
	float *values[MAX_TRANSFORMS];   /* what transform i left */
	uint32_t *begin[MAX_TRANSFORMS]; /* where its samples begin, of a call; NULL where all have one length */
	double share;                    /* of the most values for a dim[0], those that the last call's lengths left */
	struct flight *flight;           /* [flights]: slots, or 1 where calls do not overlap */
	int flights;
	struct residual
		*residual; /* feedback.c; in `feedback` on the host, in `feedback_there` where the tensors are */
	struct sl_arena feedback;
	void *feedback_there;
	double largest;    /* mean square of a tensor, seen by feedback.c */
	bool grows;        /* it has warned of a residual */
	float *sum, *back; /* tensor + residual; what the other side will see */
};

/* Link i of the chain that may have state: the transforms, then the quantizer; NULL behind them. */
static inline const struct link *sl_codec_link(const struct sl_codec *c, int i)
{
	if (i < c->n_transform)
		return &c->transform[i];
	return i == c->n_transform ? &c->quantizer : NULL;
}

struct sl_extent sl_codec_most_after(const struct sl_codec *c, int transforms, int64_t dim0);
/* s[0] is the tensor; s[i + 1] becomes what transform i leaves at most. Where lengths are known, uses c->begin. */
void sl_codec_extents(const struct sl_codec *c, struct sl_extent *s);
/* Most bytes behind the header, before a stage of bytes. */
size_t sl_codec_body_bound(const struct sl_codec *c, const struct sl_extent *s);
size_t sl_codec_bound_of(const struct sl_codec *c, const struct sl_extent *s); /* of all */
/* What a codec is, before it has memory: its stages, as its backend has them. `paired`: with an activation, be
 * env->pair NULL or not. UNAVAILABLE where the backend lacks something; *c is then to be closed, or forgotten. */
enum sl_err sl_codec_find(struct sl_codec *c, const struct sl_codec_spec *spec, const struct sl_codec_env *env,
			  bool paired, struct sl_fail *fail) SL_MUST_CHECK;
struct sl_stage_env sl_codec_stage_env(const struct sl_codec *c, const struct link *link);
/* Bytes of the scratch; `take`: cut out of c->arena, too. */
size_t sl_codec_lay_out(struct sl_codec *c, bool take);
size_t sl_codec_values_bytes(const struct sl_extent *e); /* of a transform's values */
/* The last transform writes its values into the payload itself. */
bool sl_codec_direct(const struct sl_codec *c);

/* feedback.c */
void sl_feedback_memory(const struct sl_codec *c, struct sl_memory *need);
enum sl_err sl_feedback_open(struct sl_codec *c, struct sl_fail *fail) SL_MUST_CHECK;
void sl_feedback_close(struct sl_codec *c);
/* *x becomes x + what was lost, where something was; `e` is its extent. Warns where that grows without bound. */
enum sl_err sl_feedback_add(struct sl_codec *c, const struct residual *r, const struct sl_codec_call *call,
			    const float **x, const struct sl_extent *e) SL_MUST_CHECK;
/* What c->back lacks of x becomes the pending residual. */
enum sl_err sl_feedback_keep(struct sl_codec *c, struct residual *r, const float *x,
			     const struct sl_extent *e) SL_MUST_CHECK;
size_t sl_feedback_floats(const struct sl_codec *c); /* of a residual */
enum sl_err sl_feedback_save(const struct sl_codec *c, const struct residual *r, struct sl_buf *out) SL_MUST_CHECK;
enum sl_err sl_feedback_load(struct sl_codec *c, struct residual *r, struct sl_bytes in) SL_MUST_CHECK;

#endif
