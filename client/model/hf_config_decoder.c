/* Reads what only decoders have in config.json: heads, rotary positions, windows, biases, end tokens. Keys and their
 * defaults are those of transformers' configuration of each family. */
#include <math.h>
#include <string.h>

#include "client/model/hf_config_read.h"

/* What each family has whatever its config says, and the defaults of keys that a config may leave out. */
static const struct row {
	struct sl_hf_form form;
	bool tied;
	bool kv_given; /* num_key_value_heads has no default; null means as many as heads */
	enum { NO_WINDOW, WINDOW, WINDOW_IF_USED } window;
	int window_standard; /* 0: none */
	enum { NO_BIAS, BIAS_IF_SAID, BIAS_OF_QKV } bias;
	bool wide_bias; /* mlp_bias is read */
} rows[SL_HF_FAMILY_COUNT] = {
	[SL_HF_MODERNBERT] = {{.local_rope = true}},
	[SL_HF_LLAMA] = {.bias = BIAS_IF_SAID, .wide_bias = true},
	[SL_HF_MISTRAL] = {.kv_given = true, .window = WINDOW, .window_standard = 4096},
	[SL_HF_QWEN2] = {.kv_given = true, .window = WINDOW_IF_USED, .window_standard = 4096, .bias = BIAS_OF_QKV},
	[SL_HF_QWEN3] = {{.head_norms = true},
			 .kv_given = true,
			 .window = WINDOW_IF_USED,
			 .window_standard = 4096,
			 .bias = BIAS_IF_SAID},
	[SL_HF_PHI3] = {{.fused = true}, .window = WINDOW},
	[SL_HF_GEMMA] = {{.plus = true, .scaled_table = true}, .tied = true, .kv_given = true, .bias = BIAS_IF_SAID},
	[SL_HF_GEMMA2] = {{.plus = true, .scaled_table = true, .four_norms = true},
			  .tied = true,
			  .kv_given = true,
			  .window = WINDOW,
			  .window_standard = 4096,
			  .bias = BIAS_IF_SAID},
	[SL_HF_GEMMA3] =
		{{.plus = true, .scaled_table = true, .head_norms = true, .four_norms = true, .local_rope = true},
		 .tied = true,
		 .kv_given = true,
		 .window = WINDOW,
		 .window_standard = 4096,
		 .bias = BIAS_IF_SAID},
	[SL_HF_GRANITE] = {.bias = BIAS_IF_SAID, .wide_bias = true},
	[SL_HF_OLMO2] = {{.whole_norms = true, .norms_behind = true}, .bias = BIAS_IF_SAID},
	[SL_HF_GPT2] = {.tied = true},
};

#define ELSE "; split.write_network of the Python package writes such a network, or RemoteModule trains it"

static enum sl_err refuse_set(const struct sl_hf_reader *r, const char *key)
{
	return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: %s is set, which is not built here" ELSE, r->name, key);
}

static enum sl_err refuse_part(const struct sl_hf_reader *r, const char *of, const json_t *rope,
			       const struct sl_hf_rope *out)
{
	const json_t *part = json_object_get(rope, "partial_rotary_factor");

	if (!part || json_is_null(part) || json_number_value(part) == 1 || out->share > 0)
		return SL_OK;
	return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: %spartial_rotary_factor is not 1, which is not built here" ELSE,
			   r->name, of);
}

/* Refuses what decoders may have but is not built here. */
static enum sl_err refuse(const struct sl_hf_reader *r, const struct row *row, const struct sl_hf_config *out)
{
	static const char *const off[] = {"quantization_config",
					  "add_cross_attention",
					  "is_encoder_decoder",
					  "use_bidirectional_attention",
					  "scale_attn_by_inverse_layer_idx",
					  "attn_logit_softcapping",
					  "final_logit_softcapping"};

	for (size_t i = 0; i < sizeof off / sizeof off[0] - (out->family == SL_HF_GEMMA2 ? 2 : 0); i++)
		if (sl_hf_member(r, off[i]) && !json_is_false(sl_hf_member(r, off[i])))
			return refuse_set(r, off[i]);
	if (json_is_false(sl_hf_member(r, "scale_attn_weights")))
		return sl_fail_set(r->fail, SL_ERR_CONFIG,
				   "%s: scale_attn_weights is false, which is not built here" ELSE, r->name);
	if (row->kv_given && !json_object_get(r->root, "num_key_value_heads"))
		return sl_fail_set(r->fail, SL_ERR_DATA, "%s: num_key_value_heads is missing", r->name);
	return refuse_part(r, "", r->root, &out->rope);
}

/* rope_theta: version 5 of transformers writes it into the object `rope`, version 4 into config.json as `theta_key`. If
 * both are there they must be equal. */
static enum sl_err read_theta(const struct sl_hf_reader *r, const char *at, const json_t *rope, const char *theta_key,
			      struct sl_hf_rope *out)
{
	const json_t *theta = json_object_get(rope, "rope_theta");

	if (!theta)
		return SL_OK;
	if (!json_is_number(theta) || !(json_number_value(theta) >= 1 && json_number_value(theta) <= 1e9))
		return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: %s.rope_theta must lie in 1 … 1e9", r->name, at);
	if (sl_hf_member(r, theta_key) && out->theta != json_number_value(theta))
		return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: %s is %g, and %g in %s", r->name, theta_key, out->theta,
				   json_number_value(theta), at);
	out->theta = json_number_value(theta);
	return SL_OK;
}

#define SCALING(k, f, real, ...)                                     \
	{                                                            \
		k, offsetof(struct sl_hf_rope, f), real, __VA_ARGS__ \
	}
static const struct sl_hf_key of_llama3[] = {
	SCALING("factor", factor, true, 1, 1e6, NAN),
	SCALING("low_freq_factor", low, true, 1e-6, 1e6, NAN),
	SCALING("high_freq_factor", high, true, 1e-6, 1e6, NAN),
	SCALING("original_max_position_embeddings", old, false, 1, 1 << 20, NAN),
	{0},
};

/* Reads longrope (Ding et al., "LongRoPE", 2024) as it is within the positions of the first training. */
static enum sl_err read_long(const struct sl_hf_reader *r, const char *at, const json_t *rope, struct sl_hf_config *out)
{
	const json_t *factor = json_object_get(rope, "short_factor");
	const double each = json_number_value(json_array_get(factor, 0)), positions = out->positions;
	const struct sl_hf_reader inner = {at, rope, r->fail};
	const int turned = (int)(out->head * out->rope.share) / 2;
	const struct sl_hf_key key[] = {
		SCALING("original_max_position_embeddings", trained, false, 2, 1 << 20, (double)out->rope.trained),
		SCALING("attention_factor", gain, true, 1e-6, 1e6, 0)};
	enum sl_err err = sl_hf_read_number(&inner, &key[0], &out->rope);

	if (!err)
		err = sl_hf_read_number(&inner, &key[1], &out->rope);
	if (err)
		return err;
	if (json_array_size(factor) != (size_t)turned || !(each >= 1 && each <= 1e6))
		return sl_fail_set(r->fail, SL_ERR_DATA, "%s: %s.short_factor is no list of %d numbers from 1", r->name,
				   at, turned);
	for (int i = 1; i < turned; i++)
		if (json_number_value(json_array_get(factor, (size_t)i)) != each)
			return sl_fail_set(r->fail, SL_ERR_CONFIG,
					   "%s: the numbers of %s.short_factor differ, which is not built here" ELSE,
					   r->name, at);
	out->rope.factor = each == 1 ? 0 : each;
	if (out->rope.gain == 0 && positions > out->rope.trained)
		out->rope.gain = sqrt(1 + log(positions / out->rope.trained) / log(out->rope.trained));
	return SL_OK;
}

/* Reads rope_type (default, linear, llama3 or, of phi3, longrope) and its factors. Version 4 also called the key
 * `type`. */
static enum sl_err read_scaling(const struct sl_hf_reader *r, const char *at, const json_t *rope,
				struct sl_hf_rope *out)
{
	const json_t *type = json_object_get(rope, "rope_type");
	const char *text = json_string_value(type ? type : json_object_get(rope, "type"));
	char name[SL_NAME_MAX];
	const struct sl_hf_reader inner = {name, rope, r->fail};
	enum sl_err err = SL_OK;
	const bool llama3 = text && strcmp(text, "llama3") == 0, linear = text && strcmp(text, "linear") == 0;

	out->stretched = out->share > 0 && text && strcmp(text, "longrope") == 0;
	if (!text && (type || json_object_get(rope, "factor") || json_object_get(rope, "full_attention")))
		return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: %s has no rope_type; known: default, linear, llama3",
				   r->name, at);
	if (!json_is_object(rope) || (text && !llama3 && !linear && !out->stretched && strcmp(text, "default") != 0)) {
		sl_hf_plain(name, sizeof name, text ? text : "of another type");
		return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: %s is %s; known: default, linear, llama3%s", r->name,
				   at, name, out->share > 0 ? ", longrope" : "");
	}
	snprintf(name, sizeof name, "%.40s", at);
	for (const struct sl_hf_key *k = of_llama3; k->key && (llama3 || (linear && k == of_llama3)) && !err; k++)
		err = sl_hf_read_number(&inner, k, out);
	if (!err && llama3 && out->low >= out->high)
		err = sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: %s.low_freq_factor is not below high_freq_factor",
				  r->name, at);
	return err;
}

static enum sl_err read_rope_of(const struct sl_hf_reader *r, const char *at, const json_t *rope, const char *theta_key,
				struct sl_hf_rope *out)
{
	enum sl_err err = read_scaling(r, at, rope, out);

	if (!err)
		err = read_theta(r, at, rope, theta_key, out);
	if (!err && out->share > 0 && json_object_get(rope, "partial_rotary_factor"))
		err = sl_hf_read_number(&(struct sl_hf_reader){at, rope, r->fail},
					&(struct sl_hf_key)SCALING("partial_rotary_factor", share, true, 1e-3, 1, 1),
					out);
	return err ? err : refuse_part(r, "rope_parameters.", rope, out);
}

/* Reads rotary positions: version 5 writes rope_parameters, for gemma3 one for each kind of layer; version 4 writes
 * rope_theta and rope_scaling. */
static enum sl_err read_rope(const struct sl_hf_reader *r, struct sl_hf_config *out)
{
	static const char now[] = "rope_parameters", old[] = "rope_scaling";
	const bool modern = out->family == SL_HF_MODERNBERT;
	const char *theta = modern ? "global_rope_theta" : "rope_theta";
	const json_t *all = sl_hf_member(r, now), *scaling = sl_hf_member(r, old);
	const json_t *full = json_object_get(all, "full_attention"), *local = json_object_get(all, "sliding_attention");
	enum sl_err err = SL_OK;

	if (all && scaling && !json_equal(all, scaling))
		return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: %s and %s differ: leave one of them out", r->name, now,
				   old);
	if (local && rows[out->family].form.local_rope)
		err = read_rope_of(r, "rope_parameters.sliding_attention", local,
				   modern ? "local_rope_theta" : "rope_local_base_freq", &out->local_rope);
	if (!err && full && rows[out->family].form.local_rope)
		return read_rope_of(r, "rope_parameters.full_attention", full, theta, &out->rope);
	if (!err && (all || scaling))
		err = read_rope_of(r, all ? now : old, all ? all : scaling, theta, &out->rope);
	if (!err && out->rope.stretched)
		err = read_long(r, all ? now : old, all ? all : scaling, out);
	if (!err && out->rope.share > 0 && out->rope.share < 1)
		out->rope.part = (int)(out->head * out->rope.share);
	if (!err && (out->rope.part % 2 || (out->rope.share > 0 && out->rope.share * out->head < 2)))
		err = sl_fail_set(r->fail, SL_ERR_CONFIG,
				  "%s: partial_rotary_factor %g makes no even number of a head's %d features", r->name,
				  out->rope.share, out->head);
	return err;
}

/* Limits rows to the sliding window. In such a row the window covers all tokens, so attention needs no window. */
static enum sl_err read_window(const struct sl_hf_reader *r, struct sl_hf_config *out)
{
	const struct row *row = &rows[out->family];
	const json_t *value = json_object_get(r->root, "sliding_window");
	json_int_t window = value ? json_integer_value(value) : row->window_standard;

	out->row_most = out->rope.stretched && out->rope.trained < out->positions ? out->rope.trained : out->positions;
	out->row_bound =
		out->row_most < out->positions ? "original_max_position_embeddings" : "max_position_embeddings";
	if (row->window == NO_WINDOW || json_is_null(value) || (!value && !row->window_standard) ||
	    (row->window == WINDOW_IF_USED && !json_is_true(sl_hf_member(r, "use_sliding_window"))))
		return SL_OK;
	if ((value && !json_is_integer(value)) || window < 1)
		return sl_fail_set(r->fail, SL_ERR_DATA, "%s: sliding_window is no number from 1", r->name);
	if (window < out->row_most) {
		out->row_most = (int)window;
		out->row_bound = "sliding_window";
	}
	return SL_OK;
}

/* Which layers are local: those that layer_types names; without that key, all but each sliding_window_pattern-th, of
 * modernbert the first of each global_attn_every_n_layers. */
static enum sl_err read_layers(const struct sl_hf_reader *r, struct sl_hf_config *out)
{
	const int after = out->family == SL_HF_MODERNBERT ? 0 : 1;
	static const struct sl_hf_key pattern = {"sliding_window_pattern", 0, false, 1, SL_HF_MAX_LAYERS, 6};
	const json_t *types = sl_hf_member(r, "layer_types");
	int each;
	enum sl_err err = sl_hf_read_number(r, &pattern, &each);

	if (out->global_each)
		each = out->global_each;
	if (!err && types && json_array_size(types) != (size_t)out->layers)
		err = sl_fail_set(r->fail, SL_ERR_DATA, "%s: layer_types is no list of num_hidden_layers texts",
				  r->name);
	for (int i = 0; i < out->layers && !err; i++) {
		const char *type = json_string_value(json_array_get(types, (size_t)i));

		out->local[i] = types ? type && strcmp(type, "sliding_attention") == 0 : (i + after) % each != 0;
		if (types && !out->local[i] && (!type || strcmp(type, "full_attention") != 0))
			err = sl_fail_set(r->fail, SL_ERR_CONFIG,
					  "%s: layer_types, entry %d: known: full_attention, sliding_attention",
					  r->name, i);
	}
	return err;
}

static enum sl_err add_end(const struct sl_hf_reader *r, struct sl_hf_config *out, const json_t *value)
{
	if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) >= out->vocab)
		return sl_fail_set(r->fail, SL_ERR_DATA, "%s: eos_token_id is no token below vocab_size", r->name);
	if (out->n_end == SL_HF_ENDS)
		return sl_fail_set(r->fail, SL_ERR_DATA, "%s: more than %d end tokens", r->name, SL_HF_ENDS);
	out->end[out->n_end++] = (int32_t)json_integer_value(value);
	return SL_OK;
}

enum sl_err sl_hf_read_ends(const struct sl_hf_reader *r, struct sl_hf_config *out)
{
	const json_t *value = sl_hf_member(r, "eos_token_id");
	enum sl_err err = SL_OK;

	if (value)
		out->n_end = 0;
	if (value && !json_is_array(value))
		return add_end(r, out, value);
	for (size_t i = 0; i < json_array_size(value) && !err; i++)
		err = add_end(r, out, json_array_get(value, i));
	return err;
}

static enum sl_err check_heads(const struct sl_hf_reader *r, struct sl_hf_config *c)
{
	if (!c->head && c->features % c->heads)
		return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: %d features are no multiple of %d heads", r->name,
				   c->features, c->heads);
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

static void read_biases(const struct sl_hf_reader *r, struct sl_hf_config *out)
{
	const struct row *row = &rows[out->family];

	out->out_bias = row->bias == BIAS_IF_SAID && json_is_true(sl_hf_member(r, "attention_bias"));
	out->qkv_bias = row->bias == BIAS_OF_QKV || out->out_bias;
	out->wide_bias = row->wide_bias && json_is_true(sl_hf_member(r, "mlp_bias"));
}

enum sl_err sl_hf_read_modern(const struct sl_hf_reader *r, struct sl_hf_config *out)
{
	const json_t *pooling = sl_hf_member(r, "classifier_pooling");
	const char *text = pooling ? json_string_value(pooling) : "cls";
	enum sl_err err = json_is_true(sl_hf_member(r, "attention_bias")) ? refuse_set(r, "attention_bias")
			  : json_is_true(sl_hf_member(r, "mlp_bias"))     ? refuse_set(r, "mlp_bias")
									  : SL_OK;

	if (!err && (!text || (strcmp(text, "cls") != 0 && strcmp(text, "mean") != 0)))
		return sl_fail_set(r->fail, SL_ERR_CONFIG, "%s: classifier_pooling; known: cls, mean", r->name);
	if (!err && json_is_null(json_object_get(r->root, "local_rope_theta")))
		out->local_rope.theta = out->rope.theta; /* null is no default here */
	out->mean = text && *text == 'm';
	if (!err)
		err = read_rope(r, out);
	return err ? err : read_layers(r, out);
}

enum sl_err sl_hf_read_decoder(const struct sl_hf_reader *r, struct sl_hf_config *out)
{
	const struct row *row = &rows[out->family];
	const json_t *tied = sl_hf_member(r, "tie_word_embeddings");
	enum sl_err err = refuse(r, row, out);

	out->form = row->form;
	if (json_is_null(json_object_get(r->root, "attn_logit_softcapping")))
		out->cap = 0; /* null is no default here */
	if (json_is_null(json_object_get(r->root, "final_logit_softcapping")))
		out->last_cap = 0;
	out->untied = tied ? !json_is_true(tied) : !row->tied;
	out->mark = out->vocab;
	read_biases(r, out);
	if (!out->wide)
		out->wide = 4 * out->features;
	if (!err)
		err = check_heads(r, out);
	if (!err && out->family != SL_HF_GPT2)
		err = read_rope(r, out);
	if (!err && out->form.local_rope)
		err = read_layers(r, out);
	if (!err)
		err = read_window(r, out);
	if (!err)
		err = sl_hf_read_ends(r, out);
	out->learned_end = out->n_end ? out->end[0] : -1;
	return err;
}
