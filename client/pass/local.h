/* `--local`: head, middle and tail in one process through the same executor, chunk by chunk, without a link. The
 * oracle of the distributed run: with the same codecs and chunks it gives the same bits, loss and weights. */
#ifndef SL_CLIENT_PASS_LOCAL_H
#define SL_CLIENT_PASS_LOCAL_H

#include "client/persist/client_state.h"
#include "client/step/ends.h"
#include "client/step/step.h"
#include "common/session/agree.h"
#include "common/session/state.h"

struct sl_local;

/* `plan`, `trunk` and `be` are borrowed. `trunk`: for a member of a group, whose middle uses the trunk's parameters and
 * is not stepped here (local_group.c); NULL: the middle has its own. */
enum sl_err sl_local_open(struct sl_local **out, const struct sl_plan *plan, const struct sl_agreement *agreement,
			  const struct sl_exec *trunk, struct sl_backend *be, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_local_use(struct sl_local *local, const struct sl_ends_use *use,
			 struct sl_fail *fail) SL_MUST_CHECK; /* sl_ends_use */
/* A member's step, in place of sl_local_step. _begin computes gradients, and applies nothing. Then _end applies what is
 * this member's own (`in`), or rolls it back. */
enum sl_err sl_local_begin(struct sl_local *local, const struct sl_feed *feed, uint64_t number,
			   struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_local_end(struct sl_local *local, double lr, bool in, struct sl_step_result *result,
			 struct sl_fail *fail) SL_MUST_CHECK;
/* For a step that is another member's. */
enum sl_err sl_local_pass(struct sl_local *local, uint64_t number, double lr, struct sl_step_result *result,
			  struct sl_fail *fail) SL_MUST_CHECK;
/* For a group that shares its ends. _told: the change that this member has sent, as the trunk decodes it. _hear: the
 * encoded mean over all members in the step, which _end and _pass apply; no bytes: nobody was in it. */
const struct sl_end_layout *sl_local_end_layout(const struct sl_local *local);
struct sl_local_state;
/* For a member that comes back. copy_ends: it gets the head and tail of a member that was there, maybe itself.
 * give_ends: its own of `state`, from sl_local_take. forget_codecs: what these keep between steps. */
enum sl_err sl_local_copy_ends(struct sl_local *local, const struct sl_local *from) SL_MUST_CHECK;
enum sl_err sl_local_give_ends(struct sl_local *local, const struct sl_local_state *state) SL_MUST_CHECK;
void sl_local_forget_codecs(struct sl_local *local);
float *sl_local_told(const struct sl_local *local);
void sl_local_hear(struct sl_local *local, struct sl_bytes mean);
/* For ends that are averaged, at a round's last step: the member sends its change of the round, between _begin and _end
 * or before _pass. with_step: the change includes this member's part of the step. */
enum sl_err sl_local_tell_round(struct sl_local *local, uint64_t number, bool with_step, double lr,
				struct sl_fail *fail) SL_MUST_CHECK;
/* For the fold: the member's middle; and the rows of each chunk of its batch. Returns how many chunks it has. */
struct sl_exec *sl_local_middle(struct sl_local *local);
int sl_local_rows(const struct sl_local *local, int64_t rows[SL_PLAN_MAX_CHUNKS]);
void sl_local_close(struct sl_local *local); /* NULL is fine */
enum sl_err sl_local_set_weights(struct sl_local *local, const struct sl_weights *weights,
				 struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_local_get_weights(struct sl_local *local, struct sl_weights *weights) SL_MUST_CHECK;

/* The state that steps change, without that of codecs. Another plan with the same parameters can go on from it. _take
 * fills it; _give sets it after `done` steps. */
struct sl_local_state {
	struct sl_exec_state part[SL_SEGMENT_COUNT];
	struct sl_batch_weights weights;
};
enum sl_err sl_local_take(struct sl_local *local, struct sl_local_state *state) SL_MUST_CHECK;
enum sl_err sl_local_give(struct sl_local *local, const struct sl_local_state *state, uint64_t done,
			  struct sl_fail *fail) SL_MUST_CHECK;
void sl_local_state_close(struct sl_local_state *state); /* idempotent; a zeroed one is fine */

/* Sets the state of both sides as a link has it: the client's, and the middle's as a Fetch carries it
 * (session/state.h). _take_middle gets the latter. */
enum sl_err sl_local_give_all(struct sl_local *local, const struct sl_client_state *client,
			      const struct sl_carried *layout, const float *weights,
			      const uint8_t *carried) SL_MUST_CHECK;
enum sl_err sl_local_take_middle(struct sl_local *local, const struct sl_carried *layout, float *weights,
				 uint8_t *carried) SL_MUST_CHECK;
/* The middle's sum of squares in the last step of a run that clips, as a client has it from its server. */
double sl_local_middle_squares(const struct sl_local *local);
/* From here on calls `crossed` for every tensor that crosses, as decoded. NULL: calls nothing. */
typedef void sl_local_crossed(void *arg, enum sl_dir dir, int chunk, const struct sl_tensor *x);
void sl_local_listen(struct sl_local *local, sl_local_crossed *crossed, void *arg);

/* `number`: of the step, or of the evaluation's batch. tx_bytes and rx_bytes count payloads that a link would have
 * carried. NONFINITE in training: nothing of the step was applied, and *result is that of a skipped step. If the step
 * is to count as done, call sl_local_set_done. */
enum sl_err sl_local_step(struct sl_local *local, const struct sl_feed *feed, uint64_t number, double lr,
			  struct sl_step_result *result, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_local_eval(struct sl_local *local, const struct sl_feed *feed, uint64_t number,
			  struct sl_step_result *result, struct sl_fail *fail) SL_MUST_CHECK;
/* `done` steps are done, skipped ones included: adapts decaying inserts, and the codecs of what they narrow
 * (sl_exec_set_done, sl_port_set_done). */
enum sl_err sl_local_set_done(struct sl_local *local, uint64_t done, struct sl_fail *fail) SL_MUST_CHECK;
/* Totals since it was opened, by tensor: bytes of payloads, and bytes as their methods' authors count them. */
void sl_local_payload(const struct sl_local *local, uint64_t payload[SL_CROSS_COUNT], double nominal[SL_CROSS_COUNT]);

#endif
