/* Encoders as transformers has them, by config.json: the names of its modules, its order of operations, its initial
 * weights. Layers are post-norm: LN(x + dropout(dense(attention(x)))), then LN(x + dropout(down(act(up(x))))).
 *
 * The classifier reads a row's first token alone: it is selected at the end of the last layer's unit, so that a cut
 * behind it carries one vector a row. */
#include <stdio.h>
#include <string.h>

#include "common/model/huggingface.h"

struct encoder {
	struct sl_build *b;
	const struct sl_hf_config *c;
	char at[SL_NAME_MAX]; /* of the layer that is built: "roberta.encoder.layer.0" */
	struct sl_init init;
};

/* A module's path: that of the layer, or of the network, and what comes behind. Names are short enough by far. */
static const char *path(const struct encoder *e, const char *name, char out[SL_NAME_MAX])
{
	snprintf(out, SL_NAME_MAX, "%.60s%s%.30s", e->at, e->at[0] ? "." : "", name);
	return out;
}

static int dense(const struct encoder *e, const char *name, int in, int out_f)
{
	char to[SL_NAME_MAX];

	return sl_build_linear(e->b, path(e, name, to), in, out_f, true, e->init);
}

static int dropped(const struct encoder *e, const char *name, int in, double p)
{
	char to[SL_NAME_MAX];

	return p > 0 ? sl_build_dropout(e->b, path(e, name, to), in, (float)p) : in;
}

static int added(const struct encoder *e, const char *name, int x, int y)
{
	char to[SL_NAME_MAX];

	return sl_build_add(e->b, path(e, name, to), x, y);
}

static int normed(const struct encoder *e, const char *name, int in)
{
	char to[SL_NAME_MAX];

	return sl_build_layernorm(e->b, path(e, name, to), in, (float)e->c->eps);
}

static int activated(const struct encoder *e, const char *name, int in)
{
	char to[SL_NAME_MAX];

	if (e->c->act == SL_OP_ACT)
		return sl_build_act(e->b, path(e, name, to), in, SL_ACT_RELU);
	return sl_build_smooth(e->b, path(e, name, to), in, e->c->act, e->c->act_tanh);
}

static int looked_up(const struct encoder *e, const char *name, int rows, struct sl_embedding_attr attr)
{
	char to[SL_NAME_MAX];

	attr.rows = rows;
	attr.features = e->c->features;
	return sl_build_lookup(e->b, path(e, name, to), SL_BUILD_INPUT, attr, e->init);
}

/* Sums are taken in transformers' order: word, type, position. Token types of RoBERTa are all 0: no token is the mark.
 */
static int embeddings(struct encoder *e)
{
	const struct sl_hf_config *c = e->c;
	int x;

	sl_build_unit(e->b, "embeddings");
	snprintf(e->at, sizeof e->at, "%s.embeddings", sl_hf_family_name(c->family));
	x = looked_up(e, "word_embeddings", c->vocab, (struct sl_embedding_attr){0});
	x = added(e, "add_type", x,
		  looked_up(e, "token_type_embeddings", c->types,
			    (struct sl_embedding_attr){.segment = true, .mark = c->vocab}));
	x = added(e, "add_position", x,
		  looked_up(e, "position_embeddings", c->positions,
			    (struct sl_embedding_attr){.position = true, .first = c->first}));
	return dropped(e, "dropout", normed(e, "LayerNorm", x), c->dropout);
}

static int layer(struct encoder *e, int x)
{
	const struct sl_hf_config *c = e->c;
	const struct sl_attention_attr attr = {.heads = c->heads, .p = (float)c->attention_dropout};
	char to[SL_NAME_MAX];
	int q, k, v, y;

	q = dense(e, "attention.self.query", x, c->features);
	k = dense(e, "attention.self.key", x, c->features);
	v = dense(e, "attention.self.value", x, c->features);
	y = sl_build_attention(e->b, path(e, "attention.self", to), q, k, v, attr);
	y = dense(e, "attention.output.dense", y, c->features);
	y = dropped(e, "attention.output.dropout", y, c->dropout);
	x = normed(e, "attention.output.LayerNorm", added(e, "attention.output.add", y, x));
	y = activated(e, "intermediate.act", dense(e, "intermediate.dense", x, c->wide));
	y = dropped(e, "output.dropout", dense(e, "output.dense", y, c->features), c->dropout);
	return normed(e, "output.LayerNorm", added(e, "output.add", y, x));
}

static int layers(struct encoder *e, int x)
{
	char unit[SL_NAME_MAX];

	for (int i = 0; i < e->c->layers; i++) {
		snprintf(unit, sizeof unit, "encoder.layer.%d", i);
		snprintf(e->at, sizeof e->at, "%s.%.60s", sl_hf_family_name(e->c->family), unit);
		sl_build_unit(e->b, unit);
		x = layer(e, x);
	}
	snprintf(e->at, sizeof e->at, "%s", sl_hf_family_name(e->c->family));
	return sl_build_select(e->b, path(e, "first_token", unit), x);
}

static void classifier(struct encoder *e, int x, int classes)
{
	e->at[0] = 0;
	sl_build_unit(e->b, "classifier");
	sl_build_new_head(e->b);
	x = dropped(e, "classifier.dropout_in", x, e->c->head_dropout);
	x = dense(e, "classifier.dense", x, e->c->features);
	x = sl_build_smooth(e->b, "classifier.tanh", x, SL_OP_TANH, false);
	x = dropped(e, "classifier.dropout", x, e->c->head_dropout);
	x = dense(e, "classifier.out_proj", x, classes);
	sl_build_xent(e->b, "loss", x);
}

void sl_hf_encoder(struct sl_build *b, const struct sl_hf_config *config, int classes)
{
	struct encoder e = {.b = b, .c = config, .init = sl_init_normal(config->range)};

	classifier(&e, layers(&e, embeddings(&e)), classes);
}
