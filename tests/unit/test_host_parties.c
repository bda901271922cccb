/* A vertical group on a server, one of whose parties lies. A step that it spoils is left out for both. Where it breaks
 * the rules its own link ends with the reason; the other party is told whom it waits for, and both go on with the same
 * bits as if nothing had happened. Then the same with gradients that are clipped. */
#include <math.h>

#include <ftw.h>

#include "common/exec/clip.h"
#include "tests/support/host_member.h"
#include "tests/support/unit.h"

static const float SMALL = 1e-3f;

enum { ROWS = HOST_MEMBER_ROWS, FEATURES = 0, MOST = 3, STEPS = 5, SPOILED = 3 };

static struct host_member member[MOST];
static int parties; /* the last one has the labels */
static char folder[] = "/tmp/split-parties.XXXXXX";
static int tests_run;

static void come(int k, uint64_t epoch, uint64_t held)
{
	host_member_call_with(&member[k], k, (uint8_t)(tests_run % 64 * MOST + k), epoch, &held, 1);
}

static void welcomed(void)
{
	for (int k = 0; k < parties; k++)
		host_rig_await(&member[k].c.came[SL_FRAME_WELCOME], 1);
}

static void open_server(void)
{
	tests_run++;
	snprintf(host_group.name, sizeof host_group.name, "g%d", tests_run);
	memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
	assert_non_null(mkdtemp(folder));
	host_rig.store = folder;
	host_rig_open(8, 0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void end(void)
{
	for (int k = 0; k < parties; k++)
		host_member_hang_up(&member[k]);
	host_rig_close();
	assert_int_equal(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static int labels(void)
{
	return parties - 1;
}

/* ---- an honest pass */

static struct sl_frame part(int k, enum sl_part_what what, uint64_t step)
{
	return (struct sl_frame){.kind = SL_FRAME_PART,
				 .epoch = member[k].epoch,
				 .u.part = {.what = what, .training = true, .step = step, .batch_rows = ROWS}};
}

/* The hash of the pass's rows; with `f` NULL as it should be. */
static void order(int k, uint64_t step, const struct sl_frame *f, uint8_t first)
{
	const uint8_t tag[SL_WIRE_ORDER] = {first, (uint8_t)step};
	struct sl_frame now = f ? *f : part(k, SL_PART_ORDER, step);

	now.u.part.total = sizeof tag;
	host_rig_say_part(&member[k].c, &now, (struct sl_bytes){tag, sizeof tag});
}

static bool stopped(void)
{
	bool any = false;

	for (int k = 0; k < parties; k++)
		any = any || member[k].c.came[SL_FRAME_ABANDON] || member[k].c.came[SL_FRAME_REFUSE];
	return any;
}

/* Party k sends its tensor, of its kind. */
static void send_own(int k, uint64_t step, float scale)
{
	host_member_send(&member[k], k == labels() ? SL_PART_MID_GRAD : SL_PART_HEAD_ACT, step, scale, false);
}

static void await_bytes(int k, uint64_t whole)
{
	while (member[k].c.payload_bytes < whole && !stopped())
		host_rig_turn();
}

/* All features parties send, one of them `scale` times as much; waits for mid_act. */
static void send_acts(uint64_t step, int which, float scale)
{
	const uint64_t whole = member[labels()].c.payload_bytes + member[labels()].grad_bytes;

	for (int k = 0; k < labels(); k++)
		send_own(k, step, k == which ? scale : 1);
	await_bytes(labels(), whole);
}

/* The party with labels sends; waits until all others have their head_grad. */
static void send_grad(uint64_t step, float scale)
{
	uint64_t whole[MOST];

	for (int k = 0; k < labels(); k++)
		whole[k] = member[k].c.payload_bytes + member[k].act_bytes;
	send_own(labels(), step, scale);
	for (int k = 0; k < labels(); k++)
		await_bytes(k, whole[k]);
}

static void say_norm(int k, uint64_t step, double squares)
{
	const struct sl_frame f = {.kind = SL_FRAME_NORM, .epoch = member[k].epoch, .u.norm = {step, squares}};

	host_rig_say(&member[k].c, &f);
}

/* The squares of party k's own gradient, as it says. */
static double squares_of(int k, uint64_t step)
{
	return 0.3 + 0.7 * k + 0.1 * (double)step;
}

/* All say their squares and hear the sum, of which the server clips. */
static void norms(uint64_t step)
{
	for (int k = 0; k < parties; k++)
		member[k].c.came[SL_FRAME_NORM] = 0;
	for (int k = 0; k < parties && host_group.clip_norm > 0; k++)
		say_norm(k, step, squares_of(k, step));
	for (int k = 0; k < parties && host_group.clip_norm > 0; k++)
		while (!member[k].c.came[SL_FRAME_NORM] && !stopped())
			host_rig_turn();
}

static double factor_of(int k)
{
	const double squares[3] = {0, member[k].c.last[SL_FRAME_NORM].u.norm.squares, 0};

	return host_group.clip_norm > 0 ? sl_clip_factor(host_group.clip_norm, squares) : 0;
}

static void commit_by(int k, uint64_t step, bool skip, double lr, double grad_scale)
{
	const struct sl_frame f = {.kind = SL_FRAME_COMMIT,
				   .epoch = member[k].epoch,
				   .u.commit = {.step = step,
						.chunks = skip ? 0 : 1,
						.lr = lr,
						.checkpoint = true,
						.kept = {step, step ? step - 1 : 0},
						.skip = skip,
						.grad_scale = skip ? 0 : grad_scale}};

	host_rig_say(&member[k].c, &f);
}

static void commit(int k, uint64_t step, bool skip, double lr)
{
	commit_by(k, step, skip, lr, factor_of(k));
}

static void committed(void)
{
	for (int k = 0; k < parties; k++) {
		host_rig_await(&member[k].c.came[SL_FRAME_COMMITTED], 1);
		member[k].c.came[SL_FRAME_COMMITTED] = 0;
	}
}

static void all_order(uint64_t step)
{
	for (int k = 0; k < parties; k++)
		order(k, step, NULL, 0);
}

static void honest_step(uint64_t step)
{
	all_order(step);
	send_acts(step, FEATURES, 1);
	send_grad(step, SMALL);
	norms(step);
	for (int k = 0; k < parties; k++)
		commit(k, step, false, host_group.lr);
	committed();
	assert_false(stopped());
}

/* A group that has done the steps before SPOILED. */
static void begin(void)
{
	open_server();
	for (int k = 0; k < parties; k++)
		come(k, 1, 0);
	welcomed();
	for (uint64_t step = 0; step < SPOILED; step++)
		honest_step(step);
}

static void skip_step(uint64_t step)
{
	for (int k = 0; k < parties; k++)
		commit(k, step, true, host_group.lr);
	committed();
	for (int k = 0; k < parties; k++)
		member[k].c.came[SL_FRAME_ABANDON] = 0;
}

/* Does the steps from `from` on. Returns the hash of the weights then, which both parties get. */
static uint64_t rest(uint64_t from)
{
	uint64_t hash;

	for (uint64_t step = from; step < STEPS; step++)
		honest_step(step);
	hash = host_member_weights(&member[FEATURES]);
	for (int k = 1; k < parties; k++)
		assert_true(host_member_weights(&member[k]) == hash);
	end();
	return hash;
}

/* The hash where nobody lies. */
static uint64_t undisturbed(void)
{
	static uint64_t hash[MOST + 1][2];
	uint64_t *is = &hash[parties][host_group.clip_norm > 0];

	if (*is)
		return *is;
	begin();
	return *is = rest(SPOILED);
}

/* ---- values */

static void spoiled_values_are_left_out(void **state)
{
	static const float bad[] = {NAN, INFINITY, 3e38f};
	uint64_t hash = 0;

	for (int k = 0; k < parties; k++)
		for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
			uint64_t before, now;

			begin();
			before = host_member_weights(&member[FEATURES]);
			all_order(SPOILED);
			send_acts(SPOILED, k, bad[i]);
			if (!stopped())
				send_grad(SPOILED, k == labels() ? bad[i] : SMALL);
			if (!stopped())
				norms(SPOILED);
			for (int p = 0; p < parties && !stopped(); p++)
				commit(p, SPOILED, false, host_group.lr);
			for (int p = 0; p < parties; p++) {
				host_rig_await(&member[p].c.came[SL_FRAME_ABANDON], 1);
				assert_int_equal(member[p].c.came[SL_FRAME_REFUSE], 0);
			}
			skip_step(SPOILED);
			assert_true(host_member_weights(&member[FEATURES]) == before);
			now = rest(SPOILED + 1);
			assert_true(now == (hash = hash ? hash : now) && now != undisturbed());
		}
}

/* Party k is refused for this reason, and the others are told that it was lost. All come again and go on. */
static void ends_alone(int k, const char *phrase, const char *what)
{
	const struct sl_refuse *said = &member[k].c.last[SL_FRAME_REFUSE].u.refuse;
	char lost[32];

	for (int p = 0; p < parties; p++)
		host_rig_await(&member[p].c.came[SL_FRAME_REFUSE], 1);
	if (said->code == SL_ERR_BUSY || !strstr(said->text, phrase))
		fail_msg("%s by %d: %u, %s", what, k, said->code, said->text);
	snprintf(lost, sizeof lost, "member %d", k);
	for (int p = 0; p < parties; p++) {
		const struct sl_refuse *other = &member[p].c.last[SL_FRAME_REFUSE].u.refuse;

		if (p != k && (other->code != SL_ERR_BUSY || !strstr(other->text, lost)))
			fail_msg("%s by %d: %d hears %u, %s", what, k, p, other->code, other->text);
	}
	for (int p = 0; p < parties; p++) {
		host_member_hang_up(&member[p]);
		come(p, 2, SPOILED);
	}
	welcomed();
	assert_true(rest(SPOILED) == undisturbed());
}

/* Of two rates the smaller one counts, and both parties are told of it. Of three that of most counts. */
static void a_learning_rate_does_no_harm(void **state)
{
	for (int k = 0; k < parties; k++) {
		(void)undisturbed();
		begin();
		all_order(SPOILED);
		send_acts(SPOILED, FEATURES, 1);
		send_grad(SPOILED, SMALL);
		norms(SPOILED);
		for (int p = 0; p < parties; p++)
			commit(p, SPOILED, false, p == k ? 7e5 : host_group.lr);
		if (parties == 2) {
			committed();
			assert_true(rest(SPOILED + 1) == undisturbed());
		} else {
			ends_alone(k, "learning rate", "another rate");
		}
	}
}

/* ---- frames */

static void say_order(int k, uint64_t step, uint32_t rows, bool training)
{
	struct sl_frame f = part(k, SL_PART_ORDER, step);

	f.u.part.batch_rows = rows;
	f.u.part.training = training;
	order(k, step, &f, 0);
}

/* The beginning of a tensor's run. */
static void say_tensor(int k, enum sl_part_what what, uint32_t rows, uint32_t chunk)
{
	const uint8_t few[64] = {0};
	struct sl_frame f = part(k, what, SPOILED);

	f.u.part.rows = rows;
	f.u.part.chunk = chunk;
	f.u.part.total = 4096;
	host_rig_say_part(&member[k].c, &f, (struct sl_bytes){few, sizeof few});
}

static void lie_early(int k)
{
	say_order(k, SPOILED + 1, ROWS, true);
}

static void lie_late(int k)
{
	say_order(k, SPOILED - 1, ROWS, true);
}

static void lie_many(int k)
{
	say_order(k, SPOILED, 100 * ROWS, true);
}

static void lie_bare(int k)
{
	say_tensor(k, k == labels() ? SL_PART_MID_GRAD : SL_PART_HEAD_ACT, ROWS, 0);
}

static void lie_twice(int k)
{
	order(k, SPOILED, NULL, 0);
	order(k, SPOILED, NULL, 0);
}

static void lie_others(int k)
{
	all_order(SPOILED);
	send_acts(SPOILED, FEATURES, 1);
	say_tensor(k, k == labels() ? SL_PART_HEAD_ACT : SL_PART_MID_GRAD, ROWS, 0);
}

static void lie_rows(int k)
{
	order(k, SPOILED, NULL, 0);
	say_tensor(k, SL_PART_HEAD_ACT, 1, 0);
}

static void lie_chunk(int k)
{
	order(k, SPOILED, NULL, 0);
	say_tensor(k, SL_PART_HEAD_ACT, ROWS, 1);
}

static void lie_too_soon(int k)
{
	order(k, SPOILED, NULL, 0);
	say_tensor(k, SL_PART_MID_GRAD, ROWS, 0);
}

static void lie_undone(int k)
{
	order(k, SPOILED, NULL, 0);
	commit(k, SPOILED, false, host_group.lr);
}

static void lie_again(int k)
{
	all_order(SPOILED);
	send_acts(SPOILED, FEATURES, 1);
	send_grad(SPOILED, SMALL);
	say_tensor(k, k == labels() ? SL_PART_MID_GRAD : SL_PART_HEAD_ACT, ROWS, 0);
}

static void computed(void)
{
	all_order(SPOILED);
	send_acts(SPOILED, FEATURES, 1);
	send_grad(SPOILED, SMALL);
}

static void lie_nan(int k)
{
	computed();
	say_norm(k, SPOILED, (double)NAN);
}

static void lie_inf(int k)
{
	computed();
	say_norm(k, SPOILED, INFINITY);
}

static void lie_negative(int k)
{
	computed();
	say_norm(k, SPOILED, -1e-300);
}

static void lie_huge(int k)
{
	computed();
	say_norm(k, SPOILED, 1.7e308);
}

static void lie_norms(int k)
{
	computed();
	say_norm(k, SPOILED, 1);
	say_norm(k, SPOILED, 1);
}

static void lie_norm_of_nothing(int k)
{
	order(k, SPOILED, NULL, 0);
	say_norm(k, SPOILED, 1);
}

static void lie_norm_of_other(int k)
{
	computed();
	say_norm(k, SPOILED + 1, 1);
}

static void lie_hasty(int k)
{
	computed();
	say_norm(k, SPOILED, 1);
	commit_by(k, SPOILED, false, host_group.lr, 1);
}

static void lie_factor(int k)
{
	computed();
	norms(SPOILED);
	commit_by(k, SPOILED, false, host_group.lr, nextafter(factor_of(k), 1));
}

static void lie_unclipped(int k)
{
	computed();
	norms(SPOILED);
	commit_by(k, SPOILED, false, host_group.lr, 0);
}

static const struct {
	const char *name, *phrase;
	void (*lie)(int k);
	unsigned who; /* bit 0: parties with features, 1: the one with labels; 2: the group clips */
} lies[] = {
	{"a step ahead", "begun where", lie_early, 3},
	{"a step behind", "begun where", lie_late, 3},
	{"too many rows", "at most 2", lie_many, 3},
	{"no order", "begins with the order", lie_bare, 3},
	{"two orders", "order of step", lie_twice, 3},
	{"the other party's tensor", "does not receive", lie_others, 3},
	{"few rows", "the part says 1", lie_rows, 1},
	{"a chunk too many", "chunk 1 where", lie_chunk, 1},
	{"mid_grad before mid_act", "before it can exist", lie_too_soon, 2},
	{"commit of nothing", "commit of step 3", lie_undone, 3},
	{"a tensor twice", "chunk 0 where", lie_again, 3},
	{"squares that are NaN", "squares", lie_nan, 7},
	{"squares that are Inf", "squares", lie_inf, 7},
	{"negative squares", "squares is -1e-300", lie_negative, 7},
	{"squares whose sum is Inf", "squares is 1.7e+308", lie_huge, 7},
	{"squares twice", "too early or twice", lie_norms, 7},
	{"squares of nothing", "too early or twice", lie_norm_of_nothing, 7},
	{"squares of another step", "step 4 in step 3", lie_norm_of_other, 7},
	{"a commit without the norm", "which its norm does not give", lie_hasty, 7},
	{"another factor", "which its norm does not give", lie_factor, 7},
	{"no factor", "which its norm does not give", lie_unclipped, 7},
};

static void who_breaks_the_rules_ends_alone(void **state)
{
	for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++)
		for (int k = 0; k < parties; k++) {
			if (!(lies[i].who >> (k == labels()) & 1) || lies[i].who >> 2 != (host_group.clip_norm > 0))
				continue;
			(void)undisturbed();
			begin();
			lies[i].lie(k);
			ends_alone(k, lies[i].phrase, lies[i].name);
		}
}

/* Nobody knows who lies where both say something else that may be. Both end, and nothing is computed. */
static void passes_that_differ_end_both(void **state)
{
	for (int k = 0; k < parties; k++)
		for (int how = 0; how < 3; how++) {
			begin();
			for (int p = 0; p < parties; p++)
				if (p != k)
					order(p, SPOILED, NULL, 0);
			if (how == 0)
				order(k, SPOILED, NULL, 1);
			else
				say_order(k, SPOILED, how == 1 ? 1 : ROWS, how == 1);
			for (int p = 0; p < parties; p++) {
				host_rig_await(&member[p].c.came[SL_FRAME_REFUSE], 1);
				assert_int_equal(member[p].c.last[SL_FRAME_REFUSE].u.refuse.code, SL_ERR_MISMATCH);
				assert_non_null(
					strstr(member[p].c.last[SL_FRAME_REFUSE].u.refuse.text, "different rows"));
			}
			end();
		}
}

/* The party whose role is taken is refused alone; the other one waits on, and trains with one that has the right role.
 */
static void a_role_is_taken_once(void **state)
{
	const struct sl_refuse *said = &member[labels()].c.last[SL_FRAME_REFUSE].u.refuse;

	(void)undisturbed();
	for (int back = 0; back < 2; back++) { /* it comes first, or comes back */
		open_server();
		come(FEATURES, 1, 0);
		host_rig_await(&member[FEATURES].c.came[SL_FRAME_CHALLENGE], 1);
		if (back) {
			come(labels(), 1, 0);
			welcomed();
			for (uint64_t step = 0; step < SPOILED; step++)
				honest_step(step);
			lie_early(labels());
			for (int p = 0; p < parties; p++) {
				host_rig_await(&member[p].c.came[SL_FRAME_REFUSE], 1);
				host_member_hang_up(&member[p]);
			}
			come(FEATURES, 2, SPOILED);
			host_rig_await(&member[FEATURES].c.came[SL_FRAME_CHALLENGE], 1);
		}
		host_group.same_role = true;
		come(labels(), 2, back ? SPOILED : 0);
		host_group.same_role = false;
		host_rig_await(&member[labels()].c.came[SL_FRAME_REFUSE], 1);
		if (said->code != SL_ERR_MISMATCH || !strstr(said->text, "member 0 of group"))
			fail_msg("%u, %s", said->code, said->text);
		assert_int_equal(member[FEATURES].c.came[SL_FRAME_REFUSE], 0);
		host_member_hang_up(&member[labels()]);
		come(labels(), 3, back ? SPOILED : 0);
		welcomed();
		assert_true(rest(back ? SPOILED : 0) == undisturbed());
	}
}

/* It comes back with a step that it cannot have, or says that it has lost all: it is refused alone. */
static void a_step_that_nobody_has_is_refused(void **state)
{
	static const uint64_t held[] = {0, SPOILED + 1, UINT64_MAX};
	const struct sl_refuse *said = &member[labels()].c.last[SL_FRAME_REFUSE].u.refuse;

	(void)undisturbed();
	for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
		begin();
		lie_early(labels());
		for (int p = 0; p < parties; p++) {
			host_rig_await(&member[p].c.came[SL_FRAME_REFUSE], 1);
			host_member_hang_up(&member[p]);
		}
		for (int p = 0; p < labels(); p++)
			come(p, 2, SPOILED);
		come(labels(), 2, held[i]);
		host_rig_await(&member[labels()].c.came[SL_FRAME_REFUSE], 1);
		if (said->code != SL_ERR_MISMATCH || !strstr(said->text, "does not hold"))
			fail_msg("%u, %s", said->code, said->text);
		assert_int_equal(member[FEATURES].c.came[SL_FRAME_REFUSE], 0);
		host_member_hang_up(&member[labels()]);
		come(labels(), 3, SPOILED);
		welcomed();
		assert_true(rest(SPOILED) == undisturbed());
	}
}

/* Of two parties with features neither may give what the other one does; and one of three members has labels. */
static void an_input_is_given_once(void **state)
{
	static const int sends[] = {1, 3, 2};
	const struct sl_refuse *said = &member[1].c.last[SL_FRAME_REFUSE].u.refuse;

	(void)undisturbed();
	for (size_t i = 0; i < sizeof sends / sizeof sends[0]; i++) {
		open_server();
		come(FEATURES, 1, 0);
		host_rig_await(&member[FEATURES].c.came[SL_FRAME_CHALLENGE], 1);
		host_group.sends = sends[i];
		come(1, 1, 0);
		host_group.sends = 0;
		if (i < 2) {
			host_rig_await(&member[1].c.came[SL_FRAME_REFUSE], 1);
			if (said->code != SL_ERR_MISMATCH || !strstr(said->text, "member 0 of group"))
				fail_msg("%u, %s", said->code, said->text);
			host_member_hang_up(&member[1]);
			come(1, 2, 0);
		}
		come(labels(), 1, 0);
		welcomed();
		assert_true(rest(0) == undisturbed());
	}
}

static void an_input_of_nobody_ends_both(void **state)
{
	host_group.sends = 1;
	open_server();
	for (int k = 0; k < parties; k++)
		come(k, 1, 0);
	welcomed();
	host_group.sends = 0;
	all_order(0);
	for (int k = 0; k < parties; k++) {
		host_rig_await(&member[k].c.came[SL_FRAME_REFUSE], 1);
		assert_non_null(strstr(member[k].c.last[SL_FRAME_REFUSE].u.refuse.text, "gives head_act.1"));
	}
	end();
}

/* The sum that all hear in a step, where member k says squares[k]. */
static double heard_sum(const double *squares)
{
	double sum;

	begin();
	computed();
	for (int k = 0; k < parties; k++)
		member[k].c.came[SL_FRAME_NORM] = 0;
	for (int k = parties - 1; k >= 0; k--) /* the order in which they come does not count */
		say_norm(k, SPOILED, squares[k]);
	for (int k = 0; k < parties; k++)
		host_rig_await(&member[k].c.came[SL_FRAME_NORM], 1);
	sum = member[FEATURES].c.last[SL_FRAME_NORM].u.norm.squares;
	for (int k = 1; k < parties; k++)
		assert_true(member[k].c.last[SL_FRAME_NORM].u.norm.squares == sum);
	end();
	return sum;
}

static double sum_in(const double *x, const int *order, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += x[order[i]];
	return sum;
}

/* Member by member, and the middle last. Other orders round otherwise. */
static void squares_are_added_in_the_order_of_members(void **state)
{
	static const int right[] = {0, 1, 2, 3}, wrong[][MOST + 1] = {{3, 0, 1, 2}, {2, 1, 0, 3}, {0, 3, 1, 2}},
			 wrong_of_two[][MOST + 1] = {{2, 0, 1}, {2, 1, 0}};
	const double none[MOST] = {0}, middle = heard_sum(none);
	double squares[MOST + 1];
	int others = 0;

	assert_true(middle > 0);
	for (int i = 1; others < (parties == 2 ? 2 : 3); i++) {
		assert_true(i < 1000);
		for (int k = 0; k < parties; k++)
			squares[k] = middle * (0.1 * i + 0.3 * k);
		squares[parties] = middle;
		others = 0;
		for (int w = 0; w < (parties == 2 ? 2 : 3); w++)
			others += sum_in(squares, parties == 2 ? wrong_of_two[w] : wrong[w], parties + 1) !=
				  sum_in(squares, right, parties + 1);
	}
	assert_true(heard_sum(squares) == sum_in(squares, right, parties + 1));
}

static void a_clipped_step_is_smaller(void **state)
{
	const uint64_t clipped = undisturbed();

	assert_true(factor_of(FEATURES) < 1);
	host_group.clip_norm = 0;
	assert_true(undisturbed() != clipped);
	host_group.clip_norm = 0.5;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spoiled_values_are_left_out),
		cmocka_unit_test(a_learning_rate_does_no_harm),
		cmocka_unit_test(who_breaks_the_rules_ends_alone),
		cmocka_unit_test(passes_that_differ_end_both),
		cmocka_unit_test(a_role_is_taken_once),
		cmocka_unit_test(a_step_that_nobody_has_is_refused),
		cmocka_unit_test(an_input_of_nobody_ends_both),
	};

	const struct CMUnitTest of_three[] = {
		cmocka_unit_test(spoiled_values_are_left_out),       cmocka_unit_test(a_learning_rate_does_no_harm),
		cmocka_unit_test(who_breaks_the_rules_ends_alone),   cmocka_unit_test(passes_that_differ_end_both),
		cmocka_unit_test(a_step_that_nobody_has_is_refused), cmocka_unit_test(an_input_is_given_once),
	};
	const struct CMUnitTest clips[] = {
		cmocka_unit_test(a_clipped_step_is_smaller),
		cmocka_unit_test(squares_are_added_in_the_order_of_members),
		cmocka_unit_test(spoiled_values_are_left_out),
		cmocka_unit_test(a_learning_rate_does_no_harm),
		cmocka_unit_test(who_breaks_the_rules_ends_alone),
	};
	int failed = 0;

	host_group.epoch_steps = STEPS;
	host_group.vertical = true;
	host_group.lr = 0.05;
	for (parties = 2; parties <= MOST && !failed; parties++) {
		host_group.clients = parties;
		failed = parties == 2 ? cmocka_run_group_tests(tests, NULL, NULL)
				      : cmocka_run_group_tests(of_three, NULL, NULL);
		host_group.clip_norm = 0.5;
		failed += cmocka_run_group_tests(clips, NULL, NULL);
		host_group.clip_norm = 0;
	}
	return failed;
}
