#include "common/session/session.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/codec/lengths.h"
#include "common/session/table.h"

const char *sl_session_state_name(enum sl_session_state state)
{
	static const char *const name[SL_SESSION_STATE_COUNT] = {
#define X(name) #name,
		SL_SESSION_STATE_MAP(X)
#undef X
	};

	return (unsigned)state < SL_SESSION_STATE_COUNT ? name[state] : "?";
}

const char *sl_task_name(enum sl_task task)
{
	static const char *const name[SL_TASK_COUNT] = {
#define X(name) #name,
		SL_TASK_MAP(X)
#undef X
	};

	return (unsigned)task < SL_TASK_COUNT ? name[task] : "?";
}

struct sl_action *sl_outbox_add(struct sl_outbox *out, enum sl_action_kind kind)
{
	struct sl_action *a = &out->action[out->n_action++];

	sl_assert_int(out->n_action, <=, SL_OUTBOX_ACTIONS);
	*a = (struct sl_action){.kind = kind, .chunk = -1};
	return a;
}

void sl_outbox_task(struct sl_outbox *out, enum sl_task task, int chunk)
{
	struct sl_action *a = sl_outbox_add(out, SL_ACTION_TASK);

	a->task = task;
	a->chunk = chunk;
}

void sl_outbox_post(struct sl_outbox *out, enum sl_part_what what, int chunk)
{
	struct sl_action *a = sl_outbox_add(out, SL_ACTION_POST);

	a->what = what;
	a->chunk = chunk;
}

struct sl_frame *sl_outbox_frame(struct sl_session *s, struct sl_outbox *out, enum sl_frame_kind kind)
{
	struct sl_frame *f = &out->frame[out->n_frame];

	sl_assert_int(out->n_frame, <, SL_OUTBOX_FRAMES);
	memset(f, 0, sizeof *f);
	f->kind = kind;
	f->epoch = s->epoch;
	sl_outbox_add(out, SL_ACTION_SEND)->frame = out->n_frame++;
	return f;
}

uint64_t sl_session_chunk_rows(const struct sl_session *s, int chunk)
{
	uint64_t left;

	if (sl_session_is_free(s)) /* batch_rows grows while the worker asks for chunks of earlier calls */
		return s->rows_of[chunk];
	left = s->batch_rows - (uint64_t)chunk * s->limits.rows;
	return left < s->limits.rows ? left : s->limits.rows;
}

void sl_pass_begin(struct sl_session *s, bool training, uint64_t number, uint64_t batch_rows)
{
	s->training = training;
	s->number = number;
	s->batch_rows = batch_rows;
	s->answers = 0;
	s->chunks = (int)((batch_rows + s->limits.rows - 1) / s->limits.rows);
	s->decided = SL_DECIDED_NOT;
	s->grad_scale = sl_session_is_free(s) && s->role == SL_SESSION_CLIENT ? -1 : 0;
	s->mean_factor = 1;
	s->backs = s->norm_of = s->committed = 0;
	memset(s->back, 0, sizeof s->back);
	memset(s->squares, 0, sizeof s->squares);
	s->own_squares = 0;
	s->squares[1] = sl_session_awaits_norm(s) ? -1 : 0;
	s->fate = SL_PASS_GOES_ON;
	s->commit = SL_COMMIT_APPLIES;
	s->late = false;
	memset(s->lane, 0, SL_PART_ENDS * sizeof s->lane[0]); /* without SL_PART_ENDS, which crosses beside passes */
	memset(&s->lane[SL_PART_ORDER], 0, sizeof s->lane[0]);
	memset(s->done, 0, sizeof s->done);
	memset(s->tokens, 0, sizeof s->tokens);
}

bool sl_session_awaits_norm(const struct sl_session *s)
{
	return s->limits.clip_norm > 0 && !s->limits.no_mid_grad;
}

bool sl_session_tokens_fit(const struct sl_session *s, int chunk, uint64_t tokens)
{
	const uint64_t rows = sl_session_chunk_rows(s, chunk), longest = rows * s->limits.row_tokens;

	if (!s->limits.chunk_tokens)
		return tokens == 0;
	if (s->limits.whole_rows)
		return tokens == longest;
	return tokens >= rows && tokens <= s->limits.chunk_tokens && tokens <= longest;
}

bool sl_session_answers_fit(const struct sl_session *s, const struct sl_part *p)
{
	if (!p->training || !s->limits.token_loss)
		return p->answers == 0;
	return p->answers >= 1 && p->answers <= p->batch_rows * s->limits.row_tokens;
}

/* The first part of head_act says how many tokens its chunk has; all others must say the same. */
static enum sl_err check_tokens(struct sl_session *s, const struct sl_part *p, struct sl_outbox *out)
{
	const int chunk = (int)p->chunk;

	if (!s->tokens[chunk] && s->limits.whole_rows && !sl_session_tokens_fit(s, chunk, p->tokens))
		return sl_fail_set(&out->fail, SL_ERR_LIMIT,
				   "chunk %d of %" PRIu64 " rows with %u tokens, where each row has %" PRIu64, chunk,
				   sl_session_chunk_rows(s, chunk), p->tokens, s->limits.row_tokens);
	if (!s->tokens[chunk] && !sl_session_tokens_fit(s, chunk, p->tokens))
		return sl_fail_set(&out->fail, SL_ERR_LIMIT,
				   "chunk %d of %" PRIu64 " rows with %u tokens, where rows have up to %" PRIu64
				   " and a chunk up to %" PRIu64,
				   chunk, sl_session_chunk_rows(s, chunk), p->tokens, s->limits.row_tokens,
				   s->limits.chunk_tokens);
	if (s->tokens[chunk] && p->tokens != s->tokens[chunk])
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "chunk %d has %u tokens, the part says %u", chunk,
				   s->tokens[chunk], p->tokens);
	s->tokens[chunk] = p->tokens;
	return SL_OK;
}

bool sl_session_ends_cross(const struct sl_session *s)
{
	return s->limits.ends && (!s->limits.ends_round || (s->number + 1) % s->limits.ends_round == 0);
}

bool sl_session_skip_tells(const struct sl_session *s)
{
	return s->limits.ends_round && sl_session_ends_cross(s) && !s->late;
}

/* The hash that begins a pass in a vertical group, or comes back. */
static enum sl_err check_order(struct sl_session *s, const struct sl_frame *frame, struct sl_outbox *out)
{
	const struct sl_part *p = &frame->u.part;

	if (p->chunk || p->rows || p->tokens || p->answers)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "an order has no chunk, rows, tokens or answers of its own");
	if (p->training != s->training || p->step != s->number || p->batch_rows != s->batch_rows ||
	    s->lane[p->what].chunk || p->total != SL_WIRE_ORDER || frame->payload.len != SL_WIRE_ORDER)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "order of step %" PRIu64 " with %u rows in step %" PRIu64 " with %" PRIu64, p->step,
				   p->batch_rows, s->number, s->batch_rows);
	return SL_OK;
}

static bool is_end(uint32_t what)
{
	return what == SL_PART_END_GRAD || what == SL_PART_END_MEAN;
}

/* end_grad and end_mean: one run a step, which belongs to no chunk. */
static enum sl_err check_end_run(struct sl_session *s, const struct sl_part *p, struct sl_outbox *out)
{
	if (!p->training || !s->training || p->step != s->number)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "part of kind %u of step %" PRIu64 " in step %" PRIu64,
				   p->what, p->step, s->number);
	if (s->lane[p->what].chunk)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "kind %u came twice in step %" PRIu64, p->what,
				   s->number);
	return SL_OK;
}

static enum sl_err check_chunk(struct sl_session *s, const struct sl_part *p, struct sl_outbox *out)
{
	if (p->chunk != (uint32_t)s->lane[p->what].chunk || p->chunk >= (uint32_t)s->chunks)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "part of chunk %u where chunk %d of %d is next",
				   p->chunk, s->lane[p->what].chunk, s->chunks);
	if (p->rows != sl_session_chunk_rows(s, (int)p->chunk))
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "chunk %u has %" PRIu64 " rows, the part says %u",
				   p->chunk, sl_session_chunk_rows(s, (int)p->chunk), p->rows);
	return SL_OK;
}

static bool is_grad(uint32_t what)
{
	return what == SL_PART_MID_GRAD || what == SL_PART_HEAD_GRAD;
}

static enum sl_err check_run(struct sl_session *s, const struct sl_part *p, struct sl_outbox *out)
{
	const char *phase = s->training ? "training" : "evaluation";

	const uint64_t said = sl_session_said_rows(s);
	enum sl_err err;

	if (p->training != s->training || p->step != s->number || p->batch_rows != said)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "part of %s step %" PRIu64 " (%u rows) in %s step %" PRIu64 " (%" PRIu64 " rows)",
				   p->training ? "training" : "evaluation", p->step, p->batch_rows, phase, s->number,
				   said);
	if (p->answers != s->answers)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "part of a step in which %u tokens have a loss, where %" PRIu64 " have", p->answers,
				   s->answers);
	if (sl_session_is_free(s))
		err = (is_grad(p->what) ? sl_free_grad : sl_free_act)(s, p, out);
	else
		err = check_chunk(s, p, out);
	return err ? err : check_tokens(s, p, out);
}

/* Returns credit, though not for every part. Bytes whose credit is held back must leave the sender room for a full
 * part, or both sides wait for ever. The end of a run always returns credit: it tells the sender how long the run
 * took. */
static void grant(struct sl_session *s, uint64_t bytes, bool whole, struct sl_outbox *out)
{
	s->consumed_bytes += bytes;
	if (!whole && s->consumed_bytes < s->window_bytes / 4 &&
	    s->consumed_bytes + s->hello.part_bytes <= s->window_bytes)
		return;
	sl_outbox_frame(s, out, SL_FRAME_CREDIT)->u.credit.bytes = s->consumed_bytes;
	s->consumed_bytes = 0;
}

static enum sl_err too_large(const struct sl_session *s, uint64_t len, struct sl_outbox *out)
{
	return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "a part of %" PRIu64 " bytes where %u are the most", len,
			   s->hello.part_bytes);
}

enum sl_err sl_pass_part(struct sl_session *s, const struct sl_frame *frame, struct sl_outbox *out, bool *whole)
{
	const struct sl_part *p = &frame->u.part;
	uint64_t most = p->what < SL_PART_WHAT_COUNT ? s->limits.run_bytes[p->what] : 0;
	uint64_t len = frame->payload.len;
	struct sl_action *a;
	enum sl_err err;

	if (most == 0)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "part of kind %u, which this side does not receive",
				   p->what);
	if (p->what == SL_PART_ORDER)
		err = check_order(s, frame, out);
	else
		err = sl_part_is_state(p->what) ? SL_OK : (is_end(p->what) ? check_end_run : check_run)(s, p, out);
	if (err)
		return err;
	if (s->limits.fronts & SL_FRONT_LENGTHS && p->what == SL_PART_HEAD_ACT)
		most += sl_lengths_bytes((int64_t)sl_session_chunk_rows(s, (int)p->chunk), s->limits.cached) +
			(s->limits.fronts & SL_FRONT_CHOICE ? sl_choice_bytes(p->tokens) : 0) +
			(s->limits.fronts & SL_FRONT_HOMES
				 ? sl_homes_bytes((int64_t)sl_session_chunk_rows(s, (int)p->chunk))
				 : 0);
	if (p->total < 1 || p->total > most)
		return sl_fail_set(&out->fail, SL_ERR_LIMIT,
				   "a run of %" PRIu64 " bytes where at most %" PRIu64 " can be", p->total, most);
	if (p->what == SL_PART_WEIGHTS && p->total != most)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "weights of %" PRIu64 " bytes where the plan has %" PRIu64, p->total, most);
	if (s->lane[p->what].received && p->total != s->lane[p->what].total)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "total changed from %" PRIu64 " to %" PRIu64 " within a run", s->lane[p->what].total,
				   p->total);
	if (p->offset != s->lane[p->what].received || len < 1 || len > p->total - p->offset)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "part [%" PRIu64 ", +%" PRIu64 ") of %" PRIu64 " where offset %" PRIu64 " is next",
				   p->offset, len, p->total, s->lane[p->what].received);
	if (len > s->hello.part_bytes)
		return too_large(s, len, out);
	s->counts.parts++;
	s->lane[p->what].total = p->total;
	s->lane[p->what].received += len;
	*whole = s->lane[p->what].received == p->total;
	a = sl_outbox_add(out, SL_ACTION_STORE);
	a->what = (enum sl_part_what)p->what;
	a->chunk = sl_part_is_state(p->what) || p->what == SL_PART_ORDER ? 0 : (int)p->chunk;
	a->offset = p->offset;
	a->total = p->total;
	a->whole = *whole;
	if (*whole) {
		if (is_grad(p->what))
			s->back[p->chunk] = SL_BACK_CAME;
		s->lane[p->what].chunk++;
		s->lane[p->what].received = 0;
	}
	grant(s, len, *whole, out);
	return SL_OK;
}

enum sl_err sl_pass_drop(struct sl_session *s, const struct sl_frame *frame, struct sl_outbox *out)
{
	const struct sl_part *p = &frame->u.part;

	if (s->fate == SL_PASS_GOES_ON || p->what == SL_PART_WEIGHTS || !p->training || p->step != s->number)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "part of kind %u, step %" PRIu64 ", where step %" PRIu64 " is abandoned", p->what,
				   p->step, s->number);
	if (frame->payload.len > s->hello.part_bytes)
		return too_large(s, frame->payload.len, out);
	s->counts.parts++;
	grant(s, frame->payload.len, false, out);
	return SL_OK;
}

enum sl_err sl_on_credit(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	uint64_t bytes = ev->frame->u.credit.bytes;

	if (bytes < 1 || bytes > s->peer_window_bytes)
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "credit of %" PRIu64 " bytes where the window is %" PRIu64, bytes,
				   s->peer_window_bytes);
	sl_outbox_add(out, SL_ACTION_CREDIT)->bytes = bytes;
	return SL_OK;
}

enum sl_err sl_on_heartbeat(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	return SL_OK; /* sl_session_step has set heard_ms: no more to do */
}

enum sl_err sl_on_tick_patiently(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms,
				 struct sl_outbox *out)
{
	if (now_ms < s->said_ms + s->hello.heartbeat_ms)
		return SL_OK;
	sl_outbox_frame(s, out, SL_FRAME_HEARTBEAT)->u.heartbeat.sent_ms = now_ms;
	s->said_ms = now_ms;
	return SL_OK;
}

enum sl_err sl_on_tick(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	if (ev->number > s->arrived) /* a part can take longer than the patience */
		s->heard_ms = now_ms;
	s->arrived = ev->number;
	if (!s->patience_ms || now_ms <= s->heard_ms + s->patience_ms)
		return sl_on_tick_patiently(s, ev, now_ms, out);
	/* heartbeats are a part of the patience: where none was due for so long, this side did not run */
	if (now_ms > s->said_ms + s->patience_ms)
		return sl_fail_set(&out->fail, SL_ERR_PEER_LOST,
				   "this process did not run for %" PRIu64
				   " ms, and the link ended (link.timeout_ms: %u): was it or its host suspended?",
				   now_ms - s->said_ms, s->patience_ms);
	return sl_fail_set(&out->fail, SL_ERR_PEER_LOST,
			   "nothing heard from the %s for %" PRIu64 " ms (link.timeout_ms: %u)",
			   s->role == SL_SESSION_CLIENT ? "server" : "client", now_ms - s->heard_ms, s->patience_ms);
}

enum sl_err sl_on_refuse(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	const struct sl_refuse *r = &ev->frame->u.refuse;
	enum sl_err code = r->code < SL_ERR_COUNT && r->code ? (enum sl_err)r->code : SL_ERR_PROTOCOL;
	/* the peer shuts down, or did not hear from this side in time: it ended the session, and refused no request */
	bool ended = code == SL_ERR_UNAVAILABLE || code == SL_ERR_PEER_LOST;

	s->paused = code == SL_ERR_BUSY;
	/* the server says where the network's NaN appeared, and is not to blame */
	if (code == SL_ERR_NONFINITE && r->text[0])
		return sl_fail_at(&out->fail, r->key, code, "%s", r->text);
	return sl_fail_at(&out->fail, r->key, code, "the %s %s: %s", s->role == SL_SESSION_CLIENT ? "server" : "client",
			  ended ? "ended the session" : "refused", r->text[0] ? r->text : "it gives no reason");
}

void sl_session_set_limits(struct sl_session *s, const struct sl_session_limits *limits)
{
	s->limits = *limits;
}

void sl_session_open_client(struct sl_session *s, const struct sl_hello *hello, uint64_t now_ms)
{
	memset(s, 0, sizeof *s);
	s->role = SL_SESSION_CLIENT;
	s->hello = *hello;
	s->epoch = hello->epoch;
	s->window_bytes = hello->window_bytes;
	s->patience_ms = hello->timeout_ms;
	s->heard_ms = s->said_ms = now_ms;
}

void sl_session_open_server(struct sl_session *s, uint64_t window_bytes, uint32_t part_bytes, uint64_t now_ms)
{
	memset(s, 0, sizeof *s);
	s->role = SL_SESSION_SERVER;
	s->window_bytes = window_bytes;
	s->hello.part_bytes = part_bytes < window_bytes ? part_bytes : (uint32_t)window_bytes;
	s->heard_ms = s->said_ms = now_ms;
}
