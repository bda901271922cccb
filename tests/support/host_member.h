/* Members of a group that speak to a host (host_rig.h) by frames, honest or not. What they send depends on member and
 * step alone. Everything fails the test where it does not work. */
#ifndef SL_TESTS_HOST_MEMBER_H
#define SL_TESTS_HOST_MEMBER_H

#include "tests/support/host_rig.h"

enum { HOST_MEMBER_ROWS = 2 };

/* What all members agree on; set before the first one calls. */
extern struct host_group {
	char name[16];
	int clients, least; /* least 0: all of them */
	int64_t epoch_steps;
	int wait_s; /* share.wait_s; 0: for ever */
	double member_norm, lr;
	bool rounds;       /* of one step, with averaged moments; else mode sync */
	bool checkpoints;  /* each step asks for one */
	const char *codec; /* of what the server sends; NULL: the default */
	bool plain;        /* a network of linear layers alone, in which gradients are what the member makes of them */
} host_group;

struct host_member {
	struct host_client c;
	struct asked asked;
	int k;
	uint64_t epoch;
	uint64_t kept[SL_WIRE_KEPT]; /* checkpoints that it says it has */
	bool up;
	size_t act_bytes, grad_bytes, weight_bytes; /* of head_act, mid_grad and a fetch */
};

/* How far it comes in a step, in this order. */
enum host_stage { HOST_NOTHING, HOST_ACT_HALF, HOST_ACT, HOST_GRAD_HALF, HOST_GRAD, HOST_STAGES };

/* A new link, and a Hello that holds the first weights alone, or steps `held`. */
void host_member_call(struct host_member *m, int k, uint8_t session, uint64_t epoch);
void host_member_call_with(struct host_member *m, int k, uint8_t session, uint64_t epoch, const uint64_t *held,
			   int n_held);
void host_member_hang_up(struct host_member *m); /* where it is up */

/* Its tensor of a step, or half of it: numbers up to `scale`. */
void host_member_send(struct host_member *m, enum sl_part_what what, uint64_t step, float scale, bool half);
/* A step as far as `until`; what the server sends meanwhile has come. Ends where it is refused or abandoned. */
void host_member_compute(struct host_member *m, uint64_t step, enum host_stage until, float act, float grad);
void host_member_commit(struct host_member *m, uint64_t step, bool skip);
/* A hash of the middle's weights as it fetches them. */
uint64_t host_member_weights(struct host_member *m);

#endif
