/* The send queue for one peer. Control frames leave first, then runs of parts by priority and order. The peer's byte
 * credit and the transport's high-water mark limit how much leaves. The queue gives the transport no more than the link
 * sends in about 10 ms, so that an urgent frame never waits behind many parts. Loop thread only. */
#ifndef SL_LINK_OUTQ_H
#define SL_LINK_OUTQ_H

#include "common/link/transport.h"
#include "common/link/wire.h"

struct sl_outq;

/* One tensor, or weights, to be sent in parts. The caller must keep run and data until `sent` is called: by then all
 * parts have left, and the transport has released them. */
struct sl_run {
	struct sl_part part; /* what, step, chunk, rows, …; the queue fills total, offset and xxh3 for each part */
	const uint8_t *data;
	size_t len; /* ≥ 1 */
	/* If the bytes are in two pieces: those from rest_at on are at `rest`, and no part spans both. NULL: all are at
	 * `data`. */
	const uint8_t *rest;
	size_t rest_at;
	/* In place of `data`: writes `len` bytes from `at` on to `to`, the queue's own memory, for each part. NULL:
	 * they are at `data`. Only one queued run at a time may have it. */
	void (*read)(const struct sl_run *run, size_t at, size_t len, void *to);
	int priority; /* lower leaves first; equal ones leave in order of submission */
	void (*sent)(struct sl_run *run);
	void *arg;
	uint64_t header_bytes; /* out: total length of its parts' headers */
	/* for the queue: */
	size_t next_offset;
	int parts_out;
	uint64_t started_ns;
	struct sl_run *next;
};

struct sl_outq_stats {
	uint64_t header_bytes, payload_bytes, frames; /* sent, without ZeroMQ's framing */
	/* The peak client rate: the highest rate of a run of a tensor. That is its bytes / the seconds from handing its
	 * first part to the transport until the peer's credit confirms its last one. So bytes that only reached a
	 * buffer do not count. */
	double peak_bytes_per_s;
};

enum sl_err sl_outq_open(struct sl_outq **out, struct sl_loop *loop, struct sl_transport *transport, sl_peer peer,
			 struct sl_fail *fail) SL_MUST_CHECK;
/* Sets the payload bytes of a part, and the credit that the peer has granted; called at the handshake. No part leaves
 * before. No part leaves either while the credit is smaller than the part, so the handshake must ensure that the window
 * holds at least one. */
void sl_outq_limits(struct sl_outq *queue, size_t part_bytes, uint64_t window_bytes);
void sl_outq_epoch(struct sl_outq *queue, uint64_t epoch);
/* Encodes a control frame at once, with the frame's own epoch, and sends it as soon as the transport accepts it. LIMIT:
 * too many wait. A Credit joins one that waits, so many short runs fill no queue while a long part leaves slowly.
 * frame->payload, a Hello's, is borrowed until it has left or the queue is aborted. */
enum sl_err sl_outq_control(struct sl_outq *queue, const struct sl_frame *frame) SL_MUST_CHECK;
void sl_outq_post(struct sl_outq *queue, struct sl_run *run);
void sl_outq_credit(struct sl_outq *queue, uint64_t bytes); /* adds credit; the caller checks that it is legal */
void sl_outq_pump(struct sl_outq *queue);                   /* sends what it can; call it after `writable` */
struct sl_outq_stats sl_outq_stats(const struct sl_outq *queue);
/* Drops the parts of tensors that have not left. Each run's len becomes the bytes that have left, maybe 0. `sent` is
 * called for all of these runs, for some before this returns. Control frames and weights stay queued. */
void sl_outq_drop(struct sl_outq *queue);
/* Forgets everything queued, without calling `sent`. The transport may still hold parts of runs; sl_outq_idle returns
 * true once it has released them. */
void sl_outq_abort(struct sl_outq *queue);
bool sl_outq_idle(const struct sl_outq *queue); /* nothing is queued, and the transport holds no part */
/* NULL is fine. Aborts. If the transport still holds parts, the queue's memory is freed on the loop after the last. */
void sl_outq_close(struct sl_outq *queue);

#endif
