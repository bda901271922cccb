/* What a group does, as the simulator sees it: these take the product's functions in front, and call them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/train/recover.h"
#include "server/group/group_log.h"
#include "server/trunk/trunk_records.h"
#include "tests/sim/sim.h"

enum sl_err __real_sl_group_log_step(struct sl_group_log *l, uint64_t steps, const struct sl_group_set *with);
enum sl_err __wrap_sl_group_log_step(struct sl_group_log *l, uint64_t steps, const struct sl_group_set *with);
enum sl_err __real_sl_group_log_return(struct sl_group_log *l, int member, uint64_t own);
enum sl_err __wrap_sl_group_log_return(struct sl_group_log *l, int member, uint64_t own);
enum sl_err __real_sl_group_log_alone(struct sl_group_log *l, int member, uint64_t steps, uint64_t did);
enum sl_err __wrap_sl_group_log_alone(struct sl_group_log *l, int member, uint64_t steps, uint64_t did);
void __real_sl_group_log_cut(struct sl_group_log *l, uint64_t step);
void __wrap_sl_group_log_cut(struct sl_group_log *l, uint64_t step);
void __real_sl_trunk_opens(struct sl_trunk_table *t, uint64_t step);
void __wrap_sl_trunk_opens(struct sl_trunk_table *t, uint64_t step);

enum sl_err __real_sl_recover_open(struct sl_recover **out, struct sl_loop *loop, const struct sl_setup *setup,
				   const struct sl_training *run, bool keep, enum sl_recover_as as,
				   const struct sl_recover_events *events, void *arg, struct sl_fail *fail);
enum sl_err __wrap_sl_recover_open(struct sl_recover **out, struct sl_loop *loop, const struct sl_setup *setup,
				   const struct sl_training *run, bool keep, enum sl_recover_as as,
				   const struct sl_recover_events *events, void *arg, struct sl_fail *fail);
bool __real_sl_last_run_finish(const char *dir, uint64_t step, bool keep);
bool __wrap_sl_last_run_finish(const char *dir, uint64_t step, bool keep);
void __real_sl_recover_offer(struct sl_recover *r, struct sl_offer *offer);
void __wrap_sl_recover_offer(struct sl_recover *r, struct sl_offer *offer);
bool __real_sl_recover_refuse(struct sl_recover *r, uint64_t next_step, enum sl_err err);
bool __wrap_sl_recover_refuse(struct sl_recover *r, uint64_t next_step, enum sl_err err);

enum sl_err __wrap_sl_recover_open(struct sl_recover **out, struct sl_loop *loop, const struct sl_setup *setup,
				   const struct sl_training *run, bool keep, enum sl_recover_as as,
				   const struct sl_recover_events *events, void *arg, struct sl_fail *fail)
{
	sim.cur->total = sl_training_state(run).total_steps;
	return __real_sl_recover_open(out, loop, setup, run, keep, as, events, arg, fail);
}

/* A client that claims a later step than it holds, for one link. */
void __wrap_sl_recover_offer(struct sl_recover *r, struct sl_offer *offer)
{
	const bool claims = sim.cur->claims && sim.members;

	uint64_t kept[SL_CHECKPOINT_KEPT];

	if (sl_recover_kept(r, kept))
		sim_fail("%s offers its steps, and is still writing that of step %llu", sim_name(sim.cur),
			 (unsigned long long)kept[0]);
	__real_sl_recover_offer(r, offer);
	sim.cur->claims = false;
	sim.cur->claimed = 0;
	if (!claims || !offer->n_held)
		return;
	if (offer->n_held < SL_WIRE_HELD_MAX)
		memmove(offer->held + 1, offer->held, (size_t)offer->n_held++ * sizeof offer->held[0]);
	offer->held[0] += 1 + sim_draw(SIM_MODE, 8);
	sim.cur->claimed = offer->held[0];
	sim_trace("%s claims step %llu", sim_name(sim.cur), (unsigned long long)offer->held[0]);
}

/* It has no file of the step that it claimed, and comes again without the claim. */
bool __wrap_sl_recover_refuse(struct sl_recover *r, uint64_t next_step, enum sl_err err)
{
	return __real_sl_recover_refuse(r, next_step, err) ||
	       (err == SL_ERR_NOINPUT && sim.cur->claimed && next_step == sim.cur->claimed);
}

/* Notes the list, which tells the reference who takes part. */
static void note_log(const struct sl_group_log *l)
{
	struct sl_buf text = {0};

	sim.steps = l->end;
	for (int k = 0; k < sim.members; k++)
		sim.part[k] = l->end ? 1 - (double)sl_group_log_missed(l, k) / (double)l->end : 0;
	if (sim.days)
		return;
	if (sl_group_log_text(l, sim.members, &text) == SL_OK)
		snprintf(sim.absent, sizeof sim.absent, "%s", (const char *)text.data);
	free(text.data);
}

enum sl_err __wrap_sl_group_log_step(struct sl_group_log *l, uint64_t steps, const struct sl_group_set *with)
{
	const uint64_t from = l->end;
	const enum sl_err err = __real_sl_group_log_step(l, steps, with);

	sim.since += steps;
	for (uint64_t step = from; step < from + steps && step < SIM_STEPS; step++)
		for (int k = 0; k < sim.members; k++)
			sim.missed[step][k] = !sl_group_set_has(with, k);
	note_log(l);
	return err;
}

enum sl_err __wrap_sl_group_log_return(struct sl_group_log *l, int member, uint64_t own)
{
	const enum sl_err err = __real_sl_group_log_return(l, member, own);

	note_log(l);
	return err;
}

enum sl_err __wrap_sl_group_log_alone(struct sl_group_log *l, int member, uint64_t steps, uint64_t did)
{
	const enum sl_err err = __real_sl_group_log_alone(l, member, steps, did);

	note_log(l);
	return err;
}

/* A server that begins, or a group that goes back, has read a log and cuts it. */
void __wrap_sl_group_log_cut(struct sl_group_log *l, uint64_t step)
{
	__real_sl_group_log_cut(l, step);
	note_log(l);
}

/* The step of a file that is a checkpoint of this process; SIM_STEPS: it is none. */
static unsigned long long step_of(const char *path)
{
	const char *number = strrchr(path, '-');
	unsigned long long step;
	int end = 0;

	if (!strstr(path, sim.cur->id == SIM_SERVES ? "/session-" : "/checkpoint-") || !number ||
	    sscanf(number, "-%llu.safetensors%n", &step, &end) != 1 || !end || number[end])
		return SIM_STEPS;
	return step < SIM_STEPS ? step : SIM_STEPS;
}

void sim_note_file(const char *path)
{
	const unsigned long long step = step_of(path);

	sim_check_model(sim.cur);
	if (step < SIM_STEPS)
		sim.on_disk[step] |= 1u << sim.cur->id;
}

static unsigned all_of_group(void)
{
	return 1u << SIM_SERVES | ((1u << sim.members) - 1);
}

/* Whoever dies next, there must be a checkpoint that all hold: none removes its file of the last such step. */
void sim_note_gone(const char *path)
{
	const unsigned long long gone = step_of(path);
	bool held;

	sim_check_model(sim.cur);
	if (gone == SIM_STEPS)
		return;
	held = sim.on_disk[gone] == all_of_group();
	sim.on_disk[gone] &= ~(1u << sim.cur->id);
	if (!held || !sim.needs_all || sim.ends || sim_fired(SIM_SPOILS_DISKS))
		return;
	for (int step = 0; step < SIM_STEPS; step++)
		if (sim.on_disk[step] == all_of_group())
			return;
	sim_fail("%s removes its checkpoint of step %llu, the last that all have", sim_name(sim.cur), gone);
}

/* Its last weights are there: from now on nobody goes back. */
bool __wrap_sl_last_run_finish(const char *dir, uint64_t step, bool keep)
{
	sim.ends = true;
	return __real_sl_last_run_finish(dir, step, keep);
}

/* A group goes back no further than to a checkpoint that all have on their disks, while these are as they were. */
void __wrap_sl_trunk_opens(struct sl_trunk_table *t, uint64_t step)
{
	sim.needs_all = sl_trunk_needs_all(t) && !sim.days;
	if (!sim.needs_all) { /* its members' files do not decide */
		__real_sl_trunk_opens(t, step);
		return;
	}
	for (uint64_t later = step + 1; later < SIM_STEPS; later++) {
		if (sim.on_disk[later] == all_of_group() && !sim_fired(SIM_SPOILS_DISKS))
			sim_fail("the group goes back to step %llu, though all have step %llu on their disks",
				 (unsigned long long)step, (unsigned long long)later);
		sim.on_disk[later] = 0;
	}
	__real_sl_trunk_opens(t, step);
}
