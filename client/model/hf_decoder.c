/* Builds the decoder that config.json describes, with transformers' names of modules and order of operations.
 *
 * A layer of Llama's form is x + o(attention(norm(x))), then x + down(act(gate(n)) · up(n)), where n = norm(x). Norms
 * are RMS norms; positions are rotary, of pairs (i, i + D/2) (Touvron et al., "LLaMA", 2023; Su et al., "RoFormer",
 * 2021). struct sl_hf_form says how other families differ (Qwen3 2025; Abdin et al., "Phi-3", 2024; Gemma Team,
 * "Gemma", 2024, "Gemma 2", 2024, and "Gemma 3", 2025; OLMo Team, "2 OLMo 2 Furious", 2025). Granite (IBM, 2024) has
 * four factors. GPT-2 (Radford et al., 2019) has learned positions, layer norms, and no gate.
 *
 * Behind the last layer only tokens that have a loss are needed: they are gathered in front of the last norm. */
#include <math.h>
#include <stdio.h>

#include "client/model/huggingface.h"

/* `features`: how many are normed together. */
static int normed(const struct sl_hf_layers *d, const char *name, int in, int features)
{
	char to[SL_NAME_MAX];

	return sl_build_rmsnorm(d->b, sl_hf_path(d, name, to), in, features, (float)d->c->eps, d->c->form.plus);
}

static int scaled(const struct sl_hf_layers *d, const char *name, int in, double by)
{
	char to[SL_NAME_MAX];

	return sl_build_scale(d->b, sl_hf_path(d, name, to), in, (float)by);
}

/* The attention of layer i. */
static int attend(const struct sl_hf_layers *d, const char *name, const int qkv[3], int i)
{
	const struct sl_hf_config *c = d->c;

	return sl_hf_attended(d, name, qkv, i,
			      (struct sl_attention_attr){.heads = c->heads,
							 .kv = c->kv,
							 .causal = true,
							 .cap = (float)c->cap,
							 .p = (float)c->attention_dropout});
}

/* Cuts q, k and v out of the value `all`. */
static void parted(const struct sl_hf_layers *d, const char *name, int all, int qkv[3])
{
	const int q = d->c->heads * d->c->head, kv = d->c->kv * d->c->head;
	char to[3][SL_NAME_MAX];

	for (int i = 0; i < 3; i++) {
		snprintf(to[i], sizeof to[i], "%s.%c", name, "qkv"[i]);
		qkv[i] = sl_hf_cut(d, to[i], all, i ? q + (i - 1) * kv : 0, i ? kv : q);
	}
}

static int attended(const struct sl_hf_layers *d, int x, int i)
{
	const struct sl_hf_config *c = d->c;
	const int q = c->heads * c->head, kv = c->kv * c->head;
	int qkv[3];

	if (c->form.fused) {
		parted(d, "self_attn", sl_hf_dense(d, "self_attn.qkv_proj", x, q + 2 * kv, false), qkv);
	} else {
		qkv[0] = sl_hf_dense(d, "self_attn.q_proj", x, q, c->qkv_bias);
		qkv[1] = sl_hf_dense(d, "self_attn.k_proj", x, kv, c->qkv_bias);
		qkv[2] = sl_hf_dense(d, "self_attn.v_proj", x, kv, c->qkv_bias);
	}
	if (c->form.head_norms) {
		qkv[0] = normed(d, "self_attn.q_norm", qkv[0], c->head);
		qkv[1] = normed(d, "self_attn.k_norm", qkv[1], c->head);
	}
	if (c->form.whole_norms) {
		qkv[0] = normed(d, "self_attn.q_norm", qkv[0], q);
		qkv[1] = normed(d, "self_attn.k_norm", qkv[1], kv);
	}
	if (c->scores_by > 0) /* attention divides by √head */
		qkv[0] = scaled(d, "self_attn.q_scale", qkv[0], c->scores_by * sqrt(c->head));
	if (c->query > 0 && c->query != c->head)
		qkv[0] = scaled(d, "self_attn.q_scale", qkv[0], sqrt(c->head / c->query));
	x = attend(d, "self_attn.attention", qkv, i);
	return sl_hf_dense(d, "self_attn.o_proj", x, c->features, c->out_bias);
}

static int widened(const struct sl_hf_layers *d, int x)
{
	const struct sl_hf_config *c = d->c;
	char to[SL_NAME_MAX];
	int gate, up;

	if (c->form.fused) {
		up = sl_hf_dense(d, "mlp.gate_up_proj", x, 2 * c->wide, false);
		gate = sl_hf_activated(d, "mlp.act_fn", sl_hf_cut(d, "mlp.gate", up, 0, c->wide));
		up = sl_hf_cut(d, "mlp.up", up, c->wide, c->wide);
	} else {
		gate = sl_hf_activated(d, "mlp.act_fn", sl_hf_dense(d, "mlp.gate_proj", x, c->wide, c->wide_bias));
		up = sl_hf_dense(d, "mlp.up_proj", x, c->wide, c->wide_bias);
	}
	x = sl_build_mul(d->b, sl_hf_path(d, "mlp.gated", to), gate, up);
	return sl_hf_dense(d, "mlp.down_proj", x, c->features, c->wide_bias);
}

static void begin_layer(struct sl_hf_layers *d, const char *layers, int i)
{
	char unit[SL_NAME_MAX];

	snprintf(unit, sizeof unit, "%s.%d", layers, i);
	snprintf(d->at, sizeof d->at, "%s.%.40s.", sl_hf_prefix(d->c->family), unit);
	sl_build_unit(d->b, unit);
}

/* x and what a half of a layer gives, y. */
static int joined(const struct sl_hf_layers *d, const char *half, int x, int y)
{
	char by[SL_NAME_MAX], add[SL_NAME_MAX];

	snprintf(by, sizeof by, "scale_%s", half);
	snprintf(add, sizeof add, "add_%s", half);
	return sl_hf_added(d, add, x, d->c->added_by > 0 ? scaled(d, by, y, d->c->added_by) : y);
}

static int layer(struct sl_hf_layers *d, int i, int x)
{
	const struct sl_hf_config *c = d->c;
	const bool four = c->form.four_norms, behind = c->form.norms_behind;
	int y;

	begin_layer(d, "layers", i);
	y = attended(d, behind ? x : normed(d, "input_layernorm", x, c->features), i);
	if (four || behind)
		y = normed(d, "post_attention_layernorm", y, c->features);
	x = joined(d, "attention", x, sl_hf_dropped(d, "resid_attn_dropout", y, c->dropout));
	y = behind ? x : normed(d, four ? "pre_feedforward_layernorm" : "post_attention_layernorm", x, c->features);
	y = widened(d, y);
	if (four || behind)
		y = normed(d, "post_feedforward_layernorm", y, c->features);
	return joined(d, "mlp", x, sl_hf_dropped(d, "resid_mlp_dropout", y, c->dropout));
}

static int centred(const struct sl_hf_layers *d, const char *name, int in)
{
	char to[SL_NAME_MAX];

	return sl_build_layernorm(d->b, sl_hf_path(d, name, to), in, (float)d->c->eps, true);
}

/* A layer of transformers' Conv1D, whose weight is [in, out]. */
static int conv1d(const struct sl_hf_layers *d, const char *name, int in, int out_f)
{
	char to[SL_NAME_MAX];

	return sl_build_matmul(d->b, sl_hf_path(d, name, to), in, out_f, d->init);
}

static int gpt2_layer(struct sl_hf_layers *d, int i, int x)
{
	const struct sl_hf_config *c = d->c;
	int qkv[3], y;

	begin_layer(d, "h", i);
	parted(d, "attn", conv1d(d, "attn.c_attn", centred(d, "ln_1", x), 3 * c->features), qkv);
	y = conv1d(d, "attn.c_proj", attend(d, "attn.attention", qkv, i), c->features);
	x = sl_hf_added(d, "add_attention", x, sl_hf_dropped(d, "attn.resid_dropout", y, c->dropout));
	y = sl_hf_activated(d, "mlp.act", conv1d(d, "mlp.c_fc", centred(d, "ln_2", x), c->wide));
	y = sl_hf_dropped(d, "mlp.dropout", conv1d(d, "mlp.c_proj", y, c->features), c->dropout);
	return sl_hf_added(d, "add_mlp", x, y);
}

static int gpt2_embedded(const struct sl_hf_layers *d, struct sl_embedding_attr words)
{
	const struct sl_embedding_attr places = {.rows = d->c->positions, .features = d->c->features, .position = true};
	char to[SL_NAME_MAX];
	int x = sl_build_lookup(d->b, sl_hf_path(d, "wte", to), SL_BUILD_INPUT, words, d->init);
	int y = sl_build_lookup(d->b, sl_hf_path(d, "wpe", to), SL_BUILD_INPUT, places, d->init);

	return sl_hf_dropped(d, "drop", sl_hf_added(d, "add_positions", x, y), d->c->head_dropout);
}

static int embedded(const struct sl_hf_layers *d, struct sl_embedding_attr words)
{
	char to[SL_NAME_MAX];
	const int x = sl_build_lookup(d->b, sl_hf_path(d, "embed_tokens", to), SL_BUILD_INPUT, words, d->init);

	if (d->c->table_by > 0)
		return scaled(d, "embed_scale", x, d->c->table_by);
	return d->c->form.scaled_table ? scaled(d, "embed_scale", x, sqrt(d->c->features)) : x;
}

/* cap·tanh(logits/cap) */
static int bent(struct sl_build *b, int logits, double cap)
{
	logits = sl_build_scale(b, "lm_head.cap_in", logits, (float)(1 / cap));
	logits = sl_build_smooth(b, "lm_head.cap", logits, SL_OP_TANH, false);
	return sl_build_scale(b, "lm_head.cap_out", logits, (float)cap);
}

void sl_hf_decoder(struct sl_build *b, const struct sl_hf_config *c)
{
	const struct sl_embedding_attr words = {.rows = c->vocab, .features = c->features};
	const bool gpt2 = c->family == SL_HF_GPT2;
	struct sl_hf_layers d = {.b = b, .c = c, .init = sl_init_normal(c->range)};
	const int table = b->model->graph.n_param;
	int x;

	snprintf(d.at, sizeof d.at, "%s.", sl_hf_prefix(c->family));
	sl_build_unit(b, gpt2 ? "wte" : "embed_tokens");
	x = gpt2 ? gpt2_embedded(&d, words) : embedded(&d, words);
	for (int i = 0; i < c->layers; i++)
		x = gpt2 ? gpt2_layer(&d, i, x) : layer(&d, i, x);
	snprintf(d.at, sizeof d.at, "%s.", sl_hf_prefix(c->family));
	sl_build_unit(b, gpt2 ? "ln_f" : "norm");
	x = sl_build_gather(b, "model.chosen_tokens", x, 1);
	x = gpt2 ? centred(&d, "ln_f", x) : normed(&d, "norm", x, c->features);
	if (c->logits_over > 0)
		x = scaled(&d, "logits_scale", x, 1 / c->logits_over);
	sl_build_unit(b, "lm_head");
	x = sl_build_decoder(b, "lm_head", x, c->untied ? -1 : table, NULL, d.init);
	sl_build_loss(b, "loss", c->last_cap > 0 ? bent(b, x, c->last_cap) : x);
}
