/* Takes the place of common/base/clock.c, common/link/loop.c, control.c and probe.c, and of common/base/failpoint.c:
 * each passage of a failpoint is a place to die at. */
#define SL_FAILPOINTS

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/link/control.h"
#include "common/link/loop.h"
#include "common/link/probe.h"
#include "tests/sim/sim.h"

/* ---- time and random numbers ---- */

uint64_t sl_now_ns(void)
{
	return sim.now_ns;
}

uint64_t sl_now_coarse_ns(void)
{
	return sim.now_ns;
}

uint64_t sl_thread_cpu_ns(void)
{
	return sim.now_ns;
}

uint64_t sl_wall_ns(void)
{
	return sim.wall_ns + sim.now_ns - (sim.cur ? sim.back_ns[sim.cur->side] : 0);
}

int64_t sl_started_s(void)
{
	return (int64_t)(sim.wall_ns / 1000000000u);
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
	sim.now_ns += (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
	return 0;
}

ssize_t getrandom(void *to, size_t len, unsigned flags)
{
	uint8_t *byte = to;

	for (size_t i = 0; i < len; i++)
		byte[i] = (uint8_t)sim_draw(SIM_RANDOM, 256);
	return (ssize_t)len;
}

/* ---- the loop ---- */

struct sl_loop {
	struct sim_proc *proc;
	bool stop;
	void (*on_signal)(void *arg, int signum);
	void *signal_arg;
};

struct sl_timer {
	struct sim_proc *proc;
	struct sim_event *event;
	uint64_t period_ms;
	void (*fn)(void *arg);
	void *arg;
};

struct sl_async {
	struct sim_proc *proc;
	struct sim_event *event;
	void (*fn)(void *arg);
	void *arg;
};

static void *made(size_t size)
{
	void *p = calloc(1, size);

	return p ? p : (abort(), NULL);
}

struct uv_loop_s *sl_loop_uv(struct sl_loop *loop)
{
	abort(); /* what asks for libuv's loop is not simulated */
}

enum sl_err sl_uv_fail(struct sl_fail *fail, int status, const char *what)
{
	return sl_fail_set(fail, SL_ERR_OS, "%s", what);
}

enum sl_err sl_loop_open(struct sl_loop **out, struct sl_fail *fail)
{
	*out = made(sizeof **out);
	(*out)->proc = sim.cur;
	sim.cur->loop = *out;
	return SL_OK;
}

void sl_loop_run(struct sl_loop *loop)
{
	while (!loop->stop)
		sim_wait();
	loop->stop = false;
}

void sl_loop_stop(struct sl_loop *loop)
{
	loop->stop = true;
}

void sl_loop_close(struct sl_loop *loop)
{
	if (loop && loop->proc->loop == loop)
		loop->proc->loop = NULL;
	free(loop);
}

uint64_t sl_loop_now_ms(struct sl_loop *loop)
{
	return sim.now_ns / SIM_MS;
}

/* ---- timers, wakes, signals ---- */

static void timer_due(void *arg)
{
	struct sl_timer *t = arg;

	t->event = NULL;
	if (t->period_ms)
		sl_timer_start(t, t->period_ms, t->period_ms);
	t->fn(t->arg);
}

enum sl_err sl_timer_open(struct sl_timer **out, struct sl_loop *loop, void (*fn)(void *arg), void *arg,
			  struct sl_fail *fail)
{
	*out = made(sizeof **out);
	**out = (struct sl_timer){.proc = loop->proc, .fn = fn, .arg = arg};
	return SL_OK;
}

void sl_timer_start(struct sl_timer *timer, uint64_t delay_ms, uint64_t period_ms)
{
	sl_timer_stop(timer);
	timer->period_ms = sim.days && period_ms && period_ms < SIM_TICK_MS ? SIM_TICK_MS : period_ms;
	timer->event = sim_at(timer->proc, delay_ms * SIM_MS + sim_draw(SIM_TIMER, SIM_MS), timer_due, timer);
}

void sl_timer_stop(struct sl_timer *timer)
{
	if (timer->event)
		sim_cancel(timer->event);
	timer->event = NULL;
}

void sl_timer_close(struct sl_timer *timer)
{
	if (timer)
		sl_timer_stop(timer);
	free(timer);
}

static void woken(void *arg)
{
	struct sl_async *a = arg;

	a->event = NULL;
	a->fn(a->arg);
}

enum sl_err sl_async_open(struct sl_async **out, struct sl_loop *loop, void (*fn)(void *arg), void *arg,
			  struct sl_fail *fail)
{
	*out = made(sizeof **out);
	**out = (struct sl_async){.proc = loop->proc, .fn = fn, .arg = arg};
	return SL_OK;
}

void sl_async_wake(void *async)
{
	struct sl_async *a = async;

	if (!a->event)
		a->event = sim_at(a->proc, sim_draw(SIM_LATENCY, 30000), woken, a);
}

void sl_async_close(struct sl_async *async)
{
	if (async && async->event)
		sim_cancel(async->event);
	free(async);
}

enum sl_err sl_loop_on_signals(struct sl_loop *loop, void (*fn)(void *arg, int signum), void *arg, struct sl_fail *fail)
{
	loop->on_signal = fn;
	loop->signal_arg = arg;
	return SL_OK;
}

void sl_loop_unsilence(void)
{
}

enum sl_err sl_loop_on_hangup(struct sl_loop *loop, void (*fn)(void *arg), void *arg, struct sl_fail *fail)
{
	return SL_OK;
}

static void signal_due(void *arg)
{
	struct sl_loop *loop = ((struct sim_proc *)arg)->loop;

	if (loop && loop->on_signal)
		loop->on_signal(loop->signal_arg, 15);
}

void sim_loop_term(struct sim_proc *proc)
{
	sim_at(proc, 1000, signal_due, proc);
}

/* ---- nobody asks for a status, and a connection that is not made gets no reason ---- */

enum sl_err sl_control_open(struct sl_control **out, struct sl_loop *loop, const char *path,
			    char *(*answer)(void *arg, const char *request), void *arg, struct sl_fail *fail)
{
	*out = NULL;
	return SL_OK;
}

void sl_control_close(struct sl_control *control)
{
}

enum sl_greeting sl_probe_wait(const char *endpoint, int ms, char out[SL_PROBE_TEXT])
{
	sim.now_ns += (uint64_t)ms * SIM_MS;
	strcpy(out, "simulated");
	return (enum sl_greeting)0;
}

/* ---- failpoints ---- */

const char *sim_failpoint_name(int i)
{
	static const char *const name[] = {
#define X(id, name, sides, before, beside, what) name,
		SL_FAILPOINT_MAP(X)
#undef X
	};

	return i < (int)(sizeof name / sizeof *name) ? name[i] : NULL;
}

/* A server may lie there. It is no place to die: older seeds count those. */
static int lies(enum sl_failpoint point)
{
	sim.chances++;
	return sim_fires(SIM_LIE, sim.cur->id, sim_failpoint_name((int)point)) ? -1 : 0;
}

int sl_failpoint_pass(enum sl_failpoint point)
{
	if (point >= SL_FP_NONE || !sim.cur)
		return 0;
	if (point == SL_FP_SERVER_CHEAT_EVAL || point == SL_FP_SERVER_CHEAT_NORM)
		return lies(point);
	sim.seen[point]++;
	sim.cur->passages++;
	if (sim_fires(SIM_KILL_POINT, sim.cur->id, sim_failpoint_name((int)point))) {
		sim_cover_kill((int)point);
		sim_die();
	}
	return 0;
}

ssize_t sl_failpoint_write(enum sl_failpoint point, int fd, const void *from, size_t len)
{
	sl_failpoint_pass(point);
	return write(fd, from, len);
}

int sl_failpoint_main(int argc, char **argv)
{
	return -1;
}
