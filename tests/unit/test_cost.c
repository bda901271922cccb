/* The predicted cost of tasks: which sessions are refused and which are not. The most
 * expensive ones that are accepted delay others no longer than predicted, up to a factor. */
#include <glob.h>
#include <unistd.h>

#include "client/setup/setup.h"
#include "common/base/pool.h"
#include "common/base/rng.h"
#include "common/exec/exec.h"
#include "common/graph/graph_text.h"
#include "common/session/mean.h"
#include "kernels/cpu/cpu.h"
#include "server/trunk/cost.h"
#include "tests/support/piece_rig.h"
#include "tests/support/plan_open.h"
#include "tests/support/unit.h"

/* Factor and constant of the bound on a piece's time, on a
 * busy or slow processor. docs/SECURITY.md says the same. */
enum { BUSY = 8, MOMENT_MS = 100 };

static double bound_of(double piece_s)
{
	return BUSY * piece_s + MOMENT_MS * 1e-3;
}

enum { TASK_S = 120, PIECE_MS = 1000 }; /* the defaults, as test_conf checks */

static struct sl_plan *plan_of(int image, int64_t batch, int chunks, const char *head_end, const char *tail_begin)
{
	struct sl_split_spec spec = {.model = {.name = "mobilenet_v2", .width = 1, .classes = 1000, .image = image},
				     .plan.batch = batch,
				     .plan.chunks = chunks,
				     .plan.seed = 1,
				     .plan.optimizer = {.kind = SL_OPTIMIZER_SGD, .momentum = 0.9}};
	struct sl_plan *plan;
	struct sl_fail fail;

	snprintf(spec.cut.head_end, sizeof spec.cut.head_end, "%s", head_end);
	snprintf(spec.cut.tail_begin, sizeof spec.cut.tail_begin, "%s", tail_begin);
	if (plan_open(&plan, &spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return plan;
}

static struct sl_cost cost_of(const struct sl_plan *plan, const char *up, const char *down)
{
	struct sl_codec_spec codec[SL_DIR_COUNT];
	struct sl_fail fail;

	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		bool ups = dir == SL_DIR_HEAD_ACT || dir == SL_DIR_MID_GRAD;

		if (sl_codec_parse(ups ? up : down, &codec[dir], &fail) != SL_OK)
			fail_msg("%s", fail.text);
	}
	return sl_session_cost(plan, codec);
}

/* A payload of 287 kB makes the server compress 590 MB at level 19. */
static void a_task_of_minutes_is_refused(void **state)
{
	struct sl_plan *plan = plan_of(512, 70, 1, "features.0", "features.2");
	struct sl_cost cost = cost_of(plan, "downsample:64", "zstd:19");
	struct sl_fail fail = {0};

	assert_int_equal(sl_session_cost_check(&cost, TASK_S, PIECE_MS, &fail), SL_ERR_LIMIT);
	assert_non_null(strstr(fail.text, "limits.task_s is 120"));
	assert_int_equal(sl_session_cost_check(&cost, 0, PIECE_MS, &fail), SL_OK);
	sl_plan_close(plan);
}

static void a_long_piece_is_refused(void **state)
{
	struct sl_plan *plan = plan_of(2048, 1, 1, "features.0", "features.2");
	struct sl_cost cost = cost_of(plan, "none", "lowrank:16,iters=16");
	struct sl_fail fail = {0};

	assert_int_equal(sl_session_cost_check(&cost, TASK_S, PIECE_MS, &fail), SL_ERR_LIMIT);
	assert_non_null(strstr(fail.text, "limits.piece_ms is 1000"));
	assert_int_equal(sl_session_cost_check(&cost, TASK_S, 0, &fail), SL_OK);
	sl_plan_close(plan);
}

/* A volume of 128³ voxels and 32 channels: in one piece it would take 0.6 s. */
static void norms_of_volumes_are_made_in_pieces(void **state)
{
	struct sl_op op = {.kind = SL_OP_GROUPNORM, .name = "norm", .n_in = 1, .u.groupnorm = {32, 1e-5f}};

	op.in_shape[0] = op.out_shape = sl_shape4(1, 128 * 128, 128, 32);
	assert_true(sl_op_cost(&op, 1).task_s > 0.5);
	assert_true(sl_op_cost(&op, 1).piece_s < 0.1);
}

static void honest_sessions_are_let_in(void **state)
{
	static const char *const codecs[] = {
		"none",           "quant:8",           "topk:0.1|quant:8", "sortquant:6+2",
		"quant:8|zstd:3", "lowrank:8,iters=2", "downsample:2",     "terngrad,bucket=512"};
	static const struct {
		int image, chunks;
		int64_t batch;
	} sizes[] = {{224, 1, 64}, {224, 8, 256}, {224, 1, 256}, {224, 1, 512},
		     {512, 4, 64}, {512, 1, 64},  {32, 4, 512}};
	static const char *const cuts[][2] = {{"features.0", "classifier"}, {"features.3", "features.14"}};

	for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
		for (size_t k = 0; k < 2; k++) {
			struct sl_plan *plan =
				plan_of(sizes[s].image, sizes[s].batch, sizes[s].chunks, cuts[k][0], cuts[k][1]);

			for (size_t c = 0; c < sizeof codecs / sizeof codecs[0]; c++) {
				struct sl_cost cost = cost_of(plan, codecs[c], codecs[c]);
				struct sl_fail fail = {0};

				if (sl_session_cost_check(&cost, TASK_S, PIECE_MS, &fail) != SL_OK)
					fail_msg("image %d, batch %d, %s: %s", sizes[s].image, (int)sizes[s].batch,
						 codecs[c], fail.text);
			}
			sl_plan_close(plan);
		}
}

/* ---- the most expensive of what is accepted */

struct candidate {
	char spec[SL_CODEC_SPEC_MAX];
	struct sl_shape shape;
	bool encodes;
	double piece_s;
};

enum { MOST = 8192, MEASURED = 6, MOST_BYTES = 32 << 20 };
static const double measurable_s = 2;

static void consider(struct candidate *all, int *n, const char *text, const struct sl_shape *shape)
{
	const struct sl_extent most = sl_extent_of(*shape);
	struct sl_codec_spec spec;
	struct sl_fail fail;

	if (sl_codec_parse(text, &spec, &fail) != SL_OK || *n + 2 > MOST)
		fail_msg("%s: %s", text, fail.text);
	for (int encodes = 0; encodes < 2; encodes++) {
		struct sl_cost cost = sl_codec_cost(&spec, &most, encodes);
		struct candidate *c = &all[*n];

		if (sl_session_cost_check(&cost, TASK_S, PIECE_MS, &fail) != SL_OK)
			continue;
		snprintf(c->spec, sizeof c->spec, "%s", text);
		c->shape = *shape;
		c->encodes = encodes;
		c->piece_s = cost.task_s < measurable_s ? cost.piece_s : 0;
		(*n)++;
	}
}

static int longest_first(const void *a, const void *b)
{
	double x = ((const struct candidate *)a)->piece_s, y = ((const struct candidate *)b)->piece_s;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* lowrank needs at least as many positions and channels as its rank. */
static bool has_rank(const char *method, const struct sl_shape *shape)
{
	long long rank = 1;

	(void)sscanf(method, "lowrank:%lld", &rank);
	return rank <= shape->dim[1] * shape->dim[2] && rank <= shape->dim[3];
}

/* Every method at its extremes, alone and in front of zstd, on tensors of one large sample and of many small ones. */
static int enumerate(struct candidate *all)
{
	static const char *const methods[] = {"none",
					      "f16",
					      "quant:8",
					      "quant:3,block=8",
					      "sortquant:12+4",
					      "terngrad,bucket=8",
					      "topk:0.01",
					      "topk:1",
					      "randomk:0.5",
					      "qsgd:32767,bucket=8",
					      "threshold:0.001",
					      "lowrank:1",
					      "lowrank:4",
					      "lowrank:16",
					      "lowrank:64",
					      "lowrank:256",
					      "lowrank:1024",
					      "lowrank:16,iters=16",
					      "cells:2",
					      "downsample:2",
					      "downsample:64",
					      "cells:64|topk:1",
					      "lowrank:4,warm=true"};
	static const int64_t side[] = {4, 32, 128, 512}, channels[] = {2, 32, 512};
	int n = 0;

	for (size_t m = 0; m < sizeof methods / sizeof methods[0]; m++)
		for (size_t s = 0; s < sizeof side / sizeof side[0]; s++)
			for (size_t c = 0; c < sizeof channels / sizeof channels[0]; c++)
				for (int64_t rows = 1; rows <= 1024; rows *= 32)
					for (int level = 0; level <= 19; level += level ? 6 : 1) {
						struct sl_shape shape = sl_shape4(rows, side[s], side[s], channels[c]);
						char text[SL_CODEC_SPEC_MAX];

						if (sl_shape_count(&shape) * 4 > MOST_BYTES ||
						    !has_rank(methods[m], &shape))
							continue;
						if (level)
							snprintf(text, sizeof text, "%s|zstd:%d", methods[m], level);
						else
							snprintf(text, sizeof text, "%s", methods[m]);
						consider(all, &n, text, &shape);
					}
	qsort(all, (size_t)n, sizeof *all, longest_first);
	return n;
}

static bool seen(const struct candidate *all, int i)
{
	size_t len = strcspn(all[i].spec, ":");

	for (int k = 0; k < i; k++)
		if (strcspn(all[k].spec, ":") == len && strncmp(all[k].spec, all[i].spec, len) == 0)
			return true;
	return false;
}

/* Whether the chain has zstd, which takes longest for elements of two values. */
static bool packs(const struct candidate *c)
{
	return strstr(c->spec, "zstd") != NULL;
}

static double measure(const struct candidate *c, struct sl_backend *be)
{
	struct sl_codec_env env = {.be = be, .shape = c->shape, .slots = 1, .seed = 1, .dir = SL_DIR_MID_ACT};
	size_t bytes = (size_t)sl_shape_count(&c->shape) * sizeof(float);
	struct piece_task t = {.x = {SL_F32, c->shape, malloc(bytes), be}};
	const struct sl_rng_key key = {.seed = 5};
	struct sl_codec_spec spec;
	struct sl_buf payload;
	struct sl_fail fail;
	double piece_s;

	assert_int_equal(sl_codec_parse(c->spec, &spec, &fail), SL_OK);
	if (sl_codec_open(&t.codec, &spec, &env, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	payload = (struct sl_buf){.cap = sl_codec_bound(t.codec, c->shape.dim[0])};
	payload.data = malloc(payload.cap);
	t.payload = &payload;
	for (size_t i = 0; i < bytes / 4; i++) {
		uint32_t word[4];

		sl_rng_quad(&key, (uint32_t)i, word);
		((float *)t.x.data)[i] = packs(c) ? (float)(word[0] & 1) - 0.5f : (float)(int32_t)word[0];
	}
	for (int pass = c->encodes; pass < 2; pass++) { /* a payload to decode is encoded first */
		t.decodes = !c->encodes && pass == 1;
		piece_measure(&t, &piece_s);
		assert_int_equal(t.err, SL_OK);
	}
	sl_codec_close(t.codec);
	free(payload.data);
	free(t.x.data);
	return piece_s;
}

static void the_worst_that_is_let_in_is_as_predicted(void **state)
{
	struct candidate *all = calloc(MOST, sizeof *all);
	struct sl_backend be;
	struct sl_pool *pool;
	int n = enumerate(all);

	assert_true(n > 1000);
	assert_true(all[0].piece_s > 0.2); /* the candidates include long pieces */
	assert_int_equal(sl_pool_open(&pool, 2, NULL), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&be, pool, NULL), SL_OK);
	for (int i = 0, done = 0; i < n && done < MEASURED; i++) {
		double found = 0;
		char text[SL_SHAPE_TEXT];

		if (seen(all, i)) /* only the worst of each method */
			continue;
		done++;
		for (int try = 0; try < 3; try++) {
			found = measure(&all[i], &be);
			if (found <= bound_of(all[i].piece_s))
				break;
		}
		printf("%s of %s, %s: predicted %.0f ms, measured %.0f ms beyond a slice\n", all[i].spec,
		       sl_shape_text(&all[i].shape, text), all[i].encodes ? "encoding" : "decoding",
		       all[i].piece_s * 1e3, found * 1e3);
		assert_true(found <= bound_of(all[i].piece_s));
	}
	be.ops->close(&be);
	sl_pool_close(pool);
	free(all);
}

/* ---- a login that initializes its weights */

struct login {
	struct sl_job job; /* must be first: log_in casts it back */
	const struct sl_plan *plan;
	struct sl_backend *be;
	enum sl_err err;
};

static void log_in(struct sl_job *job)
{
	struct login *l = (struct login *)job;
	const struct sl_plan_segment *s = &l->plan->segment[SL_MIDDLE];
	float *range = malloc((size_t)s->weight_count * sizeof *range);
	struct sl_exec *exec = NULL;
	struct sl_fail fail;

	l->err = range ? sl_exec_open(&exec, l->plan, SL_MIDDLE, l->be, &fail) : SL_ERR_NOMEM;
	if (!l->err) {
		sl_weights_init_range(s, 1, range);
		l->err = sl_exec_set_weights(exec, range);
	}
	sl_exec_close(exec);
	free(range);
}

static void a_login_of_many_weights_gives_way(void **state)
{
	struct sl_split_spec spec = {.model = {.name = "mobilenet_v2", .width = 4, .classes = 10, .image = 32},
				     .cut = {.head_end = "features.0", .tail_begin = "classifier"},
				     .plan.batch = 1,
				     .plan.chunks = 1,
				     .plan.optimizer = {.kind = SL_OPTIMIZER_SGD, .momentum = 0.9}};
	struct login l = {.job.run = log_in};
	double bound_s, found_s = 0, task_s = 0;
	struct sl_backend be;
	struct sl_plan *plan;
	struct sl_pool *pool;
	struct sl_fail fail;

	if (plan_open(&plan, &spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(sl_pool_open(&pool, 2, NULL), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&be, pool, NULL), SL_OK);
	l.plan = plan;
	l.be = &be;
	bound_s = bound_of(sl_weights_cost(plan).piece_s);
	for (int try = 0; try < 3; try++) {
		task_s = piece_measure_job(&l.job, &found_s);
		assert_int_equal(l.err, SL_OK);
		if (found_s <= bound_s)
			break;
	}
	printf("%.0f million weights: %.0f ms, others wait for %.0f ms beyond a slice\n",
	       (double)plan->segment[SL_MIDDLE].weight_count * 1e-6, task_s * 1e3, found_s * 1e3);
	assert_true(found_s <= bound_s);
	be.ops->close(&be);
	sl_pool_close(pool);
	sl_plan_close(plan);
}

/* ---- parts of a cost */

static double backward_s(const struct sl_plan *plan)
{
	return sl_segment_cost(plan, 2).task_s;
}

/* An op with frozen weights costs no weight gradient; one below which nothing learns costs no backward pass. */
static void what_does_not_learn_costs_less(void **state)
{
	struct sl_plan *plan = plan_of(32, 8, 1, "features.0", "classifier");
	struct sl_plan_segment *s = &plan->segment[SL_MIDDLE];
	const double all = backward_s(plan);
	double half, at = 0;
	int op = 0;

	while (s->op[op].op.kind != SL_OP_CONV2D)
		op++;
	at = sl_op_cost(&s->op[op].op, 2).task_s;
	half = at - sl_op_cost(&s->op[op].op, 1).task_s;
	assert_true(half > 0);
	s->op[op].learns = false;
	assert_float_equal(backward_s(plan), all - half, 1e-9);
	s->op[op].backward = false;
	assert_float_equal(backward_s(plan), all - at, 1e-9);
	assert_true(sl_segment_cost(plan, 1).task_s < backward_s(plan)); /* forward costs less than backward */
	sl_plan_close(plan);
}

/* A head or tail of a million parameters: compressing them has a cost, and so has a pass over them. */
static void heads_and_tails_have_a_price(void **state)
{
	int64_t count[2] = {1000000, 0};
	struct sl_end_layout layout = {.n = 1, .count = count, .row = count + 1, .grads = count[0], .floats = count[0]};
	struct sl_codec_spec spec;
	struct sl_end_coder_env env = {.layout = &layout, .spec = &spec};
	const double pass_s = sl_end_pass_cost(&layout).task_s;
	double plain_s;
	struct sl_fail fail;

	assert_int_equal(sl_codec_parse("none", &spec, &fail), SL_OK);
	plain_s = sl_end_coder_cost(&env, true).task_s;
	assert_in_range(plain_s * 1e9, pass_s * 1e9 + 1, 1e8);
	assert_int_equal(sl_codec_parse("quant:8|zstd:19", &spec, &fail), SL_OK);
	assert_true(sl_end_coder_cost(&env, true).task_s > 10 * plain_s);
	assert_true(sl_end_coder_cost(&env, true).piece_s > 10 * sl_end_coder_cost(&env, false).piece_s);
	count[1] = 100; /* with this row length the parameter is a table: without a codec it is sent by rows */
	assert_int_equal(sl_codec_parse("none", &spec, &fail), SL_OK);
	assert_float_equal(sl_end_coder_cost(&env, true).task_s, pass_s, 1e-12);
}

/* A login must compute a hundred rotary tables of 65535 positions. A pass over its single token would be cheap. */
static void a_login_of_many_rotary_positions_is_refused(void **state)
{
	enum { NODES = 100, LINE = 64 };
	struct sl_plan_spec spec = {.batch = 1, .chunks = 1, .row_tokens = UINT16_MAX, .chunk_tokens = 1};
	char *text = malloc((size_t)(NODES + 4) * LINE);
	struct sl_fail fail = {0};

	for (int few = 0; few < 2; few++) {
		struct sl_graph g = {0};
		struct sl_plan *plan;
		struct sl_cost cost;
		int n = sprintf(text, "graph 1\nin x f32 T[512] most=65535\nparam w [1,512] zero\n");

		for (int i = 0; i < NODES; i++)
			n += sprintf(text + n, "node n%d attention %%%d %%%d %%%d rope=1e+04\n", i, i, i, i);
		n += sprintf(text + n, "node l linear %%%d &0\nout y %%%d\n", NODES, NODES + 1);
		if (sl_graph_read(&g, text, (size_t)n, &fail) || sl_plan_open_part(&plan, &spec, SL_MIDDLE, &g, &fail))
			fail_msg("%s", fail.text);
		cost = cost_of(plan, "none", "none");
		assert_int_equal(sl_session_cost_check(&cost, TASK_S, PIECE_MS, &fail), few ? SL_OK : SL_ERR_LIMIT);
		assert_true(few || strstr(fail.text, "limits.task_s is 120"));
		sl_plan_close(plan);
		spec.row_tokens = 1000; /* the tables are no longer than a row */
	}
	free(text);
}

/* ---- configs and docs/SECURITY.md */

/* Configs name roberta-base, which users download. Its costs follow from the sizes in config.json. */
static void make_roberta_base(char dir[64])
{
	char path[128];
	FILE *file;

	assert_true(snprintf(dir, 64, "/tmp/test_cost.XXXXXX") < 64);
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/config.json", dir);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("{\"model_type\": \"roberta\", \"vocab_size\": 50265, \"hidden_size\": 768, \"num_hidden_layers\": 12, "
	      "\"num_attention_heads\": 12, \"intermediate_size\": 3072, \"max_position_embeddings\": 514, "
	      "\"type_vocab_size\": 1, \"layer_norm_eps\": 1e-05, \"pad_token_id\": 1}",
	      file);
	assert_int_equal(fclose(file), 0);
}

static void remove_roberta_base(const char *dir)
{
	char path[128];

	snprintf(path, sizeof path, "%s/config.json", dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

/* The texts are not available here: every row counts as long as the network allows. */
static void open_config(struct sl_setup *setup, struct sl_conf_client *conf, const char *path, const char *roberta)
{
	char set[96];
	struct sl_fail fail;
	enum sl_err err = sl_conf_client_load(conf, path, NULL, 0, &fail);

	snprintf(set, sizeof set, "model.huggingface=%s", roberta);
	*setup = (struct sl_setup){.reads = SL_READS_NONE};
	if (!err && strcmp(conf->model.huggingface, "roberta-base") == 0)
		err = sl_conf_client_load(conf, path, (const char *const[]){set}, 1, &fail);
	if (err || sl_setup_plan(setup, conf, &fail) != SL_OK)
		fail_msg("%s", fail.text);
}

static void configs_that_come_with_it_are_let_in(void **state)
{
	static struct sl_conf_client conf;
	char roberta[64];
	glob_t found;
	int n = 0;

	make_roberta_base(roberta);
	assert_int_equal(glob("configs/client-*.yaml", 0, NULL, &found), 0);
	for (; n < (int)found.gl_pathc; n++) {
		struct sl_setup setup;
		struct sl_fail fail;
		struct sl_cost cost;

		open_config(&setup, &conf, found.gl_pathv[n], roberta);
		cost = sl_session_cost(setup.plan, setup.agreement.codec);
		if (sl_session_cost_check(&cost, TASK_S, PIECE_MS, &fail) != SL_OK)
			fail_msg("%s: %s", found.gl_pathv[n], fail.text);
		sl_setup_close(&setup);
	}
	assert_true(n >= 3);
	globfree(&found);
	remove_roberta_base(roberta);
}

static void the_page_has_the_bound(void **state)
{
	static char page[1 << 20];
	FILE *file = fopen("docs/SECURITY.md", "r");
	char bound[128];

	assert_non_null(file);
	page[fread(page, 1, sizeof page - 1, file)] = 0;
	fclose(file);
	snprintf(bound, sizeof bound, "%d times the predicted time and %d ms", BUSY, MOMENT_MS);
	if (!strstr(page, bound))
		fail_msg("docs/SECURITY.md does not say '%s'", bound);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_task_of_minutes_is_refused),
		cmocka_unit_test(a_long_piece_is_refused),
		cmocka_unit_test(norms_of_volumes_are_made_in_pieces),
		cmocka_unit_test(honest_sessions_are_let_in),
		cmocka_unit_test(configs_that_come_with_it_are_let_in),
		cmocka_unit_test(the_worst_that_is_let_in_is_as_predicted),
		cmocka_unit_test(a_login_of_many_weights_gives_way),
		cmocka_unit_test(a_login_of_many_rotary_positions_is_refused),
		cmocka_unit_test(what_does_not_learn_costs_less),
		cmocka_unit_test(heads_and_tails_have_a_price),
		cmocka_unit_test(the_page_has_the_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
