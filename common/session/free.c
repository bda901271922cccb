/* Free steps (session.h): chunks that are not known beforehand, gradients in any order, and the norm of those so
 * far. */
#include <inttypes.h>

#include "common/session/table.h"

/* On a server, the first part of a chunk's head_act creates the chunk. */
enum sl_err sl_free_act(struct sl_session *s, const struct sl_part *p, struct sl_outbox *out)
{
	const bool begins = s->role == SL_SESSION_SERVER && !s->lane[p->what].received;

	if (p->chunk != (uint32_t)s->lane[p->what].chunk || p->chunk >= (uint32_t)s->limits.chunks ||
	    (begins ? p->rows < 1 || p->rows > s->limits.rows || s->committed : p->rows != s->rows_of[p->chunk]))
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "part of chunk %u with %u rows in step %" PRIu64 ", where chunk %d is next",
				   p->chunk, p->rows, s->number, s->lane[p->what].chunk);
	if (!begins)
		return SL_OK;
	s->rows_of[p->chunk] = p->rows;
	s->batch_rows += p->rows;
	s->chunks = (int)p->chunk + 1;
	return SL_OK;
}

/* Gradients come in any order of chunks, but one complete run after the other. */
enum sl_err sl_free_grad(struct sl_session *s, const struct sl_part *p, struct sl_outbox *out)
{
	const bool client = s->role == SL_SESSION_CLIENT, begins = !s->lane[p->what].received;

	if (p->chunk >= (uint32_t)s->chunks || p->rows != s->rows_of[p->chunk] || s->back[p->chunk] == SL_BACK_CAME ||
	    (!begins && p->chunk != (uint32_t)s->lane[p->what].chunk) ||
	    (!client && begins && s->committed && s->backs == s->committed))
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "a gradient of chunk %u with %u rows in step %" PRIu64 ", where none is to come",
				   p->chunk, p->rows, s->number);
	s->lane[p->what].chunk = (int)p->chunk;
	s->backs += !client && begins;
	return SL_OK;
}

/* ---- the client's ---- */

/* Adds the chunks of a call to the step. */
enum sl_err sl_free_call(struct sl_session *s, const struct sl_event *ev, struct sl_outbox *out)
{
	const int first = s->chunks;
	uint64_t at = 0;

	for (; at < ev->batch_rows && s->chunks < s->limits.chunks; s->chunks++) {
		const uint64_t left = ev->batch_rows - at, rows = left < s->limits.rows ? left : s->limits.rows;

		s->rows_of[s->chunks] = (uint32_t)rows;
		s->tokens[s->chunks] = ev->begin ? ev->begin[at + rows] - ev->begin[at] : 0;
		at += rows;
		sl_outbox_task(out, SL_TASK_HEAD_FWD, s->chunks);
		if (!sl_session_tokens_fit(s, s->chunks, s->tokens[s->chunks]))
			return sl_fail_set(&out->fail, SL_ERR_BUG, "chunk %d has %u tokens, planned for %" PRIu64,
					   s->chunks, s->tokens[s->chunks], s->limits.chunk_tokens);
	}
	s->batch_rows += at;
	if (!at || at < ev->batch_rows || ev->chunk != first)
		return sl_fail_set(&out->fail, SL_ERR_BUG, "a call of %" PRIu64 " rows from chunk %d on of %d",
				   ev->batch_rows, ev->chunk, s->limits.chunks);
	return SL_OK;
}

enum sl_err sl_on_grads(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	const int end = ev->chunk + ev->chunks;

	if (!s->limits.free_calls || s->grad_scale >= 0 || end > s->done[SL_TASK_TAIL])
		return sl_fail_set(&out->fail, SL_ERR_BUG, "gradients of step %" PRIu64 " before its activations",
				   s->number);
	for (int chunk = ev->chunk; chunk < end; chunk++) {
		if (s->back[chunk])
			return sl_fail_set(&out->fail, SL_ERR_BUG, "a second gradient of chunk %d", chunk);
		s->back[chunk] = SL_BACK_GIVEN;
		s->backs++;
		sl_outbox_task(out, SL_TASK_GRAD, chunk);
	}
	return SL_OK;
}

enum sl_err sl_on_more(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	if (!s->limits.free_calls || s->grad_scale >= 0)
		return sl_fail_set(&out->fail, SL_ERR_BUG, "a call behind the end of step %" PRIu64, s->number);
	return sl_free_call(s, ev, out);
}

enum sl_err sl_on_ask_norm(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	if (!s->limits.free_calls || !s->backs || s->squares[1] < 0)
		return sl_fail_set(&out->fail, SL_ERR_BUG, "the norm of step %" PRIu64 ", which has none", s->number);
	s->squares[1] = -1;
	sl_outbox_frame(s, out, SL_FRAME_NORM)->u.norm = (struct sl_wire_norm){s->number, s->backs};
	return SL_OK;
}

/* ---- the server's ---- */

void sl_free_norm(struct sl_session *s, struct sl_outbox *out)
{
	if (s->norm_of < 1 || s->done[SL_TASK_MID_BWD] < s->norm_of)
		return;
	s->norm_of = -1;
	sl_outbox_task(out, SL_TASK_NORM, 0);
}

/* The client asks for the norm, maybe before the last of the gradients has arrived. */
enum sl_err sl_on_norm_asked(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	const struct sl_wire_norm *n = &ev->frame->u.norm;

	if (sl_session_sums(s))
		return sl_on_squares(s, ev, now_ms, out);
	if (n->step != s->number || s->norm_of || s->committed ||
	    !(n->squares >= 1 && n->squares <= s->chunks && n->squares == (int)n->squares))
		return sl_fail_set(&out->fail, SL_ERR_PROTOCOL,
				   "Norm frame of step %" PRIu64 " with %g in state %s of step %" PRIu64, n->step,
				   n->squares, sl_session_state_name(s->state), s->number);
	s->norm_of = (int)n->squares;
	sl_free_norm(s, out);
	return SL_OK;
}

/* The frame was on its way when the step was abandoned. */
enum sl_err sl_on_stale_ask(struct sl_session *s, const struct sl_event *ev, uint64_t now_ms, struct sl_outbox *out)
{
	return ev->frame->u.norm.step == s->number
		       ? SL_OK
		       : sl_fail_set(&out->fail, SL_ERR_PROTOCOL, "Norm frame of step %" PRIu64 " in state %s",
				     ev->frame->u.norm.step, sl_session_state_name(s->state));
}
