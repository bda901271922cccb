#include "kernels/cuda/codec_stage.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)CU_BLOCK == (int)SL_CODEC_BLOCK && (int)CU_F32_INF_BITS == (int)SL_F32_INF_BITS,
	       "blocks are those of the payload formats");

static cudaError_t open_event(cudaEvent_t *out)
{
	return cudaEventCreateWithFlags(out, cudaEventDisableTiming | cudaEventBlockingSync);
}

static enum sl_err open_events(struct cu_stage *s, struct sl_fail *fail)
{
	cudaError_t status;
	enum sl_err err;

	s->slot = calloc((size_t)s->env.slots, sizeof *s->slot);
	if (s->slot == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory");
	status = open_event(&s->free);
	if (status == cudaSuccess)
		status = open_event(&s->arrived);
	if (status == cudaSuccess)
		status = open_event(&s->written);
	for (int i = 0; i < s->env.slots && status == cudaSuccess; i++)
		status = open_event(&s->slot[i].settled);
	err = cu_codec_check(s->env.be, status);
	return !err ? SL_OK : sl_fail_set(fail, err, "no events for a codec: %s", sl_err_text(err));
}

int cu_stage_flights(const struct sl_stage_env *env)
{
	return env->be->ops->ahead ? env->slots : 1;
}

void cu_stage_memory(const struct sl_stage_env *env, size_t state_bytes, struct sl_memory *need)
{
	const struct cu_stage *s = NULL;

	sl_need(&need->host, 1, state_bytes);
	sl_need(&need->host, env->slots, sizeof *s->slot + CU_STATUS_WORDS * sizeof *s->seen);
	sl_need(&need->device, CU_STATUS_WORDS, sizeof *s->status);
}

enum sl_err cu_stage_open(struct cu_stage *s, const struct sl_stage_env *env, struct sl_fail *fail)
{
	const size_t words = (size_t)env->slots * CU_STATUS_WORDS;
	struct cu_streams streams;
	enum sl_err err = cu_codec_streams(env->be, &streams);

	*s = (struct cu_stage){.env = *env, .flights = cu_stage_flights(env)};
	if (err)
		return sl_fail_set(fail, err, "the device has failed");
	s->stream = streams.main;
	s->in = streams.in;
	s->out = streams.out;
	err = open_events(s, fail);
	if (!err)
		err = cu_stage_alloc(s, CU_STATUS_WORDS * sizeof *s->status, (void **)&s->status, fail);
	return err ? err : env->be->ops->host_alloc(env->be, words * sizeof *s->seen, (void **)&s->seen, fail);
}

static void close_event(cudaEvent_t event)
{
	if (event != NULL)
		cudaEventDestroy(event);
}

void cu_stage_close(struct cu_stage *s)
{
	if (s->env.be == NULL)
		return;
	cu_stage_free(s, s->status);
	s->env.be->ops->host_free(s->env.be, s->seen);
	close_event(s->free);
	close_event(s->arrived);
	close_event(s->written);
	for (int i = 0; s->slot != NULL && i < s->env.slots; i++)
		close_event(s->slot[i].settled);
	free(s->slot);
}

enum sl_err cu_stage_alloc(struct cu_stage *s, size_t bytes, void **out, struct sl_fail *fail)
{
	return s->env.be->ops->alloc(s->env.be, bytes, out, fail);
}

void cu_stage_free(struct cu_stage *s, void *ptr)
{
	if (s->env.be != NULL)
		s->env.be->ops->free(s->env.be, ptr);
}

enum sl_err cu_stage_enter(struct cu_stage *s)
{
	struct cu_streams same;

	return cu_codec_streams(s->env.be, &same);
}

enum sl_err cu_stage_queued(struct cu_stage *s, cudaError_t queued)
{
	enum sl_err err = cu_codec_check(s->env.be, queued);

	if (err) {
		cudaStreamSynchronize(s->in);
		cudaStreamSynchronize(s->stream);
		cudaStreamSynchronize(s->out);
	}
	return err;
}

enum sl_err cu_stage_begin(struct cu_stage *s)
{
	enum sl_err err = cu_stage_enter(s);
	cudaError_t queued = cudaSuccess;

	if (err)
		return err;
	if (s->sent != NULL)
		queued = cudaStreamWaitEvent(s->stream, s->sent, 0);
	if (queued == cudaSuccess)
		queued = cudaMemsetAsync(s->status, 0, CU_STATUS_WORDS * sizeof *s->status, s->stream);
	return cu_stage_queued(s, queued);
}

uint32_t *cu_stage_seen(const struct cu_stage *s, int slot)
{
	return s->seen + (size_t)slot * CU_STATUS_WORDS;
}

static cudaError_t fetch_status(struct cu_stage *s, int slot, cudaStream_t stream)
{
	return cudaMemcpyAsync(cu_stage_seen(s, slot), s->status, CU_STATUS_WORDS * sizeof *s->status,
			       cudaMemcpyDeviceToHost, stream);
}

static enum sl_err verdict(const struct cu_stage *s, int slot)
{
	const uint32_t *seen = cu_stage_seen(s, slot);

	if (seen[CU_STATUS_NONFINITE] >= CU_F32_INF_BITS)
		return SL_ERR_NONFINITE;
	return seen[CU_STATUS_BAD] != 0 ? SL_ERR_PAYLOAD : SL_OK;
}

static cudaError_t follow(cudaStream_t stream, cudaEvent_t event, cudaStream_t behind)
{
	cudaError_t queued = cudaEventRecord(event, behind);

	return queued != cudaSuccess ? queued : cudaStreamWaitEvent(stream, event, 0);
}

static cudaError_t settle(struct cu_stage *s, int slot, cudaStream_t stream)
{
	s->slot[slot].due = true;
	return cudaEventRecord(s->slot[slot].settled, stream);
}

/* Queues the status and the event behind what `out` does for the call. */
static cudaError_t sent(struct cu_stage *s, int slot, cudaError_t queued)
{
	if (queued == cudaSuccess)
		queued = fetch_status(s, slot, s->out);
	if (queued == cudaSuccess)
		queued = settle(s, slot, s->out);
	s->sent = s->slot[slot].settled;
	return queued;
}

cudaError_t cu_stage_send(struct cu_stage *s, int slot, void *host, const void *src, size_t bytes, bool said)
{
	cudaError_t queued = follow(s->out, s->written, s->stream);

	if (queued == cudaSuccess && said)
		queued = cu_carry(s->out, host, src, s->status + CU_STATUS_BYTES, (int64_t)bytes);
	else if (queued == cudaSuccess && bytes != 0)
		queued = cudaMemcpyAsync(host, src, bytes, cudaMemcpyDeviceToHost, s->out);
	s->slot[slot].said = said;
	return sent(s, slot, queued);
}

cudaError_t cu_stage_bring(struct cu_stage *s, void *dst, const void *host, size_t bytes)
{
	cudaError_t queued = cudaSuccess;

	/* the first upload waits until fresh memory has been cleared */
	if (!s->brought)
		queued = cudaEventRecord(s->free, s->stream);
	s->brought = true;
	if (queued == cudaSuccess)
		queued = cudaStreamWaitEvent(s->in, s->free, 0);
	if (queued == cudaSuccess)
		queued = cudaMemcpyAsync(dst, host, bytes, cudaMemcpyHostToDevice, s->in);
	return queued != cudaSuccess ? queued : follow(s->stream, s->arrived, s->in);
}

cudaError_t cu_stage_read(struct cu_stage *s)
{
	return cudaEventRecord(s->free, s->stream);
}

cudaError_t cu_stage_settle(struct cu_stage *s, int slot, bool status)
{
	if (status)
		return cu_stage_send(s, slot, NULL, NULL, 0, false);
	memset(cu_stage_seen(s, slot), 0, CU_STATUS_WORDS * sizeof *s->seen);
	s->slot[slot].said = false;
	return settle(s, slot, s->in);
}

cudaError_t cu_stage_take(struct cu_stage *s, int slot, bool status)
{
	cudaError_t queued = cu_stage_read(s);

	return queued != cudaSuccess ? queued : cu_stage_settle(s, slot, status);
}

enum sl_err cu_stage_collect(struct cu_stage *s, int slot, struct sl_buf *of)
{
	enum sl_err err;

	if (!s->slot[slot].due)
		return SL_OK;
	s->slot[slot].due = false;
	err = cu_codec_check(s->env.be, cudaEventSynchronize(s->slot[slot].settled));
	if (!err)
		err = verdict(s, slot);
	if (err || of == NULL || !s->slot[slot].said)
		return err;
	of->len = cu_stage_seen(s, slot)[CU_STATUS_BYTES];
	return of->len > of->cap ? SL_ERR_BUG : SL_OK;
}

enum sl_err cu_stage_said(enum sl_err err, struct sl_fail *fail)
{
	if (!err)
		return SL_OK;
	return sl_fail_set(fail, err, err == SL_ERR_NONFINITE ? "NaN or Inf" : "the device failed to code values");
}
