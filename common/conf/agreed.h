/* What client and server agree on, one row per key: SL_AGREED. The client's config expands the rows for its own table,
 * so a key's bounds, default and help are written once. The same rows write and read the agreement. That is the text
 * which the client sends with its Hello, and which checkpoints hold:
 *
 *   agree 1
 *   train.batch = 64
 *   codec.head_act = quant:8
 *
 * Keys are in the table's order. A key at its default is left out, so that a new key with its default is invisible to
 * an older server; keys of class SAID are always written. A number has the fewest digits that read back as the same
 * binary64. There is only one spelling: a text that is read must be, byte for byte, what sl_agreed_write makes of it.
 * The number behind `agree` grows only if the meaning of a key changes. Plain data, no thread. */
#ifndef SL_CONF_AGREED_H
#define SL_CONF_AGREED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum {
	SL_CONF_GROUPS = 8,
	SL_CONF_GROUP_PATTERNS = 12,
	SL_CONF_PATTERN_TEXT = 80,
	SL_CONF_RULE_TEXT = 64,
};

/* A parameter group of the optimizer, an item of train.groups: patterns over names of parameters, and lr=FACTOR of
 * the learning rate, weight_decay=NUMBER, or both. */
struct sl_conf_group {
	int n_match;
	char match[SL_CONF_GROUP_PATTERNS][SL_CONF_PATTERN_TEXT];
	double lr; /* 1 if it is not given */
	bool decays;
	double weight_decay; /* if `decays`; else the optimizer's holds */
};

/* Reads an item of train.groups, or a rule, which has no patterns. False: it is neither, and *out is untouched. */
bool sl_conf_group_read(const char *text, struct sl_conf_group *out);
/* Writes the rule without the patterns, in its one spelling: "lr=0.1 weight_decay=0". */
void sl_conf_group_rule(const struct sl_conf_group *group, char out[SL_CONF_RULE_TEXT]);

enum { SL_CONF_CODEC_TEXT = 128, SL_CONF_MAX_CHUNKS = 256 /* of a plan */, SL_CONF_MAX_BATCH = 1 << 20 };

enum {
	SL_CONF_SHARE_TEXT = 32,     /* a group's name, with its NUL */
	SL_CONF_SHARE_CLIENTS = 256, /* members of a group */
	SL_CONF_PARTIES = 9,         /* members of a vertical group: one for each value of head_act, and labels */
};
enum sl_conf_share_ends { SL_ENDS_PRIVATE, SL_ENDS_STEP, SL_ENDS_ROUND };
enum sl_conf_share_layers { SL_LAYERS_EACH, SL_LAYERS_ALL };
enum sl_conf_share_mode { SL_SHARE_SYNC, SL_SHARE_SERIAL, SL_SHARE_ROUNDS, SL_SHARE_VERTICAL };
enum sl_conf_share_role { SL_ROLE_FEATURES, SL_ROLE_LABELS };
/* What happens to the optimizer's moments when copies are averaged: each member keeps its own; all get their
 * average; all begin again at 0. */
enum sl_conf_share_moments { SL_SHARE_KEEP, SL_SHARE_AVERAGE, SL_SHARE_ZERO };

enum sl_conf_optimizer { SL_CONF_SGD, SL_CONF_ADAM, SL_CONF_ADAMW };
/* the same values as enum sl_precision */
enum sl_conf_precision { SL_CONF_FP32, SL_CONF_TF32, SL_CONF_BF16, SL_CONF_FP16, SL_CONF_BF16_FACTORS };

/* One field for each row of SL_AGREED. */
struct sl_agreed {
	int batch, chunks;
	int64_t seed;
	enum sl_conf_precision precision; /* of the middle */
	struct {
		enum sl_conf_optimizer kind;
		double momentum; /* momentum and nesterov: sgd */
		bool nesterov;
		double beta1, beta2, eps; /* for adam and adamw */
		double weight_decay;
	} optimizer;      /* of both sides; the learning rate comes with each commit */
	double clip_norm; /* 0: off */
	bool chunk_sums;
	int accumulate; /* batches */
	double ema;     /* 0: off */
	/* specifications of codecs, not parsed here; [enum sl_dir]: head_act, mid_act, mid_grad, head_grad */
	char codec[4][SL_CONF_CODEC_TEXT];
	char end_codec[2][SL_CONF_CODEC_TEXT];         /* end_grad, end_mean: with share.ends */
	char group[SL_CONF_GROUPS][SL_CONF_RULE_TEXT]; /* rules of groups 1, 2 … of train.groups; "": no such group */
	/* Whether the gradients at the tail's begin and at the head's end are computed and sent. Not keys of a
	 * config: the client derives them from which parameters learn. */
	struct {
		bool mid_grad, head_grad;
	} cross;
	int64_t row_tokens, chunk_tokens; /* most tokens of a row and of a chunk; 0: the network has none */
	int64_t phase_step; /* this phase of train.phases began with this step, whose state may be of another plan */
	bool padded;        /* all rows of a batch are padded to one length */
	bool cached;        /* attention's keys and values are kept from pass to pass */
	bool free_calls; /* a step has any number of calls, whose rows and order the client finds as it goes; no key */
	bool token_loss; /* a step's loss is a mean over tokens with a loss, which both sides count; no key */
	int64_t keep_tokens; /* tokens of head_act that the server keeps; no key of a config */
	bool fetch_state;    /* the answer to a Fetch also carries moments and codecs' state; no key of a config */
	/* A group of clients that train one middle. */
	struct {
		char group[SL_CONF_SHARE_TEXT]; /* "": there is no group, and all else here has no meaning */
		enum sl_conf_share_mode mode;
		int clients; /* seats */
		int quorum;  /* members that a step needs; 0: more than half of the seats */
		int member;
		int64_t rows; /* rows of a step with all members; 0 in a config: clients times batch */
		double least; /* part of the steps that each member must have; 1: no step without a member */
		enum sl_conf_share_unmet { SL_UNMET_WAIT, SL_UNMET_GO_ON } unmet;
		int patience_s, wait_s; /* patience_s 0: ten of the member's usual steps, at least 10 s */
		enum sl_conf_share_ends ends;
		enum sl_conf_share_layers layers;
		double member_norm; /* 0: off */
		enum sl_conf_share_over { SL_OVER_DROP, SL_OVER_CLIP } over_norm;
		int64_t round; /* steps; in a config 0: an epoch. round and moments belong to mode rounds */
		enum sl_conf_share_moments moments;
		int64_t epoch_steps; /* in a config 0: derived from the data */
		enum sl_conf_share_role role;
		enum { SL_SHARE_TRAINS, SL_SHARE_ALIGNS } align; /* no key of a config: splitc align */
		/* No keys of a config: the client derives them. All but turns must be the same for all members. */
		int checkpoint_every;
		int64_t turns; /* steps of an epoch that are this member's own; 0: all, as in sync */
		int64_t dealt; /* a hash of share.batches; 0: there are none */
		int labels; /* a hash of what members' data have in common, if heads and tails are shared; 0: not known
			     */
		int rates;  /* a hash of learning rate, schedule, loss and division of the data; 0: not known */
		int sends;  /* vertical: which values of head_act are this member's, a bit each; 0: see roles */
		int course; /* vertical: a hash of the run's length, its evaluations and the number of rows */
		int seal;   /* a hash of share.secret, with which members seal head and tail; 0: they do not */
		bool fresh; /* this member's link asks that the group begin anew (--fresh) */
	} share;
};

extern const char *const sl_agreed_precisions[],
	*const sl_agreed_optimizers[], *const sl_agreed_modes[], *const sl_agreed_roles[], *const sl_agreed_aligns[];
extern const char *const sl_agreed_moments[],
	*const sl_agreed_ends[], *const sl_agreed_layers[], *const sl_agreed_unmet[], *const sl_agreed_over[];

/* clang-format off */
/* X(type, key, field, class, …): `type` and what follows the class are a row of conf/row.h. Classes:
 *   SAID       written at its default, too
 *   SGD, ADAM  only optimizers of that kind have the key
 *   DERIVED    no key of a config; sl_agreed_same does not compare it, but the keys that it follows from
 *   PLAIN      the others */
#define SL_AGREED_TRAIN(X) \
	X(SL_INT, "train.batch", batch, SAID, 1, SL_CONF_MAX_BATCH, "128", "samples", "batch size of one step") \
	X(SL_INT, "train.chunks", chunks, SAID, 1, SL_CONF_MAX_CHUNKS, "4", NULL, \
		"parts of a batch, which overlap on the link and in the computation; a batch norm sees one part at a time") \
	X(SL_INT64, "train.seed", seed, PLAIN, 0, 0x1p53, "0", NULL, "seed of weights, order, augmentation and dropout") \
	X(SL_CHOICE, "train.precision", precision, PLAIN, sl_agreed_precisions, "fp32", \
		"precision of the middle. If the server's GPU supports it: tf32 rounds the factors of products; bf16 and fp16 keep activations in 16 bits and weights in fp32; fp16 needs on_nan: skip. If the server's CPU does (AVX512_BF16): bf16_factors rounds both factors of a product to bfloat16 and sums in fp32, in linear layers, attention and dense convolutions; 3×3 ones that take Winograd's way stay in fp32, where they are faster") \
	X(SL_DOUBLE, "train.clip_norm", clip_norm, PLAIN, 0, 1e6, "0", "0: off", \
		"scales the whole model's gradient down to this norm where it is larger, as torch.nn.utils.clip_grad_norm_ does") \
	X(SL_BOOL, "train.chunk_sums", chunk_sums, PLAIN, "false", \
		"to compare one client with a group: each chunk's gradient is summed by itself before it is added to the batch's. N chunks then learn, bit for bit, what N members of a group with one chunk each learn; costs a little time, and memory for a second gradient") \
	X(SL_INT, "train.accumulate", accumulate, PLAIN, 1, 4096, "1", "batches", \
		"the optimizer steps once in so many batches, by the mean of their gradients; memory is that of one batch") \
	X(SL_DOUBLE, "train.ema", ema, PLAIN, 0, 0.999999, "0", "0: off", \
		"keeps a moving average of the weights: after each step of the optimizer this share of the old average remains, such as 0.999; evaluations, best.safetensors and the model use the average, training does not") \
	X(SL_CHOICE, "train.optimizer.kind", optimizer.kind, PLAIN, sl_agreed_optimizers, "sgd", \
		"optimizer of both sides; adam and adamw need an lr (PyTorch's default is 0.001)") \
	X(SL_DOUBLE, "train.optimizer.momentum", optimizer.momentum, SGD, 0, 0.9999, "0.9", NULL, "momentum of sgd, as in torch.optim.SGD") \
	X(SL_BOOL, "train.optimizer.nesterov", optimizer.nesterov, SGD, "false", "sgd uses Nesterov's momentum") \
	X(SL_DOUBLE, "train.optimizer.beta1", optimizer.beta1, ADAM, 0, 0.999999, "0.9", NULL, "adam and adamw: decay of the running mean of gradients") \
	X(SL_DOUBLE, "train.optimizer.beta2", optimizer.beta2, ADAM, 0, 0.999999, "0.999", NULL, "adam and adamw: decay of the running mean of squared gradients") \
	X(SL_DOUBLE, "train.optimizer.eps", optimizer.eps, ADAM, 1e-16, 1, "1e-8", NULL, "adam and adamw: added to the root of the mean of squares") \
	X(SL_DOUBLE, "train.optimizer.weight_decay", optimizer.weight_decay, PLAIN, 0, 1, "0", NULL, \
		"decay of weights; sgd and adam add weight_decay * weight to the gradient; adamw subtracts lr * weight_decay * weight from the weight (PyTorch's default for adamw is 0.01)")
#define SL_AGREED_CODEC(X) \
	X(SL_STRING, "codec.head_act", codec[0], PLAIN, sl_conf_check_codec, "none", "codec of the head's activations, client to server") \
	X(SL_STRING, "codec.mid_act", codec[1], PLAIN, sl_conf_check_codec, "none", "codec of the middle's activations, server to client") \
	X(SL_STRING, "codec.mid_grad", codec[2], PLAIN, sl_conf_check_codec, "none", "codec of the gradients of the middle's activations, client to server") \
	X(SL_STRING, "codec.head_grad", codec[3], PLAIN, sl_conf_check_codec, "none", "codec of the gradients of the head's activations, server to client")
#define SL_AGREED_END_CODEC(X) \
	X(SL_STRING, "codec.end_grad", end_codec[0], PLAIN, sl_conf_check_codec, "none", \
		"with share.ends, codec of the gradients of head and tail, client to server") \
	X(SL_STRING, "codec.end_mean", end_codec[1], PLAIN, sl_conf_check_codec, "none", \
		"with share.ends, codec of the mean of these gradients, server to client")
#define SL_AGREED_GROUP(X, n, at) X(SL_STRING, "group." n, group[at], PLAIN, sl_conf_check_rule, "", "rule of that group of train.groups")
#define SL_AGREED_GROUPS(X) \
	SL_AGREED_GROUP(X, "1", 0) SL_AGREED_GROUP(X, "2", 1) SL_AGREED_GROUP(X, "3", 2) SL_AGREED_GROUP(X, "4", 3) \
	SL_AGREED_GROUP(X, "5", 4) SL_AGREED_GROUP(X, "6", 5) SL_AGREED_GROUP(X, "7", 6) SL_AGREED_GROUP(X, "8", 7)
#define SL_AGREED_CROSS(X) \
	X(SL_BOOL, "cross.mid_grad", cross.mid_grad, DERIVED, "true", "the middle's gradient crosses: something below the tail learns") \
	X(SL_BOOL, "cross.head_grad", cross.head_grad, DERIVED, "true", "the head's gradient crosses: something in the head learns")
/* Not in a config: they come from the client's data. */
#define SL_AGREED_TOKENS(X) \
	X(SL_INT64, "tokens.row", row_tokens, PLAIN, 0, 65535, "0", NULL, "tokens of the longest row") \
	X(SL_INT64, "tokens.chunk", chunk_tokens, PLAIN, 0, 0x7fffffff, "0", NULL, "tokens of a chunk at most") \
	X(SL_BOOL, "tokens.padded", padded, PLAIN, "false", "rows are padded to one length") \
	X(SL_BOOL, "tokens.cached", cached, PLAIN, "false", "keys and values of rows are kept from pass to pass; there are evaluations alone")
#define SL_AGREED_SHARE(X) \
	X(SL_STRING, "share.group", share.group, PLAIN, sl_conf_check_share, "", \
		"name of a group of clients that train one middle together; empty: this client has a middle of its own") \
	X(SL_CHOICE, "share.mode", share.mode, PLAIN, sl_agreed_modes, "sync", \
		"how a group trains: sync adds the gradients of all members in each step; serial lets members take turns, and each step is one member's batch; rounds lets each member train a copy of the middle, and averages the copies after every round; vertical: one member has the data and the head, another one the labels and the tail") \
	X(SL_INT, "share.clients", share.clients, PLAIN, 1, SL_CONF_SHARE_CLIENTS, "2", "members", \
		"seats of the group") \
	X(SL_INT, "share.quorum", share.quorum, PLAIN, 0, SL_CONF_SHARE_CLIENTS, "0", "members; 0: more than half of the seats", \
		"members that a step needs") \
	X(SL_INT, "share.member", share.member, PLAIN, 0, SL_CONF_SHARE_CLIENTS - 1, "0", NULL, \
		"number of this client in its group, from 0; each member has another one") \
	X(SL_INT64, "share.rows", share.rows, PLAIN, 0, 0x1p30, "0", "samples; 0: share.clients times train.batch", \
		"sync: samples of a step that all members take part in; set it where their batches differ") \
	X(SL_DOUBLE, "share.least", share.least, PLAIN, 0, 1, "0.9", "part of the steps; 0: none, 1: all", \
		"part of the run's steps that each member must have: the group goes on without a member only while it can still have this part, then waits for it; 1: no step is done without a member") \
	X(SL_INT, "share.patience_s", share.patience_s, PLAIN, 0, 86400, "0", "seconds; 0: ten of that member's usual steps, at least 10 s", \
		"how long a step waits for a member that it may do without") \
	X(SL_CHOICE, "share.unmet", share.unmet, PLAIN, sl_agreed_unmet, "wait", \
		"what to do where a member would get less than share.least: wait for it, or go_on and end with status 80") \
	X(SL_INT, "share.wait_s", share.wait_s, PLAIN, 0, 604800, "3600", "seconds; 0: wait for ever", \
		"how long members wait for a group that is not complete; then those that are there end, and say who is missing, or was refused and why") \
	X(SL_CHOICE, "share.ends", share.ends, PLAIN, sl_agreed_ends, "step", \
		"head and tail of the members: step (in sync and serial), all have the same, and learn from the mean of all members' gradients in each step; round (in rounds, and the default there), they are averaged after every round, as the copies of the middle are; private, each member has its own") \
	X(SL_CHOICE, "share.layers", share.layers, PLAIN, sl_agreed_layers, "each", \
		"what codec.end_grad and codec.end_mean code: each, every parameter by itself; all, the parameters of head and tail as one vector")
#define SL_AGREED_ROUNDS(X) \
	X(SL_DOUBLE, "share.member_norm", share.member_norm, PLAIN, 0, 1e30, "0", "0: off", \
		"the largest norm of a member's gradient (middle; with share.ends also head and tail) in a step; in rounds, of the change of its head and tail") \
	X(SL_CHOICE, "share.over_norm", share.over_norm, PLAIN, sl_agreed_over, "drop", \
		"what becomes of a member's part above share.member_norm: drop leaves it out of the step; clip scales it down to that norm") \
	X(SL_INT64, "share.round", share.round, PLAIN, 0, 0x1p53, "0", "steps; 0: an epoch", \
		"rounds: steps after which the members' copies are averaged, each by the rows it was trained with") \
	X(SL_CHOICE, "share.moments", share.moments, PLAIN, sl_agreed_moments, "keep", \
		"rounds: what becomes of the optimizer's moments when copies are averaged: keep, each member has its own; average, like the weights; zero, they begin anew")
#define SL_AGREED_ROLE(X) \
	X(SL_CHOICE, "share.role", share.role, PLAIN, sl_agreed_roles, "features", \
		"vertical: what this member has: features, an input of the network and its head; labels, the labels, the tail and the loss, and maybe an input, too")
#define SL_AGREED_EPOCH(X) \
	X(SL_INT64, "share.epoch_steps", share.epoch_steps, PLAIN, 0, 0x1p53, "0", "steps; 0: the batches of the member with the most", \
		"sync and rounds, with data.partition: files: steps of an epoch of the group, where members have unequal data; the same for all members")
/* Not in a config. */
#define SL_AGREED_SHARED(X) \
	X(SL_INT, "share.checkpoint_every", share.checkpoint_every, PLAIN, 0, 1e9, "0", NULL, "train.checkpoint_every of all members") \
	X(SL_INT64, "share.turns", share.turns, PLAIN, 0, 0x1p53, "0", NULL, "steps of an epoch that are this member's own; 0: all") \
	X(SL_INT64, "share.dealt", share.dealt, PLAIN, 0, 0x1p53, "0", NULL, "stands for share.batches, of all members; 0: there are none") \
	X(SL_INT, "share.labels", share.labels, DERIVED, 0, 0xffff, "0", NULL, "stands for classes, columns and scales of the data of all members; 0: not known") \
	X(SL_INT, "share.rates", share.rates, DERIVED, 0, 0xffff, "0", NULL, "stands for learning rate, schedule, loss and division of the data of all members; 0: not known") \
	X(SL_CHOICE, "share.align", share.align, DERIVED, sl_agreed_aligns, "false", "vertical: the members find their common rows, and there is no graph") \
	X(SL_INT, "share.sends", share.sends, DERIVED, 0, 0xff, "0", NULL, "vertical: which values of head_act the member sends, a bit each; 0: features all, labels none") \
	X(SL_INT, "share.course", share.course, DERIVED, 0, 0xffff, "0", NULL, "vertical: stands for the run's length, its evaluations and the number of rows") \
	X(SL_INT, "share.seal", share.seal, PLAIN, 0, 0xffff, "0", NULL, "stands for share.secret, with which members seal the head and tail that they give; 0: they do not") \
	X(SL_BOOL, "share.fresh", share.fresh, DERIVED, "false", "the member was started with --fresh, and no link of it was welcomed yet")
/* Not in a config: it follows from the phases before. */
#define SL_AGREED_PHASE(X) \
	X(SL_INT64, "phase.step", phase_step, PLAIN, 0, 0x1p53, "0", NULL, "step at which this phase of train.phases begins")
/* Not in a config: libsplit sets it. */
#define SL_AGREED_FREE(X) \
	X(SL_BOOL, "calls.free", free_calls, DERIVED, "false", "a step is made of calls, up to train.chunks of them, whose rows are not known before")
/* Not in a config: set if train.audit needs it. It does not change what a run computes. */
#define SL_AGREED_FETCH(X) \
	X(SL_BOOL, "fetch.state", fetch_state, DERIVED, "false", "a Fetch is answered with the optimizer's moments and the codecs' state, too")
/* Not in a config: set if train.keep_sent_bytes needs it. It does not change what a run computes either. */
#define SL_AGREED_KEEP(X) \
	X(SL_INT64, "keep.tokens", keep_tokens, DERIVED, 0, 0x7fffffff, "0", NULL, "tokens of head_act that the server keeps, so that each crosses once")
/* Not in a config: set for a group with a language model, and for chunk_sums with one. */
#define SL_AGREED_LOSS(X) \
	X(SL_BOOL, "loss.tokens", token_loss, DERIVED, "false", "a step counts tokens with a loss in place of rows, and its parts say how many there are")
#define SL_AGREED(X) \
	SL_AGREED_TRAIN(X) SL_AGREED_CODEC(X) SL_AGREED_END_CODEC(X) SL_AGREED_GROUPS(X) SL_AGREED_CROSS(X) SL_AGREED_TOKENS(X) \
	SL_AGREED_SHARE(X) SL_AGREED_ROUNDS(X) SL_AGREED_ROLE(X) SL_AGREED_EPOCH(X) SL_AGREED_SHARED(X) SL_AGREED_PHASE(X) SL_AGREED_FREE(X) SL_AGREED_FETCH(X) SL_AGREED_KEEP(X) SL_AGREED_LOSS(X)
/* clang-format on */

enum { SL_AGREED_TEXT = 4096 }; /* room for any agreement, with its NUL */

/* The values of an agreement that has no keys: the config's defaults, except for share.ends. */
struct sl_agreed sl_agreed_default(void);
/* Whether the key `path` has no effect beside the others: another optimizer, or a group or mode that `a` lacks, has
 * it. */
bool sl_agreed_is_idle(const struct sl_agreed *a, const char *path);
/* If only one mode of a group has this key, and `a` has another mode: the name of that mode; else NULL. */
const char *sl_agreed_other_mode(const struct sl_agreed *a, const char *path);
bool sl_agreed_is_share(const char *path); /* `path` is a key that only a group has */
bool sl_agreed_shares_ends(const struct sl_agreed *a);
bool sl_agreed_is_vertical(const struct sl_agreed *a);
/* Whether the client is the party of a vertical group with this role. */
bool sl_agreed_has_role(const struct sl_agreed *a, enum sl_conf_share_role role);
/* Whether each member keeps moments of its own, in mode rounds. */
bool sl_agreed_keeps_moments(const struct sl_agreed *agreed);
/* Whether a group may do steps without a member. */
bool sl_agreed_goes_on(const struct sl_agreed *agreed);
int sl_agreed_quorum(const struct sl_agreed *agreed); /* members that a step needs */

/* Writes the agreement; idle keys are left out, whatever they hold. Returns the length without the NUL. */
size_t sl_agreed_write(const struct sl_agreed *a, char out[SL_AGREED_TEXT]);
/* `text` need not end with a NUL, and may come from a peer. An error names the key that is to blame, if there is
 * one. LIMIT: out of bounds; CONFIG: an unknown key or value; PROTOCOL: another spelling than sl_agreed_write's. */
enum sl_err sl_agreed_read(struct sl_agreed *a, const char *text, size_t len, struct sl_fail *fail) SL_MUST_CHECK;
/* Compares two agreements. MISMATCH names the first key that differs: "train.batch: was 128, is 64". DATA: `was` is
 * no agreement. */
enum sl_err sl_agreed_same(const char *was, size_t was_len, const struct sl_agreed *is,
			   struct sl_fail *fail) SL_MUST_CHECK;

/* Whether `member` may train with the group that `first` began. MISMATCH names the first key that all members must
 * have equal and these two have not, and both values. May differ: the codecs of activations and their gradients, turns,
 * sends, the member's number and role; outside a vertical group also batch, cross and tokens. */
enum sl_err sl_agreed_joins(const struct sl_agreed *first, const struct sl_agreed *member,
			    struct sl_fail *fail) SL_MUST_CHECK;

#endif
