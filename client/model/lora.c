#include "client/model/lora.h"

#include <stdio.h>
#include <string.h>

#include "common/conf/conf.h"

_Static_assert(SL_CONF_LIST_MAX <= 32, "targets that were met are bits");

bool sl_lora_wants(struct sl_build *b, const char *name)
{
	const struct sl_conf_list *list = b->lora && !b->adapting && !b->head && !b->insert ? b->lora->target : NULL;
	const size_t len = strlen(name);
	bool wanted = false;

	for (int i = 0; list && i < list->n; i++) {
		const char *target = list->item[i];
		const size_t n = strlen(target);

		if (n <= len && strcmp(name + len - n, target) == 0 && (n == len || name[len - n - 1] == '.')) {
			b->lora_met |= UINT32_C(1) << i;
			wanted = true;
		}
	}
	return wanted;
}

static const char *part(char out[SL_NAME_MAX + 16], const char *name, const char *suffix)
{
	snprintf(out, SL_NAME_MAX + 16, "%s.%s", name, suffix);
	return out;
}

int sl_lora_build(struct sl_build *b, const char *name, int in, int out, int weight, bool transposed)
{
	const struct sl_lora *lora = b->lora;
	const struct sl_shape shape = sl_build_shape(b, out), x = sl_build_shape(b, in);
	const int out_f = (int)shape.dim[shape.ndim - 1];
	struct sl_adapter adapter = {
		.weight = weight, .transposed = transposed, .scale = (float)(lora->alpha / lora->rank)};
	char to[SL_NAME_MAX + 16];
	int y = in;

	b->adapting = true;
	if (lora->dropout > 0)
		y = sl_build_dropout(b, part(to, name, "lora_dropout"), y, (float)lora->dropout);
	adapter.a = b->model->graph.n_param;
	y = sl_build_linear(b, part(to, name, "lora_A"), y, lora->rank, false, sl_init_as_torch(x.dim[x.ndim - 1]));
	adapter.b = b->model->graph.n_param;
	y = sl_build_linear(b, part(to, name, "lora_B"), y, out_f, false, (struct sl_init){SL_INIT_ZERO, 0});
	y = sl_build_scale(b, part(to, name, "lora_scale"), y, adapter.scale);
	y = sl_build_add(b, part(to, name, "lora_add"), out, y);
	b->adapting = false;
	sl_build_adapter(b, &adapter);
	return y;
}

void sl_lora_check(struct sl_build *b)
{
	const struct sl_lora *lora = b->lora;

	for (int i = 0; lora && i < lora->target->n; i++)
		if (!b->err && !(b->lora_met >> i & 1))
			b->err = sl_fail_at(
				b->fail, "lora.target", SL_ERR_CONFIG,
				"no linear layer before the output is called \"%.80s\" (`splitc graph` lists them)",
				lora->target->item[i]);
}

void sl_lora_merge(const struct sl_model *model, struct sl_weights *weights)
{
	for (int i = 0; i < model->n_adapter; i++) {
		const struct sl_adapter *ad = &model->adapter[i];
		const int64_t *shape_a = model->graph.param[ad->a].shape.dim, rank = shape_a[0], in = shape_a[1];
		const int64_t out = model->graph.param[ad->b].shape.dim[0];
		const float *a = weights->value[ad->a], *b = weights->value[ad->b];
		float *w = weights->value[ad->weight];

		for (int64_t o = 0; o < out; o++)
			for (int64_t k = 0; k < in; k++) {
				float *to = w + (ad->transposed ? k * out + o : o * in + k);
				double sum = 0;

				for (int64_t r = 0; r < rank; r++)
					sum += (double)b[o * rank + r] * (double)a[r * in + k];
				*to = (float)((double)*to + (double)ad->scale * sum);
			}
	}
}

bool sl_lora_has(const struct sl_model *model, int i)
{
	for (int k = 0; k < model->n_adapter; k++)
		if (model->adapter[k].a == i || model->adapter[k].b == i)
			return true;
	return false;
}
