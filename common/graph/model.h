/* A network as a source makes it: its graph, and beside it what only the client needs to know. Units, by which users
 * cut; names and layouts of the parameters in weight files. Nothing here holds weights. */
#ifndef SL_GRAPH_MODEL_H
#define SL_GRAPH_MODEL_H

#include <math.h>

#include "common/graph/task.h"

/* How a parameter's memory layout (op.h) relates to the one in a safetensors file of torchvision. */
enum sl_param_layout {
	SL_LAYOUT_SAME,
	SL_LAYOUT_OHWI_FROM_OIHW, /* dense convolution */
	SL_LAYOUT_HWC_FROM_C1HW,  /* depthwise convolution: [KH,KW,C] from [C,1,KH,KW] */
	SL_LAYOUT_HWC_FROM_CHW    /* linear behind a flattened image: [O,H·W·C] from [O,C·H·W] */
};

/* A parameter in weight files; there it has the graph's name for it. */
struct sl_file_param {
	struct sl_shape shape;
	enum sl_param_layout layout;
	int64_t channels; /* HWC_FROM_CHW: C */
	bool optional;    /* a weight file may lack it: then it starts from its initialisation */
	bool head;        /* of a head that pretrained files lack */
	bool near_head;   /* trained before, but a file that lacks the head may lack it, too */
};

enum { SL_MODEL_NOTE = SL_NAME_MAX + 96 };

struct sl_unit {
	char name[SL_NAME_MAX];   /* "features.0" … "classifier" */
	int first_node, end_node; /* [first, end) */
};

/* Of lora.h: parameters of the graph. */
struct sl_adapter {
	int weight, a, b;
	bool transposed; /* the weight is [in, out] */
	float scale;
};

struct sl_lora;

struct sl_model {
	char name[SL_NAME_MAX];
	char note[SL_MODEL_NOTE];   /* what it was built from, in words: "resnet9, 10 classes, images of 32, …" */
	struct sl_graph graph;      /* inputs "image" or "tokens", and "label" or "number"; output "loss" */
	struct sl_file_param *file; /* [n_param] */
	struct sl_unit *unit;
	size_t cap_file, cap_unit;
	int n_unit;
	const struct sl_learn_task *task;
	int classes; /* of a masked language model the vocabulary */
	int vocab;   /* tokens are below it; 0: the input is images */
	/* Of networks with pretrained files: what begins the names of all but the head ("roberta."), which files and
	 * users may leave out; globs, up to a NULL, over tensors of files that are of no use here. "", NULL: none. */
	char prefix[SL_NAME_MAX];
	const char *const *ignored;
	struct sl_adapter *adapter;
	size_t cap_adapter;
	int n_adapter;
	/* Parameters of the graph alone; those of inserts (insert.h) stand behind them in graph.param, where no node of
	 * this graph uses them. graph.param[i].stream is i. */
	int n_plain;
};

void sl_model_close(struct sl_model *model); /* NULL is fine */

/* Builds a network, or the layers of an insert: appends nodes and returns the value that they make. The first failure
 * is kept in *fail and every later call is a no-op that returns -1, so that builders read straight through. */
struct sl_build {
	struct sl_graph *graph; /* that nodes go into */
	struct sl_model *model; /* that lists every parameter, and the units */
	bool insert;            /* parameters are an insert's: optional, and of the model's list as of the graph's */
	bool head;              /* parameters are of a head that pretrained files lack */
	/* Of the next node: what its parameters are called, in order, instead of the node's name with a suffix. */
	const char *const *param_name;
	/* Adapters of linear layers (lora.h), NULL: none. Then only they and the head learn. */
	const struct sl_lora *lora;
	bool adapting;     /* parameters are an adapter's */
	uint32_t lora_met; /* targets that there are, by bits */
	struct sl_fail *fail;
	enum sl_err err;
};

/* A new network whose inputs are images of that shape, [1,H,W,C], or rows of numbers, [1,F], and what its task has for
 * labels: values SL_BUILD_INPUT and SL_BUILD_LABEL. `classes`: its outputs. */
enum { SL_BUILD_INPUT, SL_BUILD_LABEL };
enum sl_err sl_build_open(struct sl_build *b, const char *name, struct sl_shape input, const struct sl_learn_task *task,
			  int classes, struct sl_fail *fail) SL_MUST_CHECK;
/* The same where the first input is tokens: numbers below `vocab`, in rows of 1 to `most`. */
enum sl_err sl_build_open_tokens(struct sl_build *b, const char *name, int most, int vocab,
				 const struct sl_learn_task *task, int classes, struct sl_fail *fail) SL_MUST_CHECK;
/* Hands the model over, or frees everything and returns the first failure. */
enum sl_err sl_build_finish(struct sl_build *b, struct sl_model **out) SL_MUST_CHECK;

/* `in` is a value. Parameters are added as the op needs them, named `name`.weight and so on; channels and features
 * that come in are those of `in`. */
struct sl_build_window {
	int out_c, k, stride, pad; /* stride 0 means 1 */
	bool depthwise;            /* out_c is not read */
	bool bias;
	struct sl_init bias_init; /* left out: zeros */
	int groups, dilation;     /* 0 means 1 */
	int kw;                   /* of a window that is not square; 0: k */
	bool flat;                /* weight files have no height of windows, which is 1 */
};
/* The weight starts from `init`; the convolutions of sl_build_conv as torchvision's MobileNetV2 has them: normal,
 * std = sqrt(2 / fan_out). */
int sl_build_conv(struct sl_build *b, const char *name, int in, struct sl_build_window w);
int sl_build_conv_from(struct sl_build *b, const char *name, int in, struct sl_build_window w, struct sl_init init);
/* Gives back [h,w,out_c] from what a convolution with that window made of it. */
int sl_build_convt(struct sl_build *b, const char *name, int in, struct sl_build_window w, int64_t height,
		   int64_t width, struct sl_init init);
int sl_build_bn(struct sl_build *b, const char *name, int in);
int sl_build_bn_from(struct sl_build *b, const char *name, int in, enum sl_init_kind weight); /* its weight starts so */
int sl_build_bn_with(struct sl_build *b, const char *name, int in, enum sl_init_kind weight, float eps, float momentum);
int sl_build_act(struct sl_build *b, const char *name, int in, enum sl_act act);
int sl_build_add(struct sl_build *b, const char *name, int x, int y);
int sl_build_mul(struct sl_build *b, const char *name, int x, int y);
int sl_build_pair(struct sl_build *b, const char *name, enum sl_op_kind kind, int x, int y); /* GATE or CONCAT */
/* GELU (`approximate`: with tanh), SILU, TANH, SIGMOID, HARDSIGMOID or HARDSWISH */
int sl_build_smooth(struct sl_build *b, const char *name, int in, enum sl_op_kind kind, bool approximate);
int sl_build_math(struct sl_build *b, const char *name, int in, int fn);
int sl_build_layernorm(struct sl_build *b, const char *name, int in, float eps);
int sl_build_layernorm_of(struct sl_build *b, const char *name, int in, float eps, bool bias);
int sl_build_groupnorm(struct sl_build *b, const char *name, int in, int groups, float eps, bool affine);
int sl_build_concat(struct sl_build *b, const char *name, int x, int y, int axis);
int sl_build_permute(struct sl_build *b, const char *name, int in, struct sl_permute_attr attr);
int sl_build_resample(struct sl_build *b, const char *name, int in, struct sl_resample_attr attr);
/* A parameter for every row of `in`, of that shape; `file` is the one that weight files have. */
int sl_build_repeat(struct sl_build *b, const char *name, int in, struct sl_shape shape, struct sl_shape file,
		    enum sl_param_layout layout);
/* A linear layer whose weight is [in, out]. */
int sl_build_matmul(struct sl_build *b, const char *name, int in, int out_f, bool bias, struct sl_init init);
/* `features` divide those of the input; they are normed together, and the weight has as many. `plus`: 1 is added to it,
 * and it starts at 0. */
int sl_build_rmsnorm(struct sl_build *b, const char *name, int in, int features, float eps, bool plus);
/* q, k, v: per token. `p` of its dropout draws from a stream of its own. */
int sl_build_attention(struct sl_build *b, const char *name, int q, int k, int v, struct sl_attention_attr attr);
int sl_build_pool(struct sl_build *b, const char *name, int in, enum sl_op_kind kind, struct sl_pool_attr attr);
/* by · in + plus */
int sl_build_affine(struct sl_build *b, const char *name, int in, float by, float plus);
int sl_build_scale(struct sl_build *b, const char *name, int in, float by);
int sl_build_flatten(struct sl_build *b, const char *name, int in);
int sl_build_dropout(struct sl_build *b, const char *name, int in, float p);
int sl_build_linear(struct sl_build *b, const char *name, int in, int out_f, bool bias, struct sl_init init);
/* As torch.nn.Linear starts: weight and bias from U(±1 / sqrt(in features)). */
int sl_build_linear_as_torch(struct sl_build *b, const char *name, int in, int out_f);
int sl_build_gelu(struct sl_build *b, const char *name, int in);
/* A row of a table of the model's vocab for each token, which starts normal with `std`. */
int sl_build_embedding(struct sl_build *b, const char *name, int in, int features, double std);
/* A row of a table for each token, as attr says, whose derived members are given: rows, features. */
int sl_build_lookup(struct sl_build *b, const char *name, int in, struct sl_embedding_attr attr, struct sl_init init);
int sl_build_select(struct sl_build *b, const char *name, int in); /* the first token of each row */
/* Its chosen tokens, of which a row has at most such a share (op.h). */
int sl_build_gather(struct sl_build *b, const char *name, int in, float share);
/* A logit for each row of a table [rows, features]: parameter `weight` of the model's graph, which an embedding has
 * used, or where that is below 0 one of its own, `name`.weight. The bias is called `bias`; NULL: there is
 * none. */
int sl_build_decoder(struct sl_build *b, const char *name, int in, int weight, const char *bias, struct sl_init init);
/* Makes the graph's output "loss": cross-entropy, or of numbers the mean of squares. */
int sl_build_loss(struct sl_build *b, const char *name, int logits);
/* The same: mean squares of `in` [K] less the value `target`. */
int sl_build_mse(struct sl_build *b, const char *name, int in, int target);
/* A linear layer over the last dimension to `out_f` features without bias, which starts as the identity: a 1×1
 * convolution where `in` is an image; `transposed`: its weight is [in, out] (for images, a transposed convolution). */
int sl_build_identity(struct sl_build *b, const char *name, int in, int out_f, bool transposed);
/* Tokens [F] to rows [F,S]; 0: rows [F,S] to tokens [F], which are `most` of a row at most (op.h). */
int sl_build_transpose(struct sl_build *b, const char *name, int in, int tokens, int most);

/* What was asked for, the model cannot be: CONFIG with this sentence, unless there was a failure before. */
void sl_build_refuse(struct sl_build *b, const char *fmt, ...) SL_PRINTF(2, 3);
/* From here on parameters are of a new head: a pretrained file may lack all of them. */
void sl_build_new_head(struct sl_build *b);
void sl_build_adapter(struct sl_build *b, const struct sl_adapter *adapter);
/* A unit begins at the next node added and ends where the next unit begins (or the model ends). */
void sl_build_unit(struct sl_build *b, const char *name);
/* The same where that node is there. Units come in order. */
void sl_build_unit_at(struct sl_build *b, const char *name, int first_node);

static inline struct sl_init sl_init_normal(double std)
{
	return (struct sl_init){SL_INIT_NORMAL, (float)std};
}

static inline struct sl_init sl_init_uniform(double bound)
{
	return (struct sl_init){SL_INIT_UNIFORM, (float)bound};
}

/* As torch starts Conv2d and Linear: U(±1 / sqrt(terms of one output's sum)). */
static inline struct sl_init sl_init_as_torch(int64_t terms)
{
	return sl_init_uniform(1.0 / sqrt((double)terms));
}

/* Of a value: its shape, and what its last dimension counts. */
static inline struct sl_shape sl_build_shape(const struct sl_build *b, int value)
{
	return value < 0 ? sl_shape1(1) : b->graph->value[value].shape;
}

#endif
