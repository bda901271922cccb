/* The networks through the executor, against PyTorch's runs in float64 (tests/golden/golden.py says what the
 * files hold and how they are compared): the loss of every step, every gradient, and every weight and running
 * statistic after the last step. For networks of tokens (make_encoder.py) also the logits of evaluations
 * before the first and after the last step. SPLIT_GOLDEN_PREFIX=FOLDER/NAME, cut after SPLIT_GOLDEN_HEAD_END,
 * adds a run made live (make test-torch). SPLIT_GOLDEN_FLOOR replaces GRADIENT_FLOOR. */

#include <math.h>
#include <unistd.h>

#include "client/model/weights_file.h"
#include "common/base/pool.h"
#include "kernels/cpu/cpu.h"
#include "tests/ref/ref.h"
#include "tests/support/asked.h"
#include "tests/support/local_gradients.h"
#include "tests/support/unit.h"
#include "tests/support/whole.h"

static const double TOLERANCE = 1e-4, GRADIENT_FLOOR = 1e-3;

enum { PAD = 1 }; /* the padding token, unless the run names another */

struct golden {
	struct sl_st_file *init, *grad, *after, *run;
	struct sl_plan *plan;
	struct asked asked;
	struct sl_pool *pool;
	struct sl_backend be;
	struct sl_local *local;
	struct sl_weights weights, want;
	void *input;              /* images, or tokens */
	uint32_t *begin, *pieces; /* pieces: if rows are padded, else NULL */
	uint32_t *chosen, *place; /* for language models, else NULL */
	int32_t *labels;
	int64_t rows, steps, longest;
	char folder[64];   /* with config.json; "": none */
	char network[512]; /* or split.write_network's */
	struct sl_lora lora;
	struct sl_conf_list target;
	double worst; /* largest deviation seen, relative to its scale */
	struct sl_conf_list freeze, groups;
	bool ruled; /* by these, or by clipping: starts with another run's weights; has no gradients of its own */
};

static struct sl_st_file *open_file(const char *prefix, const char *part)
{
	struct sl_st_file *file;
	struct sl_fail fail;
	char path[512];

	snprintf(path, sizeof path, "%s_%s.safetensors", prefix, part);
	if (sl_st_open(&file, path, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return file;
}

static double meta(const struct golden *g, const char *key)
{
	const char *text = sl_st_metadata(g->run, key);

	assert_non_null(text);
	return strcmp(text, "True") == 0 ? 1 : strtod(text, NULL);
}

static int32_t *whole_numbers(const struct golden *g, const char *name, int64_t *count)
{
	const struct sl_st_tensor *t = sl_st_find(g->run, name);
	int64_t *wide;
	int32_t *out;
	struct sl_fail fail;

	assert_non_null(t);
	*count = t->count;
	wide = malloc((size_t)t->count * sizeof *wide);
	out = malloc((size_t)t->count * sizeof *out);
	assert_int_equal(whole_read(g->run, t, wide, &fail), SL_OK);
	for (int64_t i = 0; i < t->count; i++)
		out[i] = (int32_t)wide[i];
	free(wide);
	return out;
}

static void read_tokens(struct golden *g)
{
	int64_t rows, tokens;
	int32_t *length = whole_numbers(g, "lengths", &rows);

	g->input = whole_numbers(g, "tokens", &tokens);
	assert_int_equal(rows, g->rows);
	g->begin = calloc((size_t)rows + 1, sizeof *g->begin);
	for (int64_t i = 0; i < rows; i++) {
		g->begin[i + 1] = g->begin[i] + (uint32_t)length[i];
		g->longest = length[i] > g->longest ? length[i] : g->longest;
	}
	assert_int_equal(g->begin[rows], tokens);
	free(length);
}

/* Reads the places of the tokens to be predicted; the labels belong to them. */
static void read_places(struct golden *g)
{
	int64_t rows, places;
	int32_t *count = whole_numbers(g, "chosen", &rows);

	g->place = (uint32_t *)whole_numbers(g, "place", &places);
	g->chosen = calloc((size_t)rows + 1, sizeof *g->chosen);
	for (int64_t i = 0; i < rows; i++)
		g->chosen[i + 1] = g->chosen[i] + (uint32_t)count[i];
	assert_int_equal(g->chosen[rows], places);
	assert_int_equal(places, g->rows);
	g->rows = rows;
	free(count);
}

/* Pads the rows to the most tokens that the network takes. */
static void pad_tokens(struct golden *g, int32_t pad)
{
	const int64_t each = (int64_t)meta(g, "tokens");
	const int32_t *packed = g->input;
	int32_t *wide = malloc((size_t)(g->rows * each) * sizeof *wide);

	g->pieces = calloc((size_t)(2 * g->rows + 1), sizeof *g->pieces);
	for (int64_t r = 0; r < g->rows; r++) {
		const uint32_t n = g->begin[r + 1] - g->begin[r];

		for (int64_t i = 0; i < each; i++)
			wide[r * each + i] = i < n ? packed[g->begin[r] + i] : pad;
		for (uint32_t i = g->chosen ? g->chosen[r] : 0; g->chosen && i < g->chosen[r + 1]; i++)
			g->place[i] += (uint32_t)(r * each) - g->begin[r];
		g->pieces[2 * r] = (uint32_t)(r * each);
		g->pieces[2 * r + 1] = (uint32_t)(r * each) + n;
	}
	for (int64_t r = 0; r <= g->rows; r++)
		g->begin[r] = (uint32_t)(r * each);
	g->pieces[2 * g->rows] = g->begin[g->rows];
	g->longest = each;
	free(g->input);
	g->input = wide;
}

static void read_batch(struct golden *g)
{
	const struct sl_st_tensor *input = sl_st_find(g->run, "input");
	struct sl_fail fail;

	g->labels = whole_numbers(g, "label", &g->rows);
	if (!input) {
		if (sl_st_find(g->run, "place"))
			read_places(g);
		read_tokens(g);
		return;
	}
	g->input = malloc((size_t)input->count * sizeof(float));
	assert_int_equal(sl_st_read_f32(g->run, input, g->input, &fail), SL_OK);
}

static void open_backend(struct golden *g, const char *name, int threads)
{
	struct sl_fail fail;

	assert_int_equal(sl_pool_open(&g->pool, threads, &fail), SL_OK);
	if (strcmp(name, "ref") == 0)
		assert_int_equal(sl_ref_backend_open(&g->be, &fail), SL_OK);
	else
		assert_int_equal(sl_cpu_backend_open(&g->be, g->pool, &fail), SL_OK);
}

/* Reads a comma-separated list; empty if the file has no such text. */
static void read_list(const struct golden *g, const char *key, struct sl_conf_list *out)
{
	const char *text = sl_st_metadata(g->run, key);

	for (*out = (struct sl_conf_list){0}; text && *text; text += *text == ',') {
		size_t len = strcspn(text, ",");

		snprintf(out->item[out->n++], sizeof out->item[0], "%.*s", (int)len, text);
		text += len;
	}
}

/* Reads the settings that differ between runs: the optimizer, clipping, frozen parameters, groups. */
static void read_rules(struct golden *g)
{
	struct sl_agreed *agreed = &g->asked.agreement.agreed;
	const char *optimizer = sl_st_metadata(g->run, "optimizer");

	read_list(g, "freeze", &g->freeze);
	read_list(g, "groups", &g->groups);
	g->asked.split.freeze = &g->freeze;
	g->asked.split.groups = &g->groups;
	for (int i = 0; i < g->groups.n; i++) {
		struct sl_conf_group group;

		assert_true(sl_conf_group_read(g->groups.item[i], &group));
		sl_conf_group_rule(&group, agreed->group[i]);
	}
	if (sl_st_metadata(g->run, "clip_norm"))
		agreed->clip_norm = meta(g, "clip_norm");
	if (sl_st_metadata(g->run, "accumulate"))
		agreed->accumulate = (int)meta(g, "accumulate");
	if (sl_st_metadata(g->run, "ema"))
		agreed->ema = meta(g, "ema");
	if (!optimizer)
		return;
	assert_string_equal(optimizer, "adamw");
	agreed->optimizer.kind = SL_CONF_ADAMW;
	agreed->optimizer.beta1 = meta(g, "beta1");
	agreed->optimizer.beta2 = meta(g, "beta2");
	agreed->optimizer.eps = meta(g, "eps");
}

/* Makes a folder with the config.json of a run. */
static void make_folder(struct golden *g, struct sl_model_spec *spec)
{
	const char *text = sl_st_metadata(g->run, "config");
	char path[80];
	FILE *file;

	if (!text)
		return;
	strcpy(g->folder, "/tmp/split-golden-XXXXXX");
	assert_non_null(mkdtemp(g->folder));
	snprintf(path, sizeof path, "%s/config.json", g->folder);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
	spec->huggingface = g->folder;
	text = sl_st_metadata(g->run, "lora");
	if (text) {
		g->target = (struct sl_conf_list){2, {"query", "value"}};
		if (sl_st_metadata(g->run, "lora.target"))
			read_list(g, "lora.target", &g->target);
		g->lora.target = &g->target;
		assert_int_equal(sscanf(text, "%d %lf", &g->lora.rank, &g->lora.alpha), 2);
		spec->lora = &g->lora;
	}
	spec->tokens = (int)meta(g, "tokens");
}

/* Reads the initial weights; for a network's file, the file's own, with which torch began as well. */
static void read_first_weights(struct golden *g)
{
	const struct sl_model *m = g->plan->model;
	struct sl_fail fail;

	if (sl_weights_load_file(m, g->init, false, g->weights.value, NULL, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	if (!g->network[0])
		return;
	if (sl_weights_load(m, g->network, SL_WEIGHTS_STRICT, g->want.value, NULL, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	for (int i = 0; i < m->graph.n_param; i++)
		assert_memory_equal(g->weights.value[i], g->want.value[i],
				    (size_t)sl_shape_count(&m->graph.param[i].shape) * sizeof(float));
}

/* Takes the cut, with inserts, from the run if it names one. */
static void read_cut(struct golden *g, struct sl_split_spec *spec)
{
	const char *head_end = sl_st_metadata(g->run, "head_end");

	if (!head_end)
		return;
	snprintf(spec->cut.head_end, sizeof spec->cut.head_end, "%s", head_end);
	snprintf(spec->cut.tail_begin, sizeof spec->cut.tail_begin, "%s", sl_st_metadata(g->run, "tail_begin"));
	snprintf(spec->insert_head, sizeof spec->insert_head, "%s", sl_st_metadata(g->run, "insert.head"));
	snprintf(spec->insert_tail, sizeof spec->insert_tail, "%s", sl_st_metadata(g->run, "insert.tail"));
}

/* How a run is cut, whether its rows are padded, and its number of chunks; 0: one. */
struct form {
	const char *head_end, *tail_begin;
	bool padded;
	int chunks;
};

static size_t logit_bytes; /* of the runs to come: bytes of logits computed at a time; 0: all */

static void golden_open(struct golden *g, const char *prefix, const char *backend, const struct form *form)
{
	struct sl_split_spec *spec = &g->asked.split;
	struct sl_agreed *agreed = &g->asked.agreement.agreed;
	struct sl_fail fail = {0};
	const char *name, *pad;
	char from[256];

	memset(g, 0, sizeof *g);
	g->asked.agreement.agreed = sl_agreed_default();
	g->after = open_file(prefix, "after");
	g->run = open_file(prefix, "run");
	g->ruled = sl_st_metadata(g->run, "from") != NULL;
	if (g->ruled) {
		const char *begun = sl_st_metadata(g->run, "from");

		snprintf(from, sizeof from, "%s%s", begun[0] == '/' ? "" : "tests/golden/", begun);
		prefix = from;
	}
	g->init = open_file(prefix, "init");
	g->grad = open_file(prefix, "grad");
	read_batch(g);
	pad = sl_st_metadata(g->run, "pad");
	if (form->padded || pad)
		pad_tokens(g, pad ? (int32_t)atoi(pad) : PAD);
	g->steps = (int64_t)meta(g, "steps");
	spec->model =
		(struct sl_model_spec){.classes = (int)meta(g, "classes"), .whole_rows = g->pieces ? g->longest : 0};
	if (sl_st_metadata(g->run, "causal"))
		spec->model.task = SL_LEARN_NEXT;
	else if (g->chosen)
		spec->model.masked = meta(g, "masked");
	make_folder(g, &spec->model);
	if (g->begin) {
		const int64_t of_chunk = form->chunks ? (g->rows + form->chunks - 1) / form->chunks : g->rows;

		agreed->row_tokens = g->longest;
		agreed->chunk_tokens =
			g->begin[g->rows] < of_chunk * g->longest ? g->begin[g->rows] : of_chunk * g->longest;
		agreed->padded = g->pieces != NULL;
		agreed->seed = (int64_t)meta(g, "seed");
	} else {
		spec->model.width = meta(g, "width");
		spec->model.image = (int)meta(g, "image");
		spec->model.cifar_stem = meta(g, "cifar_stem") != 0;
	}
	name = sl_st_metadata(g->run, "model");
	snprintf(spec->model.name, sizeof spec->model.name, "%s", name ? name : "mobilenet_v2");
	if (strcmp(spec->model.name, SL_CONF_NETWORK) == 0 || strcmp(spec->model.name, SL_CONF_NETWORK_TEXTS) == 0) {
		spec->model.tokens = g->begin ? (int)meta(g, "tokens") : 0;
		snprintf(g->network, sizeof g->network, "%s.safetensors", prefix);
		spec->model.network = g->network;
	}
	agreed->optimizer.nesterov = sl_st_metadata(g->run, "nesterov") != NULL;
	snprintf(spec->cut.head_end, sizeof spec->cut.head_end, "%s", form->head_end);
	snprintf(spec->cut.tail_begin, sizeof spec->cut.tail_begin, "%s", form->tail_begin ? form->tail_begin : "");
	read_cut(g, spec);
	agreed->batch = (int)g->rows;
	agreed->chunks = form->chunks ? form->chunks : 1;
	agreed->optimizer.momentum = meta(g, "momentum");
	agreed->optimizer.weight_decay = meta(g, "weight_decay");
	read_rules(g);
	if (spec->model.lora)
		g->freeze.n = 0; /* torch was told which parameters the model freezes itself */
	if (asked_settle(&g->asked, &fail))
		fail_msg("%s", fail.text);
	if (plan_open(&g->plan, spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	open_backend(g, backend, 2);
	g->be.logit_bytes = logit_bytes;
	assert_int_equal(sl_local_open(&g->local, g->plan, &g->asked.agreement, NULL, &g->be, &fail), SL_OK);
	assert_int_equal(sl_weights_open(&g->weights, g->plan->model, &fail), SL_OK);
	assert_int_equal(sl_weights_open(&g->want, g->plan->model, &fail), SL_OK);
	read_first_weights(g);
	assert_int_equal(sl_local_set_weights(g->local, &g->weights, &fail), SL_OK);
}

static void golden_close(struct golden *g)
{
	sl_local_close(g->local);
	g->be.ops->close(&g->be);
	sl_pool_close(g->pool);
	sl_weights_close(&g->weights);
	sl_weights_close(&g->want);
	sl_plan_close(g->plan);
	free(g->input);
	free(g->begin);
	free(g->pieces);
	free(g->chosen);
	free(g->place);
	free(g->labels);
	if (g->folder[0]) {
		char path[80];

		snprintf(path, sizeof path, "%s/config.json", g->folder);
		unlink(path);
		rmdir(g->folder);
	}
	sl_st_close(g->init);
	sl_st_close(g->grad);
	sl_st_close(g->after);
	sl_st_close(g->run);
}

static double largest(const float *x, int64_t n)
{
	double most = 0;

	for (int64_t i = 0; i < n; i++)
		most = fmax(most, fabs((double)x[i]));
	return most;
}

/* |got - want| ≤ 1e-4 · max(largest |want|, floor), per tensor. */
static void compare(struct golden *g, const char *what, const char *name, const float *got, const float *want,
		    int64_t n, double floor)
{
	double scale = fmax(largest(want, n), floor), worst = 0;

	for (int64_t i = 0; i < n; i++) {
		double d = fabs((double)got[i] - (double)want[i]);

		if (!(d <= worst)) /* NaN too */
			worst = d;
	}
	if (!(worst <= TOLERANCE * scale))
		fail_msg("%s of %s: off by %g where the largest is %g", what, name, worst, scale);
	if (scale > 0)
		g->worst = fmax(g->worst, worst / scale);
}

static void compare_gradients(struct golden *g)
{
	const struct sl_model *m = g->plan->model;
	const char *given = getenv("SPLIT_GOLDEN_FLOOR");
	const double floor = given ? atof(given) : GRADIENT_FLOOR;
	double most = 0;
	struct sl_fail fail;

	for (int i = 0; i < m->graph.n_param; i++) {
		if (m->graph.param[i].role != SL_LEARNS)
			continue;
		if (sl_weights_read_param(g->grad, m->graph.param[i].name, &m->file[i], g->want.value[i], &fail) !=
		    SL_OK)
			fail_msg("%s", fail.text);
		most = fmax(most, largest(g->want.value[i], sl_shape_count(&m->graph.param[i].shape)));
	}
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		const struct sl_plan_segment *s = &g->plan->segment[which];
		float *range = malloc((size_t)s->trainable_count * sizeof *range + 1);

		assert_int_equal(local_gradients(g->local, (enum sl_segment)which, range), SL_OK);
		for (int i = 0; i < s->n_param; i++) {
			const struct sl_segment_param *p = &s->param[i];

			if (m->graph.param[p->model_param].role == SL_LEARNS)
				compare(g, "gradient", m->graph.param[p->model_param].name, range + p->offset,
					g->want.value[p->model_param], p->count, floor * most);
		}
		free(range);
	}
}

static void compare_weights(struct golden *g)
{
	const struct sl_model *m = g->plan->model;
	struct sl_fail fail;

	assert_int_equal(sl_local_get_weights(g->local, &g->weights), SL_OK);
	if (sl_weights_load_file(m, g->after, false, g->want.value, NULL, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	for (int i = 0; i < m->graph.n_param; i++)
		compare(g, "value after the last step", m->graph.param[i].name, g->weights.value[i], g->want.value[i],
			sl_shape_count(&m->graph.param[i].shape), 0);
}

/* The last tokens of the first row are each the likeliest after the tokens before. */
static void check_greedy(struct golden *g, const float *logits)
{
	const char *count = sl_st_metadata(g->run, "greedy");
	const int words = g->plan->model->classes, last = (int)g->chosen[1];

	for (int i = count ? last - atoi(count) : last; i < last; i++) {
		const float *x = logits + (int64_t)i * words;
		int best = 0;

		for (int w = 1; w < words; w++)
			best = x[w] > x[best] ? w : best;
		assert_int_equal(best, g->labels[i]);
	}
}

/* Compares the batch's logits with those that the file has under `name`. */
static void compare_logits(struct golden *g, const char *name, int64_t number)
{
	const struct sl_feed feed = {.input = g->input,
				     .begin = g->begin,
				     .target = g->labels,
				     .rows = g->rows,
				     .pieces = g->pieces,
				     .chosen = g->chosen,
				     .place = g->place};
	const int64_t count = sl_feed_answers(&feed) * g->plan->model->classes;
	float *got = malloc((size_t)count * sizeof *got), *want = malloc((size_t)count * sizeof *want);
	struct sl_step_result result;
	struct sl_fail fail = {0};

	assert_int_equal(sl_st_find(g->run, name)->count, count);
	assert_int_equal(sl_st_read_f32(g->run, sl_st_find(g->run, name), want, &fail), SL_OK);
	assert_int_equal(sl_local_use(g->local, &(struct sl_ends_use){.logits = got}, &fail), SL_OK);
	if (sl_local_eval(g->local, &feed, (uint64_t)number, &result, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	compare(g, "logits", name, got, want, count, 0);
	if (number == 0 && g->chosen)
		check_greedy(g, got);
	free(got);
	free(want);
}

/* Changes the labels, so that no two accumulated batches are the same. */
static void roll_labels(struct golden *g, int64_t step)
{
	const int classes = g->plan->model->classes;

	for (int64_t i = 0; i < g->rows && g->asked.agreement.agreed.accumulate > 1 && step; i++)
		g->labels[i] = (g->labels[i] + 1) % classes;
}

static void run_form(const char *prefix, const char *backend, const struct form *form)
{
	struct golden g;
	float lr[16], loss[16];
	int64_t correct[16];
	struct sl_step_result result;
	struct sl_fail fail = {0};

	golden_open(&g, prefix, backend, form);
	assert_in_range(g.steps, 1, 16);
	assert_int_equal(sl_st_read_f32(g.run, sl_st_find(g.run, "lr"), lr, &fail), SL_OK);
	assert_int_equal(sl_st_read_f32(g.run, sl_st_find(g.run, "loss"), loss, &fail), SL_OK);
	assert_int_equal(whole_read(g.run, sl_st_find(g.run, "correct"), correct, &fail), SL_OK);
	if (g.begin)
		compare_logits(&g, "logits.first", 0);
	for (int64_t step = 0; step < g.steps; step++) {
		float got;

		roll_labels(&g, step);
		if (sl_local_step(g.local,
				  &(struct sl_feed){.input = g.input,
						    .begin = g.begin,
						    .target = g.labels,
						    .rows = g.rows,
						    .pieces = g.pieces,
						    .chosen = g.chosen,
						    .place = g.place},
				  (uint64_t)step, (double)lr[step], &result, &fail) != SL_OK)
			fail_msg("%s", fail.text);
		got = (float)result.loss;
		compare(&g, "loss", "a step", &got, &loss[step], 1, 0);
		assert_int_equal(result.correct, correct[step]);
		if (step == 0 && !g.ruled)
			compare_gradients(&g);
	}
	compare_weights(&g);
	if (g.begin)
		compare_logits(&g, "logits.eval", g.steps);
	printf("  %s, %s, head_end %s%s: worst deviation %.1e of a tensor's largest value\n", prefix, backend,
	       g.asked.split.cut.head_end, g.pieces ? ", padded" : "", g.worst);
	golden_close(&g);
}

static void run_golden(const char *prefix, const char *backend, const char *head_end)
{
	run_form(prefix, backend, &(struct form){.head_end = head_end});
}

static void torchvision_form(void **state)
{
	run_golden("tests/golden/mobilenet_v2", "cpu", "features.0");
	run_golden("tests/golden/mobilenet_v2", "cpu", "features.0.1");
}

static void cifar_form(void **state)
{
	run_golden("tests/golden/mobilenet_v2_cifar", "cpu", "features.0");
	run_golden("tests/golden/mobilenet_v2_cifar", "cpu", "features.1");
}

static void reference_backend(void **state)
{
	run_golden("tests/golden/mobilenet_v2_cifar", "ref", "features.0");
}

/* train.freeze, train.clip_norm and train.groups (make_rules.py), cut so that the rules differ
 * between the parts. */
static void rules(void **state)
{
	run_golden("tests/golden/rules_frozen", "cpu", "features.0");
	run_golden("tests/golden/rules_frozen_front", "cpu", "features.3");
	run_golden("tests/golden/rules_groups", "cpu", "features.0.1");
	run_golden("tests/golden/rules_groups", "ref", "features.2");
	run_golden("tests/golden/rules_groups_adamw", "cpu", "features.1");
	run_golden("tests/golden/rules_accumulate", "cpu", "features.2");
	run_golden("tests/golden/rules_accumulate_ema", "cpu", "features.1");
	run_golden("tests/golden/rules_accumulate_ema", "ref", "features.2");
}

static void resnet9(void **state)
{
	run_golden("tests/golden/resnet9", "cpu", "prep");
	run_golden("tests/golden/resnet9", "cpu", "layer1_conv");
	run_golden("tests/golden/resnet9", "ref", "layer2");
}

static void networks(void **state)
{
	run_golden("tests/golden/resnet18", "cpu", "maxpool");
	run_golden("tests/golden/resnet18", "ref", "layer2.0.add");
	run_golden("tests/golden/resnet50", "cpu", "relu");
	run_golden("tests/golden/resnet50", "cpu", "layer2.0.relu");
	run_golden("tests/golden/resnext50_32x4d", "cpu", "relu");
	run_golden("tests/golden/mobilenet_v2_pool4", "cpu", "features.0.1");
	if (!getenv("SPLIT_QUICK")) { /* test_ops compares the two backends op by op */
		run_golden("tests/golden/resnext50_32x4d", "ref", "layer3.0.relu");
		run_golden("tests/golden/mobilenet_v2_pool4", "ref", "features.7");
	}
	run_golden("tests/golden/mobilenet_v2_relu", "cpu", "relu1");
	run_golden("tests/golden/mobilenet_v2_relu", "ref", "layers.2.add");
	run_golden("tests/golden/alexnet", "cpu", "features.0");
	run_golden("tests/golden/vgg16", "cpu", "features.4");
	run_golden("tests/golden/vgg16", "ref", "features.0");
}

static void onnx(void **state)
{
	run_golden("tests/golden/onnx_small", "cpu", "stem");
	run_golden("tests/golden/onnx_small", "cpu", "down.1");
	run_golden("tests/golden/onnx_small", "ref", "stem.0");
	run_golden("tests/golden/onnx_small_adamw", "cpu", "block");
	run_golden("tests/golden/onnx_wide", "cpu", "stem");
	run_golden("tests/golden/onnx_wide", "cpu", "excite1");
	run_golden("tests/golden/onnx_wide", "ref", "stem.0");
	run_golden("tests/golden/onnx_many", "cpu", "stem.0");
	run_form("tests/golden/onnx_many", "cpu", &(struct form){"stem.0", "head.2", false, 1});
	run_golden("tests/golden/onnx_many", "ref", "stem.0");
	run_golden("tests/golden/onnx_steps", "cpu", "stem");
	run_golden("tests/golden/onnx_steps", "ref", "stem");
	run_golden("tests/golden/onnx_text", "cpu", "emb");
	run_form("tests/golden/onnx_text", "cpu", &(struct form){"layers.0.self_attn", "fc", true, 2});
	run_golden("tests/golden/onnx_text", "ref", "");
	run_golden("tests/golden/onnx_rows", "cpu", "emb");
	run_form("tests/golden/onnx_rows", "cpu", &(struct form){"", "fc", true, 2});
	run_golden("tests/golden/onnx_rows", "ref", "emb");
}

/* Cut at four places; with dropout, whose masks torch was given. */
static void encoders(void **state)
{
	run_golden("tests/golden/roberta", "cpu", "embeddings");
	run_golden("tests/golden/roberta", "ref", "encoder.layer.0.attention.output");
	run_golden("tests/golden/roberta_dropout", "cpu", "encoder.layer.0.attention.output.add");
	run_golden("tests/golden/roberta_dropout", "ref", "encoder.layer.0");
	run_golden("tests/golden/roberta_lora", "cpu", "encoder.layer.0");
	run_golden("tests/golden/roberta_lora", "ref", "embeddings");
	run_golden("tests/golden/bert", "cpu", "embeddings");
	run_golden("tests/golden/bert", "ref", "encoder.layer.0");
	run_golden("tests/golden/electra", "cpu", "electra.embeddings_project");
	run_golden("tests/golden/distilbert", "cpu", "transformer.layer.0.sa_layer_norm");
	run_golden("tests/golden/modernbert", "cpu", "embeddings");
	run_form("tests/golden/modernbert", "ref", &(struct form){"layers.0", "final_norm", false, 2});
	run_form("tests/golden/modernbert_lora", "cpu", &(struct form){"embeddings", "head", false, 1});
	run_form("tests/golden/roberta", "cpu", &(struct form){"embeddings", NULL, true, 1});
	run_form("tests/golden/bert", "ref", &(struct form){"embeddings", "classifier", true, 1});
}

/* Decaying inserts along features and tokens at both cuts, over two reductions of their width. */
static void pairs(void **state)
{
	run_form("tests/golden/roberta_pairs", "cpu", &(struct form){"", NULL, true, 1});
	run_form("tests/golden/roberta_pairs", "cpu", &(struct form){"", NULL, true, 2});
	run_form("tests/golden/roberta_pairs", "ref", &(struct form){"", NULL, true, 3});
}

/* Masked language models: the decoder is the embedding's table, or its own (bert_masked). Chunks
 * give the same mean over all chosen tokens as one chunk does. */
static void masked(void **state)
{
	run_golden("tests/golden/roberta_masked", "cpu", "embeddings");
	logit_bytes = 1;
	run_form("tests/golden/roberta_masked", "cpu", &(struct form){"embeddings", NULL, false, 2});
	logit_bytes = 1 << 20;
	run_form("tests/golden/bert_masked", "cpu", &(struct form){"embeddings", NULL, true, 1});
	logit_bytes = 0;
	run_form("tests/golden/roberta_masked", "ref", &(struct form){"encoder.layer.0", NULL, true, 2});
	run_form("tests/golden/roberta_masked", "cpu", &(struct form){"embeddings", "encoder.layer.1", false, 3});
	run_form("tests/golden/bert_masked", "cpu", &(struct form){"embeddings", NULL, false, 2});
	run_golden("tests/golden/electra_masked", "cpu", "electra.embeddings_project");
	run_form("tests/golden/modernbert_masked", "cpu", &(struct form){"embeddings", NULL, false, 2});
	run_form("tests/golden/distilbert_masked", "ref", &(struct form){"embeddings", NULL, false, 3});
}

/* Decoders: each token predicts the next one. One cut lies inside a layer. */
static void causal(void **state)
{
	run_form("tests/golden/llama", "cpu", &(struct form){"embed_tokens", "norm", false, 1});
	run_form("tests/golden/llama", "cpu", &(struct form){"layers.0", "norm", false, 2});
	logit_bytes = 1;
	run_form("tests/golden/llama", "cpu", &(struct form){"embed_tokens", "norm", false, 2});
	run_form("tests/golden/llama_lora", "cpu", &(struct form){"layers.0", "norm", false, 1});
	logit_bytes = 1 << 20;
	run_form("tests/golden/llama", "ref", &(struct form){"embed_tokens", "norm", false, 1});
	run_form("tests/golden/granite", "cpu", &(struct form){"embed_tokens", "norm", false, 2});
	run_form("tests/golden/granite", "ref", &(struct form){"layers.0", "norm", false, 1});
	run_form("tests/golden/olmo2", "cpu", &(struct form){"embed_tokens", "layers.1", false, 3});
	run_form("tests/golden/olmo2", "ref", &(struct form){"layers.0.add_attention", "norm", false, 1});
	run_form("tests/golden/gpt2", "cpu", &(struct form){"wte", "ln_f", true, 1});
	logit_bytes = 0;
	run_form("tests/golden/llama", "ref", &(struct form){"embed_tokens", "layers.1", true, 3});
	run_form("tests/golden/llama_wide", "cpu", &(struct form){"layers.0.add_attention", "norm", false, 3});
	run_form("tests/golden/llama_lora", "cpu", &(struct form){"embed_tokens", "norm", false, 1});
	run_form("tests/golden/llama_lora", "ref", &(struct form){"layers.0", "norm", true, 2});
	run_form("tests/golden/mistral", "cpu", &(struct form){"embed_tokens", "norm", false, 1});
	run_form("tests/golden/qwen2", "cpu", &(struct form){"embed_tokens", "norm", false, 2});
	run_form("tests/golden/llama3", "cpu", &(struct form){"embed_tokens", "norm", false, 2});
	run_form("tests/golden/llama3", "ref", &(struct form){"layers.0", "norm", false, 1});
	run_form("tests/golden/qwen3", "cpu", &(struct form){"embed_tokens", "norm", false, 1});
	run_form("tests/golden/qwen3", "ref", &(struct form){"layers.0", "norm", true, 3});
	run_form("tests/golden/phi3", "cpu", &(struct form){"embed_tokens", "layers.1", false, 3});
	run_form("tests/golden/phi3_lora", "cpu", &(struct form){"layers.0", "norm", false, 1});
	run_form("tests/golden/phi4", "cpu", &(struct form){"embed_tokens", "norm", false, 2});
	run_form("tests/golden/phi4", "ref", &(struct form){"layers.0", "norm", true, 1});
	run_form("tests/golden/phi4_lora", "cpu", &(struct form){"layers.0", "norm", false, 1});
	run_form("tests/golden/gemma2", "cpu", &(struct form){"layers.0", "norm", false, 2});
	run_form("tests/golden/gemma2", "ref", &(struct form){"embed_tokens", "layers.1", false, 3});
	run_form("tests/golden/gemma2_lora", "cpu", &(struct form){"layers.0", "norm", true, 1});
	run_form("tests/golden/gemma", "cpu", &(struct form){"embed_tokens", "norm", false, 2});
	run_form("tests/golden/gemma", "ref", &(struct form){"layers.0.add_attention", "norm", false, 1});
	run_form("tests/golden/gemma3", "cpu", &(struct form){"layers.0", "layers.2", false, 1});
	run_form("tests/golden/gemma3", "ref", &(struct form){"embed_tokens", "norm", false, 3});
	run_form("tests/golden/gemma3_lora", "cpu", &(struct form){"layers.0", "norm", true, 2});
	run_form("tests/golden/gpt2", "cpu", &(struct form){"wte", "ln_f", false, 2});
	run_form("tests/golden/gpt2", "ref", &(struct form){"h.0", "ln_f", true, 1});
	run_form("tests/golden/gpt2_lora", "cpu", &(struct form){"h.0", "ln_f", false, 3});
}

static void live(void **state)
{
	const char *prefix = getenv("SPLIT_GOLDEN_PREFIX"), *head_end = getenv("SPLIT_GOLDEN_HEAD_END");
	const char *tail_begin = getenv("SPLIT_GOLDEN_TAIL_BEGIN");

	if (!prefix) {
		print_message("SKIP: SPLIT_GOLDEN_PREFIX is not set (make test-torch sets it)\n");
		skip();
	}
	run_form(prefix, "cpu",
		 &(struct form){.head_end = head_end ? head_end : "features.0.1", .tail_begin = tail_begin});
}

/* usage: test_golden [TEST] */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(torchvision_form),
		cmocka_unit_test(cifar_form),
		cmocka_unit_test(reference_backend),
		cmocka_unit_test(rules),
		cmocka_unit_test(resnet9),
		cmocka_unit_test(networks),
		cmocka_unit_test(encoders),
		cmocka_unit_test(pairs),
		cmocka_unit_test(onnx),
		cmocka_unit_test(masked),
		cmocka_unit_test(causal),
		cmocka_unit_test(live),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
