/* The specification of a run over the link: state × event → actions, in this order, → next state.
 *
 * Invariants:
 * - A run that ends before its last step saves its state before it writes the model. If it cannot, it writes the
 *   summary first. A finished run writes its last checkpoint, then its model, then removes its checkpoints. So a model
 *   without checkpoints means "finished", unless the log ends with the summary of a stopped run.
 * - The link of a run that failed is paused before it is closed. A goodbye would make the server delete what the run
 *   can go on from.
 * - The client copies its state out of a link before it closes the link, which frees the tensors. */
#include "client/train/drive_parts.h"

/* clang-format off */
#define TO(state, ...) {{__VA_ARGS__}, DRIVE_##state, true}

/* A link that is being opened, or is up, can fail. */
#define FAILS                                                            \
	[EV_LOST]  = TO(DROP,  sl_act_hold_state, sl_act_close_link),    \
	[EV_OVER]  = TO(QUIT,  sl_act_keep_certain, sl_act_close_link),  \
	[EV_FAULT] = TO(QUIT,  sl_act_close_link),                       \
	[EV_LEAVE] = TO(LEAVE, sl_act_leave)

/* A link that is up can also be stopped in good order. */
#define STANDS                                                           \
	FAILS,                                                           \
	[EV_SIGNAL]  = TO(STAY, sl_act_arm_drain, sl_act_end_early),     \
	[EV_DRAIN]   = TO(STAY, sl_act_pause_link, sl_act_look_idle),    \
	[EV_DRAINED] = TO(QUIT, sl_act_end_drained, sl_act_keep_last, sl_act_blame_nonfinite, sl_act_close_link)

/* While no link is up, a batch that arrives is held; one from another position is dropped, and the loaders seek. */
#define APART                                                            \
	[EV_BATCH] = TO(STAY),                                           \
	[EV_STALE] = TO(STAY, sl_act_release, sl_act_seek)

const struct drive_rule sl_drive_table[DRIVE_STATE_COUNT][DRIVE_EVENT_COUNT] = {
	[DRIVE_LINK] = {
		FAILS, APART,
		[EV_SAME]      = TO(RESUME, sl_act_note_link, sl_act_join),
		[EV_AHEAD]     = TO(RESUME, sl_act_note_link, sl_act_note_ahead, sl_act_keep_ahead, sl_act_release,
					    sl_act_join),
		[EV_BACK]      = TO(RESUME, sl_act_note_link, sl_act_release, sl_act_go_back, sl_act_join),
		[EV_BAD_FILE]  = TO(DROP,   sl_act_pause_link, sl_act_close_link),
		[EV_SIGNAL]    = TO(QUIT,   sl_act_arm_drain, sl_act_give_up, sl_act_close_link),
	},
	[DRIVE_FEED] = {
		STANDS,
		[EV_BATCH]     = TO(PASS,   sl_act_begin),
		[EV_STALE]     = TO(NEXT,   sl_act_release, sl_act_seek),
		[EV_UNWANTED]  = TO(NEXT,   sl_act_release),
	},
	[DRIVE_PASS] = {
		STANDS,
		[EV_DONE]      = TO(NEXT,   sl_act_book, sl_act_keep_if_due),
		[EV_SKIP]      = TO(STAY,   sl_act_skip),
		[EV_NONFINITE] = TO(FETCH,  sl_act_release, sl_act_fetch),
	},
	[DRIVE_COPY] = {
		STANDS,
		[EV_FETCHED]   = TO(WRITE,  sl_act_publish),
		[EV_STOPPED]   = TO(WRITE,  sl_act_publish),
		[EV_WRITTEN]   = TO(NEXT), /* from sl_act_publish itself: no file is to be written, or can be */
	},
	[DRIVE_WRITE] = {
		STANDS,
		[EV_WRITTEN]   = TO(NEXT),
	},
	[DRIVE_FETCH] = {
		STANDS,
		[EV_FETCHED]   = TO(QUIT,   sl_act_settle, sl_act_save, sl_act_tell_saved, sl_act_end_phase,
					    sl_act_summarize, sl_act_forget, sl_act_close_link),
		[EV_UNSAVED]   = TO(QUIT,   sl_act_keep_last, sl_act_close_link),
		[EV_STOPPED]   = TO(QUIT,   sl_act_keep_last, sl_act_save_anyway, sl_act_blame_nonfinite, sl_act_close_link),
	},
	[DRIVE_DROP] = {
		APART,
		[EV_CLOSED]    = TO(WAIT,   sl_act_back_off),
		[EV_SIGNAL]    = TO(QUIT,   sl_act_arm_drain, sl_act_give_up),
		[EV_FAULT]     = TO(QUIT),
		[EV_LEAVE]     = TO(LEAVE,  sl_act_leave),
	},
	[DRIVE_WAIT] = {
		APART,
		[EV_RETRY]     = TO(LINK,   sl_act_open_link),
		[EV_SIGNAL]    = TO(END,    sl_act_arm_drain, sl_act_give_up, sl_act_stop_loop),
		[EV_FAULT]     = TO(END,    sl_act_stop_loop),
		[EV_LEAVE]     = TO(LEAVE,  sl_act_leave),
	},
	[DRIVE_QUIT] = {
		[EV_BATCH]     = TO(STAY,   sl_act_release),
		[EV_STALE]     = TO(STAY,   sl_act_release),
		[EV_UNWANTED]  = TO(STAY,   sl_act_release),
		[EV_SIGNAL]    = TO(STAY,   sl_act_arm_drain), /* the outcome does not change any more */
		[EV_DRAIN]     = TO(STAY,   sl_act_look_again),
		[EV_CLOSED]    = TO(END,    sl_act_stop_loop),
		[EV_LEAVE]     = TO(LEAVE,  sl_act_leave),
	},
	[DRIVE_END] = {
		[EV_LEAVE]     = TO(LEAVE,  sl_act_leave),
	},
};
/* clang-format on */
