#include "tests/support/session_rig.h"
#include "tests/support/unit.h"

#include "common/base/rng.h"

static const uint8_t bytes[SL_WIRE_PART_MAX];

static uint32_t draw(struct rig *rig, uint32_t below)
{
	const struct sl_rng_key key = {.seed = rig->conf.seed, .tensor = SL_RNG_TEST};

	return sl_rng_below(sl_rng_u32(&key, rig->choices++), below);
}

uint64_t rig_run_bytes(enum sl_part_what what)
{
	static const uint64_t most[SL_PART_WHAT_COUNT] = {40000, 9000, 9100,  41000,        30000,
							  6000,  6100, 20000, SL_WIRE_ORDER};

	return most[what];
}

struct sl_hello rig_hello(const struct rig_conf *conf)
{
	struct sl_hello h = {
		.version = SL_WIRE_VERSION,
		.epoch = 7,
		.part_bytes = conf->part_bytes,
		.window_bytes = conf->window_bytes,
		.heartbeat_ms = 100,
		.timeout_ms = 1000,
		.n_held = 2,
		.held = {12, 0},
	};

	memset(h.plan_hash, 0xab, sizeof h.plan_hash);
	return h;
}

static void set_limits(struct rig *rig, enum rig_who who)
{
	struct sl_session_limits l = {.shared = rig->conf.shared,
				      .ends = rig->conf.ends,
				      .ends_round = rig->conf.ends_round,
				      .batch = rig->conf.batch,
				      .rows = rig->conf.rows,
				      .clip_norm = rig->conf.clip_norm,
				      .no_mid_grad = rig->conf.no_mid_grad,
				      .no_head_grad = rig->conf.no_head_grad,
				      .free_calls = rig->conf.free_calls,
				      .party = rig->conf.party,
				      .chunks = (int)((rig->conf.batch + rig->conf.rows - 1) / rig->conf.rows)};

	if (rig->conf.tokens) {
		l.row_tokens = RIG_ROW_TOKENS;
		l.chunk_tokens = 4 * rig->conf.rows;
		l.fronts = SL_FRONT_LENGTHS;
		l.token_loss = rig->conf.token_loss;
	}
	l.run_bytes[SL_PART_ORDER] = l.party ? SL_WIRE_ORDER : 0;
	for (int what = 0; what < SL_PART_ORDER; what++)
		if ((what == SL_PART_MID_GRAD && l.no_mid_grad) || (what == SL_PART_HEAD_GRAD && l.no_head_grad))
			continue;
		else if (what < SL_PART_WEIGHTS &&
			 !sl_party_has(l.party,
				       what == SL_PART_MID_ACT || what == SL_PART_MID_GRAD ? SL_TAIL : SL_HEAD))
			continue;
		else if (what > SL_PART_WEIGHTS && (what == SL_PART_ENDS ? !rig->conf.comes : !l.ends))
			continue;
		else if (sl_part_is_state((uint32_t)what) || (what == SL_PART_MID_ACT || what == SL_PART_HEAD_GRAD ||
							      what == SL_PART_END_MEAN) == (who == RIG_CLIENT))
			l.run_bytes[what] = rig_run_bytes((enum sl_part_what)what);
	sl_session_set_limits(&rig->side[who].s, &l);
}

void rig_open(struct rig *rig, const struct rig_conf *conf)
{
	struct sl_hello hello = rig_hello(conf);

	memset(rig, 0, sizeof *rig);
	rig->conf = *conf;
	rig->now_ms = 5000;
	rig->side[RIG_CLIENT].poison = rig->side[RIG_SERVER].poison = -1;
	sl_session_open_client(&rig->side[RIG_CLIENT].s, &hello, rig->now_ms);
	sl_session_open_server(&rig->side[RIG_SERVER].s, conf->window_bytes, conf->part_bytes, rig->now_ms);
	set_limits(rig, RIG_CLIENT);
	set_limits(rig, RIG_SERVER);
}

static void deliver(struct rig *rig, enum rig_who to, const struct sl_frame *frame)
{
	struct rig_side *side = &rig->side[to];

	assert_true(side->in.count < RIG_INBOX);
	side->inbox[(side->in.first + side->in.count++) % RIG_INBOX] = *frame;
}

/* Appends a chunk. Unless calls are free, chunks of one kind come in order and none comes twice. */
static void add(const struct rig_side *side, struct rig_fifo *f, int chunk)
{
	const int last = (f->first + f->count + SL_SESSION_MAX_CHUNKS - 1) % SL_SESSION_MAX_CHUNKS;

	assert_true(!f->count || side->s.limits.free_calls || chunk == f->chunk[last] + 1);
	f->chunk[(last + 1) % SL_SESSION_MAX_CHUNKS] = chunk;
	f->count++;
}

static int take(struct rig_fifo *f)
{
	const int chunk = f->chunk[f->first];

	f->first = (f->first + 1) % SL_SESSION_MAX_CHUNKS;
	f->count--;
	return chunk;
}

static void start_task(struct rig_side *side, const struct sl_action *a)
{
	add(side, &side->task[a->task], a->chunk);
	side->tasks[a->task]++;
}

static void post(struct rig *rig, struct rig_side *side, const struct sl_action *a)
{
	const struct sl_session *s = &side->s;
	const bool weights = a->what == SL_PART_WEIGHTS, of_chunk = a->what < SL_PART_WEIGHTS;
	const bool ends = a->what == SL_PART_ENDS, order = a->what == SL_PART_ORDER;
	uint64_t most = rig_run_bytes(a->what);

	add(side, &side->out[a->what], a->chunk);
	side->run[a->what][a->chunk] = (struct rig_run){
		.part = {.what = a->what,
			 .training = !weights && !ends && s->training,
			 .step = weights ? s->kept_step
				 : ends  ? s->next_step
					 : s->number,
			 .chunk = (uint32_t)a->chunk,
			 .rows = of_chunk ? (uint32_t)sl_session_chunk_rows(s, a->chunk) : 0,
			 .batch_rows = of_chunk || order ? (uint32_t)sl_session_said_rows(s) : 0,
			 .tokens = of_chunk ? s->tokens[a->chunk] : 0,
			 .answers = of_chunk ? (uint32_t)s->answers : 0},
		.len = ends && s->gift_bytes      ? s->gift_bytes
		       : weights || ends || order ? most
						  : 1 + draw(rig, (uint32_t)most),
	};
}

static void store(struct rig_side *side, const struct sl_action *a, const struct sl_frame *frame)
{
	uint64_t len = frame->payload.len;

	assert_true(a->total <= side->s.limits.run_bytes[a->what] + (side->s.limits.fronts ? 64 : 0) && a->total >= 1);
	assert_true(a->offset < a->total && len <= a->total - a->offset);
	assert_int_equal(a->whole, a->offset + len == a->total);
	assert_in_range(a->chunk, 0, a->what >= SL_PART_WEIGHTS ? 0 : side->s.chunks - 1);
	side->stored[a->what] += len;
	side->whole[a->what] += a->whole;
	if (a->what == SL_PART_ORDER)
		side->handed = 0;
}

/* What the group of two says once the other party is as far as this one. */
static void keep_step(struct rig *rig)
{
	struct rig_side *side = &rig->side[RIG_SERVER];
	const struct sl_session *s = &side->s;
	const bool labels = s->limits.party > SL_PARTY_FEATURES, echoes = !s->training || s->limits.no_head_grad;
	const int done = s->limits.party == SL_PARTY_JOINED ? s->lane[SL_PART_HEAD_ACT].chunk
			 : labels                           ? s->chunks
							    : s->done[SL_TASK_MID_FWD];

	if (s->state != SL_SESSION_STEP && s->state != SL_SESSION_EVAL)
		return;
	if (labels || !echoes) {
		while (side->handed < done) {
			const struct sl_event ev = {.kind = SL_EV_CHUNK, .chunk = side->handed++};

			assert_int_equal(rig_event(rig, RIG_SERVER, &ev), SL_OK);
		}
	} else if (done == s->chunks && !side->handed++) {
		assert_int_equal(rig_event(rig, RIG_SERVER, &(struct sl_event){.kind = SL_EV_ECHO}), SL_OK);
	}
	if (s->norm_of && s->squares[1] < 0 && (!labels || s->done[SL_TASK_MID_BWD] == s->chunks)) {
		const struct sl_event ev = {.kind = SL_EV_SUM, .squares = {s->squares[0] + RIG_OTHER_SQUARES}};

		assert_int_equal(rig_event(rig, RIG_SERVER, &ev), SL_OK);
	}
}

static void act(struct rig *rig, enum rig_who who, const struct sl_action *a, const struct sl_outbox *out,
		const struct sl_event *ev)
{
	struct rig_side *side = &rig->side[who];

	switch (a->kind) {
	case SL_ACTION_KEEP:
	case SL_ACTION_NORMED:
		break;
	case SL_ACTION_SEND:
		assert_in_range(a->frame, 0, out->n_frame - 1);
		if (out->frame[a->frame].kind == SL_FRAME_CREDIT)
			side->granted += out->frame[a->frame].u.credit.bytes;
		deliver(rig, (enum rig_who) !who, &out->frame[a->frame]);
		break;
	case SL_ACTION_TASK:
		start_task(side, a);
		break;
	case SL_ACTION_POST:
		post(rig, side, a);
		break;
	case SL_ACTION_STORE:
		store(side, a, ev->frame);
		break;
	case SL_ACTION_CREDIT:
		side->credit += a->bytes;
		break;
	case SL_ACTION_JOINING:
		side->joining++;
		break;
	case SL_ACTION_PREPARED:
		side->prepared++;
		break;
	case SL_ACTION_RECORD:
		side->recorded++;
		break;
	case SL_ACTION_REPORT:
		side->reported++;
		break;
	case SL_ACTION_GIVEN:
		side->given++;
		break;
	case SL_ACTION_ASKED: /* no other member has to finish first */
		assert_int_equal(rig_event(rig, who, &(struct sl_event){.kind = SL_EV_GIVE}), SL_OK);
		break;
	case SL_ACTION_MOVED:
		keep_step(rig);
		break;
	case SL_ACTION_READY:
		side->credit = side->s.peer_window_bytes;
		side->ready++;
		break;
	case SL_ACTION_DROP:
		for (int what = 0; what < SL_PART_WHAT_COUNT; what++)
			side->out[what].count = sl_part_is_state((uint32_t)what) ? side->out[what].count : 0;
		side->dropped++;
		break;
	case SL_ACTION_ABANDONED:
		side->abandoned++;
		side->fail = out->fail;
		break;
	case SL_ACTION_STEPPED:
		side->stepped++;
		break;
	case SL_ACTION_EVALUATED:
		side->evaluated++;
		break;
	case SL_ACTION_FETCHED:
		side->fetched++;
		break;
	case SL_ACTION_FAIL:
		side->failed++;
		side->fail = out->fail;
		break;
	case SL_ACTION_LEFT:
		side->left++;
		break;
	}
}

enum sl_err rig_event(struct rig *rig, enum rig_who who, const struct sl_event *ev)
{
	struct {
		struct sl_outbox out;
		uint64_t guard;
	} box = {.guard = 0x5eed};
	struct rig_side *side = &rig->side[who];
	enum sl_err err = sl_session_step(&side->s, ev, rig->now_ms, &box.out);

	assert_in_range(box.out.n_action, 0, SL_OUTBOX_ACTIONS);
	assert_in_range(box.out.n_frame, 0, SL_OUTBOX_FRAMES);
	assert_int_equal(box.guard, 0x5eed);
	if (box.out.n_action > side->most_actions)
		side->most_actions = box.out.n_action;
	if (box.out.n_frame > side->most_frames)
		side->most_frames = box.out.n_frame;
	for (int i = 0; i < box.out.n_action; i++)
		act(rig, who, &box.out.action[i], &box.out, ev);
	return err;
}

enum sl_err rig_frame(struct rig *rig, enum rig_who who, const struct sl_frame *frame)
{
	struct rig_side *side = &rig->side[who];

	side->frames_in++;
	side->parts_in += frame->kind == SL_FRAME_PART;
	return rig_event(rig, who, &(struct sl_event){.kind = (enum sl_event_kind)frame->kind, .frame = frame});
}

/* ---- what can happen next */

static bool take_frame(struct rig *rig, enum rig_who who)
{
	struct rig_side *side = &rig->side[who];
	struct sl_frame frame;

	if (!side->in.count)
		return false;
	frame = side->inbox[side->in.first];
	side->in.first = (side->in.first + 1) % RIG_INBOX;
	side->in.count--;
	(void)rig_frame(rig, who, &frame);
	return true;
}

static bool finish_task(struct rig *rig, enum rig_who who, enum sl_task task)
{
	struct rig_side *side = &rig->side[who];
	struct rig_fifo *f = &side->task[task];
	struct sl_event ev = {.kind = SL_EV_TASK_DONE,
			      .task = task,
			      .chunk = f->chunk[f->first],
			      .compute_s = 0.25,
			      .squares = {who == RIG_CLIENT ? 9 : 16, who == RIG_CLIENT ? 11 : 0},
			      .checkpointed = task == SL_TASK_GATHER && !rig->conf.storeless,
			      .need_weights = rig->conf.need_weights,
			      .next_step = rig->conf.next_step};
	const struct sl_fail why = {.code = SL_ERR_NONFINITE, .text = "NaN in a tensor"};

	if (!f->count)
		return false;
	/* the worker runs it after everything that was queued before */
	for (int other = 0; task == SL_TASK_ABANDON && other < SL_TASK_COUNT; other++)
		if (other != SL_TASK_ABANDON && side->task[other].count)
			return false;
	if (side->poison == side->tasks_ended[task]++ && side->poison_task == task && sl_session_abandons(&side->s)) {
		side->poison = -1;
		ev.kind = SL_EV_NONFINITE;
		ev.why = &why;
	}
	(void)take(f);
	(void)rig_event(rig, who, &ev);
	return true;
}

/* Weights have the highest priority, as in the port, and then the order of a pass. */
static bool send_part(struct rig *rig, enum rig_who who, enum sl_part_what what)
{
	struct rig_side *side = &rig->side[who];
	struct rig_fifo *f = &side->out[what];
	struct sl_frame frame = {.kind = SL_FRAME_PART, .epoch = side->s.epoch};
	struct rig_run *run;
	uint64_t len;

	if (!f->count || (what != SL_PART_WEIGHTS && side->out[SL_PART_WEIGHTS].count) ||
	    (what != SL_PART_WEIGHTS && what != SL_PART_ORDER && side->out[SL_PART_ORDER].count))
		return false;
	run = &side->run[what][f->chunk[f->first]];
	len = run->len - run->sent < side->s.hello.part_bytes ? run->len - run->sent : side->s.hello.part_bytes;
	if (len > side->credit)
		return false;
	frame.u.part = run->part;
	frame.u.part.total = run->len;
	frame.u.part.offset = run->sent;
	frame.payload = (struct sl_bytes){bytes, len};
	side->credit -= len;
	run->sent += len;
	if (run->sent == run->len)
		(void)take(f);
	deliver(rig, (enum rig_who) !who, &frame);
	return true;
}

static bool happen(struct rig *rig, uint32_t what)
{
	enum rig_who who = (enum rig_who)(what % 2);

	what /= 2;
	if (what == 0)
		return take_frame(rig, who);
	if (what <= SL_TASK_COUNT)
		return finish_task(rig, who, (enum sl_task)(what - 1));
	return send_part(rig, who, (enum sl_part_what)(what - 1 - SL_TASK_COUNT));
}

bool rig_turn(struct rig *rig)
{
	const uint32_t n = 2 * (1 + SL_TASK_COUNT + SL_PART_WHAT_COUNT);
	uint32_t first = draw(rig, n);

	for (uint32_t i = 0; i < n; i++)
		if (happen(rig, (first + i) % n))
			return true;
	return false;
}

void rig_settle(struct rig *rig)
{
	while (rig_turn(rig))
		;
}

/* ---- requests */

void rig_shake_hands(struct rig *rig)
{
	assert_int_equal(rig_event(rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_OPEN}), SL_OK);
	rig_settle(rig);
	assert_int_equal(rig->side[RIG_CLIENT].s.state, SL_SESSION_READY);
	assert_int_equal(rig->side[RIG_SERVER].s.state, SL_SESSION_READY);
}

/* Rows of 1, 2, 3, 4, 1, … tokens. */
static const uint32_t *begin_of(const struct rig *rig, uint64_t rows)
{
	static uint32_t begin[4096];

	assert_true(rows < sizeof begin / sizeof begin[0]);
	for (uint64_t i = 0; i < rows; i++)
		begin[i + 1] = begin[i] + 1 + (uint32_t)(i % 4);
	return rig->conf.tokens ? begin : NULL;
}

void rig_begin_step(struct rig *rig, uint64_t rows)
{
	const struct sl_event ev = {.kind = SL_EV_BEGIN_STEP,
				    .batch_rows = rows,
				    .begin = begin_of(rig, rows),
				    .chosen = begin_of(rig, rows),
				    .number = rig->side[RIG_CLIENT].s.next_step,
				    .lr = 0.1};

	assert_int_equal(rig_event(rig, RIG_CLIENT, &ev), SL_OK);
}

void rig_begin_eval(struct rig *rig, uint64_t number, uint64_t rows)
{
	const struct sl_event ev = {
		.kind = SL_EV_BEGIN_EVAL, .batch_rows = rows, .begin = begin_of(rig, rows), .number = number};

	assert_int_equal(rig_event(rig, RIG_CLIENT, &ev), SL_OK);
}

void rig_begin_fetch(struct rig *rig)
{
	assert_int_equal(rig_event(rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_BEGIN_FETCH}), SL_OK);
}

struct sl_frame rig_part(const struct rig *rig, enum rig_who to, enum sl_part_what what, uint64_t len)
{
	const struct sl_session *s = &rig->side[to].s;
	const struct sl_session *from = &rig->side[!to].s;
	int chunk = s->lane[what].chunk;
	const bool weights = what == SL_PART_WEIGHTS, of_chunk = what < SL_PART_WEIGHTS;

	if (what == SL_PART_ORDER) {
		chunk = 0;
		len = SL_WIRE_ORDER;
	}
	return (struct sl_frame){
		.kind = SL_FRAME_PART,
		.epoch = s->epoch,
		.u.part = {.what = what,
			   .training = !weights && from->training,
			   .step = weights ? from->kept_step : from->number,
			   .chunk = weights ? 0 : (uint32_t)chunk,
			   .rows = of_chunk ? (uint32_t)sl_session_chunk_rows(from, chunk) : 0,
			   .batch_rows = of_chunk || what == SL_PART_ORDER ? (uint32_t)sl_session_said_rows(from) : 0,
			   .total = len,
			   .tokens = of_chunk ? from->tokens[chunk] : 0,
			   .answers = of_chunk ? (uint32_t)from->answers : 0},
		.payload = {bytes, len},
	};
}

void rig_open_ready(struct rig *rig, const struct rig_conf *conf)
{
	rig_open(rig, conf);
	rig_shake_hands(rig);
}

void rig_done(struct rig *rig, enum rig_who who, enum sl_task task, int chunk)
{
	struct rig_fifo *f = &rig->side[who].task[task];

	assert_true(f->count > 0 && take(f) == chunk);
	assert_int_equal(rig_event(rig, who, &(struct sl_event){.kind = SL_EV_TASK_DONE, .task = task, .chunk = chunk}),
			 SL_OK);
}

void rig_give(struct rig *rig, enum rig_who to, enum sl_part_what what)
{
	struct sl_frame f = rig_part(rig, to, what, 1000);

	assert_int_equal(rig_frame(rig, to, &f), SL_OK);
}

void rig_step_under_way(struct rig *rig, const struct rig_conf *conf)
{
	rig_open_ready(rig, conf);
	rig_begin_step(rig, 61);
	rig_give(rig, RIG_SERVER, SL_PART_HEAD_ACT);
	rig_give(rig, RIG_SERVER, SL_PART_HEAD_ACT);
	rig_done(rig, RIG_SERVER, SL_TASK_MID_FWD, 0);
	for (int chunk = 0; chunk < 4; chunk++)
		rig_done(rig, RIG_CLIENT, SL_TASK_HEAD_FWD, chunk);
}
