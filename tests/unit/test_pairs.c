/* Pairs of inserts along features and tokens (insert.h: decaylinear with rate2, linear with
 * tokens): their schedule, their graphs, that they start as the identity, and what is refused.
 * test_golden compares what they compute later with PyTorch. */
#include <unistd.h>

#include "client/pass/local.h"
#include "common/base/pool.h"
#include "common/graph/graph_text.h"
#include "common/session/table.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/asked.h"
#include "tests/support/unit.h"

enum { ROWS = 5, MOST = 11, CLASSES = 3, VOCAB = 40, CHUNKS = 2 };
#define PAIRS "decaylinear:rate=0.7,every=2,times=3,l1=0.01,rate2=0.6"
static const char config[] =
	"{\"model_type\": \"roberta\", \"vocab_size\": 40, \"hidden_size\": 24, \"intermediate_size\": 40, "
	"\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"max_position_embeddings\": 20, "
	"\"type_vocab_size\": 1, \"layer_norm_eps\": 1e-05, \"hidden_act\": \"gelu\", \"hidden_dropout_prob\": 0.2, "
	"\"attention_probs_dropout_prob\": 0.2, \"initializer_range\": 0.2, \"pad_token_id\": 1}";
static char dir[] = "/tmp/split-pairs-XXXXXX", path[64];

/* The network allows more tokens (16) than a row has. */
static void ask(struct asked *a, const char *head, const char *tail)
{
	struct sl_agreed *agreed = &a->agreement.agreed;

	*a = (struct asked){.agreement.agreed = sl_agreed_default()};
	a->split.model =
		(struct sl_model_spec){.name = "huggingface", .classes = CLASSES, .tokens = 16, .huggingface = dir};
	a->split.cut =
		(struct sl_cut_spec){.head_end = "encoder.layer.0.attention.output", .tail_begin = "encoder.layer.2"};
	snprintf(a->split.insert_head, sizeof a->split.insert_head, "%s", head);
	snprintf(a->split.insert_tail, sizeof a->split.insert_tail, "%s", tail);
	a->split.model.whole_rows = MOST;
	agreed->batch = ROWS;
	agreed->chunks = CHUNKS;
	agreed->seed = 9;
	agreed->row_tokens = MOST;
	agreed->chunk_tokens = (ROWS + CHUNKS - 1) / CHUNKS * MOST;
	agreed->padded = true;
}

static struct sl_plan *plan_of(struct asked *a)
{
	struct sl_plan *plan;
	struct sl_fail fail = {0};

	if (asked_settle(a, &fail) || plan_open(&plan, &a->split, &fail))
		fail_msg("%s", fail.text);
	return plan;
}

/* ---- the schedule */

/* Rows of 128 tokens. Published rates are 0.95^9 = 0.630, 0.96^9 = 0.693 and 0.96^8 = 0.721. */
static void published_rows(void **state)
{
	static const int at95[] = {128, 121, 114, 108, 102, 96, 91, 86, 81, 76};
	static const int at96[] = {128, 122, 117, 112, 107, 102, 97, 93, 89, 85};
	struct sl_decay d = {.full = 768, .times = 9, .every = 300, .rate = 0.9, .tokens = 128, .rate2 = 0.95};
	int tokens[SL_DECAY_MAX_TIMES + 1];

	assert_int_equal(sl_decay_tokens(&d, tokens), 10);
	assert_memory_equal(tokens, at95, sizeof at95);
	assert_int_equal(sl_decay_row_tokens(&d, 299), 128);
	assert_int_equal(sl_decay_row_tokens(&d, 300), 121);
	assert_int_equal(sl_decay_width(&d, UINT64_MAX), 294);
	d.rate2 = 0.96;
	sl_decay_tokens(&d, tokens);
	assert_memory_equal(tokens, at96, sizeof at96);
	assert_true(sl_decay_same(&d, 0, 299) && !sl_decay_same(&d, 299, 300));
	d.rate = 1; /* only tokens are dropped */
	assert_true(!sl_decay_same(&d, 299, 300) && sl_decay_same(&d, 2700, UINT64_MAX));
	d.tokens = 0;
	assert_true(sl_decay_same(&d, 299, 300));
	assert_int_equal(sl_decay_row_tokens(&d, 300), 0);
}

/* ---- graphs */

static int narrowing_ops(const struct sl_plan_segment *s)
{
	int n = 0;

	for (int i = 0; i < s->n_op; i++)
		n += s->op[i].narrows != SL_NARROWS_NOT;
	return n;
}

static void put(void *arg, const char *text, size_t len)
{
	assert_int_equal(fwrite(text, 1, len, arg), len);
}

/* A server that has only the middle's text makes the same plan as the client. */
static void a_middle_comes_back(void **state)
{
	static const int width[] = {24, 16, 11, 7}, tokens[] = {11, 6, 3, 1};
	struct asked a;
	struct sl_plan *whole, *alone;
	char *text = NULL;
	size_t len;
	FILE *file = open_memstream(&text, &len);
	struct sl_graph g;
	struct sl_fail fail;
	const struct sl_plan_segment *mine, *theirs;

	ask(&a, PAIRS, PAIRS ",from=2");
	whole = plan_of(&a);
	mine = &whole->segment[SL_MIDDLE];
	assert_int_equal(narrowing_ops(&whole->segment[SL_HEAD]), 3);
	assert_int_equal(narrowing_ops(mine), 6);
	assert_int_equal(narrowing_ops(&whole->segment[SL_TAIL]), 3);
	assert_true(whole->whole_rows && sl_plan_lengths_cross(whole));
	assert_false(sl_plan_cut_per_token(whole, false) || sl_plan_cut_per_token(whole, true));
	sl_graph_write(&mine->graph, put, file);
	fclose(file);
	assert_non_null(strstr(text, "in head_act f32 R[24,11] decay=0.7,2,3,0.01,0,0.6\n"));
	if (sl_graph_read(&g, text, len, &fail) || sl_plan_open_part(&alone, &whole->spec, SL_MIDDLE, &g, &fail))
		fail_msg("%s", fail.text);
	theirs = &alone->segment[SL_MIDDLE];
	assert_true(alone->whole_rows && sl_plan_lengths_cross(alone));
	assert_int_equal(theirs->n_op, mine->n_op);
	assert_int_equal(theirs->macs, mine->macs);
	assert_memory_equal(alone->middle_hash, whole->middle_hash, sizeof alone->middle_hash);
	for (int i = 0; i < mine->n_op; i++) {
		assert_int_equal(mine->op[i].op.most, theirs->op[i].op.most);
		assert_int_equal(mine->op[i].narrows, theirs->op[i].narrows);
		assert_true(sl_shape_equal(&mine->op[i].op.out_shape, &theirs->op[i].op.out_shape));
	}
	for (uint64_t done = 0; done < 9; done++)
		for (int mid = 0; mid < 2; mid++) {
			const struct sl_shape s = sl_plan_cut_shape_after(whole, mid, 4, done);
			const struct sl_shape t = sl_plan_cut_shape_after(alone, mid, 4, done);
			const uint64_t falls = (done + (mid ? 2 : 0)) / 2;

			assert_true(sl_shape_equal(&s, &t));
			assert_int_equal(s.dim[1], width[falls > 3 ? 3 : falls]);
			assert_int_equal(s.dim[2], tokens[falls > 3 ? 3 : falls]);
		}
	free(text);
	sl_plan_close(alone);
	sl_plan_close(whole);
}

/* A pair of fixed widths does not narrow during training. */
static void fixed_pairs(void **state)
{
	struct sl_plan *plan;
	struct sl_shape s;
	struct asked a;

	ask(&a, "linear:16,tokens=6", "");
	plan = plan_of(&a);
	s = sl_plan_cut_shape_after(plan, false, 3, UINT64_MAX);
	assert_true(sl_shape_equal(&s, &(struct sl_shape){3, {3, 16, 6}}));
	assert_int_equal(narrowing_ops(&plan->segment[SL_MIDDLE]), 0);
	assert_true(plan->whole_rows && sl_plan_lengths_cross(plan));
	sl_plan_close(plan);
}

/* ---- results */

static double loss_of(struct sl_backend *be, const char *head, const char *tail, float logits[ROWS * CLASSES])
{
	static const int32_t labels[ROWS] = {0, 2, 1, 1, 0};
	int32_t token[ROWS * MOST];
	uint32_t begin[ROWS + 1], pieces[2 * ROWS + 1];
	struct sl_feed feed = {.input = token, .begin = begin, .target = labels, .rows = ROWS, .pieces = pieces};
	struct sl_step_result result;
	struct sl_weights weights;
	struct sl_local *local;
	struct sl_plan *plan;
	struct sl_fail fail = {0};
	struct asked a;

	for (uint32_t r = 0; r <= ROWS; r++) {
		begin[r] = pieces[2 * r] = r * MOST;
		if (r < ROWS)
			pieces[2 * r + 1] = r * MOST + 1 + (5 * r + 3) % MOST;
	}
	for (int32_t i = 0; i < ROWS * MOST; i++)
		token[i] = (uint32_t)i < pieces[2 * (i / MOST) + 1] ? (i * 7 + 3) % VOCAB : 1;
	ask(&a, head, tail);
	plan = plan_of(&a);
	if (sl_local_open(&local, plan, &a.agreement, NULL, be, &fail) || sl_weights_open(&weights, plan->model, &fail))
		fail_msg("%s", fail.text);
	sl_weights_init(&weights, plan->model, 9);
	assert_int_equal(sl_local_set_weights(local, &weights, &fail), SL_OK);
	assert_int_equal(sl_local_use(local, &(struct sl_ends_use){.logits = logits}, &fail), SL_OK);
	if (sl_local_eval(local, &feed, 0, &result, &fail) || sl_local_step(local, &feed, 0, 0.1, &result, &fail))
		fail_msg("%s", fail.text);
	sl_weights_close(&weights);
	sl_local_close(local);
	sl_plan_close(plan);
	return result.loss;
}

/* Before anything is dropped the network equals the one without pairs, bit for bit, and draws the same dropout. */
static void they_begin_as_the_identity(void **state)
{
	float plain[ROWS * CLASSES], paired[ROWS * CLASSES], fallen[ROWS * CLASSES];
	struct sl_backend be;
	struct sl_pool *pool;
	struct sl_fail fail;
	double loss;

	assert_int_equal(sl_pool_open(&pool, 2, &fail), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&be, pool, &fail), SL_OK);
	loss = loss_of(&be, "", "", plain);
	assert_true(loss_of(&be, PAIRS, PAIRS, paired) == loss);
	assert_memory_equal(plain, paired, sizeof plain);
	/* the last tokens of a row are dropped first: padding alone is no loss */
	assert_true(loss_of(&be, "decaylinear:rate=1,every=1,times=1,from=1,rate2=0.9", "", fallen) == loss);
	assert_true(loss_of(&be, "decaylinear:rate=1,every=1,times=1,from=1,rate2=0.5", "", fallen) != loss);
	/* a fixed pair that drops nothing changes nothing either */
	assert_true(loss_of(&be, "linear:24,tokens=11", "linear:24,tokens=9", paired) == loss);
	assert_memory_equal(plain, paired, sizeof plain);
	assert_true(loss_of(&be, "linear:20,tokens=5", "", fallen) != loss);
	be.ops->close(&be);
	sl_pool_close(pool);
}

/* ---- refusals */

static void plan_refuses(struct asked *a, const char *key, const char *says)
{
	struct sl_plan *plan = NULL;
	struct sl_fail fail = {0};

	if (!asked_settle(a, &fail))
		assert_int_equal(plan_open(&plan, &a->split, &fail), SL_ERR_CONFIG);
	if (strcmp(fail.key, key) != 0 || !strstr(fail.text, says))
		fail_msg("key '%s', \"%s\" does not say \"%s\"", fail.key, fail.text, says);
}

static void rows_of_other_forms(void **state)
{
	struct asked a;

	ask(&a, PAIRS, "");
	a.split.model.whole_rows = 0; /* rows are not padded, or only to the longest of a batch */
	plan_refuses(&a, "insert.head", "set data.pad to max");
	ask(&a, "", PAIRS);
	snprintf(a.split.cut.tail_begin, sizeof a.split.cut.tail_begin, "classifier");
	plan_refuses(&a, "insert.tail", "rate2 lowers the number of a row's tokens, and here no tokens cross");
	ask(&a, PAIRS, "");
	a.split.model = (struct sl_model_spec){.name = "mobilenet_v2", .width = 0.25, .classes = 10, .image = 32};
	a.split.cut = (struct sl_cut_spec){.partition = "1:-1"};
	plan_refuses(&a, "insert.head", "here no tokens cross: leave it out");
	ask(&a, PAIRS, "");
	a.agreement.agreed.padded = false; /* a peer might claim that */
	plan_refuses(&a, "", "takes rows that are all padded to 11 tokens");
	ask(&a, PAIRS, "");
	a.agreement.agreed.row_tokens = MOST + 1;
	plan_refuses(&a, "", "takes rows that are all padded to 11 tokens");
	ask(&a, PAIRS, "");
	a.agreement.agreed.chunk_tokens--;
	plan_refuses(&a, "", "takes rows that are all padded to 11 tokens");
	ask(&a, "decaylinear:rate=0.7,every=2,times=3,rate2=1.1", "");
	plan_refuses(&a, "insert.head", "rate2");
	ask(&a, "linear:16,tokens=6", "");
	a.split.model.whole_rows = 0;
	plan_refuses(&a, "insert.head", "tokens needs rows that all have the same number of tokens");
	ask(&a, "linear:16,tokens=6+linear:8", "");
	plan_refuses(&a, "insert.head", "linear with tokens must be the last");
}

static void text_refused(const char *text, const char *says)
{
	struct sl_graph g = {0};
	struct sl_fail fail;

	if (sl_graph_read(&g, text, strlen(text), &fail) == SL_OK)
		fail_msg("'%s' was read", text);
	if (!strstr(fail.text, says))
		fail_msg("'%s': \"%s\" does not say \"%s\"", text, fail.text, says);
}

#define IN    "graph 1\nin head_act f32 R[4,3] decay=0.5,1,1,0,0,0.5\n"
#define PARAM "param s [3,3] eye\nparam f [4,4] eye\n"
#define CHAIN "node a linear %0 &0 transposed=1\nnode b transpose %1\nnode c linear %2 &1 transposed=1\n"

static void texts_of_peers(void **state)
{
	struct sl_graph g;
	struct sl_fail fail;

	if (sl_graph_read(&g, IN PARAM CHAIN "out y %3\n", strlen(IN PARAM CHAIN "out y %3\n"), &fail))
		fail_msg("%s", fail.text);
	assert_int_equal(g.most, 3);
	sl_graph_close(&g);
	text_refused("graph 1\nin x f32 R[4,3]\nnode a transpose %0 tokens=3\nout y %1\n", "takes tokens");
	text_refused("graph 1\nin x f32 T[4] most=3\nnode a transpose %0\nout y %1\n", "takes tokens");
	text_refused("graph 1\nin x f32 T[4] most=3\nnode a transpose %0 tokens=4\nout y %1\n", "takes tokens");
	text_refused("graph 1\nin x f32 T[4] most=3\nnode a transpose %0 tokens=3 most=4\nout y %1\n", "most");
	text_refused("graph 1\nin x f32 R[4,3]\nnode a transpose %0 most=2\nout y %1\n", "rows [F,S]");
	text_refused("graph 1\nin x f32 R[4,70000]\nnode a transpose %0\nout y %1\n", "rows [F,S]");
	text_refused("graph 1\nin x f32 R[4,3,2]\nnode a transpose %0\nout y %1\n", "rows [F,S]");
	text_refused("graph 1\nin x f32 R[4,3]\nnode a transpose %0\nnode b transpose %0 most=5\nnode c add %1 %2\n"
		     "out y %3\n",
		     "elsewhere up to 3");
	/* Not a chain as the field's two rates need it: a value with another reader, a frozen matrix, another order. */
	text_refused(IN PARAM CHAIN "node d transpose %1\nnode e add %3 %4\nout y %5\n", "narrow");
	text_refused(IN "param s [3,3] eye\nparam f [4,4] frozen eye\n" CHAIN "out y %3\n", "narrow");
	text_refused(IN "param s [3,3] eye\nnode a linear %0 &0 transposed=1\nout y %1\n", "narrow");
	text_refused(IN PARAM "node a linear %0 &0\nnode b transpose %1\nnode c linear %2 &1 transposed=1\nout y %3\n",
		     "narrow");
	text_refused("graph 1\nin x f32 R[4,3] decay=0.5,1,1,0,0,1.5\n" PARAM CHAIN "out y %3\n", "narrow");
	text_refused("graph 1\nin x f32 R[3] decay=0.5,1,1,0,0,0.5\n" PARAM CHAIN "out y %3\n", "RATE2");
}

/* With whole_rows the tokens of a chunk must be those of full-length rows. */
static void tokens_of_peers(void **state)
{
	struct sl_session s = {.batch_rows = 5, .limits = {.batch = 5, .rows = 3, .row_tokens = 4, .chunk_tokens = 12}};

	assert_true(sl_session_tokens_fit(&s, 0, 11) && sl_session_tokens_fit(&s, 0, 12));
	s.limits.whole_rows = true;
	assert_true(sl_session_tokens_fit(&s, 0, 12) && sl_session_tokens_fit(&s, 1, 8));
	assert_false(sl_session_tokens_fit(&s, 0, 11) || sl_session_tokens_fit(&s, 0, 9));
	assert_false(sl_session_tokens_fit(&s, 0, 13) || sl_session_tokens_fit(&s, 1, 12));
}

static int make_folder(void **state)
{
	FILE *file;

	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof path, "%s/config.json", dir);
	file = fopen(path, "w");
	return !file || fputs(config, file) < 0 || fclose(file) ? -1 : 0;
}

static int remove_folder(void **state)
{
	return unlink(path) || rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_rows),      cmocka_unit_test(a_middle_comes_back),
		cmocka_unit_test(fixed_pairs),         cmocka_unit_test(they_begin_as_the_identity),
		cmocka_unit_test(rows_of_other_forms), cmocka_unit_test(texts_of_peers),
		cmocka_unit_test(tokens_of_peers),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
