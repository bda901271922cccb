/* Counts accesses. It implements the same calls, by grid.c and by the compiler, as race/race.c. */
#include "tests/support/cuda_sim/traffic/traffic.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/cuda_sim/calls.h"
#include "tests/support/cuda_sim/cuda_runtime_api.h"
#include "tests/support/cuda_sim/fiber.h"
#include "tests/support/cuda_sim/race.h"

enum { WARP = 32, BANKS = 32, WORD = 4, MOST_THREADS = 1024, MOST_WARPS = MOST_THREADS / WARP, MOST_SITES = 256 };
enum { PAGE = 4096, PAGE_SECTORS = PAGE / TRAFFIC_SECTOR, MOST_KERNELS = 64 };

static void *grown(void *ptr, size_t bytes)
{
	void *p = realloc(ptr, bytes);

	if (p == NULL)
		abort();
	return p;
}

/* ---- global memory: which launch touched each sector last */

struct page {
	uintptr_t at;
	struct page *next;
	uint32_t read[PAGE_SECTORS], written[PAGE_SECTORS];
	uint32_t changed[PAGE / WORD], changes[PAGE / WORD]; /* by atomics: the last launch, and how often in it */
};

#include "tests/support/cuda_sim/pages.h"

/* ---- accesses of the running block, by warp and instruction: a group for each time that threads executed it */

struct group {
	uintptr_t at[WARP];
	uint8_t lanes, bytes;
};
struct groups {
	struct group *group;
	uint32_t count, cap;
};
struct site {
	const void *pc;
	enum kind kind;
};

static struct {
	struct traffic_kernel *kernel;
	uint32_t number;
	uintptr_t shared;
	size_t shared_bytes;
	struct site site[MOST_SITES]; /* open addressing by pc */
	bool watched, busy;           /* busy: a block has accesses that are not counted yet */
} launch;

static struct {
	unsigned threads;
	struct groups groups[MOST_WARPS][MOST_SITES];
	uint32_t times[MOST_THREADS][MOST_SITES], loads[MOST_THREADS];
} block;

static unsigned me;
static struct traffic_kernel kernels[MOST_KERNELS];
static size_t kernel_count;
static struct traffic_host host;

static unsigned site_of(const void *pc, enum kind kind)
{
	unsigned i = (unsigned)((uintptr_t)pc * 2654435761u >> 7) % MOST_SITES;

	for (unsigned tries = 0; launch.site[i].pc != pc; i = (i + 1) % MOST_SITES) {
		if (launch.site[i].pc == NULL) {
			launch.site[i] = (struct site){pc, kind};
			break;
		}
		if (++tries == MOST_SITES) {
			fprintf(stderr, "traffic: a kernel with more than %d accesses in its code\n", MOST_SITES);
			abort();
		}
	}
	return i;
}

static bool is_shared(uintptr_t at)
{
	return at - launch.shared < launch.shared_bytes;
}

/* These variables are registers of a device. */
static bool is_index(const void *ptr)
{
	const struct sim_index *all[] = {&threadIdx, &blockIdx, &blockDim, &gridDim};

	for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
		if ((uintptr_t)ptr - (uintptr_t)all[i] < sizeof *all[i])
			return true;
	return false;
}

/* Of an atomic maximum only the exchange is counted. */
static void accessed(const void *ptr, size_t bytes, enum kind kind, const void *pc)
{
	struct groups *g;
	uint32_t time;
	unsigned site;

	if (!launch.watched || kind == ATOMIC_READ || fiber_owns(ptr) || is_index(ptr))
		return;
	launch.busy = true;
	site = site_of(pc, kind);
	time = block.times[me][site]++;
	g = &block.groups[me / WARP][site];
	if (time >= g->cap) {
		g->cap = g->cap ? 2 * g->cap : 64;
		g->group = grown(g->group, g->cap * sizeof *g->group);
	}
	while (g->count <= time)
		g->group[g->count++].lanes = 0;
	g->group[time].bytes = (uint8_t)bytes;
	g->group[time].at[g->group[time].lanes++] = (uintptr_t)ptr;
	if (kind == READ && !is_shared((uintptr_t)ptr))
		block.loads[me]++;
}

/* ---- counting the groups */

static void count_moved(uintptr_t sector, enum kind kind)
{
	struct page *p = page_of(sector * TRAFFIC_SECTOR);
	uint32_t *read = &p->read[sector % PAGE_SECTORS], *written = &p->written[sector % PAGE_SECTORS];

	if (kind != WRITE && *read != launch.number) {
		*read = launch.number;
		launch.kernel->moved_read++;
	}
	if (kind != READ && *written != launch.number) {
		*written = launch.number;
		launch.kernel->moved_written++;
	}
}

static void count_global(const struct group *g, enum kind kind)
{
	uintptr_t seen[WARP * 8];
	unsigned n = 0;

	for (unsigned l = 0; l < g->lanes; l++) {
		const uintptr_t last = (g->at[l] + g->bytes - 1) / TRAFFIC_SECTOR;

		for (uintptr_t s = g->at[l] / TRAFFIC_SECTOR; s <= last; s++) {
			unsigned i = n;

			/* backwards, because neighbours are likely to share a sector */
			while (i > 0 && seen[i - 1] != s)
				i--;
			if (i > 0 || n == sizeof seen / sizeof seen[0])
				continue;
			seen[n++] = s;
			count_moved(s, kind);
		}
	}
	if (kind != WRITE)
		launch.kernel->asked_read += n;
	if (kind != READ)
		launch.kernel->asked_written += n;
}

static void count_atomics(const struct group *g)
{
	for (unsigned l = 0; l < g->lanes; l++) {
		struct page *p = page_of(g->at[l]);
		const size_t word = g->at[l] % PAGE / WORD;

		p->changes[word] = p->changed[word] == launch.number ? p->changes[word] + 1 : 1;
		p->changed[word] = launch.number;
		launch.kernel->atomics++;
		if (p->changes[word] > launch.kernel->most_atomics)
			launch.kernel->most_atomics = p->changes[word];
	}
}

/* In one turn a bank serves one word to all threads that want it; every atomic takes a turn of its own. */
static void count_shared(const struct group *g, enum kind kind)
{
	uintptr_t word[WARP * 8];
	unsigned turns[BANKS] = {0}, most = 0, n = 0;

	for (unsigned l = 0; l < g->lanes; l++)
		for (uintptr_t w = g->at[l] / WORD; w <= (g->at[l] + g->bytes - 1) / WORD; w++) {
			unsigned i = kind == ATOMIC ? 0 : n;

			while (i > 0 && word[i - 1] != w)
				i--;
			if (i > 0 || n == sizeof word / sizeof word[0])
				continue;
			word[n++] = w;
			if (++turns[w % BANKS] > most)
				most = turns[w % BANKS];
		}
	launch.kernel->shared++;
	launch.kernel->shared_turns += most;
}

static void count_block(void)
{
	const unsigned warps = (block.threads + WARP - 1) / WARP;

	if (!launch.busy)
		return;
	launch.busy = false;
	for (unsigned s = 0; s < MOST_SITES; s++) {
		if (launch.site[s].pc == NULL)
			continue;
		for (unsigned w = 0; w < warps; w++) {
			struct groups *g = &block.groups[w][s];

			for (uint32_t i = 0; i < g->count; i++) {
				if (is_shared(g->group[i].at[0])) {
					count_shared(&g->group[i], launch.site[s].kind);
					continue;
				}
				count_global(&g->group[i], launch.site[s].kind);
				if (launch.site[s].kind == ATOMIC)
					count_atomics(&g->group[i]);
			}
			g->count = 0;
		}
	}
	for (unsigned t = 0; t < block.threads; t++) {
		if (block.loads[t] > launch.kernel->most_loads)
			launch.kernel->most_loads = block.loads[t];
		block.loads[t] = 0;
		memset(block.times[t], 0, sizeof block.times[t]);
	}
}

/* ---- calls by grid.c */

static struct traffic_kernel *kernel_named(const char *name)
{
	for (size_t i = 0; i < kernel_count; i++)
		if (strcmp(kernels[i].name, name) == 0)
			return &kernels[i];
	if (kernel_count == MOST_KERNELS)
		abort();
	kernels[kernel_count] = (struct traffic_kernel){.name = name};
	return &kernels[kernel_count++];
}

void race_launch(const void *shared, size_t shared_bytes)
{
	launch.kernel = kernel_named(sim_kernel);
	launch.kernel->launches++;
	launch.kernel->blocks += (int64_t)gridDim.x * gridDim.y * gridDim.z;
	launch.kernel->threads = (int64_t)blockDim.x * blockDim.y * blockDim.z;
	launch.number++;
	launch.shared = (uintptr_t)shared;
	launch.shared_bytes = shared_bytes;
	memset(launch.site, 0, sizeof launch.site);
	launch.watched = true;
}

void race_launched(void)
{
	launch.watched = false;
	count_block();
}

void race_block(unsigned number, unsigned threads)
{
	(void)number;
	count_block();
	block.threads = threads;
}

void race_thread(unsigned thread)
{
	me = thread;
}

void race_arrive(void)
{
}

void race_leave(unsigned round)
{
	(void)round;
}

void race_fence(void)
{
}

/* ---- the host's calls: linked with --wrap */

cudaError_t __real_cudaMemsetAsync(void *dst, int byte, size_t bytes, cudaStream_t stream);
cudaError_t __wrap_cudaMemsetAsync(void *dst, int byte, size_t bytes, cudaStream_t stream);
cudaError_t __wrap_cudaMemsetAsync(void *dst, int byte, size_t bytes, cudaStream_t stream)
{
	host.memsets++;
	host.memset_bytes += (int64_t)bytes;
	return __real_cudaMemsetAsync(dst, byte, bytes, stream);
}

cudaError_t __real_cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
				   cudaStream_t stream);
cudaError_t __wrap_cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
				   cudaStream_t stream);
cudaError_t __wrap_cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
				   cudaStream_t stream)
{
	host.copies++;
	host.copy_bytes += (int64_t)bytes;
	return __real_cudaMemcpyAsync(dst, src, bytes, kind, stream);
}

cudaError_t __real_cudaStreamSynchronize(cudaStream_t stream);
cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t stream);
cudaError_t __wrap_cudaStreamSynchronize(cudaStream_t stream)
{
	host.waits++;
	return __real_cudaStreamSynchronize(stream);
}

cudaError_t __real_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event)
{
	host.waits++;
	return __real_cudaEventSynchronize(event);
}

void traffic_forget(void)
{
	kernel_count = 0;
	host = (struct traffic_host){0};
}

size_t traffic_kernels(const struct traffic_kernel **out)
{
	*out = kernels;
	return kernel_count;
}

struct traffic_host traffic_host(void)
{
	return host;
}
