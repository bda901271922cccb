/* Offsets of every block's places, and of every group of gaps, in side bytes. The host finds them by stepping
 * from one width to the next. It checks every step, so that the device reads only bytes that exist. */
#ifndef SL_KERNELS_CUDA_CODEC_INDEX_H
#define SL_KERNELS_CUDA_CODEC_INDEX_H

#include "kernels/cuda/codec_stage.h"

struct cu_index {
	int64_t most;   /* most blocks */
	int64_t blocks; /* of the last read */
	uint32_t groups;
	size_t words;     /* arrays offset, entry, at, group, [most] each; then group_at */
	uint32_t *host;   /* [flights][words], page-locked */
	uint32_t *device; /* [words] */
};

void cu_index_memory(const struct sl_stage_env *env, int64_t n, struct sl_memory *need);
enum sl_err cu_index_open(struct cu_index *index, struct cu_stage *s, int64_t n, struct sl_fail *fail) SL_MUST_CHECK;
void cu_index_close(struct cu_index *index, struct cu_stage *s);
/* Indexes side bytes for n elements of which `total` are kept. PAYLOAD. The result belongs to the slot's
 * call. */
enum sl_err cu_index_read(struct cu_index *index, const struct cu_stage *s, int slot, struct sl_bytes side, int64_t n,
			  int64_t total, struct sl_fail *fail) SL_MUST_CHECK;
/* Queues the upload of the last index, and copies its offsets to offset [blocks]. */
cudaError_t cu_index_bring(struct cu_index *index, struct cu_stage *s, int slot, uint32_t *offset,
			   struct cu_place_index *out);

#endif
