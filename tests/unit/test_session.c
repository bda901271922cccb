/* The state machines of client and server, connected by a relay in memory: what they agree on, that
 * every legal order of events ends well, and that everything else ends the session. */

#include <math.h>

#include "tests/support/session_rig.h"
#include "tests/support/unit.h"

static struct rig rig;

static const struct rig_conf four_chunks = {
	.batch = 64, .rows = 16, .part_bytes = 4096, .window_bytes = 1 << 20, .seed = 1};

static void open_ready(const struct rig_conf *conf)
{
	rig_open(&rig, conf);
	rig_shake_hands(&rig);
}

static struct rig_side *client(void)
{
	return &rig.side[RIG_CLIENT];
}

static struct rig_side *server(void)
{
	return &rig.side[RIG_SERVER];
}

/* The side `who` has ended the session and told its peer: REFUSE, then FAIL, and nothing more. */
static void assert_refused(enum rig_who who, enum sl_err code, const char *phrase)
{
	struct rig_side *side = &rig.side[who], *peer = &rig.side[!who];
	const struct sl_frame *last = &peer->inbox[(peer->in.first + peer->in.count - 1) % RIG_INBOX];

	assert_int_equal(side->failed, 1);
	assert_int_equal(side->fail.code, code);
	if (!strstr(side->fail.text, phrase))
		fail_msg("'%s' does not say '%s'", side->fail.text, phrase);
	assert_int_equal(side->s.state, SL_SESSION_CLOSED);
	assert_true(peer->in.count > 0);
	assert_int_equal(last->kind, SL_FRAME_REFUSE);
	assert_int_equal(last->u.refuse.code, code);
	assert_non_null(strstr(last->u.refuse.text, phrase));
}

/* A session in CLOSED ignores every event. */
static void assert_absorbs(enum rig_who who)
{
	struct sl_session *s = &rig.side[who].s;
	const struct sl_frame frame = {.epoch = s->epoch};
	struct sl_outbox out;

	for (int kind = 0; kind < SL_EV_COUNT; kind++) {
		const struct sl_event ev = {.kind = (enum sl_event_kind)kind, .frame = &frame};

		assert_int_equal(sl_session_step(s, &ev, rig.now_ms, &out), SL_OK);
		assert_int_equal(out.n_action, 0);
		assert_int_equal(s->state, SL_SESSION_CLOSED);
	}
}

/* ---- handshake */

static void a_step_that_the_client_does_not_hold_is_no_way_on(void **state)
{
	struct rig_conf conf = four_chunks;

	conf.next_step = 11;
	rig_open(&rig, &conf);
	assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_OPEN}), SL_OK);
	rig_settle(&rig);
	assert_int_equal(client()->s.state, SL_SESSION_CLOSED);
	assert_int_equal(client()->fail.code, SL_ERR_PROTOCOL);
}

static void both_sides_are_ready_after_the_handshake(void **state)
{
	struct rig_conf conf = four_chunks;

	conf.next_step = 12;
	rig_open(&rig, &conf);
	rig.side[RIG_SERVER].s.hello.part_bytes = 8192; /* the server accepts larger parts than the client */
	rig_shake_hands(&rig);
	assert_int_equal(client()->ready, 1);
	assert_int_equal(server()->ready, 1);
	assert_int_equal(server()->s.epoch, 7);
	assert_int_equal(server()->s.hello.part_bytes, 4096);
	assert_int_equal(client()->s.hello.part_bytes, 4096);
	assert_int_equal(client()->s.next_step, 12);
	assert_int_equal(client()->s.peer_window_bytes, conf.window_bytes);
	assert_int_equal(server()->s.patience_ms, 1000);
	assert_int_equal(server()->tasks[SL_TASK_INSTALL], 0);
}

/* If a server's window is smaller than its largest part, it announces the size that it can accept. */
static void parts_are_never_larger_than_the_window(void **state)
{
	struct rig_conf conf = four_chunks;

	conf.part_bytes = 1 << 20;
	conf.window_bytes = 1 << 20;
	rig_open(&rig, &conf);
	sl_session_open_server(&server()->s, 5000, 1 << 20, rig.now_ms);
	server()->s.limits = (struct sl_session_limits){.batch = conf.batch, .rows = conf.rows};
	rig_shake_hands(&rig);
	assert_int_equal(client()->s.hello.part_bytes, 5000);
}

static void refuse_hello(const struct sl_hello *hello, enum sl_err code, const char *phrase)
{
	struct sl_frame f = {.kind = SL_FRAME_HELLO, .epoch = hello->epoch, .u.hello = *hello};

	rig_open(&rig, &four_chunks);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), code);
	assert_refused(RIG_SERVER, code, phrase);
	assert_int_equal(server()->tasks[SL_TASK_OPEN], 0);
	assert_absorbs(RIG_SERVER);
}

static void a_hello_that_cannot_be_is_refused(void **state)
{
	struct sl_hello good = rig_hello(&four_chunks), h;

	h = good, h.version = 14;
	refuse_hello(&h, SL_ERR_VERSION, "the client speaks protocol 14, the server 13: update the older one");
	h = good, h.epoch = 0;
	refuse_hello(&h, SL_ERR_PROTOCOL, "epochs begin at 1");
	h = good, h.n_held = 0;
	refuse_hello(&h, SL_ERR_PROTOCOL, "at least one step");
	h = good, h.part_bytes = 4095;
	refuse_hello(&h, SL_ERR_LIMIT, "the client has 4095");
	h = good, h.part_bytes = SL_WIRE_PART_MAX + 1, h.window_bytes = 1 << 22;
	refuse_hello(&h, SL_ERR_LIMIT, "part_bytes");
	h = good, h.window_bytes = h.part_bytes - 1;
	refuse_hello(&h, SL_ERR_LIMIT, "the window");
	h = good, h.heartbeat_ms = 0;
	refuse_hello(&h, SL_ERR_LIMIT, "heartbeat_ms");
	h = good, h.timeout_ms = 2 * h.heartbeat_ms - 1;
	refuse_hello(&h, SL_ERR_LIMIT, "timeout_ms");
	h = good, h.heartbeat_ms = 1u << 31, h.timeout_ms = 1000; /* twice that is 0 in 32 bits */
	refuse_hello(&h, SL_ERR_LIMIT, "heartbeat_ms");
	h = good, h.timeout_ms = 600001;
	refuse_hello(&h, SL_ERR_LIMIT, "600000");
}

static void a_hello_at_its_bounds_is_taken(void **state)
{
	struct sl_hello h = rig_hello(&four_chunks);
	struct sl_fail fail;

	h.part_bytes = SL_WIRE_PART_MAX, h.window_bytes = h.part_bytes;
	h.heartbeat_ms = SL_SESSION_TIMEOUT_MAX / 2, h.timeout_ms = SL_SESSION_TIMEOUT_MAX;
	assert_int_equal(sl_session_check_hello(&h, &fail), SL_OK);
	h.part_bytes = SL_SESSION_PART_MIN, h.heartbeat_ms = SL_SESSION_HEARTBEAT_MIN, h.n_held = 1;
	assert_int_equal(sl_session_check_hello(&h, &fail), SL_OK);
}

static void refuse_welcome(const struct sl_welcome *welcome, enum sl_err code, const char *phrase)
{
	struct sl_frame f = {.kind = SL_FRAME_WELCOME, .epoch = 7, .u.welcome = *welcome};

	rig_open(&rig, &four_chunks);
	assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_OPEN}), SL_OK);
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), code);
	assert_int_equal(client()->ready, 0);
	assert_refused(RIG_CLIENT, code, phrase);
	assert_absorbs(RIG_CLIENT);
}

static void a_welcome_that_cannot_be_is_refused(void **state)
{
	const struct sl_hello h = rig_hello(&four_chunks);
	struct sl_welcome good = {SL_WIRE_VERSION, {0},  h.part_bytes, h.window_bytes, 0, 0, 0, false, "", "", 0,
				  false,           false},
			  w;

	memcpy(good.plan_hash, h.plan_hash, sizeof good.plan_hash);
	w = good, w.version = 14;
	refuse_welcome(&w, SL_ERR_VERSION, "the server speaks protocol 14, the client 13: update the older one");
	w = good, w.plan_hash[15] = 0x01;
	refuse_welcome(&w, SL_ERR_MISMATCH, "the server has ababababababababababababababab01");
	refuse_welcome(&w, SL_ERR_MISMATCH, "this client has abababababababababababababababab");
	w = good, w.part_bytes = h.part_bytes + 1;
	refuse_welcome(&w, SL_ERR_LIMIT, "4097");
	w = good, w.part_bytes = 1;
	refuse_welcome(&w, SL_ERR_LIMIT, "part_bytes");
	w = good, w.window_bytes = h.part_bytes - 1;
	refuse_welcome(&w, SL_ERR_LIMIT, "window");
	w = good, w.begin = 3; /* without a group nobody else did those steps */
	refuse_welcome(&w, SL_ERR_PROTOCOL, "the server begins with step 3, and goes on from step 0");
}

static void weights_are_uploaded_where_the_server_asks(void **state)
{
	struct rig_conf conf = four_chunks;

	conf.need_weights = true;
	open_ready(&conf);
	assert_int_equal(server()->whole[SL_PART_WEIGHTS], 1);
	assert_int_equal(server()->stored[SL_PART_WEIGHTS], rig_run_bytes(SL_PART_WEIGHTS));
	assert_int_equal(server()->tasks[SL_TASK_INSTALL], 1);
}

/* ---- the proof */

static struct sl_secret secret;

/* The client has sent Hello and waits for the challenge. */
static void await_challenge(bool first)
{
	const uint8_t seed[SL_SECRET_BYTES] = {5};

	rig_open(&rig, &four_chunks);
	sl_secret_from(&secret, seed);
	memcpy(client()->s.hello.session, secret.session, sizeof secret.session);
	client()->s.secret = &secret;
	client()->s.first = first;
	assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_OPEN}), SL_OK);
	server()->in.count = 0;
}

static enum sl_err challenge(uint8_t nonce, uint64_t above)
{
	struct sl_frame f = {.kind = SL_FRAME_CHALLENGE, .epoch = client()->s.epoch, .u.challenge = {{nonce}, above}};

	return rig_frame(&rig, RIG_CLIENT, &f);
}

/* Takes the Hello that the client sent. */
static struct sl_hello said(uint64_t epoch)
{
	struct sl_frame f = server()->inbox[server()->in.first];

	assert_int_equal(server()->in.count, 1);
	assert_int_equal(f.kind, SL_FRAME_HELLO);
	assert_int_equal(f.epoch, epoch);
	assert_int_equal(f.u.hello.epoch, epoch);
	server()->in.count = 0;
	return f.u.hello;
}

static void a_challenge_is_answered_with_a_proof(void **state)
{
	const uint8_t nonce[SL_NONCE_BYTES] = {1}, other[SL_NONCE_BYTES] = {2};
	struct sl_hello h;

	await_challenge(true);
	assert_int_equal(challenge(1, 0), SL_OK);
	h = said(7);
	assert_true(sl_proof_holds(&h, nonce));
	assert_false(sl_proof_holds(&h, other));
	assert_int_equal(challenge(1, 0), SL_OK); /* the client had sent its Hello twice */
	assert_int_equal(server()->in.count, 0);
	for (int i = 2; i <= SL_SESSION_CHALLENGES; i++) {
		assert_int_equal(challenge((uint8_t)i, 0), SL_OK);
		(void)said(7);
	}
	assert_int_equal(challenge(99, 0), SL_ERR_PROTOCOL);
	rig_open(&rig, &four_chunks); /* a client without a secret */
	assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_OPEN}), SL_OK);
	assert_int_equal(challenge(1, 0), SL_ERR_PROTOCOL);
}

static void a_process_may_rise_above_links_of_others_before_its_own(void **state)
{
	await_challenge(true);
	assert_int_equal(challenge(1, 0), SL_OK);
	(void)said(7);
	assert_int_equal(challenge(2, 7), SL_OK);
	(void)said(8);
	assert_int_equal(challenge(3, INT64_MAX), SL_ERR_PROTOCOL);
	await_challenge(false);
	assert_int_equal(challenge(1, 0), SL_OK);
	(void)said(7);
	assert_int_equal(challenge(2, 6), SL_OK);
	(void)said(7);
	assert_int_equal(challenge(3, 7), SL_ERR_MISMATCH);
	assert_refused(RIG_CLIENT, SL_ERR_MISMATCH, "another process has gone on with this run");
}

/* The server is in state WEIGHTS; nothing has been sent yet. */
static void await_weights(void)
{
	struct rig_conf conf = four_chunks;
	struct sl_hello h = rig_hello(&conf);
	struct sl_frame hello = {.kind = SL_FRAME_HELLO, .epoch = 7, .u.hello = h};

	conf.need_weights = true;
	rig_open(&rig, &conf);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &hello), SL_OK);
	rig_done(&rig, RIG_SERVER, SL_TASK_ADMIT, 0);
	assert_int_equal(
		rig_event(&rig, RIG_SERVER,
			  &(struct sl_event){.kind = SL_EV_TASK_DONE, .task = SL_TASK_OPEN, .need_weights = true}),
		SL_OK);
	assert_int_equal(server()->s.state, SL_SESSION_WEIGHTS);
}

static void weights_of_another_length_are_refused(void **state)
{
	uint64_t most = rig_run_bytes(SL_PART_WEIGHTS);
	struct sl_frame f;

	await_weights();
	f = rig_part(&rig, RIG_SERVER, SL_PART_WEIGHTS, most - 4);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
	assert_refused(RIG_SERVER, SL_ERR_PROTOCOL, "weights of 29996 bytes where the plan has 30000");
	await_weights();
	f = rig_part(&rig, RIG_SERVER, SL_PART_WEIGHTS, most + 4);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_LIMIT);
	await_weights();
	f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 100);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
	await_weights();
	f = rig_part(&rig, RIG_SERVER, SL_PART_WEIGHTS, most);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
	assert_refused(RIG_SERVER, SL_ERR_PROTOCOL, "a part of 30000 bytes where 4096 are the most");
	await_weights();
	f = rig_part(&rig, RIG_SERVER, SL_PART_WEIGHTS, most);
	for (uint64_t at = 0; at < most; at += f.payload.len) {
		f.u.part.offset = at;
		f.payload.len = most - at < 4096 ? most - at : 4096;
		assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
	}
	assert_int_equal(server()->tasks[SL_TASK_INSTALL], 1);
}

/* A FETCH is shorter than the upload before it, and may overtake it. */
static void weights_can_be_fetched_right_after_their_upload(void **state)
{
	struct rig_conf conf = four_chunks;

	conf.need_weights = true;
	for (conf.seed = 0; conf.seed < 20; conf.seed++) {
		rig_open(&rig, &conf);
		assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_OPEN}), SL_OK);
		while (!client()->ready)
			assert_true(rig_turn(&rig));
		rig_begin_fetch(&rig);
		rig_settle(&rig);
		assert_int_equal(client()->fetched, 1);
		assert_int_equal(client()->whole[SL_PART_WEIGHTS], 1);
		assert_int_equal(server()->tasks[SL_TASK_INSTALL], 1);
		assert_int_equal(server()->s.state, SL_SESSION_READY);
	}
	await_weights();
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &(struct sl_frame){.kind = SL_FRAME_FETCH, .epoch = 7}), SL_OK);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &(struct sl_frame){.kind = SL_FRAME_FETCH, .epoch = 7}),
			 SL_ERR_PROTOCOL);
}

/* ---- passes */

struct tally {
	int passes, steps, chunks, mid_grads, head_grads;
};

static void count_pass(struct tally *t, bool training, uint64_t rows, const struct rig_conf *conf)
{
	int chunks = (int)((rows + conf->rows - 1) / conf->rows);

	t->passes++;
	t->chunks += chunks;
	t->steps += training;
	t->mid_grads += training && !conf->no_mid_grad ? chunks : 0;
	t->head_grads += training && !conf->no_head_grad ? chunks : 0;
}

/* Every chunk crossed each way once. */
static void assert_tally(const struct tally *t)
{
	assert_int_equal(client()->failed + server()->failed, 0);
	assert_int_equal(client()->s.state, SL_SESSION_READY);
	assert_int_equal(server()->s.state, SL_SESSION_READY);
	assert_int_equal(client()->stepped, t->steps);
	assert_int_equal(server()->stepped, t->steps);
	assert_int_equal(client()->evaluated, t->passes - t->steps);
	assert_int_equal(client()->s.next_step, t->steps);
	assert_int_equal(server()->s.next_step, t->steps);
	assert_int_equal(client()->tasks[SL_TASK_HEAD_FWD], t->chunks);
	assert_int_equal(server()->tasks[SL_TASK_MID_FWD], t->chunks);
	assert_int_equal(client()->tasks[SL_TASK_TAIL], t->chunks);
	assert_int_equal(server()->tasks[SL_TASK_MID_BWD], t->mid_grads);
	assert_int_equal(client()->tasks[SL_TASK_HEAD_BWD], t->head_grads);
	assert_int_equal(client()->tasks[SL_TASK_COMMIT], t->steps);
	assert_int_equal(server()->tasks[SL_TASK_COMMIT], t->steps);
	assert_int_equal(server()->whole[SL_PART_HEAD_ACT], t->chunks);
	assert_int_equal(client()->whole[SL_PART_MID_ACT], t->chunks);
	assert_int_equal(server()->whole[SL_PART_MID_GRAD], t->mid_grads);
	assert_int_equal(client()->whole[SL_PART_HEAD_GRAD], t->head_grads);
	assert_true(client()->s.grad_scale == server()->s.grad_scale);
	assert_true(client()->s.server_compute_s == (t->steps ? 0.25 : 0)); /* the time of the last step */
	for (int who = 0; who < 2; who++) {
		const struct rig_side *side = &rig.side[who];
		uint64_t stored = 0;

		assert_int_equal(side->s.counts.frames, side->frames_in);
		assert_int_equal(side->s.counts.parts, side->parts_in);
		assert_int_equal(side->s.counts.stale_frames + side->s.counts.refused_frames, 0);
		for (int what = 0; what < SL_PART_WHAT_COUNT; what++)
			stored += side->stored[what];
		assert_int_equal(side->granted + side->s.consumed_bytes, stored);
	}
}

static void one_step_and_one_evaluation(const struct rig_conf *conf, uint64_t rows)
{
	struct tally t = {0};

	open_ready(conf);
	rig_begin_step(&rig, rows);
	rig_settle(&rig);
	count_pass(&t, true, rows, conf);
	assert_tally(&t);
	rig_begin_eval(&rig, 3, rows);
	rig_settle(&rig);
	count_pass(&t, false, rows, conf);
	assert_tally(&t);
}

static void steps_of_any_number_of_chunks(void **state)
{
	struct rig_conf conf = four_chunks;

	for (uint64_t rows = 64; rows >= 8; rows /= 2) { /* 1, 2, 4, 8 chunks */
		conf.rows = rows;
		one_step_and_one_evaluation(&conf, 64);
		assert_int_equal(server()->s.chunks, 64 / rows);
		one_step_and_one_evaluation(&conf, 61); /* a ragged last chunk */
		assert_int_equal(sl_session_chunk_rows(&server()->s, server()->s.chunks - 1), rows - 3);
		one_step_and_one_evaluation(&conf, 1);
		assert_int_equal(server()->s.chunks, 1);
	}
}

static void as_many_chunks_as_there_can_be(void **state)
{
	struct rig_conf conf = {
		.batch = SL_SESSION_MAX_CHUNKS, .rows = 1, .part_bytes = 1 << 20, .window_bytes = 1 << 24, .seed = 5};

	one_step_and_one_evaluation(&conf, SL_SESSION_MAX_CHUNKS);
	assert_int_equal(client()->most_actions, SL_SESSION_MAX_CHUNKS);
	assert_true(SL_OUTBOX_ACTIONS > SL_SESSION_MAX_CHUNKS);
	assert_in_range(client()->most_frames, 1, SL_OUTBOX_FRAMES);
}

/* 9 + 16 + 11 is 6 squared: a maximum norm of 3 halves the gradient. Without mid_grad the server reports no norm. */
static void a_step_is_clipped_by_the_norm_of_all_parts(void **state)
{
	struct rig_conf conf = four_chunks;

	for (int grads = 0; grads < 3; grads++) {
		const double scale = grads < 2 ? 3 / (6 + 1e-6) : 3 / (sqrt(9 + 11) + 1e-6);

		rig_grads(&conf, grads);
		conf.clip_norm = 3;
		one_step_and_one_evaluation(&conf, 64);
		conf.clip_norm = 100;
		open_ready(&conf);
		rig_begin_step(&rig, 64);
		while (server()->s.state != SL_SESSION_COMMIT)
			assert_true(rig_turn(&rig));
		assert_true(server()->s.grad_scale == 1);
		conf.clip_norm = 3;
		open_ready(&conf);
		rig_begin_step(&rig, 64);
		while (server()->s.state != SL_SESSION_COMMIT)
			assert_true(rig_turn(&rig));
		assert_true(server()->s.grad_scale == scale && client()->s.grad_scale == scale);
	}
}

/* For windows of one part and more, the credit that the receiver holds back never stops the sender. */
static void credit_never_runs_dry(void **state)
{
	static const uint64_t window[] = {4096, 4097, 5000, 6000, 8192, 10000, 40000};
	struct rig_conf conf = four_chunks;

	for (size_t i = 0; i < sizeof window / sizeof window[0]; i++)
		for (conf.seed = 0; conf.seed < 10; conf.seed++) {
			conf.window_bytes = window[i];
			conf.need_weights = true;
			open_ready(&conf);
			rig_begin_step(&rig, 64);
			rig_settle(&rig);
			assert_int_equal(client()->stepped, 1);
		}
}

/* Random legal orders of events: 300 sessions of a dozen passes each. */
static void random_orders_end_well(void **state)
{
	for (uint64_t seed = 0; seed < 300; seed++) {
		struct rig_conf conf = {.batch = 1 + seed * 7 % 64, .seed = seed, .need_weights = seed % 3 == 0};
		struct tally t = {0};

		conf.rows = 1 + seed * 5 % conf.batch;
		conf.part_bytes = 4096 + (uint32_t)(seed * 977 % 9000);
		conf.window_bytes = conf.part_bytes + seed * seed * 131 % 70000;
		rig_grads(&conf, (int)(seed % 3));
		conf.clip_norm = seed % 5 ? 0 : 3;
		open_ready(&conf);
		for (int pass = 0; pass < 12; pass++) {
			uint64_t rows = 1 + (seed + 11 * (uint64_t)pass) % conf.batch;
			bool training = (seed + (uint64_t)pass) % 4 != 0;

			if (training)
				rig_begin_step(&rig, rows);
			else
				rig_begin_eval(&rig, (uint64_t)pass, rows);
			rig_settle(&rig);
			count_pass(&t, training, rows, &conf);
			assert_tally(&t);
		}
		rig_begin_fetch(&rig);
		rig_settle(&rig);
		assert_int_equal(client()->fetched, 1);
		assert_int_equal(client()->stored[SL_PART_WEIGHTS], rig_run_bytes(SL_PART_WEIGHTS));
	}
}

static void a_client_that_leaves_is_forgotten(void **state)
{
	open_ready(&four_chunks);
	assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_LEAVE}), SL_OK);
	rig_settle(&rig);
	assert_int_equal(server()->left, 1);
	assert_int_equal(server()->failed, 0);
	assert_absorbs(RIG_CLIENT);
	assert_absorbs(RIG_SERVER);
}

/* ---- events that are not in the tables */

#define EV(name) (1u << SL_EV_##name)

static const unsigned alive = EV(REFUSE) | EV(CREDIT) | EV(HEARTBEAT);

static unsigned frames_of(enum rig_who who, enum sl_session_state state)
{
	static const unsigned step = EV(PART) | EV(ABANDON) | EV(NORM);
	static const unsigned of_client[SL_SESSION_STATE_COUNT] = {[SL_SESSION_HELLO] = EV(WELCOME) | EV(CHALLENGE),
								   [SL_SESSION_STEP] = step,
								   [SL_SESSION_COMMIT] = step | EV(COMMITTED),
								   [SL_SESSION_ABANDON] = step,
								   [SL_SESSION_EVAL] = EV(PART),
								   [SL_SESSION_FETCH] = step,
								   [SL_SESSION_ALIGN] = EV(PART)};
	static const unsigned of_server[SL_SESSION_STATE_COUNT] = {
		[SL_SESSION_WEIGHTS] = EV(PART) | EV(FETCH) | EV(ABANDON) | EV(COMMIT),
		[SL_SESSION_READY] = EV(PART) | EV(FETCH) | EV(ABANDON),
		[SL_SESSION_STEP] = EV(PART) | EV(COMMIT) | EV(ABANDON),
		[SL_SESSION_ABANDON] = EV(PART) | EV(ABANDON) | EV(COMMIT) | EV(FETCH),
		[SL_SESSION_EVAL] = EV(PART)};

	if (state == SL_SESSION_NEW)
		return who == RIG_SERVER ? EV(HELLO) : 0;
	return who == RIG_CLIENT ? of_client[state] | alive : of_server[state] | alive | EV(BYE);
}

static bool exists(enum rig_who who, int state)
{
	bool servers = state == SL_SESSION_OPENING || state == SL_SESSION_WEIGHTS;

	return who == RIG_CLIENT ? !servers : state != SL_SESSION_HELLO && state != SL_SESSION_ALIGN;
}

static void refuse_misplaced(enum rig_who who, int state, int kind)
{
	struct sl_frame f = {.kind = (enum sl_frame_kind)kind, .epoch = 7};

	open_ready(&four_chunks);
	rig.side[who].s.state = (enum sl_session_state)state;
	rig.side[who].s.training =
		state == SL_SESSION_STEP || state == SL_SESSION_COMMIT || state == SL_SESSION_ABANDON;
	rig.side[who].s.fate = state == SL_SESSION_ABANDON ? SL_PASS_ABANDONED : SL_PASS_GOES_ON;
	assert_int_equal(rig_frame(&rig, who, &f), SL_ERR_PROTOCOL);
	if (kind == SL_FRAME_REFUSE) { /* a REFUSE is not answered by another */
		assert_int_equal(rig.side[who].failed, 1);
		assert_int_equal(rig.side[!who].in.count, 0);
	} else {
		assert_refused(who, SL_ERR_PROTOCOL, sl_session_state_name((enum sl_session_state)state));
		assert_refused(who, SL_ERR_PROTOCOL, sl_frame_kind_name((enum sl_frame_kind)kind));
	}
	assert_int_equal(rig.side[who].s.counts.refused_frames, 1);
	assert_absorbs(who);
}

static void every_frame_in_the_wrong_state_ends_the_session(void **unused)
{
	int pairs = 0;

	(void)unused;
	for (int who = 0; who < 2; who++)
		for (int state = 0; state < SL_SESSION_CLOSED; state++)
			for (int kind = 0; kind < SL_FRAME_COUNT && exists((enum rig_who)who, state); kind++)
				if (!(frames_of((enum rig_who)who, (enum sl_session_state)state) & 1u << kind)) {
					refuse_misplaced((enum rig_who)who, state, kind);
					pairs++;
				}
	assert_int_equal(pairs, (9 + 9) * SL_FRAME_COUNT - 41 - 48); /* states of both sides, less the legal pairs */
}

static void an_alignment_has_letters_of_one_size_alone(void **state)
{
	const struct {
		struct sl_part part;
		size_t len;
	} wrong[] = {
		{{.what = SL_PART_LETTER, .total = 4095}, 4095},
		{{.what = SL_PART_LETTER, .total = 8192}, 4096},
		{{.what = SL_PART_LETTER, .total = 4096}, 100},
		{{.what = SL_PART_WEIGHTS, .total = 4096}, 4096},
		{{.what = SL_PART_LETTER, .total = 4096, .chunk = 1}, 4096},
		{{.what = SL_PART_LETTER, .total = 4096, .rows = 1}, 4096},
		{{.what = SL_PART_LETTER, .total = 4096, .training = true}, 4096},
	};
	struct sl_frame f = {.kind = SL_FRAME_PART, .u.part = {.what = SL_PART_LETTER, .total = 4096}};
	const struct sl_event ev = {.kind = SL_EV_PART, .frame = &f};
	struct sl_outbox out;
	struct sl_session s;

	for (size_t i = 0; i <= sizeof wrong / sizeof wrong[0]; i++) {
		sl_session_open_client(&s, &(struct sl_hello){.part_bytes = 4096}, 0);
		s.state = SL_SESSION_ALIGN;
		f.payload.len = i ? wrong[i - 1].len : 4096;
		if (i)
			f.u.part = wrong[i - 1].part;
		assert_int_equal(sl_session_step(&s, &ev, 1, &out), i ? SL_ERR_PROTOCOL : SL_OK);
		assert_int_equal(out.action[0].kind, i ? SL_ACTION_SEND : SL_ACTION_STORE);
	}
}

static void requests_out_of_place_are_bugs(void **state)
{
	static const enum sl_event_kind kind[] = {SL_EV_OPEN, SL_EV_BEGIN_STEP, SL_EV_BEGIN_EVAL, SL_EV_BEGIN_FETCH,
						  SL_EV_SKIP};

	for (size_t i = 0; i < sizeof kind / sizeof kind[0]; i++) {
		open_ready(&four_chunks);
		rig_begin_step(&rig, 64);
		assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = kind[i], .batch_rows = 1}),
				 SL_ERR_BUG);
		assert_refused(RIG_CLIENT, SL_ERR_BUG, "STEP");
	}
	for (uint64_t rows = 0; rows < 66; rows += 65) {
		open_ready(&four_chunks);
		assert_int_equal(
			rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_BEGIN_STEP, .batch_rows = rows}),
			SL_ERR_BUG);
	}
	open_ready(&four_chunks);
	assert_int_equal(rig_event(&rig, RIG_CLIENT,
				   &(struct sl_event){.kind = SL_EV_BEGIN_STEP, .batch_rows = 64, .number = 1}),
			 SL_ERR_MISMATCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_sides_are_ready_after_the_handshake),
		cmocka_unit_test(a_step_that_the_client_does_not_hold_is_no_way_on),
		cmocka_unit_test(parts_are_never_larger_than_the_window),
		cmocka_unit_test(a_hello_that_cannot_be_is_refused),
		cmocka_unit_test(a_hello_at_its_bounds_is_taken),
		cmocka_unit_test(a_welcome_that_cannot_be_is_refused),
		cmocka_unit_test(a_challenge_is_answered_with_a_proof),
		cmocka_unit_test(a_process_may_rise_above_links_of_others_before_its_own),
		cmocka_unit_test(weights_are_uploaded_where_the_server_asks),
		cmocka_unit_test(weights_of_another_length_are_refused),
		cmocka_unit_test(weights_can_be_fetched_right_after_their_upload),
		cmocka_unit_test(steps_of_any_number_of_chunks),
		cmocka_unit_test(as_many_chunks_as_there_can_be),
		cmocka_unit_test(a_step_is_clipped_by_the_norm_of_all_parts),
		cmocka_unit_test(credit_never_runs_dry),
		cmocka_unit_test(random_orders_end_well),
		cmocka_unit_test(a_client_that_leaves_is_forgotten),
		cmocka_unit_test(every_frame_in_the_wrong_state_ends_the_session),
		cmocka_unit_test(an_alignment_has_letters_of_one_size_alone),
		cmocka_unit_test(requests_out_of_place_are_bugs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
