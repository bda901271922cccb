#include "client/model/huggingface.h"

#include <stdio.h>
#include <string.h>

#include "common/base/log.h"

static const char key[] = "model.huggingface";
_Static_assert(sizeof((struct sl_model_takes){0}.end) == sizeof((struct sl_hf_config){0}.end), "they are the same");

/* Globs over tensors that pretrained files have beside the encoder. */
static const char *const ignored[SL_HF_FAMILY_COUNT][8] = {
	[SL_HF_ROBERTA] = {"lm_head.*", "roberta.pooler.*", "roberta.embeddings.position_ids", NULL},
	[SL_HF_BERT] = {"cls.*", "bert.embeddings.position_ids", NULL},
	[SL_HF_DISTILBERT] = {"vocab_transform.*", "vocab_layer_norm.*", "vocab_projector.*",
			      "distilbert.embeddings.position_ids", NULL},
	[SL_HF_ELECTRA] = {"discriminator_predictions.*", "generator_predictions.*", "generator_lm_head.*",
			   "electra.embeddings.position_ids", NULL},
	[SL_HF_MODERNBERT] = {"decoder.*", NULL},
};

/* The same for decoders: buffers, such as gpt2's masks. [0]: the output layer has the embedding's weight, of which the
 * file may have a copy. */
#define DECODERS "*.rotary_emb.inv_freq", "transformer.h.*.attn.bias", "transformer.h.*.attn.masked_bias"
static const char *const ignored_decoder[2][5] = {{DECODERS, "lm_head.weight", NULL}, {DECODERS, NULL}};

/* The same for masked language models. The decoder's weight, if it is the embedding's, may be in the file twice, and so
 * may its bias. */
static const char *const ignored_masked[SL_HF_FAMILY_COUNT][8] = {
	[SL_HF_ROBERTA] = {"lm_head.decoder.*", "roberta.pooler.*", "roberta.embeddings.position_ids", NULL},
	[SL_HF_BERT] = {"cls.predictions.decoder.*", "cls.seq_relationship.*", "bert.pooler.*",
			"bert.embeddings.position_ids", NULL},
	[SL_HF_DISTILBERT] = {"vocab_projector.weight", "distilbert.embeddings.position_ids", NULL},
	[SL_HF_ELECTRA] = {"generator_lm_head.weight", "discriminator_predictions.*", "electra.embeddings.position_ids",
			   NULL},
	[SL_HF_MODERNBERT] = {"decoder.weight", NULL},
};

static enum sl_err read_config(struct sl_hf_config *c, const struct sl_model_spec *spec, struct sl_fail *fail)
{
	struct sl_fail why;
	enum sl_err err = sl_hf_config_read(c, spec->huggingface, &why);

	return err ? sl_fail_at(fail, key, err, "%s", why.text) : SL_OK;
}

enum sl_err sl_hf_takes(struct sl_model_takes *out, const struct sl_model_spec *spec, struct sl_fail *fail)
{
	struct sl_hf_config c;
	enum sl_err err = read_config(&c, spec, fail);

	if (err)
		return err;
	*out = (struct sl_model_takes){c.vocab, c.types > 1 && c.mark < c.vocab, c.mark, .n_end = c.n_end,
				       .learned_end = c.learned_end};
	out->adapted = sl_hf_family_adapted(c.family);
	out->decoder = sl_hf_is_decoder(c.family);
	out->tokens = c.row_most;
	memcpy(out->end, c.end, sizeof out->end);
	return SL_OK;
}

static enum sl_err check_tokens(const struct sl_hf_config *c, const struct sl_model_spec *spec, struct sl_fail *fail)
{
	if (spec->tokens > c->row_most && c->row_most < c->positions - c->first)
		return sl_fail_at(fail, "model.tokens", SL_ERR_CONFIG,
				  "rows have up to %d tokens, but %s of %.200s/config.json bounds them to %d",
				  spec->tokens, c->row_bound, spec->huggingface, c->row_most);
	if (spec->tokens < 1 || spec->tokens > c->row_most)
		return sl_fail_at(fail, "model.tokens", SL_ERR_CONFIG,
				  "rows have up to %d tokens, but %.200s/config.json has positions for %d",
				  spec->tokens, spec->huggingface, c->row_most);
	return SL_OK;
}

static enum sl_err check_head(const struct sl_hf_config *c, const struct sl_model_spec *spec, struct sl_fail *fail)
{
	const bool next = spec->task == SL_LEARN_NEXT;

	if (sl_hf_is_decoder(c->family) == next)
		return SL_OK;
	return sl_fail_at(fail, "model.head", SL_ERR_CONFIG, "%s is %s", sl_hf_family_name(c->family),
			  next ? "no decoder: give classifier or masked_lm" : "a decoder: give causal_lm");
}

const char *sl_hf_prefix(enum sl_hf_family family)
{
	return family == SL_HF_GPT2                                     ? "transformer"
	       : sl_hf_is_decoder(family) || family == SL_HF_MODERNBERT ? "model"
									: sl_hf_family_name(family);
}

/* Sets what the names of a folder's tensors begin with, and which tensors are ignored. */
static void name_files(struct sl_model *m, const struct sl_hf_config *c)
{
	const bool decoder = sl_hf_is_decoder(c->family);

	snprintf(m->prefix, sizeof m->prefix, "%s.", sl_hf_prefix(c->family));
	m->ignored = decoder             ? ignored_decoder[c->untied]
		     : m->task->labelled ? ignored[c->family]
					 : ignored_masked[c->family];
}

static void build(struct sl_build *b, const struct sl_hf_config *c, const struct sl_model_spec *spec)
{
	if (spec->task == SL_LEARN_NEXT)
		sl_hf_decoder(b, c);
	else if (spec->masked > 0)
		sl_hf_masked(b, c, (float)spec->masked);
	else
		sl_hf_encoder(b, c, spec->classes);
}

enum sl_err sl_hf_open(struct sl_model **out, const struct sl_model_spec *spec, struct sl_fail *fail)
{
	const struct sl_learn_task *task = sl_model_task(spec);
	struct sl_hf_config c;
	struct sl_build b;
	enum sl_err err = read_config(&c, spec, fail);

	if (!err)
		err = check_head(&c, spec, fail);
	if (!err)
		err = check_tokens(&c, spec, fail);
	if (!err)
		err = sl_build_open_tokens(&b, sl_hf_family_name(c.family), spec->tokens, c.vocab, task,
					   task->labelled ? spec->classes : c.vocab, fail);
	if (err)
		return err;
	if (c.unknown[0])
		sl_log(SL_LOG_WARN, "config-key",
		       "%.200s/config.json: splitc does not know the key %s: if it changes what the network computes, "
		       "splitc computes something else",
		       spec->huggingface, c.unknown);
	name_files(b.model, &c);
	b.lora = spec->lora;
	snprintf(b.model->note, sizeof b.model->note,
		 "%s, %d layers of %d, %d heads, %d classes, rows of up to %d tokens below %d, dropout %g",
		 sl_hf_family_name(c.family), c.layers, c.features, c.heads, b.model->classes, spec->tokens, c.vocab,
		 c.dropout);
	build(&b, &c, spec);
	sl_lora_check(&b);
	return sl_build_finish(&b, out);
}
