/* What a port is made of, for the files that implement it: port.c drives it, port_task.c runs its tasks on the worker,
 * port_equip.c gives it codecs and buffers. */
#ifndef SL_SESSION_PORT_IMPL_H
#define SL_SESSION_PORT_IMPL_H

#include <stdatomic.h>

#include "common/base/arena.h"
#include "common/session/port.h"

/* Moments of a task, on a backend that queues. */
enum task_mark { MARK_BEGUN, MARK_DECODED, MARK_COMPUTED, MARK_ENCODED, MARK_COUNT };

/* NEW: not held. Else, what the worker calls again for when the backend has done what was queued: the task's beginning,
 * which waited for tasks before it, or its end. */
enum task_stage { TASK_NEW, TASK_BEGINS, TASK_ENDS };

struct task_job {
	struct sl_job job; /* first: a job is its task */
	struct sl_port *port;
	enum sl_task task;
	int chunk;
	enum task_stage stage;  /* (worker) */
	void *mark[MARK_COUNT]; /* (worker) the backend's; NULL: never needed */
	unsigned marked;        /* (worker) bits 1 << enum task_mark */
	enum sl_err err;
	struct sl_fail fail;
};

/* One run's memory on this side. */
struct run_slot {
	struct sl_port *port;
	uint8_t *data;
	size_t cap, len;
	struct sl_run run;
	bool busy;   /* posted, and the transport may still read it */
	bool queued; /* (worker) the backend reads or writes it: sl_codec_collect is due */
	/* Of a plain payload (codec.h): sending, its bytes from rest_at on lie in the tensor, at `rest`; receiving,
	 * those behind the codec's header go to `tensor`. NULL: `data` has all of them. */
	const uint8_t *rest;
	size_t rest_at;
	uint8_t *tensor;
	size_t front; /* receiving, with `tensor`: bytes in `data`, which are the lengths and the codec's header */
	uint64_t started_ns;   /* receiving: first part's arrival */
	size_t first_bytes;    /* receiving: of that part */
	uint64_t header_bytes; /* receiving: of the parts so far */
	int64_t rows;          /* sending: of the tensor that it holds */
	double nominal;        /* of it */
};

/* What codecs are opened from; borrowed. */
struct coders {
	const struct sl_plan *plan;
	struct sl_backend *be, *host_be;
	const struct sl_codec_spec *spec; /* [SL_DIR_COUNT] */
};

/* How one tensor is coded. */
struct coding {
	enum sl_dir dir;
	enum sl_codec_pairing pairing;
	bool on_host;            /* on a copy of the backend's tensor */
	struct sl_codec_env env; /* pair: not set */
	size_t lengths;          /* bytes in front of a payload of a full chunk (codec/lengths.h) */
	struct sl_codec_need need;
	struct sl_fail lacks; /* code OK: nothing; else what the backend lacks for it */
};

struct lane_out {
	uint16_t chunk[SL_SESSION_MAX_CHUNKS]; /* a ring: tasks that wait for their chunk's buffer, in order */
	int first, count;
	enum sl_task task;
};

struct sl_port {
	struct sl_session session;
	struct sl_outbox outbox;
	struct sl_loop *loop;
	struct sl_transport *transport;
	sl_peer peer;
	struct sl_outq *outq;
	struct sl_worker *worker;
	uint8_t *asked; /* server: a copy of Hello's payload, for ADMIT; NULL: none */
	size_t asked_bytes;
	struct sl_share share; /* (worker's) all tasks' */
	uint64_t key;          /* of all tasks from here on; 0: each has its own, or none */
	struct sl_port_events events;
	void *arg;
	const struct sl_plan *plan;
	struct sl_backend *be, *host_be;
	struct sl_codec_spec spec[SL_DIR_COUNT];
	struct sl_codec *codec[SL_DIR_COUNT];     /* (worker) */
	bool host_codec[SL_DIR_COUNT];            /* works on host_tensor, a copy of the backend's */
	bool plain[SL_DIR_COUNT];                 /* payloads are sent from the tensor, and received into it */
	struct sl_arena arena;                    /* of runs, where ordinary memory will do */
	void *pinned;                             /* else */
	struct run_slot *run[SL_PART_WHAT_COUNT]; /* [slots]; weights: one */
	struct lane_out waiting[SL_PART_WHAT_COUNT];
	size_t end_bytes[SL_END_RUNS];   /* 0: head and tail are not shared */
	const struct sl_weights *upload; /* client: what an upload is packed from */
	struct sl_carried carried;       /* behind the weights that a Fetch brings; 0 bytes: nothing is */
	uint8_t *weights_room;           /* run[SL_PART_WEIGHTS]'s */
	uint8_t *carried_room;           /* [carried.bytes]; NULL: as above */
	/* Where rows begin, [slots], sl_dims_numbers of each: a client's driver says it, a server's head_act. NULL: no
	 * tokens. */
	uint32_t *begin;
	uint16_t *kept;     /* (worker) port_keep.c: tokens of the row whose home is here; NULL: nothing is kept */
	float *store;       /* (worker) server: the tokens */
	float *host_tensor; /* where the backend's memory is not the host's, and it lacks a codec */
	int slots;
	bool equipped;
	uint64_t done;                       /* (worker) steps, behind which the codecs have their shapes */
	struct task_job *job[SL_TASK_COUNT]; /* [job_count]: slots, or 1 */
	int job_count[SL_TASK_COUNT];
	struct task_job *running;   /* (worker) the task that `run` is called for */
	int held;                   /* (worker) jobs of this port that are */
	struct sl_job *behind;      /* (worker) held behind these */
	uint64_t compute_began_ns;  /* (worker) */
	struct sl_port_stats stats; /* but what sl_port_stats fills in */
	_Atomic uint64_t compute_ns, codec_ns;
	_Atomic double nominal_rx[SL_CROSS_COUNT]; /* of received runs; added to by the worker alone */
	size_t header_bytes;                       /* of the message being delivered */
	atomic_bool abandoning; /* from DROP until the ABANDON task is done, and from the session's end on */
	bool dead;
	void (*closed)(void *arg);
	void *closed_arg;
	struct sl_timer *reaper;
};

/* Jobs of the tasks that each chunk has (count: slots), or of the others (1). SL_ERR_NOMEM. */
enum sl_err sl_port_open_jobs(struct sl_port *port, bool per_chunk, int count) SL_MUST_CHECK;
void sl_port_close_jobs(struct sl_port *port); /* before the backend goes */
void sl_port_dispatch(struct sl_port *port, enum sl_task task, int chunk);
/* For sl_worker_forget and sl_worker_cancel: of the worker's jobs, which are this port's tasks. Others share it. */
int sl_port_is_task(const struct sl_job *job, void *port);
int sl_port_is_chunk(const struct sl_job *job, void *port); /* one that each chunk has */
/* (worker) For the running task; false: this backend's work is done when its functions return, so the clock will do. */
bool sl_port_mark(struct sl_port *port, enum task_mark mark);
/* (worker) Whether payloads of this chunk are on their way to or from a device; and what came of those, waiting where
 * they have not arrived. */
bool sl_port_queued(const struct sl_port *port, int chunk);
enum sl_err sl_port_collect(struct sl_port *port, int chunk, struct sl_fail *fail) SL_MUST_CHECK;
/* port_memory.c: activation and gradient of one cut, once `done` steps are. A gradient that does not cross takes
 * nothing, and has no codec. */
enum sl_err sl_port_place(const struct coders *coders, bool mid, uint64_t done, struct coding out[2],
			  struct sl_fail *fail) SL_MUST_CHECK;
/* What a run's buffer holds; of a plain payload the codec's header, or that and what else is in the first part. */
size_t sl_port_buffer_bytes(const struct sl_backend *be, const struct sl_codec_need *need, size_t lengths,
			    bool receives);
/* Of a run of weights: an upload has the whole range, the answer to a Fetch what moves. */
size_t sl_port_weights_bytes(const struct sl_plan *plan, bool upload);
/* Whether an upload is received into the executor's own range: not where that is a device's, or a group's. */
static inline bool sl_port_has_range(const struct sl_plan *plan, const struct sl_backend *be)
{
	return be->host_memory && !plan->spec.shared;
}
/* Of the port's room for such runs. */
static inline size_t sl_port_weights_room(const struct sl_plan *plan, const struct sl_backend *be,
					  enum sl_session_role role)
{
	return sl_port_weights_bytes(plan, role == SL_SESSION_SERVER && !sl_port_has_range(plan, be));
}
size_t sl_port_begin_bytes(const struct sl_plan *plan);
uint32_t *sl_port_begin(const struct sl_port *port, int chunk);
/* How many tokens of the chunk are chosen, and behind that which. NULL: the choice does not cross. */
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
	return what == SL_PART_ENDS || (what == SL_PART_MID_ACT || what == SL_PART_HEAD_GRAD ||
					what == SL_PART_END_MEAN) == (role == SL_SESSION_CLIENT);
}
/* Whether runs of that kind cross at all. */
static inline bool sl_port_crosses(const struct sl_plan *plan, int what)
{
	return !(what == SL_PART_HEAD_GRAD && plan->spec.no_grad[0]) &&
	       !(what == SL_PART_MID_GRAD && plan->spec.no_grad[1]);
}
void sl_port_forget_asked(struct sl_port *port);
/* port_keep.c: tokens that are kept of a plan's head_act, and what that takes. */
int64_t sl_port_keeps(const struct sl_plan *plan);
void sl_port_keep_memory(const struct sl_plan *plan, enum sl_session_role role, struct sl_memory *need);
enum sl_err sl_port_keep_open(struct sl_port *port, struct sl_fail *fail) SL_MUST_CHECK;
void sl_port_keep_close(struct sl_port *port);
/* (worker) Whether the server has every row of the chunk; else *missing is one that it has not. */
bool sl_port_keep_has(const struct sl_port *port, int chunk, int64_t *missing);
void sl_port_keep_note(struct sl_port *port, int chunk); /* it has them now */
void sl_port_keep_write(const struct sl_port *port, int chunk, uint8_t *at);
/* (worker) Server: the homes off the front of *in, PAYLOAD where one lies outside; rows of `x` to the store; and back,
 * PAYLOAD where one is not there. */
enum sl_err sl_port_keep_take(struct sl_port *port, int chunk, struct sl_bytes *in, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_port_keep_store(struct sl_port *port, int chunk, const struct sl_tensor *x) SL_MUST_CHECK;
enum sl_err sl_port_keep_restore(struct sl_port *port, int chunk, const struct sl_tensor *x,
				 struct sl_fail *fail) SL_MUST_CHECK;
/* Frees what sl_port_equip has taken, if anything. */
void sl_port_unequip(struct sl_port *port);

#endif
