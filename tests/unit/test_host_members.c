/* A group on a server with one honest member and one that is hostile: it is left out or ended, with a sentence, and the
 * honest one trains as if that had been absent, to the same bits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/codec/frame.h"
#include "server/host_sessions.h"
#include "tests/support/asked.h"
#include "tests/support/host_rig.h"

static const float SMALL = 1e-9f;

enum { ROWS = 2, MEMBERS = 2, STEPS = 3, SPOILED = 1 };

/* A member's raw link. Sessions of one test have numbers of their own. */
struct member {
	struct host_client c;
	struct asked asked;
	int k;
	bool up;
	size_t act_bytes, grad_bytes, weight_bytes; /* of head_act, mid_grad and a fetch */
};

static struct member member[MEMBERS];
static double member_norm = 1000, lr = 0.05;
static bool plain; /* a network of linear layers alone, in which gradients are what the member makes of them */
static int tests_run;

/* In the order of a step. */
enum stage { NOTHING, ACT_HALF, ACT, GRAD_HALF, GRAD, STAGES };

static struct asked agreement(int k)
{
	struct asked a = host_rig_agreement_of(10, 32, ROWS);
	const struct sl_model_spec mlp = {.name = "mlp", .width = 1, .classes = 10, .features = 8};
	struct sl_agreed *g = &a.agreement.agreed;
	struct sl_fail fail;

	if (plain)
		a.split.model = mlp;
	snprintf(g->share.group, sizeof g->share.group, "g%d", tests_run);
	g->share.clients = MEMBERS;
	g->share.member = k;
	g->share.rows = MEMBERS * ROWS;
	g->share.straggler_s = 1;
	g->share.epoch_steps = STEPS;
	g->share.member_norm = member_norm;
	g->optimizer.momentum = 0;
	assert_int_equal(asked_settle(&a, &fail), SL_OK);
	return a;
}

static struct sl_frame hello(struct member *m, uint8_t session, uint64_t epoch)
{
	struct sl_plan *plan;
	struct sl_fail fail;
	int64_t weights;
	struct sl_frame f;

	m->asked = agreement(m->k);
	f = host_rig_hello_of(&m->asked, session, epoch, &weights);
	assert_int_equal(sl_plan_open(&plan, &m->asked.split, &fail), SL_OK);
	m->act_bytes = (size_t)(sl_plan_cut_most(plan, false) * sl_shape_row(&plan->segment[SL_MIDDLE].in_shape)) *
		       sizeof(float);
	m->grad_bytes = (size_t)(sl_plan_cut_most(plan, true) * sl_shape_row(&plan->segment[SL_MIDDLE].out_shape)) *
			sizeof(float);
	m->weight_bytes = (size_t)weights * sizeof(float);
	sl_plan_close(plan);
	return f;
}

static void call(int k, uint8_t session, uint64_t epoch)
{
	struct member *m = &member[k];
	struct sl_frame f;

	m->k = k;
	host_rig_connect_raw(&m->c);
	m->up = true;
	f = hello(m, session, epoch);
	host_rig_say(&m->c, &f);
}

static void hang_up(int k)
{
	if (member[k].up)
		host_rig_hang_up(&member[k].c);
	member[k].up = false;
}

static void begin(void)
{
	tests_run++;
	host_rig_open(8, 0);
	for (int k = 0; k < MEMBERS; k++)
		call(k, (uint8_t)(tests_run * 8 + k), 1);
	for (int k = 0; k < MEMBERS; k++)
		host_rig_await(&member[k].c.came[SL_FRAME_WELCOME], 1);
}

static void end(void)
{
	for (int k = 0; k < MEMBERS; k++)
		hang_up(k);
	host_rig_close();
}

/* Floats [from, from + count) of a tensor that depends on member and step. */
static void send_part(struct member *m, enum sl_part_what what, uint64_t step, float scale, bool half)
{
	const bool act = what == SL_PART_HEAD_ACT;
	const size_t total = SL_FRAME_BYTES + (act ? m->act_bytes : m->grad_bytes);
	struct sl_frame f = {.kind = SL_FRAME_PART,
			     .epoch = 1,
			     .u.part = {.what = what,
					.training = true,
					.step = step,
					.rows = ROWS,
					.batch_rows = ROWS,
					.total = total}};
	uint8_t *payload = malloc(total);
	float *x = malloc(total);

	assert_true(payload && x);
	for (size_t i = 0; i < (total - SL_FRAME_BYTES) / sizeof *x; i++)
		x[i] = scale * ((float)((i * 7 + (size_t)m->k * 3 + step) % 11) * 0.1f - 0.5f);
	sl_frame_write(payload, &m->asked.agreement.codec[act ? SL_DIR_HEAD_ACT : SL_DIR_MID_GRAD], false, ROWS);
	memcpy(payload + SL_FRAME_BYTES, x, total - SL_FRAME_BYTES);
	for (size_t at = 0; at < total && !(half && at); at += HOST_RIG_PART / 2) {
		const size_t n = total - at < HOST_RIG_PART / 2 ? total - at : HOST_RIG_PART / 2;

		f.u.part.offset = at;
		host_rig_say_part(&m->c, &f, (struct sl_bytes){payload + at, half ? n / 2 / 4 * 4 : n});
	}
	free(payload);
	free(x);
}

static void commit(struct member *m, uint64_t step, bool skip)
{
	const struct sl_frame f = {.kind = SL_FRAME_COMMIT,
				   .epoch = 1,
				   .u.commit = {.step = step, .chunks = skip ? 0 : 1, .lr = lr, .skip = skip}};

	host_rig_say(&m->c, &f);
}

/* As far as `until`. */
static void compute(struct member *m, uint64_t step, enum stage until, float act, float grad)
{
	const uint64_t had = m->c.payload_bytes;

	if (until == NOTHING)
		return;
	send_part(m, SL_PART_HEAD_ACT, step, act, until == ACT_HALF);
	if (until == ACT_HALF)
		return;
	while (m->c.payload_bytes < had + m->grad_bytes && !m->c.came[SL_FRAME_ABANDON] && !m->c.came[SL_FRAME_REFUSE])
		host_rig_turn();
	if (until == ACT || m->c.came[SL_FRAME_ABANDON] || m->c.came[SL_FRAME_REFUSE])
		return;
	send_part(m, SL_PART_MID_GRAD, step, grad, until == GRAD_HALF);
	while (until == GRAD && m->c.payload_bytes < had + m->grad_bytes + m->act_bytes &&
	       !m->c.came[SL_FRAME_ABANDON] && !m->c.came[SL_FRAME_REFUSE])
		host_rig_turn();
}

/* Every honest step is done within the patience that the group has. */
static void honest_step(uint64_t step)
{
	struct member *m = &member[0];

	compute(m, step, GRAD, 1, SMALL);
	commit(m, step, false);
	host_rig_await(&m->c.came[SL_FRAME_COMMITTED], (int)step + 1);
	assert_int_equal(m->c.came[SL_FRAME_ABANDON], 0);
	assert_int_equal(m->c.came[SL_FRAME_REFUSE], 0);
}

/* What the middle has come to: a hash of the weights as they are fetched. */
static uint64_t weights(void)
{
	struct member *m = &member[0];
	const struct sl_frame fetch = {.kind = SL_FRAME_FETCH, .epoch = 1};
	const int parts = m->c.came[SL_FRAME_PART];
	const uint64_t had = m->c.payload_bytes;
	uint64_t hash = 0;

	host_rig_say(&m->c, &fetch);
	for (int n = parts + 1; m->c.payload_bytes < had + m->weight_bytes; n++) {
		host_rig_await(&m->c.came[SL_FRAME_PART], n);
		hash = hash * 31 + m->c.last[SL_FRAME_PART].u.part.xxh3;
	}
	return hash;
}

static void both(uint64_t step)
{
	compute(&member[0], step, GRAD, 1, SMALL);
	compute(&member[1], step, GRAD, 1, SMALL);
	for (int k = 0; k < MEMBERS; k++)
		commit(&member[k], step, false);
	for (int k = 0; k < MEMBERS; k++)
		host_rig_await(&member[k].c.came[SL_FRAME_COMMITTED], (int)step + 1);
}

/* Where member 1 is not in steps 1 and 2. */
static uint64_t without(void)
{
	static uint64_t hash;

	if (hash)
		return hash;
	begin();
	both(0);
	for (uint64_t step = SPOILED; step < STEPS; step++) {
		commit(&member[1], step, true);
		honest_step(step);
	}
	hash = weights();
	end();
	return hash;
}

/* Step 1 was begun by the other member, who did something to it: the honest one goes on. */
static void goes_on(void)
{
	for (uint64_t step = SPOILED; step < STEPS; step++)
		honest_step(step);
	assert_int_equal(weights(), without());
}

static const char *abandoned(void)
{
	host_rig_await(&member[1].c.came[SL_FRAME_ABANDON], 1);
	return member[1].c.last[SL_FRAME_ABANDON].u.abandon.text;
}

static void nan_is_left_out(void **state)
{
	(void)state;
	(void)without();
	for (int grad = 0; grad < 2; grad++) {
		begin();
		both(0);
		compute(&member[1], SPOILED, GRAD, grad ? 1 : NAN, grad ? NAN : SMALL);
		assert_non_null(strstr(abandoned(), "NaN"));
		goes_on();
		end();
	}
}

static void a_huge_gradient_is_left_out(void **state)
{
	(void)state;
	(void)without();
	for (float scale = 1e6f; scale < 1e38f; scale *= 1e16f) {
		begin();
		both(0);
		compute(&member[1], SPOILED, GRAD, 1, scale);
		if (!member[1].c.came[SL_FRAME_ABANDON])
			commit(&member[1], SPOILED, false);
		assert_non_null(abandoned());
		goes_on();
		end();
	}
}

/* A gradient that is finite, and is not once it stands for all rows of the step: some gradient of a series that doubles
 * is such. The learning rate is 0, so that the middle stays what it is. */
static void an_overflow_is_its_members(void **state)
{
	struct member *m = &member[1];
	int blamed = 0, applied = 0;
	float scale = 1;

	(void)state;
	member_norm = lr = 0;
	plain = true;
	begin();
	for (uint64_t step = 0; step < 90; step++, scale *= 2) {
		m->c.came[SL_FRAME_ABANDON] = 0;
		commit(&member[0], step, true);
		compute(m, step, GRAD, 1e20f, scale);
		if (!m->c.came[SL_FRAME_ABANDON])
			commit(m, step, false);
		while (!m->c.came[SL_FRAME_ABANDON] && m->c.came[SL_FRAME_COMMITTED] <= (int)step)
			host_rig_turn();
		if (m->c.came[SL_FRAME_ABANDON]) {
			blamed += strstr(m->c.last[SL_FRAME_ABANDON].u.abandon.text, "of whom this one") != NULL;
			commit(m, step, true);
		} else {
			applied++;
		}
		for (int k = 0; k < MEMBERS; k++)
			host_rig_await(&member[k].c.came[SL_FRAME_COMMITTED], (int)step + 1);
	}
	assert_true(applied > 5 && blamed >= 1);
	end();
	member_norm = 1000;
	lr = 0.05;
	plain = false;
}

static void wrong_rows_end_a_member(void **state)
{
	struct sl_frame f = {
		.kind = SL_FRAME_PART,
		.epoch = 1,
		.u.part = {.what = SL_PART_HEAD_ACT, .training = true, .step = SPOILED, .rows = 1, .batch_rows = ROWS}};
	uint8_t few[64] = {0};

	(void)state;
	for (int more = 0; more < 2; more++) {
		begin();
		both(0);
		f.u.part.total = SL_FRAME_BYTES + member[1].act_bytes;
		f.u.part.rows = more ? 100 * ROWS : 1;
		f.u.part.batch_rows = more ? 100 * ROWS : ROWS;
		host_rig_say_part(&member[1].c, &f, (struct sl_bytes){few, sizeof few});
		host_rig_await(&member[1].c.came[SL_FRAME_REFUSE], 1);
		assert_non_null(strstr(member[1].c.last[SL_FRAME_REFUSE].u.refuse.text, "row"));
		goes_on();
		end();
	}
}

/* It computes all of its step and says nothing, time and again: the group waits once. */
static void who_never_commits_is_waited_for_once(void **state)
{
	(void)state;
	begin();
	both(0);
	compute(&member[1], SPOILED, GRAD, 1, SMALL);
	goes_on();
	assert_true(member[1].c.last[SL_FRAME_ABANDON].u.abandon.late);
	end();
}

static void a_seat_is_taken_once(void **state)
{
	struct member *m = &member[1];
	struct host_client *first = malloc(sizeof *first);

	(void)state;
	assert_non_null(first);
	begin();
	both(0);
	*first = m->c; /* the link stays up, and a second one asks for the seat */
	m->up = false;
	call(1, (uint8_t)(tests_run * 8 + 5), 1);
	host_rig_await(&m->c.came[SL_FRAME_REFUSE], 1);
	assert_int_equal(m->c.last[SL_FRAME_REFUSE].u.refuse.code, SL_ERR_BUSY);
	assert_non_null(strstr(m->c.last[SL_FRAME_REFUSE].u.refuse.text, "another client is member 1"));
	goes_on();
	host_rig_hang_up(first);
	end();
	free(first);
}

/* However far its step has come, and whether it says goodbye or just ends its link. */
static void a_member_may_leave_at_every_point(void **state)
{
	const struct sl_frame bye = {.kind = SL_FRAME_BYE, .epoch = 1};
	const struct sl_frame refuse = {
		.kind = SL_FRAME_REFUSE, .epoch = 1, .u.refuse = {.code = SL_ERR_UNAVAILABLE, .text = "gone"}};

	(void)state;
	(void)without();
	for (int stage = NOTHING; stage < STAGES; stage++)
		for (int polite = 0; polite < 2; polite++) {
			begin();
			both(0);
			compute(&member[1], SPOILED, (enum stage)stage, 1, SMALL);
			host_rig_say(&member[1].c, polite ? &bye : &refuse);
			goes_on();
			end();
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nan_is_left_out),
		cmocka_unit_test(a_huge_gradient_is_left_out),
		cmocka_unit_test(an_overflow_is_its_members),
		cmocka_unit_test(wrong_rows_end_a_member),
		cmocka_unit_test(who_never_commits_is_waited_for_once),
		cmocka_unit_test(a_seat_is_taken_once),
		cmocka_unit_test(a_member_may_leave_at_every_point),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
