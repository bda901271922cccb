/* How sessions and the host end: what the loop does not wait for, and which clients are told. */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "common/codec/frame.h"
#include "common/session/checkpoint.h"
#include "server/host/host_impl.h"
#include "tests/support/asked.h"
#include "tests/support/host_rig.h"
#include "tests/support/unit.h"

/* Sends a tensor of zeros, uncompressed. `p` describes it, except for its bytes. */
static void send_run(struct host_client *c, const struct asked *a, const struct sl_shape *tensor, struct sl_part p)
{
	static uint8_t payload[HOST_RIG_PART];
	struct sl_frame part = {.kind = SL_FRAME_PART, .epoch = 1};

	p.training = true;
	p.total = SL_FRAME_BYTES + p.rows * (uint64_t)sl_shape_row(tensor) * sizeof(float);
	assert_in_range(p.total, SL_FRAME_BYTES + 1, sizeof payload);
	sl_frame_write(payload, &a->agreement.codec[SL_DIR_HEAD_ACT], false, p.rows);
	part.u.part = p;
	host_rig_say_part(c, &part, (struct sl_bytes){payload, p.total});
}

static const struct sl_kernel *quick_conv;
static atomic_int convs;

static enum sl_err slow_forward(const struct sl_op_call *call)
{
	const struct timespec moment = {0, 3000000};

	atomic_fetch_add(&convs, 1);
	nanosleep(&moment, NULL);
	return quick_conv->forward(call);
}

/* Chunks that are queued when a session ends are not computed: the loop's
 * thread would have to wait for them before it can close the session. */
static void what_a_lost_session_has_queued_is_not_computed(void **state)
{
	enum { CHUNKS = 4 };
	static struct sl_kernel slow;
	struct asked a = host_rig_agreement_of(10, 32, CHUNKS);
	struct sl_frame hello;
	const struct sl_frame wrong = {.kind = SL_FRAME_FETCH, .epoch = 1}; /* not allowed in the middle of a step */
	struct host_client c;
	struct sl_plan *plan;
	struct sl_fail fail;
	int of_a_chunk = 0;

	a.agreement.agreed.chunks = CHUNKS;
	assert_int_equal(asked_settle(&a, &fail), SL_OK);
	assert_int_equal(plan_open(&plan, &a.split, &fail), SL_OK);
	hello = host_rig_hello_of(&a, 1, 1, NULL);
	for (int i = 0; i < plan->segment[SL_MIDDLE].n_op; i++)
		of_a_chunk += plan->segment[SL_MIDDLE].op[i].op.kind == SL_OP_CONV2D;
	host_rig_open(1, 256 << 20);
	quick_conv = host_rig.counting_ops.kernel[SL_OP_CONV2D];
	slow = *quick_conv;
	slow.forward = slow_forward;
	host_rig.counting_ops.kernel[SL_OP_CONV2D] = &slow;
	host_rig_connect_raw(&c);
	host_rig_say(&c, &hello);
	host_rig_await(&c.came[SL_FRAME_WELCOME], 1);
	for (uint32_t chunk = 0; chunk < CHUNKS; chunk++)
		send_run(&c, &a, &plan->segment[SL_MIDDLE].in_shape,
			 (struct sl_part){.what = SL_PART_HEAD_ACT, .chunk = chunk, .rows = 1, .batch_rows = CHUNKS});
	host_rig_say(&c, &wrong);
	host_rig_refusal(&c, SL_ERR_PROTOCOL);
	host_rig_hang_up(&c);
	host_rig_close();
	assert_in_range(atomic_load(&convs), 0, of_a_chunk); /* only the chunk that was running */
	sl_plan_close(plan);
}

static atomic_bool device_failed;
static struct sl_fail ended;
static int ends;

static bool has_failed(const struct sl_backend *be)
{
	(void)be;
	return atomic_load(&device_failed);
}

static void on_broken(void *arg, const struct sl_fail *why)
{
	(void)arg;
	ended = *why;
	ends++;
}

/* Clients would reconnect for ever: only a new process can use the device again. */
static void a_device_that_has_failed_ends_the_server_once(void **state)
{
	int turns = 0;

	host_rig_open(1, 0);
	host_rig.counting_ops.failed = has_failed;
	sl_host_on_broken(host_rig.host, on_broken, NULL);
	for (int i = 0; i < 30; i++)
		host_rig_turn();
	assert_int_equal(ends, 0);
	atomic_store(&device_failed, true);
	host_rig_await(&ends, 1);
	assert_int_equal(ended.code, SL_ERR_DEVICE);
	assert_string_equal(ended.text, "the device has failed");
	while (++turns < 30)
		host_rig_turn();
	assert_int_equal(ends, 1);
	host_rig_close();
}

/* ---- sessions that end while a task runs */

static enum sl_err (*quick_alloc)(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail);
static atomic_bool let_go;

static enum sl_err slow_alloc(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail)
{
	const struct timespec moment = {0, 2000000};

	for (int i = 0; i < 10 * HOST_RIG_GIVE_UP_MS && !atomic_load(&let_go); i++)
		nanosleep(&moment, NULL);
	return quick_alloc(be, bytes, out, fail);
}

static void say_garbage(struct host_client *c)
{
	static const uint8_t garbage[] = {0xff, 0x00, 0x17};
	const struct sl_payload none = {0};

	assert_int_equal(
		sl_transport_send(c->transport, SL_PEER_SERVER, (struct sl_bytes){garbage, sizeof garbage}, &none),
		SL_OK);
}

/* Such a session holds memory until the worker is done with it. Their
 * number is bounded; beyond it a Hello is told to come back. */
static void sessions_that_fail_while_a_task_runs_are_bounded(void **state)
{
	enum { SESSIONS = 2, MOST = 3 * SESSIONS + 16, TRIES = 3 * MOST };
	static struct host_client first, rogue[TRIES], good;
	struct sl_frame hello = host_rig_small_hello(1, 1);
	int most = 0;

	host_rig_open(SESSIONS, 0);
	quick_alloc = host_rig.counting_ops.alloc;
	host_rig.counting_ops.alloc = slow_alloc;
	host_rig_connect_raw(&first);
	host_rig_say(&first, &hello);
	host_rig_await(&first.came[SL_FRAME_CHALLENGE], 1);
	for (int i = 0; i < TRIES; i++) {
		hello = host_rig_small_hello((uint8_t)(2 + i), 1);
		host_rig_connect_raw(&rogue[i]);
		host_rig_say(&rogue[i], &hello);
		host_rig_await(&rogue[i].came[SL_FRAME_CHALLENGE], 1);
		say_garbage(&rogue[i]);
		host_rig_await(&rogue[i].came[SL_FRAME_REFUSE], 1);
		host_rig_turn(); /* its session, if it had one, leaves its place */
		most = host_rig.host->closing > most ? host_rig.host->closing : most;
	}
	assert_in_range(most, SESSIONS, MOST);
	atomic_store(&let_go, true);
	host_rig_await(&first.came[SL_FRAME_WELCOME], 1);
	while (host_rig.host->closing)
		host_rig_turn();
	hello = host_rig_small_hello(200, 1);
	host_rig_connect_raw(&good);
	host_rig_say(&good, &hello);
	host_rig_await(&good.came[SL_FRAME_WELCOME], 1);
	for (int i = 0; i < TRIES; i++)
		host_rig_hang_up(&rogue[i]);
	host_rig_hang_up(&first);
	host_rig_hang_up(&good);
	host_rig_close();
}

/* ---- operations that do not return until the loop has turned for a while; in the end they give up */

static struct {
	atomic_bool asked, turned, gave_up;
	struct sl_timer *timer;
} hang;

static void answer_late(void)
{
	const struct timespec moment = {0, 2000000};

	atomic_store(&hang.asked, true);
	for (int i = 0; i < HOST_RIG_GIVE_UP_MS / 2 && !atomic_load(&hang.turned) && !atomic_load(&hang.gave_up); i++) {
		nanosleep(&moment, NULL);
		sl_worker_turn();
	}
	if (!atomic_load(&hang.turned))
		atomic_store(&hang.gave_up, true);
}

static void turn(void *arg)
{
	(void)arg;
	atomic_store(&hang.turned, true);
	sl_timer_close(hang.timer);
}

static void await_question(void)
{
	struct sl_fail fail;

	while (!atomic_load(&hang.asked))
		host_rig_turn();
	assert_int_equal(sl_timer_open(&hang.timer, host_rig.loop, turn, NULL, &fail), SL_OK);
	sl_timer_start(hang.timer, 200, 0); /* ten ticks of the host from now */
}

static void assert_answered(void)
{
	bool turned = atomic_exchange(&hang.turned, false), gave_up = atomic_exchange(&hang.gave_up, false);

	atomic_store(&hang.asked, false);
	assert_true(turned);
	assert_false(gave_up);
}

static const char *slow_folder;

DIR *opendir(const char *name)
{
	DIR *(*real)(const char *) = (DIR * (*)(const char *)) dlsym(RTLD_NEXT, "opendir");

	if (slow_folder && strcmp(name, slow_folder) == 0)
		answer_late();
	return real(name);
}

static enum sl_err slow_prepare(struct sl_op_prepare *p)
{
	answer_late();
	return quick_conv->prepare(p);
}

/* A session ends while its plan is made, and planning gives way to the tasks of its end.
 * A stranger's plan may take long, and the heartbeats of others come from the loop. */
static void a_plan_of_a_session_that_ended_does_not_stop_the_loop(void **state)
{
	const struct sl_frame hello = host_rig_small_hello(1, 1);
	static struct sl_kernel slow;
	struct host_client c;

	host_rig_open(1, 0);
	quick_conv = host_rig.counting_ops.kernel[SL_OP_CONV2D];
	slow = *quick_conv;
	slow.prepare = slow_prepare;
	host_rig.counting_ops.kernel[SL_OP_CONV2D] = &slow;
	host_rig_connect_raw(&c);
	host_rig_say(&c, &hello);
	await_question();
	say_garbage(&c);
	host_rig_await(&c.came[SL_FRAME_REFUSE], 1);
	while (!atomic_load(&hang.turned) || host_rig.host->closing)
		host_rig_turn();
	assert_answered();
	host_rig_hang_up(&c);
	host_rig_close();
}

/* drain_s and a second signal have an effect only while the loop turns. */
static void a_store_that_hangs_does_not_stop_the_loop(void **state)
{
	host_rig_make_store();
	host_rig_open(1, 0);
	slow_folder = host_rig.store;
	await_question();
	host_rig_close();
	assert_answered();
	slow_folder = NULL;
	host_rig_remove_store();
}

/* Writes a checkpoint of step 9, all zeros, as a server on `core` would. */
static void write_checkpoint(const char *folder, const struct asked *a, const char *prefix, const char *core)
{
	static const char *const codecs[] = {"head_act", "mid_act", "mid_grad", "head_grad"};
	struct sl_checkpoint c = {.dir = folder, .prefix = prefix};
	const struct sl_plan_segment *s;
	uint8_t state[SL_DIR_COUNT][256];
	struct sl_plan *plan, middle;
	struct sl_fail fail;
	float *zeros;

	if (plan_open(&plan, &a->split, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	s = &plan->segment[SL_MIDDLE];
	zeros = calloc((size_t)s->weight_count, sizeof *zeros);
	assert_non_null(zeros);
	middle = *plan; /* the server's plan: without the network, hashed without head and tail */
	middle.model = NULL;
	middle.segment[SL_HEAD].n_op = middle.segment[SL_TAIL].n_op = 0;
	if (sl_plan_seal(&middle, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_memory_equal(middle.hash, plan->middle_hash, sizeof middle.hash);
	sl_checkpoint_plan(&c, &middle);
	sl_checkpoint_note(&c, "core", "%s", core);
	sl_checkpoint_note(&c, "step", "9");
	sl_checkpoint_note(&c, "link", "7");
	sl_checkpoint_floats(&c, "middle.weights", zeros, s->weight_count);
	sl_checkpoint_floats(&c, "middle.momentum", zeros, s->trainable_count);
	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		const struct sl_codec_env env = {.shape = s->in_shape, .slots = 1, .dir = (enum sl_dir)dir};
		struct sl_buf out = {state[dir], 0, sizeof state[dir]};
		struct sl_codec *codec;

		assert_int_equal(sl_codec_open(&codec, &a->agreement.codec[dir], &env, &fail), SL_OK);
		assert_in_range(sl_codec_state_bytes(codec), 0, out.cap);
		assert_int_equal(sl_codec_save(codec, &out), SL_OK);
		sl_codec_close(codec);
		sl_checkpoint_bytes(&c, codecs[dir], state[dir], (int64_t)out.len);
	}
	if (sl_checkpoint_write(&c, 9, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	free(zeros);
	sl_plan_close(plan);
}

static bool any_checkpoint(const char *folder, const char *prefix)
{
	uint64_t step = UINT64_MAX;

	return sl_checkpoint_older(folder, prefix, &step);
}

/* A checkpoint from which this device could not continue bit
 * for bit is refused. After a goodbye no checkpoint is left. */
static void checkpoints_are_one_device_s_and_go_at_goodbye(void **state)
{
	char prefix[] = "session-01000000000000000000000000000000";
	const struct sl_frame bye = {.kind = SL_FRAME_BYE, .epoch = 1};
	struct asked a = host_rig_agreement_of(10, 32, 2);
	uint8_t name[16];

	sl_session_name(host_rig_secret(1)->session, name);
	sl_hex16(name, prefix + strlen("session-"));
	host_rig_make_store();
	for (int same = 0; same < 2; same++) {
		struct sl_frame hello = host_rig_hello_of(&a, 1, 1, NULL);
		struct host_client c;

		write_checkpoint(host_rig.store, &a, prefix, same ? "cpu" : "another");
		hello.u.hello.held[0] = 9;
		host_rig_open(1, 0);
		host_rig_connect_raw(&c);
		host_rig_say(&c, &hello);
		if (same) {
			host_rig_await(&c.came[SL_FRAME_WELCOME], 1);
			assert_int_equal(c.last[SL_FRAME_WELCOME].u.welcome.next_step, 9);
			host_rig_say(&c, &bye);
			for (int i = 0; i < 1000 && any_checkpoint(host_rig.store, prefix); i++)
				host_rig_turn();
		} else {
			assert_non_null(strstr(host_rig_refusal(&c, SL_ERR_MISMATCH), "the client holds 9"));
		}
		host_rig_hang_up(&c);
		host_rig_close();
		assert_int_equal(any_checkpoint(host_rig.store, prefix), !same);
	}
	host_rig_remove_store();
}

/* A backend that queues its work, as far as a commit can tell: it has marks, and a fence that passes late. */

static enum sl_err mark_open(struct sl_backend *be, void **mark)
{
	(void)be;
	*mark = &hang;
	return SL_OK;
}

static enum sl_err mark(struct sl_backend *be, void *which)
{
	(void)be;
	(void)which;
	return SL_OK;
}

static enum sl_err between(struct sl_backend *be, const void *from, const void *to, double *seconds)
{
	(void)be;
	(void)from;
	(void)to;
	*seconds = 0;
	return SL_OK;
}

static void mark_close(struct sl_backend *be, void *which)
{
	(void)be;
	(void)which;
}

struct fence {
	void (*done)(void *arg);
	void *arg;
};

static void *pass_late(void *arg)
{
	struct fence f = *(struct fence *)arg;

	free(arg);
	answer_late();
	f.done(f.arg);
	return NULL;
}

static enum sl_err slow_fence(struct sl_backend *be, void (*done)(void *arg), void *arg)
{
	struct fence *f = malloc(sizeof *f);
	pthread_t thread;

	(void)be;
	assert_non_null(f);
	*f = (struct fence){done, arg};
	assert_int_equal(pthread_create(&thread, NULL, pass_late, f), 0);
	pthread_detach(thread);
	return SL_OK;
}

/* When the session ends, its last task is still on the device. Its memory
 * is freed only after that task, and the loop does not wait for it. */
static void what_a_device_has_not_done_does_not_stop_the_loop(void **state)
{
	enum { ROWS = 2 };
	struct asked a = host_rig_agreement_of(10, 32, ROWS);
	struct sl_frame hello = host_rig_hello_of(&a, 1, 1, NULL), commit = {.kind = SL_FRAME_COMMIT, .epoch = 1};
	const struct sl_frame wrong = {.kind = SL_FRAME_FETCH, .epoch = 1}; /* not allowed in the middle of a step */
	struct host_client c;
	struct sl_plan *plan;
	struct sl_fail fail;

	assert_int_equal(plan_open(&plan, &a.split, &fail), SL_OK);
	host_rig_open(1, 256 << 20);
	host_rig.counting_ops.mark_open = mark_open;
	host_rig.counting_ops.mark = mark;
	host_rig.counting_ops.between = between;
	host_rig.counting_ops.mark_close = mark_close;
	host_rig.counting_ops.fence = slow_fence;
	host_rig_connect_raw(&c);
	host_rig_say(&c, &hello);
	host_rig_await(&c.came[SL_FRAME_WELCOME], 1);
	send_run(&c, &a, &plan->segment[SL_MIDDLE].in_shape,
		 (struct sl_part){.what = SL_PART_HEAD_ACT, .rows = ROWS, .batch_rows = ROWS});
	host_rig_await(&c.came[SL_FRAME_PART], 1);
	send_run(&c, &a, &plan->segment[SL_MIDDLE].out_shape,
		 (struct sl_part){.what = SL_PART_MID_GRAD, .rows = ROWS, .batch_rows = ROWS});
	host_rig_await(&c.came[SL_FRAME_PART], 2);
	commit.u.commit = (struct sl_commit){.chunks = 1, .lr = 0.1};
	host_rig_say(&c, &commit);
	await_question();
	host_rig_say(&c, &wrong);
	host_rig_refusal(&c, SL_ERR_PROTOCOL);
	host_rig_hang_up(&c);
	host_rig_close();
	assert_answered();
	assert_int_equal(c.came[SL_FRAME_COMMITTED], 0);
	sl_plan_close(plan);
}

static void host_closed(void *arg)
{
	*(int *)arg = 1;
}

/* A Hello that comes while the host closes its sessions is
 * refused. Otherwise there would always be a last one to close. */
static void who_comes_to_a_server_that_closes_hears_so(void **state)
{
	struct sl_frame hello = host_rig_small_hello(1, 1), late = host_rig_small_hello(2, 1);
	struct host_client c, comes;
	int gone = 0;

	host_rig_open(2, 256 << 20);
	host_rig_connect_raw(&c);
	host_rig_connect_raw(&comes);
	host_rig_say(&c, &hello);
	host_rig_await(&c.came[SL_FRAME_WELCOME], 1);
	sl_host_close(host_rig.host, host_closed, &gone);
	host_rig_say(&comes, &late);
	assert_non_null(strstr(host_rig_refusal(&comes, SL_ERR_UNAVAILABLE), "shutting down"));
	assert_non_null(strstr(host_rig_refusal(&c, SL_ERR_UNAVAILABLE), "shuts down"));
	host_rig_await(&gone, 1);
	host_rig_hang_up(&c);
	host_rig_hang_up(&comes);
	sl_server_auth_close(&host_rig.auth);
	sl_loop_close(host_rig.loop);
	host_rig.cpu.ops->close(&host_rig.cpu);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_lost_session_has_queued_is_not_computed),
		cmocka_unit_test(what_a_device_has_not_done_does_not_stop_the_loop),
		cmocka_unit_test(a_plan_of_a_session_that_ended_does_not_stop_the_loop),
		cmocka_unit_test(a_store_that_hangs_does_not_stop_the_loop),
		cmocka_unit_test(a_device_that_has_failed_ends_the_server_once),
		cmocka_unit_test(who_comes_to_a_server_that_closes_hears_so),
		cmocka_unit_test(sessions_that_fail_while_a_task_runs_are_bounded),
		cmocka_unit_test(checkpoints_are_one_device_s_and_go_at_goodbye),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
