/* What goes wrong: the faults that a seed draws, and when they are due. */
#include "tests/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/disk_model.h"

const char *const sim_kind_text[SIM_KINDS] = {
#define X(kind, weight, text) text,
	SIM_FAULT_MAP(X)
#undef X
};

const char *const sim_kind_name[SIM_KINDS] = {
#define X(kind, weight, text) #kind,
	SIM_FAULT_MAP(X)
#undef X
};

static const unsigned char weight[SIM_KINDS] = {
#define X(kind, weight, text) weight,
	SIM_FAULT_MAP(X)
#undef X
};

static bool is_power(enum sim_kind k)
{
	return k == SIM_POWER_DISK || k == SIM_POWER_EVENT;
}

static bool is_of_a_process(enum sim_kind k)
{
	return k <= SIM_KILL_EVENT || k >= SIM_STAND;
}

/* ---- drawing them ---- */

static enum sim_kind draw_kind(unsigned kinds, int total)
{
	int w = (int)sim_draw(SIM_FAULT, (uint64_t)total), k = 0;

	for (;; k++) {
		if (!(kinds >> k & 1))
			continue;
		if (w < weight[k])
			return (enum sim_kind)k;
		w -= weight[k];
	}
}

static int draw_victim(enum sim_kind k)
{
	const uint64_t sides = is_power(k) ? 3 : 2, side = sim_draw(SIM_FAULT, sides);

	if (!is_of_a_process(k))
		return (int)side;
	if (k == SIM_LIE)
		return SIM_SERVES;
	if (k == SIM_LOSE || k == SIM_CLAIM)
		return (int)sim_draw(SIM_FAULT, sim.members ? (uint64_t)sim.members : 1);
	return side == SIM_SERVER ? SIM_SERVES : (int)sim_draw(SIM_FAULT, sim.members ? (uint64_t)sim.members : 1);
}

/* As often below 8 as from 8 to 16, and so on: most of what matters is near the last fault. */
static long draw_at(enum sim_kind k)
{
	const bool few =
		k == SIM_KILL_DISK || k == SIM_POWER_DISK || k == SIM_FULL || k == SIM_IO_ERROR || k == SIM_LOSE;

	if (k == SIM_LATE && sim_draw(SIM_FAULT, 2))
		return 1 + (long)sim_draw(SIM_FAULT, 6);
	return 1 + (long)sim_draw(SIM_FAULT, 1ull << (3 + sim_draw(SIM_FAULT, few ? 5 : 7)));
}

void sim_plan(int most, unsigned kinds)
{
	int total = 0, flips = 0;

	for (int k = 0; k < SIM_KINDS; k++)
		total += kinds >> k & 1 ? weight[k] : 0;
	sim.faults = total ? (int)sim_draw(SIM_FAULT, (uint64_t)most + 1) : 0;
	for (int i = 0; i < sim.faults; i++) {
		struct sim_fault *f = &sim.fault[i];

		f->kind = draw_kind(kinds, total);
		if (f->kind == SIM_FLIP && ++flips > 3) /* a client that gets four broken frames gives up */
			f->kind = SIM_CUT;
		f->victim = draw_victim(f->kind);
		f->at = draw_at(f->kind);
		f->mode = (int)sim_draw(SIM_FAULT, DISK_MODE_COUNT);
		f->ms = sim_draw(SIM_FAULT, 1ull << (4 + sim_draw(SIM_FAULT, 9)));
		if (f->kind == SIM_AWAY) /* 1 s to 68 minutes, each doubling as often as any other */
			f->ms = 1000 + sim_draw(SIM_FAULT, 1000ull << sim_draw(SIM_FAULT, 13));
	}
}

void sim_keep_faults(const char *list)
{
	int n = 0;

	if (!list)
		return;
	for (const char *p = list; *p; p += *p == ',') {
		char *end;
		const long i = strtol(p, &end, 10);

		if (end == p || i < 1 || i > sim.faults)
			break;
		sim.fault[n++] = sim.fault[i - 1];
		p = end;
	}
	sim.faults = n;
}

void sim_fault_text(const struct sim_fault *f, char *out, size_t cap)
{
	static const char *const side[] = {"client", "server", "both"};
	const char *who = is_of_a_process(f->kind) ? sim_name(&sim.proc[f->victim]) : side[f->victim];
	int len = snprintf(out, cap, "%s: %s %ld", who, sim_kind_text[f->kind], f->at);

	if (is_power(f->kind) && len < (int)cap)
		len += snprintf(out + len, cap - (size_t)len, ", mode %s", disk_mode_name[f->mode]);
	if ((f->kind == SIM_PARTITION || f->kind == SIM_LATE || f->kind == SIM_STAND || f->kind == SIM_AWAY) &&
	    len < (int)cap)
		len += snprintf(out + len, cap - (size_t)len, ", %llu ms", (unsigned long long)f->ms);
	if (f->fired_ns && len < (int)cap)
		snprintf(out + len, cap - (size_t)len, "   %.3f s%s%s", (double)f->fired_ns * 1e-9,
			 f->where[0] ? "  " : "", f->where);
}

/* ---- when they are due ---- */

/* What the victim has done since the fault was armed. */
static long count(enum sim_kind kind, int victim)
{
	long n = 0;

	if (kind >= SIM_DROP && kind <= SIM_LATE)
		return sim.messages[victim];
	if (kind == SIM_LIE)
		return sim.chances;
	if (kind == SIM_KILL_POINT)
		return sim.proc[victim].passages;
	if (kind == SIM_KILL_DISK || kind == SIM_LOSE)
		return sim.proc[victim].disk_calls;
	if (is_of_a_process(kind))
		return sim.proc[victim].events;
	for (int i = 0; i < SIM_PROCS; i++) /* of a machine */
		if (victim == SIM_BOTH || (int)sim.proc[i].side == victim)
			n += kind == SIM_POWER_EVENT || kind >= SIM_OLD_DISK ? sim.proc[i].events
									     : sim.proc[i].disk_calls;
	return n;
}

bool sim_fires(enum sim_kind kind, int victim, const char *where)
{
	struct sim_fault *f = &sim.fault[sim.armed];
	char text[256];

	if (sim.armed >= sim.faults || f->kind != kind || f->victim != victim || count(kind, victim) < f->at)
		return false;
	f->fired_ns = sim.now_ns;
	snprintf(f->where, sizeof f->where, "%s", where ? where : "");
	sim_fault_text(f, text, sizeof text);
	sim_trace("%s", text);
	sim.armed++;
	memset(sim.messages, 0, sizeof sim.messages);
	sim.chances = 0;
	for (int i = 0; i < SIM_PROCS; i++)
		sim.proc[i].passages = sim.proc[i].disk_calls = sim.proc[i].events = 0;
	return true;
}

bool sim_power_fires(enum sim_kind kind, enum sim_side side, const char *where)
{
	return sim_fires(kind, (int)side, where) || sim_fires(kind, SIM_BOTH, where);
}

void sim_end_all(enum sim_side sides)
{
	for (int i = 0; i < SIM_PROCS; i++)
		if (sim.proc[i].used && (sides == SIM_BOTH || sim.proc[i].side == sides))
			sim.proc[i].killed = sim.proc[i].alive;
	if (sim.cur && sim.cur->killed)
		sim_die();
}

bool sim_fired(unsigned kinds)
{
	for (int i = 0; i < sim.armed; i++)
		if (kinds >> sim.fault[i].kind & 1)
			return true;
	return false;
}

void sim_event_faults(struct sim_proc *proc)
{
	proc->events++;
	if (sim_fires(SIM_KILL_EVENT, proc->id, NULL)) {
		proc->killed = true;
	} else if (sim_fires(SIM_CLAIM, proc->id, NULL)) {
		proc->claims = true;
	} else if (sim_fires(SIM_STAND, proc->id, NULL) || sim_fires(SIM_AWAY, proc->id, NULL)) {
		proc->stands_until = sim.now_ns + sim.fault[sim.armed - 1].ms * SIM_MS;
	} else if (proc->loop && sim_fires(SIM_TERM, proc->id, NULL)) {
		sim_loop_term(proc);
	} else if (sim_fires(SIM_CLOCK_BACK, (int)proc->side, NULL)) {
		sim.back_ns[proc->side] += 86400000ull * SIM_MS;
	} else if (sim_power_fires(SIM_POWER_EVENT, proc->side, NULL) ||
		   sim_fires(SIM_OLD_DISK, (int)proc->side, NULL) || sim_fires(SIM_NEW_DISK, (int)proc->side, NULL)) {
		sim_end_all((enum sim_side)sim.fault[sim.armed - 1].victim);
	}
}
