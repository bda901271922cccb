/* The client's side of one session with a server: the connection, the handshake, the order of the tasks of a pass, and
 * the goodbye. The link's user computes the tasks: struct sl_link_work.
 *
 * A link serves one connection of a session. To resume after a loss, the client opens another link and offers the steps
 * that it can go on from (offer.h). Everything runs on the loop's thread, except what is marked (worker). */
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
	const struct sl_weights *weights; /* of the whole model; an upload copies those of the middle */
	bool weights_from_seed;           /* the server can initialize the middle from the seed: no upload */
	const uint8_t *weights_hash;      /* [16] of the middle's weights that the run began with; NULL: of these */
	size_t part_bytes;
	uint64_t window_bytes;
	int heartbeat_ms, timeout_ms, connect_timeout_ms;
	uint64_t stall_ms; /* link.stall_s; 0: no limit */
	struct sl_offer offer;
	uint64_t run_steps;            /* steps of the whole run */
	struct sl_traffic *traffic;    /* as in struct sl_transport_conf */
	size_t end_bytes[SL_END_RUNS]; /* most bytes of end_grad, end_mean and ends; 0: these do not cross */
};

/* Takes endpoint, keys and bounds from a client's config; all other members are zero. `auth` is borrowed. */
struct sl_link_conf sl_link_conf_of(const struct sl_conf_client *conf, const struct sl_transport_auth *auth);

/* The functions that compute a session's tasks; all are called with `arg`. */
struct sl_link_work {
	/* (worker) Computes a task, with sl_port_decode before and sl_port_encode behind it. */
	enum sl_err (*run)(void *arg, enum sl_task task, int chunk, struct sl_fail *fail);
	/* Called on the loop after a task: fills in its TASK_DONE event before the session sees it. */
	void (*ran)(void *arg, enum sl_task task, struct sl_event *done);
	/* Where a run from the server is stored: as in struct sl_port_events. */
	float *(*place)(void *arg, enum sl_dir dir, int chunk);
	void (*close)(void *arg); /* called when the link is freed, before `closed`; may be NULL */
	void *arg;
};

struct sl_link_events {
	/* The handshake is done; `next_step`: the offered step whose state the server has, and goes on from. */
	void (*ready)(void *arg, uint64_t next_step);
	void (*done)(void *arg); /* the step or evaluation batch under way is done */
	/* Both sides abandoned the step; why->text says why. The caller now skips it, fetches the weights from before
	 * it, or ends the session. */
	void (*abandoned)(void *arg, const struct sl_fail *why);
	void (*normed)(void *arg, double squares); /* after sl_link_norm: sum of squares of the middle's gradient */
	void (*fetched)(void *arg);                /* sl_link_weights has the middle's weights */
	void (*failed)(void *arg, const struct sl_fail *fail); /* the session is over, and no task runs: close */
	void (*closed)(void *arg);                             /* after sl_link_close: the link is freed */
};

/* `arg` is passed to events. On an error nothing is left open, and neither an event nor work->close is called. */
enum sl_err sl_link_open(struct sl_link **out, struct sl_loop *loop, const struct sl_link_conf *conf,
			 const struct sl_link_events *events, void *arg, const struct sl_link_work *work,
			 struct sl_fail *fail) SL_MUST_CHECK;

/* Passes can begin. Once the session has failed they cannot, even before `failed` reports it. */
bool sl_link_is_up(const struct sl_link *link);
/* Only while the link is up. `pass`: SL_EV_BEGIN_STEP, SL_EV_BEGIN_EVAL or SL_EV_PASS; in a free step SL_EV_MORE. */
void sl_link_begin(struct sl_link *link, const struct sl_event *pass);
void sl_link_fetch(struct sl_link *link);
void sl_link_skip(struct sl_link *link); /* after `abandoned`: the step counts as done, with nothing applied */
void sl_link_say(struct sl_link *link, struct sl_wire_report *report); /* of a group: signs it */
/* Sets what every COMMIT from now on says: steps of this side's checkpoints, newest first; 0: none. The server keeps
 * its own checkpoints of these steps. `writing`: the newest is not yet on the disk. */
void sl_link_kept(struct sl_link *link, const uint64_t kept[SL_WIRE_KEPT], bool writing);

struct sl_port *sl_link_port(struct sl_link *link); /* for tasks, and for the codecs' state */
const struct sl_session *sl_link_session(const struct sl_link *link);
/* While a free step is under way (session.h). _grads: gradients of the activations of `chunks` chunks from `first` on
 * are ready to be encoded. _norm asks for the norm of the gradients so far; `normed` follows. _apply applies the step
 * once its last task is done. _drop abandons it; `abandoned` follows. */
void sl_link_grads(struct sl_link *link, int first, int chunks);
void sl_link_norm(struct sl_link *link);
void sl_link_apply(struct sl_link *link, double lr, double grad_scale, bool checkpoint);
void sl_link_drop(struct sl_link *link, const struct sl_fail *why);

/* After `fetched`: the front of the middle's weight range, sl_plan_fetch_count floats. With the agreement's fetch.state
 * the answer also has state behind them (sl_port_carried). NONFINITE: the weights hold NaN or Inf. */
enum sl_err sl_link_weights(const struct sl_link *link, const float **weights, struct sl_fail *fail) SL_MUST_CHECK;

bool sl_link_was_up(const struct sl_link *link);          /* the handshake was done; the link may have failed since */
bool sl_link_ended_in_commit(const struct sl_link *link); /* after `failed`: COMMIT was sent, but not answered */
bool sl_link_is_lost(const struct sl_link *link);         /* the connection broke: it may come back, or fail */
bool sl_link_came_back(const struct sl_link *link);       /* the connection broke, and the server was heard since */
bool sl_link_stalled(const struct sl_link *link);         /* a member's link ended by link.stall_s */
uint64_t sl_link_busy_ms(const struct sl_link *link);     /* how long the running task has run */
bool sl_link_idle(const struct sl_link *link);            /* no task runs or waits */
void sl_link_count(struct sl_link *link);                 /* brings conf.traffic up to date, except for weights */

/* Ends the session, but asks the server to keep its state, so that the client can resume it. No further task begins.
 * This does not wait for the one that runs (sl_link_idle). Call sl_link_close next. */
void sl_link_pause(struct sl_link *link);
/* Says goodbye if the session is not over. Once no task runs it frees everything, then calls `closed`. */
void sl_link_close(struct sl_link *link);

#endif
