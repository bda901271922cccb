#include "common/base/arena.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/pieces.h"
#include "common/base/worker.h"

enum { HUGE_PAGE = 2 << 20 };

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* Maps anonymous memory. A mapping of a huge page or more begins on a huge page's boundary. */
static unsigned char *map_aligned(size_t len)
{
	size_t extra = len >= HUGE_PAGE ? HUGE_PAGE : 0, lead;
	unsigned char *mem = mmap(NULL, len + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED || extra == 0)
		return mem;
	lead = round_up((uintptr_t)mem, HUGE_PAGE) - (uintptr_t)mem;
	if (lead > 0)
		munmap(mem, lead);
	if (lead < extra)
		munmap(mem + lead + len, extra - lead);
	return mem + lead;
}

/* Older kernels lack POPULATE_WRITE: touch a byte of each page. */
static int fault_in(unsigned char *mem, size_t len, size_t page)
{
	for (size_t at = 0, n; at < len; at += n) {
		n = sl_piece(len - at);
		sl_worker_turn();
		if (madvise(mem + at, n, MADV_POPULATE_WRITE) == 0)
			continue;
		if (errno != EINVAL)
			return -1;
		for (size_t i = 0; i < n; i += page)
			((volatile unsigned char *)mem)[at + i] = 0;
	}
	return 0;
}

enum sl_err sl_arena_open(struct sl_arena *arena, size_t bytes, struct sl_fail *fail)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), cap, len;
	unsigned char *mem;

	if (bytes > SIZE_MAX / 2)
		return sl_fail_set(fail, SL_ERR_NOMEM, "an arena of %zu bytes cannot exist", bytes);
	cap = sl_align(bytes);
	len = round_up(cap > 0 ? cap : 1, page);
	mem = map_aligned(len);
	if (mem == MAP_FAILED)
		return sl_fail_set(fail, SL_ERR_NOMEM,
				   "no memory for %.1f GB of tensors: %s; a smaller batch or image takes less",
				   (double)bytes / 1e9, strerror(errno));
	/* a hint: where huge pages are switched off, ordinary ones do */
	(void)madvise(mem, len, MADV_HUGEPAGE);
	if (fault_in(mem, len, page) != 0) {
		int saved = errno;
		munmap(mem, len);
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory behind an arena of %zu bytes: %s", bytes,
				   strerror(saved));
	}
	*arena = (struct sl_arena){.base = mem, .used = 0, .cap = cap};
	return SL_OK;
}

void sl_arena_close(struct sl_arena *arena)
{
	if (arena->base)
		munmap(arena->base, round_up(arena->cap > 0 ? arena->cap : 1, (size_t)sysconf(_SC_PAGESIZE)));
	*arena = (struct sl_arena){0};
}

void sl_pages_drop(void *mem, size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), lead = round_up((uintptr_t)mem, page) - (uintptr_t)mem;

	if (bytes >= lead + page)
		(void)madvise((char *)mem + lead, (bytes - lead) / page * page, MADV_DONTNEED);
}

void *sl_arena_take(struct sl_arena *arena, size_t bytes)
{
	void *mem;

	if (!arena->base || bytes > arena->cap - arena->used)
		return NULL; /* before sl_align: a wild size must not wrap */
	if (sl_align(bytes) > arena->cap - arena->used)
		return NULL;
	mem = arena->base + arena->used;
	arena->used += sl_align(bytes);
	return mem;
}
