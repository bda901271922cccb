/* Host memory, and a backend that has only this and the codecs: it needs no BLAS. */
#include "common/base/arena.h"
#include "common/base/pieces.h"
#include "kernels/cpu/codec_loops.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/impl.h"

enum sl_err sl_cpu_alloc(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail)
{
	/* One arena per allocation: huge pages, faulted in before the first step. The arena's record is
	 * stored in front. */
	struct sl_arena arena = {0};
	enum sl_err err = sl_arena_open(&arena, sl_align(bytes) + SL_ARENA_ALIGN, fail);

	if (err)
		return err;
	*(struct sl_arena *)(void *)arena.base = arena;
	*out = arena.base + SL_ARENA_ALIGN;
	return SL_OK;
}

_Static_assert(sizeof(struct sl_arena) <= SL_ARENA_ALIGN, "the arena's record fits in front of what it holds");

void sl_cpu_free(struct sl_backend *be, void *ptr)
{
	struct sl_arena arena;

	if (ptr == NULL)
		return;
	arena = *(struct sl_arena *)(void *)((unsigned char *)ptr - SL_ARENA_ALIGN);
	sl_arena_close(&arena);
}

enum sl_err sl_cpu_copy(struct sl_backend *be, void *dst, const void *src, size_t bytes)
{
	sl_copy(dst, src, bytes);
	return SL_OK;
}

enum sl_err sl_cpu_zero(struct sl_backend *be, void *dst, size_t bytes)
{
	sl_clear(dst, bytes);
	return SL_OK;
}

enum sl_err sl_cpu_fence(struct sl_backend *be, void (*done)(void *arg), void *arg)
{
	done(arg);
	return SL_OK;
}

static void close_(struct sl_backend *be)
{
	*be = (struct sl_backend){0};
}

void sl_cpu_codec_backend_open(struct sl_backend *be)
{
	static const struct sl_backend_ops ops = {
		.name = "cpu", SL_CPU_MEMORY, .codec_loops = sl_cpu_codec_loops, .close = close_};

	*be = (struct sl_backend){.ops = &ops, .host_memory = true};
}
