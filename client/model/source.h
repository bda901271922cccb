/* Networks by their names in a config. */
#ifndef SL_CLIENT_MODEL_SOURCE_H
#define SL_CLIENT_MODEL_SOURCE_H

#include "client/model/lora.h"

/* The part of a config that describes the model: everything that defines shapes. */
struct sl_model_spec {
	char name[SL_NAME_MAX]; /* "mobilenet_v2", or another of source.c */
	double width;           /* multiplier of the channels, 1.0 */
	int classes;            /* outputs */
	int image;              /* height of the input */
	/* The usual CIFAR form at 32²: stride 1 instead of 2 in the stem (features.0.0) and in the first strided stage
	 * (features.2.conv.1.0). The total stride is then 8, not 32, and 32² ends at 4². Names, channels and ReLU6 stay
	 * torchvision's. In ResNet-18 to -50 it is a stem of stride 1 without a pool. Other networks have one form. */
	bool cifar_stem;
	double dropout; /* of the classifier, 0.2; ResNets have none */
	int image_w;    /* width of the input; 0: its height */
	int32_t pad;    /* of model.network: the token that rows are padded with; -1: not known */
	/* Networks of tokens (such as token_mlp, where `width` multiplies 64 features): tokens are 0 … vocab - 1, and a
	 * row has up to `tokens` of them. They have no image. */
	int vocab, tokens;
	int64_t whole_rows; /* tokens of every row, if all rows are padded to one length; else 0 */
	int features;       /* mlp: numbers in a row; it has no image */
	/* "huggingface": the folder, borrowed; vocab, width and dropout above are not read. Other networks: NULL. */
	const char *huggingface;
	/* "huggingface": above 0 the network is a masked language model, and this share of the tokens is chosen;
	 * `classes` is not read then. 0: it is a classifier. */
	double masked;
	const struct sl_lora *lora; /* borrowed; NULL: none */
	bool init_bn0;              /* ResNets: the last batch norm's weight of each residual block starts at 0 */
	/* The file of model.network (network_file.h), borrowed; of the rest `name`, classes, image, image_w, pad,
	 * tokens, whole_rows, features and task are read. Other networks: NULL. */
	const char *network;
	const char *input; /* of several inputs, the one to which `features` and the like belong; NULL: the first */
	enum sl_learn_kind task; /* CLASSES with one class, for tokens: a number. NEXT: "huggingface" only */
};

static inline const struct sl_learn_task *sl_model_task(const struct sl_model_spec *spec)
{
	return sl_learn_task_of(spec->task, spec->classes, spec->masked > 0);
}

enum { SL_MODEL_MAX_VOCAB = 1 << 22, SL_MODEL_MAX_FEATURES = 65536 };

/* What a network of tokens takes, which is known without building it; all 0 for other networks. */
struct sl_model_takes {
	int vocab;  /* tokens are below it */
	bool types; /* a token's type is the number of tokens `mark` before it in its row */
	int32_t mark;
	int32_t end[8]; /* of decoders: tokens that end a generated text [n_end] */
	int n_end;
	int32_t learned_end; /* of decoders: the token that training appends to texts; -1: there is none */
	bool decoder;
	int tokens;          /* "huggingface": the most tokens of a row; else 0 */
	const char *adapted; /* "huggingface": layers that get an adapter by default, "query,value"; else NULL */
};
enum sl_err sl_model_takes_of(struct sl_model_takes *out, const struct sl_model_spec *spec,
			      struct sl_fail *fail) SL_MUST_CHECK;

/* Sizes of input and output as a network's file declares them: a config need not give these. */
struct sl_model_sizes {
	int height, width; /* of images; 0: any */
	int depth;         /* of volumes, whose slices lie one below the other in `height`; else 0 */
	int classes;
	int channels; /* of images and signals; of other rows their features */
	int features; /* numbers in a row, or in all channels of a signal; 0: the input is images or tokens */
	int vocab;    /* token ids are below it; 0: the input is images or rows */
	int tokens;   /* in a row; 0: any */
	const struct sl_learn_task *task; /* what the network was trained for; NULL: the file does not say */
	struct sl_model_takes takes;      /* of tokens, in a file of model.network */
};
/* Takes the sizes that the file `name` leaves open from *spec. CONFIG: they contradict. */
enum sl_err sl_model_settle_sizes(struct sl_model_sizes *s, const char *name, const struct sl_model_spec *spec,
				  struct sl_fail *fail) SL_MUST_CHECK;
/* Begins the network `name` with an input of these sizes. */
enum sl_err sl_build_open_sized(struct sl_build *b, const struct sl_model_sizes *s, const char *name,
				const struct sl_model_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;

/* Whether the network of that name takes tokens; false where there is none. */
bool sl_model_takes_tokens(const char *name);
bool sl_model_takes_rows(const char *name); /* the same for rows of numbers */

static inline int sl_model_image_w(const struct sl_model_spec *spec)
{
	return spec->image_w ? spec->image_w : spec->image;
}

/* Builds the model named; CONFIG with the list of known names otherwise. Free with sl_model_close. */
enum sl_err sl_model_open(struct sl_model **out, const struct sl_model_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;

/* Divides a network, which lacks only its loss, into units. A unit begins wherever one value crosses, at a module with
 * parameters; but not at the batch norm of a convolution. */
void sl_model_units(struct sl_build *b);

#endif
