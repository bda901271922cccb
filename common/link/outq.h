/* What waits to be sent to one peer. Control frames leave first, then runs of parts by priority and order. The peer's
 * byte credit and the transport's HWM limit how much leaves. The queue hands over no more than the link takes in a
 * moment, so that an urgent frame never waits behind many parts. Loop thread only. */
#ifndef SL_LINK_OUTQ_H
#define SL_LINK_OUTQ_H

#include "common/link/transport.h"
#include "common/link/wire.h"

struct sl_outq;

/* One tensor (or the weights) to be cut into parts. The memory stays the sender's until `sent` is called: all parts
 * have left and the transport has released them. */
struct sl_run {
	struct sl_part part; /* what, step, chunk, rows, …; total, offset and xxh3 are filled per part */
	const uint8_t *data;
	size_t len; /* ≥ 1 */
	/* Where the bytes do not lie in one piece: those from rest_at on are at `rest`, and no part straddles the two.
	 * NULL: all of them at `data`. */
	const uint8_t *rest;
	size_t rest_at;
	/* In place of `data`: writes `len` bytes from `at` on to memory of the queue's own, part by part. NULL: they
	 * are at `data`. One run at a time may have it. */
	void (*read)(const struct sl_run *run, size_t at, size_t len, void *to);
	int priority; /* lower leaves first; equal ones in order of submission */
	void (*sent)(struct sl_run *run);
	void *arg;
	uint64_t header_bytes; /* out: of its parts' headers */
	/* the queue's own: */
	size_t next_offset;
	int parts_out;
	uint64_t started_ns;
	struct sl_run *next;
};

struct sl_outq_stats {
	uint64_t header_bytes, payload_bytes, frames; /* on the wire, framing of ZeroMQ not counted */
	/* Best run of a tensor: its bytes / seconds from its first part's handing over to the peer's word, by credit,
	 * that it has taken in the last one (the peak client rate). What buffers swallow does not count. */
	double peak_bytes_per_s;
};

enum sl_err sl_outq_open(struct sl_outq **out, struct sl_loop *loop, struct sl_transport *transport, sl_peer peer,
			 struct sl_fail *fail) SL_MUST_CHECK;
/* Set at the handshake: payload bytes of a part, and the credit the peer has granted. Until then no part leaves, and a
 * credit smaller than a part never lets one out: the handshake sees to it that a window holds at least one. */
void sl_outq_limits(struct sl_outq *queue, size_t part_bytes, uint64_t window_bytes);
void sl_outq_epoch(struct sl_outq *queue, uint64_t epoch);
/* Encodes at once, with the frame's own epoch, and sends at once where the transport takes it. frame->payload, a
 * Hello's, stays the caller's, and is borrowed until it has left or the queue is aborted. */
enum sl_err sl_outq_control(struct sl_outq *queue, const struct sl_frame *frame) SL_MUST_CHECK; /* bounded; LIMIT */
void sl_outq_post(struct sl_outq *queue, struct sl_run *run);
void sl_outq_credit(struct sl_outq *queue, uint64_t bytes); /* more credit; PROTOCOL errors are the caller's to find */
void sl_outq_pump(struct sl_outq *queue);                   /* after `writable` */
struct sl_outq_stats sl_outq_stats(const struct sl_outq *queue);
/* Nobody wants the runs of tensors any more: what has not left stays here, and each run ends with what has (len; 0:
 * nothing). `sent` is called for all of them, for some before this returns. Control frames and weights go on. */
void sl_outq_drop(struct sl_outq *queue);
/* Forgets everything queued; `sent` is not called for it. Runs whose parts the transport still holds are reported
 * through sl_outq_idle turning true. */
void sl_outq_abort(struct sl_outq *queue);
bool sl_outq_idle(const struct sl_outq *queue); /* nothing queued, nothing held by the transport */
/* NULL is fine. Aborts; where the transport still holds parts, the queue's own memory goes with the last of them, on
 * the loop. */
void sl_outq_close(struct sl_outq *queue);

#endif
