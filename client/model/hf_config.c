#include "client/model/hf_config.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB_MOST = 1 << 22, POSITIONS_MOST = 1 << 20, TYPES_MOST = 1024, TOKENIZER_MOST = 64 << 20 };

struct reader {
	const char *name;
	const json_t *root;
	struct sl_fail *fail;
};

/* A key of config.json, where its value goes, its bounds, and what stands for it where it is missing; NAN: it is
 * required. */
struct key {
	const char *key;
	size_t offset;
	bool real;
	double least, most, standard;
};
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
#define ENCODER \
	WHOLE("vocab_size", vocab, 1, VOCAB_MOST, NAN), \
	WHOLE("hidden_size", features, 1, SL_HF_MAX_FEATURES, NAN), \
	WHOLE("intermediate_size", wide, 1, 1 << 20, NAN), \
	WHOLE("num_hidden_layers", layers, 1, SL_HF_MAX_LAYERS, NAN), \
	WHOLE("num_attention_heads", heads, 1, SL_HF_MAX_FEATURES, NAN), \
	WHOLE("max_position_embeddings", positions, 1, POSITIONS_MOST, NAN), \
	WHOLE("type_vocab_size", types, 1, TYPES_MOST, 2), \
	REAL("layer_norm_eps", eps, 1e-30, 1, 1e-12), \
	REAL("hidden_dropout_prob", dropout, 0, below_one, 0.1), \
	REAL("attention_probs_dropout_prob", attention_dropout, 0, below_one, 0.1), \
	REAL("classifier_dropout", head_dropout, 0, below_one, -1), \
	REAL("initializer_range", range, 0, 1000, 0.02)
static const struct key of_roberta[] = {
	ENCODER,
	WHOLE("pad_token_id", first, 0, POSITIONS_MOST, 1), /* positions count on from it */
	{0},
};
static const struct key of_bert[] = {
	ENCODER,
	WHOLE("sep_token_id", mark, 0, VOCAB_MOST, -1),
	{0},
};
static const struct key of_electra[] = {
	ENCODER,
	WHOLE("embedding_size", embedded, 1, SL_HF_MAX_FEATURES, 0),
	WHOLE("sep_token_id", mark, 0, VOCAB_MOST, -1),
	{0},
};
static const struct key of_distilbert[] = {
	WHOLE("vocab_size", vocab, 1, VOCAB_MOST, NAN),
	WHOLE("dim", features, 1, SL_HF_MAX_FEATURES, NAN),
	WHOLE("hidden_dim", wide, 1, 1 << 20, NAN),
	WHOLE("n_layers", layers, 1, SL_HF_MAX_LAYERS, NAN),
	WHOLE("n_heads", heads, 1, SL_HF_MAX_FEATURES, NAN),
	WHOLE("max_position_embeddings", positions, 1, POSITIONS_MOST, NAN),
	REAL("layer_norm_eps", eps, 1e-30, 1, 1e-12),
	REAL("dropout", dropout, 0, below_one, 0.1),
	REAL("attention_dropout", attention_dropout, 0, below_one, 0.1),
	REAL("seq_classif_dropout", head_dropout, 0, below_one, 0.2),
	REAL("initializer_range", range, 0, 1000, 0.02),
	{0},
};
static const struct key of_llama[] = {
	WHOLE("vocab_size", vocab, 1, VOCAB_MOST, NAN),
	WHOLE("hidden_size", features, 1, SL_HF_MAX_FEATURES, NAN),
	WHOLE("intermediate_size", wide, 1, 1 << 20, NAN),
	WHOLE("num_hidden_layers", layers, 1, SL_HF_MAX_LAYERS, NAN),
	WHOLE("num_attention_heads", heads, 1, SL_HF_MAX_FEATURES, NAN),
	WHOLE("max_position_embeddings", positions, 1, POSITIONS_MOST, NAN),
	WHOLE("num_key_value_heads", kv, 1, SL_HF_MAX_FEATURES, 0),
	WHOLE("head_dim", head, 2, SL_HF_MAX_FEATURES, 0),
	REAL("rms_norm_eps", eps, 1e-30, 1, 1e-6),
	REAL("rope_theta", rope, 1, 1e9, 10000),
	REAL("attention_dropout", attention_dropout, 0, below_one, 0),
	REAL("initializer_range", range, 0, 1000, 0.02),
	{0},
};
/* clang-format on */

static const struct family {
	const char *name;
	const struct key *key;
	const char *act;      /* the key that names the activation */
	const char *standard; /* the activation where that is missing */
	/* Of decoders. */
	bool kv_given; /* num_key_value_heads has no standard; null means heads */
	enum { NO_WINDOW, WINDOW, WINDOW_IF_USED } window;
	enum { NO_BIAS, BIAS_IF_SAID, BIAS_OF_QKV } bias;
} families[SL_HF_FAMILY_COUNT] = {
	[SL_HF_ROBERTA] = {"roberta", of_roberta, "hidden_act", "gelu"},
	[SL_HF_BERT] = {"bert", of_bert, "hidden_act", "gelu"},
	[SL_HF_DISTILBERT] = {"distilbert", of_distilbert, "activation", "gelu"},
	[SL_HF_ELECTRA] = {"electra", of_electra, "hidden_act", "gelu"},
	[SL_HF_LLAMA] = {"llama", of_llama, "hidden_act", "silu", .bias = BIAS_IF_SAID},
	[SL_HF_MISTRAL] = {"mistral", of_llama, "hidden_act", "silu", .kv_given = true, .window = WINDOW},
	[SL_HF_QWEN2] = {"qwen2", of_llama, "hidden_act", "silu", .kv_given = true, .window = WINDOW_IF_USED,
			 .bias = BIAS_OF_QKV},
};

const char *sl_hf_family_name(enum sl_hf_family family)
{
	return (unsigned)family < SL_HF_FAMILY_COUNT ? families[family].name : "?";
}

/* The member; NULL where it is missing or null. */
static const json_t *member(const struct reader *r, const char *key)
{
	const json_t *value = json_object_get(r->root, key);

	return json_is_null(value) ? NULL : value;
}

static enum sl_err read_number(const struct reader *r, const struct key *k, struct sl_hf_config *out)
{
	const json_t *value = member(r, k->key);
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

/* A text that goes into messages: what no name has is left out. */
static void plain(char *to, size_t cap, const char *text)
{
	size_t n = 0;

	for (size_t i = 0; text[i] && n + 1 < cap; i++)
		if (text[i] > ' ' && text[i] < 0x7f)
			to[n++] = text[i];
	to[n] = 0;
}

static enum sl_err read_act(const struct reader *r, struct sl_hf_config *out)
{
	static const struct {
		const char *name;
		enum sl_op_kind kind;
		bool tanh;
	} known[] = {
		{"gelu", SL_OP_GELU, false}, {"gelu_new", SL_OP_GELU, true}, {"gelu_pytorch_tanh", SL_OP_GELU, true},
		{"relu", SL_OP_ACT, false},  {"silu", SL_OP_SILU, false},    {"swish", SL_OP_SILU, false},
		{"tanh", SL_OP_TANH, false}};
	const struct family *f = &families[out->family];
	const json_t *value = member(r, f->act);
	const char *text = value ? json_string_value(value) : f->standard;
	char name[SL_NAME_MAX];

	for (size_t i = 0; text && i < sizeof known / sizeof known[0]; i++)
		if (strcmp(text, known[i].name) == 0) {
			out->act = known[i].kind;
			out->act_tanh = known[i].tanh;
			return SL_OK;
		}
	plain(name, sizeof name, text ? text : "of another type");
	return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: hidden_act is %s; known: gelu, gelu_new, relu, silu, tanh",
			   r->name, name);
}

static enum sl_err read_family(const struct reader *r, struct sl_hf_config *out)
{
	const json_t *type = member(r, "model_type");
	char name[SL_NAME_MAX], known[128] = "";

	if (!json_is_string(type))
		return sl_fail_set(r->fail, SL_ERR_DATA, "%s: model_type is %s", r->name, type ? "no text" : "missing");
	for (int i = 0; i < SL_HF_FAMILY_COUNT; i++) {
		if (strcmp(json_string_value(type), families[i].name) == 0) {
			out->family = (enum sl_hf_family)i;
			return SL_OK;
		}
		snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", families[i].name);
	}
	plain(name, sizeof name, json_string_value(type));
	return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: model_type is %s; known: %s", r->name, name, known);
}

/* What would make another network of the same keys. */
static enum sl_err refuse_variants(const struct reader *r)
{
	static const char *const off[] = {"is_decoder", "add_cross_attention", "is_encoder_decoder"};
	const json_t *value = member(r, "position_embedding_type");
	char name[SL_NAME_MAX];

	for (size_t i = 0; i < sizeof off / sizeof off[0]; i++)
		if (json_is_true(member(r, off[i])))
			return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: %s is true: only encoders are built", r->name,
					   off[i]);
	if (!value || (json_is_string(value) && strcmp(json_string_value(value), "absolute") == 0))
		return SL_OK;
	plain(name, sizeof name, json_is_string(value) ? json_string_value(value) : "of another type");
	return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: position_embedding_type is %s; known: absolute", r->name, name);
}

/* What decoders have and what is not built. */
static enum sl_err refuse_decoders(const struct reader *r, const struct sl_hf_config *c)
{
	static const char *const off[] = {"quantization_config", "add_cross_attention", "use_bidirectional_attention",
					  "is_encoder_decoder"};
	const json_t *part = member(r, "partial_rotary_factor");

	for (size_t i = 0; i < sizeof off / sizeof off[0]; i++)
		if (member(r, off[i]) && !json_is_false(member(r, off[i])))
			return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: %s is set, which is not built here", r->name,
					   off[i]);
	if (part && json_number_value(part) != 1)
		return sl_fail_set(r->fail, SL_ERR_CONFIG,
				   "%s: partial_rotary_factor is not 1, which is not built here", r->name);
	if (families[c->family].kv_given && !json_object_get(r->root, "num_key_value_heads"))
		return sl_fail_set(r->fail, SL_ERR_DATA, "%s: num_key_value_heads is missing", r->name);
	return SL_OK;
}

/* Of version 5 of transformers rope_parameters, of version 4 rope_theta and rope_scaling. */
static enum sl_err read_rope(const struct reader *r, struct sl_hf_config *out)
{
	static const char *const key[] = {"rope_parameters", "rope_scaling"};
	char name[SL_NAME_MAX];

	for (size_t i = 0; i < sizeof key / sizeof key[0]; i++) {
		const json_t *rope = member(r, key[i]), *theta = json_object_get(rope, "rope_theta");
		const json_t *type = json_object_get(rope, "rope_type");
		const char *text = json_string_value(type ? type : json_object_get(rope, "type"));

		if (rope && (!json_is_object(rope) || (text && strcmp(text, "default") != 0))) {
			plain(name, sizeof name, text ? text : "of another type");
			return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: %s is %s; known: default", r->name, key[i],
					   name);
		}
		if (!theta)
			continue;
		if (!json_is_number(theta) || !(json_number_value(theta) >= 1 && json_number_value(theta) <= 1e9))
			return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: %s.rope_theta must lie in 1 … 1e9", r->name,
					   key[i]);
		if (member(r, "rope_theta") && out->rope != json_number_value(theta))
			return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: rope_theta is %g, and %g in %s", r->name,
					   out->rope, json_number_value(theta), key[i]);
		out->rope = json_number_value(theta);
	}
	return SL_OK;
}

/* A row no longer than the window sees all of it. */
static enum sl_err read_window(const struct reader *r, struct sl_hf_config *out)
{
	const json_t *value = json_object_get(r->root, "sliding_window");
	const int kind = families[out->family].window;
	json_int_t window = value ? json_integer_value(value) : 4096;

	out->row_most = out->positions;
	if (kind == NO_WINDOW || json_is_null(value) ||
	    (kind == WINDOW_IF_USED && !json_is_true(member(r, "use_sliding_window"))))
		return SL_OK;
	if ((value && !json_is_integer(value)) || window < 1)
		return sl_fail_set(r->fail, SL_ERR_DATA, "%s: sliding_window is no number from 1", r->name);
	if (window < out->row_most)
		out->row_most = (int)window;
	return SL_OK;
}

static enum sl_err add_end(const struct reader *r, struct sl_hf_config *out, const json_t *value)
{
	if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) >= out->vocab)
		return sl_fail_set(r->fail, SL_ERR_DATA, "%s: eos_token_id is no token below vocab_size", r->name);
	if (out->n_end == SL_HF_ENDS)
		return sl_fail_set(r->fail, SL_ERR_LIMIT, "%s: more than %d end tokens", r->name, SL_HF_ENDS);
	out->end[out->n_end++] = (int32_t)json_integer_value(value);
	return SL_OK;
}

/* One number, or a list. */
static enum sl_err read_ends(const struct reader *r, struct sl_hf_config *out)
{
	const json_t *value = member(r, "eos_token_id");
	enum sl_err err = SL_OK;

	if (value && !json_is_array(value))
		return add_end(r, out, value);
	for (size_t i = 0; i < json_array_size(value) && !err; i++)
		err = add_end(r, out, json_array_get(value, i));
	return err;
}

static enum sl_err check_heads(const struct reader *r, struct sl_hf_config *c)
{
	if (!c->head && c->features % c->heads)
		return sl_fail_set(r->fail, SL_ERR_CONFIG,
				   "%s: hidden_size %d is no multiple of num_attention_heads %d", r->name, c->features,
				   c->heads);
	if (!c->kv)
		c->kv = c->heads;
	if (!c->head)
		c->head = c->features / c->heads;
	if (c->heads % c->kv)
		return sl_fail_set(r->fail, SL_ERR_CONFIG,
				   "%s: num_attention_heads %d is no multiple of num_key_value_heads %d", r->name,
				   c->heads, c->kv);
	if (c->head % 2 || (int64_t)c->head * c->heads > SL_HF_MAX_FEATURES)
		return sl_fail_set(r->fail, SL_ERR_CONFIG,
				   "%s: heads of %d features: their number must be even, and all heads together have "
				   "%d at most",
				   r->name, c->head, SL_HF_MAX_FEATURES);
	return SL_OK;
}

static enum sl_err read_decoder(const struct reader *r, struct sl_hf_config *out)
{
	const bool said = json_is_true(member(r, "attention_bias"));
	enum sl_err err = refuse_decoders(r, out);

	if (!err)
		err = check_heads(r, out);
	if (!err)
		err = read_rope(r, out);
	if (!err)
		err = read_window(r, out);
	if (!err)
		err = read_ends(r, out);
	out->untied = !json_is_true(member(r, "tie_word_embeddings"));
	out->out_bias = families[out->family].bias == BIAS_IF_SAID && said;
	out->qkv_bias = families[out->family].bias == BIAS_OF_QKV || out->out_bias;
	out->wide_bias = families[out->family].bias == BIAS_IF_SAID && json_is_true(member(r, "mlp_bias"));
	out->mark = out->vocab;
	return err;
}

static enum sl_err read_object(const struct reader *r, struct sl_hf_config *out)
{
	const json_t *list = member(r, "architectures");
	enum sl_err err = read_family(r, out);

	for (const struct key *k = families[out->family].key; !err && k->key; k++)
		err = read_number(r, k, out);
	if (!err)
		err = read_act(r, out);
	if (!err && json_is_string(json_array_get(list, 0)))
		plain(out->architecture, sizeof out->architecture, json_string_value(json_array_get(list, 0)));
	if (!err && sl_hf_is_decoder(out->family))
		return read_decoder(r, out);
	if (!err)
		err = refuse_variants(r);
	if (err)
		return err;
	out->untied = json_is_false(member(r, "tie_word_embeddings"));
	if (out->head_dropout < 0)
		out->head_dropout = out->dropout;
	if (out->features % out->heads)
		return sl_fail_set(r->fail, SL_ERR_CONFIG,
				   "%s: hidden_size %d is no multiple of num_attention_heads %d", r->name,
				   out->features, out->heads);
	if (!out->embedded)
		out->embedded = out->features;
	if (out->family == SL_HF_ROBERTA) { /* whose token types are all 0 */
		out->first++;
		out->mark = out->vocab;
	}
	if (out->first >= out->positions)
		return sl_fail_set(r->fail, SL_ERR_CONFIG,
				   "%s: max_position_embeddings is %d, where the first token's position is %d", r->name,
				   out->positions, out->first);
	out->row_most = out->positions - out->first;
	return SL_OK;
}

enum sl_err sl_hf_config_parse(struct sl_hf_config *out, const char *name, struct sl_bytes text, struct sl_fail *fail)
{
	struct sl_hf_config config = {0};
	json_error_t at;
	json_t *root = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, &at);
	char why[sizeof at.text];
	enum sl_err err;

	if (!root) {
		snprintf(why, sizeof why, "%s", at.text);
		return sl_fail_set(fail, SL_ERR_DATA, "%s:%d:%d: %s", name, at.line, at.column, why);
	}
	if (json_is_object(root))
		err = read_object(&(struct reader){name, root, fail}, &config);
	else
		err = sl_fail_set(fail, SL_ERR_DATA, "%s:1: no JSON object", name);
	json_decref(root);
	if (!err)
		*out = config;
	return err;
}

/* The line of vocab.txt that is [SEP]; -1: none. */
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

/* The id of [SEP] among the added tokens of tokenizer.json; -1: none. */
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

/* What begins the second text of a pair stands in the tokenizer's files, unless config.json says it. */
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
		return sl_fail_set(
			fail, SL_ERR_DATA,
			"%s: neither vocab.txt nor tokenizer.json has [SEP], behind which token types change", dir);
	return SL_OK;
}

enum sl_err sl_hf_config_read(struct sl_hf_config *out, const char *dir, struct sl_fail *fail)
{
	struct sl_hf_config config;
	char path[PATH_MAX];
	uint8_t *data;
	size_t len;
	enum sl_err err;

	if (snprintf(path, sizeof path, "%s/config.json", dir) >= PATH_MAX)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "the path of the folder is too long");
	err = sl_file_read(path, SL_HF_FILE_MOST, &data, &len, fail);
	if (err)
		return err;
	err = sl_hf_config_parse(&config, path, (struct sl_bytes){data, len}, fail);
	free(data);
	if (!err)
		err = find_mark(&config, dir, fail);
	if (!err)
		*out = config;
	return err;
}
