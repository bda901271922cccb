/* A model's weights in host memory, and copies to and from the weight ranges of the three segments (plan.h). */
#ifndef SL_WEIGHTS_WEIGHTS_H
#define SL_WEIGHTS_WEIGHTS_H

#include "common/exec/plan.h"
#include "common/weights/safetensors.h"

/* value[i]: parameter i of the model, in memory layout, inside one allocation; NULL: it is held in 16 bits
 * (graph.h), in held[i]. */
struct sl_weights {
	int n_param;
	float **value;
	float *storage;
	const uint16_t **held;   /* [n_param], NULL for parameters that are not held; host order, 2 bytes aligned */
	struct sl_st_file *file; /* the mapped file of held[]; NULL: somebody else's */
	float *wide;             /* memory of sl_weights_widen */
};

/* Floats that sl_weights_open allocates: those of parameters that are not held. */
int64_t sl_weights_floats(const struct sl_model *model);
enum sl_err sl_weights_open(struct sl_weights *w, const struct sl_model *model, struct sl_fail *fail) SL_MUST_CHECK;
void sl_weights_close(struct sl_weights *w); /* idempotent; a zeroed one is fine */
/* Takes held[] from `from`, which must stay open for as long as w. */
void sl_weights_share(struct sl_weights *w, const struct sl_weights *from);
/* Gives held parameters a value in fp32, too, for callers that write files or look at weights. */
enum sl_err sl_weights_widen(struct sl_weights *w, const struct sl_model *model, struct sl_fail *fail) SL_MUST_CHECK;
/* Initialises every parameter that has a value, from its initialisation and the seed. */
void sl_weights_init(struct sl_weights *w, const struct sl_model *model, uint64_t seed);

/* The same for one segment's range alone. A server needs this: it has no memory for the rest of the model, whose
 * size it must not trust. */
void sl_weights_init_range(const struct sl_plan_segment *segment, uint64_t seed, float *range);

/* Copies the segment's parameters to range [its weight_count]; padding becomes zero. The middle's held parameters
 * are copied in 16 bits, those of head and tail are not; sl_weights_unpack copies no held ones back. */
void sl_weights_pack(const struct sl_weights *w, const struct sl_plan_segment *segment, float *range);
/* `len` bytes of that range from byte `from` on, for callers that have no memory for all of it. */
void sl_weights_pack_piece(const struct sl_weights *w, const struct sl_plan_segment *segment, size_t from, size_t len,
			   void *to);
/* Copies parameters from a range of which only the first `count` floats are there; the others come from `rest`. */
void sl_weights_unpack(struct sl_weights *w, const struct sl_plan_segment *segment, const float *range, int64_t count,
		       const struct sl_weights *rest);
/* The weights' hash in stores and in Hello: XXH3-128, canonical, of a range. _packed: of a range that need not be in
 * memory. */
void sl_weights_hash(const float *range, int64_t count, uint8_t out[16]);
void sl_weights_hash_packed(const struct sl_weights *w, const struct sl_plan_segment *segment, uint8_t out[16]);

#endif
