/* A hundred members of a group on a server in this process, with real sessions over raw links. All
 * of them take part in every step, and each costs the server as much memory as the others. Prints
 * the cost of a member. SPLIT_STEPS: steps of each group (3; figures are meaningful from 300 on).
 * SPLIT_WIDTH: width of the network (1: its middle has 4,160 parameters; 16: a million). */
#include <sys/resource.h>
#include <unistd.h>

#include "common/codec/frame.h"
#include "tests/support/host_rig.h"
#include "tests/support/unit.h"

enum { ROWS = 2, MOST = 100 };

struct member {
	struct host_client c;
	struct asked asked;
	size_t act_bytes, grad_bytes; /* bytes of head_act and mid_grad */
};

static struct member member[MOST];
static int groups;

static int from_environment(const char *name, int usual)
{
	const char *text = getenv(name);

	return text && atoi(text) > 0 ? atoi(text) : usual;
}

/* The cost of one group; bytes are those beyond the host alone. */
struct cost {
	int members;
	double cpu_s; /* of one step of a member, with the frames that this process sends and receives for it */
	size_t taken; /* allocated by the backend */
	long resident;
};

static double cpu_s(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static long resident_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long all = 0, resident = 0;

	if (f && fscanf(f, "%ld %ld", &all, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	return resident * sysconf(_SC_PAGESIZE);
}

static struct asked agreement(int k, int members, int steps)
{
	struct asked a = host_rig_agreement_of(10, 32, ROWS);
	const struct sl_model_spec mlp = {
		.name = "mlp", .width = from_environment("SPLIT_WIDTH", 1), .classes = 10, .features = 8};
	struct sl_agreed *g = &a.agreement.agreed;
	struct sl_fail fail;

	a.split.model = mlp;
	snprintf(g->share.group, sizeof g->share.group, "g%d", groups);
	g->share.clients = members;
	g->share.member = k;
	g->share.rows = members * ROWS;
	g->share.least = 1;
	g->share.epoch_steps = steps;
	assert_int_equal(asked_settle(&a, &fail), SL_OK);
	return a;
}

static void call(int k, int members, int steps)
{
	struct member *m = &member[k];
	const struct sl_plan_segment *s;
	struct sl_plan *plan;
	struct sl_fail fail;
	struct sl_frame f;

	host_rig_connect_raw(&m->c);
	m->asked = agreement(k, members, steps);
	assert_int_equal(plan_open(&plan, &m->asked.split, &fail), SL_OK);
	s = &plan->segment[SL_MIDDLE];
	m->act_bytes = (size_t)(ROWS * sl_shape_row(&s->in_shape)) * sizeof(float);
	m->grad_bytes = (size_t)(ROWS * sl_shape_row(&s->out_shape)) * sizeof(float);
	sl_plan_close(plan);
	f = host_rig_hello_of(&m->asked, (uint8_t)k, 1, NULL);
	host_rig_say(&m->c, &f);
}

static void send_part(struct member *m, enum sl_part_what what, int step)
{
	const bool act = what == SL_PART_HEAD_ACT;
	const size_t total = SL_FRAME_BYTES + (act ? m->act_bytes : m->grad_bytes);
	struct sl_frame f = {.kind = SL_FRAME_PART,
			     .epoch = 1,
			     .u.part = {.what = what,
					.training = true,
					.step = (uint64_t)step,
					.rows = ROWS,
					.batch_rows = ROWS,
					.total = total}};
	static uint8_t payload[HOST_RIG_PART];

	assert_true(total <= sizeof payload);
	memset(payload, 0, total);
	sl_frame_write(payload, &m->asked.agreement.codec[act ? SL_DIR_HEAD_ACT : SL_DIR_MID_GRAD], false, ROWS);
	host_rig_say_part(&m->c, &f, (struct sl_bytes){payload, total});
}

/* Waits until every member has received so many bytes. */
static void await_bytes(int members, size_t bytes)
{
	for (int k = 0; k < members; k++)
		while (member[k].c.payload_bytes < bytes) {
			assert_int_equal(member[k].c.came[SL_FRAME_REFUSE], 0);
			assert_int_equal(member[k].c.came[SL_FRAME_ABANDON], 0);
			host_rig_turn();
		}
}

static void step(int members, int number)
{
	const size_t of_act = SL_FRAME_BYTES + member[0].grad_bytes, of_grad = SL_FRAME_BYTES + member[0].act_bytes;
	const size_t had = (size_t)number * (of_act + of_grad);

	for (int k = 0; k < members; k++)
		send_part(&member[k], SL_PART_HEAD_ACT, number);
	await_bytes(members, had + of_act);
	for (int k = 0; k < members; k++)
		send_part(&member[k], SL_PART_MID_GRAD, number);
	await_bytes(members, had + of_act + of_grad);
	for (int k = 0; k < members; k++) {
		const struct sl_frame f = {.kind = SL_FRAME_COMMIT,
					   .epoch = 1,
					   .u.commit = {.step = (uint64_t)number, .chunks = 1, .lr = 0.01}};

		host_rig_say(&member[k].c, &f);
	}
	for (int k = 0; k < members; k++) {
		host_rig_await(&member[k].c.came[SL_FRAME_COMMITTED], number + 1);
		assert_int_equal(member[k].c.came[SL_FRAME_ABANDON], 0);
	}
}

static struct cost cost_of(int members)
{
	const int steps = from_environment("SPLIT_STEPS", 3);
	struct cost c = {.members = members};
	double began;
	long before;

	groups++;
	host_rig_open(MOST, 0);
	before = resident_bytes();
	for (int k = 0; k < members; k++)
		call(k, members, steps);
	for (int k = 0; k < members; k++)
		host_rig_await(&member[k].c.came[SL_FRAME_WELCOME], 1);
	step(members, 0);
	began = cpu_s();
	for (int i = 1; i < steps; i++)
		step(members, i);
	c.cpu_s = (cpu_s() - began) / (steps - 1) / members;
	c.taken = host_rig.taken;
	c.resident = resident_bytes() - before;
	for (int k = 0; k < members; k++)
		host_rig_hang_up(&member[k].c);
	host_rig_close();
	return c;
}

static void each_member_costs_the_same(void **state)
{
	static const int members[] = {1, 4, 16, MOST};
	enum { N = sizeof members / sizeof members[0] };
	struct cost c[N];

	for (int i = N - 1; i >= 0; i--) /* the process keeps resident memory: the largest first */
		c[i] = cost_of(members[i]);
	for (int i = 0; i < N; i++) {
		const int more = c[i].members - 1;
		const size_t each = more ? (c[i].taken - c[0].taken) / (size_t)more : 0;

		print_message(
			"%d members: %.3f ms of CPU by member and step; %.0f kB of tensors, and %.0f more for each "
			"member behind the first; %.0f kB resident by member\n",
			c[i].members, 1e3 * c[i].cpu_s, (double)c[i].taken / 1e3, (double)each / 1e3,
			(double)c[i].resident / 1e3 / c[i].members);
		if (more)
			assert_int_equal(c[i].taken - c[0].taken, (size_t)more * ((c[1].taken - c[0].taken) / 3));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_member_costs_the_same)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
