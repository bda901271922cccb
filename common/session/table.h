/* Internal to the session room: the shape of its tables, and the handlers that both roles share. */
#ifndef SL_SESSION_TABLE_H
#define SL_SESSION_TABLE_H

#include "common/session/session.h"

typedef enum sl_err sl_session_fn(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms,
				  struct sl_outbox *out);

/* No handler: the event is a protocol violation in this state; an event of the driver would be a bug. */
struct sl_session_rule {
	sl_session_fn *fn;
};

extern const struct sl_session_rule sl_client_table[SL_SESSION_STATE_COUNT][SL_EV_COUNT];
extern const struct sl_session_rule sl_server_table[SL_SESSION_STATE_COUNT][SL_EV_COUNT];

/* These append to the outbox; sl_outbox_frame also adds the SEND action. */
struct sl_action *sl_outbox_add(struct sl_outbox *out, enum sl_action_kind kind);
void sl_outbox_task(struct sl_outbox *out, enum sl_task task, int chunk);
void sl_outbox_post(struct sl_outbox *out, enum sl_part_what what, int chunk);
struct sl_frame *sl_outbox_frame(struct sl_session *s, struct sl_outbox *out, enum sl_frame_kind kind);

/* The largest learning rate that may be applied. */
#define SL_SESSION_LR_MOST 999999.0

/* Checks that each field of a frame means something in this session, and that doubles are in range: PROTOCOL. */
enum sl_err sl_fields_check(const struct sl_session *s, const struct sl_frame *f, struct sl_fail *fail) SL_MUST_CHECK;

/* Resets all state of a pass. */
void sl_pass_begin(struct sl_session *s, bool training, uint64_t number, uint64_t batch_rows);
/* Whether COMMIT must wait for NORM: gradients are clipped, and mid_grad crosses. */
bool sl_session_awaits_norm(const struct sl_session *s);
/* Whether that NORM has the squares of all parties of a vertical group, after each has sent its own. */
static inline bool sl_session_sums(const struct sl_session *s)
{
	return s->limits.party && sl_session_awaits_norm(s);
}
/* Whether a chunk of the pass may have so many tokens. */
bool sl_session_tokens_fit(const struct sl_session *s, int chunk, uint64_t tokens);
/* Whether a pass's first part may say so many `answers`, tokens with a loss. */
bool sl_session_answers_fit(const struct sl_session *s, const struct sl_part *p);
/* Checks a part against the pass and its lane, counts it, and adds STORE and CREDIT. *whole: it completes its run. */
enum sl_err sl_pass_part(struct sl_session *s, const struct sl_frame *frame, struct sl_outbox *out, bool *whole);

/* Whether end_grad and end_mean cross in the step under way; and whether end_grad does even if the step is skipped. */
bool sl_session_ends_cross(const struct sl_session *s);
bool sl_session_skip_tells(const struct sl_session *s);

/* Drops a part of an abandoned pass, but returns its credit. */
enum sl_err sl_pass_drop(struct sl_session *s, const struct sl_frame *frame, struct sl_outbox *out);

/* Abandoning (abandon.c). */
void sl_abandon_begin(struct sl_session *s, struct sl_outbox *out, const char *why, bool tell_peer);
enum sl_err sl_abandon_check(const struct sl_session *s, const struct sl_frame *frame, uint64_t step,
			     struct sl_outbox *out);
/* party.c */
sl_session_fn sl_on_chunk, sl_on_echo, sl_on_squares, sl_on_sum;
sl_session_fn sl_on_nonfinite, sl_on_abandon, sl_on_abandon_again, sl_on_stale_part, sl_on_task_ignored;

/* Free steps (free.c). _act and _grad check a part of an activation or gradient. _call adds the chunks of a call. _norm
 * begins the task NORM once all gradients that it shall include are added. Then the client's handlers, and two of the
 * server. */
enum sl_err sl_free_act(struct sl_session *s, const struct sl_part *p, struct sl_outbox *out);
enum sl_err sl_free_grad(struct sl_session *s, const struct sl_part *p, struct sl_outbox *out);
enum sl_err sl_free_call(struct sl_session *s, const struct sl_event *ev, struct sl_outbox *out);
void sl_free_norm(struct sl_session *s, struct sl_outbox *out);
sl_session_fn sl_on_more, sl_on_grads, sl_on_ask_norm, sl_on_norm_asked, sl_on_stale_ask;

/* Head and tail as a whole (ends.c). The client receives them, is asked for its own, has encoded them. The server
 * asks for them, receives them. */
sl_session_fn sl_on_ends, sl_on_ends_asked, sl_on_ends_made, sl_on_ask_ends, sl_on_ends_given;
/* The record of who took part in a group's steps: the server tells it, the client hears it. */
sl_session_fn sl_on_tell, sl_on_record;
/* Reports of a member's figures, and of why they are not taken. */
sl_session_fn sl_on_say, sl_on_report;
#define SL_REPORTS [SL_EV_REPORT] = {sl_on_report}, [SL_EV_SAY] = {sl_on_say}

/* Handlers of both roles. */
sl_session_fn sl_on_credit, sl_on_heartbeat, sl_on_tick, sl_on_refuse;

/* session_check.c: assertions before and after each event. */
struct sl_session_mark {
	enum sl_session_state state;
	uint64_t epoch, next_step;
};
void sl_session_check(const struct sl_session *s);
void sl_session_check_change(const struct sl_session *s, const struct sl_session_mark *before);
void sl_outbox_check(const struct sl_session *s, const struct sl_outbox *out);

/* Sends heartbeats, but does not expect to hear from the peer. */
sl_session_fn sl_on_tick_patiently;

#endif
