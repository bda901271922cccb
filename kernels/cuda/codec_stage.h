/* What the device's codec stages share on the host: memory, the status words, waiting. A stage of a backend fills its
 * id and the functions from `open` on; the rest of its table is the portable stage's (common/codec/stage.h).
 *
 * Every call ends with the stream idle: payloads are host memory whose owner may reuse them, and what they say has to
 * be known. Restoring values (`inverse`) alone is only queued. */
#ifndef SL_KERNELS_CUDA_CODEC_STAGE_H
#define SL_KERNELS_CUDA_CODEC_STAGE_H

#include "common/codec/stage.h"
#include "common/nn/backend.h"
#include "kernels/cuda/codec.h"

struct cu_stage {
	struct sl_stage_env env;
	cudaStream_t stream;
	uint32_t *status; /* [CU_STATUS_WORDS] device memory */
	uint32_t *seen;   /* their copy, locked host memory */
};

/* The backend's stream; DEVICE where it has failed. Binds the calling thread. backend.c. */
enum sl_err cu_codec_stream(struct sl_backend *be, cudaStream_t *out) SL_MUST_CHECK;
enum sl_err cu_codec_check(struct sl_backend *be, cudaError_t status) SL_MUST_CHECK;

enum sl_err cu_stage_open(struct cu_stage *s, const struct sl_stage_env *env, struct sl_fail *fail) SL_MUST_CHECK;
void cu_stage_close(struct cu_stage *s);
/* Device memory. */
enum sl_err cu_stage_alloc(struct cu_stage *s, size_t bytes, void **out, struct sl_fail *fail) SL_MUST_CHECK;
void cu_stage_free(struct cu_stage *s, void *ptr);

/* Clears the status words; the first thing of a call that has kernels. */
enum sl_err cu_stage_begin(struct cu_stage *s) SL_MUST_CHECK;
cudaError_t cu_stage_upload(struct cu_stage *s, void *dst, const void *host, size_t bytes);
cudaError_t cu_stage_download(struct cu_stage *s, void *host, const void *src, size_t bytes);
/* Waits for all that was queued; `queued` is what queueing said. Then s->seen is the status: NONFINITE where it says
 * so. */
enum sl_err cu_stage_end(struct cu_stage *s, cudaError_t queued) SL_MUST_CHECK;

static inline struct cu_philox cu_philox_of(const struct sl_rng_key *key)
{
	return (struct cu_philox){key->seed, key->step, (uint32_t)key->chunk << 16 | key->tensor};
}

/* Those whose payloads a device was seen to give byte for byte; and with those that so far only
 * tests/support/cuda_sim has run, for SPLIT_CUDA_CODECS=all. */
extern const struct sl_codec_stage *const cu_codec_stages[], *const cu_codec_stages_all[];

#endif
