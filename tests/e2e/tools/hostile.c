/* usage: hostile ENDPOINT [ROUNDS]
 *        hostile ENDPOINT flood SECONDS
 *        hostile ENDPOINT train GRAPH TOKENS
 * Hostile peers, each on a raw ZeroMQ socket of its own: they send bytes that are not frames, frames out of place, and
 * sessions that break their own rules. Each case names the error that the server must answer with. Exit status 1 if an
 * answer differs. `flood` sends malformed messages and sessions that fail at once, as fast as possible, and prints how
 * many. `train` does step after step of the graph in that file, with one row of zeros of TOKENS tokens, or of an image
 * if that is 0. It prints when a pass is done, and ends when it is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <zmq.h>

#include "common/codec/lengths.h"
#include "common/graph/graph_text.h"
#include "common/link/proof.h"
#include "tests/support/asked.h"

enum { PATIENCE_MS = 20000, BATCH = 8, CHUNKS = 2, PART = 1 << 20 };

struct peer {
	void *socket;
	struct sl_hello hello;
	struct sl_secret secret;
	struct sl_frame answer; /* to its last Hello, where that was a Refuse */
	bool refused;
	uint64_t epoch;
	char text[SL_WIRE_HELLO_MAX + 1]; /* the Hello's payload */
	size_t text_bytes;
	uint8_t *run; /* a head_act of a full chunk: zeros */
	size_t run_bytes;
};

static void *context;
static const char *endpoint;
static struct asked asked;
static struct sl_plan *plan;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "hostile: %s: %s\n", what, why);
	exit(1);
}

static void open_plan(const char *codec)
{
	struct sl_fail fail;

	asked = (struct asked){.split = {.model = {.name = "mobilenet_v2", .width = 0.25, .classes = 10, .image = 32},
					 .cut = {.partition = "1:-1"}}};
	asked.agreement.agreed = sl_agreed_default();
	asked.agreement.agreed.batch = BATCH;
	asked.agreement.agreed.chunks = CHUNKS;
	asked.agreement.agreed.seed = 5;
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		snprintf(asked.agreement.agreed.codec[dir], sizeof asked.agreement.agreed.codec[dir], "%s", codec);
	if (asked_settle(&asked, &fail))
		die(codec, fail.text);
	sl_plan_close(plan);
	if (plan_open(&plan, &asked.split, &fail))
		die("plan", fail.text);
}

static struct peer open_peer(void)
{
	const int linger = 0, timeout = PATIENCE_MS;
	struct sl_shape shape = sl_plan_cut_shape(plan, false, plan->rows);
	struct sl_bytes said;
	struct peer p = {.socket = zmq_socket(context, ZMQ_DEALER), .epoch = 1};
	struct sl_fail fail;

	if (!p.socket || zmq_setsockopt(p.socket, ZMQ_LINGER, &linger, sizeof linger) ||
	    zmq_setsockopt(p.socket, ZMQ_RCVTIMEO, &timeout, sizeof timeout) || zmq_connect(p.socket, endpoint))
		die(endpoint, zmq_strerror(errno));
	p.run_bytes = (size_t)sl_shape_count(&shape) * sizeof(float);
	p.run = calloc(1, p.run_bytes);
	p.hello = (struct sl_hello){.version = SL_WIRE_VERSION,
				    .n_held = 1,
				    .software = "hostile",
				    .weights_source = SL_WEIGHTS_SEED,
				    .part_bytes = PART,
				    .window_bytes = 1 << 24,
				    .heartbeat_ms = 1000,
				    .timeout_ms = 10000};
	if (!p.run || sl_secret_make(&p.secret, &fail) != SL_OK)
		die("peer", "no memory or random bytes");
	memcpy(p.hello.session, p.secret.session, sizeof p.hello.session);
	if (sl_agreement_say(&asked.agreement, plan, &said, &p.hello, &fail))
		die("hello", fail.text);
	p.text_bytes = said.len;
	memcpy(p.text, said.data, said.len);
	free((void *)(uintptr_t)said.data);
	return p;
}

static void close_peer(struct peer *p)
{
	zmq_close(p->socket);
	free(p->run);
}

static void send_raw(struct peer *p, const void *data, size_t len, bool more)
{
	if (zmq_send(p->socket, data, len, more ? ZMQ_SNDMORE : 0) < 0)
		die("send", zmq_strerror(errno));
}

static void send_frame(struct peer *p, struct sl_frame *f)
{
	uint8_t header[SL_WIRE_HEADER_MAX];
	size_t len;

	f->epoch = p->epoch;
	if (sl_wire_encode(f, header, &len))
		die("encode", sl_frame_kind_name(f->kind));
	send_raw(p, header, len, true);
	send_raw(p, f->payload.data, f->payload.len, false);
}

static struct sl_frame head_act(struct peer *p, uint32_t chunk)
{
	struct sl_frame f = {.kind = SL_FRAME_PART,
			     .u.part = {.what = SL_PART_HEAD_ACT,
					.training = true,
					.chunk = chunk,
					.rows = BATCH / CHUNKS,
					.batch_rows = BATCH,
					.total = p->run_bytes},
			     .payload = {p->run, p->run_bytes}};

	f.u.part.xxh3 = sl_wire_hash(f.payload);
	return f;
}

/* Receives the next frame. Returns false if none arrives in time. */
static bool hear(struct peer *p, struct sl_frame *frame)
{
	static uint8_t header[SL_WIRE_HEADER_MAX], payload[PART];
	struct sl_fail fail;
	int h = zmq_recv(p->socket, header, sizeof header, 0), n = h < 0 ? h : zmq_recv(p->socket, payload, PART, 0);

	if (n < 0)
		return false;
	if (sl_wire_decode((struct sl_bytes){header, (size_t)h}, (struct sl_bytes){payload, (size_t)n}, frame, &fail))
		die("answer", fail.text);
	return true;
}

/* Waits for the next frame of this kind, or a Refuse; skips heartbeats, credit and results. */
static void await(struct peer *p, enum sl_frame_kind kind, struct sl_frame *frame)
{
	do {
		if (!hear(p, frame))
			die("no answer", zmq_strerror(errno));
	} while (frame->kind != kind && frame->kind != SL_FRAME_REFUSE);
}

/* Sends Hello twice, the second time with the proof that the server asks for. */
static void send_hello(struct peer *p)
{
	struct sl_frame f = {.kind = SL_FRAME_HELLO, .u.hello = p->hello};

	f.u.hello.epoch = p->epoch;
	send_frame(p, &f);
	await(p, SL_FRAME_CHALLENGE, &p->answer);
	p->refused = p->answer.kind == SL_FRAME_REFUSE;
	if (p->refused)
		return;
	f.payload = (struct sl_bytes){(uint8_t *)p->text, p->text_bytes};
	if (sl_proof_make(&f.u.hello, &p->secret, p->answer.u.challenge.nonce))
		die("encode", "a proof");
	send_frame(p, &f);
}

static void join(struct peer *p)
{
	struct sl_frame f;

	send_hello(p);
	await(p, SL_FRAME_WELCOME, &f);
	if (f.kind == SL_FRAME_REFUSE)
		die("a good Hello", f.u.refuse.text);
}

/* ---- messages that are not frames */

static void garbage(struct peer *p)
{
	uint8_t noise[500];

	if (getrandom(noise, sizeof noise, 0) != sizeof noise)
		die("garbage", "no random bytes");
	noise[0] = 0xff; /* no field begins so */
	send_raw(p, noise, 200, true);
	send_raw(p, noise, sizeof noise, false);
}

static void one_part(struct peer *p)
{
	send_raw(p, "hello", 5, false);
}

static void many_parts(struct peer *p)
{
	for (int i = 0; i < 50; i++)
		send_raw(p, "x", 1, i < 49);
}

static void long_header(struct peer *p)
{
	static const uint8_t header[SL_WIRE_HEADER_MAX + 1];

	send_raw(p, header, sizeof header, true);
	send_raw(p, "", 0, false);
}

static void truncated_hello(struct peer *p)
{
	struct sl_frame f = {.kind = SL_FRAME_HELLO, .epoch = 1, .u.hello = p->hello};
	uint8_t header[SL_WIRE_HEADER_MAX];
	size_t len;

	f.u.hello.epoch = f.epoch;
	if (sl_wire_encode(&f, header, &len))
		die("encode", "Hello");
	send_raw(p, header, len - 7, true);
	send_raw(p, "", 0, false);
}

/* ZeroMQ itself closes this connection; a Hello on the next one must work. */
static void oversized(struct peer *p)
{
	size_t len = PART + SL_WIRE_HEADER_MAX + 1; /* PART is more than a Hello's payload */
	uint8_t *big = calloc(1, len);

	send_raw(p, "x", 1, true);
	send_raw(p, big, len, false);
	free(big);
	close_peer(p);
	*p = open_peer();
	join(p);
	send_frame(p, &(struct sl_frame){.kind = SL_FRAME_COMMITTED});
}

/* ---- invalid Hellos */

static void other_version(struct peer *p)
{
	p->hello.version = 77;
	send_hello(p);
}

static void other_plan(struct peer *p)
{
	p->hello.plan_hash[3] ^= 1;
	send_hello(p);
}

/* Replaces `from` in the payload, and updates the hashes. */
static void retell(struct peer *p, const char *from, const char *to)
{
	struct sl_agreement heard;
	struct sl_plan *other;
	struct sl_bytes told;
	struct sl_fail fail;
	char *at = memmem(p->text, p->text_bytes, from, strlen(from));
	size_t rest;

	if (!at)
		die("the payload lacks", from);
	rest = p->text_bytes - (size_t)(at - p->text) - strlen(from);
	memmove(at + strlen(to), at + strlen(from), rest);
	memcpy(at, to, strlen(to));
	p->text_bytes += strlen(to) - strlen(from);
	told = (struct sl_bytes){(uint8_t *)p->text, p->text_bytes};
	p->hello.payload_xxh3 = sl_wire_hash(told);
	if (sl_agreement_hear(&heard, &other, told, &fail) == SL_OK) {
		memcpy(p->hello.plan_hash, other->middle_hash, sizeof p->hello.plan_hash);
		sl_plan_close(other);
	}
	send_hello(p);
}

static void unknown_kind(struct peer *p)
{
	retell(p, " conv2d ", " conv9d ");
}

static void unknown_attribute(struct peer *p)
{
	retell(p, " pad=1", " paddle=1");
}

static void later_value(struct peer *p)
{
	retell(p, " %1 ", " %8000 ");
}

static void cycle(struct peer *p)
{
	retell(p, " batchnorm %1 ", " batchnorm %2 ");
}

static void endless_parameter(struct peer *p)
{
	retell(p, " normal:", " one\nparam x [1048576,1048576,1048576] normal:");
}

static void wide_parameter(struct peer *p)
{
	retell(p, "param features.1.conv.0.0.weight [3,3,", "param features.1.conv.0.0.weight [3,3,1048576,");
}

static void real_in_another_spelling(struct peer *p)
{
	retell(p, "normal:0.", "normal:00.");
}

static void giant_image(struct peer *p)
{
	retell(p, "f32 R[16,16,", "f32 R[2000,2000,");
}

static void escape(struct peer *p)
{
	retell(p, "node features.1.conv.0.0 ", "node features.1\033[2J ");
}

static void giant(struct peer *p)
{
	retell(p, "train.batch = 8", "train.batch = 4000000000");
}

static void unknown_key(struct peer *p)
{
	retell(p, "train.chunks", "train.chonks");
}

static void twice(struct peer *p)
{
	retell(p, "train.batch = 8\n", "train.batch = 8\ntrain.batch = 8\n");
}

static void default_said(struct peer *p)
{
	retell(p, "train.seed = 5\n", "train.seed = 0\n");
}

static void control_characters(struct peer *p)
{
	retell(p, "train.batch = 8", "train.\033[2J = 8");
}

static void no_network(struct peer *p)
{
	retell(p, "\n\n", "\n");
}

static void other_payload(struct peer *p)
{
	p->text[p->text_bytes / 2] ^= 1;
	send_hello(p);
}

static void empty_payload(struct peer *p)
{
	p->text_bytes = 0;
	send_hello(p);
}

static void endless_payload(struct peer *p)
{
	memset(p->text, 'a', SL_WIRE_HELLO_MAX);
	p->text_bytes = SL_WIRE_HELLO_MAX;
	p->hello.payload_xxh3 = sl_wire_hash((struct sl_bytes){(uint8_t *)p->text, p->text_bytes});
	send_hello(p);
}

/* A peer without a session must not make the server accept more than a header. */
static void early_payload(struct peer *p)
{
	struct sl_frame f = {.kind = SL_FRAME_HELLO, .u.hello = p->hello};

	f.u.hello.epoch = p->epoch;
	f.payload = (struct sl_bytes){(uint8_t *)p->text, p->text_bytes};
	send_frame(p, &f);
}

static void tiny_parts(struct peer *p)
{
	p->hello.part_bytes = 1;
	send_hello(p);
}

/* The id of a session is not secret, but its secret is needed to open it. */
static void another_secret(struct peer *p)
{
	struct sl_fail fail;

	if (sl_secret_make(&p->secret, &fail))
		die("another secret", fail.text);
	send_hello(p);
}

static void unasked_proof(struct peer *p)
{
	static const uint8_t nonce[SL_NONCE_BYTES];
	struct sl_frame f = {.kind = SL_FRAME_HELLO};

	p->hello.epoch = p->epoch;
	if (sl_proof_make(&p->hello, &p->secret, nonce))
		die("encode", "a proof");
	f.u.hello = p->hello;
	f.payload = (struct sl_bytes){(uint8_t *)p->text, p->text_bytes};
	send_frame(p, &f); /* a challenge answers it */
	send_frame(p, &f);
}

static void no_session(struct peer *p)
{
	send_frame(p, &(struct sl_frame){.kind = SL_FRAME_FETCH});
}

static void part_before_hello(struct peer *p)
{
	struct sl_frame f = head_act(p, 0);

	send_frame(p, &f);
}

/* ---- sessions that break their rules */

static void hello_twice(struct peer *p)
{
	join(p);
	send_hello(p);
}

/* The beginning of a run: its session waits for the rest and starts no task, whose answer could arrive first. */
static struct sl_frame first_bytes(struct peer *p)
{
	struct sl_frame f = head_act(p, 0);

	f.payload.len = 100;
	f.u.part.xxh3 = sl_wire_hash(f.payload);
	return f;
}

static void duplicated_part(struct peer *p)
{
	struct sl_frame f = first_bytes(p);

	join(p);
	send_frame(p, &f);
	send_frame(p, &f);
}

static void replayed_step(struct peer *p)
{
	struct sl_frame f = head_act(p, 0);

	join(p);
	f.u.part.step = 41;
	send_frame(p, &f);
}

static void corrupt_part(struct peer *p)
{
	struct sl_frame f = head_act(p, 0);

	join(p);
	f.u.part.xxh3 ^= 1;
	send_frame(p, &f);
}

static void gap_in_a_run(struct peer *p)
{
	struct sl_frame f = first_bytes(p);

	join(p);
	send_frame(p, &f);
	f.u.part.offset = 200;
	send_frame(p, &f);
}

static void swollen_run(struct peer *p)
{
	struct sl_frame f = head_act(p, 0);

	join(p);
	f.u.part.total = 1ull << 40;
	send_frame(p, &f);
}

static void wrong_rows(struct peer *p)
{
	struct sl_frame f = head_act(p, 0);

	join(p);
	f.u.part.batch_rows = f.u.part.rows = BATCH * 1000;
	send_frame(p, &f);
}

static void early_gradient(struct peer *p)
{
	struct sl_frame f = first_bytes(p), g = f;

	join(p);
	send_frame(p, &f);
	g.u.part.what = SL_PART_MID_GRAD;
	g.u.part.chunk = 1;
	send_frame(p, &g);
}

/* A gradient before any activation is refused at once. */
static void early_gradient_alone(struct peer *p)
{
	struct sl_frame f = first_bytes(p), refused;

	f.u.part.what = SL_PART_MID_GRAD;
	send_frame(p, &f);
	await(p, SL_FRAME_REFUSE, &refused);
}

static void early_commit(struct peer *p)
{
	struct sl_frame f = first_bytes(p);

	join(p);
	send_frame(p, &f);
	send_frame(p, &(struct sl_frame){.kind = SL_FRAME_COMMIT, .u.commit = {.chunks = CHUNKS, .lr = 0.1}});
}

static void endless_credit(struct peer *p)
{
	join(p);
	send_frame(p, &(struct sl_frame){.kind = SL_FRAME_CREDIT, .u.credit.bytes = UINT64_MAX});
}

/* A complete run with a right hash, whose payload is invalid for its codec. */
static void bad_payload(struct peer *p)
{
	struct sl_frame f = head_act(p, 0);

	join(p);
	memset(p->run, 0xff, p->run_bytes);
	f.u.part.total = f.payload.len = 64;
	f.u.part.xxh3 = sl_wire_hash(f.payload);
	send_frame(p, &f);
}

static void malformed_in_a_session(struct peer *p)
{
	join(p);
	many_parts(p);
}

/* Frames of an older epoch are dropped and counted, not refused; the next message ends this session. */
static void stale_epoch(struct peer *p)
{
	struct sl_frame f = head_act(p, 0);

	p->epoch = 9;
	join(p);
	p->epoch = 8;
	for (int i = 0; i < 5; i++)
		send_frame(p, &f);
	p->epoch = 9;
	send_frame(p, &(struct sl_frame){.kind = SL_FRAME_COMMITTED});
}

static const struct hostile_case {
	const char *name;
	void (*act)(struct peer *p);
	enum sl_err answer;
	const char *words; /* in the answer's text */
	const char *codec;
} cases[] = {
	{"garbage", garbage, SL_ERR_PROTOCOL, "", "none"},
	{"one part", one_part, SL_ERR_PROTOCOL, "", "none"},
	{"many parts", many_parts, SL_ERR_PROTOCOL, "", "none"},
	{"long header", long_header, SL_ERR_PROTOCOL, "", "none"},
	{"truncated Hello", truncated_hello, SL_ERR_PROTOCOL, "", "none"},
	{"oversized message", oversized, SL_ERR_PROTOCOL, "Committed frame in state READY", "none"},
	{"other version", other_version, SL_ERR_VERSION, "77", "none"},
	{"other plan", other_plan, SL_ERR_MISMATCH, "plan hash", "none"},
	{"unknown kind of node", unknown_kind, SL_ERR_CONFIG, "conv9d", "none"},
	{"unknown attribute", unknown_attribute, SL_ERR_CONFIG, "paddle", "none"},
	{"a value that is not there yet", later_value, SL_ERR_CONFIG, "no value 8000", "none"},
	{"a cycle", cycle, SL_ERR_CONFIG, "no value 2", "none"},
	{"2^60 elements", endless_parameter, SL_ERR_CONFIG, "too large", "none"},
	{"another parameter's shape", wide_parameter, SL_ERR_CONFIG, "", "none"},
	{"a number in another spelling", real_in_another_spelling, SL_ERR_PROTOCOL, "not spelled", "none"},
	{"a giant image", giant_image, SL_ERR_LIMIT, "", "none"},
	{"control characters in a name", escape, SL_ERR_PROTOCOL, "not printable", "none"},
	{"giant batch", giant, SL_ERR_LIMIT, "4000000000", "none"},
	{"unknown key", unknown_key, SL_ERR_CONFIG, "train.chonks", "none"},
	{"a key twice", twice, SL_ERR_PROTOCOL, "in order and once", "none"},
	{"a default that is said", default_said, SL_ERR_PROTOCOL, "without defaults", "none"},
	{"control characters", control_characters, SL_ERR_CONFIG, "not known here", "none"},
	{"no graph", no_network, SL_ERR_PROTOCOL, "an empty line", "none"},
	{"another payload", other_payload, SL_ERR_PROTOCOL, "XXH3", "none"},
	{"an empty payload", empty_payload, SL_ERR_PROTOCOL, "wrong length", "none"},
	{"an endless line", endless_payload, SL_ERR_PROTOCOL, "an empty line", "none"},
	{"a payload before the proof", early_payload, SL_ERR_PROTOCOL, "has a payload", "none"},
	{"tiny parts", tiny_parts, SL_ERR_LIMIT, "part_bytes", "none"},
	{"another secret", another_secret, SL_ERR_PROTOCOL, "not signed", "none"},
	{"unasked proof", unasked_proof, SL_ERR_PROTOCOL, "not signed", "none"},
	{"no session", no_session, SL_ERR_PEER_LOST, "begins with Hello", "none"},
	{"part before Hello", part_before_hello, SL_ERR_PEER_LOST, "begins with Hello", "none"},
	{"Hello twice", hello_twice, SL_ERR_PROTOCOL, "Hello frame in state READY", "none"},
	{"duplicated part", duplicated_part, SL_ERR_PROTOCOL, "", "none"},
	{"replayed step", replayed_step, SL_ERR_PROTOCOL, "step 41 begun where 0 is next", "none"},
	{"corrupt part", corrupt_part, SL_ERR_PROTOCOL, "corrupt part", "none"},
	{"gap in a run", gap_in_a_run, SL_ERR_PROTOCOL, "where offset 100 is next", "none"},
	{"swollen run", swollen_run, SL_ERR_LIMIT, "a run of", "none"},
	{"wrong rows", wrong_rows, SL_ERR_LIMIT, "a batch of 8000 rows", "none"},
	{"early gradient", early_gradient, SL_ERR_PROTOCOL, "before it can exist", "none"},
	{"early commit", early_commit, SL_ERR_PROTOCOL, "of 2 chunks", "none"},
	{"endless credit", endless_credit, SL_ERR_PROTOCOL, "credit of", "none"},
	{"bad payload, quant", bad_payload, SL_ERR_PAYLOAD, "", "quant:8"},
	{"bad payload, topk", bad_payload, SL_ERR_PAYLOAD, "", "topk:0.1"},
	{"bad payload, chain", bad_payload, SL_ERR_PAYLOAD, "", "topk:0.2|quant:8"},
	{"malformed in a session", malformed_in_a_session, SL_ERR_PROTOCOL, "malformed message", "none"},
	{"stale epoch", stale_epoch, SL_ERR_PROTOCOL, "Committed frame in state READY", "none"},
};

static int run(const struct hostile_case *c)
{
	struct peer p;
	struct sl_frame f;
	bool right;

	open_plan(c->codec);
	p = open_peer();
	c->act(&p);
	if (p.refused)
		f = p.answer;
	else
		await(&p, SL_FRAME_REFUSE, &f);
	right = f.u.refuse.code == (uint32_t)c->answer && strstr(f.u.refuse.text, c->words);
	printf("%-24s %s%s: %s\n", c->name, right ? "" : "WRONG ANSWER ", sl_err_name((enum sl_err)f.u.refuse.code),
	       f.u.refuse.text);
	close_peer(&p);
	return right ? 0 : 1;
}

/* Each of these failures gives a line in the server's log. */
static void flood(int seconds)
{
	const time_t end = time(NULL) + seconds;
	int messages = 0, sessions = 0;

	open_plan("none");
	while (time(NULL) < end) {
		struct peer p = open_peer();

		join(&p);
		early_gradient_alone(&p);
		sessions++;
		close_peer(&p);
		p = open_peer();
		for (int i = 0; i < 200; i++, messages++)
			one_part(&p);
		close_peer(&p);
	}
	printf("%d messages, %d sessions\n", messages, sessions);
}

/* ---- a network whose passes take long */

static void open_graph(const char *file, int64_t tokens)
{
	static char text[SL_GRAPH_TEXT_MAX];
	struct sl_graph middle;
	struct sl_fail fail;
	FILE *f = fopen(file, "r");
	size_t len = f ? fread(text, 1, sizeof text, f) : 0;

	if (!f || fclose(f))
		die(file, "cannot be read");
	asked.agreement.agreed = sl_agreed_default();
	asked.agreement.agreed.batch = asked.agreement.agreed.chunks = 1;
	asked.agreement.agreed.row_tokens = asked.agreement.agreed.chunk_tokens = tokens;
	if (asked_settle(&asked, &fail) || sl_graph_read(&middle, text, len, &fail) ||
	    sl_plan_open_part(&plan, &asked.agreement.plan, SL_MIDDLE, &middle, &fail))
		die(file, fail.text);
}

/* Sends zeros for one of the cuts, in the format of the codec none, with the lengths of the rows. */
static void send_zeros(struct peer *p, enum sl_part_what what, uint64_t step, int64_t tokens)
{
	const bool up = what == SL_PART_HEAD_ACT;
	const struct sl_shape shape = sl_plan_cut_shape(plan, !up, tokens ? tokens : 1);
	const size_t lengths = up && tokens ? sl_lengths_bytes(1, false) : 0;
	const size_t total = lengths + 16 + (size_t)sl_shape_count(&shape) * sizeof(float);
	uint8_t *run = calloc(1, total), *head = run + lengths;
	const uint64_t rows = (uint64_t)shape.dim[0];

	if (!run)
		die("a run", "no memory");
	if (lengths)
		run[0] = (uint8_t)tokens, run[1] = (uint8_t)(tokens >> 8);
	head[0] = head[1] = head[8] = 1;
	for (int i = 0; i < 4; i++)
		head[4 + i] = (uint8_t)(rows >> 8 * i);
	for (size_t at = 0; at < total; at += PART) {
		struct sl_frame f = {.kind = SL_FRAME_PART,
				     .u.part = {.what = what,
						.training = true,
						.step = step,
						.rows = 1,
						.batch_rows = 1,
						.tokens = (uint32_t)tokens,
						.total = total,
						.offset = at},
				     .payload = {run + at, total - at < PART ? total - at : PART}};

		f.u.part.xxh3 = sl_wire_hash(f.payload);
		send_frame(p, &f);
	}
	free(run);
}

/* Waits until Committed, or the whole run of that part, has arrived. Returns false if refused. */
static bool hear_of(struct peer *p, enum sl_frame_kind kind, enum sl_part_what what)
{
	struct sl_frame f;

	for (;;) {
		if (!hear(p, &f)) {
			send_frame(p, &(struct sl_frame){.kind = SL_FRAME_HEARTBEAT});
			continue;
		}
		if (f.kind == SL_FRAME_REFUSE) {
			printf("refused: %s\n", f.u.refuse.text);
			return false;
		}
		if (f.kind == SL_FRAME_PART)
			send_frame(p, &(struct sl_frame){.kind = SL_FRAME_CREDIT, .u.credit.bytes = f.payload.len});
		if (f.kind == kind && (kind != SL_FRAME_PART || (f.u.part.what == (uint32_t)what &&
								 f.u.part.offset + f.payload.len == f.u.part.total)))
			return true;
	}
}

static void train(const char *file, int64_t tokens)
{
	const int often_ms = 500;
	struct peer p;

	open_graph(file, tokens);
	p = open_peer();
	send_hello(&p);
	zmq_setsockopt(p.socket, ZMQ_RCVTIMEO, &often_ms, sizeof often_ms);
	if (p.refused) {
		printf("refused: %s\n", p.answer.u.refuse.text);
	} else if (hear_of(&p, SL_FRAME_WELCOME, 0)) {
		printf("welcome\n");
		for (uint64_t step = 0;; step++) {
			send_zeros(&p, SL_PART_HEAD_ACT, step, tokens);
			if (!hear_of(&p, SL_FRAME_PART, SL_PART_MID_ACT))
				break;
			printf("forward\n");
			send_zeros(&p, SL_PART_MID_GRAD, step, tokens);
			if (!hear_of(&p, SL_FRAME_PART, SL_PART_HEAD_GRAD))
				break;
			printf("backward\n");
			send_frame(&p, &(struct sl_frame){.kind = SL_FRAME_COMMIT,
							  .u.commit = {.step = step, .chunks = 1, .lr = 1e-3}});
			if (!hear_of(&p, SL_FRAME_COMMITTED, 0))
				break;
		}
	}
	close_peer(&p);
}

int main(int argc, char **argv)
{
	int wrong = 0, rounds = argc > 2 ? atoi(argv[2]) : 1;

	if (argc < 2)
		return 64;
	endpoint = argv[1];
	setvbuf(stdout, NULL, _IOLBF, 0);
	context = zmq_ctx_new();
	if (argc > 3 && (strcmp(argv[2], "flood") == 0 || strcmp(argv[2], "train") == 0)) {
		if (argv[2][0] == 'f')
			flood(atoi(argv[3]));
		else
			train(argv[3], argc > 4 ? atoi(argv[4]) : 0);
		sl_plan_close(plan);
		zmq_ctx_term(context);
		return 0;
	}
	for (int round = 0; round < rounds; round++)
		for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
			wrong += run(&cases[i]);
	sl_plan_close(plan);
	zmq_ctx_term(context);
	printf("%d wrong answers\n", wrong);
	return wrong ? 1 : 0;
}
