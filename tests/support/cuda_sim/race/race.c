/* A race check that replaces the thread sanitizer's own. Kernels are compiled with -fsanitize=thread, which calls
 * the functions in calls.h at every access, but are not linked with the sanitizer's library. That one keeps a
 * clock of every thread in every thread, so a barrier of 1024 threads costs it a million steps. Here a block's
 * barriers are counted. An access is compared with the last ones of its byte in a few steps, exactly, whatever the
 * order in which threads happened to run.
 *
 * Two accesses to a byte in one launch, of which at least one writes and not both are atomic, race unless they are
 * - by one thread, or by one block with a barrier (__syncthreads) between them. Warp votes and shuffles order no
 *   memory accesses, according to CUDA's programming guide;
 * - by two blocks, in shared memory, of which every block has its own;
 * - by two blocks, ordered by "the last block to arrive": after its access the first block executes
 *   __threadfence() and then an atomic. An atomic of the second block at the same place sees it, and the second
 *   block fences before its access. With a barrier between two of these steps, several threads of a block may
 *   share them. */
#include "tests/support/cuda_sim/race.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/cuda_sim/calls.h"
#include "tests/support/cuda_sim/fiber.h"

enum { MOST_THREADS = 1024, PAGE = 4096, MOST_PUBLISHED = 1 << 14, MOST_SEEN = 64 };

/* ---- what is known of a byte: numbers of stretches, 0: none */

/* The accesses of a thread between two barriers or fences. */
struct stretch {
	uint32_t block, round;
	uint16_t thread, fences; /* fences: how many the thread has executed before */
};

/* The last accesses of a byte: the latest, the latest by another thread of its block, the latest by another
 * block. One other block stands for all: the running block is ordered after all of them, or after none. */
struct few {
	uint32_t last, beside, other;
};
struct cell {
	uint32_t wrote;
	struct few read, atomic;
};
struct page {
	uintptr_t at;
	struct page *next;
	struct cell cell[PAGE];
};

#include "tests/support/cuda_sim/pages.h"

static struct cell *cell_of(uintptr_t at)
{
	return &page_of(at)->cell[at % PAGE];
}

static void forget_all(void)
{
	for (int b = 0; b < PAGE_BUCKETS; b++)
		for (struct page *p = pages[b], *next; p != NULL; p = next) {
			next = p->next;
			free(p);
		}
	memset(pages, 0, sizeof pages);
	recent = NULL;
}

/* ---- the launch, the block, its threads */

/* An atomic at a place by a block that had fenced. It publishes what thread t did before its fence
 * number fences[t], and what the block did before barrier `round`. */
struct publication {
	uintptr_t at;
	uint32_t block, round;
	uint16_t *fences;
};

/* What a thread's atomic saw at its place: the publications so far. */
struct sight {
	uintptr_t at;
	unsigned publications, thread, round;
};

static struct {
	struct stretch *stretch; /* of this launch: number first + i */
	uint32_t first, count, cap;
	uintptr_t shared;
	size_t shared_bytes;
	struct publication publication[MOST_PUBLISHED];
	unsigned publications;
	bool watched, fenced;
} launch = {.first = 1};

struct thread {
	uint32_t stretch, round;
	/* fences: all so far; fences_before: those before the barrier that precedes the last fence.
	 * The rounds are those of the last fence in each. */
	uint16_t fences, fences_before;
	uint32_t fence_round, fence_round_before;
	uint64_t known; /* bit per sight: the thread has fenced after it */
};

static struct {
	uint32_t number;
	unsigned threads;
	struct thread thread[MOST_THREADS];
	struct sight sight[MOST_SEEN];
	unsigned sights;
	uint64_t known; /* known to all threads that reached the barrier */
} block;

static unsigned me;

static void begin_stretch(void)
{
	struct thread *t = &block.thread[me];

	if (launch.count == launch.cap) {
		launch.cap = launch.cap ? 2 * launch.cap : 1 << 16;
		launch.stretch = realloc(launch.stretch, launch.cap * sizeof *launch.stretch);
		if (launch.stretch == NULL)
			abort();
	}
	t->stretch = launch.first + launch.count;
	launch.stretch[launch.count++] = (struct stretch){block.number, t->round, (uint16_t)me, t->fences};
}

void race_launch(const void *shared, size_t shared_bytes)
{
	launch.shared = (uintptr_t)shared;
	launch.shared_bytes = shared_bytes;
	launch.fenced = false;
	launch.watched = true;
	if (launch.first > UINT32_MAX / 2) {
		launch.first = 1;
		forget_all();
	}
}

void race_launched(void)
{
	launch.watched = false;
	launch.first += launch.count;
	launch.count = 0;
	while (launch.publications > 0)
		free(launch.publication[--launch.publications].fences);
}

void race_block(unsigned number, unsigned threads)
{
	memset(&block, 0, sizeof block);
	block.number = number;
	block.threads = threads;
}

void race_thread(unsigned thread)
{
	me = thread;
	if (block.thread[me].stretch == 0)
		begin_stretch();
}

void race_arrive(void)
{
	block.known |= block.thread[me].known;
}

void race_leave(unsigned round)
{
	block.thread[me].known |= block.known;
	block.thread[me].round = round;
	begin_stretch();
}

void race_fence(void)
{
	struct thread *t = &block.thread[me];

	if (t->fences == 0 || t->fence_round < t->round) {
		t->fences_before = t->fences;
		t->fence_round_before = t->fence_round;
	}
	t->fences++;
	t->fence_round = t->round;
	launch.fenced = true;
	for (unsigned i = 0; i < block.sights; i++)
		if (block.sight[i].thread == me || block.sight[i].round < t->round)
			t->known |= (uint64_t)1 << i;
	begin_stretch();
}

/* Records an atomic of the running thread: what it sees, and what it publishes. */
static void note_atomic(uintptr_t at)
{
	const uint32_t now = block.thread[me].round;
	struct publication p = {.at = at, .block = block.number};
	bool any = false, seen = false;

	if (!launch.fenced)
		return;
	for (unsigned i = 0; i < launch.publications && !seen; i++)
		seen = launch.publication[i].at == at;
	if (launch.publications == MOST_PUBLISHED || (seen && block.sights == MOST_SEEN))
		abort();
	if (seen)
		block.sight[block.sights++] = (struct sight){at, launch.publications, me, now};
	p.fences = calloc(block.threads, sizeof *p.fences);
	if (p.fences == NULL)
		abort();
	for (unsigned i = 0; i < block.threads; i++) {
		const struct thread *t = &block.thread[i];
		const bool all = i == me || t->fence_round < now;
		const uint32_t round = all ? t->fence_round : t->fence_round_before;

		p.fences[i] = all ? t->fences : t->fences_before;
		any = any || p.fences[i] > 0;
		if (p.fences[i] > 0 && round > p.round)
			p.round = round;
	}
	if (any)
		launch.publication[launch.publications++] = p;
	else
		free(p.fences);
}

/* ---- the comparison */

static bool published(const struct stretch *s)
{
	for (unsigned i = 0; i < block.sights; i++) {
		const struct sight *sight = &block.sight[i];

		if (!(block.thread[me].known >> i & 1))
			continue;
		for (unsigned k = 0; k < sight->publications; k++) {
			const struct publication *p = &launch.publication[k];

			if (p->at == sight->at && p->block == s->block &&
			    (s->round < p->round || s->fences < p->fences[s->thread]))
				return true;
		}
	}
	return false;
}

static bool ordered(uint32_t stretch, uintptr_t at)
{
	const struct stretch *s;

	if (stretch < launch.first || stretch == block.thread[me].stretch)
		return true;
	s = &launch.stretch[stretch - launch.first];
	if (s->block == block.number)
		return s->thread == me || s->round < block.thread[me].round;
	return at - launch.shared < launch.shared_bytes || published(s);
}

static void fail(uint32_t before, uintptr_t at, const char *what, const void *pc)
{
	const struct stretch *s = &launch.stretch[before - launch.first];
	Dl_info where = {0};

	dladdr(pc, &where);
	fprintf(stderr,
		"cuda_sim: data race in %s memory at %#zx: %s by thread %u of block %u, and by thread %u of block %u "
		"at %s+%#zx (%s)\n",
		at - launch.shared < launch.shared_bytes ? "shared" : "global", (size_t)at, what, s->thread, s->block,
		me, block.number, where.dli_fname ? where.dli_fname : "?",
		(size_t)((uintptr_t)pc - (uintptr_t)where.dli_fbase), where.dli_sname ? where.dli_sname : "?");
	abort();
}

static void check_few(const struct few *f, uintptr_t at, const char *what, const void *pc)
{
	if (!ordered(f->last, at))
		fail(f->last, at, what, pc);
	if (!ordered(f->beside, at))
		fail(f->beside, at, what, pc);
	if (!ordered(f->other, at))
		fail(f->other, at, what, pc);
}

static void come(struct few *f)
{
	const uint32_t now = block.thread[me].stretch;
	const struct stretch *s;

	if (f->last == now)
		return;
	if (f->last < launch.first) {
		*f = (struct few){.last = now};
		return;
	}
	s = &launch.stretch[f->last - launch.first];
	if (s->block != block.number) {
		f->other = f->last;
		f->beside = 0;
	} else if (s->thread != me) {
		f->beside = f->last;
	}
	f->last = now;
}

static void access(const void *ptr, size_t bytes, enum kind kind, const void *pc)
{
	const uintptr_t at = (uintptr_t)ptr;

	if (!launch.watched || fiber_owns(ptr))
		return;
	for (uintptr_t i = at; i < at + bytes; i++) {
		struct cell *c = cell_of(i);

		if (!ordered(c->wrote, i))
			fail(c->wrote, i, "written", pc);
		if (kind != ATOMIC)
			check_few(&c->atomic, i, "changed atomically", pc);
		if (kind != READ)
			check_few(&c->read, i, "read", pc);
		if (kind == READ)
			come(&c->read);
		else if (kind == ATOMIC)
			come(&c->atomic);
		else
			c->wrote = block.thread[me].stretch;
	}
}

static void accessed(const void *ptr, size_t bytes, enum kind kind, const void *pc)
{
	access(ptr, bytes, kind == ATOMIC_READ ? ATOMIC : kind, pc);
	if (kind == ATOMIC && launch.watched)
		note_atomic((uintptr_t)ptr);
}
