/* A run in one process, as local.c, which computes and steps, and local_member.c, for groups, share it. */
#ifndef SL_CLIENT_PASS_LOCAL_IMPL_H
#define SL_CLIENT_PASS_LOCAL_IMPL_H

#include "client/pass/local.h"
#include "client/step/ends_round.h"

enum side { CLIENT, SERVER, SIDES };

struct sl_local {
	const struct sl_plan *plan;
	struct sl_agreement agreement;
	struct sl_backend *be;
	struct sl_ends ends;
	struct sl_exec *middle;
	struct sl_codec *codec[SIDES][SL_DIR_COUNT]; /* each side's view of the four directions */
	struct sl_buf buf;
	uint32_t *home;            /* [rows] of a chunk in training (sl_codec_call) */
	sl_local_crossed *crossed; /* NULL: nobody listens */
	void *crossed_arg;
	uint64_t done;                    /* steps, for which the codecs have their shapes */
	double grad_norm;                 /* of the batch; as in struct sl_step_result */
	double middle_squares;            /* the middle's part of it, squared */
	double grad_scale;                /* factor from clipping this member by itself; 0: it is not clipped so */
	uint64_t began_ns;                /* when the pass began */
	uint64_t tx_bytes, rx_bytes;      /* of the batch */
	uint64_t payload[SL_CROSS_COUNT]; /* of the run */
	double nominal[SL_CROSS_COUNT];
	/* shared ends; without them zeros */
	struct sl_end_layout layout;
	struct sl_end_coder *end[SIDES][SL_END_COUNT];
	float *change; /* [layout.floats] what crosses, as the receiver decodes it */
	struct sl_bytes mean;
	struct sl_ends_round round; /* where ends are averaged after every round */
	bool told;                  /* this member has sent its change of the round that ends */
};

/* A pass over the batch that l->ends has taken: begins it, and then computes its chunks. */
void sl_local_begin_pass(struct sl_local *l);
enum sl_err sl_local_chunks(struct sl_local *l, struct sl_fail *fail) SL_MUST_CHECK;
/* For plans that clip: sets l->grad_norm to the norm of the model's gradient, and *scale to the gradient's factor. */
enum sl_err sl_local_find_scale(struct sl_local *l, double *scale, struct sl_fail *fail) SL_MUST_CHECK;
void sl_local_roll_back(struct sl_local *l); /* sets codecs back to before the pass */
void sl_local_name_step(const struct sl_local *l, enum sl_err err, struct sl_fail *fail);
struct sl_step_result sl_local_result(const struct sl_local *l, double lr, bool skipped);

#endif
