#include "kernels/cuda/codec_index.h"

#include "common/codec/frame.h"

static const uint32_t gaps_flag = 0x80000000u;

enum { OFFSET, ENTRY, AT, GROUP, ARRAYS };

static size_t words(int64_t blocks, int64_t n)
{
	return (size_t)(ARRAYS * blocks + n / CU_GAPS + blocks);
}

void cu_index_memory(const struct sl_stage_env *env, int64_t n, struct sl_memory *need)
{
	const struct cu_index *index = NULL;
	uint64_t bytes = words(sl_codec_blocks(n), n) * sizeof *index->host;

	sl_need(&need->host, cu_stage_flights(env), bytes);
	sl_need(&need->device, 1, bytes);
}

enum sl_err cu_index_open(struct cu_index *index, struct cu_stage *s, int64_t n, struct sl_fail *fail)
{
	int64_t blocks = sl_codec_blocks(n);
	struct sl_backend *be = s->env.be;
	size_t bytes;
	enum sl_err err;

	index->most = blocks;
	index->words = words(blocks, n);
	bytes = index->words * sizeof *index->host;
	err = be->ops->host_alloc(be, (size_t)s->flights * bytes, (void **)&index->host, fail);
	return err ? err : cu_stage_alloc(s, bytes, (void **)&index->device, fail);
}

static uint32_t *host_of(const struct cu_index *index, const struct cu_stage *s, int slot)
{
	return index->host + (s->flights > 1 ? (size_t)slot * index->words : 0);
}

void cu_index_close(struct cu_index *index, struct cu_stage *s)
{
	if (s->env.be != NULL)
		s->env.be->ops->host_free(s->env.be, index->host);
	cu_stage_free(s, index->device);
}

/* Returns the bytes of the gaps that begin at `at`, and adds their groups to the index; -1: they pass the
 * end. */
static int64_t hop(struct cu_index *index, uint32_t *group_at, struct sl_bytes in, size_t at, int64_t count)
{
	size_t start = at;

	for (int64_t first = 0; first < count; first += CU_GAPS) {
		int64_t n = count - first < CU_GAPS ? count - first : CU_GAPS;

		if (at >= in.len || in.data[at] > 16)
			return -1;
		group_at[index->groups++] = (uint32_t)at;
		at += 1 + (size_t)sl_packed_bytes(n, in.data[at]);
	}
	return at <= in.len ? (int64_t)(at - start) : -1;
}

enum sl_err cu_index_read(struct cu_index *index, const struct cu_stage *s, int slot, struct sl_bytes side, int64_t n,
			  int64_t total, struct sl_fail *fail)
{
	uint32_t *host = host_of(index, s, slot), *array[ARRAYS];
	struct sl_bytes table;
	int64_t kept = 0;
	size_t at = 0;

	index->blocks = sl_codec_blocks(n);
	index->groups = 0;
	for (int i = 0; i < ARRAYS; i++)
		array[i] = host + i * index->most;
	if (sl_bytes_take(&side, (size_t)index->blocks * 4, &table) != SL_OK)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "places: %zu bytes do not hold the table of %lld blocks",
				   side.len, (long long)index->blocks);
	for (int64_t b = 0; b < index->blocks; b++) {
		uint32_t entry = sl_get_u32(table.data + 4 * b), count = entry & ~gaps_flag;
		int64_t left = n - b * CU_BLOCK, len = left < CU_BLOCK ? left : CU_BLOCK, bytes = (len + 7) / 8;

		if (count > len)
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "places: %u kept of %lld", count, (long long)len);
		array[OFFSET][b] = (uint32_t)kept;
		array[ENTRY][b] = entry;
		array[AT][b] = (uint32_t)at;
		array[GROUP][b] = index->groups;
		if (entry & gaps_flag)
			bytes = hop(index, host + ARRAYS * index->most, side, at, count);
		if (bytes < 0 || (size_t)bytes > side.len - at)
			return sl_fail_set(fail, SL_ERR_PAYLOAD, "places: block %lld passes the end", (long long)b);
		kept += count;
		at += (size_t)bytes;
	}
	if (at != side.len || kept != total)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "places: %zu bytes and %lld places, declared %zu and %lld", at,
				   (long long)kept, side.len, (long long)total);
	return SL_OK;
}

cudaError_t cu_index_bring(struct cu_index *index, struct cu_stage *s, int slot, uint32_t *offset,
			   struct cu_place_index *out)
{
	size_t used = (size_t)(ARRAYS * index->most) + index->groups;
	cudaError_t queued = cu_stage_bring(s, index->device, host_of(index, s, slot), used * sizeof *index->host);

	if (queued == cudaSuccess)
		queued = cudaMemcpyAsync(offset, index->device + OFFSET * index->most,
					 (size_t)index->blocks * sizeof *offset, cudaMemcpyDeviceToDevice, s->stream);
	*out = (struct cu_place_index){.entry = index->device + ENTRY * index->most,
				       .at = index->device + AT * index->most,
				       .group = index->device + GROUP * index->most,
				       .group_at = index->device + ARRAYS * index->most};
	return queued;
}
