/* Simulated processes: each has a stack of its own, on which the real main function of a daemon runs. */
#include "tests/sim/sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STACK = 8 << 20 };

static jmp_buf scheduler;
static int (*begin)(struct sim_proc *proc);

/* _setjmp and _longjmp change stacks without a system call, unlike swapcontext. */
static void leave(void)
{
	if (!_setjmp(sim.cur->at))
		_longjmp(scheduler, 1);
}

static void from_the_start(void)
{
	struct sim_proc *p = sim.cur;

	p->status = begin(p);
	p->over = true;
	leave();
	abort(); /* nothing comes back to a process that is over */
}

void sim_start(struct sim_proc *p, int (*main)(struct sim_proc *proc))
{
	p->generation++;
	p->starts++;
	p->alive = true;
	p->over = p->killed = false;
	p->loop = NULL;
	p->ends = NULL;
	p->stands_until = 0;
	p->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p->stack == MAP_FAILED)
		abort();
	getcontext(&p->context);
	p->context.uc_stack.ss_sp = p->stack;
	p->context.uc_stack.ss_size = STACK;
	makecontext(&p->context, from_the_start, 0);
	begin = main;
	sim.cur = p;
	if (!_setjmp(scheduler))
		setcontext(&p->context);
	sim.cur = NULL;
}

void sim_handle(struct sim_event *event)
{
	sim.cur = event->proc;
	sim.cur->event = event;
	if (!_setjmp(scheduler))
		_longjmp(sim.cur->at, 1);
	sim.cur = NULL;
}

void sim_wait(void)
{
	struct sim_event *e;

	leave();
	e = sim.cur->event;
	e->fn(e->arg);
	free(e);
}

void sim_die(void)
{
	sim.cur->killed = true;
	leave();
	abort();
}

void sim_bury(struct sim_proc *p)
{
	sim_net_dead(p); /* also of one that has left with its link open */
	p->generation++;
	p->alive = false;
	for (int fd = 0; fd < SIM_FDS; fd++)
		if (p->open[fd])
			syscall(SYS_close, fd);
	memset(p->open, 0, sizeof p->open);
	munmap(p->stack, STACK);
}
