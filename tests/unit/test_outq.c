/* Runs of parts over both transports: order, credit, high-water mark, and peers that vanish. The
 * receiver decodes every frame, which verifies the hash of each part. */

#include "common/link/transport_impl.h"
#include "tests/support/outq_rig.h"
#include "tests/support/transport_inproc.h"
#include "tests/support/unit.h"

/* ---- tests that run over both transports */

static void runs_arrive_whole_by_priority(const char *endpoint)
{
	struct rig *rig = rig_open(endpoint, 4);
	static uint8_t data[4][RUN];
	struct sl_run run[4];
	struct sl_outq_stats stats;
	int first[4];

	/* Posted before the handshake: nothing is sent yet, so the queue orders all four runs at once. */
	for (int i = 0; i < 4; i++) {
		run[i] = run_of(rig, fill(data[i], i), (uint32_t)i, (int[]){2, 1, 2, 0}[i]);
		sl_outq_post(rig->queue, &run[i]);
	}
	assert_false(sl_outq_idle(rig->queue));
	rig->give_credit = true;
	rig->stop_at_sents = 4;
	sl_outq_limits(rig->queue, PART, 10 * PART);
	sl_loop_run(rig->loop);
	while (rig->bytes < 4ull * RUN)
		run_for(rig, 5);
	for (int i = 0; i < 4; i++) {
		assert_memory_equal(rig->got[i], data[i], RUN);
		assert_int_equal(rig->parts[i], 101);
		first[i] = -1;
	}
	for (int i = 0; i < rig->logs; i++)
		if (first[rig->log[i]] < 0)
			first[rig->log[i]] = i;
	assert_true(first[3] == 0 && first[1] == 101 && first[0] == 202 && first[2] == 303);
	assert_true(rig->sent[0] == 3 && rig->sent[1] == 1 && rig->sent[2] == 0 && rig->sent[3] == 2);
	stats = sl_outq_stats(rig->queue);
	assert_int_equal(stats.frames, 404);
	assert_int_equal(stats.payload_bytes, 4 * RUN);
	assert_true(stats.header_bytes > 404 * 20 && stats.header_bytes < 404 * 80);
	assert_true(stats.peak_bytes_per_s > 0);
	assert_true(sl_outq_idle(rig->queue));
	rig_close(rig);
}

/* A run may have its front in another place than the rest: less than a part, exactly one part, all
 * of it, or one byte. */
static void a_run_may_lie_in_two_places(const char *endpoint)
{
	struct rig *rig = rig_open(endpoint, 4);
	static uint8_t data[4][RUN], front[4][RUN];
	const size_t at[4] = {RUN % PART, PART, RUN, 1};
	const int parts[4] = {101, 101, 101, 102};
	struct sl_run run[4];

	rig->give_credit = true;
	rig->stop_at_sents = 4;
	for (int i = 0; i < 4; i++) {
		run[i] = run_of(rig, front[i], (uint32_t)i, 0);
		memcpy(front[i], fill(data[i], i), at[i]);
		run[i].rest = data[i] + at[i];
		run[i].rest_at = at[i];
		sl_outq_post(rig->queue, &run[i]);
	}
	sl_outq_limits(rig->queue, PART, 10 * PART);
	sl_loop_run(rig->loop);
	while (rig->bytes < 4ull * RUN)
		run_for(rig, 5);
	for (int i = 0; i < 4; i++) {
		assert_memory_equal(rig->got[i], data[i], RUN);
		assert_int_equal(rig->parts[i], parts[i]);
	}
	rig_close(rig);
}

static const uint8_t *source;
static int reads;

static void read_source(const struct sl_run *run, size_t at, size_t len, void *to)
{
	(void)run;
	memcpy(to, source + at, len);
	reads++;
}

/* The queue reads each part once, into memory that lives until the transport has sent it. This
 * holds if a link ends meanwhile, too. */
static void a_run_may_be_read_part_by_part(const char *endpoint)
{
	struct rig *rig = rig_open(endpoint, 4);
	static uint8_t data[2][RUN];
	struct sl_run run = run_of(rig, NULL, 0, 0), other = run_of(rig, fill(data[1], 1), 1, 0);

	source = fill(data[0], 0);
	reads = 0;
	run.read = read_source;
	rig->give_credit = true;
	rig->stop_at_sents = 2;
	sl_outq_post(rig->queue, &run);
	sl_outq_post(rig->queue, &other);
	sl_outq_limits(rig->queue, PART, 10 * PART);
	sl_loop_run(rig->loop);
	while (rig->bytes < 2ull * RUN)
		run_for(rig, 5);
	assert_memory_equal(rig->got[0], data[0], RUN);
	assert_memory_equal(rig->got[1], data[1], RUN);
	assert_int_equal(rig->parts[0], 101);
	assert_int_equal(reads, 101);
	sl_outq_post(rig->queue, &run);
	sl_outq_abort(rig->queue);
	assert_true(reads > 101);
	rig_close(rig);
}

static void a_later_run_of_higher_priority_overtakes(const char *endpoint)
{
	struct rig *rig = rig_open(endpoint, 64);
	static uint8_t data[RUN];
	struct sl_run low = run_of(rig, fill(data, 1), 0, 5), high = run_of(rig, data, 1, 1);

	sl_outq_limits(rig->queue, PART, 10 * PART);
	sl_outq_post(rig->queue, &low);
	rig->stop_at_bytes = 10 * PART;
	sl_loop_run(rig->loop); /* the first run has used up the window */
	sl_outq_post(rig->queue, &high);
	rig->stop_at_bytes = 0;
	rig->stop_at_sents = 2;
	sl_outq_credit(rig->queue, PLENTY);
	sl_loop_run(rig->loop);
	assert_true(rig->sent[0] == 1 && rig->sent[1] == 0);
	while (rig->bytes < 2ull * RUN)
		run_for(rig, 5);
	for (int i = 0; i < rig->logs; i++)
		assert_int_equal(rig->log[i], i < 10 || i >= 111 ? 0 : 1);
	rig_close(rig);
}

static void nothing_leaves_beyond_the_credit(const char *endpoint)
{
	struct rig *rig = rig_open(endpoint, 64);
	static uint8_t data[RUN];
	struct sl_run run = run_of(rig, fill(data, 1), 0, 0);

	sl_outq_limits(rig->queue, PART, 5 * PART + PART / 2);
	sl_outq_post(rig->queue, &run);
	rig->stop_at_bytes = 5 * PART;
	sl_loop_run(rig->loop);
	rig->stop_at_bytes = 0;
	run_for(rig, 30);
	assert_int_equal(rig->bytes, 5 * PART); /* credit for half a part sends nothing */
	sl_outq_credit(rig->queue, PART / 2);
	rig->stop_at_bytes = 6 * PART;
	sl_loop_run(rig->loop);
	rig->stop_at_bytes = 0;
	run_for(rig, 30);
	assert_int_equal(rig->bytes, 6 * PART);
	assert_int_equal(rig->sents, 0);
	sl_outq_credit(rig->queue, UINT64_MAX); /* credit must not overflow */
	sl_outq_credit(rig->queue, UINT64_MAX);
	rig->stop_at_sents = 1;
	sl_loop_run(rig->loop);
	assert_true(sl_outq_idle(rig->queue));
	rig_close(rig);
}

static void control_frames_go_first_and_need_no_credit(const char *endpoint)
{
	struct rig *rig = rig_open(endpoint, 64);
	static uint8_t data[RUN];
	struct sl_run run = run_of(rig, fill(data, 1), 0, 0);
	struct sl_frame beat = {.kind = SL_FRAME_HEARTBEAT}, hello = {.kind = SL_FRAME_HELLO};
	int beats = 0;
	enum sl_err err;

	/* All of this waits in a bounded queue until the connection is up, at least one iteration of the loop. */
	sl_outq_limits(rig->queue, PART, PLENTY);
	sl_outq_post(rig->queue, &run);
	for (err = SL_OK; beats < 10 && !err; beats++)
		err = sl_outq_control(rig->queue, &beat);
	hello.u.hello.epoch = 1; /* differs from the frame's epoch: it cannot be encoded, and leaves no trace */
	assert_int_equal(sl_outq_control(rig->queue, &hello), SL_ERR_DATA);
	rig->stop_at_sents = 1;
	sl_loop_run(rig->loop);
	while (rig->bytes < RUN || rig->logs < 111)
		run_for(rig, 5);
	assert_int_equal(rig->logs, 111);
	if (rig->log[0] != 0) /* (inproc is connected at once: there parts are first) */
		for (int i = 0; i < 10; i++)
			assert_int_equal(rig->log[i], -1 - SL_FRAME_HEARTBEAT);
	rig_close(rig);
}

static void abort_at_sent(struct rig *rig, struct sl_run *run)
{
	(void)run;
	sl_outq_abort(rig->queue);
	sl_loop_stop(rig->loop);
}

static void abort_forgets_what_waits(const char *endpoint)
{
	struct rig *rig = rig_open(endpoint, 64);
	static uint8_t data[RUN];
	struct sl_run run[2] = {run_of(rig, fill(data, 1), 0, 0), run_of(rig, data, 1, 1)};

	rig->on_sent = abort_at_sent;
	sl_outq_limits(rig->queue, PART, RUN + 10 * PART);
	sl_outq_post(rig->queue, &run[0]);
	sl_outq_post(rig->queue, &run[1]);
	sl_loop_run(rig->loop);
	memset(&run[1], 0x5a, sizeof run[1]); /* the queue must not read it any more */
	for (int i = 0; i < 1000 && !sl_outq_idle(rig->queue); i++)
		run_for(rig, 2);
	assert_true(sl_outq_idle(rig->queue));
	assert_int_equal(rig->sents, 1);
	rig_close(rig);
}

static void a_peer_that_vanishes_mid_run_leaves_nothing_behind(const char *endpoint)
{
	struct rig *rig = rig_open(endpoint, 4);
	uint8_t *data = malloc(RUN);
	struct sl_run run = run_of(rig, fill(data, 1), 0, 0);

	sl_outq_limits(rig->queue, PART, PLENTY);
	sl_outq_post(rig->queue, &run);
	rig->stop_at_bytes = 10 * PART;
	sl_loop_run(rig->loop);
	sl_transport_close(rig->server, 0);
	rig->server = NULL;
	while (!rig->lost)
		sl_loop_run(rig->loop);
	sl_outq_abort(rig->queue);
	for (int i = 0; i < 1000 && !sl_outq_idle(rig->queue); i++)
		run_for(rig, 2);
	assert_true(sl_outq_idle(rig->queue));
	free(data); /* the address sanitizer finds any later read */
	run_for(rig, 20);
	rig_close(rig);
}

static void close_at_sent(struct rig *rig, struct sl_run *run)
{
	(void)run;
	sl_outq_close(rig->queue);
	rig->queue = NULL;
	sl_loop_stop(rig->loop);
}

static void the_queue_may_close_inside_sent(const char *endpoint)
{
	struct rig *rig = rig_open(endpoint, 200);
	static uint8_t data[RUN];
	struct sl_run run[2] = {run_of(rig, fill(data, 1), 0, 0), run_of(rig, data, 1, 1)};

	rig->on_sent = close_at_sent;
	sl_outq_limits(rig->queue, PART, PLENTY);
	sl_outq_post(rig->queue, &run[0]);
	sl_outq_post(rig->queue, &run[1]);
	sl_loop_run(rig->loop);
	assert_null(rig->queue);
	run_for(rig, 20);
	rig_close(rig);
}

static void the_queue_may_close_before_its_parts_are_back(const char *endpoint)
{
	struct rig *rig = rig_open(endpoint, 200);
	static uint8_t data[RUN];
	struct sl_run run = run_of(rig, fill(data, 1), 0, 0);
	int sents;

	sl_outq_limits(rig->queue, PART, PLENTY);
	sl_outq_post(rig->queue, &run);
	rig->stop_at_bytes = PART;
	sl_loop_run(rig->loop);
	rig->stop_at_bytes = 0;
	sents = rig->sents;
	sl_outq_close(rig->queue);
	rig->queue = NULL;
	run_for(rig, 20);
	assert_int_equal(rig->sents, sents);
	rig_close(rig);
}

#define BOTH(name)                                \
	static void both_##name(void **state)     \
	{                                         \
		for (int i = 0; i < SCHEMES; i++) \
			name(schemes[i]);         \
	}
BOTH(runs_arrive_whole_by_priority)
BOTH(a_run_may_lie_in_two_places)
BOTH(a_run_may_be_read_part_by_part)
BOTH(a_later_run_of_higher_priority_overtakes)
BOTH(nothing_leaves_beyond_the_credit)
BOTH(control_frames_go_first_and_need_no_credit)
BOTH(abort_forgets_what_waits)
BOTH(a_peer_that_vanishes_mid_run_leaves_nothing_behind)
BOTH(the_queue_may_close_inside_sent)
BOTH(the_queue_may_close_before_its_parts_are_back)

/* ---- tests that need one transport only */

static void control_frames_are_bounded(void **state)
{
	struct rig *rig = rig_open(schemes[1], 1);
	struct sl_frame beat = {.kind = SL_FRAME_HEARTBEAT};
	enum sl_err err = SL_OK;
	int n;

	for (n = 0; n < 1000 && !err; n++) {
		beat.u.heartbeat.sent_ms = (uint64_t)n;
		err = sl_outq_control(rig->queue, &beat);
	}
	assert_int_equal(err, SL_ERR_LIMIT);
	n--; /* the queue holds one frame beyond the transport's high-water mark, in order */
	assert_true(n > 1 && n < 100);
	rig->stop_at_logs = n;
	sl_loop_run(rig->loop);
	assert_int_equal(rig->beats_ms, n * (n - 1) / 2); /* each frame arrived once */
	assert_int_equal(sl_outq_control(rig->queue, &beat), SL_OK);
	rig_close(rig);
}

/* A peer that sends many short runs gets its credit, however slowly it reads. */
static void credit_that_waits_is_one_frame(void **state)
{
	struct rig *rig = rig_open(schemes[1], 1);
	const struct sl_frame beat = {.kind = SL_FRAME_HEARTBEAT, .u.heartbeat = {.sent_ms = 1}};
	struct sl_frame credit = {.kind = SL_FRAME_CREDIT};

	assert_int_equal(sl_outq_control(rig->queue, &beat), SL_OK); /* now the transport is full */
	for (uint64_t n = 1; n <= 1000; n++) {
		credit.u.credit.bytes = n;
		assert_int_equal(sl_outq_control(rig->queue, &credit), SL_OK);
		if (n == 10)
			assert_int_equal(sl_outq_control(rig->queue, &beat), SL_OK);
	}
	rig->stop_at_logs = 3;
	sl_loop_run(rig->loop);
	assert_int_equal(rig->granted, 1000 * 1001 / 2);
	assert_int_equal(rig->beats_ms, 2);
	assert_int_equal(sl_outq_control(rig->queue, &credit), SL_OK); /* the one that has left is not sent again */
	rig->stop_at_logs = 4;
	sl_loop_run(rig->loop);
	assert_int_equal(rig->granted, 1000 * 1001 / 2 + 1000);
	rig_close(rig);
}

static void a_part_aborted_while_busy_is_hashed_anew(void **state)
{
	struct rig *rig = rig_open(schemes[1], 1);
	struct sl_frame beat = {.kind = SL_FRAME_HEARTBEAT};
	static uint8_t data[RUN];
	struct sl_run run = run_of(rig, fill(data, 1), 0, 0);

	assert_int_equal(sl_outq_control(rig->queue, &beat), SL_OK); /* now the transport is full */
	sl_outq_limits(rig->queue, PART, PLENTY);
	sl_outq_post(rig->queue, &run);
	sl_outq_abort(rig->queue);
	run = run_of(rig, fill(data, 2), 0, 0);
	sl_outq_limits(rig->queue, PART, PLENTY);
	sl_outq_post(rig->queue, &run);
	rig->stop_at_sents = 1;
	sl_loop_run(rig->loop);
	assert_memory_equal(rig->got[0], data, RUN);
	rig_close(rig);
}

static enum sl_fault corrupt(void *arg, struct sl_bytes header, struct sl_bytes payload)
{
	(void)arg, (void)header, (void)payload;
	return SL_FAULT_CORRUPT;
}

static void count_corrupt(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	struct rig *rig = arg;
	struct sl_frame f;
	struct sl_fail fail;

	(void)peer;
	assert_int_equal(sl_wire_decode(header, payload, &f, &fail), SL_ERR_PROTOCOL);
	assert_non_null(strstr(fail.text, "corrupt part"));
	if (++rig->logs == 101)
		sl_loop_stop(rig->loop);
}

static void corrupt_parts_are_noticed(void **state)
{
	static const struct sl_transport_events counting = {count_corrupt, nothing_writable, malformed, lost, NULL};
	struct sl_transport_conf conf = {.endpoint = "inproc://corrupt", .part_bytes = PART, .hwm = 200};
	struct rig *rig = rig_open(schemes[1], 200);
	struct sl_transport *server, *client;
	struct sl_outq *queue;
	static uint8_t data[RUN];
	struct sl_run run = run_of(rig, fill(data, 1), 0, 0);

	assert_int_equal(sl_transport_bind(&server, rig->loop, &conf, &counting, rig, NULL), SL_OK);
	assert_int_equal(sl_transport_connect(&client, rig->loop, &conf, &counting, rig, NULL), SL_OK);
	assert_int_equal(sl_outq_open(&queue, rig->loop, client, SL_PEER_SERVER, NULL), SL_OK);
	sl_inproc_faults(client, corrupt, NULL);
	sl_outq_limits(queue, PART, PLENTY);
	sl_outq_post(queue, &run);
	sl_loop_run(rig->loop);
	sl_transport_close(client, 0);
	sl_transport_close(server, 0);
	sl_outq_close(queue);
	rig_close(rig);
}

/* A transport takes a whole run into its memory at once. So the rate is measured when the peer confirms, by credit. */
static void a_rate_is_what_the_peer_confirms(void **state)
{
	enum { LATE_MS = 60 };
	struct rig *rig = rig_open("tcp://127.0.0.1:*", 64);
	static uint8_t data[RUN];
	struct sl_run run = run_of(rig, fill(data, 1), 0, 0);

	sl_outq_limits(rig->queue, PART, 2 * RUN);
	rig->stop_at_sents = 1;
	sl_outq_post(rig->queue, &run);
	run_for(rig, GIVE_UP_MS);
	assert_int_equal(rig->sents, 1);
	run_for(rig, LATE_MS);
	assert_true(sl_outq_stats(rig->queue).peak_bytes_per_s == 0);
	sl_outq_credit(rig->queue, RUN - 1);
	assert_true(sl_outq_stats(rig->queue).peak_bytes_per_s == 0);
	sl_outq_credit(rig->queue, 1);
	assert_true(sl_outq_stats(rig->queue).peak_bytes_per_s > 0);
	assert_true(sl_outq_stats(rig->queue).peak_bytes_per_s <= RUN / (LATE_MS * 0.5e-3));
	rig_close(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_runs_arrive_whole_by_priority),
		cmocka_unit_test(both_a_run_may_lie_in_two_places),
		cmocka_unit_test(both_a_run_may_be_read_part_by_part),
		cmocka_unit_test(both_a_later_run_of_higher_priority_overtakes),
		cmocka_unit_test(both_nothing_leaves_beyond_the_credit),
		cmocka_unit_test(both_control_frames_go_first_and_need_no_credit),
		cmocka_unit_test(both_abort_forgets_what_waits),
		cmocka_unit_test(both_a_peer_that_vanishes_mid_run_leaves_nothing_behind),
		cmocka_unit_test(both_the_queue_may_close_inside_sent),
		cmocka_unit_test(both_the_queue_may_close_before_its_parts_are_back),
		cmocka_unit_test(control_frames_are_bounded),
		cmocka_unit_test(credit_that_waits_is_one_frame),
		cmocka_unit_test(a_part_aborted_while_busy_is_hashed_anew),
		cmocka_unit_test(corrupt_parts_are_noticed),
		cmocka_unit_test(a_rate_is_what_the_peer_confirms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
