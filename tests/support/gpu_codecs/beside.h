/* Codecs of a device whose work is queued, in calls of several slots at once, beside the portable codecs, one call at a
 * time. The memory of a call is written over as soon as it has been collected. Failures are cmocka's. */
#ifndef SL_TESTS_GPU_CODECS_BESIDE_H
#define SL_TESTS_GPU_CODECS_BESIDE_H

#include "tests/support/gpu_codecs/rig.h"

enum { SLOTS = 3 };

struct spec {
	const char *text;
	bool waits; /* the host has to know how many values there are before it can queue the rest */
};

/* One codec on both sides, and a tensor and a payload of every slot. */
struct beside {
	struct sl_backend *be;
	const struct spec *spec;
	struct sl_codec *host, *device;
	struct sl_shape shape;
	int64_t n;
	size_t bound;
	float *x, *want, *got;
	struct lane {
		struct sl_codec_call call;
		struct sl_shape shape; /* the last one is short of a row */
		int64_t n;
		float *there;     /* on the device */
		struct sl_buf of; /* its payload, in the backend's host memory */
		uint8_t *right;   /* the portable codec's */
		size_t right_len;
		double nominal;  /* as that counts its bytes */
		enum sl_err err; /* what that said */
		bool later;
	} lane[SLOTS];
};

void beside_open(struct beside *b, struct sl_backend *be, const struct spec *spec, struct sl_shape shape,
		 enum sl_dir dir, const struct beside *pair);
void beside_close(struct beside *b);
void beside_commit(struct beside *b);

/* b->x of this lane, which the portable codec encodes at once. Where it can be seen: that a call which need not wait
 * does not. */
void beside_begin_encode(struct beside *b, struct lane *l);
void beside_end_encode(struct beside *b, struct lane *l, enum sl_err expect);
enum sl_err beside_begin_decode(struct beside *b, struct lane *l, const uint8_t *bytes, size_t len);
void beside_end_decode(struct beside *b, struct lane *l);
/* That the lane's tensor is what the portable codec makes of l->right. */
void beside_check(struct beside *b, const struct lane *l);

/* A tensor for a slot; all slots there, and back, in orders drawn for the round. */
void beside_fill(struct beside *b, int round, int slot);
void beside_encode(struct beside *b, int round);
void beside_decode(struct beside *b, int round);
/* The i-th slot of the round. */
int beside_drawn(int round, int i);
/* Nothing that is queued uses the tensors: a decoder may write them. */
void beside_make_idle(struct beside *b);

#endif
