#include "common/link/outq.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/link/loop.h"

/* RECORDS: parts that the transport may hold. Sensible windows have fewer, so credit and high-water mark are the limit.
 * CONTROLS: control frames that may wait. */
enum { RECORDS = 512, CONTROLS = 32 };

/* Runs that have left, and whose receipt the peer has not confirmed yet. Runs beyond this number are not timed. */
enum { AWAITED = 64 };

/* Parts in the transport can no longer be overtaken: an urgent gradient would wait behind them. So the transport gets
 * only what the link sends in AHEAD_MS, but at least one part. AHEAD_BYTES is the most; it keeps a loopback busy until
 * the loop's thread runs again. */
enum { AHEAD_MS = 10, AHEAD_BYTES = 4 << 20 };

/* A part that the transport holds. */
struct record {
	struct record *next;
	struct sl_outq *queue;
	struct sl_run *run; /* NULL: aborted */
	uint8_t *copy;      /* the bytes from run->read; NULL: none */
	size_t len;
	uint64_t ahead_bytes; /* bytes that the transport held with this part */
	uint64_t handed_ns, released_ns;
	bool out; /* the transport has it */
};

/* A run whose receipt is not confirmed. */
struct awaited {
	uint64_t end; /* the value of `handed` after its last part */
	uint64_t started_ns;
	size_t len;
};

struct control {
	struct sl_bytes payload; /* a Hello's; the caller owns it */
	uint64_t credit;         /* a Credit's */
	size_t len;
	uint8_t header[SL_WIRE_HEADER_MAX];
};

struct sl_outq {
	struct sl_transport *transport;
	struct sl_async *async;
	sl_peer peer;
	uint64_t epoch, credit;
	uint64_t handed, taken; /* payload bytes: handed to the transport; received by the peer */
	struct awaited awaited[AWAITED];
	int awaited_first, awaited_count;
	size_t part_bytes;
	bool lost;     /* the connection is lost, or a part cannot be sent: sends nothing any more */
	bool draining; /* inside records_back */
	bool closing;  /* sl_outq_close was called; the last record frees the queue */
	struct control *control;
	int control_first, control_count;
	struct sl_run *runs; /* by priority, then by submission; without runs all of whose parts have left */
	struct record *free;
	int records_out;
	uint64_t bytes_out;                /* bytes of the parts that the transport holds */
	uint64_t ahead;                    /* the limit for bytes_out, from the link's rate */
	_Atomic(struct record *) released; /* any thread pushes; the loop's thread takes all */
	atomic_int releasing;              /* threads inside release_part */
	struct sl_outq_stats stats;
	/* the next part of hashed_run has this hash: if the transport was busy, it is not hashed again */
	const struct sl_run *hashed_run;
	uint64_t hash;
	uint8_t *copy; /* the next part's bytes from run->read; NULL: none */
	struct record record[RECORDS];
};

static void records_back(void *arg);

enum sl_err sl_outq_open(struct sl_outq **out, struct sl_loop *loop, struct sl_transport *transport, sl_peer peer,
			 struct sl_fail *fail)
{
	struct sl_outq *q = calloc(1, sizeof *q);
	enum sl_err err;

	if (q)
		q->control = calloc(CONTROLS, sizeof *q->control);
	if (!q || !q->control) {
		err = sl_fail_set(fail, SL_ERR_NOMEM, "output queue: out of memory");
		goto fail;
	}
	err = sl_async_open(&q->async, loop, records_back, q, fail);
	if (err)
		goto fail;
	q->ahead = AHEAD_BYTES;
	q->transport = transport;
	q->peer = peer;
	for (int i = 0; i < RECORDS; i++) {
		q->record[i].queue = q;
		q->record[i].next = q->free;
		q->free = &q->record[i];
	}
	*out = q;
	return SL_OK;
fail:
	if (q)
		free(q->control);
	free(q);
	return err;
}

void sl_outq_limits(struct sl_outq *q, size_t part_bytes, uint64_t window_bytes)
{
	q->part_bytes = part_bytes < SL_WIRE_PART_MAX ? part_bytes : SL_WIRE_PART_MAX;
	q->credit = window_bytes;
	sl_outq_pump(q);
}

void sl_outq_epoch(struct sl_outq *q, uint64_t epoch)
{
	q->epoch = epoch;
}

/* What the queue counts is what it holds. */
static void check(const struct sl_outq *q)
{
	sl_assert_int(q->control_count, >=, 0);
	sl_assert_int(q->control_count, <=, CONTROLS);
	sl_assert_int(q->awaited_count, >=, 0);
	sl_assert_int(q->awaited_count, <=, AWAITED);
	sl_assert_int(q->bytes_out, <=, q->handed);
	sl_assert_int(q->records_out, >=, 0);
	sl_assert_int(q->records_out, <=, RECORDS);
	sl_assert((q->records_out == 0) == (q->bytes_out == 0));
	sl_assert_if(!q->free, q->records_out == RECORDS);
}

/* ---- parts that come back */

/* Any thread. The loop's thread may take the record before the wake below. The queue lives until `releasing` is 0. */
static void release_part(void *arg)
{
	struct record *r = arg;
	struct sl_outq *q = r->queue;
	struct record *head = atomic_load_explicit(&q->released, memory_order_relaxed);

	atomic_fetch_add(&q->releasing, 1);
	r->released_ns = sl_now_ns();
	do
		r->next = head;
	while (!atomic_compare_exchange_weak_explicit(&q->released, &head, r, memory_order_release,
						      memory_order_relaxed));
	sl_async_wake(q->async);
	atomic_fetch_sub(&q->releasing, 1);
}

static void destroy(struct sl_outq *q)
{
	while (atomic_load(&q->releasing))
		sched_yield(); /* a thread between its last push and the end of its wake: microseconds */
	sl_assert(!q->records_out && !atomic_load(&q->released));
	sl_async_close(q->async);
	free(q->control);
	free(q->copy);
	free(q);
}

/* Adapts `ahead` to the link's rate, measured by the part that came back last. The first parts tell nothing, because
 * socket buffers take them at once. */
static void follow_rate(struct sl_outq *q, const struct record *r)
{
	double seconds = (double)(r->released_ns - r->handed_ns) * 1e-9;
	double bytes = seconds > 0 ? (double)r->ahead_bytes / seconds * (AHEAD_MS * 1e-3) : AHEAD_BYTES;

	sl_assert_int(r->len, <=, q->bytes_out);
	q->bytes_out -= r->len;
	q->ahead = bytes < AHEAD_BYTES ? (uint64_t)bytes : AHEAD_BYTES;
}

/* Whether this was the run's last part. */
static bool part_is_back(struct record *r)
{
	struct sl_run *run = r->run;

	if (!run)
		return false;
	sl_assert_int(run->parts_out, >, 0);
	sl_assert_int(run->next_offset, <=, run->len);
	run->parts_out--;
	if (run->parts_out || run->next_offset < run->len)
		return false;
	return true;
}

/* Parts come back in the order in which they left, but the stack reverses it. Restores it, so that `sent` is called in
 * that order. */
static struct record *take_released(struct sl_outq *q)
{
	struct record *r = atomic_exchange_explicit(&q->released, NULL, memory_order_acquire), *list = NULL;

	while (r) {
		struct record *next = r->next;

		r->next = list;
		list = r;
		r = next;
	}
	return list;
}

static void records_back(void *arg)
{
	struct sl_outq *q = arg;
	struct record *r = take_released(q);

	q->draining = true;
	while (r) {
		struct record *next = r->next;
		struct sl_run *done;

		sl_assert(r->out); /* a part comes back once */
		r->out = false;
		done = part_is_back(r) ? r->run : NULL;
		free(r->copy);
		r->copy = NULL;
		r->next = q->free;
		q->free = r;
		q->records_out--;
		follow_rate(q, r);
		if (done)
			done->sent(done); /* may post, abort or close */
		r = next;
	}
	q->draining = false;
	check(q);
	if (q->closing && !q->records_out)
		destroy(q);
	else
		sl_outq_pump(q);
}

/* ---- sending */

/* False: not sent, now or ever (q->lost). */
static bool hand_over(struct sl_outq *q, struct sl_bytes header, const struct sl_payload *payload)
{
	enum sl_err err = sl_transport_send(q->transport, q->peer, header, payload);

	if (!err) {
		q->stats.frames++;
		q->stats.header_bytes += header.len;
		q->stats.payload_bytes += payload->bytes.len;
		return true;
	}
	if (err != SL_ERR_BUSY) {
		/* PEER_LOST is also an event of the transport, from which the owner learns it */
		q->lost = true;
		if (err != SL_ERR_PEER_LOST)
			sl_log(SL_LOG_ERROR, "link-send", "%s", sl_err_text(err));
	}
	return false;
}

static bool pump_control(struct sl_outq *q)
{
	while (q->control_count) {
		const struct control *c = &q->control[q->control_first];

		if (!hand_over(q, (struct sl_bytes){c->header, c->len}, &(struct sl_payload){.bytes = c->payload}))
			return false;
		q->control_first = (q->control_first + 1) % CONTROLS;
		q->control_count--;
	}
	return true;
}

/* Reads the bytes of the next part, unless an earlier try has. False: no memory. */
static bool read_part(struct sl_outq *q, const struct sl_run *run, struct sl_bytes *part)
{
	if (!q->copy) {
		q->copy = malloc(part->len);
		if (q->copy)
			run->read(run, run->next_offset, part->len, q->copy);
	}
	part->data = q->copy;
	return q->copy != NULL;
}

static uint64_t hash_of(struct sl_outq *q, const struct sl_run *run, struct sl_bytes payload)
{
	if (q->hashed_run != run) {
		q->hash = sl_wire_hash(payload);
		q->hashed_run = run;
	}
	return q->hash;
}

/* Notes a run for the measurement of rates. Weights are left out, because they are sent only once. */
static void note_unconfirmed(struct sl_outq *q, const struct sl_run *run)
{
	if (q->awaited_count == AWAITED || sl_part_is_state(run->part.what))
		return;
	q->awaited[(q->awaited_first + q->awaited_count++) % AWAITED] =
		(struct awaited){q->handed, run->started_ns, run->len};
}

static struct sl_bytes next_part(const struct sl_outq *q, const struct sl_run *run)
{
	bool first = !run->rest || run->next_offset < run->rest_at;
	size_t end = run->rest && first && run->rest_at < run->len ? run->rest_at : run->len;
	size_t left = end - run->next_offset;

	return (struct sl_bytes){first ? run->data + run->next_offset : run->rest + (run->next_offset - run->rest_at),
				 left < q->part_bytes ? left : q->part_bytes};
}

/* Sends the next part of the first run; false: it cannot, for lack of credit or records or because of the transport. */
static bool pump_part(struct sl_outq *q, struct sl_run *run)
{
	struct sl_payload payload = {.bytes = next_part(q, run), .release = release_part};
	size_t len = payload.bytes.len;
	struct sl_frame frame = {.kind = SL_FRAME_PART, .epoch = q->epoch, .u.part = run->part};
	struct record *r = q->free;
	uint8_t header[SL_WIRE_HEADER_MAX];
	uint64_t now_ns;
	size_t header_len;

	if (!len || len > q->credit || !r || (q->bytes_out && q->bytes_out + len > q->ahead))
		return false;
	if (run->read && !read_part(q, run, &payload.bytes)) {
		sl_log(SL_LOG_ERROR, "link-send", "no memory for a part of %zu bytes", len);
		q->lost = true;
		return false;
	}
	frame.u.part.total = run->len;
	frame.u.part.offset = run->next_offset;
	frame.u.part.xxh3 = hash_of(q, run, payload.bytes);
	if (sl_wire_encode(&frame, header, &header_len) != SL_OK) {
		sl_log(SL_LOG_ERROR, "link-send", "a part that cannot be encoded (what = %u)", run->part.what);
		q->lost = true;
		return false;
	}
	sl_assert(!r->out && !r->copy);
	sl_assert_int(run->next_offset + len, <=, run->len);
	/* Fill the record before sending, since another thread may release the part at once. */
	r->out = true;
	r->run = run;
	r->copy = run->read ? q->copy : NULL;
	r->len = len;
	r->ahead_bytes = q->bytes_out + len;
	payload.release_arg = r;
	r->handed_ns = now_ns = sl_now_ns();
	q->free = r->next;
	if (!hand_over(q, (struct sl_bytes){header, header_len}, &payload)) {
		r->copy = NULL;
		r->out = false;
		r->next = q->free;
		q->free = r;
		return false;
	}
	if (!run->next_offset)
		run->started_ns = now_ns;
	q->records_out++;
	q->bytes_out += len;
	q->credit -= len;
	q->hashed_run = NULL;
	q->copy = run->read ? NULL : q->copy;
	run->next_offset += len;
	run->header_bytes += header_len;
	run->parts_out++;
	q->handed += len;
	if (run->next_offset == run->len) {
		q->runs = run->next;
		note_unconfirmed(q, run);
	}
	return true;
}

void sl_outq_pump(struct sl_outq *q)
{
	check(q);
	if (q->lost || !pump_control(q))
		return;
	while (!q->lost && q->runs && pump_part(q, q->runs))
		;
}

static struct control *waiting_credit(struct sl_outq *q)
{
	for (int i = 0; i < q->control_count; i++) {
		struct control *c = &q->control[(q->control_first + i) % CONTROLS];

		if (c->credit)
			return c;
	}
	return NULL;
}

enum sl_err sl_outq_control(struct sl_outq *q, const struct sl_frame *frame)
{
	struct control *c = frame->kind == SL_FRAME_CREDIT ? waiting_credit(q) : NULL;
	const bool joins = c != NULL;
	struct sl_frame whole = *frame;
	enum sl_err err;

	if (joins)
		whole.u.credit.bytes += c->credit;
	else if (q->control_count == CONTROLS)
		return SL_ERR_LIMIT;
	else
		c = &q->control[(q->control_first + q->control_count) % CONTROLS];
	err = sl_wire_encode(&whole, c->header, &c->len);
	if (err)
		return err;
	c->payload = frame->payload;
	c->credit = frame->kind == SL_FRAME_CREDIT ? whole.u.credit.bytes : 0;
	q->control_count += !joins;
	sl_outq_pump(q);
	return SL_OK;
}

void sl_outq_post(struct sl_outq *q, struct sl_run *run)
{
	struct sl_run **link = &q->runs;

	sl_assert_int(run->len, >, 0);
	sl_assert(run->sent && (run->data || run->read));
	run->next_offset = 0;
	run->parts_out = 0;
	run->started_ns = 0;
	run->header_bytes = 0;
	while (*link && (*link)->priority <= run->priority)
		link = &(*link)->next;
	run->next = *link;
	*link = run;
	sl_outq_pump(q);
}

static void time_awaited(struct sl_outq *q, uint64_t bytes)
{
	q->taken += bytes;
	while (q->awaited_count && q->awaited[q->awaited_first].end <= q->taken) {
		const struct awaited *a = &q->awaited[q->awaited_first];
		double seconds = sl_seconds_since(a->started_ns), rate = seconds > 0 ? (double)a->len / seconds : 0;

		if (rate > q->stats.peak_bytes_per_s)
			q->stats.peak_bytes_per_s = rate;
		q->awaited_first = (q->awaited_first + 1) % AWAITED;
		q->awaited_count--;
	}
}

void sl_outq_credit(struct sl_outq *q, uint64_t bytes)
{
	q->credit = bytes > UINT64_MAX - q->credit ? UINT64_MAX : q->credit + bytes;
	time_awaited(q, bytes);
	sl_outq_pump(q);
}

struct sl_outq_stats sl_outq_stats(const struct sl_outq *q)
{
	return q->stats;
}

void sl_outq_drop(struct sl_outq *q)
{
	struct sl_run *dropped = NULL, **end = &dropped, **link = &q->runs;

	while (*link) {
		struct sl_run *run = *link;

		if (sl_part_is_state(run->part.what)) {
			link = &run->next;
			continue;
		}
		*link = run->next;
		run->len = run->next_offset;
		run->next = NULL;
		if (!run->parts_out) { /* else the last part to come back calls `sent` */
			*end = run;
			end = &run->next;
		}
	}
	q->hashed_run = NULL;
	while (dropped) {
		struct sl_run *run = dropped;

		dropped = run->next;
		run->sent(run);
	}
}

void sl_outq_abort(struct sl_outq *q)
{
	for (int i = 0; i < RECORDS; i++)
		q->record[i].run = NULL; /* the caller may free runs from now on; only this thread reads `run` */
	q->runs = NULL;
	q->hashed_run = NULL;
	free(q->copy);
	q->copy = NULL;
	q->control_count = 0;
	q->awaited_count = 0;
	q->credit = 0;
}

bool sl_outq_idle(const struct sl_outq *q)
{
	return !q->runs && !q->control_count && !q->records_out;
}

void sl_outq_close(struct sl_outq *q)
{
	if (!q)
		return;
	sl_outq_abort(q);
	q->lost = q->closing = true;
	if (!q->records_out && !q->draining)
		destroy(q);
}
