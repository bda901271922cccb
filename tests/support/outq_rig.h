/* A client's send queue on a loop, and a server that stores each part at its offset and logs the
 * kind of each frame. */
#ifndef SL_TESTS_OUTQ_RIG_H
#define SL_TESTS_OUTQ_RIG_H

#include "common/link/loop.h"
#include "common/link/outq.h"
#include "common/link/transport.h"
#include "tests/support/unit.h"

enum { PART = 1000, RUN = 100 * PART + 7, GIVE_UP_MS = 20000, LOG = 4096, PLENTY = 1 << 30 };

static const char *const schemes[] = {"tcp://127.0.0.1:*", "inproc://outq"};
enum { SCHEMES = 2 };

struct rig {
	struct sl_loop *loop;
	struct sl_transport *server, *client;
	struct sl_outq *queue; /* the client's */
	struct sl_timer *timer;
	bool lost;
	/* receiving */
	uint8_t got[4][RUN];
	uint64_t bytes;
	int parts[4];       /* by chunk */
	int log[LOG], logs; /* log: the chunk of a part, or -1 - kind of another frame */
	bool give_credit;
	uint64_t beats_ms, granted; /* sums of the heartbeats' sent_ms, and of the credit, received */
	uint64_t stop_at_bytes;
	int stop_at_logs;
	/* sending */
	int sent[16], sents;
	int stop_at_sents;
	void (*on_sent)(struct rig *rig, struct sl_run *run);
};

static inline void server_message(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	struct rig *rig = arg;
	struct sl_frame f;
	struct sl_fail fail;

	(void)peer;
	if (sl_wire_decode(header, payload, &f, &fail))
		fail_msg("%s", fail.text);
	assert_true(rig->logs < LOG);
	rig->log[rig->logs++] = f.kind == SL_FRAME_PART ? (int)f.u.part.chunk : -1 - (int)f.kind;
	if (f.kind == SL_FRAME_HEARTBEAT)
		rig->beats_ms += f.u.heartbeat.sent_ms;
	if (f.kind == SL_FRAME_CREDIT)
		rig->granted += f.u.credit.bytes;
	if (f.kind == SL_FRAME_PART) {
		assert_int_equal(f.epoch, 5);
		assert_int_equal(f.u.part.total, RUN);
		memcpy(rig->got[f.u.part.chunk] + f.u.part.offset, f.payload.data, f.payload.len);
		rig->bytes += f.payload.len;
		rig->parts[f.u.part.chunk]++;
		if (rig->give_credit)
			sl_outq_credit(rig->queue, f.payload.len);
	}
	if ((rig->stop_at_bytes && rig->bytes >= rig->stop_at_bytes) ||
	    (rig->stop_at_logs && rig->logs >= rig->stop_at_logs))
		sl_loop_stop(rig->loop);
}

static inline void nothing_writable(void *arg, sl_peer peer)
{
	(void)arg, (void)peer;
}

static inline void client_message(void *arg, sl_peer peer, struct sl_bytes header, struct sl_bytes payload)
{
	(void)arg, (void)peer, (void)header, (void)payload;
	fail_msg("the server sent something");
}

static inline void client_writable(void *arg, sl_peer peer)
{
	struct rig *rig = arg;

	assert_int_equal(peer, SL_PEER_SERVER);
	if (rig->queue)
		sl_outq_pump(rig->queue);
}

static inline void malformed(void *arg, sl_peer peer, const char *why)
{
	(void)arg, (void)peer;
	fail_msg("%s", why);
}

static inline void lost(void *arg, sl_peer peer)
{
	struct rig *rig = arg;

	(void)peer;
	rig->lost = true;
	sl_loop_stop(rig->loop);
}

static inline void gave_up(void *arg)
{
	(void)arg;
	fail_msg("nothing happened for %d ms", GIVE_UP_MS);
}

static inline struct rig *rig_open(const char *endpoint, int hwm)
{
	static const struct sl_transport_events server_events = {server_message, nothing_writable, malformed, lost,
								 NULL};
	static const struct sl_transport_events client_events = {client_message, client_writable, malformed, lost,
								 NULL};
	struct sl_transport_conf conf = {.endpoint = endpoint, .part_bytes = PART, .hwm = hwm};
	struct rig *rig = calloc(1, sizeof *rig);

	assert_non_null(rig);
	assert_int_equal(sl_loop_open(&rig->loop, NULL), SL_OK);
	assert_int_equal(sl_transport_bind(&rig->server, rig->loop, &conf, &server_events, rig, NULL), SL_OK);
	conf.endpoint = sl_transport_endpoint(rig->server);
	assert_int_equal(sl_transport_connect(&rig->client, rig->loop, &conf, &client_events, rig, NULL), SL_OK);
	assert_int_equal(sl_outq_open(&rig->queue, rig->loop, rig->client, SL_PEER_SERVER, NULL), SL_OK);
	assert_int_equal(sl_timer_open(&rig->timer, rig->loop, gave_up, NULL, NULL), SL_OK);
	sl_timer_start(rig->timer, GIVE_UP_MS, 0);
	sl_outq_epoch(rig->queue, 5);
	return rig;
}

static inline void rig_close(struct rig *rig)
{
	sl_timer_close(rig->timer);
	sl_transport_close(rig->client, 0);
	sl_outq_close(rig->queue);
	sl_transport_close(rig->server, 0);
	sl_loop_close(rig->loop);
	free(rig);
}

static inline void stop_loop(void *arg)
{
	sl_loop_stop(arg);
}

static inline void run_for(struct rig *rig, uint64_t ms)
{
	struct sl_timer *timer;

	assert_int_equal(sl_timer_open(&timer, rig->loop, stop_loop, rig->loop, NULL), SL_OK);
	sl_timer_start(timer, ms, 0);
	sl_loop_run(rig->loop);
	sl_timer_close(timer);
}

static inline void on_sent(struct sl_run *run)
{
	struct rig *rig = run->arg;

	rig->sent[rig->sents++ % 16] = (int)run->part.chunk;
	if (rig->on_sent)
		rig->on_sent(rig, run);
	if (rig->sents == rig->stop_at_sents)
		sl_loop_stop(rig->loop);
}

static inline uint8_t *fill(uint8_t *data, int seed)
{
	for (int i = 0; i < RUN; i++)
		data[i] = (uint8_t)(i * 31 + i / 256 + seed);
	return data;
}

static inline struct sl_run run_of(struct rig *rig, const uint8_t *data, uint32_t chunk, int priority)
{
	return (struct sl_run){.part = {.what = SL_PART_HEAD_ACT, .training = true, .step = 9, .chunk = chunk},
			       .data = data,
			       .len = RUN,
			       .priority = priority,
			       .sent = on_sent,
			       .arg = rig};
}

#endif
