/* The client's half of one session with a server: the connection, the handshake, the tasks of a pass in their order,
 * and the goodbye. What a task computes is its user's: struct sl_link_work.
 *
 * One link is one session. Who comes back after a loss opens another one, and offers the steps that it can go on from
 * (offer.h). Loop thread, but for what is marked (worker); every event comes from the loop, never from within a call.
 */
#ifndef SL_CLIENT_LINK_LINK_H
#define SL_CLIENT_LINK_LINK_H

#include "client/link/offer.h"
#include "common/session/agree.h"
#include "common/session/port.h"

struct sl_link;
struct sl_conf_client;

/* All pointers are borrowed until `closed`. */
struct sl_link_conf {
	const char *endpoint;
	const struct sl_transport_auth *auth; /* NULL: a plain link */
	const struct sl_plan *plan;
	const struct sl_agreement *agreement;
	struct sl_backend *be;
	const struct sl_weights *weights; /* the whole model's; the middle's are copied */
	bool weights_from_seed;           /* the server can make the middle's itself */
	size_t part_bytes;
	uint64_t window_bytes;
	int heartbeat_ms, timeout_ms, connect_timeout_ms;
	uint64_t stall_ms; /* 0: no limit */
	struct sl_offer offer;
	uint64_t run_steps;            /* of the run in all */
	struct sl_traffic *traffic;    /* as in struct sl_transport_conf */
	size_t end_bytes[SL_END_RUNS]; /* the most that end_grad, end_mean and ends come to; 0: these do not cross */
};

/* What a client's config says of a link: endpoint, keys, bounds. The rest is zero. `auth` is borrowed. */
struct sl_link_conf sl_link_conf_of(const struct sl_conf_client *conf, const struct sl_transport_auth *auth);

/* Who computes a session's tasks; all are called with `arg`. */
struct sl_link_work {
	/* (worker) Computes a task, with sl_port_decode before and sl_port_encode behind it. */
	enum sl_err (*run)(void *arg, enum sl_task task, int chunk, struct sl_fail *fail);
	/* Behind a task, on the loop: adds what the session is to know of it. */
	void (*ran)(void *arg, enum sl_task task, struct sl_event *done);
	/* Where values of a whole chunk that come from the server are decoded to. */
	float *(*place)(void *arg, enum sl_dir dir, int chunk);
	void (*close)(void *arg); /* the link is freed, and `closed` follows; NULL: there is nothing to do */
	void *arg;
};

struct sl_link_events {
	/* The handshake is done, and the server goes on from `next_step`, one of those offered. */
	void (*ready)(void *arg, uint64_t next_step);
	void (*done)(void *arg); /* the step or evaluation batch that was begun is over */
	/* The step was abandoned on both sides, as why->text says: skip it, fetch the weights as they were before it,
	 * or end the session. */
	void (*abandoned)(void *arg, const struct sl_fail *why);
	void (*normed)(void *arg, double squares); /* after sl_link_norm: the squares of the middle's gradient */
	void (*fetched)(void *arg);                /* the middle's weights are in sl_link_weights */
	void (*failed)(void *arg, const struct sl_fail *fail); /* the session is over, and no task runs: close */
	void (*closed)(void *arg);                             /* after sl_link_close: the link is freed */
};

/* `arg` goes to events. On an error nothing is left open, and no event comes, nor work->close. */
enum sl_err sl_link_open(struct sl_link **out, struct sl_loop *loop, const struct sl_link_conf *conf,
			 const struct sl_link_events *events, void *arg, const struct sl_link_work *work,
			 struct sl_fail *fail) SL_MUST_CHECK;

/* Passes can begin. Behind a loss they cannot, though `failed` comes once the last task has ended. */
bool sl_link_is_up(const struct sl_link *link);
/* While it is up: SL_EV_BEGIN_STEP, SL_EV_BEGIN_EVAL or SL_EV_PASS; in a free step SL_EV_MORE. */
void sl_link_begin(struct sl_link *link, const struct sl_event *pass);
void sl_link_fetch(struct sl_link *link);
void sl_link_skip(struct sl_link *link); /* after `abandoned`: the step counts as done, with nothing applied */
/* From the next COMMIT on: steps of which this side has checkpoints, newest first; 0: none. The server keeps its side
 * of them. `writing`: the newest is not yet on the disk. */
void sl_link_kept(struct sl_link *link, const uint64_t kept[SL_WIRE_KEPT], bool writing);

struct sl_port *sl_link_port(struct sl_link *link); /* for tasks, and codecs' state */
const struct sl_session *sl_link_session(const struct sl_link *link);
/* While a free step is under way (session.h). _grads: gradients of the activations of `chunks` chunks from `first` on
 * can be encoded. _norm: that of the gradients so far is wanted; `normed` follows. _apply: the step is to be applied
 * once its last task is done. _drop: nothing of it is to be applied; `abandoned` follows. */
void sl_link_grads(struct sl_link *link, int first, int chunks);
void sl_link_norm(struct sl_link *link);
void sl_link_apply(struct sl_link *link, double lr, double grad_scale, bool checkpoint);
void sl_link_drop(struct sl_link *link, const struct sl_fail *why);

/* After `fetched`: the front of the middle's weight range, sl_plan_fetch_count floats. NONFINITE: they hold NaN or Inf.
 */
/* With the agreement's fetch.state also what came behind them (sl_port_carried). */
enum sl_err sl_link_weights(const struct sl_link *link, const float **weights, struct sl_fail *fail) SL_MUST_CHECK;

bool sl_link_was_up(const struct sl_link *link);          /* it is, or was until `failed`: the handshake was done */
bool sl_link_ended_in_commit(const struct sl_link *link); /* after `failed`: COMMIT was sent, its answer has not come */
bool sl_link_is_lost(const struct sl_link *link);         /* its connection broke: it may come back, or fail */
uint64_t sl_link_busy_ms(const struct sl_link *link);     /* how long the task that runs now has run */
bool sl_link_idle(const struct sl_link *link);            /* no task runs or waits */
void sl_link_count(struct sl_link *link);                 /* brings conf.traffic up to date, but for weights */

/* Ends the session so that the server keeps its state and the client can come back to it. No task begins any more; one
 * that runs is not waited for (sl_link_idle). Close next. */
void sl_link_pause(struct sl_link *link);
/* Says goodbye where the session still stands; once no task runs any more frees everything, then `closed`. */
void sl_link_close(struct sl_link *link);

#endif
