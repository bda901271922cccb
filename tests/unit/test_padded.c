/* Rows that are padded to one length, compared with the same rows packed. Logits, loss and every
 * gradient agree on both sides of the usual four cuts of an encoder, with dropout after its
 * products. So padding enters no softmax, loss or sum, and its content makes no difference. As a
 * control, padding that counts as tokens does make one. */
#include <math.h>
#include <unistd.h>

#include "common/base/pool.h"
#include "kernels/cpu/cpu.h"
#include "tests/ref/ref.h"
#include "tests/support/asked.h"
#include "tests/support/local_gradients.h"
#include "tests/support/unit.h"

enum { ROWS = 6, MOST = 11, CLASSES = 3, VOCAB = 40, REAL = 31, CHUNKS = 2 };
static const uint32_t begin[ROWS + 1] = {0, 5, 6, 15, 17, 24, REAL};
static const char config[] =
	"{\"model_type\": \"roberta\", \"vocab_size\": 40, \"hidden_size\": 24, \"intermediate_size\": 40, "
	"\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"max_position_embeddings\": 13, "
	"\"type_vocab_size\": 1, \"layer_norm_eps\": 1e-05, \"hidden_act\": \"gelu\", \"hidden_dropout_prob\": 0.2, "
	"\"attention_probs_dropout_prob\": 0.0, \"initializer_range\": 0.2, \"pad_token_id\": 1}";
static char dir[] = "/tmp/split-padded-XXXXXX", path[64];

/* How rows are filled up. OTHER: with other tokens as padding. NOT: the padding counts as tokens of the row. */
enum fill { PACKED, PADDED, OTHER, NOT };

struct batch {
	int32_t token[ROWS * MOST];
	uint32_t begin[ROWS + 1], pieces[2 * ROWS + 1];
	struct sl_feed feed;
};

struct result {
	float logits[ROWS * CLASSES];
	double loss;
	float *grad[SL_SEGMENT_COUNT];
	int64_t n[SL_SEGMENT_COUNT];
};

static void make_batch(struct batch *b, enum fill fill)
{
	static const int32_t labels[ROWS] = {0, 2, 1, 1, 0, 2};
	const int32_t pad = fill == OTHER ? 7 : 1;

	for (uint32_t r = 0; r < ROWS; r++) {
		const uint32_t n = begin[r + 1] - begin[r], each = fill == PACKED ? n : MOST;

		b->begin[0] = b->pieces[0] = 0;
		b->begin[r + 1] = b->begin[r] + each;
		b->pieces[2 * r + 1] = b->begin[r] + (fill == NOT ? each : n);
		b->pieces[2 * r + 2] = b->begin[r + 1];
		for (uint32_t i = 0; i < each; i++)
			b->token[b->begin[r] + i] = i < n ? (int32_t)((begin[r] + i) * 7 + 3) % VOCAB : pad;
	}
	b->feed = (struct sl_feed){.input = b->token,
				   .begin = b->begin,
				   .target = labels,
				   .rows = ROWS,
				   .pieces = fill == PACKED ? NULL : b->pieces};
}

static void run(struct sl_backend *be, const struct sl_cut_spec *cut, enum fill fill, struct result *out)
{
	struct asked a = {.agreement.agreed = sl_agreed_default()};
	struct sl_agreed *agreed = &a.agreement.agreed;
	struct sl_step_result result;
	struct sl_local *local;
	struct sl_weights weights;
	struct sl_plan *plan;
	struct sl_fail fail = {0};
	struct batch b;

	make_batch(&b, fill);
	a.split.model =
		(struct sl_model_spec){.name = "huggingface", .classes = CLASSES, .tokens = MOST, .huggingface = dir};
	a.split.cut = *cut;
	agreed->batch = ROWS;
	agreed->chunks = CHUNKS;
	agreed->seed = 9;
	agreed->row_tokens = MOST;
	agreed->chunk_tokens = ROWS / CHUNKS * MOST;
	agreed->padded = fill != PACKED;
	if (asked_settle(&a, &fail) || plan_open(&plan, &a.split, &fail) ||
	    sl_local_open(&local, plan, &a.agreement, NULL, be, &fail) || sl_weights_open(&weights, plan->model, &fail))
		fail_msg("%s", fail.text);
	sl_weights_init(&weights, plan->model, 9);
	assert_int_equal(sl_local_set_weights(local, &weights, &fail), SL_OK);
	assert_int_equal(sl_local_use(local, &(struct sl_ends_use){.logits = out->logits}, &fail), SL_OK);
	if (sl_local_eval(local, &b.feed, 0, &result, &fail) || sl_local_set_done(local, 3, &fail) ||
	    sl_local_step(local, &b.feed, 3, 0.1, &result, &fail))
		fail_msg("%s", fail.text);
	assert_int_equal(result.tokens, fill == PACKED ? REAL : ROWS * MOST);
	out->loss = result.loss;
	for (int s = 0; s < SL_SEGMENT_COUNT; s++) {
		out->n[s] = plan->segment[s].trainable_count;
		out->grad[s] = calloc((size_t)out->n[s], sizeof *out->grad[s]);
		assert_int_equal(local_gradients(local, (enum sl_segment)s, out->grad[s]), SL_OK);
	}
	sl_weights_close(&weights);
	sl_local_close(local);
	sl_plan_close(plan);
}

static void result_close(struct result *r)
{
	for (int s = 0; s < SL_SEGMENT_COUNT; s++)
		free(r->grad[s]);
}

/* The largest difference, relative to the largest value of b. */
static double apart(const float *a, const float *b, int64_t n)
{
	double most = 0, worst = 0;

	for (int64_t i = 0; i < n; i++) {
		most = fmax(most, fabs((double)b[i]));
		worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
	}
	assert_true(most > 1e-3 && isfinite(worst));
	return worst / most;
}

static double differ(const struct result *a, const struct result *b)
{
	double worst = fmax(apart(a->logits, b->logits, ROWS * CLASSES), fabs(a->loss - b->loss));

	for (int s = 0; s < SL_SEGMENT_COUNT; s++) {
		assert_int_equal(a->n[s], b->n[s]);
		worst = fmax(worst, apart(a->grad[s], b->grad[s], a->n[s]));
	}
	return worst;
}

static void compare(struct sl_backend *be)
{
	static const struct sl_cut_spec cuts[] = {
		{.partition = "2:-2"},
		{.head_end = "encoder.layer.0.attention.output.add", .tail_begin = "encoder.layer.2"},
		{.head_end = "encoder.layer.0.attention.output", .tail_begin = "classifier"},
		{.partition = "2:-1"},
	};

	for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
		struct result packed, other;

		run(be, &cuts[i], PACKED, &packed);
		for (enum fill fill = PADDED; fill <= NOT; fill++) {
			double worst;

			run(be, &cuts[i], fill, &other);
			worst = differ(&other, &packed);
			if (!(fill == NOT ? worst > 1e-2 : worst <= 1e-5))
				fail_msg("cut %zu, filled up in way %d: off by %g", i + 1, (int)fill, worst);
			result_close(&other);
		}
		result_close(&packed);
	}
}

static void padding_changes_nothing(void **state)
{
	struct sl_backend be;
	struct sl_fail fail;
	struct sl_pool *pool;

	assert_int_equal(sl_ref_backend_open(&be, &fail), SL_OK);
	compare(&be);
	be.ops->close(&be);
	assert_int_equal(sl_pool_open(&pool, 2, &fail), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&be, pool, &fail), SL_OK);
	compare(&be);
	be.ops->close(&be);
	sl_pool_close(pool);
}

static int make_dir(void **state)
{
	FILE *file;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/config.json", dir);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(config, file);
	return fclose(file);
}

static int remove_dir(void **state)
{
	unlink(path);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(padding_changes_nothing)};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
