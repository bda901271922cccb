/* A port drives one session's end of the link. It joins the state machine to a transport (outq), to the codecs and
 * buffers of the four tensors, and to the worker on which kernels run. client/pass/remote.c and server/host/host.c
 * supply what differs: the tasks.
 *
 * Threads: everything runs on the loop's thread, except `run` and the functions marked (worker). */
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
	/* (worker) Does a task. A failure ends the session with *fail. */
	enum sl_err (*run)(void *arg, enum sl_task task, int chunk, struct sl_fail *fail);
	/* Called after a task that succeeded: fills in its TASK_DONE event before the session sees it. */
	void (*ran)(void *arg, enum sl_task task, struct sl_event *done);
	/* Where a received run of `dir` and `chunk` is stored: the tensor of that slot, with room for a full chunk.
	 * sl_port_equip asks where payloads are plain (codec.h). Each part is stored once it is checked. So nobody uses
	 * that memory from the end of a pass until the task in the next pass that decodes the chunk. */
	float *(*place)(void *arg, enum sl_dir dir, int chunk);
	/* Server, called by sl_port_equip if the backend's memory is the host's and the session is in no group:
	 * weight_count floats that an upload is received into. Nobody uses them before INSTALL. */
	float *(*range)(void *arg);
	/* Actions that the port does not carry out itself, and KEEP. FAIL and LEFT are the port's last ones: close it
	 * soon, though not from within the call. */
	void (*action)(void *arg, const struct sl_action *action, const struct sl_fail *fail);
};

/* Bytes and times of one session's link since the port was opened. */
struct sl_port_stats {
	uint64_t tx_bytes, rx_bytes;      /* headers and payloads */
	uint64_t sent_bytes;              /* the payloads of tx_bytes */
	uint64_t payload[SL_CROSS_COUNT]; /* of complete runs, by tensor, in its direction */
	uint64_t wire[SL_CROSS_COUNT];    /* the same, with the headers of their parts */
	uint64_t weights[SL_WAYS];        /* of the middle's weights, or of head and tail as a whole, with headers */
	double nominal[SL_CROSS_COUNT];   /* of these runs, as the methods' authors count */
	/* bytes/s of the fastest run. Sent: as the peer's credit confirmed it. Received: of runs of two or more parts
	 * that took 1 ms or more. */
	double peak_tx, peak_rx;
	double compute_s, codec_s; /* kernels and codecs, measured on the worker */
};

/* `transport` and `worker` are borrowed. Call sl_session_open_* on sl_port_session next. */
enum sl_err sl_port_open(struct sl_port **out, struct sl_loop *loop, struct sl_transport *transport, sl_peer peer,
			 struct sl_worker *worker, const struct sl_port_events *events, void *arg,
			 struct sl_fail *fail) SL_MUST_CHECK;
struct sl_session *sl_port_session(struct sl_port *port);
/* Server, vertical: [SL_WIRE_ORDER] of the pass under way. */
const uint8_t *sl_port_order(const struct sl_port *port);
/* Whether runs of this kind cross on a link of this plan: no gradient where nothing learns, and in a vertical group
 * only what belongs to the client's part of the network. */
static inline bool sl_port_crosses(const struct sl_plan *plan, int what)
{
	const bool mid = what == SL_PART_MID_ACT || what == SL_PART_MID_GRAD;

	return !(what == SL_PART_HEAD_GRAD && plan->spec.no_grad[0]) &&
	       !(what == SL_PART_MID_GRAD && plan->spec.no_grad[1]) &&
	       sl_party_has(plan->spec.party, mid ? SL_TAIL : SL_HEAD);
}
/* The port's share of the worker (worker.h): its tasks use it, and other jobs for this session until the port is
 * closed. */
struct sl_share *sl_port_share(struct sl_port *port);
/* ADMIT uses this share instead. All newcomers have one together, so only one of their plans at a time delays
 * others. */
void sl_port_admit_share(struct sl_port *port, struct sl_share *share);
/* The key (worker.h) of jobs for the session with this id; OPEN has it. INSTALL has the key of the weights' hash. */
uint64_t sl_port_key(const uint8_t id[16]);
/* From now on all tasks of the port have this key: the worker never overlaps two jobs with the same one. */
void sl_port_share_key(struct sl_port *port, uint64_t key);
void sl_port_epoch(struct sl_port *port, uint64_t epoch); /* of all frames sent from now on */

/* The most memory that sl_port_equip takes, with sl_port_set_done, malloc's own bytes aside. `weights`: an upload
 * without a `range`, or the answer to a Fetch. `codecs`: what they keep and work with. `payloads`: buffers, with what
 * the port notes of them. ZeroMQ's queues are not included: credit (link.window_bytes) bounds them. Nothing is
 * allocated, and sums saturate at UINT64_MAX: the plan may be a peer's. Errors of sl_codec_need. */
struct sl_port_memory {
	struct sl_memory weights, codecs, payloads;
	uint64_t state; /* of all codecs, as a checkpoint or an audit's Fetch copies it */
};
enum sl_err sl_port_memory(const struct sl_plan *plan, struct sl_backend *be, struct sl_backend *host_be,
			   const struct sl_codec_spec spec[SL_DIR_COUNT], enum sl_session_role role,
			   struct sl_port_memory *out, struct sl_fail *fail) SL_MUST_CHECK;
/* The most bytes of one chunk's run by direction, without headers of messages; 0: it does not cross. Nothing is
 * allocated. Errors of sl_codec_need. */
enum sl_err sl_port_run_bytes(const struct sl_plan *plan, struct sl_backend *be,
			      const struct sl_codec_spec spec[SL_DIR_COUNT], size_t bytes[SL_DIR_COUNT],
			      struct sl_fail *fail) SL_MUST_CHECK;
/* Opens codecs (spec by direction) and buffers, once the plan is known, and sets the session's limits. (worker or loop,
 * before the first part.) `plan`, `be` and `host_be` are borrowed. host_be is the CPU's; NULL if be's memory is the
 * host's. A `be` with memory of its own may lack some codecs: host_be runs these on copies, and a line in the log names
 * them. */
enum sl_err sl_port_equip(struct sl_port *port, const struct sl_plan *plan, struct sl_backend *be,
			  struct sl_backend *host_be, const struct sl_codec_spec spec[SL_DIR_COUNT],
			  struct sl_fail *fail) SL_MUST_CHECK;
/* Server: the payload of the Hello that opened this session; valid from KEEP (forwarded to `action`) until ADMIT is
 * done. */
/* Client: the newest record of who took part in the group's steps, JSON; NULL: none has come. */
const char *sl_port_record(const struct sl_port *port);
/* During the action REPORT: what has come; borrowed. */
const struct sl_wire_report *sl_port_report(const struct sl_port *port);
struct sl_bytes sl_port_asked(const struct sl_port *port);
/* Client, before OPEN: the weights from which an upload is packed, part by part; borrowed. */
void sl_port_upload_from(struct sl_port *port, const struct sl_weights *weights);
/* Server: an upload as it came, weight_count floats. _spent: it is installed; pages of the port's own buffer go back to
 * the system. */
float *sl_port_uploaded(struct sl_port *port);
void sl_port_spent(struct sl_port *port);
/* Buffer of the weights in the answer to a Fetch (sl_plan_fetch_count floats): the server sends from it, the client
 * receives into it. */
float *sl_port_weights(struct sl_port *port);
/* With the plan's fetch_state: the state behind these weights in that answer, and its layout. NULL: there is none. */
uint8_t *sl_port_carried(struct sl_port *port, const struct sl_carried **layout);

/* Only in a group that shares heads and tails. sl_port_end_runs, before sl_port_equip: most bytes of the runs end_grad,
 * end_mean and ends. _end_run: a run that has arrived. _end_room (worker): the buffer that the task TELL, MEAN or GIVE
 * writes. _end_filled (worker): what the task has written there. */
void sl_port_end_runs(struct sl_port *port, const size_t bytes[SL_END_RUNS]);
struct sl_bytes sl_port_end_run(const struct sl_port *port, enum sl_ends_run end);
struct sl_buf sl_port_end_room(struct sl_port *port, enum sl_ends_run end);
void sl_port_end_filled(struct sl_port *port, enum sl_ends_run end, const struct sl_buf *buf, double nominal);
/* (worker) Counts a run that was decoded: its bytes as the methods' authors count. */
void sl_port_end_heard(struct sl_port *port, enum sl_ends_run end, double nominal);

void sl_port_deliver(struct sl_port *port, struct sl_bytes header, struct sl_bytes payload);
void sl_port_event(struct sl_port *port, const struct sl_event *ev);
void sl_port_fail(struct sl_port *port, const struct sl_fail *why); /* REFUSE to the peer, then FAIL */
void sl_port_writable(struct sl_port *port);
/* Forgets queued tasks, and frees the port once none is under way and the transport no longer uses its buffers. Then
 * calls `closed`, on the loop. */
void sl_port_close(struct sl_port *port, void (*closed)(void *arg), void *arg);
/* (worker) For a session's last job, before sl_port_close: it must not run while tasks of the port are under way on the
 * backend. True: some are; the job is held until they are done, and then run again. */
bool sl_port_waits(struct sl_port *port, struct sl_job *job);
/* Stops the port: queued tasks are forgotten, and the result of the running one is ignored. */
void sl_port_stop(struct sl_port *port);
/* Frees a port that has never sent anything, at once. */
void sl_port_discard(struct sl_port *port);

/* (worker) Decodes the run of `dir` and chunk into x; _encode does the reverse, into the buffer that the session will
 * POST. In training _encode says NONFINITE if x holds NaN or Inf, whether the codec could carry it or not. A plain
 * payload is sent from x itself, so only the same chunk's next task of this kind may change x. That task starts when
 * the run has been sent. On a backend that queues (sl_backend_ops.ahead) both may return once the work is queued.
 * Errors then come at the task's end. A payload that is refused then has been computed with, but no commit has
 * followed. */
/* Sets the envs of the further values of a run behind `env`, that of value 0. `next` [SL_CUT_VALUES] outlives it. */
void sl_port_env_values(const struct sl_plan *plan, struct sl_codec_env *env, struct sl_codec_env *next);
enum sl_err sl_port_decode(struct sl_port *port, enum sl_dir dir, int chunk, struct sl_tensor *x,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* NONFINITE, with its name, if one of n values has NaN or Inf. A gradient without data is left out. */
enum sl_err sl_port_finite(const struct sl_tensor *x, int n, enum sl_dir dir, int chunk,
			   struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_port_encode(struct sl_port *port, enum sl_dir dir, int chunk, const struct sl_tensor *x,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* Bytes of row lengths, token choice and homes in front of a run of `what` with so many rows and tokens. */
size_t sl_port_lengths(const struct sl_plan *plan, int what, int64_t rows, int64_t tokens);
/* Rows and tokens of a chunk of the pass under way, valid until it ends. `begin` is set where head_act is per token; on
 * a server once head_act is decoded. */
struct sl_dims sl_port_dims(const struct sl_port *port, int chunk);
void sl_port_commit_codecs(struct sl_port *port); /* (worker) */
/* (worker; or loop while no task is under way) Opens the codecs for the tensors that cross once `done` steps are done
 * (sl_plan_cut_shape_after). Codecs of a tensor whose shape changes begin anew, without residuals and factors. On
 * failure all are as before. */
enum sl_err sl_port_set_done(struct sl_port *port, uint64_t done, struct sl_fail *fail) SL_MUST_CHECK;
/* (worker; or loop while no task is under way) The codecs by direction, for checkpoints; NULLs before sl_port_equip. */
struct sl_codec *const *sl_port_codecs(struct sl_port *port);
/* (worker) Called around a task's computation, between decoding and encoding. Its time, on a device too, is added to
 * compute_s when the task ends. */
void sl_port_compute_begins(struct sl_port *port);
void sl_port_compute_ends(struct sl_port *port);

struct sl_port_stats sl_port_stats(const struct sl_port *port);

#endif
