/* Events in any order for either side of a session: frames whose fields are the expected ones, nearly so, or anything;
 * tasks that end in any way; requests that the driver may make, also for free steps. After an end the session's next
 * epoch sometimes begins: it resumes from a step that was reached, while frames of the old one still arrive. The state
 * machine keeps its promises to the driver: offsets inside their runs, no task twice, nothing after the end, no step
 * but the next, nothing of an older epoch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/lengths.h"
#include "common/session/session.h"

#define CHECK(what)              \
	do {                     \
		if (!(what))     \
			abort(); \
	} while (0)

struct input {
	const uint8_t *data;
	size_t left;
};

/* What the driver knows: the started tasks, and how much of each run has come. */
struct driver {
	struct sl_session s;
	struct sl_outbox out;
	int started[SL_TASK_COUNT], done[SL_TASK_COUNT]; /* both in this pass */
	int queue[SL_TASK_COUNT][SL_SESSION_MAX_CHUNKS]; /* chunks, in the order in which they were started */
	bool began[SL_TASK_COUNT][SL_SESSION_MAX_CHUNKS];
	bool came[SL_SESSION_MAX_CHUNKS]; /* which gradients of a free step have come */
	int admitted, opened, installed;
	bool echoed; /* in this pass */
	uint64_t received[SL_PART_WHAT_COUNT], total[SL_PART_WHAT_COUNT];
	int chunk[SL_PART_WHAT_COUNT];
	bool over, client;
	uint64_t epoch;
	uint64_t held[SL_WIRE_HELD_MAX]; /* steps to resume from; held[n_held - 1] is 0 */
	uint32_t n_held;
	uint64_t stepped; /* 1 + the step of the last STEPPED; 0: none in this epoch */
	struct sl_session_limits limits;
	int abandoned, skipped;        /* in this pass */
	bool joining, prepared, asked; /* the member of a group waits for the group's answer */
	uint64_t group_step;
};

static uint8_t take(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->data++;
}

/* Mostly returns `next`; else a number close to it, or far away. */
static uint64_t near(struct input *in, uint64_t next)
{
	static const uint64_t far[] = {0, 1, INT32_MAX, 1ull << 31, UINT32_MAX, 1ull << 32, INT64_MAX, UINT64_MAX};
	uint8_t how = take(in);

	if (how < 200)
		return next;
	return how < 220 ? next + 1 : how < 240 ? next - 1 : far[how % 8];
}

static void fill_hello(struct input *in, const struct driver *d, struct sl_hello *h)
{
	*h = (struct sl_hello){.version = (uint32_t)near(in, SL_WIRE_VERSION),
			       .epoch = d->epoch,
			       .part_bytes = (uint32_t)near(in, 4096),
			       .window_bytes = near(in, 8192),
			       .heartbeat_ms = (uint32_t)near(in, 100),
			       .timeout_ms = (uint32_t)near(in, 1000),
			       .n_held = (uint32_t)near(in, d->n_held) % (SL_WIRE_HELD_MAX + 1)};
	memcpy(h->held, d->held, sizeof h->held);
}

static bool idle(const struct sl_session *s)
{
	return s->state == SL_SESSION_READY;
}

/* For a free step: chooses the chunk of a part, and its rows. */
static int free_chunk(struct input *in, const struct sl_session *s, uint32_t what, uint64_t *rows)
{
	const bool grad = what == SL_PART_MID_GRAD || what == SL_PART_HEAD_GRAD, begins = !s->lane[what].received;
	const int chunk = grad && begins ? take(in) % (s->chunks + 1) : s->lane[what].chunk;

	*rows = chunk < s->chunks ? s->rows_of[chunk] : 1 + take(in) % s->limits.rows;
	return chunk;
}

static void fill_part(struct input *in, const struct driver *d, struct sl_frame *f)
{
	static const uint8_t bytes[SL_WIRE_PART_MAX];
	const struct sl_session *s = &d->s;
	uint32_t what = take(in) % (SL_PART_WHAT_COUNT + 1);
	uint32_t known = what < SL_PART_WHAT_COUNT ? what : 0;
	const bool order = known == SL_PART_ORDER, end = known > SL_PART_WEIGHTS;
	int chunk = idle(s) ? 0 : s->lane[known].chunk;
	uint64_t batch = idle(s) ? 1 + take(in) % s->limits.batch : s->batch_rows, most = s->limits.run_bytes[known];
	uint64_t left = batch - (uint64_t)chunk * s->limits.rows, rows = left < s->limits.rows ? left : s->limits.rows;
	uint64_t total = 1 + take(in), tokens;
	const bool training = idle(s) ? take(in) & 1 : s->training;

	if (s->limits.free_calls && training && !end) {
		batch = 0;
		chunk = idle(s) ? 0 : free_chunk(in, s, known, &rows);
		rows = idle(s) ? 1 + take(in) % s->limits.rows : rows;
	}
	tokens = rows;
	if (chunk < s->chunks && s->tokens[chunk])
		tokens = s->tokens[chunk];
	if (s->lane[known].received)
		total = s->lane[known].total;
	else if (known == SL_PART_WEIGHTS || order)
		total = most;

	f->u.part = (struct sl_part){.what = what,
				     .training = training,
				     .step = near(in, idle(s) ? s->next_step : s->number),
				     .chunk = (uint32_t)near(in, order ? 0 : (uint64_t)chunk),
				     .rows = (uint32_t)near(in, end ? 0 : rows),
				     .batch_rows = (uint32_t)near(in, end && !order ? 0 : batch),
				     .total = near(in, total),
				     .tokens = (uint32_t)near(in, s->limits.chunk_tokens && !end ? tokens : 0),
				     .answers = (uint32_t)near(in, !s->limits.token_loss || end ? 0
								   : idle(s)                    ? batch
												: s->answers),
				     .offset = near(in, s->lane[known].received)};
	f->payload = (struct sl_bytes){bytes, near(in, total - s->lane[known].received)};
	/* sl_wire_decode accepts no longer ones */
	if (f->payload.len > SL_WIRE_PART_MAX)
		f->payload.len = SL_WIRE_PART_MAX;
}

static void fill_frame(struct input *in, const struct driver *d, struct sl_frame *f, enum sl_frame_kind kind)
{
	const struct sl_session *s = &d->s;

	*f = (struct sl_frame){.kind = kind, .epoch = near(in, kind == SL_FRAME_HELLO ? d->epoch : s->epoch)};
	switch (kind) {
	case SL_FRAME_HELLO:
		fill_hello(in, d, &f->u.hello);
		break;
	case SL_FRAME_WELCOME:
		f->u.welcome = (struct sl_welcome){.version = (uint32_t)near(in, SL_WIRE_VERSION),
						   .part_bytes = (uint32_t)near(in, 4096),
						   .window_bytes = near(in, 8192),
						   .next_step = near(in, d->held[take(in) % d->n_held]),
						   .need_weights = take(in) & 1};
		break;
	case SL_FRAME_REFUSE:
		f->u.refuse.code = 1 + take(in) % (SL_ERR_COUNT - 1);
		break;
	case SL_FRAME_PART:
		fill_part(in, d, f);
		break;
	case SL_FRAME_CREDIT:
		f->u.credit.bytes = near(in, 1000);
		break;
	case SL_FRAME_COMMIT:
		f->u.commit =
			(struct sl_commit){near(in, s->number),
					   (uint32_t)near(in, (uint64_t)(s->limits.free_calls ? s->backs : s->chunks)),
					   (double)near(in, 1),
					   take(in) & 1,
					   take(in) & 1,
					   {near(in, s->next_step), near(in, s->next_step)},
					   s->limits.party && s->grad_scale > 0 ? s->grad_scale * (double)near(in, 1)
					   : s->limits.clip_norm > 0 || s->limits.free_calls ? 0.5 * (double)near(in, 1)
											     : 0,
					   take(in) & 1};
		break;
	case SL_FRAME_COMMITTED:
		f->u.committed = (struct sl_committed){near(in, s->number), 0.5,
						       take(in) & 1,        s->limits.ends != (take(in) % 8 == 0),
						       take(in) & 1,        (double)near(in, 1)};
		break;
	case SL_FRAME_ABANDON:
		f->u.abandon = (struct sl_abandon){
			near(in, s->state == SL_SESSION_WEIGHTS || idle(s) ? s->next_step : s->number), "NaN",
			take(in) % 4 == 0};
		break;
	case SL_FRAME_CHALLENGE:
		f->u.challenge.nonce[0] = take(in);
		f->u.challenge.above = near(in, take(in) & 1 ? s->epoch : 0);
		break;
	case SL_FRAME_NORM:
		f->u.norm = (struct sl_wire_norm){near(in, s->number),
						  (double)near(in, s->limits.free_calls ? 1 + take(in) % 4 : 4)};
		break;
	case SL_FRAME_RECORD:
		snprintf(f->u.record.text, sizeof f->u.record.text, "%.*s", take(in), "{}");
		f->u.record.more = take(in) & 1;
		break;
	case SL_FRAME_REPORT:
		snprintf(f->u.report.text, sizeof f->u.report.text, "%.*s", take(in), "{}");
		f->u.report.signature[0] = take(in);
		break;
	case SL_FRAME_HEARTBEAT:
		f->u.heartbeat = (struct sl_heartbeat){near(in, 500), near(in, 400)};
		break;
	default:
		break;
	}
}

/* ---- checks of what the session tells the driver */

static void check_task(struct driver *d, const struct sl_action *a)
{
	bool chunked = a->task >= SL_TASK_HEAD_FWD && a->task <= SL_TASK_HEAD_BWD;

	CHECK((unsigned)a->task < SL_TASK_COUNT);
	CHECK(a->chunk >= 0 && a->chunk < (chunked ? d->s.chunks : 1));
	if (chunked) {
		CHECK(!d->began[a->task][a->chunk]);
		CHECK(sl_session_is_free(&d->s) || a->chunk == d->started[a->task]); /* in order */
		d->began[a->task][a->chunk] = true;
		d->queue[a->task][d->started[a->task]] = a->chunk;
	} else
		CHECK(d->started[a->task] == d->done[a->task]); /* its job is free */
	if (a->task == SL_TASK_COMMIT)                          /* again to skip a step with NaN */
		CHECK(d->started[a->task] == 0 ||
		      (d->s.role == SL_SESSION_SERVER && sl_session_skips(&d->s) && !d->skipped++));
	if (a->task == SL_TASK_ABANDON)
		CHECK(d->s.fate != SL_PASS_GOES_ON && !d->abandoned++);
	/* the task's inputs are there */
	CHECK(a->task != SL_TASK_GRAD || a->chunk < d->done[SL_TASK_TAIL]);
	CHECK(a->task != SL_TASK_MID_BWD || a->chunk < d->done[SL_TASK_MID_FWD]);
	CHECK(a->task != SL_TASK_HEAD_BWD || !d->s.limits.free_calls || d->s.back[a->chunk] >= SL_BACK_ENCODED);
	CHECK(a->task != SL_TASK_NORM || d->done[SL_TASK_MID_BWD]);
	CHECK(a->task != SL_TASK_ADMIT || !d->admitted++);
	CHECK(a->task != SL_TASK_OPEN || (d->admitted && !d->opened++));
	CHECK(a->task != SL_TASK_INSTALL || !d->installed++);
	d->started[a->task]++;
}

static uint64_t lengths_bytes(const struct driver *d, const struct sl_action *a)
{
	return d->s.limits.fronts && a->what == SL_PART_HEAD_ACT
		       ? sl_lengths_bytes((int64_t)sl_session_chunk_rows(&d->s, a->chunk), d->s.limits.cached)
		       : 0;
}

/* A chunk has at most as many tokens as codecs and kernels have room for. */
static void check_tokens(const struct sl_session *s, int chunk)
{
	const uint64_t rows = sl_session_chunk_rows(s, chunk), tokens = s->tokens[chunk];

	if (s->limits.chunk_tokens)
		CHECK(tokens >= rows && tokens <= s->limits.chunk_tokens && tokens <= rows * s->limits.row_tokens);
	else
		CHECK(tokens == 0);
}

static void check_store(struct driver *d, const struct sl_action *a, const struct sl_frame *f)
{
	uint64_t len = f->payload.len;
	int what = (int)a->what;
	const bool any = sl_session_is_free(&d->s) && (what == SL_PART_MID_GRAD || what == SL_PART_HEAD_GRAD);

	CHECK((unsigned)what < SL_PART_WHAT_COUNT);
	CHECK(a->total >= 1 && a->total <= d->s.limits.run_bytes[what] + lengths_bytes(d, a));
	if (what < SL_PART_WEIGHTS)
		check_tokens(&d->s, a->chunk);
	CHECK(len >= 1 && a->offset < a->total && len <= a->total - a->offset);
	CHECK(a->chunk >= 0 && a->chunk < (what >= SL_PART_WEIGHTS ? 1 : d->s.chunks));
	if (any && !a->offset) { /* gradients of a free step come in any order, each once */
		CHECK(!d->came[a->chunk]);
		d->chunk[what] = a->chunk;
	}
	CHECK(a->offset == d->received[what] && a->chunk == d->chunk[what]);
	CHECK(a->offset == 0 || a->total == d->total[what]);
	CHECK(a->whole == (a->offset + len == a->total));
	d->total[what] = a->total;
	d->received[what] = a->whole ? 0 : a->offset + len;
	if (any)
		d->came[a->chunk] = a->whole;
	else
		d->chunk[what] += what != SL_PART_WEIGHTS && a->whole;
}

static bool is_held(const struct driver *d, uint64_t step)
{
	for (uint32_t i = 0; i < d->n_held; i++)
		if (d->held[i] == step)
			return true;
	return false;
}

/* Steps come one after another, from the step that both sides agreed on; none comes twice. */
static void check_stepped(struct driver *d)
{
	CHECK(d->s.next_step == d->s.number + 1);
	CHECK(d->stepped ? d->s.next_step == d->stepped + 1 : is_held(d, d->s.number));
	if (d->limits.shared && !d->client)
		CHECK(d->done[SL_TASK_PREPARE] >= 1 && !d->done[SL_TASK_COMMIT]);
	else
		CHECK(d->done[SL_TASK_COMMIT] == 1 + d->skipped);
	d->stepped = d->s.next_step;
}

static void check_actions(struct driver *d, const struct sl_event *ev, enum sl_err err)
{
	bool failed = false;

	CHECK(d->out.n_action >= 0 && d->out.n_action <= SL_OUTBOX_ACTIONS);
	CHECK(d->out.n_frame >= 0 && d->out.n_frame <= SL_OUTBOX_FRAMES);
	for (int i = 0; i < d->out.n_action; i++) {
		const struct sl_action *a = &d->out.action[i];

		if (a->kind == SL_ACTION_TASK)
			check_task(d, a);
		else if (a->kind == SL_ACTION_STORE)
			check_store(d, a, ev->frame);
		else if (a->kind == SL_ACTION_SEND)
			CHECK(a->frame >= 0 && a->frame < d->out.n_frame);
		else if (a->kind == SL_ACTION_ABANDONED)
			CHECK(d->s.role == SL_SESSION_CLIENT && d->s.fate == SL_PASS_QUIET && d->out.fail.text[0]);
		else if (a->kind == SL_ACTION_POST)
			CHECK(a->chunk >= 0 && a->chunk < (a->what >= SL_PART_WEIGHTS ? 1 : d->s.chunks));
		else if (a->kind == SL_ACTION_READY)
			CHECK(is_held(d, d->s.next_step));
		else if (a->kind == SL_ACTION_STEPPED)
			check_stepped(d);
		else if (a->kind == SL_ACTION_PREPARED && d->s.limits.party && d->s.limits.clip_norm > 0 &&
			 !d->s.limits.no_mid_grad && !sl_session_skips(&d->s)) /* all parties have one factor */
			CHECK(d->s.norm_of && d->s.squares[1] >= 0 && d->s.grad_scale > 0);
		d->joining |= a->kind == SL_ACTION_JOINING;
		d->prepared |= a->kind == SL_ACTION_PREPARED;
		d->asked |= a->kind == SL_ACTION_ASKED;
		failed |= a->kind == SL_ACTION_FAIL;
	}
	CHECK(failed == (err != SL_OK));
	CHECK(!failed || (d->s.state == SL_SESSION_CLOSED && d->out.fail.code == err && d->out.fail.text[0]));
}

/* A pass begins when the session enters STEP or EVAL; by then every task of the last one must be done. */
static void note_pass(struct driver *d, enum sl_session_state before, enum sl_event_kind kind)
{
	enum sl_session_state after = d->s.state;
	bool unbegun = before == SL_SESSION_READY || before == SL_SESSION_WEIGHTS;
	bool begins = (before == SL_SESSION_READY &&
		       (kind == SL_EV_PART || kind == SL_EV_BEGIN_STEP || kind == SL_EV_BEGIN_EVAL)) ||
		      (unbegun && (after == SL_SESSION_ABANDON || after == SL_SESSION_COMMIT));

	if ((!begins || after == SL_SESSION_CLOSED) && !(kind == SL_EV_BEGIN_FETCH))
		return;
	for (int task = SL_TASK_HEAD_FWD; task <= SL_TASK_COMMIT; task++)
		CHECK(d->started[task] == d->done[task]);
	/* not the weights: their last part may come at the end of a pass that was abandoned before it began */
	for (int what = 0; what < SL_PART_WHAT_COUNT; what++)
		d->received[what] = what == SL_PART_WEIGHTS ? d->received[what] : 0;
	memset(d->chunk, 0, sizeof d->chunk);
	memset(d->came, 0, sizeof d->came);
	memset(d->began, 0, sizeof d->began);
	d->abandoned = d->skipped = 0;
	d->echoed = false;
	for (int task = SL_TASK_HEAD_FWD; task <= SL_TASK_COMMIT; task++)
		d->started[task] = d->done[task] = 0;
}

/* note_pass comes before check_actions: the first actions of a pass come with the event that begins it. */
static void feed(struct driver *d, const struct sl_event *ev, uint64_t now_ms)
{
	enum sl_session_state before = d->s.state;
	uint64_t epoch = d->s.epoch;
	bool stale = before != SL_SESSION_CLOSED && ev->kind < SL_EV_TASK_DONE && ev->kind != SL_EV_HELLO &&
		     ev->frame->epoch < d->s.epoch && !(ev->kind == SL_EV_REFUSE && ev->frame->epoch == 0);
	uint64_t counted = d->s.counts.stale_frames, heard_ms = d->s.heard_ms;
	enum sl_err err = sl_session_step(&d->s, ev, now_ms, &d->out);

	if (stale)
		CHECK(err == SL_OK && d->out.n_action == 0 && d->s.state == before &&
		      d->s.counts.stale_frames == counted + 1 && d->s.heard_ms == heard_ms);
	if (d->over) {
		CHECK(err == SL_OK && d->out.n_action == 0 && d->s.state == SL_SESSION_CLOSED);
		return;
	}
	/* a client's epoch rises only at the first link of its process, above that of a Challenge */
	CHECK(!d->client || d->s.epoch == epoch || (d->s.first && ev->kind == SL_EV_CHALLENGE && d->s.epoch > epoch));
	CHECK(d->s.epoch <= INT64_MAX || !d->client);
	note_pass(d, before, ev->kind);
	check_actions(d, ev, err);
	d->over = d->s.state == SL_SESSION_CLOSED;
}

/* ---- the driver's own events */

/* The worker runs ABANDON after all tasks that were queued before. */
static bool pass_runs(const struct driver *d)
{
	for (int task = 0; task < SL_TASK_COUNT; task++)
		if (task != SL_TASK_ABANDON && d->done[task] != d->started[task])
			return true;
	return false;
}

static bool end_task(struct input *in, struct driver *d, struct sl_event *ev)
{
	static const struct sl_fail why = {.code = SL_ERR_NONFINITE, .text = "NaN"};
	int first = take(in) % SL_TASK_COUNT;

	for (int i = 0; i < SL_TASK_COUNT; i++) {
		int task = (first + i) % SL_TASK_COUNT;

		if (d->done[task] == d->started[task] || (task == SL_TASK_ABANDON && pass_runs(d)))
			continue;
		ev->kind = SL_EV_TASK_DONE;
		if (sl_session_abandons(&d->s) && task != SL_TASK_ABANDON && task != SL_TASK_INSTALL &&
		    take(in) % 8 == 0)
			ev->kind = SL_EV_NONFINITE;
		ev->why = &why;
		ev->task = (enum sl_task)task;
		ev->chunk = task >= SL_TASK_HEAD_FWD && task <= SL_TASK_HEAD_BWD ? d->queue[task][d->done[task]] : 0;
		ev->need_weights = take(in) & 1;
		ev->checkpointed = take(in) & 1;
		ev->mean = d->s.limits.ends && take(in) & 1;
		/* the server's driver resumes from a step that the Hello offers */
		ev->next_step = d->s.hello.n_held ? d->s.hello.held[take(in) % d->s.hello.n_held] : 0;
		d->done[task]++;
		return true;
	}
	return false;
}

/* Rows of one token each. */
static const uint32_t *one_each(void)
{
	static uint32_t begin[513];

	for (uint32_t i = 0; i < 513; i++)
		begin[i] = i;
	return begin;
}

/* The group's answer, if the member waits for it; LATE may come at any time. */
static bool group_says(struct input *in, struct driver *d, struct sl_event *ev, enum sl_event_kind kind)
{
	if (d->s.role != SL_SESSION_SERVER || !d->limits.shared)
		return false;
	d->prepared &= d->s.state == SL_SESSION_COMMIT;
	d->asked &= d->s.state == SL_SESSION_FETCH;
	bool *waits = kind == SL_EV_JOINED ? &d->joining : kind == SL_EV_DECIDED ? &d->prepared : &d->asked;

	if (kind == SL_EV_LATE) {
		if (d->group_step < d->s.next_step + take(in) % 2)
			d->group_step = d->s.next_step + 1;
		ev->next_step = d->group_step;
	} else {
		if (!*waits)
			return false;
		*waits = false;
		ev->next_step = d->s.hello.n_held ? d->s.hello.held[take(in) % d->s.hello.n_held] : 0;
		ev->mean = d->s.limits.ends && take(in) & 1;
		ev->lr = take(in) & 1 ? -1 : d->s.lr + take(in) % 2;
	}
	ev->kind = kind;
	return true;
}

/* In a vertical group: what the other party has done lets this one go on. */
static bool party_says(struct input *in, struct driver *d, struct sl_event *ev, enum sl_event_kind kind)
{
	const struct sl_session *s = &d->s;
	const bool labels = s->limits.party > SL_PARTY_FEATURES, echoes = !s->training || s->limits.no_head_grad;
	const enum sl_task task = labels ? SL_TASK_MID_FWD : SL_TASK_MID_BWD;
	const int most = s->limits.party == SL_PARTY_JOINED ? s->lane[SL_PART_HEAD_ACT].chunk
			 : labels                           ? s->chunks
							    : d->done[SL_TASK_MID_FWD];

	if (s->role != SL_SESSION_SERVER || !s->limits.party ||
	    (s->state != SL_SESSION_STEP && s->state != SL_SESSION_EVAL) ||
	    (!labels && kind != SL_EV_SUM && echoes != (kind == SL_EV_ECHO)))
		return false;
	*ev = (struct sl_event){.kind = kind, .chunk = d->started[task]};
	if (kind == SL_EV_SUM) {
		ev->squares[0] = take(in);
		return s->norm_of && s->squares[1] < 0 && s->state == SL_SESSION_STEP;
	}
	if (kind == SL_EV_CHUNK)
		return d->started[task] < most;
	if (labels || d->echoed || most != s->chunks)
		return false;
	return d->echoed = true;
}

/* A request of a free step's caller, where it is allowed. */
static bool caller_says(struct input *in, struct driver *d, struct sl_event *ev, enum sl_event_kind kind)
{
	static const struct sl_fail why = {.code = SL_ERR_NONFINITE, .text = "dropped"};
	const struct sl_session *s = &d->s;
	const int room = s->limits.chunks - s->chunks;
	bool may = false;

	if (s->role == SL_SESSION_SERVER || !s->limits.free_calls || s->state != SL_SESSION_STEP)
		return false;
	*ev = (struct sl_event){.kind = kind, .why = &why, .lr = 0.1, .grad_scale = 0.5, .chunks = 1};
	if (kind == SL_EV_NONFINITE)
		return true;
	if (s->grad_scale >= 0)
		return false;
	if (kind == SL_EV_MORE && room > 0) {
		ev->chunk = s->chunks;
		ev->batch_rows = 1 + take(in) % ((uint64_t)room * s->limits.rows);
		ev->begin = s->limits.chunk_tokens ? one_each() : NULL;
		may = true;
	} else if (kind == SL_EV_GRADS) {
		ev->chunk = take(in) % s->chunks;
		may = ev->chunk < s->done[SL_TASK_TAIL] && !s->back[ev->chunk];
	} else if (kind == SL_EV_ASK_NORM) {
		may = s->backs && s->squares[1] >= 0;
	} else if (kind == SL_EV_APPLY) {
		may = s->backs && s->done[SL_TASK_TAIL] == s->chunks;
	}
	return may;
}

/* Reports of either side, and the server's record, in any state of a session that is open. */
static bool report_says(const struct driver *d, struct sl_event *ev, enum sl_event_kind kind)
{
	static const struct sl_wire_report report = {.text = "{}"};

	ev->kind = kind;
	ev->report = &report;
	ev->text = "{}";
	return (d->s.state == SL_SESSION_READY || d->s.state == SL_SESSION_STEP || d->s.state == SL_SESSION_COMMIT ||
		d->s.state == SL_SESSION_ABANDON || d->s.state == SL_SESSION_EVAL) &&
	       (kind == SL_EV_SAY || !d->client);
}

static bool request(struct input *in, struct driver *d, struct sl_event *ev, enum sl_event_kind kind)
{
	if (kind == SL_EV_ASK || kind == SL_EV_ENDS)
		return false;
	if ((kind >= SL_EV_MORE && kind <= SL_EV_APPLY) ||
	    (kind == SL_EV_NONFINITE && d->s.limits.free_calls && d->s.state == SL_SESSION_STEP))
		return caller_says(in, d, ev, kind);
	if (kind >= SL_EV_CHUNK && kind <= SL_EV_SUM)
		return party_says(in, d, ev, kind);
	if (kind == SL_EV_SAY || kind == SL_EV_TELL)
		return report_says(d, ev, kind);
	if (kind >= SL_EV_JOINED && kind <= SL_EV_LATE)
		return group_says(in, d, ev, kind);
	if (d->s.role == SL_SESSION_SERVER || (kind == SL_EV_OPEN) != (d->s.state == SL_SESSION_NEW))
		return false;
	if (d->s.state == SL_SESSION_ABANDON && kind != SL_EV_LEAVE) {
		if (d->s.fate != SL_PASS_QUIET || (kind != SL_EV_SKIP && kind != SL_EV_BEGIN_FETCH))
			return false;
	} else if (kind == SL_EV_SKIP || kind == SL_EV_NONFINITE) {
		return false;
	} else if (kind != SL_EV_OPEN && kind != SL_EV_LEAVE && d->s.state != SL_SESSION_READY) {
		return false;
	}
	ev->kind = kind;
	ev->batch_rows = 1 + take(in) % d->s.limits.batch;
	ev->begin = ev->chosen = d->s.limits.chunk_tokens ? one_each() : NULL;
	ev->number = d->s.next_step;
	ev->lr = 0.1;
	ev->checkpoint = take(in) & 1;
	return true;
}

/* Opens the first link of the client's process, or a later one. */
static void open_client(struct driver *d, const struct sl_hello *hello, uint64_t now_ms)
{
	static const uint8_t seed[SL_SECRET_BYTES] = {1};
	static struct sl_secret secret;

	if (!secret.seed[0])
		sl_secret_from(&secret, seed);
	sl_session_open_client(&d->s, hello, now_ms);
	d->s.secret = &secret;
	d->s.first = hello->epoch % 2;
}

/* The driver forgets tasks of an older epoch, as ports do. */
static void open_epoch(struct driver *d, uint64_t now_ms)
{
	struct sl_hello hello = {.version = SL_WIRE_VERSION,
				 .epoch = d->epoch,
				 .part_bytes = 4096,
				 .window_bytes = 8192,
				 .heartbeat_ms = 100,
				 .timeout_ms = 1000,
				 .n_held = d->n_held};

	memcpy(hello.held, d->held, sizeof hello.held);
	if (d->client)
		open_client(d, &hello, now_ms);
	else
		sl_session_open_server(&d->s, 8192, 4096, now_ms);
	sl_session_set_limits(&d->s, &d->limits);
}

static void open_session(struct input *in, struct driver *d)
{
	struct sl_session_limits *l = &d->limits;
	uint8_t how;

	d->epoch = 7;
	d->n_held = 1;
	how = take(in);
	d->client = how & 1;
	l->no_mid_grad = how / 2 % 3 > 1;
	l->no_head_grad = how / 2 % 3 > 0;
	l->clip_norm = how / 8 % 2;
	l->batch = 1 + take(in);
	l->rows = 1 + take(in) % l->batch;
	l->chunks = (int)((l->batch + l->rows - 1) / l->rows);
	l->free_calls = how / 32 % 2 && !(how / 64 % 2);
	if (l->free_calls) {
		l->no_mid_grad = false;
		l->clip_norm = 0;
	}
	for (int what = 0; what < SL_PART_WEIGHTS; what++)
		if ((what == SL_PART_MID_ACT || what == SL_PART_HEAD_GRAD) == d->client &&
		    !(what == SL_PART_MID_GRAD && l->no_mid_grad) && !(what == SL_PART_HEAD_GRAD && l->no_head_grad))
			l->run_bytes[what] = 200;
	l->run_bytes[SL_PART_WEIGHTS] = 5000;
	l->ends = how / 16 % 2 && !l->free_calls;
	l->shared = how / 64 % 2;
	if (l->shared && !l->ends && !l->free_calls)
		l->party = (enum sl_party)(take(in) % 4);
	for (int what = 0; what < SL_PART_WEIGHTS && l->party; what++)
		if (!sl_party_has(l->party, what == SL_PART_MID_ACT || what == SL_PART_MID_GRAD ? SL_TAIL : SL_HEAD))
			l->run_bytes[what] = 0;
	l->run_bytes[SL_PART_ORDER] = l->party ? SL_WIRE_ORDER : 0;
	if (l->ends)
		l->run_bytes[d->client ? SL_PART_END_MEAN : SL_PART_END_GRAD] = 150;
	if (how / 6 % 2 && !l->party) {
		l->row_tokens = 1 + take(in) % 9;
		l->chunk_tokens = l->rows + take(in) % (l->rows * (l->row_tokens - 1) + 1);
		how = take(in);
		l->fronts = how & SL_FRONT_LENGTHS;
		l->cached = how % 4 == 3;
		l->token_loss = how & 4;
	}
	open_epoch(d, 0);
}

/* Begins the next epoch of a closed session. It can resume from the step that was next, from a
 * checkpoint before it, or anew. */
static void come_back(struct driver *d, uint64_t now_ms)
{
	uint64_t next = d->s.next_step;
	struct driver fresh = {.client = d->client, .epoch = d->epoch + 1, .limits = d->limits};

	if (next > 0)
		fresh.held[fresh.n_held++] = next;
	if (next > 2)
		fresh.held[fresh.n_held++] = next - 2;
	fresh.n_held++; /* 0 */
	*d = fresh;
	open_epoch(d, now_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct driver d;
	struct input in = {data, size};
	uint64_t now_ms = 1;

	memset(&d, 0, sizeof d);
	open_session(&in, &d);
	while (in.left) {
		uint8_t kind = take(&in) % (SL_EV_COUNT + 7); /* the last values end a task */
		struct sl_event ev = {.kind = (enum sl_event_kind)kind};
		struct sl_frame frame;

		if (kind == SL_EV_LATE && d.over) {
			come_back(&d, now_ms);
			continue;
		}
		if (kind < SL_EV_TASK_DONE) {
			fill_frame(&in, &d, &frame, (enum sl_frame_kind)kind);
			ev.frame = &frame;
		} else if (kind == SL_EV_TICK) {
			now_ms += take(&in);
			ev.number = take(&in);
		} else if (kind == SL_EV_TASK_DONE || kind >= SL_EV_COUNT) {
			if (!end_task(&in, &d, &ev))
				continue;
		} else if (!request(&in, &d, &ev, (enum sl_event_kind)kind)) {
			continue;
		}
		feed(&d, &ev, now_ms);
	}
	return 0;
}
