/* The part of CUDA that kernels/cuda needs, simulated on a CPU, so that its kernels run without a GPU. The codecs'
 * kernels keep to the common subset of C and CUDA C++, and are linked into a test. Compiled as C++, everything
 * together is a libsplit_cuda.so with one device (make cuda-sim). A block's threads are fibers of one thread, resumed
 * in varying order; they meet at barriers, warp votes and shuffles as on a device. Blocks run one after another. In
 * the module, copies, launches and products wait in streams, as late and in as odd an order as a device may run them
 * (stream.c); in C they are done when the call returns. race/race.c looks for races, also between blocks. Not
 * simulated: the device's own rounding of products and library calls, its limits, and its speed. */
#ifndef SL_TESTS_CUDA_SIM_H
#define SL_TESTS_CUDA_SIM_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
#define _Thread_local thread_local
extern "C" {
#endif

typedef int cudaError_t;
typedef struct sim_stream *cudaStream_t;
typedef struct sim_event *cudaEvent_t;
typedef struct sim_graph *cudaGraph_t, *cudaGraphExec_t;
enum {
	cudaSuccess,
	cudaErrorUnknown,
	cudaErrorInvalidValue,
	cudaErrorMemoryAllocation,
	cudaErrorNotReady,
	cudaErrorStreamCaptureUnsupported
};
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed };
enum { cudaStreamNonBlocking = 1, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2, cudaHostAllocDefault = 0 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor };

/* A word of uninitialized memory: a signalling NaN. */
#define SIM_POISON 0x7fa07fa0u

struct cudaDeviceProp {
	char name[256];
	int major, minor, multiProcessorCount;
	size_t totalGlobalMem;
};
struct cudaFuncAttributes {
	int unused;
};

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *dst, int byte, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out);
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
extern unsigned sim_waits; /* number of calls so far that waited for queued work */
/* Queues run(arg) on the stream, followed by drop(arg). While the stream records, run(arg) is
 * queued at every launch of the graph instead. */
cudaError_t sim_queue(cudaStream_t stream, void (*run)(void *arg), void (*drop)(void *arg), void *arg);
/* Returns a call's status; an error is also kept for cudaGetLastError of this thread. */
cudaError_t sim_says(cudaError_t status);
/* The calling thread's device; queued work, events and recordings belong to it alone. */
extern _Thread_local int sim_device;
/* Registers memory that cudaHostAlloc (lock) or cudaMalloc (own) returned; sim_forget removes it. */
cudaError_t sim_lock(const void *ptr, size_t bytes);
cudaError_t sim_own(const void *ptr, size_t bytes);
void sim_forget(const void *ptr);
/* Checks a pointer that a kernel is passed. */
void sim_reach(const void *ptr);
/* runtime.c. These calls fail only for lack of memory or for a device that does not exist. There
 * are SPLIT_SIM_DEVICES devices, or one. */
cudaError_t cudaMalloc(void **out, size_t bytes);
cudaError_t cudaFree(void *ptr);
/* all: SPLIT_SIM_MEMORY bytes, 16 GiB by default. The file SPLIT_SIM_OTHERS holds how many of them
 * other programs use. */
cudaError_t cudaMemGetInfo(size_t *left, size_t *all);
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *ptr);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceCount(int *out);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device);
cudaError_t cudaDeviceGetAttribute(int *out, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaDriverGetVersion(int *out);
cudaError_t cudaRuntimeGetVersion(int *out);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t status);

#define __global__
#define __device__
#define __host__
#define __shared__      static __attribute__((section(SIM_SHARED)))
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct sim_index {
	unsigned x, y, z;
};
extern struct sim_index threadIdx, blockIdx, blockDim, gridDim;

/* Shared memory of the kernels of one file: a section, called SIM_SHARED. Its bounds are names from the linker, weak
 * because a file may have none. */
#ifndef SIM_SHARED
#define SIM_SHARED "sim_shared"
#endif
struct sim_shared {
	uint32_t *from, *to;
};
extern uint32_t sim_shared_from[] __asm__("__start_" SIM_SHARED) __attribute__((weak));
extern uint32_t sim_shared_to[] __asm__("__stop_" SIM_SHARED) __attribute__((weak));
#define SIM_SHARED_HERE ((struct sim_shared){sim_shared_from, sim_shared_to})

/* Runs `thread` for every thread of every block. Aborts if a barrier is not reached by all. A
 * launch that no device would accept is an error, which cudaGetLastError reports. While
 * SPLIT_SIM_NO_ROOM is in the environment, every launch fails for lack of memory. */
cudaError_t sim_takes_grid(struct sim_index grid, struct sim_index block);
cudaError_t sim_launch_grid(void (*thread)(void), struct sim_shared shared, struct sim_index grid,
			    struct sim_index block);
cudaError_t sim_launch(void (*thread)(void), struct sim_shared shared, int64_t blocks, unsigned threads);
extern const void *sim_body;   /* for the launching code: the data that `thread` needs */
extern const char *sim_kernel; /* FILE:KERNEL, for traffic/; in C alone */

#ifndef __cplusplus
/* A nested function sees the arguments of the calling one, as CUDA's launch would copy them. */
#define CU_LAUNCH(kernel, blocks, threads, stream, ...)                       \
	({                                                                    \
		void sim_thread(void)                                         \
		{                                                             \
			kernel(__VA_ARGS__);                                  \
		}                                                             \
		(void)(stream);                                               \
		sim_kernel = __FILE__ ":" #kernel;                            \
		sim_launch(sim_thread, SIM_SHARED_HERE, (blocks), (threads)); \
	})

#endif

void __syncthreads(void);
float __shfl_xor_sync(unsigned mask, float v, int lanes); /* among all 32 lanes */
/* among all 32 lanes: v of the lane `lanes` below, or the lane's own */
unsigned __shfl_up_sync(unsigned mask, unsigned v, unsigned lanes);
/* among all 32 lanes: v of the lane `lanes` above, or the lane's own */
double __shfl_down_sync(unsigned mask, double v, unsigned lanes);
unsigned __ballot_sync(unsigned mask, int predicate); /* among all 32 lanes */

void __threadfence(void);

static inline unsigned atomicAdd(unsigned *at, unsigned v)
{
	return __atomic_fetch_add(at, v, __ATOMIC_RELAXED);
}

static inline unsigned atomicMax(unsigned *at, unsigned v)
{
	unsigned old = __atomic_load_n(at, __ATOMIC_RELAXED);

	while (!__atomic_compare_exchange_n(at, &old, v > old ? v : old, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		continue;
	return old;
}

static inline unsigned atomicOr(unsigned *at, unsigned v)
{
	return __atomic_fetch_or(at, v, __ATOMIC_RELAXED);
}

static inline unsigned atomicAnd(unsigned *at, unsigned v)
{
	return __atomic_fetch_and(at, v, __ATOMIC_RELAXED);
}

static inline unsigned atomicExch(unsigned *at, unsigned v)
{
	return __atomic_exchange_n(at, v, __ATOMIC_RELAXED);
}

static inline int __popc(unsigned v)
{
	return __builtin_popcount(v);
}

static inline int __clz(int v)
{
	return v == 0 ? 32 : __builtin_clz((unsigned)v);
}

static inline unsigned __umulhi(unsigned a, unsigned b)
{
	return (unsigned)((uint64_t)a * b >> 32);
}

static inline unsigned __float_as_uint(float v)
{
	unsigned bits;

	memcpy(&bits, &v, sizeof bits);
	return bits;
}

static inline float __uint_as_float(unsigned bits)
{
	float v;

	memcpy(&v, &bits, sizeof v);
	return v;
}

#ifdef __cplusplus
}

struct dim3 : sim_index {
	dim3(unsigned x, unsigned y = 1, unsigned z = 1) : sim_index{x, y, z}
	{
	}
};

/* Every thread calls `body`. */
template <class F> cudaError_t sim_run(sim_shared shared, dim3 grid, dim3 block, const F &body)
{
	sim_body = &body;
	return sim_launch_grid([] { (*(const F *)sim_body)(); }, shared, grid, block);
}

/* Queues f() on the stream. */
template <class F> cudaError_t sim_later(cudaStream_t s, F f)
{
	const auto run = [](void *arg) { (*(F *)arg)(); };
	const auto drop = [](void *arg) { delete (F *)arg; };

	return sim_queue(s, run, drop, new F(f));
}

template <class T> void sim_look(const T &)
{
}
template <class T> void sim_look(T *const &at)
{
	sim_reach(at);
}

/* The arguments are copied at the call, as by CUDA's launch. */
template <class K, class... A>
cudaError_t sim_call(sim_shared shared, dim3 grid, dim3 block, cudaStream_t s, K kernel, A... args)
{
	cudaError_t err = sim_takes_grid(grid, block);

	(sim_look(args), ...);
	return err ? err : sim_later(s, [=] { sim_run(shared, grid, block, [&] { kernel(args...); }); });
}

#define CU_LAUNCH(kernel, blocks, threads, s, ...) \
	sim_call(                                  \
		SIM_SHARED_HERE, (unsigned)(blocks), (threads), (s), [=](auto... a) { (kernel)(a...); }, __VA_ARGS__)
#define CU_RUN(...) ((void)CU_LAUNCH_GRID(__VA_ARGS__))
#define CU_LAUNCH_GRID(kernel, grid, block, s, ...) \
	sim_call(                                   \
		SIM_SHARED_HERE, (grid), (block), (s), [=](auto... a) { (kernel)(a...); }, __VA_ARGS__)

template <class F> cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, F)
{
	*out = {};
	return cudaSuccess;
}

template <class T> T min(T a, T b)
{
	return b < a ? b : a;
}

template <class T> T __ldcg(const T *p)
{
	return *p;
}
#endif

#endif
