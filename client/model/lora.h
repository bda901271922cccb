/* Low-rank adapters (Hu et al., "LoRA", 2021). A linear layer y = W·x + b stops learning. To its output is added
 * (alpha / rank) · B·A·dropout(x), where A [rank, in] and B [out, rank] learn. A starts as U(±1/√in), B as 0, so at
 * first nothing changes. */
#ifndef SL_CLIENT_MODEL_LORA_H
#define SL_CLIENT_MODEL_LORA_H

#include "common/graph/model.h"
#include "common/weights/weights.h"

struct sl_conf_list;

struct sl_lora {
	int rank;
	double alpha, dropout;
	const struct sl_conf_list *target; /* last words of the layers' paths: "query", "self.query" */
};

/* Whether the layer is a target of the config, and so gets an adapter. The builder remembers which targets it met. */
bool sl_lora_wants(struct sl_build *b, const char *name);
/* Adds the adapter of the linear layer `name`, whose parameter is `weight`, input `in` and output `out`; returns the
 * sum of both outputs. `transposed`: the weight is [in, out]. */
int sl_lora_build(struct sl_build *b, const char *name, int in, int out, int weight, bool transposed);
/* Fails the build with CONFIG at lora.target if it met no layer for some target. */
void sl_lora_check(struct sl_build *b);

/* Replaces every W that has an adapter by W + (alpha / rank)·B·A. The adapters' weights do not change. */
void sl_lora_merge(const struct sl_model *model, struct sl_weights *weights);
/* Whether parameter i is an adapter's. */
bool sl_lora_has(const struct sl_model *model, int i);

#endif
