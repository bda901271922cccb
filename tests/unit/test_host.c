/* The server's host against clients that do as they like: frames by hand, over the transport of one process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

#include "common/codec/codec.h"
#include "common/link/transport.h"
#include "common/session/agree.h"
#include "kernels/cpu/cpu.h"
#include "server/auth.h"
#include "server/host.h"
#include "server/keep.h"

enum { PART = 1 << 16, GIVE_UP_MS = 10000, STEP_MS = 2 };

/* A client without a session of its own: counts what comes and keeps the last of each kind. */
struct raw {
	struct sl_transport *transport;
	int came[SL_FRAME_COUNT];
	struct sl_frame last[SL_FRAME_COUNT];
	uint64_t payload_bytes;
	int out_of_order; /* parts that do not go on where the last one ended */
};

static struct sl_loop *loop;
static struct sl_host *host;
static struct sl_conf_server conf;
static struct sl_backend cpu, counting;
static struct sl_backend_ops counting_ops;
static size_t taken; /* bytes that the backend was asked for */

static enum sl_err count_alloc(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail)
{
	taken += bytes;
	/* red, rather than the end of the machine */
	return bytes > (size_t)1 << 30 ? sl_fail_set(fail, SL_ERR_NOMEM, "too much for a test")
				       : cpu.ops->alloc(be, bytes, out, fail);
}

static void closed(void *arg)
{
	*(bool *)arg = true;
	sl_loop_stop(loop);
}

static struct sl_device device;

struct auth_files {
	char secret_key[300], clients[300];
};

static struct sl_server_auth auth;

/* `files` NULL: without auth. */
static void open_host_with(const struct auth_files *files, int sessions, int64_t memory_bytes)
{
	static int opened; /* a test that failed leaves its host behind */
	struct sl_fail fail;

	memset(&conf, 0, sizeof conf);
	if (files) {
		snprintf(conf.auth.secret_key, sizeof conf.auth.secret_key, "%s", files->secret_key);
		snprintf(conf.auth.clients, sizeof conf.auth.clients, "%s", files->clients);
	}
	snprintf(conf.listen, sizeof conf.listen, files ? "tcp://127.0.0.1:*" : "inproc://host-%d", opened++);
	conf.limits.sessions_per_key = 2;
	conf.link.part_bytes = PART;
	conf.link.window_bytes = 4 * PART;
	conf.limits.sessions = sessions;
	conf.limits.memory_bytes = memory_bytes;
	conf.limits.part_bytes = PART;
	assert_int_equal(sl_loop_open(&loop, &fail), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&cpu, NULL, &fail), SL_OK);
	counting_ops = *cpu.ops;
	counting_ops.alloc = count_alloc;
	counting = cpu;
	counting.ops = &counting_ops;
	taken = 0;
	device = (struct sl_device){.cpu = cpu, .be = counting, .text = "cpu"};
	if (sl_server_auth_open(&auth, &conf, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	if (sl_host_open(&host, loop, &conf, &auth, &device, &fail) != SL_OK)
		fail_msg("%s", fail.text);
}

static void open_host(int sessions, int64_t memory_bytes)
{
	open_host_with(NULL, sessions, memory_bytes);
}

static void close_host(void)
{
	bool gone = false;

	sl_host_close(host, closed, &gone);
	sl_loop_run(loop);
	assert_true(gone);
	sl_server_auth_close(&auth);
	sl_loop_close(loop);
	cpu.ops->close(&cpu);
}

/* ---- the loop, until something is so */

struct wait {
	struct sl_timer *timer;
	const int *count;
	int least, turns;
};

static void look(void *arg)
{
	struct wait *w = arg;

	if (++w->turns * STEP_MS > GIVE_UP_MS || (w->count && *w->count >= w->least))
		sl_loop_stop(loop);
}

static void await(const int *count, int least)
{
	struct wait w = {.count = count, .least = least};
	struct sl_fail fail;

	assert_int_equal(sl_timer_open(&w.timer, loop, look, &w, &fail), SL_OK);
	sl_timer_start(w.timer, STEP_MS, STEP_MS);
	sl_loop_run(loop);
	sl_timer_close(w.timer);
	if (*count < least)
		fail_msg("waited in vain");
}

/* One look at the clock. */
static void turn(void)
{
	struct wait w = {.turns = GIVE_UP_MS / STEP_MS};
	struct sl_fail fail;

	assert_int_equal(sl_timer_open(&w.timer, loop, look, &w, &fail), SL_OK);
	sl_timer_start(w.timer, STEP_MS, STEP_MS);
	sl_loop_run(loop);
	sl_timer_close(w.timer);
}

/* ---- raw clients */

static void on_message(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	struct raw *c = arg;
	struct sl_frame f;
	struct sl_fail fail;

	(void)peer;
	if (sl_wire_decode(header, payload, &f, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	c->came[f.kind]++;
	if (f.kind == SL_FRAME_PART)
		c->out_of_order += f.u.part.offset != c->payload_bytes % f.u.part.total;
	c->last[f.kind] = f;
	c->payload_bytes += payload.len;
}

static void ignore(void *arg, sl_peer peer)
{
	(void)arg;
	(void)peer;
}

static void on_malformed(void *arg, sl_peer peer, const char *why)
{
	(void)arg;
	(void)peer;
	fail_msg("%s", why);
}

static void connect_with(struct raw *c, const struct sl_transport_auth *with)
{
	static const struct sl_transport_events events = {on_message, ignore, on_malformed, ignore, NULL};
	const struct sl_transport_conf t = {
		.endpoint = sl_host_endpoint(host), .part_bytes = PART, .hwm = 64, .auth = with};
	struct sl_fail fail;

	memset(c, 0, sizeof *c);
	if (sl_transport_connect(&c->transport, loop, &t, &events, c, &fail) != SL_OK)
		fail_msg("%s", fail.text);
}

static void connect_raw(struct raw *c)
{
	connect_with(c, NULL);
}

static void say(struct raw *c, const struct sl_frame *f)
{
	const struct sl_payload none = {0};
	uint8_t header[SL_WIRE_HEADER_MAX];
	enum sl_err err;
	size_t len;

	assert_int_equal(sl_wire_encode(f, header, &len), SL_OK);
	/* BUSY: no connection stands yet */
	for (int i = 0; i < GIVE_UP_MS / STEP_MS; i++) {
		err = sl_transport_send(c->transport, SL_PEER_SERVER, (struct sl_bytes){header, len}, &none);
		if (err != SL_ERR_BUSY)
			break;
		turn();
	}
	assert_int_equal(err, SL_OK);
}

static void hang_up(struct raw *c)
{
	sl_transport_close(c->transport, 0);
}

/* ---- Hello */

static struct sl_agreement agreement_of(int classes, int image, int64_t batch)
{
	struct sl_agreement a = {
		.plan = {.model = {"mobilenet_v2", 0.25, classes, image, false, 0.2}, .batch = batch, .chunks = 1},
		.momentum = 0.9};
	struct sl_fail fail;

	snprintf(a.plan.cut.partition, sizeof a.plan.cut.partition, "1:-1");
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		assert_int_equal(sl_codec_parse("none", &a.codec[dir], &fail), SL_OK);
	sl_agreement_seal(&a);
	return a;
}

/* A Hello that the server's plan agrees with. */
static struct sl_frame hello_of(const struct sl_agreement *a, uint8_t session, uint64_t epoch, int64_t *weight_count)
{
	struct sl_frame f = {.kind = SL_FRAME_HELLO, .epoch = epoch};
	struct sl_hello *h = &f.u.hello;
	struct sl_plan *plan;
	struct sl_fail fail;

	*h = (struct sl_hello){.version = SL_WIRE_VERSION,
			       .n_held = 1,
			       .session = {session},
			       .epoch = epoch,
			       .software = "test",
			       .weights_source = SL_WEIGHTS_SEED,
			       .part_bytes = PART,
			       .window_bytes = 1 << 24,
			       .heartbeat_ms = 50,
			       .timeout_ms = 60000};
	if (sl_plan_open(&plan, &a->plan, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	sl_agreement_to_hello(a, plan, h);
	if (weight_count)
		*weight_count = plan->segment[SL_MIDDLE].weight_count;
	sl_plan_close(plan);
	return f;
}

static struct sl_frame small_hello(uint8_t session, uint64_t epoch)
{
	struct sl_agreement a = agreement_of(10, 32, 2);

	return hello_of(&a, session, epoch, NULL);
}

static const char *refusal(struct raw *c, enum sl_err code)
{
	await(&c->came[SL_FRAME_REFUSE], 1);
	assert_int_equal(c->last[SL_FRAME_REFUSE].u.refuse.code, code);
	return c->last[SL_FRAME_REFUSE].u.refuse.text;
}

/* ---- memory */

static void a_hello_beyond_the_memory_is_refused_before_any_is_taken(void **state)
{
	struct sl_agreement a = agreement_of(10, 224, 4096);
	struct sl_frame huge = hello_of(&a, 1, 1, NULL), small = small_hello(2, 1);
	struct raw one, other;

	(void)state;
	open_host(2, 64 << 20);
	connect_raw(&one);
	connect_raw(&other);
	say(&one, &huge);
	assert_non_null(strstr(refusal(&one, SL_ERR_LIMIT), "bytes on cpu, 0 of 67108864 are taken"));
	assert_int_equal(taken, 0);
	say(&other, &small); /* what was asked for in vain does not count against it */
	await(&other.came[SL_FRAME_WELCOME], 1);
	assert_in_range(taken, 1, 64 << 20);
	hang_up(&one);
	hang_up(&other);
	close_host();
}

/* The tail is the client's: a million classes are no business of the server's memory. */
static void weights_of_the_other_segments_take_no_memory(void **state)
{
	struct sl_agreement a = agreement_of(1000000, 32, 2);
	struct sl_frame hello = hello_of(&a, 1, 1, NULL);
	struct rusage use;
	struct raw c;

	(void)state;
	open_host(1, 256 << 20);
	connect_raw(&c);
	say(&c, &hello);
	await(&c.came[SL_FRAME_WELCOME], 1);
	getrusage(RUSAGE_SELF, &use);
	assert_in_range(use.ru_maxrss, 0, 3 << 20); /* KiB: the tail's weights alone are 5 GB */
	hang_up(&c);
	close_host();
}

/* ---- who may come in */

static void a_full_server_says_so(void **state)
{
	struct sl_frame first = small_hello(1, 3), second = small_hello(2, 5);
	struct raw one, other;

	(void)state;
	open_host(1, 256 << 20);
	connect_raw(&one);
	connect_raw(&other);
	say(&one, &first);
	await(&one.came[SL_FRAME_WELCOME], 1);
	say(&other, &second);
	assert_non_null(strstr(refusal(&other, SL_ERR_BUSY), "taken"));
	assert_int_equal(other.last[SL_FRAME_REFUSE].epoch, 5); /* of the Hello: the client's session takes no other */
	hang_up(&one);
	hang_up(&other);
	close_host();
}

static void the_newest_epoch_of_a_session_wins(void **state)
{
	struct sl_frame first = small_hello(1, 3), newer = small_hello(1, 4), same = newer;
	struct raw one, other, late;

	(void)state;
	open_host(1, 256 << 20);
	connect_raw(&one);
	connect_raw(&other);
	connect_raw(&late);
	say(&one, &first);
	await(&one.came[SL_FRAME_WELCOME], 1);
	say(&other, &newer); /* takes the only place */
	await(&other.came[SL_FRAME_WELCOME], 1);
	assert_non_null(strstr(refusal(&one, SL_ERR_PEER_LOST), "replaced by epoch 4"));
	say(&late, &same);
	assert_non_null(strstr(refusal(&late, SL_ERR_PROTOCOL), "epoch 4"));
	memset(&late.came, 0, sizeof late.came);
	say(&late, &first);
	refusal(&late, SL_ERR_PROTOCOL);
	hang_up(&one);
	hang_up(&other);
	hang_up(&late);
	close_host();
}

static void strangers_hear_what_is_wrong(void **state)
{
	const struct sl_frame beat = {.kind = SL_FRAME_HEARTBEAT, .epoch = 9};
	const struct sl_payload none = {0};
	static const uint8_t garbage[] = {0xff, 0x00, 0x17};
	struct raw c;

	(void)state;
	open_host(1, 256 << 20);
	connect_raw(&c);
	say(&c, &beat);
	assert_non_null(strstr(refusal(&c, SL_ERR_PEER_LOST), "begin with Hello"));
	assert_int_equal(c.last[SL_FRAME_REFUSE].epoch, 9);
	c.came[SL_FRAME_REFUSE] = 0;
	assert_int_equal(
		sl_transport_send(c.transport, SL_PEER_SERVER, (struct sl_bytes){garbage, sizeof garbage}, &none),
		SL_OK);
	assert_non_null(strstr(refusal(&c, SL_ERR_PROTOCOL), "malformed frame"));
	assert_int_equal(c.last[SL_FRAME_REFUSE].epoch, 0);
	hang_up(&c);
	close_host();
}

static void a_silent_client_is_lost(void **state)
{
	struct sl_frame hello = small_hello(1, 1);
	struct raw c;

	(void)state;
	hello.u.hello.timeout_ms = 150;
	open_host(1, 256 << 20);
	connect_raw(&c);
	say(&c, &hello);
	assert_non_null(strstr(refusal(&c, SL_ERR_PEER_LOST), "limit 150 ms"));
	assert_int_equal(c.came[SL_FRAME_WELCOME], 1);
	/* how many depends on how long the session took to open: the clock of its silence starts then */
	assert_true(c.came[SL_FRAME_HEARTBEAT] >= 1);
	hang_up(&c);
	close_host();
}

/* The second is gathered into the memory that the first is sent from: not before it has left. */
static void weights_can_be_fetched_while_they_are_sent(void **state)
{
	struct sl_agreement a = agreement_of(10, 32, 2);
	const struct sl_frame fetch = {.kind = SL_FRAME_FETCH, .epoch = 1};
	struct sl_frame hello, credit = {.kind = SL_FRAME_CREDIT, .epoch = 1};
	uint64_t credited = 0, total;
	int64_t count;
	struct raw c;

	(void)state;
	hello = hello_of(&a, 1, 1, &count);
	hello.u.hello.window_bytes = 2 * PART;
	total = (uint64_t)count * sizeof(float);
	open_host(1, 256 << 20);
	connect_raw(&c);
	say(&c, &hello);
	await(&c.came[SL_FRAME_WELCOME], 1);
	say(&c, &fetch);
	await(&c.came[SL_FRAME_PART], 2); /* and there the credit ends */
	say(&c, &fetch);
	while (c.payload_bytes < 2 * total) {
		credit.u.credit.bytes = c.payload_bytes - credited;
		credited = c.payload_bytes;
		say(&c, &credit);
		await(&c.came[SL_FRAME_PART], c.came[SL_FRAME_PART] + 1);
		assert_int_equal(c.last[SL_FRAME_PART].u.part.total, total);
	}
	assert_int_equal(c.payload_bytes, 2 * total);
	assert_int_equal(c.out_of_order, 0);
	assert_int_equal(c.came[SL_FRAME_REFUSE], 0);
	hang_up(&c);
	close_host();
}

/* ---- with keys */

static struct auth_files files;
static struct sl_keypair server_pair, pair[3];

static void allow(unsigned which)
{
	char key[SL_KEY_TEXT];
	FILE *file = fopen(files.clients, "w");

	assert_non_null(file);
	for (int i = 0; i < 3; i++) {
		sl_key_print(&pair[i].public_key, key);
		if (which & 1u << i)
			fprintf(file, "%s edge-%d\n", key, i);
	}
	assert_int_equal(fclose(file), 0);
}

static void open_secure_host(int sessions)
{
	const char *dir = getenv("TMPDIR");
	struct sl_fail fail;

	if (!zmq_has("curve"))
		skip();
	snprintf(files.secret_key, sizeof files.secret_key, "%s/host-%d.key", dir ? dir : "/tmp", (int)getpid());
	snprintf(files.clients, sizeof files.clients, "%s/host-%d.clients", dir ? dir : "/tmp", (int)getpid());
	unlink(files.secret_key);
	assert_int_equal(sl_keypair_make(&server_pair, NULL), SL_OK);
	for (int i = 0; i < 3; i++)
		assert_int_equal(sl_keypair_make(&pair[i], NULL), SL_OK);
	assert_int_equal(sl_keypair_save(&server_pair, files.secret_key, &fail), SL_OK);
	allow(7);
	open_host_with(&files, sessions, 1 << 30);
}

static void close_secure_host(void)
{
	close_host();
	unlink(files.secret_key);
	unlink(files.clients);
}

static void connect_as(struct raw *c, int i)
{
	static struct sl_transport_auth with[3];

	with[i] = (struct sl_transport_auth){.own = &pair[i], .server = &server_pair.public_key};
	connect_with(c, &with[i]);
}

static const char *print_of(int i)
{
	static char print[SL_FINGERPRINT];

	sl_key_fingerprint(&pair[i].public_key, print);
	return print;
}

static void a_session_s_id_is_worth_nothing_without_its_key(void **state)
{
	struct sl_frame mine = small_hello(1, 3), stolen = small_hello(1, 4), beat = {.kind = SL_FRAME_HEARTBEAT};
	struct raw owner, thief;
	char *status;
	int beats;

	(void)state;
	open_secure_host(4);
	connect_as(&owner, 0);
	connect_as(&thief, 1);
	say(&owner, &mine);
	await(&owner.came[SL_FRAME_WELCOME], 1);
	say(&thief, &stolen);
	assert_non_null(strstr(refusal(&thief, SL_ERR_AUTH), print_of(1)));
	beats = owner.came[SL_FRAME_HEARTBEAT]; /* the owner goes on */
	beat.epoch = 3;
	say(&owner, &beat);
	await(&owner.came[SL_FRAME_HEARTBEAT], beats + 2);
	assert_int_equal(owner.came[SL_FRAME_REFUSE], 0);
	status = sl_host_status(host);
	assert_non_null(strstr(status, "edge-0 "));
	assert_non_null(strstr(status, print_of(0)));
	free(status);
	hang_up(&thief);
	connect_as(&thief, 0); /* the right key, in a new connection, may */
	say(&thief, &stolen);
	await(&thief.came[SL_FRAME_WELCOME], 1);
	refusal(&owner, SL_ERR_PEER_LOST);
	hang_up(&owner);
	hang_up(&thief);
	close_secure_host();
}

static void checkpoints_are_their_owner_s(void **state)
{
	static const uint8_t session[16] = {7};
	struct sl_key one = {{1}}, other = {{2}};
	struct sl_keep plain, mine, again, stolen;

	(void)state;
	sl_keep_open(&plain, "store", session, NULL, NULL, "cpu");
	sl_keep_open(&mine, "store", session, &one, NULL, "cpu");
	sl_keep_open(&again, "store", session, &one, NULL, "cpu");
	sl_keep_open(&stolen, "store", session, &other, NULL, "cpu");
	assert_string_equal(plain.prefix, "session-07000000000000000000000000000000");
	assert_string_equal(mine.prefix, again.prefix);
	assert_int_equal(strlen(mine.prefix), strlen(plain.prefix) + SL_FINGERPRINT);
	assert_string_not_equal(mine.prefix, stolen.prefix);
}

static void a_key_has_so_many_sessions_and_no_more(void **state)
{
	struct sl_frame hello[4] = {small_hello(1, 1), small_hello(2, 1), small_hello(3, 1), small_hello(4, 1)};
	struct sl_frame again = small_hello(2, 2);
	struct raw c[5];

	(void)state;
	open_secure_host(4);
	for (int i = 0; i < 4; i++) {
		connect_as(&c[i], i == 3);
		say(&c[i], &hello[i]);
		if (i != 2)
			await(&c[i].came[SL_FRAME_WELCOME], 1);
		else
			assert_non_null(strstr(refusal(&c[i], SL_ERR_BUSY), "has 2 sessions"));
	}
	connect_as(&c[4], 0); /* takes the place of one that counts */
	say(&c[4], &again);
	await(&c[4].came[SL_FRAME_WELCOME], 1);
	for (int i = 0; i < 5; i++)
		hang_up(&c[i]);
	close_secure_host();
}

static void a_revoked_key_is_out_at_once_and_a_new_one_in(void **state)
{
	struct sl_frame one = small_hello(1, 1), two = small_hello(2, 1), more = small_hello(3, 1);
	struct raw c[3];

	(void)state;
	open_secure_host(4);
	connect_as(&c[0], 0);
	connect_as(&c[1], 1);
	say(&c[0], &one);
	say(&c[1], &two);
	await(&c[0].came[SL_FRAME_WELCOME], 1);
	await(&c[1].came[SL_FRAME_WELCOME], 1);
	allow(6);
	sl_host_reload(host);
	assert_non_null(strstr(refusal(&c[0], SL_ERR_AUTH), print_of(0)));
	c[0].came[SL_FRAME_REFUSE] = 0;
	for (int i = 0; i < 20; i++) /* until the session's place is cleared */
		turn();
	say(&c[0], &more); /* on the connection that stood before */
	assert_non_null(strstr(refusal(&c[0], SL_ERR_AUTH), print_of(0)));
	connect_as(&c[2], 2);
	say(&c[2], &more);
	await(&c[2].came[SL_FRAME_WELCOME], 1);
	assert_int_equal(c[1].came[SL_FRAME_REFUSE], 0);
	unlink(files.clients); /* what cannot be read changes nothing */
	sl_host_reload(host);
	turn();
	assert_int_equal(c[1].came[SL_FRAME_REFUSE] + c[2].came[SL_FRAME_REFUSE], 0);
	for (int i = 0; i < 3; i++)
		hang_up(&c[i]);
	close_secure_host();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hello_beyond_the_memory_is_refused_before_any_is_taken),
		cmocka_unit_test(weights_of_the_other_segments_take_no_memory),
		cmocka_unit_test(a_full_server_says_so),
		cmocka_unit_test(the_newest_epoch_of_a_session_wins),
		cmocka_unit_test(strangers_hear_what_is_wrong),
		cmocka_unit_test(a_silent_client_is_lost),
		cmocka_unit_test(weights_can_be_fetched_while_they_are_sent),
		cmocka_unit_test(a_session_s_id_is_worth_nothing_without_its_key),
		cmocka_unit_test(checkpoints_are_their_owner_s),
		cmocka_unit_test(a_key_has_so_many_sessions_and_no_more),
		cmocka_unit_test(a_revoked_key_is_out_at_once_and_a_new_one_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
