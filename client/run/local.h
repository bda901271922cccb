/* `--local`: head, middle and tail in one process through the same executor, chunk by chunk, without a link. The
 * oracle of the distributed run: with the same codecs and chunks it gives the same bits, loss and weights. */
#ifndef SL_CLIENT_RUN_LOCAL_H
#define SL_CLIENT_RUN_LOCAL_H

#include "client/persist/client_state.h"
#include "client/run/ends.h"
#include "client/run/step.h"
#include "common/session/agree.h"
#include "common/session/state.h"

struct sl_local;

/* `plan`, `trunk` and `be` are borrowed. `trunk`: of a member of a group, whose middle computes with the parameters of
 * this one and is not stepped here (local_group.c); NULL: it has its own. */
enum sl_err sl_local_open(struct sl_local **out, const struct sl_plan *plan, const struct sl_agreement *agreement,
			  const struct sl_exec *trunk, struct sl_backend *be, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_local_use(struct sl_local *local, const struct sl_ends_use *use,
			 struct sl_fail *fail) SL_MUST_CHECK; /* sl_ends_use */
/* A member's step, in place of sl_local_step: begin computes, and changes nothing; then end applies what is this
 * member's own, or leaves it out. */
enum sl_err sl_local_begin(struct sl_local *local, const struct sl_feed *feed, uint64_t number,
			   struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_local_end(struct sl_local *local, double lr, bool in, struct sl_step_result *result,
			 struct sl_fail *fail) SL_MUST_CHECK;
/* The step is another member's. */
enum sl_err sl_local_pass(struct sl_local *local, uint64_t number, double lr, struct sl_step_result *result,
			  struct sl_fail *fail) SL_MUST_CHECK;
/* Where the group shares its ends: what begin has told the trunk, as that decodes it; and for `end`, in or not, the
 * mean of what all who are in have told. No bytes: nobody was in. */
const struct sl_end_layout *sl_local_end_layout(const struct sl_local *local);
/* The head and tail of another member, for one that comes back. */
enum sl_err sl_local_copy_ends(struct sl_local *local, const struct sl_local *from) SL_MUST_CHECK;
const float *sl_local_told(const struct sl_local *local);
void sl_local_hear(struct sl_local *local, struct sl_bytes mean);
/* Where they are averaged, between begin and end of a round's last step, or before its pass: the member tells of the
 * round, in which it has a part of this step, or has none. */
enum sl_err sl_local_tell_round(struct sl_local *local, uint64_t number, bool with_step, double lr,
				struct sl_fail *fail) SL_MUST_CHECK;
/* Its middle, and rows of each chunk of the batch under way, for the fold. */
struct sl_exec *sl_local_middle(struct sl_local *local);
int sl_local_rows(const struct sl_local *local, int64_t rows[SL_PLAN_MAX_CHUNKS]);
void sl_local_close(struct sl_local *local); /* NULL is fine */
enum sl_err sl_local_set_weights(struct sl_local *local, const struct sl_weights *weights) SL_MUST_CHECK;
enum sl_err sl_local_get_weights(struct sl_local *local, struct sl_weights *weights) SL_MUST_CHECK;

/* What steps change, for another plan with the same parameters to go on from: filled by take, `done` steps being done.
 * Codecs have no part in it. */
struct sl_local_state {
	struct sl_exec_state part[SL_SEGMENT_COUNT];
};
enum sl_err sl_local_take(struct sl_local *local, struct sl_local_state *state) SL_MUST_CHECK;
enum sl_err sl_local_give(struct sl_local *local, const struct sl_local_state *state, uint64_t done,
			  struct sl_fail *fail) SL_MUST_CHECK;
void sl_local_state_close(struct sl_local_state *state); /* idempotent; a zeroed one is fine */

/* Both sides as a link has them: the client's, and the middle's as a Fetch carries it (session/state.h). */
enum sl_err sl_local_give_all(struct sl_local *local, const struct sl_client_state *client,
			      const struct sl_carried *layout, const float *weights,
			      const uint8_t *carried) SL_MUST_CHECK;
enum sl_err sl_local_take_middle(struct sl_local *local, const struct sl_carried *layout, float *weights,
				 uint8_t *carried) SL_MUST_CHECK;
/* From here on `crossed` is told of every tensor that crosses, decoded. NULL: nobody is. */
typedef void sl_local_crossed(void *arg, enum sl_dir dir, int chunk, const struct sl_tensor *x);
void sl_local_listen(struct sl_local *local, sl_local_crossed *crossed, void *arg);

/* `number`: the step, or that of the evaluation
 * batch. tx_bytes and rx_bytes count payloads that a link would have carried. NONFINITE in training: nothing of the
 * step was applied, and *result is that of a skipped one; sl_local_follow to the next where it is to count as done. */
enum sl_err sl_local_step(struct sl_local *local, const struct sl_feed *feed, uint64_t number, double lr,
			  struct sl_step_result *result, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_local_eval(struct sl_local *local, const struct sl_feed *feed, uint64_t number,
			  struct sl_step_result *result, struct sl_fail *fail) SL_MUST_CHECK;
/* `done` steps are, skipped ones included: decaying inserts and codecs are what follows (sl_exec_follow,
 * sl_port_follow). */
enum sl_err sl_local_follow(struct sl_local *local, uint64_t done, struct sl_fail *fail) SL_MUST_CHECK;
/* Since it was opened, by tensor: bytes of the payloads, and what their methods' authors would count. */
void sl_local_payload(const struct sl_local *local, uint64_t payload[SL_CROSS_COUNT], double nominal[SL_CROSS_COUNT]);

#endif
