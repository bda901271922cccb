#include "tests/support/counted/counted.h"

#include <stdlib.h>

#include "common/base/arena.h"
#include "kernels/cuda/codec_stage.h"
#include "tests/support/gpu_codecs/sim.h"

static struct sl_memory taken;
static bool counting;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *ptr, size_t bytes);
enum sl_err __real_sl_arena_open(struct sl_arena *arena, size_t bytes, struct sl_fail *fail);
cudaError_t __real_cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t __wrap_cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *ptr, size_t bytes);
enum sl_err __wrap_sl_arena_open(struct sl_arena *arena, size_t bytes, struct sl_fail *fail);

static void count(uint64_t *to, size_t bytes)
{
	if (counting)
		*to += bytes;
}

void *__wrap_malloc(size_t bytes)
{
	count(&taken.host, bytes);
	return __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	count(&taken.host, n * bytes);
	return __real_calloc(n, bytes);
}

void *__wrap_realloc(void *ptr, size_t bytes)
{
	count(&taken.host, bytes);
	return __real_realloc(ptr, bytes);
}

enum sl_err __wrap_sl_arena_open(struct sl_arena *arena, size_t bytes, struct sl_fail *fail)
{
	count(&taken.host, bytes);
	return __real_sl_arena_open(arena, bytes, fail);
}

/* Not counted: an event is memory of the simulated device. */
cudaError_t __wrap_cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
	bool was = counting;
	cudaError_t status;

	counting = false;
	status = __real_cudaEventCreateWithFlags(event, flags);
	counting = was;
	return status;
}

static enum sl_err backend_alloc(struct sl_backend *be, size_t bytes, void **out, uint64_t *to, struct sl_fail *fail)
{
	bool was = counting;
	enum sl_err err;

	count(to, bytes);
	counting = false;
	err = sim_codec_backend.ops->alloc(be, bytes, out, fail);
	counting = was;
	return err;
}

static enum sl_err device_alloc(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail)
{
	return backend_alloc(be, bytes, out, &taken.device, fail);
}

static enum sl_err locked_alloc(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail)
{
	return backend_alloc(be, bytes, out, &taken.host, fail);
}

struct sl_backend counted_backend(bool ahead)
{
	static struct sl_backend_ops ops;

	ops = *sim_codec_backend.ops;
	ops.ahead = ahead;
	ops.alloc = device_alloc;
	ops.host_alloc = locked_alloc;
	return (struct sl_backend){.ops = &ops};
}

void counted_begin(void)
{
	taken = (struct sl_memory){0};
	counting = true;
}

struct sl_memory counted_end(void)
{
	counting = false;
	return taken;
}
