/* The distributed run, from the client's side: one session with a server, driven by its caller batch by batch.
 * Loop thread; every event comes from the loop, never from within a call. */
#ifndef SL_CLIENT_REMOTE_H
#define SL_CLIENT_REMOTE_H

#include "client/ends.h"
#include "client/step.h"
#include "common/session/agree.h"
#include "common/session/port.h"

struct sl_remote;

struct sl_remote_conf {
	const char *endpoint;
	const struct sl_transport_auth *auth; /* borrowed; NULL: a plain link */
	const struct sl_plan *plan;
	const struct sl_agreement *agreement;
	struct sl_backend *be;
	const struct sl_weights *weights; /* the whole model's; copied */
	bool weights_from_seed;           /* the server can make the middle's itself */
	bool chunk_loss_sum;
	size_t part_bytes;
	uint64_t window_bytes;
	int heartbeat_ms, timeout_ms, connect_timeout_ms;
	bool wait_for_server; /* a silent server is waited for, not an error */
};

struct sl_remote_events {
	void (*ready)(void *arg); /* the handshake is done: ask for a step, an evaluation or the weights */
	/* The step or evaluation batch asked for is done: ask for the next. */
	void (*done)(void *arg, const struct sl_step_result *result);
	void (*fetched)(void *arg);
	void (*failed)(void *arg, const struct sl_fail *fail); /* the session is over; close */
	void (*closed)(void *arg);                             /* after sl_remote_close */
};

enum sl_err sl_remote_open(struct sl_remote **out, struct sl_loop *loop, const struct sl_remote_conf *conf,
			   const struct sl_remote_events *events, void *arg, struct sl_fail *fail) SL_MUST_CHECK;

/* images and labels stay valid until `done`. */
void sl_remote_step(struct sl_remote *remote, const float *images, const int32_t *labels, int64_t rows, uint64_t step,
		    double lr);
void sl_remote_eval(struct sl_remote *remote, const float *images, const int32_t *labels, int64_t rows,
		    uint64_t number);
void sl_remote_fetch(struct sl_remote *remote);
/* After `fetched`: the whole model as it stands, all three segments. */
enum sl_err sl_remote_get_weights(struct sl_remote *remote, struct sl_weights *weights) SL_MUST_CHECK;

struct sl_port_stats sl_remote_stats(const struct sl_remote *remote);
double sl_remote_server_compute_s(const struct sl_remote *remote); /* sum over the steps */
const struct sl_session *sl_remote_session(const struct sl_remote *remote);

/* Says goodbye where the session still stands, frees everything, then calls `closed` from the loop. */
void sl_remote_close(struct sl_remote *remote);

#endif
