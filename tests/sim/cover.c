/* What the seeds have reached: rules of the tables of sessions and runs, and failpoints at which a process died. */
#include <stdio.h>
#include <string.h>

#include "client/run/drive_parts.h"
#include "common/session/table.h"
#include "tests/sim/sim.h"

enum { CLIENT, SERVER, DRIVE, TABLES, STATES = 16, EVENTS = 40 };
_Static_assert((int)SL_SESSION_STATE_COUNT <= (int)STATES && (int)DRIVE_STATE_COUNT <= (int)STATES &&
		       (int)SL_EV_COUNT <= (int)EVENTS && (int)DRIVE_EVENT_COUNT <= (int)EVENTS,
	       "all rules have a place");

struct sim_cover {
	bool rule[TABLES][STATES][EVENTS], killed[256];
};

static const char *const table_name[TABLES] = {"client", "server", "drive"};
static const char session_events[] =
	"HELLO WELCOME REFUSE PART CREDIT COMMIT COMMITTED FETCH HEARTBEAT BYE ABANDON CHALLENGE NORM TASK_DONE OPEN "
	"BEGIN_STEP BEGIN_EVAL PASS BEGIN_FETCH LEAVE NONFINITE SKIP MORE GRADS ASK_NORM APPLY JOINED DECIDED LATE "
	"GIVE "
	"ASK ENDS TICK";
static const char drive_states[] = "LINK FEED PASS COPY WRITE FETCH DROP WAIT QUIT END LEAVE";
static const char drive_events[] = "SAME AHEAD BACK BAD_FILE BATCH STALE UNWANTED DONE SKIP NONFINITE FETCHED STOPPED "
				   "UNSAVED WRITTEN LOST OVER CLOSED RETRY SIGNAL DRAIN DRAINED FAULT LEAVE";

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

enum sl_err __wrap_sl_session_step(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms,
				   struct sl_outbox *out)
{
	const bool ends = (ev->kind == SL_EV_PART && ev->frame->u.part.what == SL_PART_ENDS) ||
			  (ev->kind == SL_EV_TASK_DONE && ev->task == SL_TASK_GIVE);

	sim_cover->rule[s->role == SL_SESSION_CLIENT ? CLIENT : SERVER][s->state][ends ? SL_EV_ENDS : ev->kind] = true;
	return __real_sl_session_step(s, ev, now_ms, out);
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

void sim_cover_kill(int point)
{
	sim_cover->killed[point] = true;
}

/* ---- what no seed has reached */

static bool has_rule(int table, int state, int ev)
{
	if (table == DRIVE)
		return state < DRIVE_STATE_COUNT && ev < DRIVE_EVENT_COUNT && sl_drive_table[state][ev].there;
	return state < SL_SESSION_STATE_COUNT && ev < SL_EV_COUNT &&
	       (table == CLIENT ? sl_client_table : sl_server_table)[state][ev].fn;
}

/* The n-th of these words. */
static void word(char out[32], const char *words, int n)
{
	while (n-- > 0)
		words = strchr(words, ' ') + 1;
	snprintf(out, 32, "%.*s", (int)strcspn(words, " "), words);
}

/* tests/sim/unreached has a line that begins with these words. */
static bool is_listed(const char *what)
{
	char line[256];
	bool found = false;
	FILE *f = sim_unreached ? fopen(sim_unreached, "r") : NULL;

	while (f && !found && fgets(line, sizeof line, f))
		found = strncmp(line, what, strlen(what)) == 0 && strspn(line + strlen(what), " ") >= 2;
	if (f)
		fclose(f);
	return found;
}

static int report(const char *what)
{
	if (is_listed(what))
		return 0;
	printf("no seed has reached: %s\n", what);
	return 1;
}

int sim_cover_report(void)
{
	char what[128], state[32], ev[32];
	int n = 0;

	for (int t = 0; t < TABLES; t++)
		for (int s = 0; s < STATES; s++)
			for (int e = 0; e < EVENTS; e++) {
				if (!has_rule(t, s, e) || sim_cover->rule[t][s][e])
					continue;
				if (t == DRIVE)
					word(state, drive_states, s);
				else
					snprintf(state, sizeof state, "%s",
						 sl_session_state_name((enum sl_session_state)s));
				word(ev, t == DRIVE ? drive_events : session_events, e);
				snprintf(what, sizeof what, "%s %s %s", table_name[t], state, ev);
				n += report(what);
			}
	for (int i = 0; sim_failpoint_name(i); i++) {
		snprintf(what, sizeof what, "kill %s", sim_failpoint_name(i));
		n += !sim_cover->killed[i] ? report(what) : 0;
	}
	return n;
}
