/* Internal to libsplit. A handle has a thread of its own for the loop, a worker for codecs, and the threads that ZeroMQ
 * starts; all of them block every signal. The caller's thread and the loop's share struct split_middle under `lock`.
 *
 * `ask` is what the caller wants of the open step. `did` is what has been done of that on the current link. When a link
 * breaks, `did` is cleared, and advance() asks the next link for the same again. */
#ifndef SL_LIB_IMPL_H
#define SL_LIB_IMPL_H

#include <pthread.h>
#include <sys/types.h>

#include "client/link/auth.h"
#include "client/link/link.h"
#include "common/conf/conf.h"
#include "common/link/loop.h"
#include "common/session/state.h"
#include "common/weights/weights.h"
#include "lib/split.h"

enum { SL_LIB_SETTINGS = 96, SL_LIB_TOKENS = 2 };

struct split_conf {
	char *set[SL_LIB_SETTINGS]; /* "key=value" */
	int n_set;
	char *graph;
	char *local; /* store of a server in this process; NULL: the server is elsewhere */
	struct {
		char *name;
		float *value;
		size_t n;
	} * weight;
	int n_weight;
	uint8_t *token;
	size_t token_bytes;
	int64_t train_seed; /* from the token */
	/* keys that are not in a config */
	int64_t row_tokens, chunk_tokens, keep_every, wait_s, calls;
	char group[SL_CONF_GROUPS][SL_CONF_RULE_TEXT];
	bool no_input_grad;
};

/* A state of this side, between steps `step` - 1 and `step`. */
struct sl_lib_state {
	uint64_t step, made;
	struct sl_codecs_state codecs; /* zeros: as after open */
	bool has;
};

/* Memory of the values that cross in one direction: a slot of each for each chunk. */
struct sl_lib_slots {
	bool mid; /* at the tail's start */
	int n;
	struct {
		float *data;         /* NULL: its gradient does not cross */
		int64_t stride, row; /* floats of a slot; floats of a row, or token */
	} value[SL_CUT_VALUES];
	uint8_t left_out[SL_PLAN_MAX_CHUNKS]; /* a bit for each value whose gradient the caller has not given */
	uint64_t hash[SL_PLAN_MAX_CHUNKS];
	bool seen[SL_PLAN_MAX_CHUNKS]; /* the caller has seen it: another link must bring the same again */
};

/* A call of the open step, `chunks` chunks from `first` on. output: the caller has its output; back: has given its
 * gradient. */
struct sl_lib_call {
	int number, first, chunks;
	int64_t rows;
	bool output, back;
};

/* What has been done of the open step or evaluation on the current link. */
struct sl_lib_did {
	bool up, apply, drop, fetch, skip, norm;
	int begun, backs;            /* calls begun; gradients of ask.order given to the link */
	int norm_of;                 /* gradients of ask.order in the norm, which has come unless `norm` is set */
	int outputs;                 /* chunks of y that have arrived */
	bool dx[SL_PLAN_MAX_CHUNKS]; /* chunks of dx that have arrived */
	bool over;                   /* the evaluation has ended */
	double squares;              /* of the middle's gradient after so many */
};

struct split_middle {
	/* set by open, then only read */
	void *local; /* handle of lib/local; NULL: none */
	void (*local_close)(void *local);
	pid_t pid;
	int event_fd;
	pthread_t thread;
	struct sl_conf_client conf;
	uint64_t keep_every, wait_ms;
	int64_t rows; /* of the largest call */
	struct sl_client_auth auth;
	struct sl_agreement agreement;
	struct sl_plan *plan;
	struct sl_weights weights;
	struct sl_backend be;
	struct sl_secret secret;
	struct sl_loop *loop;
	struct sl_async *wake;
	struct sl_timer *retry_timer;
	pthread_mutex_t lock;
	pthread_cond_t news;
	bool threaded; /* `thread` was started */

	/* for the loop's thread only */
	struct sl_link *link; /* NULL: none is open */
	struct sl_retry retry;
	uint64_t epoch;
	bool linked;
	struct sl_lib_state live, ahead;
	uint64_t applied; /* (worker) COMMIT was applied on this link for step `applied` - 1; 0: for none */

	/* under the lock */
	struct sl_lib_slots x, y, dy, dx;
	uint32_t *begin;       /* row offsets of each call, from first · (plan->rows + 1) on */
	_Atomic uint64_t step; /* steps done; also read without the lock */
	uint64_t token[SL_LIB_TOKENS];
	int n_token, calls;
	bool in_call; /* one of the caller's threads is in a call */
	struct {
		bool open, training, norm, apply, drop, fetch;
		bool stepping;       /* split_step was called, and has not returned its result yet */
		uint64_t resuming;   /* the same for split_resume: hash of its token; 0: not called */
		bool resume, relink; /* resume: no link stands at the token yet; relink: close the current link first */
		bool close, goodbye;
		struct sl_lib_call call[SL_PLAN_MAX_CHUNKS];
		int calls, chunks;                  /* of the open step */
		struct sl_lib_call *waits;          /* the call that split_output or split_input_grad waits for */
		uint16_t order[SL_PLAN_MAX_CHUNKS]; /* calls that have a gradient, in the order given */
		int backs;
		double lr, scale;
		uint64_t since_ms; /* since when a call waits; 0: none does */
	} ask;
	struct sl_lib_did did;
	uint8_t *pending; /* split_resume's token, until the link before it is closed */
	size_t pending_bytes;
	struct sl_fail lost;      /* why the last link ended */
	struct sl_fail dead;      /* code set: the session is over for good */
	struct sl_fail nonfinite; /* code set: NaN or Inf in a step, an evaluation or weights, not yet reported */
	uint64_t nonfinite_step;
	bool stepped, rolled; /* stepped: the step asked for is done; rolled: the server is back at step `rolled_to` */
	uint64_t rolled_to, links;
	float *fetched; /* [weight_count], of the state after `fetched_at` - 1 steps; fetched_at 0: none */
	uint64_t fetched_at;
	uint64_t frozen, first;         /* hashes of the weights that are never fetched, and of all as they begin */
	bool kept_there;                /* the server has the fetched state on its disk */
	struct sl_port_stats past, now; /* of earlier links; of the current one */
	double server_s;
};

/* loop.c, the loop's side. _loop_open opens everything except the thread, which runs sl_lib_thread. */
enum sl_err sl_lib_loop_open(struct split_middle *m, struct sl_fail *fail) SL_MUST_CHECK;
void *sl_lib_thread(void *middle);
void sl_lib_loop_close(struct split_middle *m);
/* Forgets what is asked of the open step, except tensors. */
void sl_lib_forget_call(struct split_middle *m);
/* calls.c. _enter takes the lock if the handle may be used in this process and by this thread; _leave releases it. */
int sl_lib_enter(struct split_middle *m, split_error *e);
int sl_lib_leave(struct split_middle *m, int code);
int sl_lib_misuse(struct split_middle *m, split_error *e, const char *what); /* also calls _leave */
int sl_lib_null(split_error *e, const char *names); /* reports that one of these arguments is NULL */
/* What must be reported to a call in place of its result; OK: nothing. */
int sl_lib_trouble(struct split_middle *m, split_error *e);
/* Waits, with the lock, until there(m), or until an error must be reported. */
int sl_lib_await(struct split_middle *m, bool (*there)(const struct split_middle *m), int timeout_ms, split_error *e);
void sl_lib_wake(struct split_middle *m); /* tells the loop that something was asked */

/* work.c: the tasks of a pass, on the worker. */
enum sl_err sl_lib_run(void *arg, enum sl_task task, int chunk, struct sl_fail *fail);
float *sl_lib_place(void *arg, enum sl_dir dir, int chunk);
enum sl_err sl_lib_slots_open(struct split_middle *m, struct sl_fail *fail) SL_MUST_CHECK;
void sl_lib_slots_close(struct split_middle *m);
/* _scatter copies the caller's packed rows to the slots of a call, _gather the reverse. An array has a pointer for each
 * value; NULL: that value is left out. */
void sl_lib_scatter(const struct split_middle *m, const struct sl_lib_call *c, struct sl_lib_slots *s,
		    const float *const from[]);
void sl_lib_gather(const struct split_middle *m, const struct sl_lib_call *c, const struct sl_lib_slots *s,
		   float *const to[]);
uint32_t *sl_lib_begin(const struct split_middle *m, int chunk); /* row offsets of the call whose first chunk this is */

/* conf.c: fills conf, agreement, plan and weights of *m. */
enum sl_err sl_lib_settle(struct split_middle *m, const split_conf *conf, struct sl_fail *fail) SL_MUST_CHECK;
int sl_lib_error(split_error *e, const struct sl_fail *fail, uint64_t step);
int sl_lib_tell(split_error *e, uint64_t step, enum sl_err code, const char *fmt, ...) SL_PRINTF(4, 5);
/* log.c. _begin: from now on log lines go to the ring buffer. _line adds a line of lib/local, which has a log of its
 * own. */
void sl_lib_log_begin(void);
void sl_lib_log_line(void *arg, const char *line, size_t len);
/* local.c: opens a server in this process, and sets conf.server to its endpoint. */
enum sl_err sl_lib_local_open(struct split_middle *m, const char *store, struct sl_fail *fail) SL_MUST_CHECK;

#endif
