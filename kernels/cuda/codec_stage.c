#include "kernels/cuda/codec_stage.h"

_Static_assert((int)CU_BLOCK == (int)SL_CODEC_BLOCK && (int)CU_F32_INF_BITS == (int)SL_F32_INF_BITS,
	       "blocks are those of the payload formats");

enum sl_err cu_stage_open(struct cu_stage *s, const struct sl_stage_env *env, struct sl_fail *fail)
{
	enum sl_err err;

	*s = (struct cu_stage){.env = *env};
	err = cu_codec_stream(env->be, &s->stream);
	if (err != SL_OK)
		return sl_fail_set(fail, err, "the device has failed");
	err = cu_stage_alloc(s, CU_STATUS_WORDS * sizeof *s->status, (void **)&s->status, fail);
	if (err != SL_OK)
		return err;
	return env->be->ops->host_alloc(env->be, CU_STATUS_WORDS * sizeof *s->seen, (void **)&s->seen, fail);
}

void cu_stage_close(struct cu_stage *s)
{
	if (s->env.be == NULL)
		return;
	cu_stage_free(s, s->status);
	s->env.be->ops->host_free(s->env.be, s->seen);
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

enum sl_err cu_stage_begin(struct cu_stage *s)
{
	enum sl_err err = cu_codec_stream(s->env.be, &s->stream);

	if (err != SL_OK)
		return err;
	return cu_codec_check(s->env.be, cudaMemsetAsync(s->status, 0, CU_STATUS_WORDS * sizeof *s->status, s->stream));
}

cudaError_t cu_stage_upload(struct cu_stage *s, void *dst, const void *host, size_t bytes)
{
	return bytes == 0 ? cudaSuccess : cudaMemcpyAsync(dst, host, bytes, cudaMemcpyHostToDevice, s->stream);
}

cudaError_t cu_stage_download(struct cu_stage *s, void *host, const void *src, size_t bytes)
{
	return bytes == 0 ? cudaSuccess : cudaMemcpyAsync(host, src, bytes, cudaMemcpyDeviceToHost, s->stream);
}

enum sl_err cu_stage_end(struct cu_stage *s, cudaError_t queued)
{
	enum sl_err err;

	if (queued == cudaSuccess)
		queued = cu_stage_download(s, s->seen, s->status, CU_STATUS_WORDS * sizeof *s->seen);
	if (queued == cudaSuccess)
		queued = cudaStreamSynchronize(s->stream);
	err = cu_codec_check(s->env.be, queued);
	if (err != SL_OK)
		return err;
	return s->seen[CU_STATUS_NONFINITE] >= CU_F32_INF_BITS ? SL_ERR_NONFINITE : SL_OK;
}

extern const struct sl_codec_stage cu_stage_none, cu_stage_f16, cu_stage_bf16, cu_stage_quant, cu_stage_terngrad,
	cu_stage_qsgd, cu_stage_topk, cu_stage_randomk, cu_stage_threshold, cu_stage_sortquant, cu_stage_lowrank,
	cu_stage_downsample, cu_stage_cells, cu_stage_quant_groups, cu_stage_qsgd_groups, cu_stage_terngrad_groups;

/* A codec moves from the second list to the first when `gpu-check.sh codecs` has passed on a device. Of two stages with
 * one id the first counts: those with groups take the place of those without. */
#define PROVEN &cu_stage_none, &cu_stage_f16, &cu_stage_bf16, &cu_stage_quant, &cu_stage_terngrad, &cu_stage_qsgd
#define UNPROVEN                                                                                                     \
	&cu_stage_quant_groups, &cu_stage_qsgd_groups, &cu_stage_terngrad_groups, &cu_stage_topk, &cu_stage_randomk, \
		&cu_stage_threshold, &cu_stage_sortquant, &cu_stage_lowrank, &cu_stage_downsample, &cu_stage_cells

const struct sl_codec_stage *const cu_codec_stages[] = {PROVEN, NULL};
const struct sl_codec_stage *const cu_codec_stages_all[] = {UNPROVEN, PROVEN, NULL};
