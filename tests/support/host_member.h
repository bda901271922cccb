/* Members of a group that send frames to a host (host_rig.h), honest or not. The values they send
 * depend on member and step alone. All functions fail the test on an error. */
#ifndef SL_TESTS_HOST_MEMBER_H
#define SL_TESTS_HOST_MEMBER_H

#include "tests/support/host_rig.h"

enum { HOST_MEMBER_ROWS = 2 };

/* Settings that all members share; set them before the first host_member_call. */
extern struct host_group {
	char name[16];
	int clients, quorum; /* quorum 0: more than half of them */
	double least;        /* share.least */
	int64_t epoch_steps;
	int wait_s;     /* share.wait_s; 0: for ever */
	int patience_s; /* share.patience_s; 0: 1 */
	int rates;      /* share.rates */
	double member_norm, lr, clip_norm;
	bool rounds;       /* mode rounds, with rounds of one step and averaged moments; false: mode sync */
	bool checkpoints;  /* each commit asks for a checkpoint */
	const char *codec; /* for what the server sends; NULL: the default */
	bool vertical;     /* the last member has the labels, the others features; of three each gives one value; */
	bool same_role;    /* or the features, too */
	int sends;         /* the values that each member with features gives; 0: as above */
	bool plain;        /* an mlp: linear layers only, so that a member's values alone determine the gradients */
} host_group;

struct host_member {
	struct host_client c;
	struct asked asked;
	int k;
	uint64_t epoch;
	uint64_t kept[SL_WIRE_KEPT]; /* checkpoints that it reports as kept in its Commit */
	bool up;
	size_t act_bytes, grad_bytes, weight_bytes; /* of head_act, mid_grad and the fetched weights */
};

/* How far a member gets in a step; in the order of the protocol. */
enum host_stage { HOST_NOTHING, HOST_ACT_HALF, HOST_ACT, HOST_GRAD_HALF, HOST_GRAD, HOST_STAGES };

/* Opens a new link and sends a Hello. It offers to resume from step 0 (the first weights), or from
 * one of the steps `held`. */
void host_member_call(struct host_member *m, int k, uint8_t session, uint64_t epoch);
void host_member_call_with(struct host_member *m, int k, uint8_t session, uint64_t epoch, const uint64_t *held,
			   int n_held);
void host_member_hang_up(struct host_member *m); /* does nothing if it is not connected */

/* Sends a member's tensor of a step, or the first half of it. Values are proportional to `scale`. */
void host_member_send(struct host_member *m, enum sl_part_what what, uint64_t step, float scale, bool half);
/* Carries out a step as far as `until`, and waits for what the server sends meanwhile. Returns
 * early if the server refuses or abandons. */
void host_member_compute(struct host_member *m, uint64_t step, enum host_stage until, float act, float grad);
void host_member_commit(struct host_member *m, uint64_t step, bool skip);
/* Fetches the middle's weights; returns a hash of them. */
uint64_t host_member_weights(struct host_member *m);

#endif
