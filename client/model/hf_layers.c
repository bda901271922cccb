/* Layers that both encoders and decoders of Hugging Face folders have. */
#include <stdio.h>

#include "client/model/huggingface.h"

const char *sl_hf_path(const struct sl_hf_layers *l, const char *name, char out[SL_NAME_MAX])
{
	snprintf(out, SL_NAME_MAX, "%.50s%.40s", l->at, name);
	return out;
}

int sl_hf_dense(const struct sl_hf_layers *l, const char *name, int in, int out_f, bool bias)
{
	char to[SL_NAME_MAX];

	return sl_build_linear(l->b, sl_hf_path(l, name, to), in, out_f, bias, l->init);
}

int sl_hf_dropped(const struct sl_hf_layers *l, const char *name, int in, double p)
{
	char to[SL_NAME_MAX];

	return p > 0 ? sl_build_dropout(l->b, sl_hf_path(l, name, to), in, (float)p) : in;
}

int sl_hf_added(const struct sl_hf_layers *l, const char *name, int x, int y)
{
	char to[SL_NAME_MAX];

	return sl_build_add(l->b, sl_hf_path(l, name, to), x, y);
}

int sl_hf_activated(const struct sl_hf_layers *l, const char *name, int in)
{
	char to[SL_NAME_MAX];

	if (l->c->act == SL_OP_ACT)
		return sl_build_act(l->b, sl_hf_path(l, name, to), in, SL_ACT_RELU);
	return sl_build_smooth(l->b, sl_hf_path(l, name, to), in, l->c->act, l->c->act_tanh);
}

int sl_hf_cut(const struct sl_hf_layers *l, const char *name, int in, int first, int n)
{
	char to[SL_NAME_MAX];

	return sl_build_resample(l->b, sl_hf_path(l, name, to), in,
				 (struct sl_resample_attr){1, n, SL_RESAMPLE_CUT, first, 0, 1, 1});
}

int sl_hf_attended(const struct sl_hf_layers *l, const char *name, const int qkv[3], int i,
		   struct sl_attention_attr attr)
{
	const struct sl_hf_rope *rope = l->c->local[i] ? &l->c->local_rope : &l->c->rope;
	char to[SL_NAME_MAX];

	attr.rope = (float)rope->theta;
	attr.rope_factor = (float)rope->factor;
	attr.rope_low = (float)rope->low;
	attr.rope_high = (float)rope->high;
	attr.rope_old = rope->old;
	attr.rope_part = rope->part;
	attr.rope_gain = (float)rope->gain;
	return sl_build_attention(l->b, sl_hf_path(l, name, to), qkv[0], qkv[1], qkv[2], attr);
}
