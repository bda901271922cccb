/* Reads config.json of a Hugging Face folder, which describes the network. The file is untrusted: every number has
 * bounds, and only forms that are built here are accepted. Keys that do not describe the network are passed over. */
#ifndef SL_CLIENT_MODEL_HF_CONFIG_H
#define SL_CLIENT_MODEL_HF_CONFIG_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/graph/op.h"

enum { SL_HF_FILE_MOST = 1 << 20, SL_HF_MAX_LAYERS = 256, SL_HF_MAX_FEATURES = 65536, SL_HF_ENDS = 8 };

/* The families from SL_HF_DECODER on are decoders. */
enum sl_hf_family {
	SL_HF_ROBERTA,
	SL_HF_BERT,
	SL_HF_DISTILBERT,
	SL_HF_ELECTRA,
	SL_HF_MODERNBERT,
	SL_HF_LLAMA,
	SL_HF_DECODER = SL_HF_LLAMA,
	SL_HF_MISTRAL,
	SL_HF_QWEN2,
	SL_HF_QWEN3,
	SL_HF_PHI3,
	SL_HF_GEMMA,
	SL_HF_GEMMA2,
	SL_HF_GEMMA3,
	SL_HF_GRANITE,
	SL_HF_OLMO2,
	SL_HF_GPT2,
	SL_HF_FAMILY_COUNT
};

/* Rotary positions, as struct sl_attention_attr has them. */
struct sl_hf_rope {
	double theta, factor, low, high;
	int old;
	int part; /* features of a head that are rotated; 0: all */
	double gain;
	/* Of phi3: the share of a head that is rotated; positions of the first training, and whether short_factor and
	 * long_factor are given for rows within and beyond them. 0 elsewhere. */
	double share;
	int trained;
	bool stretched;
};

/* How a decoder differs from Llama. */
struct sl_hf_form {
	bool fused;        /* one layer makes q, k, v, and one makes gate and up */
	bool head_norms;   /* q and k are normed by head */
	bool whole_norms;  /* q and k are normed over the features of all heads */
	bool norms_behind; /* outputs of attention and of the feed-forward part are normed, not their inputs */
	bool plus;         /* norms multiply by 1 + their weight */
	bool scaled_table; /* embeddings of tokens are multiplied by √features */
	bool four_norms;   /* outputs of attention and of the feed-forward part are normed, too */
	bool local_rope;   /* some layers are local and have rotary positions of their own */
};

/* A key that a config may leave out has transformers' default for the family. */
struct sl_hf_config {
	enum sl_hf_family family;
	int vocab;
	int features; /* of a token */
	int embedded; /* of its embedding; if it differs, a linear layer makes `features` of it */
	int wide;     /* hidden features of the feed-forward part */
	int layers, heads;
	int positions; /* rows of the table of positions */
	int first;     /* the row of that table for a row's first token */
	int types;     /* rows of the table of token types; 0: there is none */
	int mark;      /* after each token of this id the token type is one higher; `vocab`: there is none */
	double eps;    /* of layer norms */
	double dropout, attention_dropout;
	/* Of modernbert: features are dropped behind the embeddings, and `dropout` in the feed-forward part; tokens
	 * that a local layer sees; whether the classifier reads the mean of a row's tokens, not the first one. */
	double table_dropout;
	int near, global_each;
	bool mean;
	double head_dropout;            /* of classifiers; in gpt2 of the embeddings */
	double range;                   /* standard deviation of fresh weights */
	enum sl_op_kind act;            /* GELU, SILU, TANH or ACT (then relu) */
	bool act_tanh;                  /* GELU is approximated with tanh */
	bool untied;                    /* the output layer has a weight of its own, not the embedding's */
	char architecture[SL_NAME_MAX]; /* the first of `architectures`; "": none */
	char unknown[SL_NAME_MAX];      /* a key that splitc does not know; "": none */
	/* Of decoders. kv: heads of keys and values; head: features of a head; biases: of the layers that make q, k, v,
	 * of the layer after attention, and of the feed-forward part. */
	int kv, head;
	struct sl_hf_form form;
	struct sl_hf_rope rope, local_rope;
	bool local[SL_HF_MAX_LAYERS]; /* layers that have local_rope */
	double query;                 /* scores are divided by √query; 0: by √head */
	/* Factors of granite, 0 elsewhere: of the embeddings, of scores in place of 1 / √head, of what each half of a
	 * layer adds, and what logits are divided by. */
	double table_by, scores_by, added_by, logits_over;
	bool qkv_bias, out_bias, wide_bias;
	double cap, last_cap;  /* of scores and of logits (see struct sl_attention_attr); 0: none */
	int row_most;          /* the most tokens of a row */
	const char *row_bound; /* the key that gives row_most */
	/* Tokens that end a generated text [n_end]: those of generation_config.json, else those of config.json. */
	int32_t end[SL_HF_ENDS];
	int n_end;
	int32_t learned_end; /* the first of config.json, which training appends to texts; -1: there is none */
};

static inline bool sl_hf_is_decoder(enum sl_hf_family family)
{
	return family >= SL_HF_DECODER;
}

const char *sl_hf_family_name(enum sl_hf_family family); /* model_type: "roberta" */
/* The layers that get an adapter by default: "query,value". */
const char *sl_hf_family_adapted(enum sl_hf_family family);

/* Parses the file's text; `name` is the file's, for errors. DATA: no JSON object, a key that is missing or of another
 * type; CONFIG: out of bounds, or a network that is not built here. */
enum sl_err sl_hf_config_parse(struct sl_hf_config *out, const char *name, struct sl_bytes text,
			       struct sl_fail *fail) SL_MUST_CHECK;
/* Reads `dir`/config.json; beside it, for `mark`, the tokenizer's files, and generation_config.json if there is one.
 * NOINPUT: a file cannot be read. */
enum sl_err sl_hf_config_read(struct sl_hf_config *out, const char *dir, struct sl_fail *fail) SL_MUST_CHECK;

#endif
