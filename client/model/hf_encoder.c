/* Builds the encoder that config.json describes, with transformers' names of modules, order of operations and initial
 * weights. Layers are post-norm, but for ModernBERT: LN(x + dropout(dense(attention(x)))), then
 * LN(x + dropout(down(act(up(x))))).
 *
 * The classifier reads only the first token of a row. It is selected at the end of the last layer's unit, so that a cut
 * after that unit carries one vector for each row. */
#include <stdio.h>

#include "client/model/huggingface.h"

static bool is_modern(const struct sl_hf_layers *e)
{
	return e->c->family == SL_HF_MODERNBERT;
}

static int normed(const struct sl_hf_layers *e, const char *name, int in)
{
	char to[SL_NAME_MAX];

	return sl_build_layernorm(e->b, sl_hf_path(e, name, to), in, (float)e->c->eps, !is_modern(e));
}

static int looked_up(const struct sl_hf_layers *e, const char *name, int rows, struct sl_embedding_attr attr)
{
	char to[SL_NAME_MAX];

	attr.rows = rows;
	attr.features = e->c->embedded;
	return sl_build_lookup(e->b, sl_hf_path(e, name, to), SL_BUILD_INPUT, attr, e->init);
}

/* Sums are taken in transformers' order: word, type, position. */
static int embeddings(struct sl_hf_layers *e)
{
	const struct sl_hf_config *c = e->c;
	int x;

	sl_build_unit(e->b, "embeddings");
	snprintf(e->at, sizeof e->at, "%s.embeddings.", sl_hf_family_name(c->family));
	e->words = e->b->model->graph.n_param;
	x = looked_up(e, "word_embeddings", c->vocab, (struct sl_embedding_attr){0});
	if (c->types)
		x = sl_hf_added(
			e, "add_type", x,
			looked_up(e, "token_type_embeddings", c->types,
				  (struct sl_embedding_attr){.segment = true, .mark = c->mark > 0 ? c->mark : 0}));
	x = sl_hf_added(e, "add_position", x,
			looked_up(e, "position_embeddings", c->positions,
				  (struct sl_embedding_attr){.position = true, .first = c->first}));
	x = sl_hf_dropped(e, "dropout", normed(e, "LayerNorm", x), c->dropout);
	if (c->embedded == c->features)
		return x;
	snprintf(e->at, sizeof e->at, "%s.", sl_hf_family_name(c->family));
	return sl_hf_dense(e, "embeddings_project", x, c->features, true);
}

/* The paths of modules in a layer. */
static const struct names {
	const char *layers; /* path of the list of layers */
	const char *query, *key, *value, *attention;
	const char *out, *out_dropout, *out_add, *out_norm; /* out_dropout NULL: there is none */
	const char *up, *act, *down, *dropout, *add, *norm;
} bert = {.layers = "encoder.layer",
	  .query = "attention.self.query",
	  .key = "attention.self.key",
	  .value = "attention.self.value",
	  .attention = "attention.self",
	  .out = "attention.output.dense",
	  .out_dropout = "attention.output.dropout",
	  .out_add = "attention.output.add",
	  .out_norm = "attention.output.LayerNorm",
	  .up = "intermediate.dense",
	  .act = "intermediate.act",
	  .down = "output.dense",
	  .dropout = "output.dropout",
	  .add = "output.add",
	  .norm = "output.LayerNorm"},
  distilbert = {.layers = "transformer.layer",
		.query = "attention.q_lin",
		.key = "attention.k_lin",
		.value = "attention.v_lin",
		.attention = "attention",
		.out = "attention.out_lin",
		.out_add = "sa_add",
		.out_norm = "sa_layer_norm",
		.up = "ffn.lin1",
		.act = "ffn.activation",
		.down = "ffn.lin2",
		.dropout = "ffn.dropout",
		.add = "output_add",
		.norm = "output_layer_norm"};

static int layer(struct sl_hf_layers *e, const struct names *n, int x)
{
	const struct sl_hf_config *c = e->c;
	const struct sl_attention_attr attr = {.heads = c->heads, .p = (float)c->attention_dropout};
	char to[SL_NAME_MAX];
	int q, k, v, y;

	q = sl_hf_dense(e, n->query, x, c->features, true);
	k = sl_hf_dense(e, n->key, x, c->features, true);
	v = sl_hf_dense(e, n->value, x, c->features, true);
	y = sl_build_attention(e->b, sl_hf_path(e, n->attention, to), q, k, v, attr);
	y = sl_hf_dense(e, n->out, y, c->features, true);
	if (n->out_dropout)
		y = sl_hf_dropped(e, n->out_dropout, y, c->dropout);
	x = normed(e, n->out_norm, sl_hf_added(e, n->out_add, y, x));
	y = sl_hf_activated(e, n->act, sl_hf_dense(e, n->up, x, c->wide, true));
	y = sl_hf_dropped(e, n->dropout, sl_hf_dense(e, n->down, y, c->features, true), c->dropout);
	return normed(e, n->norm, sl_hf_added(e, n->add, y, x));
}

static int layers(struct sl_hf_layers *e, int x)
{
	const struct names *names = e->c->family == SL_HF_DISTILBERT ? &distilbert : &bert;
	char unit[SL_NAME_MAX];

	for (int i = 0; i < e->c->layers; i++) {
		snprintf(unit, sizeof unit, "%s.%d", names->layers, i);
		snprintf(e->at, sizeof e->at, "%s.%.60s.", sl_hf_family_name(e->c->family), unit);
		sl_build_unit(e->b, unit);
		x = layer(e, names, x);
	}
	e->at[0] = 0;
	return x;
}

/* ---- ModernBERT (Warner et al., "Smarter, Better, Faster, Longer", 2024): norms in front, rotary positions, gated
 * feed-forward parts, no biases; a token of a local layer sees local_attention / 2 tokens on either side */

static int modern_layer(struct sl_hf_layers *e, int i, int x)
{
	const struct sl_hf_config *c = e->c;
	const struct sl_attention_attr attr = {
		.heads = c->heads, .p = (float)c->attention_dropout, .window = c->local[i] ? c->near / 2 + 1 : 0};
	static const char *const part[] = {"attn.q", "attn.k", "attn.v"};
	char to[SL_NAME_MAX];
	int y = i ? normed(e, "attn_norm", x) : x, qkv[3];

	y = sl_hf_dense(e, "attn.Wqkv", y, 3 * c->features, false);
	for (int k = 0; k < 3; k++)
		qkv[k] = sl_hf_cut(e, part[k], y, k * c->features, c->features);
	y = sl_hf_dense(e, "attn.Wo", sl_hf_attended(e, "attn.attention", qkv, i, attr), c->features, false);
	x = sl_hf_added(e, "add_attention", x, sl_hf_dropped(e, "attn.out_drop", y, c->attention_dropout));
	y = sl_hf_dense(e, "mlp.Wi", normed(e, "mlp_norm", x), 2 * c->wide, false);
	y = sl_build_mul(e->b, sl_hf_path(e, "mlp.gated", to),
			 sl_hf_activated(e, "mlp.act", sl_hf_cut(e, "mlp.input", y, 0, c->wide)),
			 sl_hf_cut(e, "mlp.gate", y, c->wide, c->wide));
	y = sl_hf_dense(e, "mlp.Wo", sl_hf_dropped(e, "mlp.drop", y, c->dropout), c->features, false);
	return sl_hf_added(e, "add_mlp", x, y);
}

static int modern_layers(struct sl_hf_layers *e)
{
	int x;

	sl_build_unit(e->b, "embeddings");
	snprintf(e->at, sizeof e->at, "model.embeddings.");
	e->words = e->b->model->graph.n_param;
	x = looked_up(e, "tok_embeddings", e->c->vocab, (struct sl_embedding_attr){0});
	x = sl_hf_dropped(e, "drop", normed(e, "norm", x), e->c->table_dropout);
	for (int i = 0; i < e->c->layers; i++) {
		char unit[SL_NAME_MAX];

		snprintf(unit, sizeof unit, "layers.%d", i);
		snprintf(e->at, sizeof e->at, "model.%.60s.", unit);
		sl_build_unit(e->b, unit);
		x = modern_layer(e, i, x);
	}
	snprintf(e->at, sizeof e->at, "model.");
	sl_build_unit(e->b, "final_norm");
	x = normed(e, "final_norm", x);
	e->at[0] = 0;
	return x;
}

/* The mean of a row's tokens: attention whose scores are all 0, of which the first token's is taken. */
static int mean_token(struct sl_hf_layers *e, int x)
{
	const int zero = sl_build_scale(e->b, "model.mean.zero", x, 0);

	return sl_build_select(e->b, "model.mean.first",
			       sl_build_attention(e->b, "model.mean.attention", zero, zero, x,
						  (struct sl_attention_attr){.heads = 1}));
}

/* Its classifier: dense, GELU, norm, dropout, classifier. Pretrained files have all but the last. */
static int modern_classifier(struct sl_hf_layers *e, int x, int classes)
{
	const struct sl_model *m = e->b->model;

	sl_build_unit(e->b, "head");
	x = sl_hf_dense(e, "head.dense", x, e->c->features, false);
	x = normed(e, "head.norm", sl_build_smooth(e->b, "head.act", x, SL_OP_GELU, false));
	for (int i = m->graph.n_param - 2; i < m->graph.n_param && x >= 0; i++)
		m->file[i].near_head = true;
	sl_build_unit(e->b, "classifier");
	sl_build_new_head(e->b);
	x = sl_hf_dropped(e, "drop", x, e->c->head_dropout);
	return sl_hf_dense(e, "classifier", x, classes, true);
}

/* ---- classifiers */

static int first_token(struct sl_hf_layers *e, int x)
{
	char name[SL_NAME_MAX];

	snprintf(name, sizeof name, "%s.first_token", sl_hf_prefix(e->c->family));
	return sl_build_select(e->b, name, x);
}

/* The classifier of RoBERTa and ELECTRA: dropout, dense, tanh or GELU, dropout, out_proj. */
static int two_layers(struct sl_hf_layers *e, int x, int classes)
{
	const bool gelu = e->c->family == SL_HF_ELECTRA;

	sl_build_unit(e->b, "classifier");
	sl_build_new_head(e->b);
	x = sl_hf_dropped(e, "classifier.dropout_in", x, e->c->head_dropout);
	x = sl_hf_dense(e, "classifier.dense", x, e->c->features, true);
	x = sl_build_smooth(e->b, gelu ? "classifier.gelu" : "classifier.tanh", x, gelu ? SL_OP_GELU : SL_OP_TANH,
			    false);
	x = sl_hf_dropped(e, "classifier.dropout", x, e->c->head_dropout);
	return sl_hf_dense(e, "classifier.out_proj", x, classes, true);
}

/* The classifier of BERT: pooler, dropout, classifier. Pretrained files have the pooler, except those of masked
 * language models (`near_head`). */
static int pooled(struct sl_hf_layers *e, int x, int classes)
{
	const struct sl_model *m = e->b->model;

	sl_build_unit(e->b, "pooler");
	x = sl_hf_dense(e, "bert.pooler.dense", x, e->c->features, true);
	for (int i = m->graph.n_param - 2; i < m->graph.n_param && x >= 0; i++)
		m->file[i].near_head = true;
	x = sl_build_smooth(e->b, "bert.pooler.tanh", x, SL_OP_TANH, false);
	sl_build_unit(e->b, "classifier");
	sl_build_new_head(e->b);
	x = sl_hf_dropped(e, "classifier.dropout", x, e->c->head_dropout);
	return sl_hf_dense(e, "classifier", x, classes, true);
}

/* The classifier of DistilBERT: dense, ReLU, dropout, classifier. */
static int rectified(struct sl_hf_layers *e, int x, int classes)
{
	sl_build_unit(e->b, "pre_classifier");
	sl_build_new_head(e->b);
	x = sl_hf_dense(e, "pre_classifier", x, e->c->features, true);
	x = sl_build_act(e->b, "pre_classifier.relu", x, SL_ACT_RELU);
	sl_build_unit(e->b, "classifier");
	x = sl_hf_dropped(e, "classifier.dropout", x, e->c->head_dropout);
	return sl_hf_dense(e, "classifier", x, classes, true);
}

void sl_hf_encoder(struct sl_build *b, const struct sl_hf_config *config, int classes)
{
	struct sl_hf_layers e = {.b = b, .c = config, .init = sl_init_normal(config->range)};
	int x = is_modern(&e) ? modern_layers(&e) : layers(&e, embeddings(&e));

	x = config->mean ? mean_token(&e, x) : first_token(&e, x);
	x = config->family == SL_HF_BERT         ? pooled(&e, x, classes)
	    : config->family == SL_HF_DISTILBERT ? rectified(&e, x, classes)
	    : config->family == SL_HF_MODERNBERT ? modern_classifier(&e, x, classes)
						 : two_layers(&e, x, classes);
	sl_build_loss(b, "loss", x);
}

/* ---- masked language models: dense, activation, norm, and a logit for each word of the vocabulary */

static const struct masked_names {
	const char *unit, *dense, *act, *norm, *decoder, *bias;
} masked[SL_HF_FAMILY_COUNT] = {
	[SL_HF_ROBERTA] = {"lm_head", "lm_head.dense", "lm_head.gelu", "lm_head.layer_norm", "lm_head.decoder",
			   "lm_head.bias"},
	[SL_HF_BERT] = {"cls.predictions", "cls.predictions.transform.dense", "cls.predictions.transform.act",
			"cls.predictions.transform.LayerNorm", "cls.predictions.decoder", "cls.predictions.bias"},
	[SL_HF_DISTILBERT] = {"vocab_transform", "vocab_transform", "vocab_transform.act", "vocab_layer_norm",
			      "vocab_projector", "vocab_projector.bias"},
	[SL_HF_ELECTRA] = {"generator_predictions", "generator_predictions.dense", "generator_predictions.gelu",
			   "generator_predictions.LayerNorm", "generator_lm_head", "generator_lm_head.bias"},
	[SL_HF_MODERNBERT] = {"head", "head.dense", "head.act", "head.norm", "decoder", "decoder.bias"},
};

/* The activation of that head. RoBERTa, ELECTRA and ModernBERT have GELU there, whatever their layers have. */
static int masked_act(const struct sl_hf_layers *e, const char *name, int in)
{
	const bool gelu = e->c->family == SL_HF_ROBERTA || e->c->family == SL_HF_ELECTRA || is_modern(e);

	return gelu ? sl_build_smooth(e->b, name, in, SL_OP_GELU, false) : sl_hf_activated(e, name, in);
}

void sl_hf_masked(struct sl_build *b, const struct sl_hf_config *config, float share)
{
	const struct masked_names *n = &masked[config->family];
	struct sl_hf_layers e = {.b = b, .c = config, .init = sl_init_normal(config->range)};
	int x = is_modern(&e) ? modern_layers(&e) : layers(&e, embeddings(&e));
	char name[SL_NAME_MAX];

	sl_build_unit(b, n->unit);
	sl_build_new_head(b);
	snprintf(name, sizeof name, "%s.chosen_tokens", sl_hf_prefix(config->family));
	x = sl_build_gather(b, name, x, share);
	x = sl_hf_dense(&e, n->dense, x, config->embedded, !is_modern(&e));
	x = normed(&e, n->norm, masked_act(&e, n->act, x));
	x = sl_build_decoder(b, n->decoder, x, config->untied ? -1 : e.words, n->bias, e.init);
	sl_build_loss(b, "loss", x);
}
