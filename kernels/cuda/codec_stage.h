/* What the device's codec stages share on the host: memory, the status words, waiting. A stage of a backend fills its
 * id and the functions from `open` on; the rest of its table is the portable stage's (common/codec/stage.h).
 *
 * Calls queue what they do, payloads and side bytes on copy streams beside the computation (cu_stage_bring,
 * cu_stage_send), and wait for nothing. What orders the streams, all of it for one piece of device memory, the staging
 * of one stage:
 *   bring  in:  after `free` of the call before, upload, `arrived`;  main: after `arrived`, kernels, `free`
 *   send   main: after `sent` of the call before, kernels, `written`;  out: after `written`, download, `sent`
 * Neither waits for the other: the calls of a codec that are under way are all of one kind (common/codec/codec.h).
 * How many side bytes places take, and how many values threshold keeps, only the device knows when they are queued.
 * What is behind such values reads their number there (codec.h). A kernel on `out` writes as many bytes as there are
 * into the locked memory of the host (cu_carry), the number goes with the status.
 * Everything else on the device belongs to `main`: scratch between stages, bitmaps, residuals, warm factors. So a copy
 * neither reads nor writes what is not a staging, or the tensor of a slot whose call is under way. */
#ifndef SL_KERNELS_CUDA_CODEC_STAGE_H
#define SL_KERNELS_CUDA_CODEC_STAGE_H

#include "common/codec/stage.h"
#include "common/exec/backend.h"
#include "kernels/cuda/codec.h"

/* in, out: copies to and from the device; main again where nothing is to run ahead. */
struct cu_streams {
	cudaStream_t main, in, out;
};

struct cu_stage_slot {
	cudaEvent_t settled; /* what came has come; or what goes has gone, and the status with it */
	bool due;            /* collect has not been called */
	bool said;           /* the status says how much went */
};

struct cu_stage {
	struct sl_stage_env env;
	cudaStream_t stream, in, out; /* those of struct cu_streams */
	uint32_t *status;             /* [CU_STATUS_WORDS] device memory */
	uint32_t *seen;               /* [slots][CU_STATUS_WORDS] copies, locked host memory */
	struct cu_stage_slot *slot;   /* [slots] */
	int flights;
	cudaEvent_t free, arrived, written;
	cudaEvent_t sent; /* `settled` of the slot sent last, or NULL */
	bool brought;     /* something, ever */
};

/* The backend's streams; DEVICE where it has failed. Binds the calling thread. backend.c. */
enum sl_err cu_codec_streams(struct sl_backend *be, struct cu_streams *out) SL_MUST_CHECK;
enum sl_err cu_codec_check(struct sl_backend *be, cudaError_t status) SL_MUST_CHECK;

/* Calls that can be under way: slots, or 1. */
int cu_stage_flights(const struct sl_stage_env *env);
/* Host memory of a state of `state_bytes`, and what cu_stage_open takes. */
void cu_stage_memory(const struct sl_stage_env *env, size_t state_bytes, struct sl_memory *need);
enum sl_err cu_stage_open(struct cu_stage *s, const struct sl_stage_env *env, struct sl_fail *fail) SL_MUST_CHECK;
void cu_stage_close(struct cu_stage *s);
/* Device memory. */
enum sl_err cu_stage_alloc(struct cu_stage *s, size_t bytes, void **out, struct sl_fail *fail) SL_MUST_CHECK;
void cu_stage_free(struct cu_stage *s, void *ptr);

/* A call, slot by slot. Encoding: begin, kernels, send. Decoding: bring, kernels, take; with `status`, begin in front.
 * Then collect: NONFINITE, PAYLOAD where the status is BAD, or DEVICE; OK where nothing is under way. */

/* DEVICE where it has failed. Binds the calling thread. */
enum sl_err cu_stage_enter(struct cu_stage *s) SL_MUST_CHECK;
/* Of a call, what queueing said. Where that failed (for lack of memory, say), waits for all that was queued before, by
 * which memory of the call would be used when it is its owner's again. */
enum sl_err cu_stage_queued(struct cu_stage *s, cudaError_t queued) SL_MUST_CHECK;
/* enter, and the status words are zero. */
enum sl_err cu_stage_begin(struct cu_stage *s) SL_MUST_CHECK;
/* `said`: as many of the bytes as BYTES of the status says, to locked memory. */
cudaError_t cu_stage_send(struct cu_stage *s, int slot, void *host, const void *src, size_t bytes, bool said);
cudaError_t cu_stage_bring(struct cu_stage *s, void *dst, const void *host, size_t bytes);
/* read: what was brought has been read; settle: collect waits for what was brought, or the status. take is both. */
cudaError_t cu_stage_read(struct cu_stage *s);
cudaError_t cu_stage_settle(struct cu_stage *s, int slot, bool status);
cudaError_t cu_stage_take(struct cu_stage *s, int slot, bool status);
/* The length of `of`, where it was not known before; NULL: of a decoding. */
enum sl_err cu_stage_collect(struct cu_stage *s, int slot, struct sl_buf *of) SL_MUST_CHECK;
/* The status words of the slot's call, once it has been waited for. */
uint32_t *cu_stage_seen(const struct cu_stage *s, int slot);
/* err, in a sentence where it is one. */
enum sl_err cu_stage_said(enum sl_err err, struct sl_fail *fail) SL_MUST_CHECK;

/* Of packed codes, with one scale or many. codec_levels.c.
 * A level above `most` can be written, but is none: whether such codes are to be looked for. */
bool cu_codes_may_be_bad(const struct cu_codes *c);
/* PAYLOAD where `in` is not of `bytes` bytes, or has bits behind its last code. */
enum sl_err cu_codes_check_size(const struct cu_codes *c, size_t bytes, struct sl_bytes in,
				struct sl_fail *fail) SL_MUST_CHECK;
/* cu_stage_collect, in words. */
enum sl_err cu_codes_collect(struct cu_stage *s, const struct cu_codes *c, int slot, struct sl_buf *of,
			     struct sl_fail *fail) SL_MUST_CHECK;

static inline struct cu_philox cu_philox_of(const struct sl_rng_key *key)
{
	return (struct cu_philox){key->seed, key->step, (uint32_t)key->chunk << 16 | key->tensor};
}

/* Those whose payloads a device was seen to give byte for byte; and with those that so far only
 * tests/support/cuda_sim has run, for SPLIT_CUDA_CODECS=all. */
extern const struct sl_codec_stage *const cu_codec_stages[], *const cu_codec_stages_all[];

#endif
