/* A group that shares heads and tails, on a server: eight honest members, and eight
 * that send hostile values for their heads and tails. Each of those is left out or
 * ended, with a message. The honest ones receive the same means as without them. */
#include <math.h>

#include <malloc.h>

#include "common/codec/frame.h"
#include "common/exec/optimizer.h"
#include "common/telemetry/status.h"
#include "server/host/host_impl.h"
#include "tests/support/asked.h"
#include "tests/support/host_rig.h"
#include "tests/support/unit.h"

enum { ROWS = 2, MEMBERS = 16, HONEST = 8, STEPS = 3, SPOILED = 1, RUN_MOST = 1 << 15 };

static const float SMALL = 1e-3f;

struct member {
	struct host_client c;
	struct asked asked;
	int k;
	size_t act_bytes, grad_bytes;
};

static struct member member[MEMBERS];
static struct sl_end_layout layout;
static bool by_round; /* share.ends: round, with rounds of one step and averaged moments; else step */
static int tests_run, features = 8;
static bool shared = true; /* false: members' heads and tails are private */
static double member_norm;
static const char *mean_codec = "none";

static struct asked agreement(int k)
{
	struct asked a = host_rig_agreement_of(10, 32, ROWS);
	struct sl_agreed *g = &a.agreement.agreed;
	struct sl_fail fail;

	a.split.model = (struct sl_model_spec){.name = "mlp", .width = 1, .classes = 10, .features = features};
	snprintf(g->share.group, sizeof g->share.group, "g%d", tests_run);
	g->share.clients = MEMBERS;
	g->share.member = k;
	g->share.quorum = HONEST;
	g->share.least = 0;
	g->share.patience_s = 1;
	g->share.member_norm = member_norm;
	g->share.epoch_steps = STEPS;
	g->share.ends = !shared ? SL_ENDS_PRIVATE : by_round ? SL_ENDS_ROUND : SL_ENDS_STEP;
	if (by_round) {
		g->share.mode = SL_SHARE_ROUNDS;
		g->share.round = 1;
		g->share.turns = STEPS;
		g->share.moments = SL_SHARE_AVERAGE;
		g->optimizer.kind = SL_CONF_ADAMW;
	} else {
		g->share.rows = MEMBERS * ROWS;
	}
	snprintf(g->end_codec[SL_END_MEAN], sizeof g->end_codec[0], "%s", mean_codec);
	assert_int_equal(asked_settle(&a, &fail), SL_OK);
	return a;
}

static void call(int k)
{
	struct member *m = &member[k];
	struct sl_plan *plan;
	struct sl_frame hello;
	struct sl_fail fail;

	m->k = k;
	m->asked = agreement(k);
	host_rig_connect_raw(&m->c);
	hello = host_rig_hello_of(&m->asked, (uint8_t)(tests_run * MEMBERS + k), 1, NULL);
	assert_int_equal(plan_open(&plan, &m->asked.split, &fail), SL_OK);
	m->act_bytes = (size_t)sl_shape_row(&plan->segment[SL_MIDDLE].in_shape) * ROWS * sizeof(float);
	m->grad_bytes = (size_t)sl_shape_row(&plan->segment[SL_MIDDLE].out_shape) * ROWS * sizeof(float);
	sl_end_layout_close(&layout);
	if (shared)
		assert_int_equal(sl_end_layout_of(&layout, plan, &fail), SL_OK);
	sl_plan_close(plan);
	host_rig_say(&m->c, &hello);
}

static void begin(void)
{
	tests_run++;
	host_rig_open(MEMBERS, 0);
	for (int k = 0; k < MEMBERS; k++)
		call(k);
	for (int k = 0; k < MEMBERS; k++)
		host_rig_await(&member[k].c.came[SL_FRAME_WELCOME], 1);
}

static void end(void)
{
	for (int k = 0; k < MEMBERS; k++)
		host_rig_hang_up(&member[k].c);
	host_rig_close();
}

/* ---- a step */

static void send_tensor(struct member *m, enum sl_part_what what, uint64_t step)
{
	const bool act = what == SL_PART_HEAD_ACT;
	const size_t bytes = act ? m->act_bytes : m->grad_bytes;
	struct sl_frame f = {.kind = SL_FRAME_PART,
			     .epoch = 1,
			     .u.part = {.what = what,
					.training = true,
					.step = step,
					.rows = ROWS,
					.batch_rows = ROWS,
					.total = SL_FRAME_BYTES + bytes}};
	static uint8_t payload[RUN_MOST];

	assert_in_range(SL_FRAME_BYTES + bytes, 1, sizeof payload);
	sl_frame_write(payload, &m->asked.agreement.codec[act ? SL_DIR_HEAD_ACT : SL_DIR_MID_GRAD], false, ROWS);
	for (size_t i = 0; i < bytes / sizeof(float); i++) {
		const float x = SMALL * (float)((i * 7 + (size_t)m->k * 3 + step) % 11);

		memcpy(payload + SL_FRAME_BYTES + i * sizeof x, &x, sizeof x);
	}
	host_rig_say_part(&m->c, &f, (struct sl_bytes){payload, SL_FRAME_BYTES + bytes});
}

static void await_part(struct member *m, enum sl_part_what what, uint64_t step)
{
	const struct sl_part *p = &m->c.last[SL_FRAME_PART].u.part;

	while (!m->c.came[SL_FRAME_PART] || p->what != what || p->step != step)
		host_rig_await(&m->c.came[SL_FRAME_PART], m->c.came[SL_FRAME_PART] + 1);
}

static void compute(struct member *m, uint64_t step)
{
	send_tensor(m, SL_PART_HEAD_ACT, step);
	await_part(m, SL_PART_MID_ACT, step);
	send_tensor(m, SL_PART_MID_GRAD, step);
	await_part(m, SL_PART_HEAD_GRAD, step);
}

/* The values that an honest member sends: small numbers, second
 * moments above 0; in rounds also that it took all steps. */
static void fill(const struct member *m, uint64_t step, float *change)
{
	for (int64_t i = 0; i < layout.floats; i++)
		change[i] = SMALL * (float)((i * 5 + m->k + (int64_t)step) % 13);
	if (by_round)
		sl_steps_write(step + 1, sl_end_steps(&layout, change));
}

static void send_run(struct member *m, uint64_t step, struct sl_bytes run, uint64_t total)
{
	struct sl_frame f = {.kind = SL_FRAME_PART,
			     .epoch = 1,
			     .u.part = {.what = SL_PART_END_GRAD, .training = true, .step = step, .total = total}};

	host_rig_say_part(&m->c, &f, run);
}

/* Encodes `change`; the returned bytes are valid until the next call. */
static struct sl_bytes encode(const struct member *m, const float *change)
{
	static uint8_t run[RUN_MOST];
	struct sl_buf out = {run, 0, sizeof run};
	const struct sl_end_coder_env env = {
		.layout = &layout, .spec = &m->asked.agreement.end_codec[SL_END_GRAD], .member = m->k};
	struct sl_end_coder *coder;
	struct sl_fail fail;

	assert_int_equal(sl_end_coder_open(&coder, &env, &fail), SL_OK);
	assert_int_equal(sl_end_encode(coder, 0, change, &out), SL_OK);
	sl_end_coder_close(coder);
	return (struct sl_bytes){run, out.len};
}

static void tell_as(struct member *m, uint64_t step, int64_t at, float value)
{
	static float change[RUN_MOST / sizeof(float)];
	struct sl_bytes run;

	fill(m, step, change);
	if (at >= 0)
		change[at] = value;
	run = encode(m, change);
	send_run(m, step, run, run.len);
}

static void tell(struct member *m, uint64_t step)
{
	tell_as(m, step, -1, 0);
}

static void commit(struct member *m, uint64_t step, bool skip, bool passed)
{
	const struct sl_frame f = {.kind = SL_FRAME_COMMIT,
				   .epoch = 1,
				   .u.commit = {.step = step, .chunks = passed ? 0 : 1, .lr = 0.01, .skip = skip}};

	host_rig_say(&m->c, &f);
}

static void pass(struct member *m, uint64_t step)
{
	commit(m, step, true, true);
	if (by_round)
		tell(m, step);
}

/* A step of the honest members, done within the time that the
 * group waits. Returns the hash of the mean that they receive. */
static uint64_t honest_step(uint64_t step)
{
	for (int k = 0; k < HONEST; k++) {
		compute(&member[k], step);
		tell(&member[k], step);
		commit(&member[k], step, false, false);
	}
	for (int k = 0; k < HONEST; k++) {
		struct host_client *c = &member[k].c;

		host_rig_await(&c->came[SL_FRAME_COMMITTED], (int)step + 1);
		await_part(&member[k], SL_PART_END_MEAN, step);
		assert_int_equal(c->came[SL_FRAME_ABANDON] + c->came[SL_FRAME_REFUSE], 0);
		assert_true(c->last[SL_FRAME_PART].u.part.xxh3 == member[0].c.last[SL_FRAME_PART].u.part.xxh3);
	}
	return member[0].c.last[SL_FRAME_PART].u.part.xxh3;
}

static void first_step(void)
{
	for (int k = HONEST; k < MEMBERS; k++)
		pass(&member[k], 0);
	(void)honest_step(0);
	for (int k = HONEST; k < MEMBERS; k++)
		host_rig_await(&member[k].c.came[SL_FRAME_COMMITTED], 1);
}

/* The status has the bytes that each member has sent and received. */
static void look_at_status(void)
{
	const size_t run = encode(&member[0], (float[RUN_MOST / sizeof(float)]){0}).len;
	char *text = sl_host_status(host_rig.host);
	struct sl_status s;
	struct sl_fail fail;

	assert_int_equal(sl_status_parse(text, &s, &fail), SL_OK);
	free(text);
	assert_int_equal(s.n_session, MEMBERS);
	for (int i = 0; i < MEMBERS; i++) {
		const size_t told = s.session[i].member < HONEST ? 2 : 0; /* the others have passed both steps */

		assert_in_range(s.session[i].end_grad_bytes, told * run, told * (run + 100));
		assert_in_range(s.session[i].end_mean_bytes, run, 2 * (run + 100));
	}
	sl_status_free(&s);
}

/* Hashes of the means of the other steps, in which the eight others pass. */
static const uint64_t *without(void)
{
	static uint64_t kept[2][STEPS];
	uint64_t *mean = kept[by_round];

	if (mean[SPOILED])
		return mean;
	begin();
	first_step();
	for (uint64_t step = SPOILED; step < STEPS; step++) {
		for (int k = HONEST; k < MEMBERS; k++)
			pass(&member[k], step);
		mean[step] = honest_step(step);
		if (step == SPOILED && !by_round)
			look_at_status();
	}
	end();
	return mean;
}

static void begin_hostile(bool round)
{
	by_round = round;
	(void)without();
	begin();
	first_step();
}

/* The others have begun step 1, each in its own way. The honest
 * ones continue, with the same means as without them. */
static void goes_on(void)
{
	for (uint64_t step = SPOILED; step < STEPS; step++)
		assert_true(honest_step(step) == without()[step]);
}

static void assert_refused(int k, enum sl_err code, const char *phrase)
{
	const struct sl_refuse *r = &member[k].c.last[SL_FRAME_REFUSE].u.refuse;

	host_rig_await(&member[k].c.came[SL_FRAME_REFUSE], 1);
	if (r->code != (uint32_t)code || !strstr(r->text, phrase))
		fail_msg("member %d: %u, '%s', not '%s'", k, r->code, r->text, phrase);
}

static const char *abandoned(int k)
{
	host_rig_await(&member[k].c.came[SL_FRAME_ABANDON], 1);
	return member[k].c.last[SL_FRAME_ABANDON].u.abandon.text;
}

/* Values that are finite, but would make all heads and tails useless. */
static void huge_ends_are_left_out(void **state)
{
	member_norm = 1000;
	for (int round = 0; round < 2; round++) {
		begin_hostile(round);
		for (int k = HONEST; k < MEMBERS; k++) {
			compute(&member[k], SPOILED);
			tell_as(&member[k], SPOILED, k % (int)layout.grads, k % 2 ? -3e38f : 1e4f);
			commit(&member[k], SPOILED, false, false);
		}
		if (!round)
			for (int k = HONEST; k < MEMBERS; k++)
				assert_non_null(strstr(abandoned(k), "the norm of this member's gradient is"));
		goes_on();
		end();
	}
	member_norm = 0;
}

/* ---- by step */

/* Members 8 to 11 send values that are not finite, or nothing.
 * Members 12 to 15 send malformed runs, or at a wrong time. */
static void hostile_gradients_are_left_out(void **state)
{
	static float change[RUN_MOST / sizeof(float)];
	struct sl_bytes run;

	begin_hostile(false);
	send_tensor(&member[12], SL_PART_HEAD_ACT, SPOILED);
	for (int k = HONEST; k < MEMBERS; k++)
		if (k != 12 && k != 13)
			compute(&member[k], SPOILED);
	tell_as(&member[8], SPOILED, 3, NAN);
	tell_as(&member[9], SPOILED, layout.grads - 1, INFINITY);
	tell_as(&member[10], SPOILED, 0, -INFINITY);
	for (int k = HONEST; k < 12; k++)
		commit(&member[k], SPOILED, false, false); /* member 11 never sends its values */
	fill(&member[12], SPOILED, change);
	run = encode(&member[12], change);
	send_run(&member[12], SPOILED, (struct sl_bytes){run.data, 64}, (uint64_t)1 << 40);
	send_run(&member[13], SPOILED, (struct sl_bytes){run.data, 64}, run.len); /* it has not begun the step */
	send_run(&member[14], SPOILED, (struct sl_bytes){run.data, run.len - 4}, run.len - 4);
	commit(&member[14], SPOILED, false, false);
	tell(&member[15], SPOILED);
	tell(&member[15], SPOILED);
	for (int k = HONEST; k < 11; k++)
		assert_non_null(strstr(abandoned(k), "NaN or Inf in the gradients of head and tail"));
	host_rig_await(&member[12].c.came[SL_FRAME_REFUSE], 1); /* too long; or too early, if it still computes */
	assert_refused(13, SL_ERR_PROTOCOL, "a pass begins with head_act");
	assert_refused(14, SL_ERR_PAYLOAD, "end within parameter 3 of 4");
	assert_refused(15, SL_ERR_PROTOCOL, "twice in step 1");
	goes_on();
	assert_true(member[11].c.last[SL_FRAME_ABANDON].u.abandon.late);
	end();
}

/* Each gradient is finite, but their sum is not. */
static void huge_gradients_are_left_out(void **state)
{
	begin_hostile(false);
	for (int k = 0; k < MEMBERS; k++) {
		compute(&member[k], SPOILED);
		tell_as(&member[k], SPOILED, k < HONEST ? -1 : 5, 3e38f);
		commit(&member[k], SPOILED, false, false);
	}
	for (int k = HONEST; k < MEMBERS; k++)
		assert_non_null(strstr(abandoned(k), "of whom this one has the largest gradient"));
	for (int k = 0; k < HONEST; k++) {
		host_rig_await(&member[k].c.came[SL_FRAME_COMMITTED], SPOILED + 1);
		assert_int_equal(member[k].c.came[SL_FRAME_ABANDON], 0);
	}
	end();
}

/* ---- by round */

/* Members 8 to 11 have trained. Members 12 to 15 pass the step,
 * in which each may send its values once and nothing else. */
static void a_round_goes_on_without_them(void **state)
{
	const struct sl_bytes none = {(const uint8_t *)"none", 4};

	begin_hostile(true);
	for (int k = HONEST; k < MEMBERS; k++) {
		if (k < 12)
			compute(&member[k], SPOILED);
		commit(&member[k], SPOILED, k >= 12, k >= 12);
	}
	tell_as(&member[8], SPOILED, 3, NAN); /* noticed only when the round ends */
	tell_as(&member[9], SPOILED, layout.floats - 2, 99);
	tell_as(&member[10], SPOILED, layout.floats - 3, -1);
	send_run(&member[12], SPOILED, none, none.len);
	send_tensor(&member[13], SL_PART_HEAD_ACT, SPOILED);
	tell(&member[14], SPOILED);
	tell(&member[14], SPOILED);
	assert_refused(9, SL_ERR_PAYLOAD, "has done more steps");
	assert_refused(10, SL_ERR_PAYLOAD, "a second moment of -1");
	assert_refused(12, SL_ERR_PAYLOAD, "end within parameter 0");
	assert_refused(13, SL_ERR_PROTOCOL, "in state COMMIT");
	assert_refused(14, SL_ERR_PROTOCOL, "in state COMMIT");
	goes_on(); /* members 11 and 15 send nothing */
	assert_non_null(strstr(abandoned(8), "NaN or Inf in the weights"));
	assert_true(member[11].c.last[SL_FRAME_ABANDON].u.abandon.late);
	assert_int_equal(member[15].c.came[SL_FRAME_REFUSE], 0);
	tell(&member[15], SPOILED); /* late, but it receives the mean */
	host_rig_await(&member[15].c.came[SL_FRAME_COMMITTED], SPOILED + 1);
	await_part(&member[15], SL_PART_END_MEAN, SPOILED);
	assert_true(member[15].c.last[SL_FRAME_PART].u.part.xxh3 == without()[SPOILED]);
	end();
}

/* ---- memory */

/* The memory that opening all sessions took, and the memory that was counted for them. */
static void opened(uint64_t *taken, uint64_t *counted)
{
	struct mallinfo2 before = mallinfo2(), now;
	struct sl_status s;
	struct sl_fail fail;
	char *text;

	begin();
	now = mallinfo2();
	*taken = now.uordblks + now.hblkhd - before.uordblks - before.hblkhd;
	text = sl_host_status(host_rig.host);
	assert_int_equal(sl_status_parse(text, &s, &fail), SL_OK);
	free(text);
	*counted = (uint64_t)s.memory_bytes;
	sl_status_free(&s);
	end();
}

/* With a large head: the memory for sharing it is counted beforehand. Means are allocated only with the steps. */
static void what_sharing_takes_is_counted(void **state)
{
#ifdef SL_SANITIZED
	skip(); /* mallinfo2 does not see a sanitizer's memory */
#endif
	features = 2000;
	for (int round = 0; round < 2; round++) {
		uint64_t taken[2], counted[2], bytes, runs, means;

		by_round = round;
		for (int i = 0; i < 2; i++) {
			shared = i;
			opened(&taken[i], &counted[i]);
		}
		bytes = (uint64_t)layout.floats * sizeof(float);
		means = 3 * bytes;
		runs = 2 * MEMBERS * bytes; /* in the ports' arenas */
		/* What each member sent, decoded, and the trunk's sum, which in rounds is kept in double as well.
		 * malloc rounds each up to a page, and has small structs beside it. */
		assert_in_range(taken[1] - taken[0], (MEMBERS + 1 + 2 * (uint64_t)round) * bytes,
				counted[1] - counted[0] - means - runs + (MEMBERS + 2) * 2 * 4096);
	}
	features = 8;
	shared = true;
}

/* Bytes that are counted for a group without sessions, whose member 15 missed a step and may come for its mean. */
static uint64_t left_alone(void)
{
	uint64_t used;

	begin();
	for (int k = 0; k < MEMBERS - 1; k++)
		pass(&member[k], 0);
	for (int k = 0; k < MEMBERS - 1; k++)
		host_rig_await(&member[k].c.came[SL_FRAME_COMMITTED], 1);
	for (int k = 0; k < MEMBERS; k++)
		host_rig_hang_up(&member[k].c);
	for (int k = 0; k < MEMBERS; k++)
		while (host_rig.host->session[k] || host_rig.host->closing)
			host_rig_turn();
	used = atomic_load(&host_rig.host->memory.used);
	host_rig_close();
	return used;
}

static void what_a_group_shares_is_counted_without_sessions(void **state)
{
	uint64_t used[2], bytes;

	features = 2000;
	by_round = false;
	for (int i = 0; i < 2; i++) {
		shared = i;
		used[i] = left_alone();
	}
	bytes = (uint64_t)layout.floats * sizeof(float);
	assert_true(used[1] - used[0] >= bytes + 3 * bytes);
	features = 8;
}

/* The middle is cheap, but compressing the mean of a large head is not. */
static void what_sharing_costs_is_known(void **state)
{
	features = 2000;
	by_round = false;
	host_rig.piece_ms = 100;
	begin();
	end();
	mean_codec = "topk:0.5|zstd:19";
	tests_run++;
	host_rig_open(MEMBERS, 0);
	call(0);
	assert_refused(0, SL_ERR_LIMIT, "shared heads and tails: a task of this session");
	host_rig_hang_up(&member[0].c);
	host_rig_close();
	host_rig.piece_ms = 0;
	mean_codec = "none";
	features = 8;
}

static int close_layout(void **state)
{
	sl_end_layout_close(&layout);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hostile_gradients_are_left_out),
		cmocka_unit_test(huge_ends_are_left_out),
		cmocka_unit_test(huge_gradients_are_left_out),
		cmocka_unit_test(what_sharing_takes_is_counted),
		cmocka_unit_test(a_round_goes_on_without_them),
		cmocka_unit_test(what_sharing_costs_is_known),
		cmocka_unit_test(what_a_group_shares_is_counted_without_sessions),
	};

	return cmocka_run_group_tests(tests, NULL, close_layout);
}
