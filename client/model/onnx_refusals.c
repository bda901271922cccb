/* Refusals. The importer reports all modules that it cannot read, not only the first one. The outputs of a refused node
 * are unread values. Nodes that depend on these are passed over, except nodes of a kind that is never read. */
#include <stdio.h>
#include <string.h>

#include "client/model/onnx_nodes.h"
#include "common/base/log.h"

/* Kinds of nodes that torch writes, what torch calls them, and what a user can do instead. */
static const struct advice {
	const char *word, *torch, *instead;
} advices[] = {
	{"ArgMax", "argmax", "leave it out: a network gives logits"},
	{"CumSum", "cumsum", NULL},
	{"Expand", "expand", "write it with additions, which repeat a parameter for every sample"},
	{"GatherElements", "gather", NULL},
	{"GridSample", "F.grid_sample", NULL},
	{"If", "a branch on values", "take a fixed size of pictures, without a branch"},
	{"LRN", "nn.LocalResponseNorm", "take nn.BatchNorm2d or nn.GroupNorm"},
	{"LogSoftmax", "log_softmax", "leave it out at the end of a network: the loss has it"},
	{"Loop", "a loop", "unroll it"},
	{"MaxUnpool", "nn.MaxUnpool2d", "take nn.ConvTranspose2d"},
	{"NonZero", "nonzero", NULL},
	{"RandomUniformLike", "rand_like", "nn.Dropout is read"},
	{"Scan", "a loop", "unroll it"},
	{"ScatterND", "an assignment to a part", "write it with torch.cat"},
	{"Softmax", "softmax", "leave it out at the end of a network: the loss has it"},
	{"TopK", "topk", NULL},
	{"Where", "where", NULL},
};

static const struct advice *advice_of(const char *kind)
{
	for (size_t i = 0; i < sizeof advices / sizeof advices[0]; i++)
		if (strcmp(advices[i].word, kind) == 0)
			return &advices[i];
	return NULL;
}

void sl_onnx_refuse_kind(struct sl_onnx_import *im)
{
	const struct advice *a = advice_of(im->node->op_type);

	if (a)
		sl_onnx_refuse(im, "torch's %s is not read%s%s", a->torch, a->instead ? "; " : "",
			       a->instead ? a->instead : "");
	else
		sl_onnx_refuse(im, "this kind is not read; docs/howto-onnx.md lists those that are");
}

/* The path of the node's module; if the node's name has none, the node's name in our graph. */
static void module_of(const struct sl_onnx_import *im, char out[SL_NAME_MAX])
{
	const char *last;

	if (!im->node->name || !sl_onnx_scope(im->node->name, out, &last) || !out[0])
		snprintf(out, SL_NAME_MAX, "%s", im->name);
}

/* Lists one refused node of each module: the first that has advice, such as a Loop after nodes of its state; else
 * the first one. */
void sl_onnx_note_refusal(struct sl_onnx_import *im)
{
	struct sl_onnx_refused *r = im->refused;
	const struct sl_onnx_refused *end =
		r + (im->n_refused < SL_ONNX_MOST_REFUSED ? im->n_refused : SL_ONNX_MOST_REFUSED);
	char module[SL_NAME_MAX];

	module_of(im, module);
	while (r < end && strcmp(r->module, module) != 0)
		r++;
	if (r < end) {
		if (advice_of(r->kind) || !advice_of(im->node->op_type))
			return;
	} else if (im->n_refused++ >= SL_ONNX_MOST_REFUSED) {
		return;
	}
	memcpy(r->module, module, sizeof module);
	snprintf(r->kind, sizeof r->kind, "%s", im->node->op_type);
	snprintf(r->says, sizeof r->says, "%s", im->b->fail->text);
}

void sl_onnx_report_refusals(struct sl_onnx_import *im)
{
	char names[SL_FAIL_TEXT / 2];
	size_t used = 0;
	int named = 0;

	if (im->n_refused == 1)
		sl_build_refuse(im->b, "%s", im->refused[0].says);
	if (im->n_refused < 2)
		return;
	for (int i = 0; i < im->n_refused && i < SL_ONNX_MOST_REFUSED; i++) {
		const struct sl_onnx_refused *r = &im->refused[i];
		const size_t more = strlen(r->module) + strlen(r->kind) + 5;

		sl_log(SL_LOG_WARN, "onnx-not-read", "%s: %s", r->module, r->says);
		if (named == i && used + more < sizeof names) {
			used += (size_t)snprintf(names + used, sizeof names - used, "%s%s (%s)", i ? ", " : "",
						 r->module, r->kind);
			named++;
		}
	}
	sl_build_refuse(im->b, "%d modules are not read, which the lines above explain: %s%s", im->n_refused, names,
			named < im->n_refused ? ", …" : "");
}
