/* A model: a network's graph, and what only the client needs to know about it. That is its units, which users name in a
 * cut, and names and layouts of its parameters in weight files. Nothing here holds weights. */
#ifndef SL_GRAPH_MODEL_H
#define SL_GRAPH_MODEL_H

#include <math.h>

#include "common/graph/task.h"

/* How a parameter's memory layout (op.h) relates to the one in a safetensors file of torchvision. */
enum sl_param_layout {
	SL_LAYOUT_SAME,
	SL_LAYOUT_OHWI_FROM_OIHW,  /* dense convolution */
	SL_LAYOUT_HWC_FROM_C1HW,   /* depthwise convolution: [KH,KW,C] from [C,1,KH,KW], or from [C,KH,KW] */
	SL_LAYOUT_OHWI_FROM_OIDHW, /* convolution of volumes: [O,KH,KW,K·I] from [O,I,K,KH,KW], shape [O,I,K,KH·KW] */
	SL_LAYOUT_HWC_FROM_CHW     /* linear behind a flattened image: [O,H·W·C] from [O,C·H·W] */
};

/* How weight files hold a parameter of the graph; its name is the same there. */
struct sl_file_param {
	struct sl_shape shape;
	enum sl_param_layout layout;
	int64_t channels; /* HWC_FROM_CHW: C; OHWI_FROM_OIDHW: KW */
	bool optional;    /* a weight file may lack it: then it starts from its initialisation */
	bool head;        /* it belongs to a new head, which pretrained files lack */
	bool near_head;   /* it is pretrained, but a file that lacks the head may lack it, too */
};

enum { SL_MODEL_NOTE = SL_NAME_MAX + 96 };

struct sl_unit {
	char name[SL_NAME_MAX];   /* "features.0" … "classifier" */
	int first_node, end_node; /* [first, end) */
};

/* A low-rank adapter of a linear layer (lora.h). */
struct sl_adapter {
	int weight, a, b; /* indices of the graph's parameters: the layer's weight, and the adapter's A and B */
	bool transposed;  /* the weight is [in, out] */
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
	int classes;  /* outputs of the network; for a language model the vocabulary's size */
	int vocab;    /* token ids are below it; 0: the input is not tokens */
	char *ids;    /* of a network that looks up ids: its file's note of them (network_file.h); NULL: none */
	int depth[2]; /* slices of the input and of the output, where those are volumes; else 0 */
	/* For networks with pretrained files. prefix: begins all names but the head's ("roberta."); files and users may
	 * leave it out. ignored: globs of tensors' names in files that the network does not need; ends with NULL. ""
	 * and NULL: none. */
	char prefix[SL_NAME_MAX];
	const char *const *ignored;
	struct sl_adapter *adapter;
	size_t cap_adapter;
	int n_adapter;
	/* How many parameters the graph's nodes use. Those of inserts (insert.h) follow them in graph.param, and no
	 * node of this graph uses them. graph.param[i].stream is i. */
	int n_plain;
};

void sl_model_close(struct sl_model *model); /* NULL is fine */
/* The number of a network's input, or of the inputs of its head, by name; -1: there is none. */
int sl_model_input(const struct sl_graph *graph, const char *name);
/* How many slices a value of a network or a part of it has. `depth`: those of its first input; 0: it has pictures. 0:
 * the value is no volume, or neither the nodes before it nor those that read it tell. */
int sl_model_slices(const struct sl_graph *graph, int value, int depth);

/* Builds a network, or the layers of an insert. Each sl_build_* function for a layer appends nodes and returns their
 * output value. The first failure is kept in *fail; later calls do nothing and return -1, so callers need no checks. */
struct sl_build {
	struct sl_graph *graph; /* gets the nodes */
	struct sl_model *model; /* lists every parameter, and the units */
	bool insert;            /* the layers are an insert's: their parameters are optional in weight files */
	bool head;              /* the layers belong to a new head, which pretrained files lack */
	/* The names of the next node's parameters, in order; NULL: the node's name with a suffix. Nodes share a
	 * parameter of the same name. */
	const char *const *param_name;
	/* Adds adapters to linear layers (lora.h): only they and the head learn. NULL: no adapters. */
	const struct sl_lora *lora;
	bool adapting;     /* the layers are an adapter's */
	uint32_t lora_met; /* bit i: some layer matched the adapters' target i */
	struct sl_fail *fail;
	enum sl_err err;
};

/* Begins a new network with two inputs. SL_BUILD_INPUT is images of the shape `input`, [1,H,W,C], or rows of numbers,
 * [1,F]; SL_BUILD_LABEL is the task's labels. `classes`: number of the network's outputs. */
enum { SL_BUILD_INPUT, SL_BUILD_LABEL };
enum sl_err sl_build_open(struct sl_build *b, const char *name, struct sl_shape input, const struct sl_learn_task *task,
			  int classes, struct sl_fail *fail) SL_MUST_CHECK;
/* The same, but SL_BUILD_INPUT is tokens: ids below `vocab`, in rows of 1 to `most` tokens. */
enum sl_err sl_build_open_tokens(struct sl_build *b, const char *name, int most, int vocab,
				 const struct sl_learn_task *task, int classes, struct sl_fail *fail) SL_MUST_CHECK;
/* Hands the model over, or frees everything and returns the first failure. */
enum sl_err sl_build_finish(struct sl_build *b, struct sl_model **out) SL_MUST_CHECK;

/* The layers. `in` is a value, from which they take the number of input channels or features. They add the parameters
 * that the op needs, called `name`.weight and so on. */
struct sl_build_window {
	int out_c, k, stride, pad; /* stride 0 means 1 */
	bool depthwise;            /* out_c is ignored */
	bool bias;
	struct sl_init bias_init; /* left out: zeros */
	int groups;               /* 0 means 1 */
	/* Of volumes: D. The layer computes D slices, each by itself. For a convolution of volumes its input is what
	 * sl_build_depth makes, of k slices; for a transposed one its output is what goes to sl_build_depth, and out_c
	 * is k times the channels. Files have the weight as PyTorch does, [O, I, k, k, k]. 0: pictures. */
	int slices;
};
/* The weight starts from `init`; sl_build_conv does as torchvision's MobileNetV2: normal, std = sqrt(2 / fan_out). */
int sl_build_conv(struct sl_build *b, const char *name, int in, struct sl_build_window w);
int sl_build_conv_from(struct sl_build *b, const char *name, int in, struct sl_build_window w, struct sl_init init);
/* A transposed convolution whose output is [height,width,out_c], of volumes for each slice: it restores the shape from
 * which a convolution with window `w` made `in`. */
int sl_build_convt(struct sl_build *b, const char *name, int in, struct sl_build_window w, int64_t height,
		   int64_t width, struct sl_init init);
/* Puts neighbouring slices of volumes of `slices` side by side, or sums them up again (op.h). */
int sl_build_depth(struct sl_build *b, const char *name, int in, int slices, struct sl_window_attr attr);
int sl_build_bn(struct sl_build *b, const char *name, int in);
int sl_build_bn_from(struct sl_build *b, const char *name, int in, enum sl_init_kind weight); /* initial weight */
int sl_build_act(struct sl_build *b, const char *name, int in, enum sl_act act);
int sl_build_add(struct sl_build *b, const char *name, int x, int y);
int sl_build_mul(struct sl_build *b, const char *name, int x, int y);
/* GELU (`approximate`: with tanh), SILU or TANH */
int sl_build_smooth(struct sl_build *b, const char *name, int in, enum sl_op_kind kind, bool approximate);
int sl_build_layernorm(struct sl_build *b, const char *name, int in, float eps, bool bias);
int sl_build_resample(struct sl_build *b, const char *name, int in, struct sl_resample_attr attr);
/* A linear layer with a transposed weight, [in, out], and a bias. */
int sl_build_matmul(struct sl_build *b, const char *name, int in, int out_f, struct sl_init init);
/* Normalises each group of `features` numbers by itself. `features` divides the input's last dimension, and is the
 * weight's length. `plus`: the op adds 1 to the weight, which starts at 0. */
int sl_build_rmsnorm(struct sl_build *b, const char *name, int in, int features, float eps, bool plus);
/* q, k, v: per token, or per row [S,F]. Dropout of probabilities has a random stream of its own. */
int sl_build_attention(struct sl_build *b, const char *name, int q, int k, int v, struct sl_attention_attr attr);
int sl_build_pool(struct sl_build *b, const char *name, int in, enum sl_op_kind kind, struct sl_pool_attr attr);
int sl_build_scale(struct sl_build *b, const char *name, int in, float by);
int sl_build_flatten(struct sl_build *b, const char *name, int in);
int sl_build_dropout(struct sl_build *b, const char *name, int in, float p);
int sl_build_linear(struct sl_build *b, const char *name, int in, int out_f, bool bias, struct sl_init init);
/* Initialised as torch.nn.Linear: weight and bias from U(±1 / sqrt(in features)). */
int sl_build_linear_as_torch(struct sl_build *b, const char *name, int in, int out_f);
int sl_build_gelu(struct sl_build *b, const char *name, int in);
/* Looks up each token's id in a table of model->vocab rows, initialised as normal with standard deviation `std`. */
int sl_build_embedding(struct sl_build *b, const char *name, int in, int features, double std);
/* Looks up a row of a table for each token, as `attr` says; the caller sets attr.rows and attr.features, too. */
int sl_build_lookup(struct sl_build *b, const char *name, int in, struct sl_embedding_attr attr, struct sl_init init);
int sl_build_select(struct sl_build *b, const char *name, int in); /* the first token of each row */
/* The chosen tokens; `share` bounds their number (struct sl_gather_attr). */
int sl_build_gather(struct sl_build *b, const char *name, int in, float share);
/* The logits of a language model: a linear layer to model->vocab outputs. Its weight is parameter `weight` of the
 * model's graph, which an embedding uses too; if `weight` is negative, a new one, `name`.weight. Its bias is called
 * `bias`; NULL: no bias. */
int sl_build_decoder(struct sl_build *b, const char *name, int in, int weight, const char *bias, struct sl_init init);
/* Adds the loss of the model's task over `logits` and SL_BUILD_LABEL, and makes it the graph's output "loss". */
int sl_build_loss(struct sl_build *b, const char *name, int logits);
/* The same for the mean of squares of `in` [K] − the value `target`. */
int sl_build_mse(struct sl_build *b, const char *name, int in, int target);
/* A linear layer over the last dimension to `out_f` features, without bias, initialised as the identity. If `in` is an
 * image it is a 1×1 convolution. `transposed`: its weight is [in, out]; for images, a transposed convolution. */
int sl_build_identity(struct sl_build *b, const char *name, int in, int out_f, bool transposed);
/* Turns tokens [F] into rows [F,tokens]; if `tokens` is 0, rows [F,S] into tokens [F], with `most` as in op.h. */
int sl_build_transpose(struct sl_build *b, const char *name, int in, int tokens, int most);

/* Fails the build with CONFIG and this sentence, unless it has failed before. */
void sl_build_refuse(struct sl_build *b, const char *fmt, ...) SL_PRINTF(2, 3);
/* Layers added from here on belong to a new head: a pretrained file may lack all of their parameters. */
void sl_build_new_head(struct sl_build *b);
void sl_build_adapter(struct sl_build *b, const struct sl_adapter *adapter);
/* Begins a unit at the next node to be added. It ends where the next unit begins, or where the model ends. */
void sl_build_unit(struct sl_build *b, const char *name);
/* The same, but the unit begins at `first_node`. Units are added in order. */
void sl_build_unit_at(struct sl_build *b, const char *name, int first_node);

static inline struct sl_init sl_init_normal(double std)
{
	return (struct sl_init){SL_INIT_NORMAL, (float)std};
}

static inline struct sl_init sl_init_uniform(double bound)
{
	return (struct sl_init){SL_INIT_UNIFORM, (float)bound};
}

/* The initialisation of torch's Conv2d and Linear: U(±1 / sqrt(terms)); `terms`: products in the sum of one output. */
static inline struct sl_init sl_init_as_torch(int64_t terms)
{
	return sl_init_uniform(1.0 / sqrt((double)terms));
}

/* The shape of a value, or after a failure (value -1) any shape. */
static inline struct sl_shape sl_build_shape(const struct sl_build *b, int value)
{
	return value < 0 ? sl_shape1(1) : b->graph->value[value].shape;
}

#endif
