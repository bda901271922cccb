/* Networks of Hugging Face folders, as config.json describes them, with transformers' names. */
#ifndef SL_CLIENT_MODEL_HUGGINGFACE_H
#define SL_CLIENT_MODEL_HUGGINGFACE_H

#include "client/model/hf_config.h"
#include "client/model/source.h"

/* Builds the network of the folder spec->huggingface, with the spec's classes and tokens. Errors name keys of Split's
 * config. */
enum sl_err sl_hf_open(struct sl_model **out, const struct sl_model_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_hf_takes(struct sl_model_takes *out, const struct sl_model_spec *spec,
			struct sl_fail *fail) SL_MUST_CHECK;
/* Adds all units of an encoder with a classifier to a builder of tokens. */
void sl_hf_encoder(struct sl_build *b, const struct sl_hf_config *config, int classes);
/* The same with the head of a masked language model. `share`: of a row's tokens that are chosen, at most. */
void sl_hf_masked(struct sl_build *b, const struct sl_hf_config *config, float share);
/* The prefix of the names of the network's tensors: "roberta", "model". */
const char *sl_hf_prefix(enum sl_hf_family family);
/* Adds all units of a decoder, which predicts the token that follows each token. */
void sl_hf_decoder(struct sl_build *b, const struct sl_hf_config *config);

/* hf_layers.c: the layers that encoders and decoders are built from. */
struct sl_hf_layers {
	struct sl_build *b;
	const struct sl_hf_config *c;
	char at[SL_NAME_MAX]; /* prefix of the names of modules: "model.layers.0.", or "" */
	int words;            /* of an encoder: the parameter of its word embeddings */
	struct sl_init init;
};
/* Writes the path of a module, `at` and the name, to `out` and returns it. All names are short enough. */
const char *sl_hf_path(const struct sl_hf_layers *l, const char *name, char out[SL_NAME_MAX]);
int sl_hf_dense(const struct sl_hf_layers *l, const char *name, int in, int out_f, bool bias);
int sl_hf_dropped(const struct sl_hf_layers *l, const char *name, int in, double p); /* p 0: nothing is added */
int sl_hf_added(const struct sl_hf_layers *l, const char *name, int x, int y);
int sl_hf_cut(const struct sl_hf_layers *l, const char *name, int in, int first, int n); /* features of each token */
/* Attention with the positions of layer i. */
int sl_hf_attended(const struct sl_hf_layers *l, const char *name, const int qkv[3], int i,
		   struct sl_attention_attr attr);
int sl_hf_activated(const struct sl_hf_layers *l, const char *name, int in); /* as the config says */

#endif
