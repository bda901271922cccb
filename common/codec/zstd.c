/* zstd:level — the body as one Zstandard frame (RFC 8878). Contexts lie in memory taken at open. The frame is
 * written and read block by block, so that a worker's job can give way in between; the bytes are those of
 * ZSTD_compressCCtx. */
#define ZSTD_DISABLE_DEPRECATE_WARNINGS
#define ZSTD_STATIC_LINKING_ONLY
#include <stdlib.h>
#include <zstd.h>

#include "common/base/worker.h"
#include "common/codec/stage.h"

enum { LEVEL };
enum { BLOCK = ZSTD_BLOCKSIZE_MAX }; /* a multiple of zstd's own, or the bytes would change */

static const struct sl_arg args[] = {
	{.key = "level", .type = SL_ARG_INT, .positional = true, .least = 1, .most = 19, .otherwise = 3},
	{0},
};

struct zstd {
	int level;
	void *pack_memory, *unpack_memory;
	ZSTD_CCtx *pack;
	ZSTD_DCtx *unpack;
};

static size_t bound(const double *arg, bool paired, const struct sl_extent *in)
{
	return ZSTD_compressBound((size_t)in->shape.dim[0]);
}

static void close_zstd(void *state)
{
	struct zstd *z = state;

	free(z->pack_memory);
	free(z->unpack_memory);
}

static void memory(const struct sl_stage_env *env, enum sl_codec_pairing pairing, struct sl_memory *need)
{
	sl_need(&need->host, 1, ZSTD_estimateCCtxSize((int)env->arg[LEVEL]) + ZSTD_estimateDCtxSize());
}

static enum sl_err open_zstd(void **state, const struct sl_stage_env *env, struct sl_fail *fail)
{
	int level = (int)env->arg[LEVEL];
	size_t pack_bytes = ZSTD_estimateCCtxSize(level), unpack_bytes = ZSTD_estimateDCtxSize();
	struct zstd *z = *state;

	z->level = level;
	z->pack_memory = malloc(pack_bytes);
	z->unpack_memory = malloc(unpack_bytes);
	if (z->pack_memory != NULL)
		z->pack = ZSTD_initStaticCCtx(z->pack_memory, pack_bytes);
	if (z->unpack_memory != NULL)
		z->unpack = ZSTD_initStaticDCtx(z->unpack_memory, unpack_bytes);
	return z->pack != NULL && z->unpack != NULL
		       ? SL_OK
		       : sl_fail_set(fail, SL_ERR_NOMEM, "zstd: no memory for level %d", level);
}

static enum sl_err pack(void *state, struct sl_bytes in, struct sl_buf *out)
{
	struct zstd *z = state;
	const ZSTD_parameters params = ZSTD_getParams(z->level, in.len, 0);
	size_t len = ZSTD_compressBegin_advanced(z->pack, NULL, 0, params, in.len), start = out->len, n;

	for (size_t at = 0; !ZSTD_isError(len); at += n) {
		bool last = in.len - at <= BLOCK;

		sl_worker_turn();
		if (sl_worker_unwanted()) {
			out->len = start;
			return SL_ERR_PEER_LOST;
		}
		n = last ? in.len - at : BLOCK;
		len = (last ? ZSTD_compressEnd : ZSTD_compressContinue)(z->pack, out->data + out->len,
									out->cap - out->len, in.data + at, n);
		if (ZSTD_isError(len))
			break;
		out->len += len;
		if (last)
			return SL_OK;
	}
	out->len = start;
	return SL_ERR_BUG;
}

static enum sl_err unpack(void *state, struct sl_bytes in, struct sl_buf *out, struct sl_fail *fail)
{
	struct zstd *z = state;
	size_t len = ZSTD_decompressBegin(z->unpack), at = 0, start = out->len, n = 1;

	/* one frame and nothing behind it */
	while (!ZSTD_isError(len) && (n = ZSTD_nextSrcSizeToDecompress(z->unpack)) != 0 && n <= in.len - at) {
		len = ZSTD_decompressContinue(z->unpack, out->data + out->len, out->cap - out->len, in.data + at, n);
		at += n;
		out->len += ZSTD_isError(len) ? 0 : len;
		sl_worker_turn();
	}
	if (!ZSTD_isError(len) && n == 0 && at == in.len)
		return SL_OK;
	out->len = start;
	if (ZSTD_isError(len))
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "zstd: %s", ZSTD_getErrorName(len));
	return sl_fail_set(fail, SL_ERR_PAYLOAD, "zstd: %zu bytes are not one frame", in.len);
}

const struct sl_codec_stage sl_stage_zstd = {
	.id = SL_STAGE_ID_ZSTD,
	.kind = SL_STAGE_BYTES,
	.name = "zstd",
	.usage = "zstd:level with level = 1…19, 3 if left out",
	.args = args,
	.bound = bound,
	.size = sizeof(struct zstd),
	.memory = memory,
	.open = open_zstd,
	.close = close_zstd,
	.pack = pack,
	.unpack = unpack,
};
