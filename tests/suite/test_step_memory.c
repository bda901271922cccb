/* A step allocates nothing: after a run's first steps, no byte is requested of malloc, calloc,
 * realloc or arenas (--wrap). For images and for ragged texts, with two threads, chunks, codecs,
 * clipping, postponed rows of an embedding, LoRA. */
#include <unistd.h>

#include "client/pass/local.h"
#include "common/base/pool.h"
#include "kernels/cpu/cpu.h"
#include "tests/support/asked.h"
#include "tests/support/counted/counted.h"
#include "tests/support/unit.h"

enum { ROWS = 8, IMAGE = 32, LONGEST = 12, VOCAB = 60, CLASSES = 3, FIRST = 3, STEPS = 9 };

static const char config[] = "{\"model_type\": \"roberta\", \"vocab_size\": 60, \"hidden_size\": 24, "
			     "\"intermediate_size\": 40, \"num_hidden_layers\": 2, \"num_attention_heads\": 3, "
			     "\"max_position_embeddings\": 22, \"type_vocab_size\": 1, \"layer_norm_eps\": 1e-5, "
			     "\"hidden_act\": \"gelu\", \"hidden_dropout_prob\": 0.1, \"pad_token_id\": 1, "
			     "\"attention_probs_dropout_prob\": 0.1, \"initializer_range\": 0.02}";

struct run {
	struct asked asked;
	struct sl_conf_list target;
	struct sl_lora lora;
	struct sl_pool *pool;
	struct sl_backend be;
	struct sl_plan *plan;
	struct sl_weights weights;
	struct sl_local *local;
};

static void write_config(const char *folder)
{
	char path[80];
	FILE *file;

	snprintf(path, sizeof path, "%s/config.json", folder);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(config, file);
	assert_int_equal(fclose(file), 0);
}

static void ask(struct run *r, const char *model, const char *folder, const char *codec)
{
	struct sl_agreed *agreed = &r->asked.agreement.agreed;
	struct sl_split_spec *spec = &r->asked.split;

	*r = (struct run){.asked.agreement.agreed = sl_agreed_default()};
	spec->model = (struct sl_model_spec){.width = 0.25, .classes = CLASSES, .image = IMAGE};
	snprintf(spec->model.name, sizeof spec->model.name, "%s", model);
	strcpy(spec->cut.partition, "1:-1");
	if (folder) {
		r->target = (struct sl_conf_list){2, {"query", "value"}};
		r->lora = (struct sl_lora){.rank = 2, .alpha = 4, .target = &r->target};
		spec->model = (struct sl_model_spec){
			.name = "huggingface", .classes = CLASSES, .tokens = LONGEST, .huggingface = folder};
		agreed->row_tokens = LONGEST;
		agreed->chunk_tokens = LONGEST * ROWS / 2;
		agreed->optimizer.kind = SL_CONF_ADAMW;
		agreed->optimizer.beta1 = 0.9;
		agreed->optimizer.beta2 = 0.98;
		agreed->optimizer.eps = 1e-6;
		agreed->clip_norm = 1;
	}
	agreed->batch = ROWS;
	agreed->chunks = 2;
	for (int i = 0; i < SL_DIR_COUNT; i++)
		snprintf(agreed->codec[i], sizeof agreed->codec[i], "%s",
			 i == SL_DIR_HEAD_ACT || i == SL_DIR_HEAD_GRAD ? codec : "topk:0.2|quant:8");
}

static void open_run(struct run *r)
{
	struct sl_fail fail = {0};

	if (asked_settle(&r->asked, &fail) != SL_OK || plan_open(&r->plan, &r->asked.split, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(sl_pool_open(&r->pool, 2, &fail), SL_OK);
	assert_int_equal(sl_cpu_backend_open(&r->be, r->pool, &fail), SL_OK);
	assert_int_equal(sl_weights_open(&r->weights, r->plan->model, &fail), SL_OK);
	sl_weights_init(&r->weights, r->plan->model, 7);
	if (sl_local_open(&r->local, r->plan, &r->asked.agreement, NULL, &r->be, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_int_equal(sl_local_set_weights(r->local, &r->weights, &fail), SL_OK);
}

static void close_run(struct run *r)
{
	sl_local_close(r->local);
	sl_weights_close(&r->weights);
	r->be.ops->close(&r->be);
	sl_pool_close(r->pool);
	sl_plan_close(r->plan);
}

/* Trains a step on other rows, with other lengths. */
static void step_on(struct run *r, bool text, uint64_t number)
{
	static float image[ROWS * IMAGE * IMAGE * 3];
	static int32_t token[ROWS * LONGEST], label[ROWS];
	uint32_t begin[ROWS + 1] = {0};
	struct sl_step_result result;
	struct sl_fail fail;

	for (uint32_t i = 0; i < ROWS; i++) {
		begin[i + 1] = begin[i] + 1 + (uint32_t)(5 * i + 3 * number) % LONGEST;
		label[i] = (int32_t)(i % CLASSES);
	}
	for (uint32_t i = 0; i < ROWS * LONGEST; i++)
		token[i] = (int32_t)(3 + (7 * i + 11 * number) % (VOCAB - 3));
	for (uint32_t i = 0; i < ROWS * IMAGE * IMAGE * 3; i++)
		image[i] = (float)((i * 31 + number * 17) % 101) / 50 - 1;
	if (sl_local_step(r->local,
			  &(struct sl_feed){.input = text ? (const void *)token : image,
					    .begin = text ? begin : NULL,
					    .target = label,
					    .rows = ROWS},
			  number, 0.01, &result, &fail) != SL_OK)
		fail_msg("%s", fail.text);
}

static void nothing_is_allocated(const char *model, const char *folder, bool lora, const char *codec)
{
	struct run r;
	struct sl_memory taken;

	ask(&r, model, folder, codec);
	if (lora)
		r.asked.split.model.lora = &r.lora;
	open_run(&r);
	for (uint64_t i = 0; i < FIRST; i++)
		step_on(&r, folder, i);
	counted_begin();
	for (uint64_t i = FIRST; i < STEPS; i++)
		step_on(&r, folder, i);
	taken = counted_end();
	if (sl_memory_total(taken))
		fail_msg("%s with %s%s: %d steps allocated %llu bytes", model, codec, lora ? ", LoRA" : "",
			 STEPS - FIRST, (unsigned long long)sl_memory_total(taken));
	close_run(&r);
}

static const char *const codecs[] = {"none", "quant:8", "sortquant:6+2", "topk:0.1", "lowrank:2"};
enum { CODECS = sizeof codecs / sizeof codecs[0] };

static void steps_of_images(void **state)
{
	for (int i = 0; i < CODECS; i++)
		nothing_is_allocated("mobilenet_v2", NULL, false, codecs[i]);
	nothing_is_allocated("resnet9", NULL, false, "none");
}

static void steps_of_texts(void **state)
{
	char folder[] = "/tmp/split-steps-XXXXXX", path[80];

	assert_non_null(mkdtemp(folder));
	write_config(folder);
	for (int i = 0; i < CODECS; i++)
		nothing_is_allocated("huggingface", folder, i % 2, codecs[i]);
	snprintf(path, sizeof path, "%s/config.json", folder);
	unlink(path);
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(steps_of_images), cmocka_unit_test(steps_of_texts)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
