/* Keys of config.json that no reader takes a value from. A key that would change what is computed is refused, unless it
 * has the value that is built here. A key that nobody here knows is named in a warning. */
#include <stdlib.h>
#include <string.h>

#include "client/model/hf_config_read.h"

/* Keys that change the network, and the values, as JSON, of the network that is built. */
static const struct {
	const char *key, *built[2];
} fixed[] = {
	{"alibi", {"false"}},
	{"classifier_activation", {"\"gelu\""}},
	{"classifier_bias", {"false"}},
	{"cross_attention_hidden_size", {NULL}},
	{"decoder_bias", {"true"}},
	{"embedding_multiplier", {"1", "1.0"}},
	{"full_attn_mod", {"1"}},
	{"interpolate_factor", {"1", "1.0"}},
	{"lm_head_bias", {"false"}},
	{"logits_scaling", {"1", "1.0"}},
	{"norm_bias", {"false"}},
	{"parallel_attn", {"false"}},
	{"pruned_heads", {"{}", "[]"}},
	{"qk_layernorm", {"false"}},
	{"quantization_config", {NULL}},
	{"residual_multiplier", {"1", "1.0"}},
	{"rope_interleaved", {"false"}},
	{"sinusoidal_pos_embds", {"false"}},
	{"use_mrope", {"false"}},
	{"use_qk_norm", {"false"}},
};

/* Keys that other readers take, or that change nothing in training and predictions. */
/* clang-format off */
static const char *const passed[] = {
	"_attn_implementation", "_attn_implementation_autoset", "_commit_hash", "_name_or_path", "activation",
	"activation_function", "adapters", "add_cross_attention", "architectures", "attention_bias",
	"attn_implementation", "attn_logit_softcapping", "auto_map", "bad_words_ids", "begin_suppress_tokens",
	"bos_token_id", "cache_implementation", "chunk_size_feed_forward", "classifier_dropout",
	"classifier_pooling", "cls_token_id", "decoder_start_token_id", "deterministic_flash_attn",
	"diversity_penalty", "do_sample", "dtype", "early_stopping", "embd_pdrop",
	"encoder_no_repeat_ngram_size", "eos_token_id", "exponential_decay_length_penalty",
	"final_logit_softcapping", "finetuning_task", "forced_bos_token_id", "forced_eos_token_id",
	"gradient_checkpointing", "hidden_act", "hidden_activation", "id2label", "initializer_cutoff_factor", "is_decoder",
	"is_encoder_decoder", "is_llama_config", "label2id", "language", "layer_norm_eps", "layer_types",
	"length_penalty",
	"max_length", "max_window_layers", "min_length", "mlp_bias", "model_type", "n_ctx",
	"no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_key_value_heads", "num_labels",
	"num_return_sequences", "original_max_position_embeddings", "output_attentions", "output_hidden_states",
	"output_past", "output_scores", "pad_token_id", "partial_rotary_factor", "position_embedding_type",
	"prefix", "pretraining_tp", "problem_type", "qa_dropout", "remove_invalid_values",
	"reference_compile", "reorder_and_upcast_attn", "repad_logits_with_grad", "repetition_penalty", "return_dict", "return_dict_in_generate",
	"rope_parameters", "rope_scaling", "rope_theta", "scale_attn_by_inverse_layer_idx",
	"scale_attn_weights", "sep_token_id", "sliding_window", "sliding_window_pattern",
	"sparse_pred_ignore_index", "sparse_prediction", "summary_activation",
	"summary_first_dropout", "summary_last_dropout", "summary_proj_to_labels", "summary_type",
	"summary_use_proj", "suppress_tokens", "task_specific_params", "temperature", "tf_legacy_loss",
	"tie_encoder_decoder", "tie_word_embeddings", "tokenizer_class", "top_k", "top_p", "torch_dtype",
	"torchscript", "transformers.js_config", "transformers_version", "type_vocab_size", "typical_p",
	"unk_token_id", "use_bfloat16",
	"use_bidirectional_attention", "use_cache", "use_sliding_window",
};
/* clang-format on */

static bool is_passed(const json_t *root, const char *key)
{
	size_t i = 0;

	if (strcmp(key, "_sliding_window_pattern") == 0) /* layer_types says the same, layer by layer */
		return json_is_array(json_object_get(root, "layer_types"));
	while (i < sizeof passed / sizeof passed[0] && strcmp(passed[i], key) != 0)
		i++;
	return i < sizeof passed / sizeof passed[0];
}

/* Whether a value asks for nothing: null, false, or something empty. */
static bool is_nothing(const json_t *value)
{
	return json_is_null(value) || json_is_false(value) ||
	       ((json_is_object(value) || json_is_array(value)) && !json_object_size(value) &&
		!json_array_size(value)) ||
	       (json_is_string(value) && !json_string_length(value));
}

static enum sl_err check_fixed(const struct sl_hf_reader *r, size_t i, const json_t *value)
{
	char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT), plain[48];
	bool built = json_is_null(value);

	for (int k = 0; k < 2 && text; k++)
		built = built || (fixed[i].built[k] && strcmp(text, fixed[i].built[k]) == 0);
	sl_hf_plain(plain, sizeof plain, text ? text : "?");
	free(text);
	return built ? SL_OK
		     : sl_fail_set(r->fail, SL_ERR_CONFIG,
				   "%s: %s is %s: such a network is not built here; known: %s, or without this key",
				   r->name, fixed[i].key, plain, fixed[i].built[0] ? fixed[i].built[0] : "null");
}

enum sl_err sl_hf_check_keys(const struct sl_hf_reader *r, const struct sl_hf_key *read, char unknown[SL_NAME_MAX])
{
	const char *key;
	json_t *value;

	unknown[0] = 0;
	json_object_foreach((json_t *)(uintptr_t)r->root, key, value)
	{
		const struct sl_hf_key *k = read;
		size_t i = 0;
		enum sl_err err;

		while (k->key && strcmp(k->key, key) != 0)
			k++;
		while (i < sizeof fixed / sizeof fixed[0] && strcmp(fixed[i].key, key) != 0)
			i++;
		err = i < sizeof fixed / sizeof fixed[0] && !k->key ? check_fixed(r, i, value) : SL_OK;
		if (err)
			return err;
		if (!k->key && i == sizeof fixed / sizeof fixed[0] && !is_passed(r->root, key) && !is_nothing(value) &&
		    !unknown[0])
			sl_hf_plain(unknown, SL_NAME_MAX, key);
	}
	return SL_OK;
}
