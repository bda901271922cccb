#include <math.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "common/base/assert.h"
#include "common/link/wire.h"
#include "common/link/wire_errors.h"
#include "proto/split.pb-c.h"

/* UNPACK_BYTES: the largest valid message, a Hello with every text full, needs 2 KiB and 2 KiB more for its list of
 * members. A message that needs more is refused: unknown fields cost protobuf-c 60 times their size. */
enum { UNPACK_BYTES = 16384, UUID_BYTES = 16, CHECK_BYTES = 8, CHECK_TAG = 1 }; /* the last byte of field 31's tag */

const char *sl_frame_kind_name(enum sl_frame_kind kind)
{
	static const char *const names[SL_FRAME_COUNT] = {
		"Hello",     "Welcome", "Refuse",  "Part",      "Credit", "Commit", "Committed", "Fetch",
		"Heartbeat", "Bye",     "Abandon", "Challenge", "Norm",   "Record", "Report",
	};

	return (unsigned)kind < SL_FRAME_COUNT ? names[kind] : "?";
}

uint64_t sl_wire_hash(struct sl_bytes payload)
{
	return XXH3_64bits(payload.data, payload.len);
}

void sl_refuse_fill(struct sl_refuse *out, const struct sl_fail *why)
{
	out->code = (uint32_t)why->code;
	snprintf(out->key, sizeof out->key, "%s", why->key);
	snprintf(out->text, sizeof out->text, "%.*s", (int)sizeof out->text - 1, sl_fail_sentence(why));
}

/* ---- an allocator that cannot grow: a message that does not fit is not one of our headers */

struct bump {
	_Alignas(16) uint8_t mem[UNPACK_BYTES];
	size_t used;
};

static void *bump_alloc(void *arg, size_t size)
{
	struct bump *bump = arg;
	size_t need = (size + 15) & ~(size_t)15;
	void *p = bump->mem + bump->used;

	if (size > UNPACK_BYTES || need > UNPACK_BYTES - bump->used)
		return NULL;
	bump->used += need;
	return p;
}

static void bump_free(void *arg, void *p)
{
}

/* ---- fields: `put` for encoding, `get` for decoding */

/* Sets *err if the text is not valid; else leaves it, so that the caller can check once for several fields. */
static void put_text(ProtobufCBinaryData *out, const char *text, size_t cap, enum sl_err *err)
{
	size_t len = strnlen(text, cap), tail = 0;

	/* a sentence that was cut off may end within a UTF-8 sequence, which is left out */
	while (tail < len && tail < 3 && (text[len - 1 - tail] & 0xc0) == 0x80)
		tail++;
	if (len < cap && tail < len && (uint8_t)text[len - 1 - tail] >= 0xc0 + (tail > 0) * 0x20 + (tail > 1) * 0x10)
		len -= tail + 1;
	if (len == cap || !sl_text_is_safe(text, len))
		*err = SL_ERR_DATA;
	*out = (ProtobufCBinaryData){.len = len, .data = (uint8_t *)(uintptr_t)text};
}

static void put_bytes(ProtobufCBinaryData *out, const uint8_t *bytes, size_t len)
{
	*out = (ProtobufCBinaryData){.len = len, .data = (uint8_t *)(uintptr_t)bytes};
}

struct reader {
	enum sl_err err;
	struct sl_fail *fail;
};

static void bad(struct reader *r, const char *field, const char *what)
{
	if (!r->err)
		r->err = sl_fail_set(r->fail, SL_ERR_PROTOCOL, "malformed frame: %s %s", field, what);
}

static void get_text(struct reader *r, char *out, size_t cap, const ProtobufCBinaryData *in, const char *field)
{
	if (in->len >= cap) {
		bad(r, field, "is too long");
	} else if (!sl_text_is_safe((const char *)in->data, in->len)) {
		bad(r, field, "holds control characters, or is not UTF-8");
	} else {
		if (in->len)
			memcpy(out, in->data, in->len);
		out[in->len] = 0;
	}
}

static void get_bytes(struct reader *r, uint8_t *out, size_t len, const ProtobufCBinaryData *in, const char *field)
{
	if (in->len != len)
		bad(r, field, "has a wrong length");
	else
		memcpy(out, in->data, len);
}

static double get_finite(struct reader *r, double in, const char *field)
{
	if (!isfinite(in))
		bad(r, field, "is not finite");
	return in;
}

static uint32_t get_below(struct reader *r, uint32_t in, uint32_t end, const char *field)
{
	if (in >= end)
		bad(r, field, "is out of range");
	return in;
}

static uint32_t get_part_bytes(struct reader *r, uint32_t in)
{
	if (in < 1 || in > SL_WIRE_PART_MAX)
		bad(r, "part_bytes", "is out of range");
	return in;
}

/* ---- messages */

/* Any body, so that encoding needs no memory but the stack. */
union body {
	Split__Hello hello;
	Split__Welcome welcome;
	Split__Refuse refuse;
	Split__Part part;
	Split__Credit credit;
	Split__Commit commit;
	Split__Committed committed;
	Split__Fetch fetch;
	Split__Heartbeat heartbeat;
	Split__Bye bye;
	Split__Abandon abandon;
	Split__Challenge challenge;
	Split__Norm norm;
	Split__Record record;
	Split__Report report;
};

/* A Hello's epoch is on the wire once, in the frame. */
static enum sl_err hello_put(Split__Hello *out, const struct sl_hello *in, uint64_t epoch)
{
	enum sl_err err = in->epoch == epoch ? SL_OK : SL_ERR_DATA;

	split__hello__init(out);
	out->version = in->version;
	put_bytes(&out->session, in->session, SL_SESSION_BYTES);
	put_bytes(&out->proof, in->proof, SL_PROOF_BYTES);
	put_bytes(&out->plan_hash, in->plan_hash, UUID_BYTES);
	put_text(&out->software, in->software, sizeof in->software, &err);
	out->payload_xxh3 = in->payload_xxh3;
	out->weights_source = in->weights_source;
	put_bytes(&out->weights_hash, in->weights_hash, UUID_BYTES);
	out->part_bytes = in->part_bytes;
	out->window_bytes = in->window_bytes;
	out->heartbeat_ms = in->heartbeat_ms;
	out->timeout_ms = in->timeout_ms;
	out->held = in->n_held;
	out->held_0 = in->held[0];
	out->held_1 = in->held[1];
	out->held_2 = in->held[2];
	out->held_3 = in->held[3];
	out->has_held_4 = (out->held_4 = in->held[4]) != 0;
	out->has_held_5 = (out->held_5 = in->held[5]) != 0;
	out->has_held_6 = (out->held_6 = in->held[6]) != 0;
	out->run_steps = in->run_steps;
	return err;
}

static void hello_get(struct reader *r, struct sl_hello *out, const Split__Hello *in, uint64_t epoch)
{
	const uint64_t held[SL_WIRE_HELD_MAX] = {in->held_0, in->held_1, in->held_2, in->held_3,
						 in->held_4, in->held_5, in->held_6};

	out->version = in->version;
	get_bytes(r, out->session, SL_SESSION_BYTES, &in->session, "session");
	get_bytes(r, out->proof, SL_PROOF_BYTES, &in->proof, "proof");
	out->epoch = epoch;
	get_bytes(r, out->plan_hash, UUID_BYTES, &in->plan_hash, "plan_hash");
	get_text(r, out->software, sizeof out->software, &in->software, "software");
	out->payload_xxh3 = in->payload_xxh3;
	out->weights_source = get_below(r, in->weights_source, SL_WEIGHTS_HASH + 1, "weights_source");
	get_bytes(r, out->weights_hash, UUID_BYTES, &in->weights_hash, "weights_hash");
	out->part_bytes = get_part_bytes(r, in->part_bytes);
	out->window_bytes = in->window_bytes;
	out->heartbeat_ms = in->heartbeat_ms;
	out->timeout_ms = in->timeout_ms;
	out->n_held = get_below(r, in->held, SL_WIRE_HELD_MAX + 1, "held");
	memcpy(out->held, held, sizeof out->held);
	out->run_steps = in->run_steps;
}

/* A Hello without a proof must have no payload, so that it costs the server no more than a header. */
static void hello_payload(struct reader *r, const struct sl_hello *h, struct sl_bytes payload)
{
	static const uint8_t none[SL_PROOF_BYTES];
	const bool proven = memcmp(h->proof, none, sizeof none) != 0;

	if (proven ? payload.len < 1 || payload.len > SL_WIRE_HELLO_MAX : payload.len > 0)
		bad(r, proven ? "the payload of a Hello" : "a Hello without a proof",
		    proven ? "has a wrong length" : "has a payload");
	else if (!r->err && proven && sl_wire_hash(payload) != h->payload_xxh3)
		bad(r, "the payload of a Hello", "is corrupt: its XXH3 is not the header's");
}

static enum sl_err welcome_put(Split__Welcome *out, const struct sl_welcome *in)
{
	enum sl_err err = SL_OK;

	split__welcome__init(out);
	out->version = in->version;
	put_bytes(&out->plan_hash, in->plan_hash, UUID_BYTES);
	out->part_bytes = in->part_bytes;
	out->window_bytes = in->window_bytes;
	out->next_step = in->next_step;
	out->made = in->made;
	out->branch = in->branch;
	out->begin = in->begin;
	out->common = out->has_common = in->common;
	out->ends = out->has_ends = in->ends;
	out->need_weights = in->need_weights;
	put_text(&out->software, in->software, sizeof in->software, &err);
	put_text(&out->device, in->device, sizeof in->device, &err);
	return err;
}

static void welcome_get(struct reader *r, struct sl_welcome *out, const Split__Welcome *in)
{
	out->version = in->version;
	get_bytes(r, out->plan_hash, UUID_BYTES, &in->plan_hash, "plan_hash");
	out->part_bytes = get_part_bytes(r, in->part_bytes);
	out->window_bytes = in->window_bytes;
	out->next_step = in->next_step;
	out->made = in->made;
	out->branch = in->branch;
	out->begin = in->begin;
	out->common = in->has_common && in->common;
	out->ends = in->has_ends && in->ends;
	out->need_weights = in->need_weights;
	get_text(r, out->software, sizeof out->software, &in->software, "software");
	get_text(r, out->device, sizeof out->device, &in->device, "device");
}

static enum sl_err refuse_put(Split__Refuse *out, const struct sl_refuse *in)
{
	enum sl_err err = sl_wire_number(in->code) ? SL_OK : SL_ERR_DATA;

	split__refuse__init(out);
	out->code = sl_wire_number(in->code);
	put_text(&out->text, in->text, sizeof in->text, &err);
	put_text(&out->key, in->key, sizeof in->key, &err);
	out->has_key = in->key[0] != 0;
	return err;
}

static void refuse_get(struct reader *r, struct sl_refuse *out, const Split__Refuse *in)
{
	out->code = sl_wire_error(in->code);
	if (out->code == SL_ERR_OK)
		bad(r, "code", "is not an error's number");
	get_text(r, out->text, sizeof out->text, &in->text, "text");
	if (in->has_key)
		get_text(r, out->key, sizeof out->key, &in->key, "key");
}

/* The fields that are copied unchanged. */
#define COPY_PART(to, from)                                                                             \
	((to)->training = (from)->training, (to)->step = (from)->step, (to)->chunk = (from)->chunk,     \
	 (to)->rows = (from)->rows, (to)->batch_rows = (from)->batch_rows, (to)->total = (from)->total, \
	 (to)->offset = (from)->offset, (to)->xxh3 = (from)->xxh3)

static enum sl_err part_put(Split__Part *out, const struct sl_part *in)
{
	split__part__init(out);
	out->what = in->what;
	COPY_PART(out, in);
	out->tokens = in->tokens;
	out->has_tokens = in->tokens != 0;
	out->answers = in->answers;
	out->has_answers = in->answers != 0;
	return in->what < SL_PART_WHAT_COUNT ? SL_OK : SL_ERR_DATA;
}

static void part_get(struct reader *r, struct sl_part *out, const Split__Part *in, struct sl_bytes payload)
{
	out->what = get_below(r, in->what, SL_PART_WHAT_COUNT, "what");
	COPY_PART(out, in);
	out->tokens = in->has_tokens ? in->tokens : 0;
	out->answers = in->has_answers ? in->answers : 0;
	if (payload.len < 1 || payload.len > SL_WIRE_PART_MAX)
		bad(r, "payload", "has a wrong length");
	else if (out->offset > out->total || payload.len > out->total - out->offset)
		bad(r, "payload", "passes the end of its run");
	else if (!r->err && sl_wire_hash(payload) != out->xxh3)
		r->err = sl_fail_set(r->fail, SL_ERR_PROTOCOL,
				     "corrupt part: XXH3 of %zu bytes at offset %llu differs from its header's",
				     payload.len, (unsigned long long)out->offset);
}

static enum sl_err abandon_put(Split__Abandon *out, const struct sl_abandon *in)
{
	enum sl_err err = SL_OK;

	split__abandon__init(out);
	out->step = in->step;
	out->late = in->late;
	put_text(&out->text, in->text, sizeof in->text, &err);
	return err;
}

/* The fields that are copied unchanged. */
#define COPY_COMMIT(to, from)                                                             \
	((to)->step = (from)->step, (to)->chunks = (from)->chunks, (to)->lr = (from)->lr, \
	 (to)->checkpoint = (from)->checkpoint, (to)->skip = (from)->skip)

static enum sl_err body_put(union body *out, const struct sl_frame *frame)
{
	enum sl_err err = SL_OK;

	switch (frame->kind) {
	case SL_FRAME_HELLO:
		return hello_put(&out->hello, &frame->u.hello, frame->epoch);
	case SL_FRAME_WELCOME:
		return welcome_put(&out->welcome, &frame->u.welcome);
	case SL_FRAME_REFUSE:
		return refuse_put(&out->refuse, &frame->u.refuse);
	case SL_FRAME_PART:
		return part_put(&out->part, &frame->u.part);
	case SL_FRAME_CREDIT:
		split__credit__init(&out->credit);
		out->credit.bytes = frame->u.credit.bytes;
		return SL_OK;
	case SL_FRAME_COMMIT:
		split__commit__init(&out->commit);
		COPY_COMMIT(&out->commit, &frame->u.commit);
		out->commit.kept_0 = frame->u.commit.kept[0];
		out->commit.kept_1 = frame->u.commit.kept[1];
		out->commit.grad_scale = frame->u.commit.grad_scale;
		out->commit.has_grad_scale = frame->u.commit.grad_scale != 0;
		out->commit.writing = out->commit.has_writing = frame->u.commit.writing;
		return SL_OK;
	case SL_FRAME_COMMITTED:
		split__committed__init(&out->committed);
		out->committed.step = frame->u.committed.step;
		out->committed.compute_s = frame->u.committed.compute_s;
		out->committed.checkpointed = frame->u.committed.checkpointed;
		out->committed.mean = frame->u.committed.mean;
		out->committed.lr = frame->u.committed.lr;
		out->committed.has_lr = frame->u.committed.other_lr;
		return SL_OK;
	case SL_FRAME_FETCH:
		split__fetch__init(&out->fetch);
		out->fetch.whole = out->fetch.has_whole = frame->u.fetch.whole;
		return SL_OK;
	case SL_FRAME_HEARTBEAT:
		split__heartbeat__init(&out->heartbeat);
		out->heartbeat.sent_ms = frame->u.heartbeat.sent_ms;
		out->heartbeat.echo_ms = frame->u.heartbeat.echo_ms;
		return SL_OK;
	case SL_FRAME_BYE:
		split__bye__init(&out->bye);
		return SL_OK;
	case SL_FRAME_ABANDON:
		return abandon_put(&out->abandon, &frame->u.abandon);
	case SL_FRAME_CHALLENGE:
		split__challenge__init(&out->challenge);
		put_bytes(&out->challenge.nonce, frame->u.challenge.nonce, SL_NONCE_BYTES);
		out->challenge.above = frame->u.challenge.above;
		return SL_OK;
	case SL_FRAME_NORM:
		split__norm__init(&out->norm);
		out->norm.step = frame->u.norm.step;
		out->norm.squares = frame->u.norm.squares;
		return SL_OK;
	case SL_FRAME_RECORD:
		split__record__init(&out->record);
		out->record.more = frame->u.record.more;
		put_text(&out->record.text, frame->u.record.text, sizeof frame->u.record.text, &err);
		return err;
	case SL_FRAME_REPORT:
		split__report__init(&out->report);
		put_text(&out->report.text, frame->u.report.text, sizeof frame->u.report.text, &err);
		put_bytes(&out->report.signature, frame->u.report.signature, SL_PROOF_BYTES);
		return err;
	case SL_FRAME_COUNT:
		break;
	}
	return SL_ERR_DATA;
}

enum { CASE_OF_KIND_0 = SPLIT__FRAME__BODY_HELLO };
_Static_assert(SPLIT__FRAME__BODY_REPORT == CASE_OF_KIND_0 + SL_FRAME_REPORT,
	       "kinds are numbered in the schema's order");

/* ---- the check: on a plain link nothing else would notice a flipped bit of, say, a learning rate */

static uint64_t check_of(const uint8_t *header, size_t len)
{
	return XXH3_64bits(header, len - CHECK_BYTES);
}

static void check_write(uint8_t *header, size_t len)
{
	uint64_t check = check_of(header, len);

	for (int i = 0; i < CHECK_BYTES; i++)
		header[len - CHECK_BYTES + (size_t)i] = (uint8_t)(check >> 8 * i);
}

/* Whether a header ends as one of this version, with a hash that is not its own. */
static bool corrupt(struct sl_bytes header)
{
	uint64_t check = 0;

	if (header.len <= CHECK_BYTES || header.data[header.len - CHECK_BYTES - 1] != CHECK_TAG)
		return false;
	for (int i = 0; i < CHECK_BYTES; i++)
		check |= (uint64_t)header.data[header.len - CHECK_BYTES + (size_t)i] << 8 * i;
	return check != check_of(header.data, header.len);
}

enum sl_err sl_wire_encode(const struct sl_frame *frame, uint8_t header[SL_WIRE_HEADER_MAX], size_t *len)
{
	Split__Frame top = SPLIT__FRAME__INIT;
	union body body;
	enum sl_err err = body_put(&body, frame);

	if (err)
		return err;
	top.epoch = frame->epoch;
	top.body_case = (Split__Frame__BodyCase)(CASE_OF_KIND_0 + frame->kind);
	top.hello = &body.hello; /* every member of the union is a pointer to the start of `body` */
	if (split__frame__get_packed_size(&top) > SL_WIRE_HEADER_MAX)
		return SL_ERR_LIMIT;
	*len = split__frame__pack(&top, header);
	/* what the peer looks for in front of the check */
	sl_assert(*len > CHECK_BYTES && header[*len - CHECK_BYTES - 1] == CHECK_TAG);
	check_write(header, *len);
	return SL_OK;
}

static void body_get(struct reader *r, struct sl_frame *out, const Split__Frame *in, struct sl_bytes payload)
{
	out->kind = (enum sl_frame_kind)((int)in->body_case - CASE_OF_KIND_0);
	switch (out->kind) {
	case SL_FRAME_HELLO:
		hello_get(r, &out->u.hello, in->hello, in->epoch);
		hello_payload(r, &out->u.hello, payload);
		break;
	case SL_FRAME_WELCOME:
		welcome_get(r, &out->u.welcome, in->welcome);
		break;
	case SL_FRAME_REFUSE:
		refuse_get(r, &out->u.refuse, in->refuse);
		break;
	case SL_FRAME_PART:
		part_get(r, &out->u.part, in->part, payload);
		break;
	case SL_FRAME_CREDIT:
		out->u.credit.bytes = in->credit->bytes;
		break;
	case SL_FRAME_COMMIT:
		COPY_COMMIT(&out->u.commit, in->commit);
		out->u.commit.lr = get_finite(r, in->commit->lr, "lr");
		out->u.commit.kept[0] = in->commit->kept_0;
		out->u.commit.kept[1] = in->commit->kept_1;
		out->u.commit.grad_scale = get_finite(r, in->commit->grad_scale, "grad_scale"); /* 0: left out */
		out->u.commit.writing = in->commit->has_writing && in->commit->writing;
		break;
	case SL_FRAME_COMMITTED:
		out->u.committed.step = in->committed->step;
		out->u.committed.compute_s = get_finite(r, in->committed->compute_s, "compute_s");
		out->u.committed.checkpointed = in->committed->checkpointed;
		out->u.committed.mean = in->committed->mean;
		out->u.committed.other_lr = in->committed->has_lr;
		out->u.committed.lr = get_finite(r, in->committed->lr, "lr");
		break;
	case SL_FRAME_HEARTBEAT:
		out->u.heartbeat.sent_ms = in->heartbeat->sent_ms;
		out->u.heartbeat.echo_ms = in->heartbeat->echo_ms;
		break;
	case SL_FRAME_ABANDON:
		out->u.abandon.step = in->abandon->step;
		out->u.abandon.late = in->abandon->late;
		get_text(r, out->u.abandon.text, sizeof out->u.abandon.text, &in->abandon->text, "text");
		break;
	case SL_FRAME_CHALLENGE:
		get_bytes(r, out->u.challenge.nonce, SL_NONCE_BYTES, &in->challenge->nonce, "nonce");
		out->u.challenge.above = in->challenge->above;
		break;
	case SL_FRAME_NORM:
		out->u.norm.step = in->norm->step;
		out->u.norm.squares = get_finite(r, in->norm->squares, "squares");
		break;
	case SL_FRAME_RECORD:
		out->u.record.more = in->record->more;
		get_text(r, out->u.record.text, sizeof out->u.record.text, &in->record->text, "text");
		break;
	case SL_FRAME_REPORT:
		get_text(r, out->u.report.text, sizeof out->u.report.text, &in->report->text, "text");
		get_bytes(r, out->u.report.signature, SL_PROOF_BYTES, &in->report->signature, "signature");
		break;
	case SL_FRAME_FETCH:
		out->u.fetch.whole = in->fetch->has_whole && in->fetch->whole;
		break;
	case SL_FRAME_BYE:
	case SL_FRAME_COUNT:
		break;
	}
	if (out->kind != SL_FRAME_PART && out->kind != SL_FRAME_HELLO && payload.len)
		bad(r, sl_frame_kind_name(out->kind), "has a payload");
}

enum sl_err sl_wire_other_version(uint32_t theirs, bool clients, struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_VERSION, "the %s speaks protocol %u, the %s %d: update the older one",
			   clients ? "client" : "server", theirs, clients ? "server" : "client", SL_WIRE_VERSION);
}

/* The error for an unreadable header: corrupt, of another version (the sentence then names both), or malformed. */
static enum sl_err unreadable(struct sl_bytes header, struct bump *bump, ProtobufCAllocator *allocator,
			      struct sl_fail *fail)
{
	Split__VersionProbe *probe;
	const Split__VersionProbe__Any *any = NULL;

	if (corrupt(header))
		return sl_fail_set(fail, SL_ERR_PROTOCOL,
				   "malformed frame: corrupt header, whose XXH3 of %zu bytes differs from its own",
				   header.len - CHECK_BYTES);
	bump->used = 0;
	probe = split__version_probe__unpack(allocator, header.len, header.data);
	if (probe)
		any = probe->hello ? probe->hello : probe->welcome;
	if (any && any->has_version && any->version != SL_WIRE_VERSION)
		return sl_wire_other_version(any->version, probe->hello, fail);
	return sl_fail_set(fail, SL_ERR_PROTOCOL,
			   "malformed frame: its header of %zu bytes is not one of this protocol", header.len);
}

/* Whether the frame, encoded again, gives the same bytes. This one rule refuses unknown, repeated, reordered, padded
 * and left-over fields, without knowledge of protobuf's many spellings. */
static bool canonical(const struct sl_frame *frame, struct sl_bytes header)
{
	uint8_t again[SL_WIRE_HEADER_MAX];
	size_t len = 0;

	return sl_wire_encode(frame, again, &len) == SL_OK && len == header.len && memcmp(again, header.data, len) == 0;
}

enum sl_err sl_wire_decode(struct sl_bytes header, struct sl_bytes payload, struct sl_frame *frame,
			   struct sl_fail *fail)
{
	struct bump bump;
	ProtobufCAllocator allocator = {.alloc = bump_alloc, .free = bump_free, .allocator_data = &bump};
	struct reader r = {.err = SL_OK, .fail = fail};
	struct sl_frame got;
	Split__Frame *top;

	if (header.len < 1 || header.len > SL_WIRE_HEADER_MAX)
		return sl_fail_set(fail, SL_ERR_PROTOCOL, "malformed frame: a header of %zu bytes (1 to %d)",
				   header.len, SL_WIRE_HEADER_MAX);
	bump.used = 0;
	top = split__frame__unpack(&allocator, header.len, header.data);
	if (!top)
		return unreadable(header, &bump, &allocator, fail);
	if (top->body_case == SPLIT__FRAME__BODY__NOT_SET)
		return sl_fail_set(fail, SL_ERR_PROTOCOL, "malformed frame: of no known kind");
	memset(&got, 0, sizeof got);
	got.epoch = top->epoch;
	got.payload = payload;
	body_get(&r, &got, top, payload);
	if (r.err)
		return r.err;
	if (!canonical(&got, header))
		return unreadable(header, &bump, &allocator, fail);
	*frame = got;
	return SL_OK;
}
