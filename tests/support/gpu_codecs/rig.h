/* Compares a device's codecs with the portable ones: both get the same input and must give the same output. The
 * device's kernels run on a CPU (tests/support/cuda_sim), or on a GPU if there is one. Failures are cmocka's. */
#ifndef SL_TESTS_GPU_CODECS_RIG_H
#define SL_TESTS_GPU_CODECS_RIG_H

#include "common/exec/backend.h"
#include "tests/support/codec.h"

/* Setups of a test, and the teardown of all of them. */
int rig_use_sim(void **state);
int rig_use_gpu(void **state);
int rig_close_gpu(void **state);

/* The same for backends that queue their work: the GPU, or the module on a simulated device with
 * separate streams for copies. */
int rig_use_sim_ahead(void **state);
int rig_use_gpu_ahead(void **state);

/* Entries of a test list: the test on a CPU and on a GPU. */
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
/* Whether to test fewer cases: on a CPU, and under the device's sanitizers (SPLIT_TEST_SHORT). */
bool rig_brief(const struct sl_backend *be);

/* Gives every NaN the same bits if the codec `text` multiplies (lowrank): a device's product with a NaN is a NaN of its
 * own, where a CPU's keeps bits of the operand. Only payloads that no encoder writes have a NaN. */
void rig_unify_nans(const char *text, float *values, int64_t count);

struct both {
	struct sl_backend *be;
	struct sl_codec *host, *device;
	struct sl_shape shape; /* the largest */
	float *x, *want, *got; /* on the host */
	float *memory, *there; /* on the device; a tensor of odd size lies at no multiple of 16 bytes, as chunks may */
	const char *text;
};

struct both both_open(struct sl_backend *be, const char *text, struct sl_shape shape, enum sl_dir dir,
		      const struct both *pair);
/* For rows of different lengths: shape is [tokens, features]. */
struct both both_open_rows(struct sl_backend *be, const char *text, struct sl_shape shape, int64_t rows,
			   int64_t row_tokens, enum sl_dir dir, const struct both *pair);
void both_close(struct both *b);
/* Encodes b->x on both sides and compares results and bytes. *bytes is the caller's to free. */
enum sl_err both_encode(struct both *b, const struct sl_codec_call *call, int64_t rows, uint8_t **bytes, size_t *len);
/* Decodes on both sides and compares results and values; nothing beyond `rows` may be written. */
enum sl_err both_decode(struct both *b, const struct sl_codec_call *call, const uint8_t *bytes, size_t len,
			int64_t rows);
void both_cross(struct both *b, int64_t rows); /* encodes b->x and decodes it, both sides compared */

#endif
