/* Networks from Hugging Face folders: what config.json may contain, the graph
 * and its cuts, and weights with transformers' names, in one file or several. */
#include <unistd.h>

#include "client/model/adapter_file.h"
#include "client/model/huggingface.h"
#include "client/model/weights_file.h"
#include "common/graph/cut.h"
#include "tests/support/unit.h"

static const char base[] =
	"{\"model_type\": \"roberta\", \"architectures\": [\"RobertaForMaskedLM\"], \"vocab_size\": 50265, "
	"\"hidden_size\": 768, \"intermediate_size\": 3072, \"num_hidden_layers\": 12, "
	"\"num_attention_heads\": 12, \"max_position_embeddings\": 514, \"type_vocab_size\": 1, "
	"\"layer_norm_eps\": 1e-05, \"pad_token_id\": 1, \"hidden_act\": \"gelu\", "
	"\"position_embedding_type\": \"absolute\", \"bos_token_id\": 0, \"use_cache\": true}";
static const char toy[] =
	"{\"model_type\": \"roberta\", \"vocab_size\": 11, \"hidden_size\": 6, \"intermediate_size\": 8, "
	"\"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"max_position_embeddings\": 9, "
	"\"type_vocab_size\": 1}";

static char dir[] = "/tmp/split-huggingface-XXXXXX";

static const char *in_dir(const char *name)
{
	static char path[4][256];
	static int n;

	snprintf(path[++n % 4], sizeof path[0], "%s/%s", dir, name);
	return path[n % 4];
}

static void put(const char *name, const char *text)
{
	FILE *file = fopen(in_dir(name), "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static int make_dir(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	static const char *const names[] = {"config.json",     "model.safetensors", "model.safetensors.index.json",
					    "one.safetensors", "two.safetensors",   "vocab.txt",
					    "tokenizer.json",  "pytorch_model.bin", "adapter_config.json"};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		unlink(in_dir(names[i]));
	return rmdir(dir);
}

/* `text` with the first `from` replaced. */
static const char *with(const char *text, const char *from, const char *to)
{
	static char all[2][2048];
	static int n;
	char *out = all[++n % 2];
	const char *at = strstr(text, from);

	assert_non_null(at);
	snprintf(out, sizeof all[0], "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
	return out;
}

static struct sl_model *open_model(const char *config, int tokens)
{
	const struct sl_model_spec spec = {.name = "huggingface", .classes = 2, .tokens = tokens, .huggingface = dir};
	struct sl_model *m = NULL;
	struct sl_fail fail;

	put("config.json", config);
	if (sl_model_open(&m, &spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return m;
}

static int64_t parameters(const struct sl_model *m, const char *prefix)
{
	int64_t n = 0;

	for (int i = 0; i < m->graph.n_param; i++)
		if (strncmp(m->graph.param[i].name, prefix, strlen(prefix)) == 0)
			n += sl_shape_count(&m->graph.param[i].shape);
	return n;
}

/* The parameters of roberta-base, -large and distilroberta with two classes are as many as in transformers. */
static void sizes(void **state)
{
	struct sl_model *m = open_model(base, 128);
	char large[2048];

	assert_int_equal(parameters(m, ""), 124647170);
	assert_int_equal(parameters(m, "classifier."), 592130);
	assert_int_equal(m->vocab, 50265);
	assert_string_equal(m->unit[0].name, "embeddings");
	assert_string_equal(m->unit[12].name, "encoder.layer.11");
	assert_string_equal(m->unit[13].name, "classifier");
	sl_model_close(m);
	m = open_model(with(base, "_layers\": 12", "_layers\": 6"), 128);
	assert_int_equal(parameters(m, ""), 82119938);
	sl_model_close(m);
	snprintf(large, sizeof large, "%s", with(base, "\"hidden_size\": 768", "\"hidden_size\": 1024"));
	snprintf(large, sizeof large, "%s", with(large, "_layers\": 12", "_layers\": 24"));
	snprintf(large, sizeof large, "%s", with(large, "_heads\": 12", "_heads\": 16"));
	m = open_model(with(large, "_size\": 3072", "_size\": 4096"), 512);
	assert_int_equal(parameters(m, ""), 355361794);
	sl_model_close(m);
}

/* So are those of bert-base-uncased, distilbert-base-uncased and electra-small. */
static void other_families(void **state)
{
	static const char distil[] = "{\"model_type\": \"distilbert\", \"vocab_size\": 30522, \"dim\": 768, "
				     "\"hidden_dim\": 3072, \"n_layers\": 6, \"n_heads\": 12, "
				     "\"max_position_embeddings\": 512}";
	static char bert[2048], electra[2048];
	struct sl_model *m;

	snprintf(bert, sizeof bert, "%s", with(base, "\"roberta\"", "\"bert\", \"sep_token_id\": 102"));
	snprintf(bert, sizeof bert, "%s", with(bert, "50265", "30522"));
	snprintf(bert, sizeof bert, "%s", with(bert, "514", "512"));
	snprintf(bert, sizeof bert, "%s", with(bert, "_size\": 1,", "_size\": 2,"));
	m = open_model(bert, 512);
	assert_int_equal(parameters(m, ""), 109483778);
	assert_string_equal(m->unit[13].name, "pooler");
	sl_model_close(m);
	m = open_model(distil, 512);
	assert_int_equal(parameters(m, ""), 66955010);
	assert_string_equal(m->unit[1].name, "transformer.layer.0");
	sl_model_close(m);
	snprintf(electra, sizeof electra, "%s", with(bert, "\"bert\"", "\"electra\", \"embedding_size\": 128"));
	snprintf(electra, sizeof electra, "%s", with(electra, "_size\": 768", "_size\": 256"));
	snprintf(electra, sizeof electra, "%s", with(electra, "_size\": 3072", "_size\": 1024"));
	snprintf(electra, sizeof electra, "%s", with(electra, "_heads\": 12", "_heads\": 4"));
	for (int i = 0; i < 2; i++) { /* 128 is also the default */
		m = open_model(i ? with(electra, "\"embedding_size\": 128, ", "") : electra, 512);
		assert_int_equal(parameters(m, ""), 13549314);
		sl_model_close(m);
	}
}

/* DistilBERT's layer norms have an eps of 1e-12, also where config.json names another, as it may for BERT. */
static void distilbert_eps(void **state)
{
	static const char distil[] =
		"{\"model_type\": \"distilbert\", \"vocab_size\": 11, \"dim\": 6, \"hidden_dim\": 8, "
		"\"n_layers\": 2, \"n_heads\": 2, \"max_position_embeddings\": 9, "
		"\"layer_norm_eps\": 1e-05}";
	const char *const text[] = {distil, with(with(toy, "\"roberta\"", "\"bert\", \"sep_token_id\": 2"), "{",
						 "{\"layer_norm_eps\": 1e-05, ")};

	for (int i = 0; i < 2; i++) {
		struct sl_hf_config config;
		struct sl_fail fail;

		assert_int_equal(sl_hf_config_parse(&config, "c",
						    (struct sl_bytes){(const uint8_t *)text[i], strlen(text[i])},
						    &fail),
				 SL_OK);
		assert_true(config.eps == (i ? 1e-5 : 1e-12));
	}
}

/* The id of the token behind which token types change, from config.json, vocab.txt or tokenizer.json. */
static void separators(void **state)
{
	static const struct {
		const char *key, *words, *json;
		int mark;
	} want[] = {{", \"sep_token_id\": 4", NULL, NULL, 4},
		    {"", "[PAD]\n[CLS]\r\n[SEP]\r\na", NULL, 2},
		    {"", "[PAD]\n[SEP]", NULL, 1},
		    {"", "a\n", "{\"added_tokens\": [{\"id\": 7, \"content\": \"[SEP]\"}]}", 7},
		    {"", NULL, "{\"added_tokens\": [{\"id\": -7, \"content\": \"[SEP]\"}]}", -1},
		    {"", NULL, "{", -1},
		    {"", NULL, NULL, -1}};
	char from[32];

	for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
		struct sl_hf_config config = {.mark = -5};
		struct sl_fail fail = {0};
		enum sl_err err;

		unlink(in_dir("vocab.txt"));
		unlink(in_dir("tokenizer.json"));
		if (want[i].words)
			put("vocab.txt", want[i].words);
		if (want[i].json)
			put("tokenizer.json", want[i].json);
		snprintf(from, sizeof from, "\"bert\"%s", want[i].key);
		put("config.json",
		    with(with(toy, "\"type_vocab_size\": 1", "\"type_vocab_size\": 2"), "\"roberta\"", from));
		err = sl_hf_config_read(&config, dir, &fail);
		assert_int_equal(err, want[i].mark < 0 ? SL_ERR_DATA : SL_OK);
		assert_int_equal(config.mark, want[i].mark < 0 ? -5 : want[i].mark);
		if (err)
			assert_non_null(strstr(fail.text, "neither vocab.txt nor tokenizer.json has [SEP]"));
	}
}

static void cut_at(const struct sl_model *m, const char *partition, const char *head_end, const char *tail_begin,
		   const char *head_value, const char *tail_value, bool tail_per_row)
{
	struct sl_cut cut;
	struct sl_fail fail;

	if (sl_cut_find(&cut, m, partition, head_end, tail_begin, 1, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	assert_string_equal(m->graph.node[m->graph.value[cut.head_value].maker].name, head_value);
	assert_string_equal(m->graph.node[m->graph.value[cut.tail_value].maker].name, tail_value);
	assert_int_equal(m->graph.value[cut.head_value].lead, SL_PER_TOKEN);
	assert_int_equal(m->graph.value[cut.tail_value].lead, tail_per_row ? SL_PER_ROW : SL_PER_TOKEN);
}

/* The four usual cuts, by units and by names. Behind the last layer only one token of each row is left. */
static void cuts(void **state)
{
	static const char sum[] = "roberta.encoder.layer.0.attention.output.add",
			  norm[] = "roberta.encoder.layer.0.attention.output.LayerNorm",
			  zero[] = "roberta.encoder.layer.0.output.LayerNorm",
			  ten[] = "roberta.encoder.layer.10.output.LayerNorm", first[] = "roberta.first_token";
	struct sl_model *m = open_model(base, 128);

	cut_at(m, "2:-2", NULL, NULL, zero, ten, false);
	cut_at(m, NULL, "encoder.layer.0.attention.output.add", "encoder.layer.11", sum, ten, false);
	cut_at(m, NULL, "encoder.layer.0.attention.output", "classifier", norm, first, true);
	cut_at(m, NULL, "roberta.encoder.layer.0.attention", "classifier", norm, first, true);
	cut_at(m, "2:-1", NULL, NULL, zero, first, true);
	sl_model_close(m);
}

static void refused_config(void **state)
{
	static const struct {
		const char *from, *to, *says;
		enum sl_err err;
	} want[] = {
		{"\"vocab_size\": 11, ", "", "config.json: vocab_size is missing", SL_ERR_DATA},
		{"\"model_type\": \"roberta\", ", "", "config.json: model_type is missing", SL_ERR_DATA},
		{"\"roberta\"", "7", "model_type is no text", SL_ERR_DATA},
		{"\"roberta\"", "\"gpt2\\n\"", "model_type is gpt2; known: roberta, bert, distilbert, electra",
		 SL_ERR_CONFIG},
		{"\"hidden_size\": 6", "\"hidden_size\": \"6\"", "hidden_size is no whole number", SL_ERR_DATA},
		{"\"hidden_size\": 6", "\"hidden_size\": 6.0", "hidden_size is no whole number", SL_ERR_DATA},
		{"\"hidden_size\": 6", "\"hidden_size\": null", "hidden_size is missing", SL_ERR_DATA},
		{"\"hidden_size\": 6", "\"hidden_size\": 65537", "hidden_size is 65537; it must lie in 1 … 65536",
		 SL_ERR_CONFIG},
		{"\"hidden_size\": 6", "\"hidden_size\": -6", "must lie in", SL_ERR_CONFIG},
		{"\"hidden_size\": 6", "\"hidden_size\": 99999999999999999999", "too big integer", SL_ERR_DATA},
		{"\"hidden_size\": 6", "\"hidden_size\": 7", "hidden_size 7 is no multiple of num_attention_heads 2",
		 SL_ERR_CONFIG},
		{"\"hidden_size\": 6", "\"hidden_size\": 6, \"hidden_size\": 8", "duplicate", SL_ERR_DATA},
		{"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 257", "num_hidden_layers is 257", SL_ERR_CONFIG},
		{"\"type_vocab_size\": 1", "\"type_vocab_size\": 0", "type_vocab_size is 0", SL_ERR_CONFIG},
		{"\"type_vocab_size\": 1", "\"layer_norm_eps\": 0", "layer_norm_eps is 0", SL_ERR_CONFIG},
		{"\"type_vocab_size\": 1", "\"hidden_dropout_prob\": 1", "hidden_dropout_prob is 1", SL_ERR_CONFIG},
		{"\"type_vocab_size\": 1", "\"hidden_act\": \"mish\"", "hidden_act is mish; known:", SL_ERR_CONFIG},
		{"\"type_vocab_size\": 1", "\"hidden_act\": []", "hidden_act is of another type", SL_ERR_CONFIG},
		{"\"type_vocab_size\": 1", "\"is_decoder\": true", "is_decoder is true", SL_ERR_CONFIG},
		{"\"type_vocab_size\": 1", "\"position_embedding_type\": \"relative_key\"",
		 "position_embedding_type is relative_key", SL_ERR_CONFIG},
		{"\"type_vocab_size\": 1", "\"sinusoidal_pos_embds\": true", "sinusoidal_pos_embds is true: such a",
		 SL_ERR_CONFIG},
		{"\"type_vocab_size\": 1", "\"pruned_heads\": {\"1\": [0]}", "pruned_heads is {\"1\":[0]}: such a",
		 SL_ERR_CONFIG},
		{"\"type_vocab_size\": 1", "\"pad_token_id\": 8", "max_position_embeddings is 9", SL_ERR_CONFIG},
		{"\"roberta\"", "\"llama\", \"head_dim\": 4, \"rope_scaling\": {\"factor\": 8.0}",
		 "rope_scaling has no rope_type", SL_ERR_CONFIG},
		{"\"roberta\"",
		 "\"llama\", \"head_dim\": 4, \"rope_scaling\": {\"rope_type\": null, \"type\": \"linear\"}",
		 "rope_scaling has no rope_type", SL_ERR_CONFIG},
		{"\"roberta\"",
		 "\"llama\", \"head_dim\": 4, \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 500000}}",
		 "rope_parameters has no rope_type", SL_ERR_CONFIG},
		{"{", "[", "config.json:1:", SL_ERR_DATA},
	};
	const struct sl_model_spec spec = {.name = "huggingface", .classes = 2, .tokens = 5, .huggingface = dir};

	for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
		struct sl_model *m = NULL;
		struct sl_fail fail = {0};

		put("config.json", with(toy, want[i].from, want[i].to));
		assert_int_equal(sl_model_open(&m, &spec, &fail), want[i].err);
		assert_null(m);
		if (!strstr(fail.text, want[i].says) || strchr(fail.text, '\n'))
			fail_msg("said '%s', not '%s'", fail.text, want[i].says);
		assert_string_equal(fail.key, "model.huggingface");
	}
}

static void refused_rows(void **state)
{
	struct sl_model_spec spec = {.name = "huggingface", .classes = 2, .tokens = 8, .huggingface = dir};
	struct sl_model *m = NULL;
	struct sl_fail fail = {0};

	put("config.json", toy);
	assert_int_equal(sl_model_open(&m, &spec, &fail), SL_ERR_CONFIG);
	assert_string_equal(fail.key, "model.tokens");
	assert_non_null(strstr(fail.text, "has positions for 7"));
	spec.task = SL_LEARN_NEXT;
	put("config.json", with(toy, "\"roberta\"",
				"\"mistral\", \"head_dim\": 4, \"num_key_value_heads\": 2, \"sliding_window\": 3"));
	assert_int_equal(sl_model_open(&m, &spec, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "bounds them to 3"));
	spec.task = SL_LEARN_CLASSES;
	unlink(in_dir("config.json"));
	assert_int_equal(sl_model_open(&m, &spec, &fail), SL_ERR_NOINPUT);
	spec.huggingface = NULL;
	assert_int_equal(sl_model_open(&m, &spec, &fail), SL_ERR_CONFIG);
}

/* Keys that are there without changing anything, a key that nobody knows, and other names of activations. */
static void keys_beside(void **state)
{
	static const struct {
		const char *key, *unknown;
		bool tanh;
	} want[] = {
		{"\"pruned_heads\": {}", "", false},
		{"\"sinusoidal_pos_embds\": false, \"torch_dtype\": \"float32\"", "", false},
		{"\"novel\": null, \"newer\": false, \"newest\": []", "", false},
		{"\"is_llama_config\": true, \"rope_interleaved\": false, \"transformers.js_config\": {\"a\": 1}", "",
		 false},
		{"\"_sliding_window_pattern\": 6, \"layer_types\": [\"full_attention\"]", "", false},
		{"\"_sliding_window_pattern\": 6", "_sliding_window_pattern", false},
		{"\"attention_window\": 8", "attention_window", false},
		{"\"hidden_act\": \"gelu_python\"", "", false},
		{"\"hidden_act\": \"gelu_fast\"", "", true},
	};

	for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
		struct sl_hf_config c;
		struct sl_fail fail;

		put("config.json", with(toy, "\"type_vocab_size\": 1", want[i].key));
		if (sl_hf_config_read(&c, dir, &fail))
			fail_msg("%s", fail.text);
		assert_string_equal(c.unknown, want[i].unknown);
		assert_true(c.act == SL_OP_GELU && c.act_tanh == want[i].tanh);
	}
}

/* Adapter files of PEFT that would be misread as other adapters are refused. */
static void refused_adapters(void **state)
{
	static const struct {
		const char *more, *says; /* NULL: accepted, only its weights are missing */
	} want[] = {
		{"", NULL},
		{", \"init_lora_weights\": true, \"alora_invocation_tokens\": null", NULL},
		{", \"init_lora_weights\": \"gaussian\"", NULL},
		{", \"init_lora_weights\": \"pissa_niter_16\"", "init_lora_weights is a kind for which PEFT changes"},
		{", \"init_lora_weights\": \"olora\"", "path_initial_model_for_weight_conversion"},
		{", \"alora_invocation_tokens\": [128000, 78191]", "alora_invocation_tokens is set"},
		{", \"layer_replication\": [[0, 1], [0, 1]]", "layer_replication is set"},
		{", \"alpha_pattern\": {\"query\": 4}", "alpha_pattern is set"}};
	const struct sl_lora lora = {.rank = 2, .alpha = 4};
	struct sl_model *m = open_model(toy, 5);
	char text[256];

	for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
		struct sl_fail fail = {0};
		bool head;

		snprintf(text, sizeof text, "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4%s}", want[i].more);
		put("adapter_config.json", text);
		assert_int_equal(sl_adapter_read(m, &lora, dir, NULL, &head, &fail),
				 want[i].says ? SL_ERR_CONFIG : SL_ERR_NOINPUT);
		if (want[i].says && !strstr(fail.text, want[i].says))
			fail_msg("said '%s', not '%s'", fail.text, want[i].says);
	}
	sl_model_close(m);
}

/* ---- weights */

enum { MOST = 64, EXTRA = 4 };

struct saved {
	struct sl_model *m;
	float *param[MOST], *want[MOST];
	bool loaded[MOST];
	struct sl_st_item item[MOST + EXTRA];
	char name[MOST + EXTRA][SL_NAME_MAX];
	int n;
};

static void open_saved(struct saved *s)
{
	memset(s, 0, sizeof *s);
	s->m = open_model(toy, 7);
	assert_in_range(s->m->graph.n_param, 1, MOST);
	for (int i = 0; i < s->m->graph.n_param; i++) {
		const struct sl_param *p = &s->m->graph.param[i];
		const size_t count = (size_t)sl_shape_count(&p->shape);

		s->param[i] = calloc(count, sizeof(float));
		s->want[i] = malloc(count * sizeof(float));
		for (size_t k = 0; k < count; k++)
			s->want[i][k] = (float)(i * 1000) + (float)k;
		s->item[s->n] = (struct sl_st_item){.dtype = "F32", .ndim = p->shape.ndim, .data = s->want[i]};
		for (int k = 0; k < p->shape.ndim; k++)
			s->item[s->n].dim[k] = p->shape.dim[k];
		strcpy(s->name[s->n++], p->name);
	}
}

static void close_saved(struct saved *s)
{
	for (int i = 0; i < s->m->graph.n_param; i++) {
		free(s->param[i]);
		free(s->want[i]);
	}
	sl_model_close(s->m);
}

static void extra(struct saved *s, const char *name)
{
	static const float values[6] = {1, 2, 3, 4, 5, 6};

	s->item[s->n] = (struct sl_st_item){.dtype = "F32", .ndim = 1, .dim = {6}, .data = values};
	strcpy(s->name[s->n++], name);
}

static void write_items(struct saved *s, const char *name, int first, int end)
{
	struct sl_fail fail;

	for (int i = 0; i < s->n; i++)
		s->item[i].name = s->name[i];
	if (sl_st_write(in_dir(name), s->item + first, end - first, NULL, 0, SL_FP_MODEL_OPEN, &fail) != SL_OK)
		fail_msg("%s", fail.text);
}

static enum sl_err load(struct saved *s, unsigned how, struct sl_fail *fail)
{
	*fail = (struct sl_fail){0};
	for (int i = 0; i < s->m->graph.n_param; i++)
		memset(s->param[i], 0, (size_t)sl_shape_count(&s->m->graph.param[i].shape) * sizeof(float));
	return sl_weights_load(s->m, dir, how, s->param, s->loaded, fail);
}

static void loads(struct saved *s, unsigned how, int missing)
{
	struct sl_fail fail;

	if (load(s, how, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	for (int i = 0; i < s->m->graph.n_param; i++) {
		missing -= !s->loaded[i];
		if (s->loaded[i])
			assert_memory_equal(s->param[i], s->want[i],
					    (size_t)sl_shape_count(&s->m->graph.param[i].shape) * sizeof(float));
	}
	assert_int_equal(missing, 0);
}

static void refuses(struct saved *s, unsigned how, enum sl_err err, const char *says)
{
	struct sl_fail fail;

	assert_int_equal(load(s, how, &fail), err);
	if (!strstr(fail.text, says))
		fail_msg("said '%s', not '%s'", fail.text, says);
}

static int named(const struct saved *s, const char *name)
{
	for (int i = 0; i < s->n; i++)
		if (strcmp(s->name[i], name) == 0)
			return i;
	fail_msg("no %s", name);
	return -1;
}

/* Weights that load: all; without the head, as pretrained; without
 * the prefix; with old names; with tensors that are not needed. */
static void pretrained(void **state)
{
	struct saved s;
	int head;

	open_saved(&s);
	head = named(&s, "classifier.dense.weight");
	write_items(&s, "model.safetensors", 0, s.n);
	loads(&s, SL_WEIGHTS_STRICT, 0);
	write_items(&s, "model.safetensors", 0, head);
	loads(&s, SL_WEIGHTS_NEW_HEAD, 4);
	refuses(&s, SL_WEIGHTS_STRICT, SL_ERR_DATA,
		"\"classifier.dense.weight\" is missing; the model has it as [6,6]");
	write_items(&s, "model.safetensors", 0, s.n - 1);
	refuses(&s, SL_WEIGHTS_NEW_HEAD, SL_ERR_DATA, "\"classifier.out_proj.bias\" is missing");
	extra(&s, "lm_head.bias");
	extra(&s, "roberta.embeddings.position_ids");
	extra(&s, "roberta.pooler.dense.bias");
	write_items(&s, "model.safetensors", 0, s.n);
	loads(&s, SL_WEIGHTS_STRICT, 0);
	for (int i = 0; i < s.n; i++)
		if (strncmp(s.name[i], "roberta.", 8) == 0)
			memmove(s.name[i], s.name[i] + 8, strlen(s.name[i]) - 7);
	strcpy(s.name[named(&s, "encoder.layer.1.output.LayerNorm.weight")], "encoder.layer.1.output.LayerNorm.gamma");
	strcpy(s.name[named(&s, "embeddings.LayerNorm.bias")], "roberta.embeddings.LayerNorm.beta");
	write_items(&s, "model.safetensors", 0, s.n);
	loads(&s, SL_WEIGHTS_STRICT, 0);
	strcpy(s.name[s.n - 1], "roberta.stranger");
	write_items(&s, "model.safetensors", 0, s.n);
	refuses(&s, SL_WEIGHTS_NEW_HEAD, SL_ERR_DATA,
		"1 tensor of the file is not of roberta, \"roberta.stranger\" first");
	close_saved(&s);
	open_saved(&s);
	s.item[named(&s, "roberta.embeddings.word_embeddings.weight")].dim[0] = 10;
	write_items(&s, "model.safetensors", 0, s.n);
	refuses(&s, SL_WEIGHTS_NEW_HEAD, SL_ERR_DATA,
		"\"roberta.embeddings.word_embeddings.weight\" is [10,6] in the file and [11,6] in the model");
	close_saved(&s);
}

static void put_index(const struct saved *s, int split, const char *odd_name, const char *odd_file)
{
	FILE *file = fopen(in_dir("model.safetensors.index.json"), "w");

	assert_non_null(file);
	fputs("{\"metadata\": {\"total_size\": 1}, \"weight_map\": {", file);
	for (int i = 0; i < s->n; i++)
		fprintf(file, "\"%s\": \"%s\", ", s->name[i],
			odd_name && strcmp(odd_name, s->name[i]) == 0 ? odd_file
			: i < split                                   ? "one.safetensors"
								      : "two.safetensors");
	fseek(file, -2, SEEK_CUR);
	fputs("}}", file);
	assert_int_equal(fclose(file), 0);
}

static void shards(void **state)
{
	static const char query[] = "roberta.encoder.layer.0.attention.self.query.weight";
	static const char *const elsewhere[] = {"../one.safetensors", "/etc/passwd", "", ".", "..", "a/b"};
	struct saved s;

	open_saved(&s);
	unlink(in_dir("model.safetensors"));
	refuses(&s, SL_WEIGHTS_STRICT, SL_ERR_NOINPUT, "no model.safetensors there");
	assert_false(sl_st_in_folder(dir));
	put("pytorch_model.bin", "x");
	assert_true(sl_st_in_folder(dir));
	refuses(&s, SL_WEIGHTS_STRICT, SL_ERR_NOINPUT, "weights of torch.save");
	write_items(&s, "one.safetensors", 0, 5);
	write_items(&s, "two.safetensors", 5, s.n);
	put_index(&s, 5, NULL, NULL);
	loads(&s, SL_WEIGHTS_STRICT, 0);
	for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++) {
		put_index(&s, 5, query, elsewhere[i]);
		refuses(&s, SL_WEIGHTS_STRICT, SL_ERR_DATA, "query.weight\" lies in no file of this folder");
	}
	put_index(&s, 5, query, "three.safetensors");
	refuses(&s, SL_WEIGHTS_STRICT, SL_ERR_NOINPUT, "three.safetensors: No such file");
	put_index(&s, 6, NULL, NULL);
	refuses(&s, SL_WEIGHTS_STRICT, SL_ERR_DATA, "one.safetensors has no tensor \"");
	s.n--;
	put_index(&s, 5, NULL, NULL);
	refuses(&s, SL_WEIGHTS_STRICT, SL_ERR_DATA, "tensors, and its files hold");
	put("model.safetensors.index.json", "{\"weight_map\": 3}");
	refuses(&s, SL_WEIGHTS_STRICT, SL_ERR_DATA, "no map weight_map");
	put("model.safetensors.index.json", "{\n");
	refuses(&s, SL_WEIGHTS_STRICT, SL_ERR_DATA, "index.json:2:");
	close_saved(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_families), cmocka_unit_test(distilbert_eps), cmocka_unit_test(separators),
		cmocka_unit_test(sizes),          cmocka_unit_test(cuts),           cmocka_unit_test(refused_config),
		cmocka_unit_test(refused_rows),   cmocka_unit_test(keys_beside),    cmocka_unit_test(refused_adapters),
		cmocka_unit_test(pretrained),     cmocka_unit_test(shards),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
