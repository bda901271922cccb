#include "tests/support/host_member.h"
#include "tests/support/unit.h"

#include "common/codec/frame.h"

struct host_group host_group;

static struct asked agreement(int k)
{
	struct asked a = host_rig_agreement_of(10, 32, HOST_MEMBER_ROWS);
	const struct sl_model_spec mlp = {.name = "mlp", .width = 1, .classes = 10, .features = 8};
	struct sl_agreed *g = &a.agreement.agreed;
	struct sl_fail fail;

	if (host_group.plain)
		a.split.model = mlp;
	snprintf(g->share.group, sizeof g->share.group, "%s", host_group.name);
	g->share.clients = host_group.clients;
	g->share.quorum = host_group.quorum;
	g->share.least = host_group.least;
	g->share.member = k;
	g->share.rows = host_group.clients * HOST_MEMBER_ROWS;
	g->share.patience_s = host_group.patience_s ? host_group.patience_s : 1;
	g->share.wait_s = host_group.wait_s;
	g->share.rates = host_group.rates;
	g->share.epoch_steps = host_group.epoch_steps;
	g->share.member_norm = host_group.member_norm;
	g->clip_norm = host_group.clip_norm;
	g->optimizer.momentum = 0;
	for (int dir = 0; dir < SL_DIR_COUNT && host_group.codec; dir++)
		if (dir == SL_DIR_MID_ACT || dir == SL_DIR_HEAD_GRAD)
			snprintf(g->codec[dir], sizeof g->codec[dir], "%s", host_group.codec);
	if (host_group.vertical) {
		g->share.mode = SL_SHARE_VERTICAL;
		g->share.role = k == g->share.clients - 1 && !host_group.same_role ? SL_ROLE_LABELS : SL_ROLE_FEATURES;
		g->share.rows = 0;
		if (g->share.clients == 3 || host_group.sends) { /* both values of a block's middle */
			g->share.sends = g->share.role == SL_ROLE_LABELS ? 0
					 : host_group.sends              ? host_group.sends
									 : 1 << k;
			snprintf(a.split.cut.head_end, sizeof a.split.cut.head_end, "features.3.conv.0");
			a.split.cut.values = 2;
		}
	}
	if (host_group.rounds) {
		g->share.mode = SL_SHARE_ROUNDS;
		g->share.rows = 0;
		g->share.round = 1;
		g->share.turns = host_group.epoch_steps;
		g->share.moments = SL_SHARE_AVERAGE;
		g->optimizer.kind = SL_CONF_ADAMW;
	}
	assert_int_equal(asked_settle(&a, &fail), SL_OK);
	return a;
}

static struct sl_frame hello(struct host_member *m, uint8_t session)
{
	struct sl_plan *plan;
	struct sl_fail fail;
	int64_t weights;
	struct sl_frame f;

	m->asked = agreement(m->k);
	f = host_rig_hello_of(&m->asked, session, m->epoch, &weights);
	assert_int_equal(plan_open(&plan, &m->asked.split, &fail), SL_OK);
	m->act_bytes = (size_t)sl_plan_cut_floats(plan, false, sl_plan_cut_most(plan, false)) * sizeof(float);
	m->grad_bytes = (size_t)(sl_plan_cut_most(plan, true) * sl_shape_row(&plan->segment[SL_MIDDLE].out_shape)) *
			sizeof(float);
	m->weight_bytes = (size_t)weights * sizeof(float);
	sl_plan_close(plan);
	return f;
}

void host_member_call_with(struct host_member *m, int k, uint8_t session, uint64_t epoch, const uint64_t *held,
			   int n_held)
{
	struct sl_frame f;

	m->k = k;
	m->epoch = epoch;
	host_rig_connect_raw(&m->c);
	m->up = true;
	f = hello(m, session);
	f.u.hello.n_held = (uint32_t)n_held;
	memcpy(f.u.hello.held, held, (size_t)n_held * sizeof *held);
	host_rig_say(&m->c, &f);
}

void host_member_call(struct host_member *m, int k, uint8_t session, uint64_t epoch)
{
	host_member_call_with(m, k, session, epoch, &(uint64_t){0}, 1);
}

void host_member_hang_up(struct host_member *m)
{
	if (m->up)
		host_rig_hang_up(&m->c);
	m->up = false;
}

void host_member_send(struct host_member *m, enum sl_part_what what, uint64_t step, float scale, bool half)
{
	const bool act = what == SL_PART_HEAD_ACT;
	const size_t total = SL_FRAME_BYTES + (act ? m->act_bytes : m->grad_bytes);
	struct sl_frame f = {.kind = SL_FRAME_PART,
			     .epoch = m->epoch,
			     .u.part = {.what = what,
					.training = true,
					.step = step,
					.rows = HOST_MEMBER_ROWS,
					.batch_rows = HOST_MEMBER_ROWS,
					.total = total}};
	uint8_t *payload = malloc(total);
	float *x = malloc(total);

	assert_true(payload && x);
	for (size_t i = 0; i < (total - SL_FRAME_BYTES) / sizeof *x; i++)
		x[i] = scale * ((float)((i * 7 + (size_t)m->k * 3 + step) % 11) * 0.1f - 0.5f);
	sl_frame_write(payload, &m->asked.agreement.codec[act ? SL_DIR_HEAD_ACT : SL_DIR_MID_GRAD], false,
		       HOST_MEMBER_ROWS);
	memcpy(payload + SL_FRAME_BYTES, x, total - SL_FRAME_BYTES);
	for (size_t at = 0; at < total && !(half && at); at += HOST_RIG_PART / 2) {
		const size_t n = total - at < HOST_RIG_PART / 2 ? total - at : HOST_RIG_PART / 2;

		f.u.part.offset = at;
		host_rig_say_part(&m->c, &f, (struct sl_bytes){payload + at, half ? n / 2 / 4 * 4 : n});
	}
	free(payload);
	free(x);
}

void host_member_commit(struct host_member *m, uint64_t step, bool skip)
{
	const struct sl_frame f = {.kind = SL_FRAME_COMMIT,
				   .epoch = m->epoch,
				   .u.commit = {.step = step,
						.chunks = skip ? 0 : 1,
						.lr = host_group.lr,
						.checkpoint = host_group.checkpoints,
						.kept = {m->kept[0], m->kept[1]},
						.skip = skip}};

	host_rig_say(&m->c, &f);
}

static bool is_stopped(const struct host_member *m)
{
	return m->c.came[SL_FRAME_ABANDON] || m->c.came[SL_FRAME_REFUSE];
}

void host_member_compute(struct host_member *m, uint64_t step, enum host_stage until, float act, float grad)
{
	const uint64_t had = m->c.payload_bytes;

	if (until == HOST_NOTHING)
		return;
	host_member_send(m, SL_PART_HEAD_ACT, step, act, until == HOST_ACT_HALF);
	if (until == HOST_ACT_HALF)
		return;
	while (m->c.payload_bytes < had + m->grad_bytes && !is_stopped(m))
		host_rig_turn();
	if (until == HOST_ACT || is_stopped(m))
		return;
	host_member_send(m, SL_PART_MID_GRAD, step, grad, until == HOST_GRAD_HALF);
	while (until == HOST_GRAD && m->c.payload_bytes < had + m->grad_bytes + m->act_bytes && !is_stopped(m))
		host_rig_turn();
}

uint64_t host_member_weights(struct host_member *m)
{
	const struct sl_frame fetch = {.kind = SL_FRAME_FETCH, .epoch = m->epoch};
	const uint64_t had = m->c.payload_bytes;

	m->c.parts_hash = 0;
	host_rig_say(&m->c, &fetch);
	while (m->c.payload_bytes < had + m->weight_bytes)
		host_rig_await(&m->c.came[SL_FRAME_PART], m->c.came[SL_FRAME_PART] + 1);
	return m->c.parts_hash;
}
