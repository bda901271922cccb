/* train.accumulate: batches that make one step of the optimizer give head, middle and tail the gradient of one batch of
 * all their rows. So each label counts as much as any other: with class weights, in a last batch with fewer rows, and
 * for tokens that are guessed, of which each row has its own number. A batch that is skipped leaves nothing behind. */
#include <math.h>
#include <unistd.h>

#include "common/base/pool.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/asked.h"
#include "tests/support/local_gradients.h"
#include "tests/support/unit.h"

enum { ROWS = 6, MOST = 40, CLASSES = 3, VOCAB = 40, TOKENS = 105, GUESSED = 22, FEATURES = 5 };
static const char config[] =
	"{\"model_type\": \"roberta\", \"architectures\": [\"RobertaForMaskedLM\"], \"vocab_size\": 40, "
	"\"hidden_size\": 24, \"intermediate_size\": 40, \"num_hidden_layers\": 3, \"num_attention_heads\": 4, "
	"\"max_position_embeddings\": 42, \"type_vocab_size\": 1, \"layer_norm_eps\": 1e-05, \"hidden_act\": \"gelu\", "
	"\"hidden_dropout_prob\": 0.0, \"attention_probs_dropout_prob\": 0.0, \"initializer_range\": 0.2, "
	"\"pad_token_id\": 1}";
static char dir[] = "/tmp/split-accumulate-XXXXXX", path[64];
static struct sl_backend be;

static const uint32_t begin[ROWS + 1] = {0, 5, 45, 52, 60, 95, TOKENS},
				   chosen[ROWS + 1] = {0, 1, 10, 11, 13, 20, GUESSED};
static const int32_t classes[ROWS] = {0, 2, 1, 1, 0, 2};
static const float class_weight[CLASSES] = {0.3f, 4, 1.7f}, numbers[ROWS] = {3, -1, 0.5f, 2, 7, -2};

enum what { TEXTS, GUESSES, NUMBERS, WHATS };

struct data {
	int32_t token[TOKENS], guess[GUESSED];
	uint32_t place[GUESSED];
	float x[ROWS * FEATURES];
};

static void make_data(struct data *d)
{
	for (int i = 0; i < TOKENS; i++)
		d->token[i] = (i * 7 + 3) % VOCAB;
	for (int i = 0; i < GUESSED; i++)
		d->guess[i] = (i * 11 + 5) % VOCAB;
	for (int r = 0; r < ROWS; r++)
		for (uint32_t i = chosen[r]; i < chosen[r + 1]; i++)
			d->place[i] = begin[r] + (i - chosen[r]) * 3;
	for (int i = 0; i < ROWS * FEATURES; i++)
		d->x[i] = (float)(i * 37 % 19) / 9 - 1;
}

/* Rows [first, first + rows) as a batch. `offset` has room for its offsets. */
struct offsets {
	uint32_t begin[ROWS + 1], chosen[ROWS + 1], place[GUESSED];
};

static struct sl_feed batch_of(const struct data *d, enum what what, int first, int rows, struct offsets *o)
{
	for (int r = 0; r <= rows; r++) {
		o->begin[r] = begin[first + r] - begin[first];
		o->chosen[r] = chosen[first + r] - chosen[first];
	}
	for (uint32_t i = 0; i < o->chosen[rows]; i++)
		o->place[i] = d->place[chosen[first] + i] - begin[first];
	if (what == NUMBERS)
		return (struct sl_feed){.input = d->x + first * FEATURES, .target = numbers + first, .rows = rows};
	return (struct sl_feed){.input = d->token + begin[first],
				.begin = o->begin,
				.target = what == TEXTS ? classes + first : d->guess + chosen[first],
				.chosen = what == TEXTS ? NULL : o->chosen,
				.place = what == TEXTS ? NULL : o->place,
				.rows = rows};
}

struct rig {
	struct sl_plan *plan;
	struct sl_local *local;
	struct sl_weights weights;
	struct data data;
	enum what what;
};

static void rig_open(struct rig *rig, enum what what, int batch, int chunks, int accumulate, double clip_norm)
{
	struct asked a = {.agreement.agreed = sl_agreed_default()};
	struct sl_agreed *agreed = &a.agreement.agreed;
	struct sl_fail fail = {0};

	rig->what = what;
	make_data(&rig->data);
	if (what == NUMBERS)
		a.split.model = (struct sl_model_spec){
			.name = "mlp", .classes = 1, .features = FEATURES, .width = 0.25, .task = SL_LEARN_NUMBER};
	else
		a.split.model = (struct sl_model_spec){.name = "huggingface",
						       .classes = CLASSES,
						       .tokens = MOST,
						       .huggingface = dir,
						       .masked = what == GUESSES ? 0.3 : 0};
	snprintf(a.split.cut.partition, sizeof a.split.cut.partition, what == NUMBERS ? "1:-1" : "2:-2");
	agreed->batch = batch;
	agreed->chunks = chunks;
	agreed->accumulate = accumulate;
	agreed->clip_norm = clip_norm;
	agreed->optimizer.momentum = 0;
	agreed->row_tokens = what == NUMBERS ? 0 : MOST;
	agreed->chunk_tokens = what == NUMBERS ? 0 : (batch + chunks - 1) / chunks * MOST;
	if (asked_settle(&a, &fail) || plan_open(&rig->plan, &a.split, &fail) ||
	    sl_local_open(&rig->local, rig->plan, &a.agreement, NULL, &be, &fail) ||
	    sl_weights_open(&rig->weights, rig->plan->model, &fail))
		fail_msg("%s", fail.text);
	sl_weights_init(&rig->weights, rig->plan->model, 9);
	assert_int_equal(sl_local_set_weights(rig->local, &rig->weights, &fail), SL_OK);
	assert_int_equal(sl_local_use(rig->local,
				      &(struct sl_ends_use){.class_weight = what == TEXTS ? class_weight : NULL},
				      &fail),
			 SL_OK);
}

static void rig_close(struct rig *rig)
{
	sl_weights_close(&rig->weights);
	sl_local_close(rig->local);
	sl_plan_close(rig->plan);
}

static void step(struct rig *rig, uint64_t number, int first, int rows, double lr)
{
	struct sl_step_result result;
	struct sl_fail fail;
	struct offsets o;
	const struct sl_feed feed = batch_of(&rig->data, rig->what, first, rows, &o);

	if (sl_local_step(rig->local, &feed, number, lr, &result, &fail))
		fail_msg("%s", fail.text);
}

/* The gradients of all segments, one behind another; the caller frees them. */
static float *gradients(const struct rig *rig, int64_t *n)
{
	float *all;

	*n = 0;
	for (int s = 0; s < SL_SEGMENT_COUNT; s++)
		*n += rig->plan->segment[s].trainable_count;
	all = calloc((size_t)*n, sizeof *all);
	assert_non_null(all);
	*n = 0;
	for (int s = 0; s < SL_SEGMENT_COUNT; *n += rig->plan->segment[s++].trainable_count)
		assert_int_equal(local_gradients(rig->local, (enum sl_segment)s, all + *n), SL_OK);
	return all;
}

/* The norm of the difference as a share of the norm of `b`. */
static double apart(const float *a, const float *b, int64_t n)
{
	double difference = 0, norm = 0;

	for (int64_t i = 0; i < n; i++) {
		difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
		norm += (double)b[i] * (double)b[i];
	}
	assert_true(norm > 0 && isfinite(difference));
	return sqrt(difference / norm);
}

static void batches_add_up_to_one(void **state)
{
	static const struct {
		int batch, chunks;
	} cases[] = {{3, 1}, {4, 1}, {4, 2}, {5, 3}, {2, 1}, {1, 1}};

	for (int i = 0; i < 2 * WHATS; i++) {
		const enum what what = (enum what)(i / 2);
		const double clip_norm = i % 2 ? 1e-3 : 0;
		struct rig whole, parts;
		float *right, *got;
		int64_t n;

		rig_open(&whole, what, ROWS, 1, 1, clip_norm);
		step(&whole, 0, 0, ROWS, 0);
		right = gradients(&whole, &n);
		for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
			const int batch = cases[k].batch, batches = (ROWS + batch - 1) / batch;

			rig_open(&parts, what, batch, cases[k].chunks, batches, clip_norm);
			for (int round = 0; round < 2; round++) /* a step of the optimizer leaves nothing to the next */
				for (int b = 0; b < batches; b++)
					step(&parts, (uint64_t)(round * batches + b), b * batch,
					     ROWS - b * batch < batch ? ROWS - b * batch : batch, 0);
			got = gradients(&parts, &n);
			if (apart(got, right, n) > 2e-6)
				fail_msg("data %d, clipped at %g: %d batches of %d differ by %g", (int)what, clip_norm,
					 batches, batch, apart(got, right, n));
			free(got);
			rig_close(&parts);
		}
		free(right);
		rig_close(&whole);
	}
}

/* The first batch of the second step is skipped, as after NaN: what is learned is the mean over the other one. */
static void a_skipped_batch_leaves_nothing_behind(void **state)
{
	struct rig rig, alone;
	struct sl_fail fail;
	float *right, *got;
	int64_t n;

	rig_open(&alone, TEXTS, 3, 1, 1, 0);
	step(&alone, 0, 3, 3, 0);
	right = gradients(&alone, &n);
	rig_open(&rig, TEXTS, 3, 1, 2, 0);
	step(&rig, 0, 0, 3, 0);
	step(&rig, 1, 0, 3, 0);
	assert_int_equal(sl_local_set_done(rig.local, 3, &fail), SL_OK);
	step(&rig, 3, 3, 3, 0);
	got = gradients(&rig, &n);
	assert_true(apart(got, right, n) <= 1e-6);
	free(right);
	free(got);
	rig_close(&alone);
	rig_close(&rig);
}

static int open_all(void **state)
{
	static struct sl_pool *pool;
	struct sl_fail fail;
	FILE *file;

	*state = NULL;
	assert_int_equal(sl_pool_open(&pool, 1, &fail), SL_OK);
	*state = pool;
	assert_int_equal(sl_cpu_backend_open(&be, pool, &fail), SL_OK);
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/config.json", dir);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(config, file);
	return fclose(file);
}

static int close_all(void **state)
{
	be.ops->close(&be);
	sl_pool_close(*state);
	unlink(path);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(batches_add_up_to_one),
					   cmocka_unit_test(a_skipped_batch_leaves_nothing_behind)};

	return cmocka_run_group_tests(tests, open_all, close_all);
}
