/* usage: thief ENDPOINT ID NAME - until SIGTERM, on sockets of its own: asks for the session of which it knows the id
 * (64 hexadecimal digits) and the public name (32), but not the secret. It sends Hello with epochs of all sizes: with a
 * proof by a secret of its own, with a proof for another connection, and with none. It sends Fetch, Abandon and Commit
 * without a session. In between it opens sessions of its own and breaks a frame of each at once. It prints what it got
 * but should not have, "WELCOMED n TOLD n" with epochs, then how often it tried. Exit status 1 if an answer is not one
 * of the allowed ones. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zmq.h>

#include "common/link/proof.h"
#include "tests/support/asked.h"

enum { PATIENCE_MS = 20000, PART = 1 << 16, FLOOD = 8 };

static volatile sig_atomic_t over;
static void *context;
static const char *endpoint;
static struct asked asked;
static struct sl_plan *plan;
static long welcomed, told, tries, floods;

static void on_term(int signum)
{
	(void)signum;
	over = 1;
}

static void die(const char *what, const char *why)
{
	fprintf(stderr, "thief: %s: %s\n", what, why);
	exit(1);
}

static void *open_socket(void)
{
	const int linger = 0, timeout = PATIENCE_MS;
	void *s = zmq_socket(context, ZMQ_DEALER);

	if (!s || zmq_setsockopt(s, ZMQ_LINGER, &linger, sizeof linger) ||
	    zmq_setsockopt(s, ZMQ_RCVTIMEO, &timeout, sizeof timeout) || zmq_connect(s, endpoint))
		die(endpoint, zmq_strerror(errno));
	return s;
}

static void say(void *s, const struct sl_frame *f)
{
	const bool proven = f->kind == SL_FRAME_HELLO && !sl_proof_lacks(&f->u.hello);
	uint8_t header[SL_WIRE_HEADER_MAX];
	size_t len;

	if (sl_wire_encode(f, header, &len) || zmq_send(s, header, len, ZMQ_SNDMORE) < 0 ||
	    zmq_send(s, f->payload.data, proven ? f->payload.len : 0, 0) < 0)
		die("send", sl_frame_kind_name(f->kind));
}

/* Receives a frame. Returns false if a signal told the program to end. */
static bool hear(void *s, struct sl_frame *f)
{
	static uint8_t header[SL_WIRE_HEADER_MAX], payload[PART];
	struct sl_fail fail;
	int h = zmq_recv(s, header, sizeof header, 0), n = h < 0 ? h : zmq_recv(s, payload, PART, 0);

	if (n < 0 && over)
		return false;
	if (n < 0)
		die("no answer", zmq_strerror(errno));
	if (sl_wire_decode((struct sl_bytes){header, (size_t)h}, (struct sl_bytes){payload, (size_t)n}, f, &fail))
		die("answer", fail.text);
	welcomed += f->kind == SL_FRAME_WELCOME || f->kind == SL_FRAME_PART;
	told += f->kind == SL_FRAME_CHALLENGE && f->u.challenge.above;
	return true;
}

static struct sl_frame hello_of(const uint8_t session[SL_SESSION_BYTES], uint64_t epoch)
{
	static struct sl_bytes text;
	struct sl_fail fail;
	struct sl_frame f = {.kind = SL_FRAME_HELLO,
			     .epoch = epoch,
			     .u.hello = {.version = SL_WIRE_VERSION,
					 .epoch = epoch,
					 .n_held = 1,
					 .software = "thief",
					 .weights_source = SL_WEIGHTS_SEED,
					 .part_bytes = PART,
					 .window_bytes = 1 << 24,
					 .heartbeat_ms = 1000,
					 .timeout_ms = 10000}};

	memcpy(f.u.hello.session, session, SL_SESSION_BYTES);
	free((void *)(uintptr_t)text.data);
	if (sl_agreement_say(&asked.agreement, plan, &text, &f.u.hello, &fail))
		die("hello", fail.text);
	f.payload = text;
	return f;
}

/* Sends Hello, and again with a wrong proof: by `secret`, for the nonce received here or for another. */
static void steal(const uint8_t session[SL_SESSION_BYTES], uint64_t epoch, const struct sl_secret *secret, bool old)
{
	static uint8_t nonce[SL_NONCE_BYTES];
	struct sl_frame hello = hello_of(session, epoch), answer;
	void *s = open_socket();

	tries++;
	say(s, &hello);
	if (hear(s, &answer) && answer.kind == SL_FRAME_CHALLENGE) {
		if (!old)
			memcpy(nonce, answer.u.challenge.nonce, sizeof nonce);
		if (sl_proof_make(&hello.u.hello, secret, nonce))
			die("encode", "a proof");
		say(s, &hello);
		if (hear(s, &answer) && (answer.kind != SL_FRAME_REFUSE || strpbrk(answer.u.refuse.text, "0123456789")))
			told++;
	}
	zmq_close(s);
}

/* Sends messages that need a session, without one. */
static void meddle(uint64_t epoch)
{
	const struct sl_frame frames[] = {{.kind = SL_FRAME_FETCH, .epoch = epoch},
					  {.kind = SL_FRAME_ABANDON, .epoch = epoch, .u.abandon = {.text = "NaN"}},
					  {.kind = SL_FRAME_COMMIT, .epoch = epoch, .u.commit = {.skip = true}}};
	struct sl_frame answer;
	void *s = open_socket();

	for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
		say(s, &frames[i]);
		if (hear(s, &answer) && (answer.kind != SL_FRAME_REFUSE || answer.u.refuse.code != SL_ERR_PEER_LOST))
			die("no session", "another answer");
	}
	zmq_close(s);
}

/* Opens sessions of its own, each with one broken frame. */
static void flood(void)
{
	void *s[FLOOD];

	for (int i = 0; i < FLOOD; i++) {
		struct sl_frame hello, answer;
		struct sl_secret own;
		struct sl_fail fail;

		s[i] = open_socket();
		if (sl_secret_make(&own, &fail))
			die("secret", fail.text);
		hello = hello_of(own.session, 1);
		say(s[i], &hello);
		if (!hear(s[i], &answer) || answer.kind != SL_FRAME_CHALLENGE)
			continue;
		if (sl_proof_make(&hello.u.hello, &own, answer.u.challenge.nonce))
			die("encode", "a proof");
		say(s[i], &hello);
		if (zmq_send(s[i], "\xff", 1, ZMQ_SNDMORE) < 0 || zmq_send(s[i], "", 0, 0) < 0)
			die("send", "garbage");
		floods++;
	}
	for (int i = 0; i < FLOOD; i++)
		zmq_close(s[i]);
}

static void open_plan(void)
{
	struct sl_fail fail;

	asked = (struct asked){
		.split = {.model = {.name = "mobilenet_v2", .width = 0.25, .classes = 10, .image = 32, .dropout = 0.2},
			  .cut = {.partition = "1:-1"}}};
	asked.agreement.agreed = sl_agreed_default();
	asked.agreement.agreed.batch = 16;
	asked.agreement.agreed.chunks = 4;
	asked.agreement.agreed.seed = 3;
	if (asked_settle(&asked, &fail) || plan_open(&plan, &asked.split, &fail))
		die("plan", fail.text);
}

static void read_hex(const char *text, uint8_t *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (sscanf(text + 2 * i, "%2hhx", &out[i]) != 1)
			die(text, "not so many digits");
}

int main(int argc, char **argv)
{
	uint8_t session[SL_SESSION_BYTES], shown[SL_SESSION_BYTES] = {0};
	const uint64_t now = (uint64_t)time(NULL) << 20;
	struct sl_secret own;
	struct sl_fail fail;

	if (argc != 4)
		return 64;
	endpoint = argv[1];
	read_hex(argv[2], session, sizeof session);
	read_hex(argv[3], shown, 16);
	signal(SIGTERM, on_term);
	context = zmq_ctx_new();
	open_plan();
	if (sl_secret_make(&own, &fail))
		die("secret", fail.text);
	for (int i = 0; !over; i++) {
		const uint64_t epoch[] = {1, now, now + (1u << 30), INT64_MAX};

		steal(session, epoch[i % 4], &own, i % 2);
		steal(shown, epoch[i % 4], &own, i % 2);
		meddle(epoch[i % 4]);
		flood();
	}
	zmq_ctx_term(context);
	sl_plan_close(plan);
	printf("WELCOMED %ld TOLD %ld\n%ld tries, %ld sessions broken\n", welcomed, told, tries, floods);
	return 0;
}
