#include "client/model/hf_config_read.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VOCAB_MOST = 1 << 22, POSITIONS_MOST = 1 << 20, TYPES_MOST = 1024, TOKENIZER_MOST = 64 << 20 };

#define WHOLE(k, f, ...)                                                \
	{                                                               \
		k, offsetof(struct sl_hf_config, f), false, __VA_ARGS__ \
	}
#define REAL(k, f, ...)                                                \
	{                                                              \
		k, offsetof(struct sl_hf_config, f), true, __VA_ARGS__ \
	}

static const double below_one = 0.999999;

/* clang-format off */
#define SIZES \
	WHOLE("vocab_size", vocab, 1, VOCAB_MOST, NAN), \
	WHOLE("hidden_size", features, 1, SL_HF_MAX_FEATURES, NAN), \
	WHOLE("intermediate_size", wide, 1, 1 << 20, NAN), \
	WHOLE("num_hidden_layers", layers, 1, SL_HF_MAX_LAYERS, NAN), \
	WHOLE("num_attention_heads", heads, 1, SL_HF_MAX_FEATURES, NAN), \
	WHOLE("max_position_embeddings", positions, 1, POSITIONS_MOST, NAN)
#define ENCODER \
	SIZES, \
	WHOLE("type_vocab_size", types, 1, TYPES_MOST, 2), \
	REAL("layer_norm_eps", eps, 1e-30, 1, 1e-12), \
	REAL("hidden_dropout_prob", dropout, 0, below_one, 0.1), \
	REAL("attention_probs_dropout_prob", attention_dropout, 0, below_one, 0.1), \
	REAL("classifier_dropout", head_dropout, 0, below_one, -1), \
	REAL("initializer_range", range, 0, 1000, 0.02)
static const struct sl_hf_key of_roberta[] = {
	ENCODER,
	WHOLE("pad_token_id", first, 0, POSITIONS_MOST, 1), /* positions begin after it */
	{0},
};
static const struct sl_hf_key of_bert[] = {
	ENCODER,
	WHOLE("sep_token_id", mark, 0, VOCAB_MOST, -1),
	{0},
};
static const struct sl_hf_key of_electra[] = {
	ENCODER,
	WHOLE("embedding_size", embedded, 1, SL_HF_MAX_FEATURES, 128),
	WHOLE("sep_token_id", mark, 0, VOCAB_MOST, -1),
	{0},
};
static const struct sl_hf_key of_modernbert[] = {
	SIZES,
	REAL("norm_eps", eps, 1e-30, 1, 1e-5),
	REAL("embedding_dropout", table_dropout, 0, below_one, 0),
	REAL("attention_dropout", attention_dropout, 0, below_one, 0),
	REAL("mlp_dropout", dropout, 0, below_one, 0),
	REAL("classifier_dropout", head_dropout, 0, below_one, 0),
	REAL("global_rope_theta", rope.theta, 1, 1e9, 160000),
	REAL("local_rope_theta", local_rope.theta, 1, 1e9, 10000),
	WHOLE("local_attention", near, 2, POSITIONS_MOST, 128),
	WHOLE("global_attn_every_n_layers", global_each, 1, SL_HF_MAX_LAYERS, 3),
	REAL("initializer_range", range, 0, 1000, 0.02),
	{0},
};
static const struct sl_hf_key of_distilbert[] = {
	WHOLE("vocab_size", vocab, 1, VOCAB_MOST, NAN),
	WHOLE("dim", features, 1, SL_HF_MAX_FEATURES, NAN),
	WHOLE("hidden_dim", wide, 1, 1 << 20, NAN),
	WHOLE("n_layers", layers, 1, SL_HF_MAX_LAYERS, NAN),
	WHOLE("n_heads", heads, 1, SL_HF_MAX_FEATURES, NAN),
	WHOLE("max_position_embeddings", positions, 1, POSITIONS_MOST, NAN),
	REAL("dropout", dropout, 0, below_one, 0.1),
	REAL("attention_dropout", attention_dropout, 0, below_one, 0.1),
	REAL("seq_classif_dropout", head_dropout, 0, below_one, 0.2),
	REAL("initializer_range", range, 0, 1000, 0.02),
	{0},
};
#define DECODER(each, small, base) \
	SIZES, \
	WHOLE("num_key_value_heads", kv, 1, SL_HF_MAX_FEATURES, 0), \
	WHOLE("head_dim", head, 2, SL_HF_MAX_FEATURES, each), \
	REAL("rms_norm_eps", eps, 1e-30, 1, small), \
	REAL("rope_theta", rope.theta, 1, 1e9, base), \
	REAL("attention_dropout", attention_dropout, 0, below_one, 0), \
	REAL("initializer_range", range, 0, 1000, 0.02)
static const struct sl_hf_key of_llama[] = {DECODER(0, 1e-6, 10000), {0}};
static const struct sl_hf_key of_qwen3[] = {DECODER(128, 1e-6, 10000), {0}};
static const struct sl_hf_key of_gemma[] = {DECODER(256, 1e-6, 10000), {0}};
static const struct sl_hf_key of_phi3[] = {
	DECODER(0, 1e-5, 10000),
	REAL("resid_pdrop", dropout, 0, below_one, 0),
	REAL("partial_rotary_factor", rope.share, 1e-3, 1, 1),
	WHOLE("original_max_position_embeddings", rope.trained, 2, POSITIONS_MOST, 4096),
	{0},
};
static const struct sl_hf_key of_gemma2[] = {
	DECODER(256, 1e-6, 10000),
	REAL("query_pre_attn_scalar", query, 1e-6, 1e6, 256),
	REAL("attn_logit_softcapping", cap, 1e-3, 1e6, 50),
	REAL("final_logit_softcapping", last_cap, 1e-3, 1e6, 30),
	{0},
};
static const struct sl_hf_key of_gemma3[] = {
	DECODER(256, 1e-6, 1e6),
	REAL("rope_local_base_freq", local_rope.theta, 1, 1e9, 10000),
	REAL("query_pre_attn_scalar", query, 1e-6, 1e6, 256),
	{0},
};
static const struct sl_hf_key of_granite[] = {
	DECODER(0, 1e-6, 10000),
	REAL("embedding_multiplier", table_by, 1e-6, 1e6, 1),
	REAL("attention_multiplier", scores_by, 1e-6, 1e6, 1),
	REAL("residual_multiplier", added_by, 1e-6, 1e6, 1),
	REAL("logits_scaling", logits_over, 1e-6, 1e6, 1),
	{0},
};
static const struct sl_hf_key of_olmo2[] = {DECODER(0, 1e-5, 10000), {0}};
static const struct sl_hf_key of_gpt2[] = {
	WHOLE("vocab_size", vocab, 1, VOCAB_MOST, NAN),
	WHOLE("n_embd", features, 1, SL_HF_MAX_FEATURES, NAN),
	WHOLE("n_inner", wide, 1, 1 << 20, 0),
	WHOLE("n_layer", layers, 1, SL_HF_MAX_LAYERS, NAN),
	WHOLE("n_head", heads, 1, SL_HF_MAX_FEATURES, NAN),
	WHOLE("n_positions", positions, 1, POSITIONS_MOST, NAN),
	REAL("layer_norm_epsilon", eps, 1e-30, 1, 1e-5),
	REAL("embd_pdrop", head_dropout, 0, below_one, 0.1),
	REAL("resid_pdrop", dropout, 0, below_one, 0.1),
	REAL("attn_pdrop", attention_dropout, 0, below_one, 0.1),
	REAL("initializer_range", range, 0, 1000, 0.02),
	{0},
};
/* clang-format on */

static const char tanh_act[] = "gelu_pytorch_tanh";

static const struct family {
	const char *name;
	const struct sl_hf_key *key;
	const char *act;      /* the key that names the activation */
	const char *standard; /* the activation if that key is missing */
	const char *adapted;  /* PEFT's default of target_modules; phi3 has none there */
} families[SL_HF_FAMILY_COUNT] = {
	[SL_HF_ROBERTA] = {"roberta", of_roberta, "hidden_act", "gelu", "query,value"},
	[SL_HF_BERT] = {"bert", of_bert, "hidden_act", "gelu", "query,value"},
	[SL_HF_DISTILBERT] = {"distilbert", of_distilbert, "activation", "gelu", "q_lin,v_lin"},
	[SL_HF_ELECTRA] = {"electra", of_electra, "hidden_act", "gelu", "query,value"},
	[SL_HF_MODERNBERT] = {"modernbert", of_modernbert, "hidden_activation", "gelu", "Wqkv"},
	[SL_HF_LLAMA] = {"llama", of_llama, "hidden_act", "silu", "q_proj,v_proj"},
	[SL_HF_MISTRAL] = {"mistral", of_llama, "hidden_act", "silu", "q_proj,v_proj"},
	[SL_HF_QWEN2] = {"qwen2", of_llama, "hidden_act", "silu", "q_proj,v_proj"},
	[SL_HF_QWEN3] = {"qwen3", of_qwen3, "hidden_act", "silu", "q_proj,v_proj"},
	[SL_HF_PHI3] = {"phi3", of_phi3, "hidden_act", "silu", "qkv_proj"},
	[SL_HF_GEMMA] = {"gemma", of_gemma, "hidden_activation", tanh_act, "q_proj,v_proj"},
	[SL_HF_GEMMA2] = {"gemma2", of_gemma2, "hidden_activation", tanh_act, "q_proj,v_proj"},
	[SL_HF_GEMMA3] = {"gemma3_text", of_gemma3, "hidden_activation", tanh_act, "q_proj,v_proj"},
	[SL_HF_GRANITE] = {"granite", of_granite, "hidden_act", "silu", "q_proj,v_proj"},
	[SL_HF_OLMO2] = {"olmo2", of_olmo2, "hidden_act", "silu", "q_proj,v_proj"},
	[SL_HF_GPT2] = {"gpt2", of_gpt2, "activation_function", "gelu_new", "c_attn"},
};

const char *sl_hf_family_name(enum sl_hf_family family)
{
	return (unsigned)family < SL_HF_FAMILY_COUNT ? families[family].name : "?";
}

const char *sl_hf_family_adapted(enum sl_hf_family family)
{
	return families[family].adapted;
}

const json_t *sl_hf_member(const struct sl_hf_reader *r, const char *key)
{
	const json_t *value = json_object_get(r->root, key);

	return json_is_null(value) ? NULL : value;
}

enum sl_err sl_hf_read_number(const struct sl_hf_reader *r, const struct sl_hf_key *k, void *out)
{
	const json_t *value = sl_hf_member(r, k->key);
	char *at = (char *)out + k->offset;
	double x = k->standard;

	if (!value && isnan(x))
		return sl_fail_set(r->fail, SL_ERR_DATA, "%s: %s is missing", r->name, k->key);
	if (value && !(k->real ? json_is_number(value) : json_is_integer(value)))
		return sl_fail_set(r->fail, SL_ERR_DATA, "%s: %s is no %s", r->name, k->key,
				   k->real ? "number" : "whole number");
	if (value)
		x = json_number_value(value);
	if (value && !(x >= k->least && x <= k->most))
		return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: %s is %.12g; it must lie in %.12g … %.12g", r->name,
				   k->key, x, k->least, k->most);
	if (k->real)
		memcpy(at, &x, sizeof x);
	else
		memcpy(at, &(int){(int)x}, sizeof(int));
	return SL_OK;
}

void sl_hf_plain(char *to, size_t cap, const char *text)
{
	size_t n = 0;

	for (size_t i = 0; text[i] && n + 1 < cap; i++)
		if (text[i] >= ' ' && text[i] < 0x7f)
			to[n++] = text[i];
	to[n] = 0;
}

static enum sl_err read_act(const struct sl_hf_reader *r, struct sl_hf_config *out)
{
	static const struct {
		const char *name;
		enum sl_op_kind kind;
		bool tanh;
	} known[] = {{"gelu", SL_OP_GELU, false},
		     {"gelu_new", SL_OP_GELU, true},
		     {"gelu_pytorch_tanh", SL_OP_GELU, true},
		     {"gelu_python", SL_OP_GELU, false},
		     {"gelu_fast", SL_OP_GELU, true},
		     {"relu", SL_OP_ACT, false},
		     {"silu", SL_OP_SILU, false},
		     {"swish", SL_OP_SILU, false},
		     {"tanh", SL_OP_TANH, false}};
	const struct family *f = &families[out->family];
	const json_t *value = sl_hf_member(r, f->act);
	const char *text = value ? json_string_value(value) : f->standard;
	char name[SL_NAME_MAX];

	for (size_t i = 0; text && i < sizeof known / sizeof known[0]; i++)
		if (strcmp(text, known[i].name) == 0) {
			out->act = known[i].kind;
			out->act_tanh = known[i].tanh;
			return SL_OK;
		}
	sl_hf_plain(name, sizeof name, text ? text : "of another type");
	return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: %s is %s; known: gelu, gelu_new, relu, silu, tanh", r->name,
			   f->act, name);
}

static enum sl_err read_family(const struct sl_hf_reader *r, struct sl_hf_config *out)
{
	static const char *const robertas[] = {"xlm-roberta", "camembert"}; /* RoBERTa with other tokenizers */
	const json_t *type = sl_hf_member(r, "model_type");
	char name[SL_NAME_MAX], known[256] = "";

	if (!json_is_string(type))
		return sl_fail_set(r->fail, SL_ERR_DATA, "%s: model_type is %s", r->name, type ? "no text" : "missing");
	for (int i = 0; i < 2; i++)
		if (strcmp(json_string_value(type), robertas[i]) == 0) {
			out->family = SL_HF_ROBERTA;
			return SL_OK;
		}
	for (int i = 0; i < SL_HF_FAMILY_COUNT; i++) {
		if (strcmp(json_string_value(type), families[i].name) == 0) {
			out->family = (enum sl_hf_family)i;
			return SL_OK;
		}
		snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", families[i].name);
	}
	sl_hf_plain(name, sizeof name, json_string_value(type));
	return sl_fail_set(r->fail, SL_ERR_CONFIG,
			   "%s: model_type is %s; known: %s, xlm-roberta, camembert. split.write_network of the Python "
			   "package writes others as "
			   "a file for model.network",
			   r->name, name, known);
}

/* Refuses keys that would make another network of the keys that are read. */
static enum sl_err refuse_variants(const struct sl_hf_reader *r)
{
	static const char *const off[] = {"is_decoder", "add_cross_attention", "is_encoder_decoder"};
	const json_t *value = sl_hf_member(r, "position_embedding_type");
	char name[SL_NAME_MAX];

	for (size_t i = 0; i < sizeof off / sizeof off[0]; i++)
		if (json_is_true(sl_hf_member(r, off[i])))
			return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: %s is true: only encoders are built", r->name,
					   off[i]);
	if (!value || (json_is_string(value) && strcmp(json_string_value(value), "absolute") == 0))
		return SL_OK;
	sl_hf_plain(name, sizeof name, json_is_string(value) ? json_string_value(value) : "of another type");
	return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: position_embedding_type is %s; known: absolute", r->name, name);
}

static enum sl_err read_object(const struct sl_hf_reader *r, struct sl_hf_config *out)
{
	const json_t *list = sl_hf_member(r, "architectures");
	enum sl_err err = read_family(r, out);

	for (const struct sl_hf_key *k = families[out->family].key; !err && k->key; k++)
		err = sl_hf_read_number(r, k, out);
	if (!err)
		err = read_act(r, out);
	if (!err)
		err = sl_hf_check_keys(r, families[out->family].key, out->unknown);
	if (!err && json_is_string(json_array_get(list, 0)))
		sl_hf_plain(out->architecture, sizeof out->architecture, json_string_value(json_array_get(list, 0)));
	if (!err && sl_hf_is_decoder(out->family))
		return sl_hf_read_decoder(r, out);
	if (!err)
		err = refuse_variants(r);
	if (!err && out->family == SL_HF_MODERNBERT)
		err = sl_hf_read_modern(r, out);
	if (err)
		return err;
	out->untied = json_is_false(sl_hf_member(r, "tie_word_embeddings"));
	if (out->head_dropout < 0)
		out->head_dropout = out->dropout;
	if (out->features % out->heads)
		return sl_fail_set(r->fail, SL_ERR_CONFIG,
				   "%s: hidden_size %d is no multiple of num_attention_heads %d", r->name,
				   out->features, out->heads);
	if (!out->embedded)
		out->embedded = out->features;
	if (out->family == SL_HF_DISTILBERT)
		out->eps = 1e-12; /* whatever layer_norm_eps says */
	if (out->family == SL_HF_ROBERTA)
		out->first++;
	if (out->family == SL_HF_ROBERTA || out->family == SL_HF_MODERNBERT)
		out->mark = out->vocab; /* token types are all 0 */
	if (out->first >= out->positions)
		return sl_fail_set(r->fail, SL_ERR_CONFIG,
				   "%s: max_position_embeddings is %d, where the first token's position is %d", r->name,
				   out->positions, out->first);
	out->row_most = out->positions - out->first;
	out->row_bound = "max_position_embeddings";
	return SL_OK;
}

/* Returns the file's object, for json_decref; NULL: it has none, which *fail says. */
static json_t *parse_object(const char *name, struct sl_bytes text, struct sl_fail *fail)
{
	json_error_t at;
	json_t *root = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, &at);
	char why[sizeof at.text];

	if (json_is_object(root))
		return root;
	snprintf(why, sizeof why, "%s", at.text);
	if (root)
		sl_fail_set(fail, SL_ERR_DATA, "%s:1: no JSON object", name);
	else
		sl_fail_set(fail, SL_ERR_DATA, "%s:%d:%d: %s", name, at.line, at.column, why);
	json_decref(root);
	return NULL;
}

/* The same of a file. */
static json_t *load_object(const char *path, struct sl_fail *fail)
{
	json_t *root = NULL;
	uint8_t *data;
	size_t len;

	if (sl_file_read(path, SL_HF_FILE_MOST, &data, &len, fail) == SL_OK) {
		root = parse_object(path, (struct sl_bytes){data, len}, fail);
		free(data);
	}
	return root;
}

enum sl_err sl_hf_config_parse(struct sl_hf_config *out, const char *name, struct sl_bytes text, struct sl_fail *fail)
{
	struct sl_hf_config config = {0};
	json_t *root = parse_object(name, text, fail);
	enum sl_err err;

	if (!root)
		return fail->code;
	err = read_object(&(struct sl_hf_reader){name, root, fail}, &config);
	json_decref(root);
	if (!err)
		*out = config;
	return err;
}

/* The number of the line [SEP] in vocab.txt; -1: there is none. */
static int sep_of_words(const char *text, size_t len)
{
	static const char sep[] = "[SEP]";
	const char *end = text + len;

	for (int line = 0; text < end; line++) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((stop ? stop : end) - text);

		if (n > 0 && text[n - 1] == '\r')
			n--;
		if (n == strlen(sep) && memcmp(text, sep, n) == 0)
			return line;
		if (!stop)
			break;
		text = stop + 1;
	}
	return -1;
}

/* The id of [SEP] among the added tokens of tokenizer.json; -1: there is none. */
static int sep_of_json(const char *text, size_t len)
{
	json_t *root = json_loadb(text, len, 0, NULL), *token;
	int id = -1;
	size_t i;

	json_array_foreach(json_object_get(root, "added_tokens"), i, token)
	{
		const char *content = json_string_value(json_object_get(token, "content"));
		const json_t *number = json_object_get(token, "id");

		if (content && strcmp(content, "[SEP]") == 0 && json_is_integer(number) &&
		    json_integer_value(number) >= 0 && json_integer_value(number) <= VOCAB_MOST)
			id = (int)json_integer_value(number);
	}
	json_decref(root);
	return id;
}

/* Finds `mark`, the token before the second text of a pair: in the tokenizer's files, unless config.json has it. */
static enum sl_err find_mark(struct sl_hf_config *c, const char *dir, struct sl_fail *fail)
{
	static const struct {
		const char *file;
		int (*find)(const char *text, size_t len);
	} place[] = {{"vocab.txt", sep_of_words}, {"tokenizer.json", sep_of_json}};
	char path[PATH_MAX];

	for (size_t i = 0; c->types > 1 && c->mark < 0 && i < sizeof place / sizeof place[0]; i++) {
		struct sl_fail why;
		uint8_t *data;
		size_t len;

		if (snprintf(path, sizeof path, "%s/%s", dir, place[i].file) >= PATH_MAX ||
		    sl_file_read(path, TOKENIZER_MOST, &data, &len, &why) != SL_OK)
			continue;
		c->mark = place[i].find((const char *)data, len);
		free(data);
	}
	if (c->types > 1 && c->mark < 0)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s: neither vocab.txt nor tokenizer.json has [SEP], after which token types change",
				   dir);
	return SL_OK;
}

/* The ends of generated texts, which generation_config.json may name, as for transformers. */
static enum sl_err read_generation(struct sl_hf_config *c, const char *dir, struct sl_fail *fail)
{
	char path[PATH_MAX];
	json_t *root;
	enum sl_err err;

	if (!sl_hf_is_decoder(c->family) || snprintf(path, sizeof path, "%s/generation_config.json", dir) >= PATH_MAX ||
	    access(path, F_OK) != 0)
		return SL_OK;
	root = load_object(path, fail);
	if (!root)
		return fail->code;
	err = sl_hf_read_ends(&(struct sl_hf_reader){path, root, fail}, c);
	json_decref(root);
	return err;
}

enum sl_err sl_hf_config_read(struct sl_hf_config *out, const char *dir, struct sl_fail *fail)
{
	struct sl_hf_config config = {0};
	char path[PATH_MAX];
	json_t *root;
	enum sl_err err;

	if (snprintf(path, sizeof path, "%s/config.json", dir) >= PATH_MAX)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "the path of the folder is too long");
	root = load_object(path, fail);
	if (!root)
		return fail->code;
	err = read_object(&(struct sl_hf_reader){path, root, fail}, &config);
	json_decref(root);
	if (!err)
		err = find_mark(&config, dir, fail);
	if (!err)
		err = read_generation(&config, dir, fail);
	if (!err)
		*out = config;
	return err;
}
