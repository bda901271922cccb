/* The story of a seed in columns (docs/howto-tests.md, "Read a seed"): a row for each event that changes a session, and
 * for all that a group decides, with the state behind it. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/trace.h"

static const char *const fate[] = {
	[SL_PASS_GOES_ON] = "", [SL_PASS_ABANDONED] = " abandoned", [SL_PASS_QUIET] = " quiet"};
static const char *const asked[] = {[SL_ASKED_NOTHING] = "",
				    [SL_ASKED_COMMIT] = " asked:commit",
				    [SL_ASKED_SKIP] = " asked:skip",
				    [SL_ASKED_FETCH] = " asked:fetch"};
static const char *const decided[] = {
	[SL_DECIDED_NOT] = "", [SL_DECIDED_PLAIN] = " decided", [SL_DECIDED_MEAN] = " decided:mean"};
static const char *const commit[] = {
	[SL_COMMIT_APPLIES] = "", [SL_COMMIT_SKIPS] = " skips", [SL_COMMIT_PASSES] = " passes"};

void sim_trace_session(const struct sl_session *s, const struct sl_session *before, const char *event)
{
	const char *was = sl_session_state_name(before->state), *is = sl_session_state_name(s->state);
	char states[40];

	if (!sim.traced || (s->state == before->state && s->next_step == before->next_step && s->fate == before->fate &&
			    s->asked == before->asked && s->decided == before->decided && s->gift == before->gift))
		return;
	snprintf(states, sizeof states, s->state == before->state ? "%s" : "%s > %s", was, is);
	sim_trace("%-8s %02x%02x  %-11s %-20s step %-4llu%s%s%s%s%s%s", sim.cur ? sim_name(sim.cur) : "?",
		  s->hello.session[0], s->hello.session[1], event, states, (unsigned long long)s->next_step,
		  fate[s->fate], asked[s->asked], decided[s->decided], commit[s->commit], s->late ? " late" : "",
		  s->gift ? " gives" : "");
}

/* A seat: its member's state and link, the step that it does next, and what it waits for. */
static int put_seat(char *out, size_t size, const struct sl_trunk_table *t, int k)
{
	static const char *const state[] = {
		[SL_SEAT_IN] = "in", [SL_SEAT_AWAY] = "away", [SL_SEAT_DONE] = "done", [SL_SEAT_NEVER] = "never"};
	static const char *const link[] = {[SL_LINK_NONE] = "-",
					   [SL_LINK_JOINING] = "joining",
					   [SL_LINK_ASKING] = "asking",
					   [SL_LINK_GIVEN] = "given",
					   [SL_LINK_OPEN] = "open"};
	const struct sl_seat *s = &t->seat[k];

	return snprintf(out, size, "  %d %s/%s %llu%s%s%s%s%s", k, state[s->state], link[s->link],
			(unsigned long long)s->number, s->prepared ? s->skip ? " skips" : " ready" : "",
			s->asks ? " asks" : "", s->tired ? " tired" : "", sl_trunk_owes(t, k) ? " owed" : "",
			s->elsewhere ? " elsewhere" : "");
}

void sim_trace_table(const struct sl_trunk_table *t, const char *act, int seat)
{
	char seats[600] = "", of[20] = "";
	int at = 0;

	if (!sim.traced)
		return;
	for (int k = 0; k < t->n && at < (int)sizeof seats - 100; k++)
		at += put_seat(seats + at, sizeof seats - (size_t)at, t, k);
	if (seat >= 0)
		snprintf(of, sizeof of, " %d", seat);
	sim_trace("%-8s seat%-2s %-11s %-20s step %-4llu%s", "server", of, act, t->open ? "trains" : "gathers",
		  (unsigned long long)t->step, seats);
}
