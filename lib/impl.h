/* Inside of libsplit. A handle has a thread of its own for the loop, a worker for codecs, and whatever ZeroMQ starts;
 * all of them block every signal. The caller's thread and the loop's share struct split_middle under `lock`.
 *
 * What the caller has asked of the open step stands in `ask`, what of that has been done on the link that is there now
 * in `did`. A link that breaks takes `did` with it, and advance() asks the next link for the same again. */
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
	char *local; /* the store of a server in this process; NULL: the server is another one */
	struct {
		char *name;
		float *value;
		size_t n;
	} * weight;
	int n_weight;
	uint8_t *token;
	size_t token_bytes;
	int64_t train_seed; /* the token's */
	/* keys that no config has */
	int64_t row_tokens, chunk_tokens, keep_every, wait_s, calls;
	char group[SL_CONF_GROUPS][SL_CONF_RULE_TEXT];
	bool no_input_grad;
};

/* What a token says; codecs' states are borrowed from its bytes. */
struct sl_token {
	uint8_t seed[SL_SECRET_BYTES];
	uint64_t epoch, step, made;
	uint64_t train_seed; /* which is the run's, where the one that goes on sets none */
	uint64_t frozen;     /* hash of what the server has from this side: at step 0 all, then what does not learn */
	uint8_t plan_hash[SL_PLAN_HASH_BYTES];
	struct sl_bytes codec[SL_DIR_COUNT];
};

/* token.c. Little endian, with a checksum at the end. DATA: it is no token. */
uint64_t sl_token_frozen(const struct split_middle *m, uint64_t step); /* what `frozen` is in a token of that step */
size_t sl_token_bytes(const struct sl_token *token);
void sl_token_write(const struct sl_token *token, uint8_t *out);
enum sl_err sl_token_read(struct sl_token *token, const void *data, size_t len, struct sl_fail *fail) SL_MUST_CHECK;

/* A state of this side: between the steps `step` - 1 and `step`. */
struct sl_lib_state {
	uint64_t step, made;
	struct sl_codecs_state codecs; /* zeros: as they are opened */
	bool has;
};

/* Memory of one tensor that crosses: a slot of `most` elements for each chunk. */
struct sl_lib_slots {
	float *data;
	int64_t stride, row; /* floats of a slot; of a row or token */
	uint64_t hash[SL_PLAN_MAX_CHUNKS];
	bool seen[SL_PLAN_MAX_CHUNKS]; /* the caller has it: another link must bring the same again */
};

/* A call of the open step: `chunks` chunks from `first` on; what its caller has done with it. */
struct sl_lib_call {
	int number, first, chunks;
	int64_t rows;
	bool output, back;
};

/* What has been done of the open step, or evaluation, on this link. */
struct sl_lib_did {
	bool up, apply, drop, fetch, skip, norm, normed;
	int begun, backs;            /* calls; of ask.order */
	int norm_of;                 /* of ask.order, in the norm that was asked for */
	int outputs;                 /* chunks of y */
	bool dx[SL_PLAN_MAX_CHUNKS]; /* chunks of dx */
	bool over;                   /* of an evaluation */
	double squares;              /* where there is a norm */
};

struct split_middle {
	/* set by open, then read alone */
	void *local; /* of lib/local; NULL: none */
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
	bool threaded; /* there is a thread */

	/* the loop's thread alone */
	struct sl_link *link; /* NULL: none is open */
	struct sl_retry retry;
	uint64_t epoch;
	bool linked;
	struct sl_lib_state live, ahead;
	uint64_t applied; /* (worker) COMMIT of the step before this one was applied on this link; 0: none */

	/* under the lock */
	struct sl_lib_slots x, y, dy, dx;
	uint32_t *begin;       /* of each call, from first · (plan->rows + 1) on */
	_Atomic uint64_t step; /* done; read without the lock, too */
	uint64_t token[SL_LIB_TOKENS];
	int n_token, calls;
	bool in_call; /* one of the caller's threads is in a call */
	struct {
		bool open, training, norm, apply, drop, fetch;
		bool stepping;       /* split_step was called, and has not said what came of it */
		uint64_t resuming;   /* likewise split_resume: the hash of its token; 0: it was not */
		bool resume, relink; /* no link stands at the token yet; the link that is there is to be closed first */
		bool close, goodbye;
		struct sl_lib_call call[SL_PLAN_MAX_CHUNKS];
		int calls, chunks;                  /* of the open step */
		struct sl_lib_call *waits;          /* what split_output or split_input_grad waits for */
		uint16_t order[SL_PLAN_MAX_CHUNKS]; /* calls that have had their gradient, as they had */
		int backs;
		double lr, scale;
		uint64_t since_ms; /* a call waits since then; 0: none */
	} ask;
	struct sl_lib_did did;
	uint8_t *pending; /* the token that split_resume was called with, until the link before it is closed */
	size_t pending_bytes;
	struct sl_fail lost;      /* why the last link ended */
	struct sl_fail dead;      /* code: the session is over */
	struct sl_fail nonfinite; /* code: of a step, an evaluation or weights, and not yet told */
	uint64_t nonfinite_step;
	bool stepped, rolled; /* a step that was asked for is done; the server stands at `rolled_to` */
	uint64_t rolled_to, links;
	float *fetched; /* [weight_count], of the state behind `fetched_at` - 1 steps; 0: of none */
	uint64_t fetched_at;
	uint64_t frozen, first;         /* hashes of those that are never fetched, and of all as they begin */
	bool kept_there;                /* the server has that state on its disk */
	struct sl_port_stats past, now; /* of links before this one, and of this one */
	double server_s;
};

/* The loop's side: loop.c. _loop_open: all of it but the thread, which runs sl_lib_thread. */
enum sl_err sl_lib_loop_open(struct split_middle *m, struct sl_fail *fail) SL_MUST_CHECK;
void *sl_lib_thread(void *middle);
void sl_lib_loop_close(struct split_middle *m);
/* The state of a token is this side's from now on. MISMATCH: it is another network's. */
enum sl_err sl_lib_token_check(const struct split_middle *m, const struct sl_token *t,
			       struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_lib_set_state(struct split_middle *m, const struct sl_token *t, struct sl_fail *fail) SL_MUST_CHECK;
void sl_lib_set_token_step(struct split_middle *m, uint64_t step);
/* What is asked of the open step, tensors aside, is forgotten. */
void sl_lib_forget_call(struct split_middle *m);
/* calls.c. _enter takes the lock, where the handle may be used here and now, _leave gives it back. */
int sl_lib_enter(struct split_middle *m, split_error *e);
int sl_lib_leave(struct split_middle *m, int code);
int sl_lib_misuse(struct split_middle *m, split_error *e, const char *what); /* and leaves */
int sl_lib_null(split_error *e, const char *names); /* of arguments that must not be NULL, of which one is */
/* What a call is told instead of what it waits for; OK: nothing. */
int sl_lib_trouble(struct split_middle *m, split_error *e);
/* With the lock, until there(m) or something else is to be said. */
int sl_lib_await(struct split_middle *m, bool (*there)(const struct split_middle *m), int timeout_ms, split_error *e);
void sl_lib_wake(struct split_middle *m); /* the loop: something was asked */

/* work.c: the tasks of a pass, on the worker. */
enum sl_err sl_lib_run(void *arg, enum sl_task task, int chunk, struct sl_fail *fail);
float *sl_lib_place(void *arg, enum sl_dir dir, int chunk);
enum sl_err sl_lib_slots_open(struct split_middle *m, struct sl_fail *fail) SL_MUST_CHECK;
void sl_lib_slots_close(struct split_middle *m);
/* Between packed rows of the caller's and the slots of a call. */
void sl_lib_scatter(const struct split_middle *m, const struct sl_lib_call *c, struct sl_lib_slots *s, bool mid,
		    const float *from);
void sl_lib_gather(const struct split_middle *m, const struct sl_lib_call *c, const struct sl_lib_slots *s, bool mid,
		   float *to);
uint32_t *sl_lib_begin(const struct split_middle *m, int chunk); /* of the call that begins with this chunk */

/* conf.c: fills conf, agreement, plan and weights of *m. */
enum sl_err sl_lib_settle(struct split_middle *m, const split_conf *conf, struct sl_fail *fail) SL_MUST_CHECK;
int sl_lib_error(split_error *e, const struct sl_fail *fail, uint64_t step);
int sl_lib_tell(split_error *e, uint64_t step, enum sl_err code, const char *fmt, ...) SL_PRINTF(4, 5);
/* log.c: from now on lines go to the ring; one of the module of local: goes there, whose log is another one. */
void sl_lib_log_begin(void);
void sl_lib_log_line(void *arg, const char *line, size_t len);
/* local.c: a server in this process, which conf.server then names. */
enum sl_err sl_lib_local_open(struct split_middle *m, const char *store, struct sl_fail *fail) SL_MUST_CHECK;

#endif
