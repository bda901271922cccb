/* A port's parts, for the files that implement it. port.c drives it, port_task.c runs its tasks on the worker,
 * port_equip.c opens codecs and buffers. port_memory.c counts their memory. port_keep.h keeps rows of
 * head_act. port_check.c asserts what holds. */
#ifndef SL_SESSION_PORT_IMPL_H
#define SL_SESSION_PORT_IMPL_H

#include <stdatomic.h>

#include "common/base/arena.h"
#include "common/session/port.h"

/* Moments of a task at which a backend that queues takes the time. */
enum task_mark { MARK_BEGUN, MARK_DECODED, MARK_COMPUTED, MARK_ENCODED, MARK_COUNT };

/* NEW: the job is not held. Else the worker has held it until the backend's queue is done, and calls it again. BEGINS:
 * the task had to wait for tasks before it. ENDS: its own work is done. */
enum task_stage { TASK_NEW, TASK_BEGINS, TASK_ENDS };

struct task_job {
	struct sl_job job; /* first member: a job is cast to its task_job */
	struct sl_port *port;
	enum sl_task task;
	int chunk;
	bool posted;            /* and its end is not known yet */
	enum task_stage stage;  /* (worker) */
	void *mark[MARK_COUNT]; /* (worker) made by the backend; NULL: not needed yet */
	unsigned marked;        /* (worker) bits 1 << enum task_mark */
	enum sl_err err;
	struct sl_fail fail;
};

/* The buffer of one run on this side. */
struct run_slot {
	struct sl_port *port;
	uint8_t *data;
	size_t cap, len;
	struct sl_run run;
	bool busy;   /* posted, and the transport may still read it */
	bool queued; /* (worker) the backend reads or writes it: sl_codec_collect is due */
	/* Plain payloads (codec.h), and the state behind fetched weights, bypass `data`. Sending: bytes from rest_at on
	 * lie at `rest`, in the tensor or state. Receiving: bytes from `front` on go to `tensor`. NULL: `data` has all
	 * of them. */
	const uint8_t *rest;
	size_t rest_at;
	uint8_t *tensor;
	size_t front;          /* receiving, with `tensor`: bytes that go to `data`: lengths and the codec's header */
	uint64_t started_ns;   /* receiving: when the first part arrived */
	size_t first_bytes;    /* receiving: bytes of the first part */
	uint64_t header_bytes; /* receiving: header bytes of the parts so far */
	int64_t rows;          /* sending: rows of the encoded tensor */
	double nominal;        /* sending: its bytes as the method's authors count */
};

/* Everything that codecs are opened from; borrowed. */
struct coders {
	const struct sl_plan *plan;
	struct sl_backend *be, *host_be;
	const struct sl_codec_spec *spec; /* [SL_DIR_COUNT] */
};

/* How one tensor is coded. */
struct coding {
	enum sl_dir dir;
	enum sl_codec_pairing pairing;
	bool on_host;                            /* the codec runs on a host copy of the backend's tensor */
	struct sl_codec_env env;                 /* pair: not set */
	struct sl_codec_env next[SL_CUT_VALUES]; /* of further values: env.next points to them */
	size_t lengths;                          /* bytes in front of a full chunk's payload (codec/lengths.h) */
	struct sl_codec_need need;
	struct sl_fail lacks; /* code OK: nothing; else what the backend lacks for this codec */
};

struct lane_out {
	uint16_t chunk[SL_SESSION_MAX_CHUNKS]; /* ring buffer: chunks whose task waits until their run_slot is free */
	int first, count;
	enum sl_task task;
};

struct sl_port {
	struct sl_session session;
	struct sl_outbox outbox;
	struct sl_loop *loop;
	struct sl_outq *outq;
	struct sl_worker *worker;
	struct {
		char *text, *next; /* NULL: none; next: its pieces so far */
		size_t len, cap;   /* of next */
	} record;                  /* client, in a group: who took part in its steps */
	const struct sl_wire_report *report;
	uint8_t *asked; /* server: a copy of Hello's payload, for ADMIT; NULL: none */
	size_t asked_bytes;
	struct sl_share share; /* the share of all tasks (worker.h) */
	uint64_t key;          /* of all tasks from now on; 0: each has its own, or none */
	struct sl_port_events events;
	void *arg;
	const struct sl_plan *plan;
	struct sl_backend *be, *host_be;
	struct sl_codec_spec spec[SL_DIR_COUNT];
	struct sl_codec *codec[SL_DIR_COUNT];     /* (worker) */
	bool host_codec[SL_DIR_COUNT];            /* the codec works on host_tensor, a copy of the backend's */
	bool plain[SL_DIR_COUNT];                 /* payloads are sent from the tensor, or received into it */
	struct sl_arena arena;                    /* memory of run buffers, if the backend needs no locked memory */
	void *pinned;                             /* the same, locked by the backend */
	struct run_slot *run[SL_PART_WHAT_COUNT]; /* [slots]; one for weights and shared ends */
	struct lane_out waiting[SL_PART_WHAT_COUNT];
	size_t end_bytes[SL_END_RUNS];   /* most bytes of these runs; 0: head and tail are not shared */
	const struct sl_weights *upload; /* client: the weights that an upload is packed from */
	struct sl_carried carried;       /* layout of the state behind fetched weights; 0 bytes: there is none */
	uint8_t *weights_room;           /* the buffer of run[SL_PART_WEIGHTS] */
	uint8_t *carried_room;           /* [carried.bytes]; NULL: there is none */
	/* Row offsets, with choice and homes, of each slot (port_memory.c): set by a client's driver, on a server from
	 * head_act. NULL: no tokens. */
	uint32_t *begin;
	uint16_t *kept;     /* (worker) port_keep.c: by home, tokens of the row stored there; NULL: nothing is kept */
	float *store;       /* (worker) server: the stored tokens */
	float *host_tensor; /* copy for codecs that a backend with memory of its own lacks */
	uint8_t tag[SL_WIRE_ORDER]; /* of the pass under way, in a vertical group */
	bool order_waits;           /* it is to be sent once the last one's buffer is free */
	int slots;
	bool equipped;
	uint64_t done;                       /* (worker) the codecs have the shapes for the step after so many */
	struct task_job *job[SL_TASK_COUNT]; /* [job_count], which is slots or 1 */
	int job_count[SL_TASK_COUNT];
	struct task_job *running;   /* (worker) the task that `run` is called for */
	int held;                   /* (worker) how many jobs of this port are held */
	struct sl_job *behind;      /* (worker) a job held until these are done */
	uint64_t compute_began_ns;  /* (worker) */
	struct sl_port_stats stats; /* without what sl_port_stats fills in */
	_Atomic uint64_t compute_ns, codec_ns;
	_Atomic double nominal_rx[SL_CROSS_COUNT]; /* of received runs; only the worker adds to it */
	size_t header_bytes;                       /* header bytes of the message being delivered */
	atomic_bool abandoning;                    /* chunks' tasks do nothing: from DROP to ABANDON, and at the end */
	bool dead;
	void (*closed)(void *arg);
	void *closed_arg;
	struct sl_timer *reaper;
};
_Static_assert(SL_PART_END_GRAD + (int)SL_END_RUNS == (int)SL_PART_ORDER, "end_bytes has end_grad to ends");

/* Makes the jobs of the tasks that each chunk has (count: slots), or of all other tasks (count: 1). SL_ERR_NOMEM. */
enum sl_err sl_port_open_jobs(struct sl_port *port, bool per_chunk, int count) SL_MUST_CHECK;
void sl_port_close_jobs(struct sl_port *port); /* call before the backend is closed */
void sl_port_dispatch(struct sl_port *port, enum sl_task task, int chunk);
/* Filters for sl_worker_forget and others, as ports share a worker: whether a job is a task of this port. */
int sl_port_is_task(const struct sl_job *job, void *port);
int sl_port_is_chunk(const struct sl_job *job, void *port); /* the same, only for tasks that each chunk has */
/* (worker) Marks this moment of the running task. False: this backend's work is done when its functions return, so the
 * caller can use the clock. */
bool sl_port_mark(struct sl_port *port, enum task_mark mark);
/* (worker) Whether the backend still encodes or decodes payloads of this chunk. _collect waits for it and says whether
 * that failed. */
bool sl_port_queued(const struct sl_port *port, int chunk);
enum sl_err sl_port_collect(struct sl_port *port, int chunk, struct sl_fail *fail) SL_MUST_CHECK;
/* port_memory.c: decides how activation and gradient of one cut are coded once `done` steps are done. A gradient that
 * does not cross takes nothing, and has no codec. */
enum sl_err sl_port_place(const struct coders *coders, bool mid, uint64_t done, struct coding out[2],
			  struct sl_fail *fail) SL_MUST_CHECK;
/* Bytes of a run's buffer. For a plain payload: the codec's header if it is received, else the first part. */
size_t sl_port_buffer_bytes(const struct sl_backend *be, const struct sl_codec_need *need, size_t lengths,
			    bool receives);
/* Bytes of a run of weights: an upload has the whole range, the answer to a Fetch only what can change. */
size_t sl_port_weights_bytes(const struct sl_plan *plan, bool upload);
/* Whether an upload is received into the executor's own weight range: not if that lies on a device, or belongs to a
 * group. */
static inline bool sl_port_has_range(const struct sl_plan *plan, const struct sl_backend *be)
{
	return be->host_memory && !plan->spec.shared;
}
/* Bytes of the port's buffer for runs of weights. */
static inline size_t sl_port_weights_room(const struct sl_plan *plan, const struct sl_backend *be,
					  enum sl_session_role role)
{
	return sl_port_weights_bytes(plan, role == SL_SESSION_SERVER && !sl_port_has_range(plan, be));
}
size_t sl_port_begin_bytes(const struct sl_plan *plan);
uint32_t *sl_port_begin(const struct sl_port *port, int chunk);
/* The number of chosen tokens of the chunk, then these tokens. NULL: the choice does not cross. */
uint32_t *sl_port_choice(const struct sl_port *port, int chunk);
uint32_t *sl_port_homes(const struct sl_port *port, int chunk);  /* [rows] 1 + home, 0: none. NULL: nothing is kept */
uint32_t *sl_port_pieces(const struct sl_port *port, int chunk); /* NULL: rows are not padded */
uint32_t *sl_port_cached(const struct sl_port *port, int chunk); /* NULL: rows are whole */
/* Whether each chunk has a task of its own of this kind. */
static inline bool sl_port_per_chunk(enum sl_task task)
{
	return task >= SL_TASK_HEAD_FWD && task <= SL_TASK_HEAD_BWD;
}
static inline bool sl_port_receives(enum sl_session_role role, int what)
{
	return what >= SL_PART_ENDS || (what == SL_PART_MID_ACT || what == SL_PART_HEAD_GRAD ||
					what == SL_PART_END_MEAN) == (role == SL_SESSION_CLIENT);
}
void sl_port_forget_asked(struct sl_port *port);
/* Frees what sl_port_equip has taken, if anything. */
void sl_port_unequip(struct sl_port *port);

/* port_values.c. Appends a piece; the last one completes the text, which takes the place of an earlier one. */
void sl_port_keep_record(struct sl_port *port, const struct sl_wire_record *record);

#endif
