/* Low-rank adapters (Hu et al., "LoRA", 2021): beside a linear layer y = W·x + b that no longer learns stands
 * (alpha / rank) · B·A·dropout(x), of which A [rank, in] and B [out, rank] do. A starts as U(±1/√in), B as 0, so at
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

/* Whether the layer is to have an adapter. What was asked for, the builder remembers. */
bool sl_lora_wants(struct sl_build *b, const char *name);
/* Adds the adapter of the linear layer `name` with parameter `weight`, from `in` to `out`; returns their sum.
 * `transposed`: the weight is [in, out]. */
int sl_lora_build(struct sl_build *b, const char *name, int in, int out, int weight, bool transposed);
/* CONFIG with the key lora.target: a target that the builder has met nowhere. */
void sl_lora_check(struct sl_build *b);

/* W + (alpha / rank)·B·A in the place of every W that has an adapter. Adapters stay as they are. */
void sl_lora_merge(const struct sl_model *model, struct sl_weights *weights);
/* Whether parameter i is an adapter's. */
bool sl_lora_has(const struct sl_model *model, int i);

#endif
