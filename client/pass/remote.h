/* The distributed run, from the client's side: head and tail on a link (client/link/link.h), driven by its caller batch
 * by batch. Loop thread; every event comes from the loop, never from within a call. */
#ifndef SL_CLIENT_PASS_REMOTE_H
#define SL_CLIENT_PASS_REMOTE_H

#include "client/link/link.h"
#include "client/persist/client_state.h"
#include "client/setup/order.h"
#include "client/step/ends.h"
#include "client/step/step.h"

struct sl_audit;
struct sl_remote;

struct sl_remote_conf {
	struct sl_link_conf link;     /* end_bytes are filled in here */
	struct sl_ends_use use;       /* logits are complete at `done` */
	struct sl_audit *audit;       /* audits the steps; borrowed, NULL: none */
	const struct sl_order *order; /* in a vertical group; borrowed, else NULL */
	const struct sl_key *seal;    /* for the head and tail that a member gives or gets; borrowed, NULL: open */
};

/* After `ready` give it the state that belongs to the server's step; a fresh start has none. Then ask for a step, an
 * evaluation or the weights. After `done` read sl_remote_result, and ask for the next. */
enum sl_err sl_remote_open(struct sl_remote **out, struct sl_loop *loop, const struct sl_remote_conf *conf,
			   const struct sl_link_events *events, void *arg, struct sl_fail *fail) SL_MUST_CHECK;

/* What `feed` points to stays valid until `done`, or until the session is closed. `checkpoint`: the server is to store
 * its state after this step; the session says whether it has. */
void sl_remote_step(struct sl_remote *remote, const struct sl_feed *feed, uint64_t step, double lr, bool checkpoint);
/* In a group: the step is another member's; `done` follows. */
void sl_remote_pass(struct sl_remote *remote, uint64_t step, double lr, bool checkpoint);
void sl_remote_eval(struct sl_remote *remote, const struct sl_feed *feed, uint64_t number);

/* The client's state, while no pass is under way or after `failed`: _open allocates it, _take reads it (the caller sets
 * s->step), _give sets it. */
enum sl_err sl_remote_state_open(struct sl_remote *remote, struct sl_client_state *s,
				 struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_remote_take(struct sl_remote *remote, struct sl_client_state *s) SL_MUST_CHECK;
/* give: if the group does not know what made the state, its codecs begin anew. */
enum sl_err sl_remote_give(struct sl_remote *remote, const struct sl_client_state *s) SL_MUST_CHECK;
/* Replaces head and tail with the group's, which this link has received (sl_session_has_ends). PAYLOAD: they are
 * invalid, or do not open. */
enum sl_err sl_remote_take_ends(struct sl_remote *remote, struct sl_fail *fail) SL_MUST_CHECK;
/* The next step is `step`; the steps before it have not changed the client's state. */
enum sl_err sl_remote_set_step(struct sl_remote *remote, uint64_t step) SL_MUST_CHECK;
/* The epoch of the link whose COMMIT made the state that both sides hold. */
uint64_t sl_remote_made(const struct sl_remote *remote);
/* After `failed`: the step under way was applied here, though `done` has not said so. */
bool sl_remote_applied(const struct sl_remote *remote);
/* After `failed`: the step under way was applied in part. What this side holds is no step's state. */
bool sl_remote_torn(const struct sl_remote *remote);
/* After `failed`: the step under way is complete on this side and COMMIT was sent, but its answer is lost. If
 * sl_remote_apply applies it here, the client may be a step ahead of the server. */
bool sl_remote_in_doubt(const struct sl_remote *remote);
enum sl_err sl_remote_apply(struct sl_remote *remote, struct sl_fail *fail) SL_MUST_CHECK;
/* The result of the step or evaluation batch that is done; after `failed`, of the step under way. */
struct sl_step_result sl_remote_result(const struct sl_remote *remote);
/* After `fetched`: the whole model as it stands, all three segments. NONFINITE, with *weights untouched: what the
 * server sent holds NaN or Inf. */
enum sl_err sl_remote_get_weights(struct sl_remote *remote, struct sl_weights *weights,
				  struct sl_fail *fail) SL_MUST_CHECK;

/* The link, for calls that need no head or tail: fetching, skipping a step, naming checkpoints, the session's state,
 * pausing. The remote owns it; do not close it. */
struct sl_link *sl_remote_link(const struct sl_remote *remote);
const char *sl_remote_record(const struct sl_remote *remote); /* sl_port_record */
static inline const struct sl_session *sl_remote_session(const struct sl_remote *remote)
{
	return sl_link_session(sl_remote_link(remote));
}
/* Whether the server has said that its side of the state after `step` steps is on its disk. */
bool sl_remote_kept_there(const struct sl_remote *remote, uint64_t step);
struct sl_port_stats sl_remote_stats(const struct sl_remote *remote);
/* Says goodbye if the session is still up. Once no task runs any more, frees everything, and calls `closed` from the
 * loop. */
void sl_remote_close(struct sl_remote *remote);

#endif
