/* What a group does, as the simulator sees it: these take the product's functions in front, and call them. */
#include <stdio.h>
#include <string.h>

#include "server/trunk/trunk_records.h"
#include "tests/sim/sim.h"

void __real_sl_records_stepped(struct sl_records *r, const enum sl_took *took, uint64_t steps, bool others_missed);
void __wrap_sl_records_stepped(struct sl_records *r, const enum sl_took *took, uint64_t steps, bool others_missed);
void __real_sl_trunk_opens(struct sl_trunk_table *t, uint64_t step);
void __wrap_sl_trunk_opens(struct sl_trunk_table *t, uint64_t step);

/* Notes who takes part in a step. */
void __wrap_sl_records_stepped(struct sl_records *r, const enum sl_took *took, uint64_t steps, bool others_missed)
{
	for (uint64_t step = r->done; step < r->done + steps && step < SIM_STEPS; step++)
		for (int k = 0; k < r->n; k++)
			sim.missed[step][k] = took[k] != SL_TOOK_PART;
	__real_sl_records_stepped(r, took, steps, others_missed);
}

/* A slow member may compute a step that was done without it, and hears then which ones it has missed: it computes none
 * of these. */
void sim_note_behind(int member, uint64_t step)
{
	static uint64_t last[SIM_MEMBERS];
	static int in_row[SIM_MEMBERS];

	if (step == last[member])
		return;
	in_row[member] = step == last[member] + 1 ? in_row[member] + 1 : 1;
	last[member] = step;
	if (in_row[member] > 2)
		sim_fail("%s computes steps up to %llu, which were done without it", sim_name(&sim.proc[member]),
			 (unsigned long long)step + 1);
}

void sim_note_file(const char *path)
{
	const char *number = strrchr(path, '-');
	unsigned long long step;

	if (strstr(path, sim.cur->id == SIM_SERVES ? "/session-" : "/checkpoint-") && number &&
	    sscanf(number, "-%llu.safetensors", &step) == 1 && step < SIM_STEPS)
		sim.on_disk[step] |= 1u << sim.cur->id;
}

/* A group goes back no further than to a checkpoint that all have on their disks, while these are as they were. */
void __wrap_sl_trunk_opens(struct sl_trunk_table *t, uint64_t step)
{
	const unsigned all = 1u << SIM_SERVES | ((1u << t->n) - 1);

	for (uint64_t later = step + 1; later < SIM_STEPS; later++) {
		if (sim.on_disk[later] == all && !sim_fired(SIM_SPOILS_DISKS))
			sim_fail("the group goes back to step %llu, though all have step %llu on their disks",
				 (unsigned long long)step, (unsigned long long)later);
		sim.on_disk[later] = 0;
	}
	__real_sl_trunk_opens(t, step);
}
