#include "tests/support/host_rig.h"
#include "tests/support/unit.h"

#include <ftw.h>

#include "common/codec/codec.h"
#include "common/link/proof.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/asked.h"

struct host_rig host_rig;

static enum sl_err count_alloc(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail)
{
	host_rig.taken += bytes;
	/* fails the test instead of exhausting the machine */
	return bytes > (size_t)1 << 30 ? sl_fail_set(fail, SL_ERR_NOMEM, "too much for a test")
				       : host_rig.cpu.ops->alloc(be, bytes, out, fail);
}

static void closed(void *arg)
{
	*(bool *)arg = true;
	sl_loop_stop(host_rig.loop);
}

void host_rig_open_with(const struct host_auth_files *files, int sessions, int64_t memory_bytes)
{
	static int opened; /* a failed test leaves its host behind, so every host needs a name of its own */
	struct sl_fail fail;

	memset(&host_rig.conf, 0, sizeof host_rig.conf);
	if (files) {
		snprintf(host_rig.conf.auth.secret_key, sizeof host_rig.conf.auth.secret_key, "%s", files->secret_key);
		snprintf(host_rig.conf.auth.clients, sizeof host_rig.conf.auth.clients, "%s", files->clients);
	}
	snprintf(host_rig.conf.listen, sizeof host_rig.conf.listen, files ? "tcp://127.0.0.1:*" : "inproc://host-%d",
		 opened++);
	if (host_rig.store)
		snprintf(host_rig.conf.store, sizeof host_rig.conf.store, "%s", host_rig.store);
	host_rig.conf.limits.sessions_per_key = 2;
	host_rig.conf.limits.connections_per_s = 100000;
	host_rig.conf.link.window_bytes = 4 * HOST_RIG_PART;
	host_rig.conf.limits.sessions = sessions;
	host_rig.conf.limits.memory_bytes = memory_bytes;
	host_rig.conf.limits.part_bytes = HOST_RIG_PART;
	host_rig.conf.limits.report_samples = 20;
	host_rig.conf.limits.piece_ms = host_rig.piece_ms;
	assert_int_equal(sl_loop_open(&host_rig.loop, &fail), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&host_rig.cpu, NULL, &fail), SL_OK);
	host_rig.counting_ops = *host_rig.cpu.ops;
	host_rig.counting_ops.alloc = count_alloc;
	host_rig.counting = host_rig.cpu;
	host_rig.counting.ops = &host_rig.counting_ops;
	host_rig.taken = 0;
	host_rig.device = (struct sl_device){.cpu = host_rig.cpu, .be = host_rig.counting, .text = "cpu"};
	if (sl_server_auth_open(&host_rig.auth, &host_rig.conf, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	if (sl_host_open(&host_rig.host, host_rig.loop, &host_rig.conf, &host_rig.auth, &host_rig.device, &fail) !=
	    SL_OK)
		fail_msg("%s", fail.text);
}

void host_rig_open(int sessions, int64_t memory_bytes)
{
	host_rig_open_with(NULL, sessions, memory_bytes);
}

void host_rig_close(void)
{
	bool gone = false;

	sl_host_close(host_rig.host, closed, &gone);
	sl_loop_run(host_rig.loop);
	assert_true(gone);
	sl_server_auth_close(&host_rig.auth);
	sl_loop_close(host_rig.loop);
	host_rig.cpu.ops->close(&host_rig.cpu);
}

static char store[] = "/tmp/split-host.XXXXXX";

void host_rig_make_store(void)
{
	memcpy(store + sizeof store - 7, "XXXXXX", 6);
	assert_non_null(mkdtemp(store));
	host_rig.store = store;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

void host_rig_remove_store(void)
{
	host_rig.store = NULL;
	assert_int_equal(nftw(store, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

struct wait {
	struct sl_timer *timer;
	const int *count;
	int least, turns;
};

static void look(void *arg)
{
	struct wait *w = arg;

	if (++w->turns * HOST_RIG_STEP_MS > HOST_RIG_GIVE_UP_MS || (w->count && *w->count >= w->least))
		sl_loop_stop(host_rig.loop);
}

void host_rig_await(const int *count, int least)
{
	struct wait w = {.count = count, .least = least};
	struct sl_fail fail;

	assert_int_equal(sl_timer_open(&w.timer, host_rig.loop, look, &w, &fail), SL_OK);
	sl_timer_start(w.timer, HOST_RIG_STEP_MS, HOST_RIG_STEP_MS);
	sl_loop_run(host_rig.loop);
	sl_timer_close(w.timer);
	if (*count < least)
		fail_msg("waited in vain");
}

void host_rig_turn(void)
{
	struct wait w = {.turns = HOST_RIG_GIVE_UP_MS / HOST_RIG_STEP_MS};
	struct sl_fail fail;

	assert_int_equal(sl_timer_open(&w.timer, host_rig.loop, look, &w, &fail), SL_OK);
	sl_timer_start(w.timer, HOST_RIG_STEP_MS, HOST_RIG_STEP_MS);
	sl_loop_run(host_rig.loop);
	sl_timer_close(w.timer);
}

const struct sl_secret *host_rig_secret(uint8_t session)
{
	static struct sl_secret secret[256];
	const uint8_t seed[SL_SECRET_BYTES] = {session, 1};

	if (!secret[session].seed[1])
		sl_secret_from(&secret[session], seed);
	return &secret[session];
}

/* Answers a Challenge. A session whose secret the rig does not know stays unproven. */
static void prove(struct host_client *c, const uint8_t nonce[SL_NONCE_BYTES])
{
	struct sl_payload payload = {0};
	uint8_t header[SL_WIRE_HEADER_MAX];
	size_t len;

	for (int i = 0; i < 256; i++) {
		const struct sl_secret *secret = host_rig_secret((uint8_t)i);

		if (memcmp(secret->session, c->hello.u.hello.session, sizeof secret->session) == 0 &&
		    sl_proof_make(&c->hello.u.hello, secret, nonce) != SL_OK)
			fail_msg("no proof");
	}
	payload.bytes = sl_proof_lacks(&c->hello.u.hello) ? (struct sl_bytes){0} : c->hello.payload;
	assert_int_equal(sl_wire_encode(&c->hello, header, &len), SL_OK);
	assert_int_equal(sl_transport_send(c->transport, SL_PEER_SERVER, (struct sl_bytes){header, len}, &payload),
			 SL_OK);
}

static void on_message(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	struct host_client *c = arg;
	struct sl_frame f;
	struct sl_fail fail;

	(void)peer;
	if (sl_wire_decode(header, payload, &f, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	c->came[f.kind]++;
	c->header_bytes[f.kind] += header.len;
	if (f.kind == SL_FRAME_PART) {
		c->out_of_order += f.u.part.offset != c->payload_bytes % f.u.part.total;
		c->parts_hash = c->parts_hash * 31 + f.u.part.xxh3;
	}
	c->last[f.kind] = f;
	c->payload_bytes += payload.len;
	if (f.kind == SL_FRAME_CHALLENGE && !f.u.challenge.above && !c->mute)
		prove(c, f.u.challenge.nonce);
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

void host_rig_connect_with(struct host_client *c, const struct sl_transport_auth *with)
{
	static const struct sl_transport_events events = {on_message, ignore, on_malformed, ignore, NULL};
	const struct sl_transport_conf t = {
		.endpoint = sl_host_endpoint(host_rig.host), .part_bytes = HOST_RIG_PART, .hwm = 64, .auth = with};
	struct sl_fail fail;

	memset(c, 0, sizeof *c);
	if (sl_transport_connect(&c->transport, host_rig.loop, &t, &events, c, &fail) != SL_OK)
		fail_msg("%s", fail.text);
}

void host_rig_connect_raw(struct host_client *c)
{
	host_rig_connect_with(c, NULL);
}

static void send_frame(struct host_client *c, const struct sl_frame *f, const struct sl_payload *payload)
{
	uint8_t header[SL_WIRE_HEADER_MAX];
	enum sl_err err;
	size_t len;

	assert_int_equal(sl_wire_encode(f, header, &len), SL_OK);
	/* BUSY: not yet connected */
	for (int i = 0; i < HOST_RIG_GIVE_UP_MS / HOST_RIG_STEP_MS; i++) {
		err = sl_transport_send(c->transport, SL_PEER_SERVER, (struct sl_bytes){header, len}, payload);
		if (err != SL_ERR_BUSY)
			break;
		host_rig_turn();
	}
	assert_int_equal(err, SL_OK);
}

void host_rig_say(struct host_client *c, const struct sl_frame *f)
{
	struct sl_payload payload = {0};

	if (f->kind == SL_FRAME_HELLO) {
		c->hello = *f;
		if (!sl_proof_lacks(&f->u.hello))
			payload.bytes = f->payload;
	}
	send_frame(c, f, &payload);
}

void host_rig_say_part(struct host_client *c, struct sl_frame *part, struct sl_bytes payload)
{
	part->u.part.xxh3 = sl_wire_hash(payload);
	send_frame(c, part, &(struct sl_payload){.bytes = payload});
}

void host_rig_hang_up(struct host_client *c)
{
	sl_transport_close(c->transport, 0);
}

struct asked host_rig_agreement_of(int classes, int image, int64_t batch)
{
	struct asked a = {.agreement.agreed = sl_agreed_default(),
			  .split = {.model = {"mobilenet_v2", 0.25, classes, image, false, 0.2, 0, 0, 0, 0},
				    .cut = {.partition = "1:-1"}}};
	struct sl_fail fail;

	a.agreement.agreed.batch = (int)batch;
	a.agreement.agreed.chunks = 1;
	assert_int_equal(asked_settle(&a, &fail), SL_OK);
	return a;
}

/* Keeps a Hello's payload until about 100 more have been made. */
static struct sl_bytes keep_text(struct sl_bytes text)
{
	static struct sl_bytes kept[128];
	static int next;
	struct sl_bytes *place = &kept[next++ % 128];

	free((void *)(uintptr_t)place->data);
	*place = text;
	return text;
}

struct sl_frame host_rig_hello_of(const struct asked *a, uint8_t session, uint64_t epoch, int64_t *weight_count)
{
	struct sl_frame f = {.kind = SL_FRAME_HELLO, .epoch = epoch};
	struct sl_hello *h = &f.u.hello;
	struct sl_plan *plan;
	struct sl_fail fail;

	*h = (struct sl_hello){.version = SL_WIRE_VERSION,
			       .n_held = 1,
			       .epoch = epoch,
			       .software = "test",
			       .weights_source = SL_WEIGHTS_SEED,
			       .part_bytes = HOST_RIG_PART,
			       .window_bytes = 1 << 24,
			       .heartbeat_ms = 50,
			       .timeout_ms = 60000};
	memcpy(h->session, host_rig_secret(session)->session, sizeof h->session);
	if (plan_open(&plan, &a->split, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	if (sl_agreement_say(&a->agreement, plan, &f.payload, h, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	keep_text(f.payload);
	if (weight_count)
		*weight_count = plan->segment[SL_MIDDLE].weight_count;
	sl_plan_close(plan);
	return f;
}

void host_rig_reword(struct sl_frame *hello, const char *from, const char *to)
{
	const char *text = (const char *)hello->payload.data,
		   *at = memmem(text, hello->payload.len, from, strlen(from));
	char *new;
	int len;

	assert_non_null(at);
	len = asprintf(&new, "%.*s%s%.*s", (int)(at - text), text, to,
		       (int)(hello->payload.len - (size_t)(at - text) - strlen(from)), at + strlen(from));
	assert_true(len > 0);
	hello->payload = keep_text((struct sl_bytes){(const uint8_t *)new, (size_t)len});
	hello->u.hello.payload_xxh3 = sl_wire_hash(hello->payload);
}

struct sl_frame host_rig_small_hello(uint8_t session, uint64_t epoch)
{
	struct asked a = host_rig_agreement_of(10, 32, 2);

	return host_rig_hello_of(&a, session, epoch, NULL);
}

const char *host_rig_refusal(struct host_client *c, enum sl_err code)
{
	host_rig_await(&c->came[SL_FRAME_REFUSE], 1);
	assert_int_equal(c->last[SL_FRAME_REFUSE].u.refuse.code, code);
	return c->last[SL_FRAME_REFUSE].u.refuse.text;
}
