/* A model: a list of named units over a small DAG of ops. The zoo builds it; nothing here holds weights. */
#ifndef SL_NN_MODEL_H
#define SL_NN_MODEL_H

#include "common/nn/op.h"

enum sl_init_kind {
	SL_INIT_ZERO,
	SL_INIT_ONE,
	SL_INIT_KAIMING_FAN_OUT, /* normal, std = sqrt(2 / fan), fan = fan_out: torchvision's MobileNetV2 convolutions
				  */
	SL_INIT_NORMAL_001,      /* normal, std 0.01: its classifier */
	SL_INIT_KAIMING_LINEAR,  /* normal, std = sqrt(1 / fan), fan the terms of one output's sum: no activation behind
				  */
	SL_INIT_UNIFORM_FAN_IN,  /* U(±1 / sqrt(fan)), fan the terms of one output's sum: torch's own of Conv2d and
				    Linear */
	SL_INIT_IDENTITY,        /* a matrix [out, fan] with ones where row = column */
	SL_INIT_COUNT
};

/* How the parameter's memory layout (op.h) relates to the one in a safetensors file of torchvision. */
enum sl_param_layout {
	SL_LAYOUT_SAME,
	SL_LAYOUT_OHWI_FROM_OIHW, /* dense convolution */
	SL_LAYOUT_HWC_FROM_C1HW   /* depthwise convolution: [KH,KW,C] from [C,1,KH,KW] */
};

struct sl_param {
	char name[SL_NAME_MAX]; /* "features.0.0.weight" */
	struct sl_shape shape;  /* in memory */
	struct sl_shape file_shape;
	enum sl_param_layout layout;
	enum sl_init_kind init;
	int64_t fan;    /* as `init` says */
	bool trainable; /* false: a running statistic */
	bool optional;  /* a weight file may lack it: then it starts from `init` */
};

struct sl_unit {
	char name[SL_NAME_MAX]; /* "features.0" … "classifier" */
	int first_op, end_op;   /* [first, end) */
};

struct sl_model {
	char name[SL_NAME_MAX];
	struct sl_op *op;
	int n_op;
	int n_value; /* value 0 is the input; op[i].out are the others */
	struct sl_param *param;
	int n_param;
	struct sl_unit *unit;
	int n_unit;
	struct sl_shape input; /* of one row: [1,H,W,C] */
	int classes;
};

/* What a config says of the model, and what Hello carries of it. Everything that defines shapes. */
struct sl_model_spec {
	char name[SL_NAME_MAX]; /* "mobilenet_v2", "resnet9" */
	double width;           /* multiplier of the channels, 1.0 */
	int classes;
	int image; /* height of the input */
	/* The usual CIFAR form at 32²: stride 1 instead of 2 in the stem (features.0.0) and in the first strided stage
	 * (features.2.conv.1.0), so that 32² ends at 4² (total stride 8, else 32). Names, channels and ReLU6 stay
	 * torchvision's. resnet9 has one form, and no dropout: it reads neither. */
	bool cifar_stem;
	double dropout; /* of the classifier, 0.2 */
	int image_w;    /* width of the input; 0: its height */
};

static inline int sl_model_image_w(const struct sl_model_spec *spec)
{
	return spec->image_w ? spec->image_w : spec->image;
}

/* Builds the model named; CONFIG with the list of known names otherwise. Free with sl_model_close. */
enum sl_err sl_model_open(struct sl_model **out, const struct sl_model_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;
void sl_model_close(struct sl_model *model);

/* For the files of the zoo: append and return the index. All shapes are inferred as ops are added; the first failure
 * is kept in *fail and every later call is a no-op that returns -1, so that builders read straight through. */
struct sl_model_builder {
	struct sl_model *model;
	struct sl_shape *value_shape;
	int cap_op, cap_param, cap_unit, cap_value;
	struct sl_fail *fail;
	enum sl_err err;
};

enum sl_err sl_builder_open(struct sl_model_builder *b, const char *name, struct sl_shape input, int classes,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* Input and output are value numbers. Parameters are added as the op needs them, named `name`.weight and so on. */
int sl_build_conv(struct sl_model_builder *b, const char *name, int in, struct sl_conv_attr attr);
/* The same with another start of the weight than KAIMING_FAN_OUT. */
int sl_build_conv_from(struct sl_model_builder *b, const char *name, int in, struct sl_conv_attr attr,
		       enum sl_init_kind init);
int sl_build_bn(struct sl_model_builder *b, const char *name, int in);
int sl_build_act(struct sl_model_builder *b, const char *name, int in, enum sl_act act);
int sl_build_add(struct sl_model_builder *b, const char *name, int a, int bb);
int sl_build_pool(struct sl_model_builder *b, const char *name, int in, enum sl_op_kind kind, struct sl_pool_attr attr);
int sl_build_scale(struct sl_model_builder *b, const char *name, int in, float by);
int sl_build_flatten(struct sl_model_builder *b, const char *name, int in);
int sl_build_dropout(struct sl_model_builder *b, const char *name, int in, float p);
int sl_build_linear(struct sl_model_builder *b, const char *name, int in, struct sl_linear_attr attr,
		    enum sl_init_kind init);
int sl_build_xent(struct sl_model_builder *b, const char *name, int logits);
/* What the spec asks for, the model cannot be: CONFIG with this sentence, unless there was a failure before. */
void sl_builder_refuse(struct sl_model_builder *b, const char *fmt, ...) SL_PRINTF(2, 3);
/* A unit begins at the next op added and ends where the next unit begins (or the model ends). */
void sl_build_unit(struct sl_model_builder *b, const char *name);
/* Hands the model over, or frees everything and returns the first failure. */
enum sl_err sl_builder_finish(struct sl_model_builder *b, struct sl_model **out) SL_MUST_CHECK;

/* Seeded initialisation of one parameter (memory layout), the same on either side of any cut:
 * key (seed, step = index in model->param, stream SL_RNG_INIT). */
void sl_param_init(const struct sl_model *model, int index, uint64_t seed, float *out);

#endif
