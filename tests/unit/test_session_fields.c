/* Every field that some sessions give a meaning, sent in each session and at each moment: where it means nothing, the
 * receiver ends the session; where it means something, it goes on. A session of each agreement does a step, one that is
 * abandoned, an evaluation and a fetch. After each event both sides get each frame, on a copy of their session. */
#include <math.h>

#include "proto/split.pb-c.h"
#include "tests/support/session_rig.h"
#include "tests/support/unit.h"

static struct rig rig;

/* The sessions, as bits. */
enum { PLAIN = 1, CLIPS = 2, FREE = 4, TOKENS = 8, ANSWERS = 16, MEMBER = 32, SHARES = 64, ROUND = 128, COMES = 256 };
enum { FEATURES = 512, LABELS = 1024, SUMS = 2048, VERTICAL = FEATURES | LABELS | SUMS };
enum { ALL = 4095, NONE = 0, GROUPS = MEMBER | SHARES | ROUND | COMES | VERTICAL, WITH_TOKENS = TOKENS | ANSWERS };
enum { SESSIONS = 12 };

static struct rig_conf conf_of(unsigned session)
{
	return (struct rig_conf){.batch = 61,
				 .rows = 16,
				 .part_bytes = 4096,
				 .window_bytes = 1 << 20,
				 .next_step = 12,
				 .seed = session,
				 .clip_norm = session & (CLIPS | SUMS) ? 3 : 0,
				 .free_calls = session == FREE,
				 .tokens = session & WITH_TOKENS,
				 .token_loss = session == ANSWERS,
				 .shared = session & GROUPS,
				 .ends = session & (SHARES | ROUND | COMES),
				 .ends_round = session == ROUND ? 1 : 0,
				 .comes = session == COMES,
				 .party = session == FEATURES         ? SL_PARTY_FEATURES
					  : session & (LABELS | SUMS) ? SL_PARTY_LABELS
								      : SL_PARTY_BOTH};
}

/* ---- frames: one of each kind, as legal as the moment allows */

enum { TENSORS = 1, WEIGHTS = 2, END_RUNS = 4, ENDS = 8, ORDERS = 16, NO_PART = 0 };

static unsigned group_of(enum sl_part_what what)
{
	if (what < SL_PART_WEIGHTS)
		return TENSORS;
	if (what == SL_PART_ORDER)
		return ORDERS;
	return what == SL_PART_WEIGHTS ? WEIGHTS : what == SL_PART_ENDS ? ENDS : END_RUNS;
}

static struct sl_frame part_to(enum rig_who to, enum sl_part_what what)
{
	const struct sl_session *s = &rig.side[to].s;
	const bool state = sl_part_is_state(what);
	const uint64_t len = what == SL_PART_ENDS ? rig_run_bytes(what) : 1000;
	struct sl_frame f = rig_part(&rig, to, what, len);

	f.payload.len = f.payload.len > 4096 ? 4096 : f.payload.len;
	f.u.part.total = what == SL_PART_WEIGHTS ? rig_run_bytes(what) : f.u.part.total;
	if (state || group_of(what) == END_RUNS)
		f.u.part.chunk = f.u.part.rows = f.u.part.batch_rows = f.u.part.tokens = f.u.part.answers = 0;
	if (state)
		f.u.part.training = false;
	if (what == SL_PART_ENDS)
		f.u.part.step = s->next_step;
	return f;
}

static struct sl_frame frame_to(enum rig_who to, enum sl_frame_kind kind)
{
	const struct sl_session *s = &rig.side[to].s;
	const bool abandoned = s->state == SL_SESSION_ABANDON;
	const double scale = s->limits.party ? s->grad_scale : 0.5; /* of a party the one that all have */
	struct sl_frame f = {.kind = kind, .epoch = s->epoch};

	if (kind == SL_FRAME_WELCOME) {
		f.u.welcome = (struct sl_welcome){.version = SL_WIRE_VERSION,
						  .part_bytes = 4096,
						  .window_bytes = 1 << 20,
						  .next_step = 12,
						  .begin = 12};
		memcpy(f.u.welcome.plan_hash, rig.side[RIG_CLIENT].s.hello.plan_hash, 16);
	} else if (kind == SL_FRAME_COMMIT) {
		f.u.commit = (struct sl_commit){
			.step = s->state == SL_SESSION_READY ? s->next_step : s->number,
			.chunks = (uint32_t)s->chunks,
			.lr = 0.1,
			.skip = abandoned || s->state == SL_SESSION_READY,
			.grad_scale = (s->limits.clip_norm > 0 || s->limits.free_calls) && !abandoned ? scale : 0};
	} else if (kind == SL_FRAME_COMMITTED) {
		f.u.committed = (struct sl_committed){.step = s->number, .compute_s = 0.25, .mean = s->limits.ends};
	} else if (kind == SL_FRAME_ABANDON) {
		f.u.abandon = (struct sl_abandon){.step = s->state == SL_SESSION_READY ? s->next_step : s->number,
						  .text = "NaN"};
	} else if (kind == SL_FRAME_NORM) {
		f.u.norm = (struct sl_wire_norm){s->number, 1};
	} else if (kind == SL_FRAME_RECORD) {
		snprintf(f.u.record.text, sizeof f.u.record.text, "{}");
	} else if (kind == SL_FRAME_REPORT) {
		snprintf(f.u.report.text, sizeof f.u.report.text, "{}");
	}
	return f;
}

/* ---- fields */

typedef void change_fn(struct sl_frame *f);

#define CHANGE(name, statement)              \
	static void name(struct sl_frame *f) \
	{                                    \
		statement;                   \
	}

CHANGE(nothing, (void)f)
CHANGE(branch, f->u.welcome.branch = 9)
CHANGE(common, f->u.welcome.common = true)
CHANGE(ends, f->u.welcome.ends = true)
CHANGE(begin, f->u.welcome.begin++)
CHANGE(made_unknown, f->u.welcome.made = SL_MADE_UNKNOWN)
CHANGE(above, f->u.challenge.above = 3)
CHANGE(tokens, f->u.part.tokens = f->u.part.tokens ? f->u.part.tokens : 1)
CHANGE(answers, f->u.part.answers = f->u.part.answers ? f->u.part.answers : 1)
CHANGE(chunk, f->u.part.chunk = 1)
CHANGE(rows, f->u.part.rows = 16)
CHANGE(batch_rows, f->u.part.batch_rows = 61)
CHANGE(training, f->u.part.training = true)
CHANGE(lr_below, f->u.commit.lr = -0.1)
CHANGE(lr_above, f->u.commit.lr = 1e6)
CHANGE(lr_nan, f->u.commit.lr = NAN)
CHANGE(grad_scale, f->u.commit.grad_scale = f->u.commit.grad_scale > 0 ? f->u.commit.grad_scale : 0.5)
CHANGE(grad_scale_zero, f->u.commit.grad_scale = -0.0)
CHANGE(grad_scale_above, f->u.commit.grad_scale = 1.5)
CHANGE(grad_scale_below, f->u.commit.grad_scale = -0.5)
CHANGE(writing, f->u.commit.writing = true)
CHANGE(writing_kept, (f->u.commit.writing = true, f->u.commit.kept[0] = 12))
CHANGE(compute_below, f->u.committed.compute_s = -1e308)
CHANGE(compute_above, f->u.committed.compute_s = 1e300)
CHANGE(compute_inf, f->u.committed.compute_s = HUGE_VAL)
CHANGE(checkpointed, f->u.committed.checkpointed = true)
CHANGE(mean, f->u.committed.mean = true)
CHANGE(other_lr, (f->u.committed.other_lr = true, f->u.committed.lr = 0.05))
CHANGE(other_lr_none, f->u.committed.other_lr = true)
CHANGE(other_lr_below, (f->u.committed.other_lr = true, f->u.committed.lr = -1))
CHANGE(other_lr_above, (f->u.committed.other_lr = true, f->u.committed.lr = 1e6))
CHANGE(whole, f->u.fetch.whole = true)
CHANGE(late, f->u.abandon.late = true)
CHANGE(no_text, f->u.abandon.text[0] = 0)
CHANGE(no_record, f->u.record.text[0] = 0)
CHANGE(no_report, f->u.report.text[0] = 0)
CHANGE(signature, f->u.report.signature[0] = 1)
CHANGE(squares_below, f->u.norm.squares = -1)
CHANGE(squares_between, f->u.norm.squares = 1.5)
CHANGE(squares_above, f->u.norm.squares = 2e90)
CHANGE(sum_above, f->u.norm.squares = 2e93)

/* A frame, or a field of it, and the sessions in which it means something. `alone`: nothing but this row can refuse it,
 * so it must have been the only fault at least once. */
struct row {
	const char *name; /* KIND.FIELD of the schema */
	enum rig_who to;
	enum sl_frame_kind kind;
	unsigned parts;
	change_fn *change;
	unsigned in;
	bool alone;
};

#define TO_CLIENT(name, KIND, change, in, alone)                        \
	{                                                               \
		name, RIG_CLIENT, SL_FRAME_##KIND, 0, change, in, alone \
	}
#define TO_SERVER(name, KIND, change, in, alone)                        \
	{                                                               \
		name, RIG_SERVER, SL_FRAME_##KIND, 0, change, in, alone \
	}
#define OF_PART(name, change, parts, in)                                  \
	{name, RIG_CLIENT, SL_FRAME_PART, parts, change, in, !(in)},      \
	{                                                                 \
		name, RIG_SERVER, SL_FRAME_PART, parts, change, in, false \
	}

static const struct row table[] = {
	TO_CLIENT("Welcome.branch", WELCOME, branch, GROUPS, true),
	TO_CLIENT("Welcome.common", WELCOME, common, GROUPS, true),
	TO_CLIENT("Welcome.ends", WELCOME, ends, COMES, true),
	TO_CLIENT("Welcome.begin", WELCOME, begin, GROUPS, true),
	TO_CLIENT("Welcome.made", WELCOME, made_unknown, GROUPS, true),
	TO_CLIENT("Challenge.above", CHALLENGE, above, NONE, false), /* the rig has no proofs: see below */
	OF_PART("Part.tokens", tokens, TENSORS, WITH_TOKENS),
	OF_PART("Part.tokens", tokens, WEIGHTS, NONE),
	OF_PART("Part.tokens", tokens, END_RUNS, NONE),
	OF_PART("Part.tokens", tokens, ENDS, NONE),
	OF_PART("Part.tokens", tokens, ORDERS, NONE),
	OF_PART("Part.answers", answers, TENSORS, ANSWERS),
	OF_PART("Part.answers", answers, WEIGHTS, NONE),
	OF_PART("Part.answers", answers, END_RUNS, NONE),
	OF_PART("Part.answers", answers, ENDS, NONE),
	OF_PART("Part.answers", answers, ORDERS, NONE),
	OF_PART("Part.chunk", chunk, WEIGHTS, NONE),
	OF_PART("Part.chunk", chunk, END_RUNS, NONE),
	OF_PART("Part.chunk", chunk, ENDS, NONE),
	OF_PART("Part.chunk", chunk, ORDERS, NONE),
	OF_PART("Part.rows", rows, WEIGHTS, NONE),
	OF_PART("Part.rows", rows, END_RUNS, NONE),
	OF_PART("Part.rows", rows, ENDS, NONE),
	OF_PART("Part.rows", rows, ORDERS, NONE),
	OF_PART("Part.batch_rows", batch_rows, WEIGHTS, NONE),
	OF_PART("Part.batch_rows", batch_rows, END_RUNS, NONE),
	OF_PART("Part.batch_rows", batch_rows, ENDS, NONE),
	OF_PART("Part.training", training, WEIGHTS, NONE),
	OF_PART("Part.training", training, ENDS, NONE),
	TO_SERVER("Commit.lr", COMMIT, lr_below, NONE, true),
	TO_SERVER("Commit.lr", COMMIT, lr_above, NONE, true),
	TO_SERVER("Commit.lr", COMMIT, lr_nan, NONE, true),
	TO_SERVER("Commit.grad_scale", COMMIT, grad_scale, CLIPS | FREE | SUMS, true),
	TO_SERVER("Commit.grad_scale", COMMIT, grad_scale_zero, NONE, true),
	TO_SERVER("Commit.grad_scale", COMMIT, grad_scale_above, NONE, true),
	TO_SERVER("Commit.grad_scale", COMMIT, grad_scale_below, NONE, true),
	TO_SERVER("Commit.writing", COMMIT, writing, NONE, true),
	TO_SERVER("Commit.writing", COMMIT, writing_kept, ALL, false),
	TO_CLIENT("Committed.compute_s", COMMITTED, compute_below, NONE, true),
	TO_CLIENT("Committed.compute_s", COMMITTED, compute_above, NONE, true),
	TO_CLIENT("Committed.compute_s", COMMITTED, compute_inf, NONE, true),
	TO_CLIENT("Committed.checkpointed", COMMITTED, checkpointed, GROUPS, true),
	TO_CLIENT("Committed.mean", COMMITTED, mean, SHARES | ROUND | COMES, true),
	TO_CLIENT("Committed.lr", COMMITTED, other_lr, GROUPS, true),
	TO_CLIENT("Committed.lr", COMMITTED, other_lr_none, GROUPS, true),
	TO_CLIENT("Committed.lr", COMMITTED, other_lr_below, NONE, true),
	TO_CLIENT("Committed.lr", COMMITTED, other_lr_above, NONE, true),
	TO_CLIENT("Fetch", FETCH, nothing, COMES, false),
	TO_CLIENT("Fetch.whole", FETCH, whole, COMES, false),
	TO_SERVER("Fetch.whole", FETCH, whole, NONE, true),
	TO_CLIENT("Abandon.late", ABANDON, late, GROUPS, true),
	TO_SERVER("Abandon.late", ABANDON, late, NONE, true),
	TO_CLIENT("Abandon.text", ABANDON, no_text, NONE, true),
	TO_SERVER("Abandon.text", ABANDON, no_text, NONE, true),
	TO_CLIENT("Record", RECORD, nothing, GROUPS, false),
	TO_CLIENT("Record.text", RECORD, no_record, NONE, true),
	TO_CLIENT("Report", REPORT, nothing, GROUPS, false),
	TO_SERVER("Report", REPORT, nothing, GROUPS, false),
	TO_CLIENT("Report.text", REPORT, no_report, NONE, true),
	TO_SERVER("Report.text", REPORT, no_report, NONE, true),
	TO_CLIENT("Report.signature", REPORT, signature, NONE, true),
	TO_CLIENT("Norm", NORM, nothing, CLIPS | FREE | SUMS, false),
	TO_CLIENT("Norm.squares", NORM, squares_below, NONE, true),
	TO_CLIENT("Norm.squares", NORM, sum_above, NONE, true),
	TO_SERVER("Norm", NORM, nothing, FREE | SUMS, false),
	TO_SERVER("Norm.squares", NORM, squares_below, NONE, true),
	TO_SERVER("Norm.squares", NORM, squares_between, SUMS, true),
	TO_SERVER("Norm.squares", NORM, squares_above, NONE, true),
};

enum { ROWS = sizeof table / sizeof table[0] };

static int accepted[ROWS], only_fault[ROWS]; /* how often the field was taken; how often it alone was at fault */

static enum sl_err feed(enum rig_who to, const struct sl_frame *f)
{
	static struct sl_outbox out;
	struct sl_session copy = rig.side[to].s;

	return sl_session_step(&copy, &(struct sl_event){.kind = (enum sl_event_kind)f->kind, .frame = f}, rig.now_ms,
			       &out);
}

static void try_row(int k, unsigned session, const struct sl_frame *plain)
{
	const struct row *r = &table[k];
	const enum sl_session_state state = rig.side[r->to].s.state;
	struct sl_frame f = *plain;
	enum sl_err legal, err;

	r->change(&f);
	legal = feed(r->to, plain);
	err = feed(r->to, &f);
	if (state == SL_SESSION_CLOSED || state == SL_SESSION_NEW)
		return;
	if (!(r->in & session) && (!err || (!legal && err != SL_ERR_PROTOCOL)))
		fail_msg("%s to side %d in session %u, state %s, kind %u: %d", r->name, r->to, session,
			 sl_session_state_name(state), plain->u.part.what, err);
	if (r->in & session && !err)
		accepted[k]++;
	only_fault[k] += !legal && err;
}

static void try_all(unsigned session)
{
	for (int k = 0; k < ROWS; k++) {
		struct sl_frame f;

		for (int what = 0; what < SL_PART_WHAT_COUNT; what++)
			if (table[k].parts & group_of((enum sl_part_what)what)) {
				f = part_to(table[k].to, (enum sl_part_what)what);
				try_row(k, session, &f);
			}
		if (!table[k].parts) {
			f = frame_to(table[k].to, table[k].kind);
			try_row(k, session, &f);
		}
	}
}

static void turn_all(unsigned session)
{
	do
		try_all(session);
	while (rig_turn(&rig));
}

static void decide(void)
{
	const struct sl_event ev = {.kind = SL_EV_DECIDED, .mean = rig.conf.ends, .lr = -1};

	if (rig.conf.shared && rig.side[RIG_SERVER].s.state == SL_SESSION_COMMIT)
		assert_int_equal(rig_event(&rig, RIG_SERVER, &ev), SL_OK);
}

static void ask(enum sl_event_kind kind)
{
	assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = kind}), SL_OK);
}

static void run_session(unsigned session)
{
	const struct rig_conf conf = conf_of(session);
	const struct sl_event joined = {.kind = SL_EV_JOINED, .next_step = 12, .branch = 9, .ends = conf.comes};
	const struct sl_event lost = {.kind = SL_EV_NONFINITE, .why = &(struct sl_fail){.text = "NaN"}};

	rig_open(&rig, &conf);
	ask(SL_EV_OPEN);
	turn_all(session);
	if (conf.shared)
		assert_int_equal(rig_event(&rig, RIG_SERVER, &joined), SL_OK);
	turn_all(session);
	assert_int_equal(rig.side[RIG_CLIENT].s.state, SL_SESSION_READY);
	rig_begin_eval(&rig, 0, 61);
	turn_all(session);
	rig_begin_fetch(&rig);
	turn_all(session);
	assert_int_equal(rig.side[RIG_CLIENT].fetched, 1);
	for (int bad = 0; bad < 2; bad++) {
		rig_begin_step(&rig, 61);
		for (int i = 0; bad && i < 12; i++)
			assert_true(rig_turn(&rig));
		if (bad)
			assert_int_equal(rig_event(&rig, RIG_SERVER, &lost), SL_OK);
		turn_all(session);
		if (bad)
			ask(SL_EV_SKIP);
		turn_all(session);
		decide();
		turn_all(session);
		if (session == FREE) /* its calls are not the rig's to make */
			return;
		if (rig.side[0].failed || rig.side[1].failed)
			fail_msg("%s; %s", rig.side[0].fail.text, rig.side[1].fail.text);
		assert_int_equal(rig.side[RIG_CLIENT].stepped, 1 + bad);
	}
}

static void a_field_means_something_or_ends_the_session(void **state)
{
	for (unsigned session = 1; session <= ALL; session <<= 1)
		run_session(session);
	for (int k = 0; k < ROWS; k++) {
		if (table[k].alone && !only_fault[k])
			fail_msg("%s to side %d, row %d, was never the only fault", table[k].name, table[k].to, k);
		if (table[k].in && !accepted[k])
			fail_msg("%s to side %d, row %d, was never accepted", table[k].name, table[k].to, k);
	}
}

/* Only what answers a proof may name an epoch. */
static void an_epoch_answers_a_proof(void **state)
{
	struct sl_frame f = {.kind = SL_FRAME_CHALLENGE, .epoch = 7, .u.challenge.above = 9};
	struct sl_secret secret;
	struct sl_fail fail;

	assert_int_equal(sl_secret_make(&secret, &fail), SL_OK);
	for (int proven = 0; proven < 2; proven++) {
		struct sl_session *s = &rig.side[RIG_CLIENT].s;

		rig_open(&rig, &(struct rig_conf){.batch = 61, .rows = 16, .part_bytes = 4096, .window_bytes = 8192});
		s->secret = &secret;
		s->first = true;
		memcpy(s->hello.session, secret.session, sizeof s->hello.session);
		ask(SL_EV_OPEN);
		f.u.challenge.nonce[0] = 1;
		f.u.challenge.above = 0;
		if (proven)
			assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_OK);
		f.u.challenge.nonce[0] = 2;
		f.u.challenge.above = 9;
		assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), proven ? SL_OK : SL_ERR_PROTOCOL);
	}
}

/* ---- a field of the schema that may be left out, and every double, has a row here */

static bool has_row(const char *frame, const char *field)
{
	char name[64];

	snprintf(name, sizeof name, "%s.%s", frame, field);
	for (int k = 0; k < ROWS; k++)
		if (strcmp(table[k].name, name) == 0)
			return true;
	return false;
}

static void every_field_has_a_row(void **state)
{
	int seen = 0;

	for (unsigned i = 0; i < split__frame__descriptor.n_fields; i++) {
		const ProtobufCMessageDescriptor *m = split__frame__descriptor.fields[i].descriptor;

		for (unsigned k = 0; m && k < m->n_fields; k++) {
			const ProtobufCFieldDescriptor *f = &m->fields[k];
			const bool optional = f->label == PROTOBUF_C_LABEL_OPTIONAL,
				   real = f->type == PROTOBUF_C_TYPE_DOUBLE;

			if ((!optional && !real) || strcmp(m->short_name, "Refuse") == 0 ||
			    strncmp(f->name, "held_", 5) == 0)
				continue; /* any Refuse may name a key, and `held` says how many steps a Hello offers */
			seen++;
			if (!has_row(m->short_name, f->name))
				fail_msg("%s.%s has no row", m->short_name, f->name);
		}
	}
	assert_true(seen >= 11);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_field_means_something_or_ends_the_session),
		cmocka_unit_test(an_epoch_answers_a_proof),
		cmocka_unit_test(every_field_has_a_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
