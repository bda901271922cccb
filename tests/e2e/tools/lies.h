/* Every field of the messages that a server sends, each with another value that it could say. The names are those of
 * proto/split.proto; lying_server.sh checks that none is missing. */
#ifndef SL_TESTS_E2E_TOOLS_LIES_H
#define SL_TESTS_E2E_TOOLS_LIES_H

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/link/wire.h"

enum lie_type { LIE_U32, LIE_U64, LIE_FLAG, LIE_REAL, LIE_HUGE, LIE_BYTES, LIE_TEXT, LIE_PAYLOAD };

/* A part's payload is a lie of its own for each of its contents; `what` below 0: of any, or no part. */
struct lie {
	const char *name;
	enum sl_frame_kind kind;
	enum lie_type type;
	size_t at; /* in struct sl_frame */
	int what;
	bool training;
};

#define LIE(name, KIND, TYPE, member)                                                             \
	{                                                                                         \
		name, SL_FRAME_##KIND, LIE_##TYPE, offsetof(struct sl_frame, u.member), -1, false \
	}
#define LIE_IN(name, WHAT, training)                                                     \
	{                                                                                \
		"payload." name, SL_FRAME_PART, LIE_PAYLOAD, 0, SL_PART_##WHAT, training \
	}

static const struct lie lies[] = {
	LIE("Welcome.version", WELCOME, U32, welcome.version),
	LIE("Welcome.plan_hash", WELCOME, BYTES, welcome.plan_hash),
	LIE("Welcome.part_bytes", WELCOME, U32, welcome.part_bytes),
	LIE("Welcome.window_bytes", WELCOME, U64, welcome.window_bytes),
	LIE("Welcome.next_step", WELCOME, U64, welcome.next_step),
	LIE("Welcome.need_weights", WELCOME, FLAG, welcome.need_weights),
	LIE("Welcome.software", WELCOME, TEXT, welcome.software),
	LIE("Welcome.device", WELCOME, TEXT, welcome.device),
	LIE("Welcome.made", WELCOME, U64, welcome.made),
	LIE("Welcome.branch", WELCOME, U64, welcome.branch),
	LIE("Welcome.begin", WELCOME, U64, welcome.begin),
	LIE("Welcome.common", WELCOME, FLAG, welcome.common),
	LIE("Welcome.ends", WELCOME, FLAG, welcome.ends),
	LIE("Refuse.code", REFUSE, U32, refuse.code),
	LIE("Refuse.text", REFUSE, TEXT, refuse.text),
	LIE("Refuse.key", REFUSE, TEXT, refuse.key),
	LIE("Part.what", PART, U32, part.what),
	LIE("Part.training", PART, FLAG, part.training),
	LIE("Part.step", PART, U64, part.step),
	LIE("Part.chunk", PART, U32, part.chunk),
	LIE("Part.rows", PART, U32, part.rows),
	LIE("Part.batch_rows", PART, U32, part.batch_rows),
	LIE("Part.total", PART, U64, part.total),
	LIE("Part.offset", PART, U64, part.offset),
	LIE("Part.xxh3", PART, U64, part.xxh3),
	LIE("Part.tokens", PART, U32, part.tokens),
	LIE("Part.answers", PART, U32, part.answers),
	LIE_IN("mid_act", MID_ACT, true),
	LIE_IN("evaluation", MID_ACT, false),
	LIE_IN("head_grad", HEAD_GRAD, true),
	LIE_IN("weights", WEIGHTS, false),
	LIE_IN("ends", ENDS, false),
	LIE("Credit.bytes", CREDIT, U64, credit.bytes),
	LIE("Norm.step", NORM, U64, norm.step),
	LIE("Norm.squares", NORM, REAL, norm.squares),
	LIE("huge.squares", NORM, HUGE, norm.squares),
	LIE("Committed.step", COMMITTED, U64, committed.step),
	LIE("Committed.compute_s", COMMITTED, REAL, committed.compute_s),
	LIE("Committed.checkpointed", COMMITTED, FLAG, committed.checkpointed),
	LIE("Committed.mean", COMMITTED, FLAG, committed.mean),
	LIE("Committed.lr", COMMITTED, REAL, committed.lr),
	LIE("Fetch.whole", FETCH, FLAG, fetch.whole),
	LIE("Heartbeat.sent_ms", HEARTBEAT, U64, heartbeat.sent_ms),
	LIE("Heartbeat.echo_ms", HEARTBEAT, U64, heartbeat.echo_ms),
	LIE("Abandon.step", ABANDON, U64, abandon.step),
	LIE("Abandon.text", ABANDON, TEXT, abandon.text),
	LIE("Abandon.late", ABANDON, FLAG, abandon.late),
	LIE("Challenge.nonce", CHALLENGE, BYTES, challenge.nonce),
	LIE("Challenge.above", CHALLENGE, U64, challenge.above),
	LIE("Frame.epoch", COUNT, U64, part), /* of any message */
};

enum { LIES = sizeof lies / sizeof lies[0] };

static inline int lie_named(const char *name)
{
	for (int i = 0; i < LIES; i++)
		if (strcmp(lies[i].name, name) == 0)
			return i;
	return -1;
}

static inline bool lie_is_about(const struct lie *l, const struct sl_frame *f)
{
	if (l->kind == SL_FRAME_COUNT)
		return true;
	return l->kind == f->kind &&
	       (l->what < 0 || (f->u.part.what == (uint32_t)l->what && f->u.part.training == l->training));
}

/* The server has no reason to say some messages in an honest run: such a lie is said after one that is about the run.
 */
static inline bool lie_is_unasked(const struct lie *l)
{
	return l->kind == SL_FRAME_REFUSE || l->kind == SL_FRAME_ABANDON || l->kind == SL_FRAME_FETCH ||
	       l->kind == SL_FRAME_HEARTBEAT;
}

/* -x of the last number, which is in range wherever x is. */
static inline void lie_in_payload(struct sl_frame *f)
{
	uint8_t *last = (uint8_t *)(uintptr_t)f->payload.data + f->payload.len - sizeof(float);
	float x;

	memcpy(&x, last, sizeof x);
	x = x != 0 ? -x : 0.5F;
	memcpy(last, &x, sizeof x);
	f->u.part.xxh3 = sl_wire_hash(f->payload);
}

static inline void lie_bend(const struct lie *l, struct sl_frame *f)
{
	uint8_t *at = (uint8_t *)f + l->at;

	if (l->kind == SL_FRAME_COUNT)
		f->epoch++;
	else if (l->type == LIE_PAYLOAD)
		lie_in_payload(f);
	else if (l->type == LIE_U32)
		++*(uint32_t *)(void *)at;
	else if (l->type == LIE_U64)
		++*(uint64_t *)(void *)at;
	else if (l->type == LIE_FLAG)
		*(bool *)(void *)at ^= true;
	else if (l->type == LIE_REAL)
		*(double *)(void *)at = *(double *)(void *)at * 1.5 + 0.25;
	else if (l->type == LIE_HUGE)
		*(double *)(void *)at = 1e80;
	else if (l->type == LIE_TEXT)
		at[0] = at[0] == 'x' ? 'y' : 'x';
	else
		at[0] ^= 1;
	if (l->kind == SL_FRAME_COMMITTED && l->at == offsetof(struct sl_frame, u.committed.lr))
		f->u.committed.other_lr = true;
}

/* A message that answers nothing, with the fields that it would have, and one of them changed. */
static inline void lie_make_up(const struct lie *l, struct sl_frame *f, uint64_t step)
{
	*f = (struct sl_frame){.kind = l->kind, .epoch = f->epoch};
	if (l->kind == SL_FRAME_ABANDON) {
		f->u.abandon.step = step;
		snprintf(f->u.abandon.text, sizeof f->u.abandon.text, "mid_act of chunk 0 has NaN");
	}
	if (l->kind == SL_FRAME_REFUSE) {
		f->u.refuse.code = SL_ERR_MISMATCH;
		snprintf(f->u.refuse.text, sizeof f->u.refuse.text, "no");
	}
	/* an honest step or code is a lie here already */
	if (l->type == LIE_FLAG || l->type == LIE_TEXT || l->kind == SL_FRAME_HEARTBEAT)
		lie_bend(l, f);
}

#endif
