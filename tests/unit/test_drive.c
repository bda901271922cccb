/* The state table of a run over the link: properties of its rules that hold for every order of events. */

#include "client/train/drive_parts.h"
#include "tests/support/unit.h"

static const struct drive_rule *rule(int state, int ev)
{
	return &sl_drive_table[state][ev];
}

/* The position of the action in the rule, from 1; 0: the rule does not have it. */
static int place(const struct drive_rule *r, sl_drive_act *act)
{
	for (int i = 0; i < DRIVE_ACTS && r->act[i]; i++)
		if (r->act[i] == act)
			return i + 1;
	return 0;
}

static int acts(const struct drive_rule *r)
{
	int n = 0;

	while (n < DRIVE_ACTS && r->act[n])
		n++;
	return n;
}

/* The states that a rule can lead to, as bits. */
static unsigned leads_to(int state, const struct drive_rule *r)
{
	const unsigned next =
		1u << DRIVE_FEED | 1u << DRIVE_COPY | 1u << DRIVE_WRITE | 1u << DRIVE_FETCH | 1u << DRIVE_QUIT;

	switch (r->next) {
	case DRIVE_STAY:
		return 1u << state;
	case DRIVE_NEXT:
		return next;
	case DRIVE_RESUME:
		return next | 1u << DRIVE_PASS;
	default:
		return 1u << r->next;
	}
}

static bool is_open(int state)
{
	return sl_drive_is_open(&(struct drive){.state = (enum drive_state)state});
}

#define EACH_RULE                                               \
	for (int state = 0; state < DRIVE_STATE_COUNT; state++) \
		for (int ev = 0; ev < DRIVE_EVENT_COUNT; ev++)  \
			if (rule(state, ev)->there)

/* A link that is still open at the end of the run would keep the process alive, and one closed
 * twice would be freed twice. Actions that take something out of the link come before its close. */
static void a_link_is_closed_once_and_last(void **unused)
{
	(void)unused;
	EACH_RULE
	{
		const struct drive_rule *r = rule(state, ev);
		bool closes = place(r, sl_act_close_link) != 0;

		if (is_open(state) && (r->next == DRIVE_QUIT || r->next == DRIVE_DROP)) {
			if (place(r, sl_act_close_link) != acts(r))
				fail_msg("state %d, event %d: the link is not closed, or not last", state, ev);
		} else if (closes) {
			fail_msg("state %d, event %d: closes a link that it goes on with, or has not", state, ev);
		}
		if (is_open(state) && (r->next == DRIVE_WAIT || r->next == DRIVE_END))
			fail_msg("state %d, event %d: the link is still open", state, ev);
	}
}

static void the_loop_stops_only_at_the_end(void **unused)
{
	(void)unused;
	EACH_RULE
	{
		const struct drive_rule *r = rule(state, ev);

		if ((place(r, sl_act_stop_loop) != 0) != (r->next == DRIVE_END))
			fail_msg("state %d, event %d: the end without a stop, or a stop that is no end", state, ev);
		if ((place(r, sl_act_leave) != 0) != (r->next == DRIVE_LEAVE))
			fail_msg("state %d, event %d: leaves without leaving", state, ev);
	}
}

/* A hang or a second signal ends the process in every state. The first signal starts the timer of drain_s. */
static void nothing_keeps_an_operator_waiting(void **unused)
{
	(void)unused;
	for (int state = 0; state < DRIVE_LEAVE; state++) {
		assert_int_equal(rule(state, EV_LEAVE)->next, DRIVE_LEAVE);
		assert_true(rule(state, EV_LEAVE)->there);
		if (state == DRIVE_END)
			continue;
		assert_int_equal(place(rule(state, EV_SIGNAL), sl_act_arm_drain), 1);
		if (state != DRIVE_QUIT && !sl_drive_is_up(&(struct drive){.state = (enum drive_state)state}))
			assert_true(rule(state, EV_SIGNAL)->next == DRIVE_QUIT ||
				    rule(state, EV_SIGNAL)->next == DRIVE_END);
	}
	for (int state = DRIVE_FEED; state <= DRIVE_QUIT; state++)
		if (state != DRIVE_DROP && state != DRIVE_WAIT)
			assert_true(rule(state, EV_DRAIN)->there);
}

static void a_link_may_fail_wherever_there_is_one(void **unused)
{
	(void)unused;
	for (int state = DRIVE_LINK; state <= DRIVE_FETCH; state++) {
		assert_int_equal(place(rule(state, EV_LOST), sl_act_hold_state), 1);
		assert_int_equal(place(rule(state, EV_OVER), sl_act_keep_certain), 1);
		assert_true(rule(state, EV_FAULT)->there);
	}
	assert_true(rule(DRIVE_DROP, EV_FAULT)->there && rule(DRIVE_WAIT, EV_FAULT)->there);
}

/* Only a finished run leaves a folder with a model and without a checkpoint (client/persist/last_run.h). */
static void a_model_without_a_checkpoint_is_of_a_run_that_is_done(void **unused)
{
	const struct drive_rule *done = rule(DRIVE_FETCH, EV_FETCHED), *early = rule(DRIVE_FETCH, EV_STOPPED);

	(void)unused;
	assert_int_equal(place(done, sl_act_settle), 1);
	assert_true(place(done, sl_act_save) > 1);
	assert_true(place(done, sl_act_save) < place(done, sl_act_summarize));
	assert_true(place(done, sl_act_summarize) < place(done, sl_act_forget));
	assert_true(place(early, sl_act_keep_last) > 0);
	assert_true(place(early, sl_act_keep_last) < place(early, sl_act_save_anyway));
	assert_int_equal(place(rule(DRIVE_FETCH, EV_UNSAVED), sl_act_keep_last), 1);
	EACH_RULE if (rule(state, ev) != done) assert_int_equal(place(rule(state, ev), sl_act_forget), 0);
}

/* A batch that was asked for arrives, whatever happens to the link meanwhile, and must be taken.
 * Outside of FEED the run holds it or gives it back, and does not begin a step with it. */
static void a_batch_that_is_owed_is_taken_wherever_it_comes(void **unused)
{
	static const int owed_in[] = {DRIVE_LINK, DRIVE_FEED, DRIVE_DROP, DRIVE_WAIT, DRIVE_QUIT};

	(void)unused;
	for (size_t i = 0; i < sizeof owed_in / sizeof owed_in[0]; i++) {
		assert_true(rule(owed_in[i], EV_BATCH)->there);
		assert_int_equal(place(rule(owed_in[i], EV_STALE), sl_act_release), 1);
	}
	EACH_RULE if (place(rule(state, ev), sl_act_begin)) assert_true(state == DRIVE_FEED && ev == EV_BATCH);
}

static void every_state_is_reached_and_comes_to_an_end(void **unused)
{
	unsigned reached = 1u << DRIVE_LINK, before = 0, ends = 1u << DRIVE_END;

	(void)unused;
	while (reached != before) {
		before = reached;
		EACH_RULE if (reached >> state & 1) reached |= leads_to(state, rule(state, ev));
	}
	assert_int_equal(reached, (1u << DRIVE_STATE_COUNT) - 1);
	for (before = 0; ends != before;) {
		before = ends;
		EACH_RULE if (ev != EV_LEAVE && leads_to(state, rule(state, ev)) & ends) ends |= 1u << state;
	}
	assert_int_equal(ends | 1u << DRIVE_LEAVE, (1u << DRIVE_STATE_COUNT) - 1);
}

/* What follows from the loss of a link. A code that is missing stands for the loss's own. */
static void a_lost_link_is_judged(void **unused)
{
	const struct {
		struct sl_loss loss;
		struct sl_verdict expect;
	} rows[] = {
		/* a lost server: by link.on_server_lost */
		{{SL_ERR_PEER_LOST, LOSS_AGAIN | LOSS_TRAINS}, {.wait = false}},
		{{SL_ERR_PEER_LOST, LOSS_AGAIN | LOSS_WAITS}, {.wait = true}},
		{{SL_ERR_AUTH, LOSS_WAITS}, {.wait = false}},
		{{SL_ERR_PEER_LOST, LOSS_AGAIN | LOSS_WAITS | LOSS_ENDS}, {.wait = false}},
		/* one that is back at once: another link, but only one */
		{{SL_ERR_PEER_LOST, LOSS_AGAIN | LOSS_RESTARTED}, {.wait = true}},
		{{SL_ERR_PEER_LOST, LOSS_AGAIN | LOSS_RESTARTED | LOSS_ENDS}, {.wait = false}},
		{{SL_ERR_PEER_LOST, LOSS_AGAIN | LOSS_RETRIED}, {.wait = false}},
		{{SL_ERR_MISMATCH, LOSS_RETRIED}, {.code = SL_ERR_PEER_LOST}},
		{{SL_ERR_MISMATCH, LOSS_RETRIED | LOSS_WAITS}, {.wait = false}},
		{{SL_ERR_MISMATCH, 0}, {.wait = false}},
		/* a group that goes back, or stalls */
		{{SL_ERR_BUSY, LOSS_AGAIN | LOSS_MEMBER}, {.wait = true}},
		{{SL_ERR_TIMEOUT, LOSS_AGAIN | LOSS_MEMBER | LOSS_STALLED}, {.wait = true}},
		{{SL_ERR_PEER_LOST, LOSS_AGAIN | LOSS_MEMBER}, {.wait = false}},
		{{SL_ERR_BUSY, LOSS_AGAIN}, {.wait = false}},
		/* its last member */
		{{SL_ERR_TIMEOUT, LOSS_AGAIN | LOSS_WAITS | LOSS_MAY_BE_LAST},
		 {.code = SL_ERR_MISMATCH, .explain = SL_EXPLAIN_LAST}},
		/* a server whose limit was lowered, of a run that it knew */
		{{SL_ERR_LIMIT, LOSS_AT_DOOR | LOSS_KNOWN | LOSS_WAITS}, {.wait = true, .code = SL_ERR_BUSY}},
		{{SL_ERR_LIMIT, LOSS_AT_DOOR | LOSS_KNOWN}, {.code = SL_ERR_BUSY}},
		{{SL_ERR_LIMIT, LOSS_AT_DOOR | LOSS_WAITS}, {.wait = false}},
		{{SL_ERR_LIMIT, LOSS_KNOWN | LOSS_WAITS}, {.wait = false}},
		/* broken frames */
		{{SL_ERR_PROTOCOL, LOSS_AGAIN | LOSS_WAITS}, {.wait = true}},
		{{SL_ERR_PROTOCOL, LOSS_WAITS | LOSS_ENDS}, {.code = SL_ERR_UNAVAILABLE}},
		{{SL_ERR_PAYLOAD, LOSS_AGAIN | LOSS_ENDS}, {.wait = false}},
		/* NaN or Inf */
		{{SL_ERR_NONFINITE, LOSS_WAITS | LOSS_TRAINS}, {.wait = false}},
		{{SL_ERR_NONFINITE, LOSS_WAITS}, {.explain = SL_EXPLAIN_EVALUATION}},
	};

	(void)unused;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		const struct sl_verdict v = sl_drive_judge(&rows[i].loss), *e = &rows[i].expect;
		const enum sl_err code = e->code ? e->code : rows[i].loss.code;

		if (v.wait != e->wait || v.code != code || v.explain != e->explain)
			fail_msg("row %zu: wait %d, %s, explain %d", i, v.wait, sl_err_name(v.code), (int)v.explain);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lost_link_is_judged),
		cmocka_unit_test(a_link_is_closed_once_and_last),
		cmocka_unit_test(the_loop_stops_only_at_the_end),
		cmocka_unit_test(nothing_keeps_an_operator_waiting),
		cmocka_unit_test(a_link_may_fail_wherever_there_is_one),
		cmocka_unit_test(a_model_without_a_checkpoint_is_of_a_run_that_is_done),
		cmocka_unit_test(a_batch_that_is_owed_is_taken_wherever_it_comes),
		cmocka_unit_test(every_state_is_reached_and_comes_to_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
