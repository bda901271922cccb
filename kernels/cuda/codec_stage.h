/* Host side of the device's codec stages: memory, the status words, waiting. A stage of a backend fills in
 * its id and the functions from `open` on; the rest of its table is the portable stage's
 * (common/codec/stage.h).
 *
 * Calls queue their work and never wait. Payloads and side bytes move on copy streams beside the computation
 * (cu_stage_bring, cu_stage_send). Events order the streams; all of them guard one piece of device memory,
 * the staging memory of one stage:
 *   bring  in:  after `free` of the call before, upload, `arrived`;  main: after `arrived`, kernels, `free`
 *   send   main: after `sent` of the call before, kernels, `written`;  out: after `written`, download, `sent`
 * Bring and send need no order between them: all pending calls of a codec are of one kind
 * (common/codec/codec.h).
 * When calls are queued, only the device can know how many side bytes places take, and how many values
 * threshold keeps. Stages behind such values read their number there (`said` in codec.h). A kernel on `out`
 * writes that many bytes to the host's page-locked memory (cu_carry); the number is in the status.
 * Everything else on the device belongs to `main`: scratch between stages, bitmaps, residuals, warm factors.
 * So a copy accesses only staging memory, or the tensor of a slot whose call is pending. */
#ifndef SL_KERNELS_CUDA_CODEC_STAGE_H
#define SL_KERNELS_CUDA_CODEC_STAGE_H

#include "common/codec/stage.h"
#include "common/exec/backend.h"
#include "kernels/cuda/codec.h"

/* in, out: streams for copies to and from the device; the same as main if tasks do not run ahead. */
struct cu_streams {
	cudaStream_t main, in, out;
};

struct cu_stage_slot {
	cudaEvent_t settled; /* upload done; or download done, together with the status */
	bool due;            /* collect has not been called */
	bool said;           /* the status says how many bytes were downloaded */
};

struct cu_stage {
	struct sl_stage_env env;
	cudaStream_t stream, in, out; /* those of struct cu_streams */
	uint32_t *status;             /* [CU_STATUS_WORDS] device memory */
	uint32_t *seen;               /* [slots][CU_STATUS_WORDS] copies of `status` in page-locked host memory */
	struct cu_stage_slot *slot;   /* [slots] */
	int flights;
	cudaEvent_t free, arrived, written;
	cudaEvent_t sent; /* `settled` of the slot sent last, or NULL */
	bool brought;     /* cu_stage_bring has been called at least once */
};

/* The backend's streams; DEVICE if it has failed. Binds the calling thread to the device. In device.c. */
enum sl_err cu_codec_streams(struct sl_backend *be, struct cu_streams *out) SL_MUST_CHECK;
enum sl_err cu_codec_check(struct sl_backend *be, cudaError_t status) SL_MUST_CHECK;

/* Calls that can be pending: slots, or 1. */
int cu_stage_flights(const struct sl_stage_env *env);
/* Adds host memory for a state of `state_bytes`, and all that cu_stage_open allocates. */
void cu_stage_memory(const struct sl_stage_env *env, size_t state_bytes, struct sl_memory *need);
enum sl_err cu_stage_open(struct cu_stage *s, const struct sl_stage_env *env, struct sl_fail *fail) SL_MUST_CHECK;
void cu_stage_close(struct cu_stage *s);
/* Device memory. */
enum sl_err cu_stage_alloc(struct cu_stage *s, size_t bytes, void **out, struct sl_fail *fail) SL_MUST_CHECK;
void cu_stage_free(struct cu_stage *s, void *ptr);

/* A call of a slot. Encoding: begin, kernels, send. Decoding: bring, kernels, take; with `status`, begin
 * comes first. Then collect: NONFINITE, PAYLOAD if the status has BAD, or DEVICE. OK if no call is pending. */

/* DEVICE if the device has failed. Binds the calling thread to it. */
enum sl_err cu_stage_enter(struct cu_stage *s) SL_MUST_CHECK;
/* Takes the result of queueing a call. If that failed (for lack of memory, say), waits for all that was
 * queued before: it may use memory of the call, which goes back to its owner. */
enum sl_err cu_stage_queued(struct cu_stage *s, cudaError_t queued) SL_MUST_CHECK;
/* cu_stage_enter, and queues clearing the status words. */
enum sl_err cu_stage_begin(struct cu_stage *s) SL_MUST_CHECK;
/* `said`: sends as many bytes as the status's BYTES says; `host` is then page-locked. */
cudaError_t cu_stage_send(struct cu_stage *s, int slot, void *host, const void *src, size_t bytes, bool said);
cudaError_t cu_stage_bring(struct cu_stage *s, void *dst, const void *host, size_t bytes);
/* read: the kernels queued so far have read what was brought. settle: collect waits for what was brought, or
 * for the status. take does both. */
cudaError_t cu_stage_read(struct cu_stage *s);
cudaError_t cu_stage_settle(struct cu_stage *s, int slot, bool status);
cudaError_t cu_stage_take(struct cu_stage *s, int slot, bool status);
/* Waits for the slot's call. Sets of->len if the length was unknown before; NULL for decoding. */
enum sl_err cu_stage_collect(struct cu_stage *s, int slot, struct sl_buf *of) SL_MUST_CHECK;
/* The status words of the slot's call, once it has been waited for. */
uint32_t *cu_stage_seen(const struct cu_stage *s, int slot);
/* Returns err, and sets *fail if it is an error. */
enum sl_err cu_stage_said(enum sl_err err, struct sl_fail *fail) SL_MUST_CHECK;

/* The codes of quant, from its arguments, and those of q levels; the rest is zero. In codec_levels.c. */
struct cu_codes cu_quant_codes(const double *arg);
struct cu_codes cu_level_codes(uint32_t q);

/* For packed codes, with one scale or many, in codec_levels.c.
 * Whether a code can hold a level above `most`, which is invalid: such codes must be checked. */
bool cu_codes_may_be_bad(const struct cu_codes *c);
/* PAYLOAD if `in` is not `bytes` bytes long, or has bits behind its last code. */
enum sl_err cu_codes_check_size(const struct cu_codes *c, size_t bytes, struct sl_bytes in,
				struct sl_fail *fail) SL_MUST_CHECK;
/* cu_stage_collect, with a message. */
enum sl_err cu_codes_collect(struct cu_stage *s, const struct cu_codes *c, int slot, struct sl_buf *of,
			     struct sl_fail *fail) SL_MUST_CHECK;

static inline struct cu_philox cu_philox_of(const struct sl_rng_key *key)
{
	return (struct cu_philox){key->seed, key->step, (uint32_t)key->chunk << 16 | key->tensor};
}

extern const struct sl_codec_stage *const cu_codec_stages[]; /* sl_backend_ops.codec_stages; in codec_stages.c */

#endif
