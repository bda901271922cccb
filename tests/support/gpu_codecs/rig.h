/* The device's codecs beside the portable ones: one codec on both sides, each of which is given what the other gives.
 * The device's kernels run on a CPU (tests/support/cuda_sim), or on a GPU where one answers. Failures are cmocka's. */
#ifndef SL_TESTS_GPU_CODECS_RIG_H
#define SL_TESTS_GPU_CODECS_RIG_H

#include "common/exec/backend.h"
#include "tests/support/codec.h"

/* Setups of a test, and the teardown of all of them. */
int rig_use_sim(void **state);
int rig_use_gpu(void **state);
int rig_close_gpu(void **state);

/* The same, of backends that queue what they do; the GPU, or the module on a simulated device, with streams of its own
 * for copies. */
int rig_use_sim_ahead(void **state);
int rig_use_gpu_ahead(void **state);

/* A test on each of the two. */
#define RIG_ON_BOTH(test)                                          \
	{#test " (on a CPU)", test, rig_use_sim, NULL, NULL},      \
	{                                                          \
#test " (on a GPU)", test, rig_use_gpu, NULL, NULL \
	}

#define RIG_AHEAD(test)                                                  \
	{#test " (on a CPU)", test, rig_use_sim_ahead, NULL, NULL},      \
	{                                                                \
#test " (on a GPU)", test, rig_use_gpu_ahead, NULL, NULL \
	}

struct sl_backend *rig_backend(void **state); /* skips the test where there is none */
/* Less of everything: on a CPU, and under sanitizers of the device (SPLIT_TEST_SHORT). */
bool rig_brief(const struct sl_backend *be);

struct both {
	struct sl_backend *be;
	struct sl_codec *host, *device;
	struct sl_shape shape; /* largest */
	float *x, *want, *got; /* on the host */
	float *there;          /* on the device */
	const char *text;
};

struct both both_open(struct sl_backend *be, const char *text, struct sl_shape shape, enum sl_dir dir,
		      const struct both *pair);
/* Of rows of different lengths: shape is [tokens, features]. */
struct both both_open_rows(struct sl_backend *be, const char *text, struct sl_shape shape, int64_t rows,
			   int64_t row_tokens, enum sl_dir dir, const struct both *pair);
void both_close(struct both *b);
/* Encodes b->x on both sides: the same verdict and bytes, which are given back; free() them. */
enum sl_err both_encode(struct both *b, const struct sl_codec_call *call, int64_t rows, uint8_t **bytes, size_t *len);
/* Decodes on both sides: the same verdict and the same values, all of which lie within `rows`. */
enum sl_err both_decode(struct both *b, const struct sl_codec_call *call, const uint8_t *bytes, size_t len,
			int64_t rows);
void both_cross(struct both *b, int64_t rows); /* b->x there and back */

#endif
