/* After a job was started again, members that were done do not come back. A rank whose members were all done would then
 * not know its group, without which the other ranks cannot go on. So each rank sends the Hello of its group's first
 * member to all. A rank without a group makes one from that, if its newest checkpoint says that all its members are
 * done, and takes part without members. */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/session/agree.h"
#include "server/group/group_impl.h"

/* A group that another rank has introduced. */
struct sl_group_intro {
	struct sl_job job;
	struct sl_share share;
	struct sl_group_list *groups;
	void *text;
	size_t bytes;
	/* the job's result */
	struct sl_agreement agreement;
	struct sl_plan *plan; /* NULL: this rank does not take part without its members */
	struct sl_exec *exec;
	struct sl_end_layout ends;
};

static void close_intro(struct sl_group_intro *in)
{
	if (!in)
		return;
	sl_end_layout_close(&in->ends);
	sl_exec_close(in->exec);
	sl_plan_close(in->plan);
	free(in->text);
	free(in);
}

/* ---- on the worker */

static bool all_done(const struct sl_group_intro *in)
{
	const struct sl_group_list *gs = in->groups;
	const struct sl_agreed *a = &in->agreement.agreed;
	const struct sl_ranks_span own = sl_ranks_span(gs->ranks, a->share.clients);
	char left[SL_KEEP_SEATS];
	uint8_t name[16];
	struct sl_keep keep;
	uint64_t step;

	sl_group_name(a->share.group, name);
	sl_keep_open(&keep, gs->store.dir, gs->store.retention, name, NULL, in->plan, gs->store.core);
	if (!sl_keep_read_seats(&keep, &step, left) || own.end > (int)strlen(left))
		return false;
	for (int k = own.first; k < own.end; k++)
		if (left[k] != SL_NOTE_FINISHED)
			return false;
	return true;
}

static enum sl_err look(struct sl_group_intro *in, struct sl_fail *fail)
{
	const struct sl_bytes text = {in->text, in->bytes};
	struct sl_plan *plan;
	enum sl_err err = sl_agreement_hear(&in->agreement, &plan, text, fail);

	if (err)
		return err;
	if (plan->spec.shared_ends) {
		err = sl_agreement_ends(&in->ends, text, fail);
		if (!err)
			err = sl_end_layout_settle(&in->ends, &plan->spec, fail);
	}
	sl_plan_close(plan); /* the member's plan; the trunk has its own */
	if (!err)
		err = sl_agreement_trunk(&in->agreement, &in->plan, text, fail);
	if (!err && !all_done(in)) {
		sl_plan_close(in->plan);
		in->plan = NULL;
	}
	return err || !in->plan ? err : sl_group_open_bare(&in->exec, in->plan, in->groups->be, fail);
}

static void run_intro(struct sl_job *job)
{
	struct sl_group_intro *in =
		(struct sl_group_intro *)(void *)((char *)job - offsetof(struct sl_group_intro, job));
	struct sl_fail fail;

	if (look(in, &fail) == SL_OK)
		return;
	sl_log_limited(SL_LOG_WARN, "ranks", "another rank tells of a group: %s", fail.text);
	sl_plan_close(in->plan);
	in->plan = NULL;
}

/* ---- on the loop */

static void take_part(struct sl_group_list *gs, struct sl_group_intro *in)
{
	struct sl_group *g;
	struct sl_fail fail;

	if (sl_group_make(gs, &in->agreement.agreed, &g, &fail))
		return; /* no memory: the other ranks wait for this one */
	if (in->plan->spec.shared_ends && sl_group_ends_open(g, &in->agreement, &in->ends, gs->host_be, &fail)) {
		sl_log(SL_LOG_WARN, "ranks", "group %s: %s", g->name, fail.text);
		sl_group_drop(g);
		return;
	}
	g->trunk.plan = in->plan;
	g->trunk.exec = in->exec;
	in->plan = NULL;
	in->exec = NULL;
	sl_keep_open(&g->trunk.keep, gs->store.dir, gs->store.retention, g->file_name, NULL, g->trunk.plan,
		     gs->store.core);
	sl_group_hear_left(g);
	sl_log(SL_LOG_INFO, "ranks", "group %s: all members of this rank are done, and other ranks train on", g->name);
	sl_group_attend(g);
}

static void intro_done(struct sl_job *job)
{
	struct sl_group_intro *in =
		(struct sl_group_intro *)(void *)((char *)job - offsetof(struct sl_group_intro, job));
	struct sl_group_list *gs = in->groups;

	gs->intro = NULL;
	if (in->plan && !gs->first)
		take_part(gs, in);
	close_intro(in);
}

void sl_group_hear_intro(struct sl_group_list *gs)
{
	struct sl_group_intro *in;
	void *text;
	size_t bytes;

	while (gs->ranks && !gs->intro && gs->ranks->receive(gs->ranks, &text, &bytes)) {
		in = gs->first ? NULL : calloc(1, sizeof *in);
		if (!in) {
			free(text); /* this rank knows its group from its own members */
			continue;
		}
		*in = (struct sl_group_intro){.groups = gs, .text = text, .bytes = bytes};
		in->job = (struct sl_job){.run = run_intro, .done = intro_done, .share = &in->share};
		gs->intro = in;
		sl_worker_post(gs->worker, &in->job);
	}
}

void sl_group_list_close(struct sl_group_list *gs)
{
	while (gs && gs->first)
		sl_group_drop(gs->first);
	if (gs)
		close_intro(gs->intro);
	free(gs ? gs->word : NULL);
	free(gs);
}
