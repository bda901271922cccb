/* What the seeds have reached: rules of the tables of sessions, runs and links, what a group's trunk did, and
 * failpoints at which a process died. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "client/link/link_parts.h"
#include "client/train/drive_parts.h"
#include "common/session/table.h"
#include "server/trunk/trunk_records.h"
#include "tests/sim/trace.h"

enum { CLIENT, SERVER, DRIVE, LINK, TRUNK, TABLES, STATES = 16, EVENTS = 40 };
enum { FIXED, ROUNDS, GOES_ON, TOGETHER, MODES }; /* states of TRUNK */
enum { ACTS = SL_TRUNK_APPLY + 1 };
_Static_assert((int)SL_SESSION_STATE_COUNT <= (int)STATES && (int)DRIVE_STATE_COUNT <= (int)STATES &&
		       (int)SL_EV_COUNT <= (int)EVENTS && (int)DRIVE_EVENT_COUNT <= (int)EVENTS,
	       "all rules have a place");

struct sim_cover {
	bool rule[TABLES][STATES][EVENTS], killed[256];
};

static const char *const table_name[TABLES] = {"client", "server", "drive", "link", "trunk"};
#define NAME(prefix, word) [prefix##word] = #word
#define EVENT(word)        NAME(SL_EV_, word)
#define DRIVE_STATE(word)  NAME(DRIVE_, word)
#define DRIVE_EVENT(word)  NAME(EV_, word)
static const char *const session_event[SL_EV_COUNT] = {
	EVENT(HELLO),       EVENT(WELCOME),   EVENT(REFUSE),    EVENT(PART),       EVENT(CREDIT),     EVENT(COMMIT),
	EVENT(COMMITTED),   EVENT(FETCH),     EVENT(HEARTBEAT), EVENT(BYE),        EVENT(ABANDON),    EVENT(CHALLENGE),
	EVENT(NORM),        EVENT(TASK_DONE), EVENT(OPEN),      EVENT(BEGIN_STEP), EVENT(BEGIN_EVAL), EVENT(PASS),
	EVENT(BEGIN_FETCH), EVENT(LEAVE),     EVENT(NONFINITE), EVENT(SKIP),       EVENT(MORE),       EVENT(GRADS),
	EVENT(ASK_NORM),    EVENT(APPLY),     EVENT(JOINED),    EVENT(DECIDED),    EVENT(LATE),       EVENT(GIVE),
	EVENT(ASK),         EVENT(CHUNK),     EVENT(ECHO),      EVENT(ENDS),       EVENT(TICK)};
static const char *const drive_state[DRIVE_STATE_COUNT] = {DRIVE_STATE(LINK), DRIVE_STATE(FEED),  DRIVE_STATE(PASS),
							   DRIVE_STATE(COPY), DRIVE_STATE(WRITE), DRIVE_STATE(FETCH),
							   DRIVE_STATE(DROP), DRIVE_STATE(WAIT),  DRIVE_STATE(QUIT),
							   DRIVE_STATE(END),  DRIVE_STATE(LEAVE)};
static const char *const drive_event[DRIVE_EVENT_COUNT] = {
	DRIVE_EVENT(SAME),    DRIVE_EVENT(AHEAD),     DRIVE_EVENT(BACK),     DRIVE_EVENT(BAD_FILE),
	DRIVE_EVENT(BATCH),   DRIVE_EVENT(STALE),     DRIVE_EVENT(UNWANTED), DRIVE_EVENT(DONE),
	DRIVE_EVENT(SKIP),    DRIVE_EVENT(NONFINITE), DRIVE_EVENT(FETCHED),  DRIVE_EVENT(STOPPED),
	DRIVE_EVENT(UNSAVED), DRIVE_EVENT(WRITTEN),   DRIVE_EVENT(LOST),     DRIVE_EVENT(OVER),
	DRIVE_EVENT(CLOSED),  DRIVE_EVENT(RETRY),     DRIVE_EVENT(SIGNAL),   DRIVE_EVENT(DRAIN),
	DRIVE_EVENT(DRAINED), DRIVE_EVENT(FAULT),     DRIVE_EVENT(LEAVE)};

#define LINK_STATE(word) NAME(LINK_, word)
#define ACT(word)        NAME(SL_TRUNK_, word)
static const char *const link_state[LINK_STATE_COUNT] = {LINK_STATE(CALLING), LINK_STATE(PREPARING),
							 LINK_STATE(UP),      LINK_STATE(STOPPING),
							 LINK_STATE(DOWN),    LINK_STATE(CLOSING)};
static const char *const link_event[LINK_EVENT_COUNT] = {LINK_STATE(TICK),   LINK_STATE(HEARD), LINK_STATE(WELCOMED),
							 LINK_STATE(FAILED), LINK_STATE(QUIET), LINK_STATE(PAUSE),
							 LINK_STATE(CLOSE)};
static const char *const trunk_mode[MODES] = {NAME(, FIXED), NAME(, ROUNDS), NAME(, GOES_ON), NAME(, TOGETHER)};
static const char *const trunk_act[ACTS] = {ACT(WAIT),     ACT(CHOOSE), ACT(COME),   ACT(BACK), ACT(BEHIND),
					    ACT(CATCH_UP), ACT(STEP),   ACT(LET_GO), ACT(APPLY)};

static const struct {
	int states, events;
	const char *const *state, *const *event; /* state: NULL for sessions */
} names[TABLES] = {
	[CLIENT] = {SL_SESSION_STATE_COUNT, SL_EV_COUNT, NULL, session_event},
	[SERVER] = {SL_SESSION_STATE_COUNT, SL_EV_COUNT, NULL, session_event},
	[DRIVE] = {DRIVE_STATE_COUNT, DRIVE_EVENT_COUNT, drive_state, drive_event},
	[LINK] = {LINK_STATE_COUNT, LINK_EVENT_COUNT, link_state, link_event},
	[TRUNK] = {MODES, ACTS, trunk_mode, trunk_act},
};

struct sim_cover *sim_cover;
const char *sim_unreached;

size_t sim_cover_bytes(void)
{
	return sizeof *sim_cover;
}

/* ---- the product's functions, which go on behind these */

enum sl_err __real_sl_session_step(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms,
				   struct sl_outbox *out);
enum sl_err __wrap_sl_session_step(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms,
				   struct sl_outbox *out);
void __real_sl_drive_event(struct drive *d, enum drive_event ev);
void __wrap_sl_drive_event(struct drive *d, enum drive_event ev);
void __real_sl_drive_fault(struct drive *d, enum sl_err err);
void __wrap_sl_drive_fault(struct drive *d, enum sl_err err);
void __real_sl_drive_leave(struct drive *d, enum sl_err err);
void __wrap_sl_drive_leave(struct drive *d, enum sl_err err);
void __real_sl_link_event(struct sl_link *l, enum link_event ev);
void __wrap_sl_link_event(struct sl_link *l, enum link_event ev);
enum sl_trunk_act __real_sl_trunk_next(const struct sl_trunk_table *t, int *seat);
enum sl_trunk_act __wrap_sl_trunk_next(const struct sl_trunk_table *t, int *seat);

enum sl_err __wrap_sl_session_step(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms,
				   struct sl_outbox *out)
{
	const bool ends = (ev->kind == SL_EV_PART && ev->frame->u.part.what == SL_PART_ENDS) ||
			  (ev->kind == SL_EV_TASK_DONE && ev->task == SL_TASK_GIVE);

	const enum sl_event_kind rule = ends ? SL_EV_ENDS : ev->kind;
	const struct sl_session before = *s;
	enum sl_err err;

	sim_cover->rule[s->role == SL_SESSION_CLIENT ? CLIENT : SERVER][s->state][rule] = true;
	err = __real_sl_session_step(s, ev, now_ms, out);
	sim_trace_session(s, &before, session_event[rule] ? session_event[rule] : "other");
	return err;
}

static void drives(const struct drive *d, enum drive_event ev)
{
	sim_cover->rule[DRIVE][d->state][ev] = true;
}

void __wrap_sl_drive_event(struct drive *d, enum drive_event ev)
{
	drives(d, ev);
	__real_sl_drive_event(d, ev);
}

void __wrap_sl_drive_fault(struct drive *d, enum sl_err err)
{
	drives(d, EV_FAULT);
	__real_sl_drive_fault(d, err);
}

void __wrap_sl_drive_leave(struct drive *d, enum sl_err err)
{
	drives(d, EV_LEAVE);
	__real_sl_drive_leave(d, err);
}

void __wrap_sl_link_event(struct sl_link *l, enum link_event ev)
{
	sim_cover->rule[LINK][l->state][ev] = true;
	__real_sl_link_event(l, ev);
}

enum sl_trunk_act __wrap_sl_trunk_next(const struct sl_trunk_table *t, int *seat)
{
	const enum sl_trunk_act act = __real_sl_trunk_next(t, seat);

	sim_cover->rule[TRUNK][t->whole                 ? TOGETHER
			       : !sl_trunk_needs_all(t) ? GOES_ON
			       : t->rounds              ? ROUNDS
							: FIXED][act] = true;
	if (act != SL_TRUNK_WAIT)
		sim_trace_table(t, trunk_act[act], *seat);
	return act;
}

void sim_cover_kill(int point)
{
	sim_cover->killed[point] = true;
}

/* ---- what no seed has reached */

static bool has_rule(int table, int state, int ev)
{
	switch (table) {
	case DRIVE:
		return sl_drive_table[state][ev].there;
	case LINK: /* QUIET comes from inside link_table.c, where no other function can take its place */
		return sl_link_table[state][ev].there && ev != LINK_QUIET;
	case TRUNK:
		return true;
	}
	return (table == CLIENT ? sl_client_table : sl_server_table)[state][ev].fn;
}

/* A line of tests/sim/unreached: a pattern and, behind two blanks or more, its reason. */
struct line {
	char pattern[64];
	bool holds; /* something that it names was not reached */
};
enum { LINES_MOST = 128 };

static int read_lines(struct line out[LINES_MOST])
{
	char text[256];
	int n = 0;
	FILE *f = fopen(sim_unreached, "r");

	while (f && n < LINES_MOST && fgets(text, sizeof text, f)) {
		const char *end = strstr(text, "  ");

		if (text[0] == '#' || !end)
			continue;
		snprintf(out[n].pattern, sizeof out[n].pattern, "%.*s", (int)(end - text), text);
		out[n++].holds = false;
	}
	if (f)
		fclose(f);
	return n;
}

/* Returns 1 if no line names it. */
static int report(const char *what, struct line *line, int lines)
{
	bool listed = false;

	for (int i = 0; i < lines; i++)
		if (fnmatch(line[i].pattern, what, 0) == 0)
			listed = line[i].holds = true;
	if (!listed)
		printf("no seed has reached: %s\n", what);
	return !listed;
}

int sim_cover_report(void)
{
	static struct line line[LINES_MOST];
	const int lines = read_lines(line);
	char what[128];
	int n = 0;

	for (int t = 0; t < TABLES; t++)
		for (int s = 0; s < names[t].states; s++)
			for (int e = 0; e < names[t].events; e++) {
				if (!has_rule(t, s, e) || sim_cover->rule[t][s][e])
					continue;
				snprintf(what, sizeof what, "%s %s %s", table_name[t],
					 names[t].state ? names[t].state[s]
							: sl_session_state_name((enum sl_session_state)s),
					 names[t].event[e]);
				n += report(what, line, lines);
			}
	for (int i = 0; sim_failpoint_name(i); i++) {
		snprintf(what, sizeof what, "kill %s", sim_failpoint_name(i));
		n += sim_cover->killed[i] ? 0 : report(what, line, lines);
	}
	for (int i = 0; i < lines; i++)
		if (!line[i].holds) {
			printf("tests/sim/unreached: seeds have reached all of \"%s\"\n", line[i].pattern);
			n++;
		}
	return n;
}
