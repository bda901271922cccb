/* Compares a device's codecs, whose work is queued in calls of several slots at once, with the portable codecs,
 * called one at a time. A call's memory is overwritten as soon as it has been collected. Failures are cmocka's. */
#ifndef SL_TESTS_GPU_CODECS_BESIDE_H
#define SL_TESTS_GPU_CODECS_BESIDE_H

#include "tests/support/gpu_codecs/rig.h"

enum { SLOTS = 3 };

struct spec {
	const char *text;
	bool waits; /* the host must know the number of values before it can queue the rest */
};

/* One codec, portable and on the device, with a tensor and a payload for every slot. */
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
		struct sl_shape shape; /* the last lane has one row less */
		int64_t n;
		float *there;     /* on the device */
		struct sl_buf of; /* the device's payload, in the backend's host memory */
		uint8_t *right;   /* the portable codec's payload */
		size_t right_len;
		double nominal;  /* its nominal byte count by the portable codec */
		enum sl_err err; /* the portable codec's result */
		bool later;
	} lane[SLOTS];
};

void beside_open(struct beside *b, struct sl_backend *be, const struct spec *spec, struct sl_shape shape,
		 enum sl_dir dir, const struct beside *pair);
void beside_close(struct beside *b);
void beside_commit(struct beside *b);

/* Queues the encoding of b->x for this lane, and encodes it with the portable codec at once. On the
 * simulated device also checks that a call that need not wait does not. */
void beside_begin_encode(struct beside *b, struct lane *l);
void beside_end_encode(struct beside *b, struct lane *l, enum sl_err expect);
enum sl_err beside_begin_decode(struct beside *b, struct lane *l, const uint8_t *bytes, size_t len);
void beside_end_decode(struct beside *b, struct lane *l);
/* Checks that the lane's tensor is what the portable codec decodes from l->right. */
void beside_check(struct beside *b, const struct lane *l);

/* fill: makes a slot's tensor. encode, decode: all slots, begun and collected in orders drawn for the round. */
void beside_fill(struct beside *b, int round, int slot);
void beside_encode(struct beside *b, int round);
void beside_decode(struct beside *b, int round);
/* The i-th slot of the round. */
int beside_drawn(int round, int i);
/* Waits until no queued work uses the tensors, so that a decoder may write them. */
void beside_make_idle(struct beside *b);

#endif
