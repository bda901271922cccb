/* What a run in one process is made of, for local.c, which computes and steps, and local_member.c, for groups. */
#ifndef SL_CLIENT_RUN_LOCAL_IMPL_H
#define SL_CLIENT_RUN_LOCAL_IMPL_H

#include "client/run/ends_round.h"
#include "client/run/local.h"

enum side { CLIENT, SERVER, SIDES };

struct sl_local {
	const struct sl_plan *plan;
	struct sl_agreement agreement;
	struct sl_backend *be;
	struct sl_ends ends;
	struct sl_exec *middle;
	struct sl_codec *codec[SIDES][SL_DIR_COUNT]; /* each side's view of the four directions */
	struct sl_buf buf;
	sl_local_crossed *crossed; /* NULL: nobody listens */
	void *crossed_arg;
	uint64_t done;                    /* steps, behind which the codecs have their shapes */
	double grad_norm;                 /* of the batch; as in struct sl_step_result */
	double grad_scale;                /* of a group's member, from clipping; 0: it is not clipped by itself */
	uint64_t began_ns;                /* of the pass */
	uint64_t tx_bytes, rx_bytes;      /* of the batch */
	uint64_t payload[SL_CROSS_COUNT]; /* of the run */
	double nominal[SL_CROSS_COUNT];
	/* shared ends; without them zeros */
	struct sl_end_layout layout;
	struct sl_end_coder *end[SIDES][SL_END_COUNT];
	float *change; /* [layout.floats] what crosses, as the other side decodes it */
	struct sl_bytes mean;
	struct sl_ends_round round; /* where ends are averaged after every round */
	bool told;                  /* what this member has of the round that ends is known */
};

/* Of the batch that l->ends has taken: its chunks, after begin_pass. */
void sl_local_begin_pass(struct sl_local *l);
enum sl_err sl_local_chunks(struct sl_local *l, struct sl_fail *fail) SL_MUST_CHECK;
/* The norm of the model's gradient, into l->grad_norm, and what the gradient is multiplied by. For plans that clip. */
enum sl_err sl_local_find_scale(struct sl_local *l, double *scale, struct sl_fail *fail) SL_MUST_CHECK;
void sl_local_roll_back(struct sl_local *l); /* codecs are as before the pass */
void sl_local_name_step(const struct sl_local *l, enum sl_err err, struct sl_fail *fail);
struct sl_step_result sl_local_result(const struct sl_local *l, double lr, bool skipped);

#endif
