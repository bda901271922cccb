/* The server's host against clients that break the rules: hand-made frames over the in-process transport. */
#include <sys/resource.h>

#include "server/host/host_impl.h"
#include "tests/support/asked.h"
#include "tests/support/host_rig.h"
#include "tests/support/unit.h"

/* ---- memory */

static void a_hello_beyond_the_memory_is_refused_before_any_is_taken(void **state)
{
	struct asked a = host_rig_agreement_of(10, 224, 4096);
	struct sl_frame huge = host_rig_hello_of(&a, 1, 1, NULL), small = host_rig_small_hello(2, 1);
	struct host_client one, other;

	host_rig_open(2, 64 << 20);
	host_rig_connect_raw(&one);
	host_rig_connect_raw(&other);
	host_rig_say(&one, &huge);
	assert_non_null(strstr(host_rig_refusal(&one, SL_ERR_LIMIT), "67108864 of 67108864 are free"));
	assert_int_equal(host_rig.taken, 0);
	host_rig_say(&other, &small); /* the refused request does not count against it */
	host_rig_await(&other.came[SL_FRAME_WELCOME], 1);
	assert_in_range(host_rig.taken, 1, 64 << 20);
	host_rig_hang_up(&one);
	host_rig_hang_up(&other);
	host_rig_close();
}

/* The bytes that a session needs, as a server of `memory_bytes` says when it refuses it; 0: it is let in. */
static uint64_t asks(const char *codec, int64_t memory_bytes)
{
	struct asked a = host_rig_agreement_of(10, 32, 2);
	unsigned long long need = 0, codecs = 0;
	struct sl_frame hello;
	struct host_client c;
	struct sl_fail fail;

	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		snprintf(a.agreement.agreed.codec[dir], sizeof a.agreement.agreed.codec[dir], "%s", codec);
	assert_int_equal(asked_settle(&a, &fail), SL_OK);
	hello = host_rig_hello_of(&a, 1, 1, NULL);
	host_rig_open(1, memory_bytes);
	host_rig_connect_raw(&c);
	host_rig_say(&c, &hello);
	while (c.came[SL_FRAME_WELCOME] + c.came[SL_FRAME_REFUSE] == 0)
		host_rig_turn();
	if (c.came[SL_FRAME_REFUSE]) {
		const char *text = host_rig_refusal(&c, SL_ERR_LIMIT);

		assert_int_equal(sscanf(text, "the session needs %llu bytes on cpu", &need), 1);
		assert_int_equal(sscanf(strstr(text, "codecs "), "codecs %llu", &codecs), 1);
		assert_int_equal(host_rig.taken, 0);
		assert_in_range(codecs, 1, need);
		assert_non_null(strstr(text, "take a smaller batch"));
	}
	host_rig_hang_up(&c);
	host_rig_close();
	return need;
}

/* Residuals, warm factors and places of codecs count as the session's memory. */
static void what_codecs_keep_counts(void **state)
{
	uint64_t plain = asks("none", 1 << 20), heavy = asks("lowrank:1,warm=true,ef=true|zstd:3", 1 << 20);

	assert_in_range(heavy, plain + (1 << 20), 1 << 30);
	assert_int_equal(asks("none", (int64_t)plain), 0);
	assert_int_equal(asks("none", (int64_t)plain - 1), plain);
	assert_int_equal(asks("lowrank:1,warm=true,ef=true|zstd:3", (int64_t)heavy - 1), heavy);
	assert_int_equal(asks("lowrank:1,warm=true,ef=true|zstd:3", (int64_t)heavy), 0);
}

/* A session that would fit without the others is told to come back. So is a client whose old link has
 * ended, if the server has not noticed: that link's memory is freed only after the new link's Hello. */
static void memory_that_others_hold_is_worth_waiting_for(void **state)
{
	int64_t need = (int64_t)asks("none", 1 << 20);
	struct sl_frame first = host_rig_small_hello(1, 1), other = host_rig_small_hello(2, 1);
	struct host_client one, two, again;
	int tries = 0;

	host_rig_open(2, need);
	host_rig_connect_raw(&one);
	host_rig_say(&one, &first);
	host_rig_await(&one.came[SL_FRAME_WELCOME], 1);
	host_rig_connect_raw(&two);
	host_rig_say(&two, &other);
	assert_non_null(strstr(host_rig_refusal(&two, SL_ERR_BUSY), "; 0 of "));
	host_rig_hang_up(&two);
	do {
		struct sl_frame next = host_rig_small_hello(1, (uint64_t)++tries + 1);

		if (tries > 1)
			host_rig_hang_up(&again);
		host_rig_connect_raw(&again);
		host_rig_say(&again, &next);
		while (again.came[SL_FRAME_WELCOME] + again.came[SL_FRAME_REFUSE] == 0)
			host_rig_turn();
		if (again.came[SL_FRAME_REFUSE])
			host_rig_refusal(&again, SL_ERR_BUSY);
	} while (!again.came[SL_FRAME_WELCOME] && tries < 1000);
	assert_int_equal(again.came[SL_FRAME_WELCOME], 1);
	host_rig_hang_up(&one);
	host_rig_hang_up(&again);
	host_rig_close();
}

static enum sl_err no_alloc(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail)
{
	(void)be;
	(void)out;
	return sl_fail_set(fail, SL_ERR_NOMEM, "%zu bytes refused", bytes);
}

/* An allocation may fail although the figures admit the
 * session: other programs hold memory, too, and may free it. */
static void memory_that_is_refused_is_worth_waiting_for(void **state)
{
	const struct sl_frame first = host_rig_small_hello(1, 1), bye = {.kind = SL_FRAME_BYE, .epoch = 1};
	enum sl_err (*alloc)(struct sl_backend *, size_t, void **, struct sl_fail *);
	struct host_client one, two;

	host_rig_open(2, 0);
	alloc = host_rig.counting_ops.alloc;
	host_rig_connect_raw(&one);
	host_rig_say(&one, &first);
	host_rig_await(&one.came[SL_FRAME_WELCOME], 1);
	for (uint8_t tries = 0; tries < 4; tries++) { /* one beside the session, three while it ends and after that */
		struct sl_frame next = host_rig_small_hello((uint8_t)(tries + 2), 1);
		bool served = tries == 3;

		host_rig.counting_ops.alloc = served ? alloc : no_alloc;
		host_rig_connect_raw(&two);
		host_rig_say(&two, &next);
		host_rig_await(&two.came[served ? SL_FRAME_WELCOME : SL_FRAME_REFUSE], 1);
		if (!served)
			assert_non_null(strstr(host_rig_refusal(&two, SL_ERR_BUSY), "bytes refused; come back"));
		host_rig_hang_up(&two);
		if (!tries)
			host_rig_say(&one, &bye);
	}
	host_rig_hang_up(&one);
	host_rig_close();
}

/* The largest session that a Hello can name is refused with a message, and no memory is taken for it. */
static void a_hello_as_large_as_can_be(void **state)
{
	struct asked a = host_rig_agreement_of(10, 2048, 1 << 20);
	struct host_client c;
	struct sl_frame hello;
	struct sl_fail fail;

	a.agreement.agreed.chunks = 256;
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		strcpy(a.agreement.agreed.codec[dir], "lowrank:1024,warm=true,ef=true|topk:1|quant:16,block=8|zstd:19");
	assert_int_equal(asked_settle(&a, &fail), SL_OK);
	hello = host_rig_hello_of(&a, 1, 1, NULL);
	host_rig_open(1, 64 << 20);
	host_rig_connect_raw(&c);
	host_rig_say(&c, &hello);
	assert_true(strlen(host_rig_refusal(&c, SL_ERR_LIMIT)) > 20);
	assert_int_equal(host_rig.taken, 0);
	host_rig_hang_up(&c);
	host_rig_close();
}

/* A Hello's optimizer, one bound at a time. Values that are not finite make a malformed frame (test_wire.c). */
static void an_optimizer_out_of_bounds_is_refused(void **state)
{
	static const struct {
		const char *lines, *key;
		enum sl_err err;
		const char *says;
	} bad[] = {
		{"kind = adam\ntrain.optimizer.eps = 0\n", "train.optimizer.eps", SL_ERR_LIMIT, "got \"0\""},
		{"kind = adamw\ntrain.optimizer.beta1 = 1\n", "train.optimizer.beta1", SL_ERR_LIMIT, "0.999999"},
		{"kind = adamw\ntrain.optimizer.beta2 = -0.5\n", "train.optimizer.beta2", SL_ERR_LIMIT, "-0.5"},
		{"kind = adamw\ntrain.optimizer.weight_decay = 1e+300\n", "train.optimizer.weight_decay", SL_ERR_LIMIT,
		 "1e+300"},
		{"kind = lion\n", "train.optimizer.kind", SL_ERR_CONFIG, "sgd, adam or adamw"},
		{"kind = adam\ntrain.optimizer.momentum = 0.5\n", "", SL_ERR_PROTOCOL, "another optimizer"},
		{"eps = 1e-07\n", "", SL_ERR_PROTOCOL, "another optimizer"},
	};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct sl_frame hello = host_rig_small_hello(1, 1);
		struct host_client c;

		char lines[256];

		snprintf(lines, sizeof lines, "train.chunks = 1\ntrain.optimizer.%s", bad[i].lines);
		host_rig_reword(&hello, "train.chunks = 1\n", lines);
		host_rig_open(1, 256 << 20);
		host_rig_connect_raw(&c);
		host_rig_say(&c, &hello);
		assert_non_null(strstr(host_rig_refusal(&c, bad[i].err), bad[i].says));
		assert_string_equal(c.last[SL_FRAME_REFUSE].u.refuse.key, bad[i].key);
		assert_int_equal(host_rig.taken, 0);
		host_rig_hang_up(&c);
		host_rig_close();
	}
}

/* The tail is the client's: its hundred thousand classes take no memory of the server. */
static void weights_of_the_other_segments_take_no_memory(void **state)
{
	struct asked a = host_rig_agreement_of(100000, 32, 2);
	struct sl_frame hello = host_rig_hello_of(&a, 1, 1, NULL);
	struct rusage use;
	struct host_client c;

	host_rig_open(1, 256 << 20);
	host_rig_connect_raw(&c);
	host_rig_say(&c, &hello);
	host_rig_await(&c.came[SL_FRAME_WELCOME], 1);
	getrusage(RUSAGE_SELF, &use);
	assert_in_range(use.ru_maxrss, 0, 400 << 10); /* KiB: the tail's weights alone are 512 MB */
	host_rig_hang_up(&c);
	host_rig_close();
}

/* ---- who may connect */

static void a_full_server_says_so(void **state)
{
	struct sl_frame first = host_rig_small_hello(1, 3), second = host_rig_small_hello(2, 5);
	struct host_client one, other;

	host_rig_open(1, 256 << 20);
	host_rig_connect_raw(&one);
	host_rig_connect_raw(&other);
	host_rig_say(&one, &first);
	host_rig_await(&one.came[SL_FRAME_WELCOME], 1);
	host_rig_say(&other, &second);
	assert_non_null(strstr(host_rig_refusal(&other, SL_ERR_BUSY), "taken"));
	assert_int_equal(other.last[SL_FRAME_REFUSE].epoch, 5); /* the Hello's: the client expects no other */
	host_rig_hang_up(&one);
	host_rig_hang_up(&other);
	host_rig_close();
}

static void the_newest_epoch_of_a_session_wins(void **state)
{
	const struct sl_frame bye = {.kind = SL_FRAME_BYE, .epoch = 4};
	struct sl_frame first = host_rig_small_hello(1, 3), newer = host_rig_small_hello(1, 4);
	struct host_client one, other, late;

	host_rig_open(1, 256 << 20);
	host_rig_connect_raw(&one);
	host_rig_connect_raw(&other);
	host_rig_connect_raw(&late);
	host_rig_say(&one, &first);
	host_rig_await(&one.came[SL_FRAME_WELCOME], 1);
	host_rig_say(&other, &newer); /* takes the only place */
	host_rig_await(&other.came[SL_FRAME_WELCOME], 1);
	assert_non_null(strstr(host_rig_refusal(&one, SL_ERR_PEER_LOST), "replaced by a newer link"));
	for (int i = 0; i < 2; i++) { /* while the session is open, and after it has ended */
		struct sl_frame old = i ? first : newer;

		memset(&late.came, 0, sizeof late.came);
		host_rig_say(&late, &old);
		host_rig_await(&late.came[SL_FRAME_CHALLENGE], 2);
		assert_int_equal(late.last[SL_FRAME_CHALLENGE].u.challenge.above, 4);
		if (i)
			break;
		host_rig_say(&other, &bye);
		while (host_rig.host->session[0] || host_rig.host->session[1])
			host_rig_turn();
	}
	host_rig_hang_up(&one);
	host_rig_hang_up(&other);
	host_rig_hang_up(&late);
	host_rig_close();
}

/* ---- who owns a session */

/* Expects that the session of a client that trains goes on: it is answered, and was not ended. */
static void assert_serves(struct host_client *c, uint64_t epoch)
{
	const struct sl_frame beat = {.kind = SL_FRAME_HEARTBEAT, .epoch = epoch};
	int beats = c->came[SL_FRAME_HEARTBEAT];

	host_rig_say(c, &beat);
	host_rig_await(&c->came[SL_FRAME_HEARTBEAT], beats + 2);
	assert_int_equal(c->came[SL_FRAME_REFUSE], 0);
}

/* The thief has all that a server shows or hears: the session's id, its plan, and an earlier proof. */
static void a_session_is_nobody_s_who_lacks_its_secret(void **state)
{
	struct sl_frame mine = host_rig_small_hello(1, 3), stolen = host_rig_small_hello(1, 9), replayed;
	struct host_client owner, thief;

	host_rig_open(4, 256 << 20);
	host_rig_connect_raw(&owner);
	host_rig_connect_raw(&thief);
	thief.mute = true;
	host_rig_say(&owner, &mine);
	host_rig_await(&owner.came[SL_FRAME_WELCOME], 1);
	replayed = owner.hello;
	assert_false(sl_proof_lacks(&replayed.u.hello));
	host_rig_say(&thief, &stolen); /* it is asked for a proof, and not told the epoch */
	host_rig_await(&thief.came[SL_FRAME_CHALLENGE], 1);
	assert_int_equal(thief.last[SL_FRAME_CHALLENGE].u.challenge.above, 0);
	stolen.u.hello.proof[0] = 1;
	for (int i = 0; i < 2; i++) { /* a made-up proof, and the owner's earlier one */
		const struct sl_frame *hello = i ? &replayed : &stolen;

		host_rig_say(&thief, hello);
		if (i) { /* the last refusal used up the nonce */
			host_rig_await(&thief.came[SL_FRAME_CHALLENGE], 2);
			host_rig_say(&thief, hello);
		}
		assert_non_null(strstr(host_rig_refusal(&thief, SL_ERR_PROTOCOL), "not signed"));
		assert_null(strpbrk(thief.last[SL_FRAME_REFUSE].u.refuse.text, "0123456789"));
		thief.came[SL_FRAME_REFUSE] = 0;
		assert_serves(&owner, 3);
	}
	assert_int_equal(thief.came[SL_FRAME_WELCOME], 0);
	host_rig_hang_up(&owner);
	host_rig_hang_up(&thief);
	host_rig_close();
}

/* A newer link's Hello that is refused does not end the older link. */
static void a_hello_that_is_refused_ends_no_older_link(void **state)
{
	struct asked a = host_rig_agreement_of(10, 224, 4096);
	struct sl_frame mine = host_rig_small_hello(1, 3),
			newer[3] = {host_rig_hello_of(&a, 1, 4, NULL), host_rig_small_hello(1, 5),
				    host_rig_small_hello(1, 6)};
	static const enum sl_err code[3] = {SL_ERR_LIMIT, SL_ERR_MISMATCH, SL_ERR_LIMIT};
	struct host_client owner, again;

	newer[1].u.hello.plan_hash[0] ^= 1;
	newer[2].u.hello.part_bytes = 1;
	host_rig_open(1, 64 << 20);
	host_rig_connect_raw(&owner);
	host_rig_say(&owner, &mine);
	host_rig_await(&owner.came[SL_FRAME_WELCOME], 1);
	for (int i = 0; i < 3; i++) {
		host_rig_connect_raw(&again);
		host_rig_say(&again, &newer[i]);
		(void)host_rig_refusal(&again, code[i]);
		assert_serves(&owner, 3);
		host_rig_hang_up(&again);
	}
	host_rig_hang_up(&owner);
	host_rig_close();
}

/* A client that does not answer its challenge takes no place and no memory. */
static void a_hello_without_a_proof_costs_no_place(void **state)
{
	struct sl_frame hello = host_rig_small_hello(1, 1), other = host_rig_small_hello(2, 1);
	struct host_client mute[8], good;

	host_rig_open(1, 256 << 20);
	for (int i = 0; i < 8; i++) {
		host_rig_connect_raw(&mute[i]);
		mute[i].mute = true;
		host_rig_say(&mute[i], &hello);
		host_rig_await(&mute[i].came[SL_FRAME_CHALLENGE], 1);
	}
	assert_int_equal(host_rig.taken, 0);
	host_rig_connect_raw(&good);
	host_rig_say(&good, &other);
	host_rig_await(&good.came[SL_FRAME_WELCOME], 1);
	for (int i = 0; i < 8; i++)
		host_rig_hang_up(&mute[i]);
	host_rig_hang_up(&good);
	host_rig_close();
}

static void strangers_hear_what_is_wrong(void **state)
{
	const struct sl_frame beat = {.kind = SL_FRAME_HEARTBEAT, .epoch = 9};
	const struct sl_payload none = {0};
	static const uint8_t garbage[] = {0xff, 0x00, 0x17};
	struct host_client c;

	host_rig_open(1, 256 << 20);
	host_rig_connect_raw(&c);
	host_rig_say(&c, &beat);
	assert_non_null(strstr(host_rig_refusal(&c, SL_ERR_PEER_LOST), "begins with Hello"));
	assert_int_equal(c.last[SL_FRAME_REFUSE].epoch, 9);
	c.came[SL_FRAME_REFUSE] = 0;
	assert_int_equal(
		sl_transport_send(c.transport, SL_PEER_SERVER, (struct sl_bytes){garbage, sizeof garbage}, &none),
		SL_OK);
	assert_non_null(strstr(host_rig_refusal(&c, SL_ERR_PROTOCOL), "malformed frame"));
	assert_int_equal(c.last[SL_FRAME_REFUSE].epoch, 0);
	host_rig_hang_up(&c);
	host_rig_close();
}

static void a_silent_client_is_lost(void **state)
{
	struct sl_frame hello = host_rig_small_hello(1, 1);
	struct host_client c;

	hello.u.hello.timeout_ms = 150;
	host_rig_open(1, 256 << 20);
	host_rig_connect_raw(&c);
	host_rig_say(&c, &hello);
	assert_non_null(strstr(host_rig_refusal(&c, SL_ERR_PEER_LOST), "link.timeout_ms: 150"));
	assert_int_equal(c.came[SL_FRAME_WELCOME], 1);
	/* The number depends on how long the session took to open: its silence is counted from then. */
	assert_true(c.came[SL_FRAME_HEARTBEAT] >= 1);
	host_rig_hang_up(&c);
	host_rig_close();
}

/* Both sides build the plan; only the server compares the hashes. */
static void another_plan_is_refused(void **state)
{
	struct sl_frame hello = host_rig_small_hello(1, 1);
	struct host_client c;

	hello.u.hello.plan_hash[15] ^= 1;
	host_rig_open(1, 256 << 20);
	host_rig_connect_raw(&c);
	host_rig_say(&c, &hello);
	assert_non_null(strstr(host_rig_refusal(&c, SL_ERR_MISMATCH), "the two versions build different plans"));
	assert_int_equal(host_rig.taken, 0);
	assert_int_equal(sl_host_counts(host_rig.host).links, 0);
	host_rig_hang_up(&c);
	host_rig_close();
}

static void weights_that_were_not_announced_are_refused(void **state)
{
	struct asked a = host_rig_agreement_of(10, 32, 2);
	static uint8_t zeros[HOST_RIG_PART];
	struct sl_frame hello, part = {.kind = SL_FRAME_PART, .epoch = 1, .u.part = {.what = SL_PART_WEIGHTS}};
	int64_t count;
	uint64_t total;
	struct host_client c;

	hello = host_rig_hello_of(&a, 1, 1, &count);
	hello.u.hello.weights_source = SL_WEIGHTS_HASH;
	memset(hello.u.hello.weights_hash, 0x77, sizeof hello.u.hello.weights_hash);
	total = (uint64_t)count * sizeof(float);
	host_rig_open(1, 256 << 20);
	host_rig_connect_raw(&c);
	host_rig_say(&c, &hello);
	host_rig_await(&c.came[SL_FRAME_WELCOME], 1);
	assert_true(c.last[SL_FRAME_WELCOME].u.welcome.need_weights);
	part.u.part.total = total;
	for (uint64_t at = 0; at < total; at += HOST_RIG_PART) {
		part.u.part.offset = at;
		host_rig_say_part(&c, &part,
				  (struct sl_bytes){zeros, total - at < HOST_RIG_PART ? total - at : HOST_RIG_PART});
	}
	assert_non_null(strstr(host_rig_refusal(&c, SL_ERR_MISMATCH), "do not have the hash that Hello announced"));
	host_rig_hang_up(&c);
	host_rig_close();
}

static uint64_t length_of(const struct sl_frame *f)
{
	uint8_t header[SL_WIRE_HEADER_MAX];
	size_t len;

	assert_int_equal(sl_wire_encode(f, header, &len), SL_OK);
	return len;
}

/* The number of the only session's connection; 0: there is no session. */
static uint64_t number(void)
{
	const struct sl_middle *m = host_rig.host->session[0];

	return m ? sl_middle_peer(m) : 0;
}

/* A peer that was turned away or has left gives its number back,
 * as numbers are limited. Each outcome is counted once. */
static void who_is_done_with_is_forgotten_and_counted(void **state)
{
	const struct sl_frame beat = {.kind = SL_FRAME_HEARTBEAT, .epoch = 1}, bye = {.kind = SL_FRAME_BYE, .epoch = 1};
	const struct sl_frame hello = host_rig_small_hello(1, 1), again = host_rig_small_hello(1, 2);
	struct sl_host_counts n;
	struct host_client c;

	host_rig_open(1, 256 << 20);
	host_rig_connect_raw(&c);
	host_rig_say(&c, &beat);
	(void)host_rig_refusal(&c, SL_ERR_PEER_LOST);
	host_rig_say(&c, &hello);
	host_rig_await(&c.came[SL_FRAME_WELCOME], 1);
	assert_int_equal(number(), 2);
	host_rig_say(&c, &bye);
	while (number())
		host_rig_turn();
	host_rig_say(&c, &again);
	host_rig_await(&c.came[SL_FRAME_WELCOME], 2);
	assert_int_equal(number(), 3);
	n = sl_host_counts(host_rig.host);
	assert_int_equal(n.links, 2);
	assert_int_equal(n.lost, 0); /* it said goodbye */
	assert_int_equal(n.frames, 6);
	assert_int_equal(n.bytes, length_of(&beat) + 2 * length_of(&hello) + length_of(&bye) + 2 * length_of(&again) +
					  hello.payload.len + again.payload.len);
	host_rig_hang_up(&c);
	while (number())
		host_rig_turn();
	assert_int_equal(sl_host_counts(host_rig.host).lost, 1);
	assert_int_equal(host_rig.host->turned_away, 1);
	host_rig_close();
}

/* The second Fetch is gathered into the memory from which the first is sent, but not before that was sent. */
static void weights_can_be_fetched_while_they_are_sent(void **state)
{
	struct asked a = host_rig_agreement_of(10, 32, 2);
	const struct sl_frame fetch = {.kind = SL_FRAME_FETCH, .epoch = 1};
	struct sl_frame hello, credit = {.kind = SL_FRAME_CREDIT, .epoch = 1};
	uint64_t credited = 0, total;
	int64_t count;
	struct host_client c;

	hello = host_rig_hello_of(&a, 1, 1, &count);
	hello.u.hello.window_bytes = 2 * HOST_RIG_PART;
	total = (uint64_t)count * sizeof(float);
	host_rig_open(1, 256 << 20);
	host_rig_connect_raw(&c);
	host_rig_say(&c, &hello);
	host_rig_await(&c.came[SL_FRAME_WELCOME], 1);
	host_rig_say(&c, &fetch);
	host_rig_await(&c.came[SL_FRAME_PART], 2); /* here the credit is used up */
	host_rig_say(&c, &fetch);
	while (c.payload_bytes < 2 * total) {
		credit.u.credit.bytes = c.payload_bytes - credited;
		credited = c.payload_bytes;
		host_rig_say(&c, &credit);
		host_rig_await(&c.came[SL_FRAME_PART], c.came[SL_FRAME_PART] + 1);
		assert_int_equal(c.last[SL_FRAME_PART].u.part.total, total);
	}
	assert_int_equal(c.payload_bytes, 2 * total);
	assert_int_equal(c.out_of_order, 0);
	assert_int_equal(c.came[SL_FRAME_REFUSE], 0);
	host_rig_hang_up(&c);
	host_rig_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hello_beyond_the_memory_is_refused_before_any_is_taken),
		cmocka_unit_test(what_codecs_keep_counts),
		cmocka_unit_test(memory_that_others_hold_is_worth_waiting_for),
		cmocka_unit_test(memory_that_is_refused_is_worth_waiting_for),
		cmocka_unit_test(a_hello_as_large_as_can_be),
		cmocka_unit_test(an_optimizer_out_of_bounds_is_refused),
		cmocka_unit_test(weights_of_the_other_segments_take_no_memory),
		cmocka_unit_test(a_full_server_says_so),
		cmocka_unit_test(the_newest_epoch_of_a_session_wins),
		cmocka_unit_test(a_session_is_nobody_s_who_lacks_its_secret),
		cmocka_unit_test(a_hello_that_is_refused_ends_no_older_link),
		cmocka_unit_test(a_hello_without_a_proof_costs_no_place),
		cmocka_unit_test(strangers_hear_what_is_wrong),
		cmocka_unit_test(a_silent_client_is_lost),
		cmocka_unit_test(another_plan_is_refused),
		cmocka_unit_test(weights_that_were_not_announced_are_refused),
		cmocka_unit_test(who_is_done_with_is_forgotten_and_counted),
		cmocka_unit_test(weights_can_be_fetched_while_they_are_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
