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

struct sim_cover *sim_cover;

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

void sim_cover_report(void)
{
	for (int t = 0; t < TABLES; t++)
		for (int s = 0; s < STATES; s++)
			for (int e = 0; e < EVENTS; e++) {
				if (!has_rule(t, s, e) || sim_cover->rule[t][s][e])
					continue;
				printf("no seed has reached: %s %s %s\n", table_name[t],
				       t == DRIVE ? drive_state[s] : sl_session_state_name((enum sl_session_state)s),
				       t == DRIVE ? drive_event[e] : session_event[e]);
			}
	for (int i = 0; sim_failpoint_name(i); i++)
		if (!sim_cover->killed[i])
			printf("no seed has reached: kill %s\n", sim_failpoint_name(i));
}
