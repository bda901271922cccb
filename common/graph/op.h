/* Ops: what each computes, its shapes, its parameters and its multiply-accumulates. All backends follow this file.
 *
 * kind       in → out (row shape)                     parameters, in this order (memory layout)
 * CONV2D     [H,W,I] → [H',W',O]                      weight [O,KH,KW,I/groups] or, depthwise, [KH,KW,C], bias [O]
 * CONVT2D    [H',W',I] → [H,W,O]                      weight [I,KH,KW,O/groups] or, depthwise, [KH,KW,C], bias [O]
 * (torch.nn.ConvTranspose2d: the adjoint in x of the convolution [H,W,O] → [H',W',I] that has this weight) BATCHNORM
 * [H,W,C] → same, then act                 weight [C], bias [C], running_mean [C], running_var [C] ACT        any →
 * same                               – ADD        a, b → a + b                             – MAXPOOL    [H,W,C] →
 * [H',W',C]                      – AVGPOOL    [H,W,C] → [H',W',C] (whole plane: 1×1)   –      (padding counts, as
 * count_include_pad=True) LINEAR     [F] → [O], or [S,F] → [S,O]              weight [O,F] (transposed: [F,O]), bias
 * [O] DROPOUT    any → same (× 1/(1-p) where kept)        – SCALE      any → by · in + plus                      – GELU
 * any → same                               –      (with erf, torch.nn.GELU(); tanh: approximate="tanh") SILU       any
 * → same                               –      (torch.nn.SiLU) TANH       any → same                               – MUL
 * a, b → a · b, element by element         – SIGMOID    any → same                               – (torch.nn.Sigmoid)
 * HARDSIGMOID, HARDSWISH  any → same                  –      (min(max(x/6 + 1/2, 0), 1), and x times that)
 * GATE       a [H,W,C], b [1,1,C] → a · b             –      (each channel by a number of its own; also [S,F], [1,F])
 * CONCAT     a [H,W,C], b [H,W,D] → [H,W,C+D]         –      (a's channels, then b's; or along another axis)
 * LEAKYRELU  any → x, or slope · x where x ≤ 0           –      (torch.nn.LeakyReLU)
 * ELU, SOFTPLUS  any → same                           –      (torch.nn.ELU(), torch.nn.Softplus())
 * MATH       any → same                               –      (e^x, log x, √x or 1/x: struct sl_math_attr)
 * PERMUTE    any → the same numbers in another order  –      (see struct sl_permute_attr)
 * RESAMPLE   any → another size of one axis           –      (see struct sl_resample_attr)
 * GROUPNORM  [H,W,C] or [S,C] → same                  weight [C], bias [C], or none   (torch.nn.GroupNorm)
 * REPEAT     any → the weight, for every row          weight [F], [S,F] or [H,W,C]
 * WINDOW     [D·H,W,C] → [D'·H,W,K·C]                 –      (see struct sl_window_attr)
 * LAYERNORM  [F], [S,F] … → same                      weight [F], bias [F] or none   (torch.nn.LayerNorm(F))
 * RMSNORM    [F], [S,F] … → same                      weight [D]   (x / sqrt(mean of x² + eps) · weight, over each
 *            group of D of the F numbers; usually D = F; plus: · (1 + weight))
 * ATTENTION  tokens q [H·D], k, v [KV·D] → [H·D]     –      (within each row; see struct sl_attention_attr), or
 *            rows q [S,H·D], k, v [S,KV·D] → [S,H·D]
 * FLATTEN    [H,W,C] → [H·W·C]                        –      (NHWC order; equals torch's where H·W = 1)
 * SELECT     tokens [F] → rows [F]                    –      (the first token of every row)
 * GATHER     tokens [F] → chosen tokens [F]           –      (those whose indices are in sl_dims.place)
 * TRANSPOSE  tokens [F] → rows [F,S], and rows [F,S] → tokens [F]   –   (every row has S tokens; see struct
 *            sl_transpose_attr)
 * EMBEDDING  tokens' ids → [F]                        weight [V,F]   (row `id`; see struct sl_embedding_attr)
 * LOOKUP     ids [K] → [K,F]                          weight [V,F]   (ids are numbers, such as columns of a table;
 *            a number that is no row gives NaN, and learns nothing)
 * XENT       logits [K] or [H,W,K] + labels → mean loss –    (softmax cross-entropy, torch.nn.CrossEntropyLoss)
 * MSE        x [K] + targets [K] → mean loss          –      (Σ (x − target)² / K of a row, torch.nn.MSELoss; or
 *            another loss of numbers: struct sl_mse_attr; no targets: zeros)
 *
 * A loss' output has the shape [1] for any number of rows: kernels write its results to the call's host pointers.
 */
#ifndef SL_GRAPH_OP_H
#define SL_GRAPH_OP_H

#include "common/base/err.h"
#include "common/graph/precision.h"

enum sl_op_kind {
#define SL_OP_ROW(kind, word, kernel, shape, macs, price, n_in, least_param, params, keeps) SL_OP_##kind,
#include "common/graph/ops.def"
	SL_OP_COUNT
};

enum sl_act { SL_ACT_NONE, SL_ACT_RELU, SL_ACT_RELU6, SL_ACT_COUNT };
enum { SL_MATH_EXP, SL_MATH_LOG, SL_MATH_SQRT, SL_MATH_RECIPROCAL, SL_MATH_COUNT };

enum { SL_OP_MAX_IN = 3, SL_OP_MAX_PARAM = 4, SL_NAME_MAX = 96 };

struct sl_conv_attr {
	int in_c, out_c, kh, kw, stride, pad;
	int groups; /* divides in_c and out_c: a group's outputs depend on its inputs alone */
	bool bias;
	int dilation; /* pixels from one tap of the window to the next; sl_op_infer_shape makes 1 of 0 */
};

struct sl_convt_attr {
	int in_c, out_c, kh, kw, stride, pad;
	/* Extra rows and columns at the end, 0 … stride - 1: they select one of the sizes H×W that give H'×W'. */
	int out_pad_h, out_pad_w;
	bool bias;
	int groups; /* as of struct sl_conv_attr; sl_op_infer_shape makes 1 of 0 */
};

struct sl_bn_attr {
	int c;
	float eps;       /* 1e-5 */
	float momentum;  /* of the running statistics, as torch's: new = (1-m)·old + m·batch (unbiased variance) */
	enum sl_act act; /* applied to the output; set by the plan's fusion or the model */
};

struct sl_pool_attr {
	int k, stride, pad; /* k = 0: the window is the whole plane */
};

struct sl_linear_attr {
	int in_f, out_f;
	bool bias;
	bool transposed; /* the weight is [F,O] */
};

struct sl_dropout_attr {
	float p;
};

/* The loss that XENT computes. The soft Dice loss is computed for each picture separately, so it does not depend on
 * chunks or batches. It is MONAI's DiceLoss with to_onehot_y and softmax, and in BOTH DiceCELoss (Milletari et al.
 * 2016; the formula is in tests/ref/xent.c). */
enum sl_xent_fn {
	SL_XENT_ENTROPY, /* cross-entropy */
	SL_XENT_DICE,    /* soft Dice, for logits [N,H,W,K] */
	SL_XENT_BOTH,    /* their sum */
	/* The same where Dice leaves class 0 out, as with include_background=False and nnU-Net's do_bg=False. */
	SL_XENT_FOREGROUND,
	SL_XENT_FOREGROUND_BOTH,
	SL_XENT_COUNT
};

static inline bool sl_xent_has_entropy(int fn)
{
	return fn == SL_XENT_ENTROPY || fn == SL_XENT_BOTH || fn == SL_XENT_FOREGROUND_BOTH;
}

/* The first class that counts in Dice. */
static inline int sl_xent_first(int fn)
{
	return fn >= SL_XENT_FOREGROUND;
}

struct sl_xent_attr {
	int classes;
	int fn; /* enum sl_xent_fn */
	/* Label smoothing, in training only: this share of every target is spread evenly over all classes; the label
	 * gets the rest. */
	float smoothing;
};

/* The loss whose mean over the K numbers of a row MSE computes; x is the output, t the target. */
enum sl_mse_fn {
	SL_MSE_SQUARE, /* (x − t)²: torch.nn.MSELoss */
	SL_MSE_L1,     /* |x − t|: torch.nn.L1Loss */
	SL_MSE_HUBER,  /* (x − t)² / 2 up to a distance of 1, then |x − t| − 1/2: torch.nn.HuberLoss */
	SL_MSE_BCE, /* −w·t·log σ(x) − (1 − t)·log(1 − σ(x)): torch.nn.BCEWithLogitsLoss(pos_weight=w) */
	SL_MSE_COUNT
};

struct sl_mse_attr {
	int fn; /* enum sl_mse_fn */
};

struct sl_scale_attr {
	float by, plus;
};

struct sl_leaky_attr {
	float slope;
};

struct sl_concat_attr {
	int axis; /* counts dimension 0, the rows; 0: the last axis */
};

/* Reads a row as [outer, b, c, the rest] and writes it as [outer, c, b, the rest]. */
struct sl_permute_attr {
	int outer, b, c;
	int h, w; /* the output's shape: [F]; [h,F] if h is not 0; [h,w,F] if w is not 0 either */
};

/* An axis of n elements becomes one of `size`. Element i is read at j = first − before + i·step, or at an index that
 * the mode computes as torch does. */
enum sl_resample {
	SL_RESAMPLE_CUT,     /* element j, or 0 where j is out of range */
	SL_RESAMPLE_REFLECT, /* element j, with j mirrored at the first and the last element */
	SL_RESAMPLE_EDGE,    /* element j, with j clamped to 0 … n − 1 */
	SL_RESAMPLE_NEAREST, /* element i·n / size, rounded down */
	SL_RESAMPLE_LINEAR,  /* interpolated at (i + 1/2)·n / size − 1/2 */
	SL_RESAMPLE_ALIGNED, /* interpolated at i·(n − 1) / (size − 1) */
	SL_RESAMPLE_AREA,    /* the mean from i·n / size, rounded down, to (i + 1)·n / size, rounded up */
	SL_RESAMPLE_MEAN,    /* the mean of `window` elements from j on; those out of range count as 0 */
	SL_RESAMPLE_COUNT
};

struct sl_resample_attr {
	int axis, size, mode, first, before, step, window;
};

struct sl_groupnorm_attr {
	int groups; /* divides the channels */
	float eps;
};

/* Puts k neighbouring slices of a volume side by side in the channels. Slice o of the output has slice
 * o·stride − pad + i·dilation of the input in its channels from i·C on, for each i < k. Where there is no such slice,
 * it has zeros. So a convolution in 3-D is a WINDOW and a CONV2D with k·C input channels. back = B > 0: the adjoint,
 * from `slices` slices of k·C channels to B slices of C channels. Each output slice is the sum of all parts that a
 * WINDOW would have taken from it. A transposed convolution in 3-D is a CONVT2D and this. */
enum { SL_WINDOW_MOST = 64 }; /* slices of a window */
struct sl_window_attr {
	int k, stride, pad, dilation;
	int back;
};

struct sl_repeat_attr {
	int ndim, dim[3]; /* the weight's shape */
};

struct sl_math_attr {
	int fn; /* SL_MATH_EXP … */
};

struct sl_gelu_attr {
	bool tanh; /* computes the approximation x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))) */
};

/* Multi-head attention: head h computes softmax(q·kᵀ/√D)·v over the keys of the query's own row. */
struct sl_attention_attr {
	int heads;
	int kv;      /* heads of keys and values; heads / kv query heads share each; 0: as many as `heads` */
	bool causal; /* a query attends only to keys up to its own token */
	/* RoPE: rotates features i and i + D/2 of q and k, as a pair, by t·rope^(−2i/D), where t is the token's
	 * position in its row. 0: no RoPE. */
	float rope;
	/* Dropout on probabilities: uses element ((row·H + h)·M + query)·M + key of the random stream. M is the op's
	 * `most`, rounded up to a multiple of 4. */
	float p;
	int each; /* tokens of every row, if inputs are per row; 0: inputs are per token */
	/* RoPE scaling: if rope_factor is not 0, sl_rope_frequency gives the frequencies. */
	float rope_factor, rope_low, rope_high;
	int rope_old;
	int rope_part;   /* the first features of a head, which alone are rotated, as if D were this; 0: all */
	float rope_gain; /* what rotated features are multiplied by; 0: 1 */
	/* A score s, which is q·k/√D, becomes cap·tanh(s/cap) in front of the softmax (Gemma Team, "Gemma 2", 2024). 0:
	 * it stays. */
	float cap;
	int window; /* a query attends only to keys that are less than `window` tokens away; 0: to all */
};

struct sl_norm_attr {
	float eps;
	bool plus; /* RMSNORM: 1 is added to the weight */
	int parts; /* RMSNORM: F / D, which a graph derives; 0 means 1 */
};

struct sl_embedding_attr {
	int rows, features; /* the weight's shape */
	bool position;      /* looks up row `first` + the token's position in its row of tokens */
	int first;
	bool segment; /* looks up the row whose index is the number of earlier tokens `mark`, V - 1 at most */
	int mark;     /* a token's id */
};

/* A float holds each id below SL_LOOKUP_MOST exactly. */
enum { SL_LOOKUP_MOST = 1 << 24 };
struct sl_lookup_attr {
	int rows, features; /* the weight's shape */
};

/* The row of a LOOKUP's table that this number means; −1: there is none. */
static inline int64_t sl_lookup_row(const struct sl_lookup_attr *a, float id)
{
	return id >= 0 && id < (float)a->rows ? (int64_t)id : -1;
}

/* A gather chooses at most share · n + 1/2 tokens of a row of n, but always at least one. */
struct sl_gather_attr {
	float share;
};

/* Turns per-token values into per-row values or back. All rows have the same number of tokens. */
struct sl_transpose_attr {
	int tokens; /* tokens of a row, if the input is tokens [F]; 0: the input is rows [F,S] */
	int most;   /* rows [F,S]: `most` of the ops that follow (struct sl_op), at least S; 0: S */
};

/* The attributes of each kind of op. */
union sl_op_attr {
	struct sl_conv_attr conv;
	struct sl_convt_attr convt;
	struct sl_bn_attr bn;
	enum sl_act act;
	struct sl_pool_attr pool;
	struct sl_linear_attr linear;
	struct sl_dropout_attr dropout;
	struct sl_xent_attr xent;
	struct sl_mse_attr mse;
	struct sl_scale_attr scale;
	struct sl_leaky_attr leaky;
	struct sl_gelu_attr gelu;
	struct sl_math_attr math;
	struct sl_attention_attr attention;
	struct sl_norm_attr norm; /* for LAYERNORM and RMSNORM */
	struct sl_embedding_attr embedding;
	struct sl_lookup_attr lookup;
	struct sl_gather_attr gather;
	struct sl_transpose_attr transpose;
	struct sl_concat_attr concat;
	struct sl_permute_attr permute;
	struct sl_resample_attr resample;
	struct sl_groupnorm_attr groupnorm;
	struct sl_repeat_attr repeat;
	struct sl_window_attr window;
};

/* A planned op, as kernels get it. The plan makes one from each node of a graph (graph.h). Values and parameters are
 * indices into the graph's lists. */
struct sl_op {
	enum sl_op_kind kind;
	char name[SL_NAME_MAX]; /* torchvision's module path: "features.1.conv.0.0" */
	uint16_t stream;        /* dropout's rng stream: the node's index in the whole model */
	/* D > 0: a row is a volume, [D·H,W,C]: its D slices, one below the other. WINDOW looks along the depth, and so
	 * does RESAMPLE with axis 0. Any other op that has this attribute computes each slice by itself, and its shapes
	 * here are those of slices, [N·D,H,W,C] (slices.h). 0: the op sees one picture of D·H rows, as a norm, a global
	 * pool or a loss over whole volumes needs it. */
	int slices;
	int in[SL_OP_MAX_IN], n_in;
	int out;
	int param[SL_OP_MAX_PARAM], n_param;
	/* Dimension 0 is 1, or in a plan the most rows, tokens or chosen tokens that a chunk may have. */
	struct sl_shape in_shape[SL_OP_MAX_IN], out_shape;
	int most; /* tokens of a row at most, the row length of random number counters; 1 if inputs are per row */
	enum sl_precision precision; /* the segment's: for the inputs, the output and their gradients */
	union sl_op_attr u;
};

const char *sl_op_kind_name(enum sl_op_kind kind);

/* Fills op->out_shape from op->in_shape and the attributes. CONFIG: the sentence says what does not fit. */
enum sl_err sl_op_infer_shape(struct sl_op *op, struct sl_fail *fail) SL_MUST_CHECK;

/* Multiply-accumulates of one forward pass over `rows` rows, by the usual convention of published tables. Convolutions
 * and linear layers count one per product, attention too, masked pairs included; norms count two per element. All else,
 * as pooling, counts 0. A transposed convolution counts KH·KW·I per output element, though it computes stride² times
 * less. */
int64_t sl_op_macs(const struct sl_op *op, int64_t rows);

/* How many of the inputs, from the first on, backward reads, so that they must be kept. `learns`: a parameter of the op
 * is trained. Backward never reads the op's own output. */
int sl_op_saves_inputs(const struct sl_op *op, bool learns);

/* The angle by which RoPE rotates features c and c + d/2 at position 1 of a row: f = rope^(−2c/d), scaled by
 * rope_factor as Hugging Face's transformers does it. Linear scaling (rope_high 0): f / factor. Llama 3.1's scaling:
 * n = rope_old·f / 2π is the number of turns in rope_old tokens. The angle is f if n > rope_high, and f / factor if
 * n < rope_low. Between them it is a mean of both, weighted by n's distances from rope_low and rope_high. */
double sl_rope_frequency(const struct sl_attention_attr *a, int64_t c, int64_t d);

/* How many features of a head of D RoPE rotates. */
static inline int64_t sl_rope_features(const struct sl_attention_attr *a, int64_t d)
{
	return a->rope_part ? a->rope_part : d;
}

static inline int sl_attention_kv(const struct sl_attention_attr *a)
{
	return a->kv ? a->kv : a->heads;
}

/* How many of dimension 0 of the op's shapes belong to one row of the graph. */
static inline int64_t sl_op_parts(const struct sl_op *op)
{
	return op->slices > 1 && op->kind != SL_OP_WINDOW ? op->slices : 1;
}

/* A loss is the last node of a tail. Its second input, labels or targets, is not among the planned op's inputs. */
static inline bool sl_op_is_loss(enum sl_op_kind kind)
{
	return kind == SL_OP_XENT || kind == SL_OP_MSE;
}

/* Whether an op has one input, of the output's shape, and maps element to element. */
static inline bool sl_op_is_elementwise(enum sl_op_kind kind)
{
	return kind == SL_OP_DROPOUT || kind == SL_OP_ACT || kind == SL_OP_SCALE || kind == SL_OP_GELU ||
	       kind == SL_OP_SILU || kind == SL_OP_TANH || kind == SL_OP_SIGMOID || kind == SL_OP_HARDSIGMOID ||
	       kind == SL_OP_HARDSWISH || kind == SL_OP_ELU || kind == SL_OP_SOFTPLUS || kind == SL_OP_MATH ||
	       kind == SL_OP_LEAKYRELU;
}

/* Whether a RESAMPLE copies a contiguous range of its axis, without padding. */
static inline bool sl_op_is_run(const struct sl_op *op)
{
	const struct sl_resample_attr *a = &op->u.resample;

	return a->mode == SL_RESAMPLE_CUT && !a->before && a->step == 1 &&
	       a->first + (int64_t)a->size <= op->in_shape[0].dim[a->axis];
}

/* Whether the op's kernels read the offsets of rows or the chosen tokens (sl_op_call.dims). */
static inline bool sl_op_reads_rows(enum sl_op_kind kind)
{
	return kind == SL_OP_SELECT || kind == SL_OP_ATTENTION || kind == SL_OP_EMBEDDING || kind == SL_OP_GATHER;
}

/* The axis of a CONCAT: never 0. */
static inline int sl_op_concat_axis(const struct sl_op *op)
{
	return op->u.concat.axis ? op->u.concat.axis : op->out_shape.ndim - 1;
}

/* The product of the dimensions from `axis` on: how many elements of an input a CONCAT copies as one piece. */
static inline int64_t sl_op_inner(const struct sl_shape *s, int axis)
{
	int64_t n = 1;

	for (int i = axis; i < s->ndim; i++)
		n *= s->dim[i];
	return n;
}

static inline bool sl_op_is_norm(enum sl_op_kind kind)
{
	return kind == SL_OP_LAYERNORM || kind == SL_OP_RMSNORM;
}

/* How many elements LAYERNORM or RMSNORM normalises together. */
static inline int64_t sl_op_normed(const struct sl_op *op)
{
	return op->out_shape.dim[op->out_shape.ndim - 1] / (op->u.norm.parts ? op->u.norm.parts : 1);
}

/* The convolution of which this CONVT2D is the adjoint, with its shapes. */
static inline struct sl_op sl_op_convt_adjoint(const struct sl_op *op)
{
	const struct sl_convt_attr *a = &op->u.convt;
	struct sl_op conv = *op;

	conv.kind = SL_OP_CONV2D;
	conv.in_shape[0] = op->out_shape;
	conv.out_shape = op->in_shape[0];
	conv.u.conv = (struct sl_conv_attr){a->out_c, a->in_c, a->kh, a->kw, a->stride, a->pad, a->groups, false, 1};
	return conv;
}

/* Whether this is a convolution in which every group has one input and one output channel, and there are several. */
static inline bool sl_op_is_depthwise(const struct sl_op *op)
{
	const struct sl_conv_attr *a = &op->u.conv;

	return op->kind == SL_OP_CONV2D && a->groups > 1 && a->groups == a->in_c && a->in_c == a->out_c;
}

#endif
