/* A model's weights in host memory, and their way into and out of the weight ranges of the three segments (plan.h). */
#ifndef SL_WEIGHTS_WEIGHTS_H
#define SL_WEIGHTS_WEIGHTS_H

#include "common/exec/plan.h"
#include "common/weights/safetensors.h"

/* value[i]: parameter i of the model, in memory layout, inside one allocation; NULL: it is held (graph.h), in
 * held[i]. */
struct sl_weights {
	int n_param;
	float **value;
	float *storage;
	const uint16_t **held;   /* [n_param], NULL where value is not; host order, 2 bytes aligned */
	struct sl_st_file *file; /* that these lie in; NULL: somebody else's */
	float *wide;             /* of sl_weights_widen */
};

/* Floats that sl_weights_open takes: of what is not held. */
int64_t sl_weights_floats(const struct sl_model *model);
enum sl_err sl_weights_open(struct sl_weights *w, const struct sl_model *model, struct sl_fail *fail) SL_MUST_CHECK;
void sl_weights_close(struct sl_weights *w); /* idempotent; a zeroed one is fine */
/* What is held is that of `from`, which stays open for as long. */
void sl_weights_share(struct sl_weights *w, const struct sl_weights *from);
/* What is held gets a value, too, in fp32: for those who write files, or look at weights. */
enum sl_err sl_weights_widen(struct sl_weights *w, const struct sl_model *model, struct sl_fail *fail) SL_MUST_CHECK;
/* Every parameter from its initialisation and the seed. */
void sl_weights_init(struct sl_weights *w, const struct sl_model *model, uint64_t seed);

/* The same for one segment's range alone: no memory for the rest of the model, whose size a server must not trust. */
void sl_weights_init_range(const struct sl_plan_segment *segment, uint64_t seed, float *range);

/* range [weight_count of the segment]; the padding is set to zero. What is held leaves a range never. */
void sl_weights_pack(const struct sl_weights *w, const struct sl_plan_segment *segment, float *range);
/* `len` bytes of that from byte `from` on, for those who have no memory for all of it. */
void sl_weights_pack_piece(const struct sl_weights *w, const struct sl_plan_segment *segment, size_t from, size_t len,
			   void *to);
/* Of a range whose first `count` floats are there: the other parameters are those of `rest`. */
void sl_weights_unpack(struct sl_weights *w, const struct sl_plan_segment *segment, const float *range, int64_t count,
		       const struct sl_weights *rest);
/* XXH3-128, canonical, of a range: what stores and Hello call the weights' hash; _packed: of one that is in no memory.
 */
void sl_weights_hash(const float *range, int64_t count, uint8_t out[16]);
void sl_weights_hash_packed(const struct sl_weights *w, const struct sl_plan_segment *segment, uint8_t out[16]);

#endif
