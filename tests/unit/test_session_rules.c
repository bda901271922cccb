/* The session against a peer that breaks the rules: parts, commits, epochs. Every fault is one
 * change to a frame that is accepted without it. */

#include "common/codec/lengths.h"
#include "tests/support/session_rig.h"
#include "tests/support/unit.h"

static struct rig rig;

static const struct rig_conf conf = {.batch = 61, .rows = 16, .part_bytes = 4096, .window_bytes = 1 << 20, .seed = 1};

static void step_under_way(void)
{
	rig_step_under_way(&rig, &conf);
}

/* Moreover the client has computed the tail of chunk 0. */
static void tail_under_way(void)
{
	step_under_way();
	rig_give(&rig, RIG_CLIENT, SL_PART_MID_ACT);
	rig_done(&rig, RIG_CLIENT, SL_TASK_TAIL, 0);
}

typedef void change_fn(struct sl_frame *f);

static void nothing(struct sl_frame *f)
{
	(void)f;
}

static void offset_ahead(struct sl_frame *f)
{
	f->u.part.offset = 1;
	f->u.part.total++;
}

static void offset_far(struct sl_frame *f)
{
	f->u.part.offset = UINT64_MAX;
}

static void overrun(struct sl_frame *f)
{
	f->u.part.total = f->payload.len - 1;
}

static void total_none(struct sl_frame *f)
{
	f->u.part.total = 0;
}

static void total_huge(struct sl_frame *f)
{
	f->u.part.total = UINT64_MAX;
}

static void total_over(struct sl_frame *f)
{
	f->u.part.total = rig_run_bytes((enum sl_part_what)f->u.part.what) + 1;
}

static void empty(struct sl_frame *f)
{
	f->payload.len = 0;
}

static void chunk_ahead(struct sl_frame *f)
{
	f->u.part.chunk++;
}

static void chunk_again(struct sl_frame *f)
{
	f->u.part.chunk--;
}

static void chunk_none(struct sl_frame *f)
{
	f->u.part.chunk = 4;
}

static void chunk_negative(struct sl_frame *f)
{
	f->u.part.chunk = UINT32_MAX;
}

static void rows_less(struct sl_frame *f)
{
	f->u.part.rows--;
}

static void batch_other(struct sl_frame *f)
{
	f->u.part.batch_rows = 60;
}

static void step_other(struct sl_frame *f)
{
	f->u.part.step++;
}

static void phase_other(struct sl_frame *f)
{
	f->u.part.training = !f->u.part.training;
}

static void weights(struct sl_frame *f)
{
	f->u.part.what = SL_PART_WEIGHTS; /* complete by its length */
	f->payload.len = f->u.part.total = rig_run_bytes(SL_PART_WEIGHTS);
}

static void kind_own(struct sl_frame *f)
{
	f->u.part.what = SL_PART_MID_ACT;
}

static void kind_own_of_client(struct sl_frame *f)
{
	f->u.part.what = SL_PART_HEAD_ACT;
}

static void kind_unknown(struct sl_frame *f)
{
	f->u.part.what = SL_PART_WHAT_COUNT;
}

struct fault {
	change_fn *change;
	enum sl_err code;
};

static const struct fault faults[] = {
	{nothing, SL_OK},
	{offset_ahead, SL_ERR_PROTOCOL},
	{offset_far, SL_ERR_PROTOCOL},
	{overrun, SL_ERR_PROTOCOL},
	{total_none, SL_ERR_LIMIT},
	{total_huge, SL_ERR_LIMIT},
	{total_over, SL_ERR_LIMIT},
	{empty, SL_ERR_PROTOCOL},
	{chunk_ahead, SL_ERR_PROTOCOL},
	{chunk_again, SL_ERR_PROTOCOL},
	{chunk_none, SL_ERR_PROTOCOL},
	{chunk_negative, SL_ERR_PROTOCOL},
	{rows_less, SL_ERR_PROTOCOL},
	{batch_other, SL_ERR_PROTOCOL},
	{step_other, SL_ERR_PROTOCOL},
	{phase_other, SL_ERR_PROTOCOL},
	{weights, SL_ERR_PROTOCOL},
	{kind_unknown, SL_ERR_PROTOCOL},
};

static void try_fault(void (*prepare)(void), enum rig_who to, enum sl_part_what what, const struct fault *fault)
{
	struct rig_side *side = &rig.side[to];
	struct sl_frame f;
	uint64_t stored = 0;

	prepare();
	for (int i = 0; i < SL_PART_WHAT_COUNT; i++)
		stored += side->stored[i];
	f = rig_part(&rig, to, what, 1000);
	fault->change(&f);
	assert_int_equal(rig_frame(&rig, to, &f), fault->code);
	assert_int_equal(side->failed, fault->code != SL_OK);
	assert_int_equal(side->s.state == SL_SESSION_CLOSED, fault->code != SL_OK);
	for (int i = 0; i < SL_PART_WHAT_COUNT; i++)
		stored -= side->stored[i];
	assert_true(stored == (fault->code == SL_OK ? (uint64_t)-1000 : 0));
}

static void try_faults(void (*prepare)(void), enum rig_who to, enum sl_part_what what)
{
	for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
		try_fault(prepare, to, what, &faults[i]);
}

static void parts_that_break_a_rule_end_the_session(void **state)
{
	try_faults(step_under_way, RIG_SERVER, SL_PART_HEAD_ACT);
	try_faults(step_under_way, RIG_SERVER, SL_PART_MID_GRAD);
	try_fault(step_under_way, RIG_SERVER, SL_PART_HEAD_ACT, &(struct fault){kind_own, SL_ERR_PROTOCOL});
	try_faults(step_under_way, RIG_CLIENT, SL_PART_MID_ACT);
	try_faults(tail_under_way, RIG_CLIENT, SL_PART_HEAD_GRAD);
	try_fault(tail_under_way, RIG_CLIENT, SL_PART_MID_ACT, &(struct fault){kind_own_of_client, SL_ERR_PROTOCOL});
}

static void begin_nothing(void)
{
	rig_open_ready(&rig, &conf);
	rig_begin_step(&rig, 61);
}

static void batch_over(struct sl_frame *f)
{
	f->u.part.batch_rows = 62;
}

static void batch_none(struct sl_frame *f)
{
	f->u.part.batch_rows = 0;
}

static void kind_grad(struct sl_frame *f)
{
	f->u.part.what = SL_PART_MID_GRAD;
}

static void a_pass_begins_with_its_first_part_only(void **state)
{
	static const struct fault of_first[] = {
		{nothing, SL_OK},
		{offset_ahead, SL_ERR_PROTOCOL},
		{chunk_ahead, SL_ERR_PROTOCOL},
		{step_other, SL_ERR_PROTOCOL},
		{batch_over, SL_ERR_LIMIT},
		{batch_none, SL_ERR_LIMIT},
		{rows_less, SL_ERR_PROTOCOL},
		{total_over, SL_ERR_LIMIT},
		{kind_grad, SL_ERR_PROTOCOL},
		{weights, SL_ERR_PROTOCOL},
	};

	for (size_t i = 0; i < sizeof of_first / sizeof of_first[0]; i++)
		try_fault(begin_nothing, RIG_SERVER, SL_PART_HEAD_ACT, &of_first[i]);
}

static void open_with_tokens(void)
{
	struct rig_conf with = conf;

	with.tokens = true;
	rig_open_ready(&rig, &with);
	rig_begin_step(&rig, 61);
}

/* The server has computed the middle of chunk 0. */
static void tokens_under_way(void)
{
	open_with_tokens();
	rig_give(&rig, RIG_SERVER, SL_PART_HEAD_ACT);
	rig_done(&rig, RIG_SERVER, SL_TASK_MID_FWD, 0);
}

static void tokens_none(struct sl_frame *f)
{
	f->u.part.tokens = 0;
}

static void tokens_few(struct sl_frame *f)
{
	f->u.part.tokens = f->u.part.rows - 1;
}

static void tokens_fewest(struct sl_frame *f)
{
	f->u.part.tokens = f->u.part.rows;
}

static void tokens_most(struct sl_frame *f)
{
	f->u.part.tokens = 4 * f->u.part.rows;
}

static void tokens_over(struct sl_frame *f)
{
	f->u.part.tokens = 4 * f->u.part.rows + 1;
}

static void tokens_huge(struct sl_frame *f)
{
	f->u.part.tokens = UINT32_MAX;
}

static void tokens_other(struct sl_frame *f)
{
	f->u.part.tokens--;
}

static void total_with_lengths(struct sl_frame *f)
{
	f->u.part.total = rig_run_bytes(SL_PART_HEAD_ACT) + sl_lengths_bytes(f->u.part.rows, false);
}

static void total_over_lengths(struct sl_frame *f)
{
	total_with_lengths(f);
	f->u.part.total++;
}

static void a_chunk_has_no_more_tokens_than_were_agreed_on(void **state)
{
	static const struct fault of_first[] = {
		{nothing, SL_OK},
		{tokens_fewest, SL_OK},
		{tokens_most, SL_OK},
		{total_with_lengths, SL_OK},
		{tokens_none, SL_ERR_LIMIT},
		{tokens_few, SL_ERR_LIMIT},
		{tokens_over, SL_ERR_LIMIT},
		{tokens_huge, SL_ERR_LIMIT},
		{total_over_lengths, SL_ERR_LIMIT},
	};
	static const struct fault of_others[] = {
		{nothing, SL_OK},
		{tokens_none, SL_ERR_PROTOCOL},
		{tokens_other, SL_ERR_PROTOCOL},
		{tokens_huge, SL_ERR_PROTOCOL},
	};
	struct sl_frame f;

	for (size_t i = 0; i < sizeof of_first / sizeof of_first[0]; i++)
		try_fault(open_with_tokens, RIG_SERVER, SL_PART_HEAD_ACT, &of_first[i]);
	for (size_t i = 0; i < sizeof of_others / sizeof of_others[0]; i++)
		try_fault(tokens_under_way, RIG_SERVER, SL_PART_MID_GRAD, &of_others[i]);
	/* Also within a run. A network without tokens takes none. */
	open_with_tokens();
	f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 1000);
	f.u.part.total = 3000;
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
	f.u.part.offset = 1000;
	f.u.part.tokens++;
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
	try_fault(begin_nothing, RIG_SERVER, SL_PART_HEAD_ACT, &(struct fault){tokens_fewest, SL_ERR_PROTOCOL});
}

static void open_with_token_loss(void)
{
	struct rig_conf with = conf;

	with.tokens = with.token_loss = true;
	rig_open_ready(&rig, &with);
	rig_begin_step(&rig, 61);
}

static void token_loss_under_way(void)
{
	open_with_token_loss();
	rig_give(&rig, RIG_SERVER, SL_PART_HEAD_ACT);
	rig_done(&rig, RIG_SERVER, SL_TASK_MID_FWD, 0);
}

static void answers_none(struct sl_frame *f)
{
	f->u.part.answers = 0;
}

static void answers_one(struct sl_frame *f)
{
	f->u.part.answers = 1;
}

static void answers_most(struct sl_frame *f)
{
	f->u.part.answers = f->u.part.batch_rows * RIG_ROW_TOKENS;
}

static void answers_over(struct sl_frame *f)
{
	f->u.part.answers = f->u.part.batch_rows * RIG_ROW_TOKENS + 1;
}

static void a_step_has_no_more_tokens_with_a_loss_than_tokens(void **state)
{
	static const struct fault of_first[] = {
		{nothing, SL_OK},
		{answers_one, SL_OK},
		{answers_most, SL_OK},
		{answers_none, SL_ERR_LIMIT},
		{answers_over, SL_ERR_LIMIT},
	};
	static const struct fault of_others[] = {
		{nothing, SL_OK},
		{answers_none, SL_ERR_PROTOCOL},
		{answers_one, SL_ERR_PROTOCOL},
	};

	for (size_t i = 0; i < sizeof of_first / sizeof of_first[0]; i++)
		try_fault(open_with_token_loss, RIG_SERVER, SL_PART_HEAD_ACT, &of_first[i]);
	for (size_t i = 0; i < sizeof of_others / sizeof of_others[0]; i++)
		try_fault(token_loss_under_way, RIG_SERVER, SL_PART_MID_GRAD, &of_others[i]);
	/* no answers are counted unless that was agreed on */
	try_fault(open_with_tokens, RIG_SERVER, SL_PART_HEAD_ACT, &(struct fault){answers_one, SL_ERR_PROTOCOL});
	try_fault(tokens_under_way, RIG_SERVER, SL_PART_MID_GRAD, &(struct fault){answers_one, SL_ERR_PROTOCOL});
	token_loss_under_way();
	assert_int_equal(sl_session_counts(&rig.side[RIG_SERVER].s), sl_session_counts(&rig.side[RIG_CLIENT].s));
	assert_int_not_equal(sl_session_counts(&rig.side[RIG_SERVER].s), 61);
}

static void a_run_keeps_its_total(void **state)
{
	struct sl_frame f;

	for (int change = 0; change < 2; change++) {
		step_under_way();
		f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 1000);
		f.u.part.total = 3000;
		assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
		f.u.part.offset = 1000;
		f.u.part.total += (uint64_t)change;
		assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), change ? SL_ERR_PROTOCOL : SL_OK);
	}
	/* a part that was received before */
	step_under_way();
	f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 1000);
	f.u.part.total = 3000;
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
}

static void gradients_wait_for_their_activations(void **state)
{
	struct sl_frame f;

	step_under_way(); /* the forward pass of chunk 0 is done, that of chunk 1 is not */
	rig_give(&rig, RIG_SERVER, SL_PART_MID_GRAD);
	f = rig_part(&rig, RIG_SERVER, SL_PART_MID_GRAD, 1000);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
	tail_under_way();
	rig_give(&rig, RIG_CLIENT, SL_PART_HEAD_GRAD);
	f = rig_part(&rig, RIG_CLIENT, SL_PART_HEAD_GRAD, 1000);
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
	begin_nothing(); /* the client has sent nothing yet */
	f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 1000);
	f.u.part.what = SL_PART_MID_ACT;
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
	assert_non_null(strstr(rig.side[RIG_CLIENT].fail.text, "before it can exist"));
	rig_open_ready(&rig, &conf);
	rig_begin_eval(&rig, 0, 61);
	rig_give(&rig, RIG_SERVER, SL_PART_HEAD_ACT);
	rig_done(&rig, RIG_SERVER, SL_TASK_MID_FWD, 0);
	f = rig_part(&rig, RIG_SERVER, SL_PART_MID_GRAD, 1000);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
}

static void there_is_no_chunk_behind_the_last(void **state)
{
	struct sl_frame f;

	begin_nothing();
	for (int chunk = 0; chunk < 4; chunk++)
		rig_give(&rig, RIG_SERVER, SL_PART_HEAD_ACT);
	f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 1000);
	assert_int_equal(f.u.part.chunk, 4);
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
	assert_non_null(strstr(rig.side[RIG_SERVER].fail.text, "chunk 4"));
}

/* While weights are fetched, a part of the finished pass would fit its lane again: it is refused. */
static void a_fetch_takes_weights_alone(void **state)
{
	struct sl_frame f;

	rig_open_ready(&rig, &conf);
	rig_begin_step(&rig, 61);
	rig_settle(&rig);
	rig_begin_fetch(&rig);
	f = rig_part(&rig, RIG_CLIENT, SL_PART_MID_ACT, 1000);
	assert_int_equal(f.u.part.chunk, 0);
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
}

/* The answer to FETCH says whether the server has its current state on its disk. */
static void a_fetch_says_what_is_kept(void **state)
{
	struct rig_conf steps = conf;
	struct sl_frame f;

	for (int storeless = 0; storeless < 2; storeless++) {
		steps.storeless = storeless;
		rig_open_ready(&rig, &steps);
		rig_begin_step(&rig, 61);
		rig_settle(&rig);
		rig_begin_fetch(&rig);
		rig_settle(&rig);
		assert_int_equal(rig.side[RIG_CLIENT].fetched, 1);
		assert_int_equal(rig.side[RIG_CLIENT].s.next_step, 1);
		assert_int_equal(rig.side[RIG_CLIENT].s.kept_step, storeless ? 0 : 1);
	}
	/* WELCOME and COMMITTED say the same of their step */
	for (int kept = 0; kept < 2; kept++) {
		steps.next_step = 12;
		rig_open_ready(&rig, &steps);
		assert_int_equal(rig.side[RIG_CLIENT].s.kept_step, 12);
		rig_begin_step(&rig, 16);
		rig.side[RIG_CLIENT].s.keep = kept ? SL_KEEP_ASKED : SL_KEEP_NOT;
		while (rig.side[RIG_CLIENT].s.state != SL_SESSION_COMMIT && rig_turn(&rig))
			;
		f = (struct sl_frame){.kind = SL_FRAME_COMMITTED, .epoch = 7};
		f.u.committed = (struct sl_committed){.step = 12, .checkpointed = kept};
		assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_OK);
		assert_int_equal(rig.side[RIG_CLIENT].s.kept_step, kept ? 13 : 12);
	}
	steps.next_step = 0;
	rig_open_ready(&rig, &steps);
	rig_begin_step(&rig, 61);
	rig_settle(&rig);
	rig_begin_fetch(&rig);
	f = rig_part(&rig, RIG_CLIENT, SL_PART_WEIGHTS, 1000);
	f.u.part.step = 2;
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
	assert_non_null(strstr(rig.side[RIG_CLIENT].fail.text, "step 2"));
}

/* ---- commit */

/* The server has computed a whole step of one chunk; with `early` all but its backward pass. */
static void before_commit(bool early)
{
	rig_open_ready(&rig, &conf);
	rig_begin_step(&rig, 16);
	rig_give(&rig, RIG_SERVER, SL_PART_HEAD_ACT);
	rig_done(&rig, RIG_SERVER, SL_TASK_MID_FWD, 0);
	rig_give(&rig, RIG_SERVER, SL_PART_MID_GRAD);
	if (!early)
		rig_done(&rig, RIG_SERVER, SL_TASK_MID_BWD, 0);
}

static void try_clipped(struct sl_commit c, double clip_norm, bool early, enum sl_err code)
{
	const struct sl_frame f = {.kind = SL_FRAME_COMMIT, .epoch = 7, .u.commit = c};

	before_commit(early);
	rig.side[RIG_SERVER].s.limits.clip_norm = clip_norm;
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), code);
	assert_int_equal(rig.side[RIG_SERVER].tasks[SL_TASK_COMMIT], code == SL_OK);
	assert_int_equal(rig.side[RIG_SERVER].s.next_step, 0);
	if (code != SL_OK)
		return;
	assert_true(rig.side[RIG_SERVER].s.lr == c.lr);
	rig_done(&rig, RIG_SERVER, SL_TASK_COMMIT, 0);
	assert_int_equal(rig.side[RIG_SERVER].s.next_step, 1);
}

static void try_commit(struct sl_commit c, bool early, enum sl_err code)
{
	try_clipped(c, 0, early, code);
}

static void a_commit_says_how_gradients_are_clipped(void **state)
{
	static const struct {
		double clip_norm, scale;
		enum sl_err code;
	} cases[] = {{0, 0, SL_OK}, {0, 1, SL_ERR_PROTOCOL}, {0, 0.5, SL_ERR_PROTOCOL},    {1, 0.5, SL_OK},
		     {1, 1, SL_OK}, {1, 0, SL_ERR_PROTOCOL}, {1, 1.0001, SL_ERR_PROTOCOL}, {1, -0.5, SL_ERR_PROTOCOL}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		try_clipped((struct sl_commit){.chunks = 1, .lr = 0.1, .grad_scale = cases[i].scale},
			    cases[i].clip_norm, false, cases[i].code);
}

/* Only the commit that ends a step of the optimizer may make a sum of batches their mean. */
static void a_commit_of_added_batches_may_scale_their_sum(void **state)
{
	static const struct {
		uint64_t step;
		double clip_norm, scale;
		enum sl_err code;
	} cases[] = {{1, 0, 0, SL_OK},
		     {1, 0, 1.5, SL_OK},
		     {1, 0, 2, SL_OK},
		     {1, 0, 2.001, SL_ERR_PROTOCOL},
		     {1, 0, -1, SL_ERR_PROTOCOL},
		     {1, 1, 1.5, SL_OK},
		     {1, 1, 0, SL_ERR_PROTOCOL},
		     {0, 0, 1.5, SL_ERR_PROTOCOL},
		     {0, 1, 1.5, SL_ERR_PROTOCOL},
		     {0, 1, 0.5, SL_OK}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct sl_session *s = &rig.side[RIG_SERVER].s;
		const struct sl_commit c = {
			.step = cases[i].step, .chunks = 1, .lr = 0.1, .grad_scale = cases[i].scale};
		const struct sl_frame f = {.kind = SL_FRAME_COMMIT, .epoch = 7, .u.commit = c};

		before_commit(false);
		s->number = s->next_step = cases[i].step;
		s->limits.accumulate = 2;
		s->limits.clip_norm = cases[i].clip_norm;
		assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), cases[i].code);
		assert_int_equal(rig.side[RIG_SERVER].tasks[SL_TASK_COMMIT], cases[i].code == SL_OK);
	}
}

/* A NORM comes once, after all that the client has sent, in a run that clips; or for an abandoned step. */
static void a_norm_is_of_the_step_under_way(void **state)
{
	enum { RIGHT, TWICE, EARLY, OTHER_STEP, NEGATIVE, UNCLIPPED, CASES };
	struct rig_conf clips = conf;

	for (int fault = 0; fault < CASES; fault++) {
		struct sl_frame f = {.kind = SL_FRAME_NORM, .epoch = 7, .u.norm.squares = 16};
		enum sl_err want = fault == RIGHT ? SL_OK : SL_ERR_PROTOCOL;

		clips.clip_norm = fault == UNCLIPPED ? 0 : 3;
		rig_open_ready(&rig, &clips);
		rig_begin_step(&rig, 16);
		rig_done(&rig, RIG_CLIENT, SL_TASK_HEAD_FWD, 0);
		if (fault != EARLY) {
			struct sl_frame part = rig_part(&rig, RIG_CLIENT, SL_PART_MID_ACT, 1000);

			part.u.part.training = true;
			part.u.part.rows = part.u.part.batch_rows = 16;
			assert_int_equal(rig_frame(&rig, RIG_CLIENT, &part), SL_OK);
			rig_done(&rig, RIG_CLIENT, SL_TASK_TAIL, 0);
		}
		if (fault == TWICE)
			assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_OK);
		f.u.norm.step = fault == OTHER_STEP;
		if (fault == NEGATIVE)
			f.u.norm.squares = -1;
		assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), want);
	}
}

static void a_commit_must_be_of_the_whole_step(void **state)
{
	try_commit((struct sl_commit){0, 1, 0.1, false, false, {0}, 0, false}, false, SL_OK);
	try_commit((struct sl_commit){0, 1, 0, false, false, {0}, 0, false}, false, SL_OK);
	try_commit((struct sl_commit){0, 1, 0.1, false, false, {0}, 0, false}, true, SL_ERR_PROTOCOL);
	try_commit((struct sl_commit){0, 1, 0.1, false, true, {0}, 0, false}, false,
		   SL_ERR_PROTOCOL); /* the step was not abandoned */
	try_commit((struct sl_commit){1, 1, 0.1, false, false, {0}, 0, false}, false, SL_ERR_PROTOCOL);
	try_commit((struct sl_commit){0, 2, 0.1, false, false, {0}, 0, false}, false, SL_ERR_PROTOCOL);
	try_commit((struct sl_commit){0, 1, -0.1, false, false, {0}, 0, false}, false, SL_ERR_PROTOCOL);
	try_commit((struct sl_commit){0, 1, 1e6, false, false, {0}, 0, false}, false, SL_ERR_PROTOCOL);
	try_commit((struct sl_commit){0, 1, (double)__builtin_nanf(""), false, false, {0}, 0, false}, false,
		   SL_ERR_PROTOCOL);
}

/* If head_grad does not cross, COMMIT may overtake mid_grad: the server applies the step after its backward pass. */
static void a_commit_waits_for_the_backward(void **state)
{
	struct rig_conf headless = conf;
	const struct sl_frame f = {.kind = SL_FRAME_COMMIT, .epoch = 7, .u.commit = {.chunks = 1, .lr = 0.1}};

	rig_grads(&headless, 1);
	for (int fault = 0; fault < 3; fault++) {
		struct sl_frame part;

		rig_open_ready(&rig, &headless);
		rig_begin_step(&rig, 16);
		part = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 1000);
		part.u.part.batch_rows = part.u.part.rows = 16;
		assert_int_equal(rig_frame(&rig, RIG_SERVER, &part), SL_OK);
		if (fault == 1) { /* before all of the batch is forward */
			assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
			continue;
		}
		rig_done(&rig, RIG_SERVER, SL_TASK_MID_FWD, 0);
		assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
		assert_int_equal(rig.side[RIG_SERVER].tasks[SL_TASK_COMMIT], 0);
		if (fault == 2) {
			assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
			continue;
		}
		rig_give(&rig, RIG_SERVER, SL_PART_MID_GRAD);
		rig_done(&rig, RIG_SERVER, SL_TASK_MID_BWD, 0);
		assert_int_equal(rig.side[RIG_SERVER].tasks[SL_TASK_COMMIT], 1);
		assert_int_equal(rig.side[RIG_SERVER].out[SL_PART_HEAD_GRAD].count, 0);
	}
}

/* Gradients that do not cross are refused from either side. */
static void a_gradient_that_does_not_cross_is_refused(void **state)
{
	struct rig_conf none = conf;

	rig_grads(&none, 2);
	for (int who = 0; who < 2; who++) {
		struct sl_frame part;

		rig_step_under_way(&rig, &none);
		if (who == RIG_CLIENT) {
			rig_give(&rig, RIG_CLIENT, SL_PART_MID_ACT);
			rig_done(&rig, RIG_CLIENT, SL_TASK_TAIL, 0);
		}
		part = rig_part(&rig, (enum rig_who)who, who == RIG_CLIENT ? SL_PART_HEAD_GRAD : SL_PART_MID_GRAD, 100);
		assert_int_equal(rig_frame(&rig, (enum rig_who)who, &part), SL_ERR_PROTOCOL);
		assert_non_null(strstr(rig.side[who].fail.text, "which this side does not receive"));
	}
}

static void a_step_is_committed_once(void **state)
{
	struct sl_frame f = {.kind = SL_FRAME_COMMITTED, .epoch = 7};

	for (int other = 0; other < 2; other++) {
		rig_open_ready(&rig, &conf);
		rig.side[RIG_CLIENT].s.state = SL_SESSION_COMMIT;
		rig.side[RIG_CLIENT].s.training = true;
		f.u.committed.step = (uint64_t)other;
		assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), other ? SL_ERR_PROTOCOL : SL_OK);
	}
	f.u.committed.step = 0;
	rig_open_ready(&rig, &conf);
	rig.side[RIG_CLIENT].s.state = SL_SESSION_COMMIT;
	rig.side[RIG_CLIENT].s.training = true;
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_OK);
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_PROTOCOL);
	assert_int_equal(rig.side[RIG_CLIENT].tasks[SL_TASK_COMMIT], 1);
}

/* A COMMIT may ask for a checkpoint, and names the steps that the client has on its disk. */
static void a_commit_carries_what_is_kept(void **state)
{
	const struct sl_event ev = {
		.kind = SL_EV_BEGIN_STEP, .batch_rows = 61, .number = 0, .lr = 0.1, .checkpoint = true};
	struct sl_session *client = &rig.side[RIG_CLIENT].s, *server = &rig.side[RIG_SERVER].s;

	rig_open_ready(&rig, &conf);
	client->kept[0] = 12;
	client->kept[1] = 5;
	assert_int_equal(rig_event(&rig, RIG_CLIENT, &ev), SL_OK);
	while (server->state != SL_SESSION_COMMIT)
		assert_true(rig_turn(&rig));
	assert_true(server->keep == SL_KEEP_ASKED);
	assert_memory_equal(server->kept, client->kept, sizeof server->kept);
	rig_settle(&rig);
	rig_begin_step(&rig, 61); /* the next COMMIT asks for no checkpoint */
	rig_settle(&rig);
	assert_true(server->keep == SL_KEEP_NOT);
}

/* ---- epochs */

static void older_epochs_are_dropped_and_counted(void **state)
{
	struct sl_frame f;

	step_under_way();
	f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 1000);
	f.epoch = 6;
	f.u.part.chunk = 99; /* ignored: the epoch is checked first */
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
		assert_int_equal(rig.side[RIG_SERVER].s.counts.stale_frames, i);
	}
	f = (struct sl_frame){.kind = SL_FRAME_REFUSE, .epoch = 6, .u.refuse = {.code = SL_ERR_BUSY, .text = "full"}};
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_OK);
	assert_int_equal(rig.side[RIG_SERVER].s.counts.stale_frames, 4);
	assert_int_equal(rig.side[RIG_SERVER].s.state, SL_SESSION_STEP);
	rig_give(&rig, RIG_SERVER, SL_PART_HEAD_ACT);
}

static void newer_epochs_are_refused(void **state)
{
	struct sl_frame f;

	step_under_way();
	f = rig_part(&rig, RIG_SERVER, SL_PART_HEAD_ACT, 1000);
	f.epoch = 8;
	assert_int_equal(rig_frame(&rig, RIG_SERVER, &f), SL_ERR_PROTOCOL);
	assert_non_null(strstr(rig.side[RIG_SERVER].fail.text, "epoch 8 in epoch 7"));
}

/* A server that knows no session on a connection refuses with epoch 0: the client accepts that. */
static void a_refusal_of_no_epoch_counts(void **state)
{
	const struct sl_frame f = {.kind = SL_FRAME_REFUSE,
				   .u.refuse = {.code = SL_ERR_BUSY, .text = "all sessions are taken"}};

	rig_open(&rig, &conf);
	assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_OPEN}), SL_OK);
	assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), SL_ERR_BUSY);
	assert_int_equal(rig.side[RIG_CLIENT].failed, 1);
	assert_string_equal(rig.side[RIG_CLIENT].fail.text, "the server refused: all sessions are taken");
	assert_int_equal(rig.side[RIG_SERVER].in.count, 1); /* only Hello: a REFUSE is not answered by another */
}

/* A server that shuts down ends the session, which is no refusal. A peer that says nothing still gives a sentence. */
static void a_refusal_is_a_sentence(void **state)
{
	static const struct {
		enum sl_err code;
		const char *text, *says;
	} of[] = {{SL_ERR_UNAVAILABLE, "the server shuts down", "the server ended the session: the server shuts down"},
		  {SL_ERR_MISMATCH, "", "the server refused: it gives no reason"},
		  {SL_ERR_NONFINITE, "NaN in chunk 2", "NaN in chunk 2"},
		  {SL_ERR_NONFINITE, "", "the server refused: it gives no reason"}};

	for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
		struct sl_frame f = {.kind = SL_FRAME_REFUSE, .u.refuse.code = of[i].code};

		snprintf(f.u.refuse.text, sizeof f.u.refuse.text, "%s", of[i].text);
		rig_open(&rig, &conf);
		assert_int_equal(rig_event(&rig, RIG_CLIENT, &(struct sl_event){.kind = SL_EV_OPEN}), SL_OK);
		assert_int_equal(rig_frame(&rig, RIG_CLIENT, &f), of[i].code);
		assert_string_equal(rig.side[RIG_CLIENT].fail.text, of[i].says);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_that_break_a_rule_end_the_session),
		cmocka_unit_test(a_pass_begins_with_its_first_part_only),
		cmocka_unit_test(a_chunk_has_no_more_tokens_than_were_agreed_on),
		cmocka_unit_test(a_step_has_no_more_tokens_with_a_loss_than_tokens),
		cmocka_unit_test(a_run_keeps_its_total),
		cmocka_unit_test(gradients_wait_for_their_activations),
		cmocka_unit_test(there_is_no_chunk_behind_the_last),
		cmocka_unit_test(a_fetch_takes_weights_alone),
		cmocka_unit_test(a_fetch_says_what_is_kept),
		cmocka_unit_test(a_commit_must_be_of_the_whole_step),
		cmocka_unit_test(a_commit_says_how_gradients_are_clipped),
		cmocka_unit_test(a_commit_of_added_batches_may_scale_their_sum),
		cmocka_unit_test(a_norm_is_of_the_step_under_way),
		cmocka_unit_test(a_commit_waits_for_the_backward),
		cmocka_unit_test(a_gradient_that_does_not_cross_is_refused),
		cmocka_unit_test(a_step_is_committed_once),
		cmocka_unit_test(a_commit_carries_what_is_kept),
		cmocka_unit_test(older_epochs_are_dropped_and_counted),
		cmocka_unit_test(newer_epochs_are_refused),
		cmocka_unit_test(a_refusal_of_no_epoch_counts),
		cmocka_unit_test(a_refusal_is_a_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
