/* In which sessions a field means something. The receiver ends the session over a field that means nothing there, and
 * over a double out of its range. client_table.c and server_table.c say which frames are legal in which state. This
 * table adds what their fields need: something in the agreement, or something that was asked for. */
#include <stddef.h>

#include "common/session/table.h"

enum { TO_CLIENT = 1 << SL_SESSION_CLIENT, TO_SERVER = 1 << SL_SESSION_SERVER, EITHER = TO_CLIENT | TO_SERVER };

/* What a session, or the frame itself, may have. */
enum {
	NEVER = 0,
	ALWAYS = 1,
	GROUP = 2,        /* it is a member's */
	GIVES_ENDS = 4,   /* members share heads and tails, and steps may be done without one */
	CLIPS = 8,        /* Commit waits for Norm */
	FREE = 16,        /* steps are free */
	TOKENS = 32,      /* rows have tokens, */
	ANSWERS = 64,     /* and those with a loss are counted */
	SCALES = 128,     /* the Commit applies a step whose gradients have a factor */
	KEEP_ASKED = 256, /* the step's Commit has asked for a checkpoint */
	KEEPS = 512,      /* the Commit names a checkpoint */
	PROVEN = 1024,    /* the client has proven its Hello */
	SUMS = 2048       /* each party sends a Norm, and gets that of all */
};

enum {
	TENSORS = 1 << SL_PART_HEAD_ACT | 1 << SL_PART_MID_ACT | 1 << SL_PART_MID_GRAD | 1 << SL_PART_HEAD_GRAD,
	STATES = 1 << SL_PART_WEIGHTS | 1 << SL_PART_ENDS,
	ENDS = 1 << SL_PART_END_GRAD | 1 << SL_PART_END_MEAN,
	ORDER = 1 << SL_PART_ORDER,
	LETTER = 1 << SL_PART_LETTER
};

/* Finite fp32 gradients of 1e12 parameters have a sum of squares below 1e90; a group adds those of its members. */
#define SQUARES_MOST 1e90
#define MEMBERS_MOST 1e3

struct field {
	const char *name; /* as in docs/WIRE.md; "": the row is for the frame itself */
	enum sl_frame_kind kind;
	unsigned to, needs; /* receivers; one of these is enough */
	size_t at, size;    /* in struct sl_frame. Zeros there: the field is left out */
	unsigned parts;     /* of a Part: kinds */
	double most;        /* of a double, which is from 0 to this; 0: no double */
	bool must;          /* it may not be left out */
};

#define OF(member) .at = offsetof(struct sl_frame, u.member), .size = sizeof(((struct sl_frame *)0)->u.member)

static const struct field fields[] = {
	{"branch", SL_FRAME_WELCOME, TO_CLIENT, GROUP, OF(welcome.branch)},
	{"common", SL_FRAME_WELCOME, TO_CLIENT, GROUP, OF(welcome.common)},
	{"ends", SL_FRAME_WELCOME, TO_CLIENT, GIVES_ENDS, OF(welcome.ends)},
	{"above", SL_FRAME_CHALLENGE, TO_CLIENT, PROVEN, OF(challenge.above)},
	{"tokens", SL_FRAME_PART, EITHER, TOKENS, OF(part.tokens), .parts = TENSORS},
	{"tokens", SL_FRAME_PART, EITHER, NEVER, OF(part.tokens), .parts = STATES | ENDS | ORDER | LETTER},
	{"answers", SL_FRAME_PART, EITHER, ANSWERS, OF(part.answers), .parts = TENSORS},
	{"answers", SL_FRAME_PART, EITHER, NEVER, OF(part.answers), .parts = STATES | ENDS | ORDER | LETTER},
	{"chunk", SL_FRAME_PART, EITHER, NEVER, OF(part.chunk), .parts = STATES | ENDS | ORDER | LETTER},
	{"rows", SL_FRAME_PART, EITHER, NEVER, OF(part.rows), .parts = STATES | ENDS | ORDER | LETTER},
	{"batch_rows", SL_FRAME_PART, EITHER, NEVER, OF(part.batch_rows), .parts = STATES | ENDS | LETTER},
	{"training", SL_FRAME_PART, EITHER, NEVER, OF(part.training), .parts = STATES | LETTER},
	{"lr", SL_FRAME_COMMIT, TO_SERVER, ALWAYS, OF(commit.lr), .most = SL_SESSION_LR_MOST},
	{"grad_scale", SL_FRAME_COMMIT, TO_SERVER, SCALES, OF(commit.grad_scale), .most = 1},
	{"writing", SL_FRAME_COMMIT, TO_SERVER, KEEPS, OF(commit.writing)},
	{"compute_s", SL_FRAME_COMMITTED, TO_CLIENT, ALWAYS, OF(committed.compute_s), .most = 1e9},
	{"checkpointed", SL_FRAME_COMMITTED, TO_CLIENT, GROUP | KEEP_ASKED, OF(committed.checkpointed)},
	{"lr", SL_FRAME_COMMITTED, TO_CLIENT, GROUP, OF(committed.other_lr)},
	{"lr", SL_FRAME_COMMITTED, TO_CLIENT, GROUP, OF(committed.lr), .most = SL_SESSION_LR_MOST},
	{"", SL_FRAME_FETCH, TO_CLIENT, GIVES_ENDS, .size = 0},
	{"whole", SL_FRAME_FETCH, TO_SERVER, NEVER, OF(fetch.whole)},
	{"text", SL_FRAME_ABANDON, EITHER, ALWAYS, .at = offsetof(struct sl_frame, u.abandon.text), .size = 1,
	 .must = true},
	{"late", SL_FRAME_ABANDON, TO_CLIENT, GROUP, OF(abandon.late)},
	{"late", SL_FRAME_ABANDON, TO_SERVER, NEVER, OF(abandon.late)},
	{"", SL_FRAME_NORM, TO_CLIENT, CLIPS | FREE, .size = 0},
	{"", SL_FRAME_NORM, TO_SERVER, FREE | SUMS, .size = 0},
	{"", SL_FRAME_RECORD, TO_CLIENT, GROUP, .size = 0},
	{"text", SL_FRAME_RECORD, TO_CLIENT, ALWAYS, .at = offsetof(struct sl_frame, u.record.text), .size = 1,
	 .must = true},
	{"", SL_FRAME_REPORT, EITHER, GROUP, .size = 0},
	{"text", SL_FRAME_REPORT, EITHER, ALWAYS, .at = offsetof(struct sl_frame, u.report.text), .size = 1,
	 .must = true},
	{"signature", SL_FRAME_REPORT, TO_CLIENT, NEVER, OF(report.signature)},
	{"squares", SL_FRAME_NORM, TO_CLIENT, ALWAYS, OF(norm.squares), .most = SQUARES_MOST * MEMBERS_MOST},
	{"squares", SL_FRAME_NORM, TO_SERVER, ALWAYS, OF(norm.squares), .most = SQUARES_MOST},
};

static unsigned has(const struct sl_session *s, const struct sl_frame *f)
{
	const struct sl_session_limits *l = &s->limits;
	const struct sl_commit *c = f->kind == SL_FRAME_COMMIT ? &f->u.commit : NULL;
	const bool clips = sl_session_awaits_norm(s), scales = c && sl_session_scale_most(s, c->step) > 0;

	return ALWAYS | (l->shared ? GROUP : 0) | (l->run_bytes[SL_PART_ENDS] ? GIVES_ENDS : 0) | (clips ? CLIPS : 0) |
	       (l->free_calls ? FREE : 0) | (l->chunk_tokens ? TOKENS : 0) | (l->token_loss ? ANSWERS : 0) |
	       (scales && !c->skip ? SCALES : 0) | (s->keep == SL_KEEP_ASKED ? KEEP_ASKED : 0) |
	       (c && c->kept[0] ? KEEPS : 0) | (s->challenges ? PROVEN : 0) | (sl_session_sums(s) ? SUMS : 0);
}

static bool is_given(const struct field *field, const struct sl_frame *f)
{
	const uint8_t *at = (const uint8_t *)f + field->at;

	for (size_t i = 0; i < field->size; i++)
		if (at[i])
			return true;
	return !field->size;
}

enum sl_err sl_fields_check(const struct sl_session *s, const struct sl_frame *f, struct sl_fail *fail)
{
	const unsigned there = has(s, f);

	for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
		const struct field *field = &fields[i];
		const double *real = (const double *)(const void *)((const uint8_t *)f + field->at);
		const double most = field->needs == SCALES ? sl_session_scale_most(s, f->u.commit.step) : field->most;
		const char *what = field->name[0] ? field->name : "the frame";

		if (field->kind != f->kind || !(field->to & 1U << s->role) ||
		    (f->kind == SL_FRAME_PART && !(field->parts & 1U << f->u.part.what)))
			continue;
		if (is_given(field, f) ? !(field->needs & there) : field->must)
			return sl_fail_set(fail, SL_ERR_PROTOCOL, "%s frame in state %s: %s %s",
					   sl_frame_kind_name(f->kind), sl_session_state_name(s->state), what,
					   field->must ? "is empty" : "means nothing in this session");
		if (field->most > 0 && !(*real >= 0 && *real <= most))
			return sl_fail_set(fail, SL_ERR_PROTOCOL, "%s frame: %s is %g, where 0 to %g is right",
					   sl_frame_kind_name(f->kind), what, *real, most);
	}
	return SL_OK;
}
