/* Time and chance: events in the order of their time, and draws that are a function of the seed. */
#include "tests/sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct sim sim;

static struct sim_event **heap;
static int n, room;

static uint64_t mixed(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

uint64_t sim_draw(enum sim_stream stream, uint64_t below)
{
	return below ? mixed(mixed(sim.seed * SIM_STREAMS + stream) + sim.draws[stream]++) % below : 0;
}

void sim_mix(uint64_t what)
{
	sim.hash = mixed(sim.hash ^ what);
}

static uint64_t number; /* of the next event */

/* Events of one time come in an order that the seed decides. */
static bool before(const struct sim_event *a, const struct sim_event *b)
{
	if (a->t != b->t)
		return a->t < b->t;
	return a->tie != b->tie ? a->tie < b->tie : a->number < b->number;
}

static void push(struct sim_event *e)
{
	int i = n++;

	if (n > room)
		heap = realloc(heap, (size_t)(room = room ? 2 * room : 256) * sizeof *heap);
	if (!heap)
		abort();
	for (; i && before(e, heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = e;
}

static struct sim_event *pop(void)
{
	struct sim_event *first = heap[0], *e = heap[--n];
	int i = 0, k;

	while ((k = 2 * i + 1) < n) {
		if (k + 1 < n && before(heap[k + 1], heap[k]))
			k++;
		if (!before(heap[k], e))
			break;
		heap[i] = heap[k];
		i = k;
	}
	heap[i] = e;
	return first;
}

struct sim_event *sim_at(struct sim_proc *proc, uint64_t delay_ns, void (*fn)(void *arg), void *arg)
{
	struct sim_event *e = malloc(sizeof *e);

	if (!e)
		abort();
	*e = (struct sim_event){.t = sim.now_ns + delay_ns,
				.tie = sim_draw(SIM_TIE, 1 << 30),
				.number = number++,
				.proc = proc,
				.generation = proc ? proc->generation : 0,
				.fn = fn,
				.arg = arg};
	push(e);
	return e;
}

void sim_cancel(struct sim_event *event)
{
	event->dead = true;
}

struct sim_event *sim_next(void)
{
	while (n) {
		struct sim_event *e = pop();

		if (!e->dead && (!e->proc || (e->proc->alive && e->generation == e->proc->generation))) {
			sim.now_ns = e->t > sim.now_ns ? e->t : sim.now_ns;
			return e;
		}
		if (e->dead)
			free(e); /* of a dead process: what made it may still cancel it */
	}
	return NULL;
}

/* All are put off to one time. They keep their order, as the messages of a connection do. */
void sim_put_off(struct sim_event *event, uint64_t until_ns)
{
	event->t = until_ns;
	event->tie = 0;
	event->number = number++;
	push(event);
}

void sim_trace(const char *format, ...)
{
	va_list args;

	if (!sim.traced)
		return;
	printf("%12.6f ", (double)sim.now_ns * 1e-9);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

void sim_fail(const char *format, ...)
{
	va_list args;

	if (sim.failed)
		return;
	sim.failed = true;
	va_start(args, format);
	vsnprintf(sim.why, sizeof sim.why, format, args);
	va_end(args);
	sim_trace("found: %s", sim.why);
}

const char *sim_name(const struct sim_proc *proc)
{
	static const char *const name[SIM_PROCS] = {"client", "member 1", "member 2", "member 3", "server"};

	return sim.members && !proc->id ? "member 0" : name[proc->id];
}
