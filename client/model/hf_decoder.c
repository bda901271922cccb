/* Decoders of Llama's form as transformers has them, by config.json: the names of its modules, its order of operations.
 * Layers are pre-norm: x + o(attention(norm(x))), then x + down(act(gate(n)) · up(n)), n = norm(x). Norms are RMS
 * norms, positions rotary, pairs (i, i + D/2) (Touvron et al., "LLaMA", 2023; Su et al., "RoFormer", 2021).
 *
 * Only tokens that have a loss need what is behind the last layer: they are gathered in front of the last norm. */
#include <stdio.h>

#include "client/model/huggingface.h"

struct decoder {
	struct sl_build *b;
	const struct sl_hf_config *c;
	char at[SL_NAME_MAX]; /* of the layer that is built: "model.layers.0." */
	struct sl_init init;
};

static const char *path(const struct decoder *d, const char *name, char out[SL_NAME_MAX])
{
	snprintf(out, SL_NAME_MAX, "%.50s%.40s", d->at, name);
	return out;
}

static int dense(const struct decoder *d, const char *name, int in, int out_f, bool bias)
{
	char to[SL_NAME_MAX];

	return sl_build_linear(d->b, path(d, name, to), in, out_f, bias, d->init);
}

static int added(const struct decoder *d, const char *name, int x, int y)
{
	char to[SL_NAME_MAX];

	return sl_build_add(d->b, path(d, name, to), x, y);
}

static int normed(const struct decoder *d, const char *name, int in)
{
	char to[SL_NAME_MAX];

	return sl_build_rmsnorm(d->b, path(d, name, to), in, (float)d->c->eps);
}

static int activated(const struct decoder *d, const char *name, int in)
{
	char to[SL_NAME_MAX];

	if (d->c->act == SL_OP_ACT)
		return sl_build_act(d->b, path(d, name, to), in, SL_ACT_RELU);
	return sl_build_smooth(d->b, path(d, name, to), in, d->c->act, d->c->act_tanh);
}

static int attended(const struct decoder *d, int x)
{
	const struct sl_hf_config *c = d->c;
	const struct sl_attention_attr attr = {.heads = c->heads,
					       .kv = c->kv,
					       .causal = true,
					       .rope = (float)c->rope,
					       .p = (float)c->attention_dropout};
	char to[SL_NAME_MAX];
	int q, k, v;

	q = dense(d, "self_attn.q_proj", x, c->heads * c->head, c->qkv_bias);
	k = dense(d, "self_attn.k_proj", x, c->kv * c->head, c->qkv_bias);
	v = dense(d, "self_attn.v_proj", x, c->kv * c->head, c->qkv_bias);
	x = sl_build_attention(d->b, path(d, "self_attn.attention", to), q, k, v, attr);
	return dense(d, "self_attn.o_proj", x, c->features, c->out_bias);
}

static int widened(const struct decoder *d, int x)
{
	const struct sl_hf_config *c = d->c;
	char to[SL_NAME_MAX];
	int gate = activated(d, "mlp.act_fn", dense(d, "mlp.gate_proj", x, c->wide, c->wide_bias));
	int up = dense(d, "mlp.up_proj", x, c->wide, c->wide_bias);

	x = sl_build_mul(d->b, path(d, "mlp.gated", to), gate, up);
	return dense(d, "mlp.down_proj", x, c->features, c->wide_bias);
}

static int layer(struct decoder *d, int i, int x)
{
	char unit[SL_NAME_MAX];

	snprintf(unit, sizeof unit, "layers.%d", i);
	snprintf(d->at, sizeof d->at, "model.layers.%d.", i);
	sl_build_unit(d->b, unit);
	x = added(d, "add_attention", x, attended(d, normed(d, "input_layernorm", x)));
	return added(d, "add_mlp", x, widened(d, normed(d, "post_attention_layernorm", x)));
}

void sl_hf_decoder(struct sl_build *b, const struct sl_hf_config *c)
{
	struct decoder d = {.b = b, .c = c, .at = "model.", .init = sl_init_normal(c->range)};
	const struct sl_embedding_attr words = {.rows = c->vocab, .features = c->features};
	const int table = b->model->graph.n_param;
	int x;

	sl_build_unit(b, "embed_tokens");
	x = sl_build_lookup(b, "model.embed_tokens", SL_BUILD_INPUT, words, d.init);
	for (int i = 0; i < c->layers; i++)
		x = layer(&d, i, x);
	snprintf(d.at, sizeof d.at, "model.");
	sl_build_unit(b, "norm");
	x = normed(&d, "norm", sl_build_gather(b, "model.chosen_tokens", x, 1));
	sl_build_unit(b, "lm_head");
	sl_build_loss(b, "loss", sl_build_decoder(b, "lm_head", x, c->untied ? -1 : table, NULL, d.init));
}
