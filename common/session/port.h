/* A port: one session's end of the link, driven. It joins the state machine to a transport (outq), to the codecs and
 * buffers of the four tensors, and to the worker on which kernels run. client/run/remote.c and server/host/host.c
 * supply what differs: the tasks.
 *
 * Threads: everything on the loop's thread, but `run` and the functions marked (worker).
 */
#ifndef SL_SESSION_PORT_H
#define SL_SESSION_PORT_H

#include "common/base/worker.h"
#include "common/codec/codec.h"
#include "common/exec/backend.h"
#include "common/exec/plan.h"
#include "common/link/loop.h"
#include "common/link/outq.h"
#include "common/session/mean.h"
#include "common/session/session.h"
#include "common/session/state.h"
#include "common/weights/weights.h"

struct sl_port;

struct sl_port_events {
	/* (worker) Does a task; a failure ends the session with *fail. */
	enum sl_err (*run)(void *arg, enum sl_task task, int chunk, struct sl_fail *fail);
	/* Completes the event that follows a task which went well, before the session sees it. */
	void (*ran)(void *arg, enum sl_task task, struct sl_event *done);
	/* Where the tensor of a slot lies that a run of `dir` is received for, of a full chunk; called by sl_port_equip
	 * where payloads are plain (codec.h). Nobody uses that memory between the end of one pass and the chunk's task
	 * in the next that decodes: parts are stored there once they are checked, each by itself. */
	float *(*place)(void *arg, enum sl_dir dir, int chunk);
	/* Server, called by sl_port_equip where the backend's memory is the host's and it is no group's session:
	 * weight_count floats that an upload is received into, and nobody uses before INSTALL. */
	float *(*range)(void *arg);
	/* KEEP, READY, STEPPED, ABANDONED, EVALUATED, FETCHED, FAIL, LEFT. The last two are the port's last words:
	 * close it soon, though not from within. */
	void (*action)(void *arg, const struct sl_action *action, const struct sl_fail *fail);
};

/* Bytes and times of one direction of the link, as the seeds define them. */
struct sl_port_stats {
	uint64_t tx_bytes, rx_bytes;      /* headers and payloads */
	uint64_t sent_bytes;              /* of tx_bytes, payloads */
	uint64_t payload[SL_CROSS_COUNT]; /* of whole runs, by tensor, whichever way it goes */
	uint64_t wire[SL_CROSS_COUNT];    /* these, with the headers of their parts */
	uint64_t weights[SL_WAYS];        /* of the middle's weights, with headers */
	double nominal[SL_CROSS_COUNT];   /* as the method's authors count */
	/* bytes/s: best run sent, as the peer confirmed it; received, of two parts or more that took 1 ms or more */
	double peak_tx, peak_rx;
	double compute_s, codec_s; /* (worker) kernels and codecs since the port was opened */
};

/* `transport` and `worker` are borrowed. Call sl_session_open_* on sl_port_session next. */
enum sl_err sl_port_open(struct sl_port **out, struct sl_loop *loop, struct sl_transport *transport, sl_peer peer,
			 struct sl_worker *worker, const struct sl_port_events *events, void *arg,
			 struct sl_fail *fail) SL_MUST_CHECK;
struct sl_session *sl_port_session(struct sl_port *port);
/* Of the worker: of its tasks, and of what else is done for this session until the port is closed. */
struct sl_share *sl_port_share(struct sl_port *port);
/* ADMIT counts for this share instead: newcomers have one together, so that one of their plans at a time delays others.
 */
void sl_port_admit_share(struct sl_port *port, struct sl_share *share);
/* Of a job (worker.h) for the session with this id: its OPEN has it. INSTALL has that of the weights' hash. */
uint64_t sl_port_key(const uint8_t id[16]);
/* From here on all its tasks have this key: none of them overlaps another one that has it. */
void sl_port_share_key(struct sl_port *port, uint64_t key);
void sl_port_epoch(struct sl_port *port, uint64_t epoch); /* of what is sent from here on */

/* What sl_port_equip takes, and sl_port_follow beside it, at most, malloc's own bytes aside: `weights` for an upload
 * without a `range`, or for the answer to a Fetch, what codecs keep and work with, and payloads with what the port
 * notes of them. ZeroMQ's queues are bounded by the credit (link.window_bytes), and not in it. Nothing is allocated,
 * and sums end at UINT64_MAX: the plan may be a peer's. Errors of sl_codec_need. */
struct sl_port_memory {
	struct sl_memory weights, codecs, payloads;
};
enum sl_err sl_port_memory(const struct sl_plan *plan, struct sl_backend *be, struct sl_backend *host_be,
			   const struct sl_codec_spec spec[SL_DIR_COUNT], enum sl_session_role role,
			   struct sl_port_memory *out, struct sl_fail *fail) SL_MUST_CHECK;
/* Codecs (spec by direction) and buffers, once the plan is known. (worker or loop, before the first part.) `plan`, `be`
 * and `host_be` are borrowed; host_be is the CPU's, which runs, on copies, the codecs that a `be` with memory of its
 * own lacks (a line in the log names them); NULL where be's memory is the host's. Also fills the session's limits. */
enum sl_err sl_port_equip(struct sl_port *port, const struct sl_plan *plan, struct sl_backend *be,
			  struct sl_backend *host_be, const struct sl_codec_spec spec[SL_DIR_COUNT],
			  struct sl_fail *fail) SL_MUST_CHECK;
/* Server: the payload of the Hello that opened this session, from its KEEP (forwarded to `action`) until ADMIT is done.
 */
struct sl_bytes sl_port_asked(const struct sl_port *port);
/* Client, before OPEN: what an upload is packed from, part by part; borrowed. */
void sl_port_upload_from(struct sl_port *port, const struct sl_weights *weights);
/* Server: weight_count floats, an upload as it came. _spent: it is installed, and what is the port's own of it goes
 * back to the system. */
float *sl_port_uploaded(struct sl_port *port);
void sl_port_spent(struct sl_port *port);
/* Room for what the answer to a Fetch carries (sl_plan_fetch_count), which is sent from there and stored to. */
float *sl_port_weights(struct sl_port *port);
/* With the plan's fetch_state: what comes behind them in that answer, and how it lies. NULL: nothing does. */
uint8_t *sl_port_carried(struct sl_port *port, const struct sl_carried **layout);

/* In a group that shares heads and tails, before sl_port_equip: most bytes of the runs end_grad, end_mean and ends.
 * Then: a run that has come; room for the one that the task TELL, MEAN or GIVE is for, and what it has written there
 * (worker).
 */
void sl_port_end_runs(struct sl_port *port, const size_t bytes[SL_END_RUNS]);
struct sl_bytes sl_port_end_run(const struct sl_port *port, enum sl_end end);
struct sl_buf sl_port_end_room(struct sl_port *port, enum sl_end end);
void sl_port_end_filled(struct sl_port *port, enum sl_end end, const struct sl_buf *buf, double nominal);
/* (worker) What came was decoded; its bytes as the methods' authors count. */
void sl_port_end_heard(struct sl_port *port, enum sl_end end, double nominal);

void sl_port_deliver(struct sl_port *port, struct sl_bytes header, struct sl_bytes payload);
void sl_port_event(struct sl_port *port, const struct sl_event *ev);
void sl_port_fail(struct sl_port *port, const struct sl_fail *why); /* REFUSE to the peer, then FAIL */
void sl_port_writable(struct sl_port *port);
/* Forgets its tasks, and frees what it holds once none is under way and the transport has let go of its buffers
 * (`closed`, on the loop). */
void sl_port_close(struct sl_port *port, void (*closed)(void *arg), void *arg);
/* (worker) For a job that is to find none of the port's tasks under way on the backend, as sl_port_close should: true
 * where some are, and the job is then held behind them, and run again. */
bool sl_port_waits(struct sl_port *port, struct sl_job *job);
/* Nothing more comes of it: tasks that wait are forgotten, the running one ends as it may, and nobody hears of it. */
void sl_port_stop(struct sl_port *port);
/* Frees a port that has never sent anything, at once. */
void sl_port_discard(struct sl_port *port);

/* (worker) x := decoded run of `dir`, chunk; and the reverse into the buffer that the session will POST. In training
 * NONFINITE where x holds NaN or Inf, whether the codec could carry it or not. A plain payload is sent from x itself:
 * only the same chunk's next task of this kind may change x, which starts when the run has left. On a backend that
 * queues (sl_backend_ops.ahead) both may only have been queued when they return; then the task's end says what came of
 * it, and a decoded payload that is refused then was computed with, which no commit has followed. */
enum sl_err sl_port_decode(struct sl_port *port, enum sl_dir dir, int chunk, struct sl_tensor *x,
			   struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_port_encode(struct sl_port *port, enum sl_dir dir, int chunk, const struct sl_tensor *x,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* Bytes of the lengths, and of the choice of tokens, that a run of `what` begins with: of so many rows and tokens. */
size_t sl_port_lengths(const struct sl_plan *plan, int what, int64_t rows, int64_t tokens);
/* Rows and tokens of a chunk of the pass under way; `begin` where head_act is per token, and on a server once that is
 * decoded. Valid to the end of the pass. */
struct sl_dims sl_port_dims(const struct sl_port *port, int chunk);
void sl_port_commit_codecs(struct sl_port *port); /* (worker) */
/* (worker; or loop while no task is under way) Codecs for what crosses once `done` steps are (sl_plan_cut_shape_after).
 * Those of a tensor whose shape changes begin anew, without residuals and factors. On failure all are as before. */
enum sl_err sl_port_follow(struct sl_port *port, uint64_t done, struct sl_fail *fail) SL_MUST_CHECK;
/* (worker; or loop while no task is under way) By direction, for checkpoints; NULLs before sl_port_equip. */
struct sl_codec *const *sl_port_codecs(struct sl_port *port);
/* (worker) Around a task's computation, between decoding and encoding: what it takes, on a device too, is added to
 * compute_s when the task ends. */
void sl_port_compute_begins(struct sl_port *port);
void sl_port_compute_ends(struct sl_port *port);

struct sl_port_stats sl_port_stats(const struct sl_port *port);

#endif
