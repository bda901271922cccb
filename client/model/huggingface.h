/* Networks of Hugging Face folders: what config.json describes, with transformers' names. */
#ifndef SL_CLIENT_MODEL_HUGGINGFACE_H
#define SL_CLIENT_MODEL_HUGGINGFACE_H

#include "client/model/hf_config.h"
#include "client/model/source.h"

/* spec->huggingface names the folder; classes and tokens are the spec's. Errors name keys of the config. */
enum sl_err sl_hf_open(struct sl_model **out, const struct sl_model_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;
/* Adds all units to a builder of tokens. */
void sl_hf_encoder(struct sl_build *b, const struct sl_hf_config *config, int classes);
/* Adds all units to a builder of masked tokens, with the head of a masked language model. */
void sl_hf_masked(struct sl_build *b, const struct sl_hf_config *config, float share);
/* What the names of the network's tensors begin with: "roberta", "model". */
const char *sl_hf_prefix(enum sl_hf_family family);
/* Adds all units of a decoder, each of whose tokens guesses the next one. */
void sl_hf_decoder(struct sl_build *b, const struct sl_hf_config *config);

/* hf_layers.c: what encoders and decoders are built of. */
struct sl_hf_layers {
	struct sl_build *b;
	const struct sl_hf_config *c;
	char at[SL_NAME_MAX]; /* what names begin with: "model.layers.0.", or nothing */
	int words;            /* of an encoder: the parameter that is the table of words */
	struct sl_init init;
};
/* The path of a module: `at`, and the name behind it. Names are short enough by far. Returns `out`. */
const char *sl_hf_path(const struct sl_hf_layers *l, const char *name, char out[SL_NAME_MAX]);
int sl_hf_dense(const struct sl_hf_layers *l, const char *name, int in, int out_f, bool bias);
int sl_hf_dropped(const struct sl_hf_layers *l, const char *name, int in, double p); /* p 0: nothing is added */
int sl_hf_added(const struct sl_hf_layers *l, const char *name, int x, int y);
int sl_hf_activated(const struct sl_hf_layers *l, const char *name, int in); /* as the config says */

#endif
