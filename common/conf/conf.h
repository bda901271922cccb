/* The two configs as plain structs, filled from YAML by one table each (table_client.c, table_server.c: name, type,
 * bounds, default, unit, help, validator). A loaded config is complete and in bounds; strings are UTF-8 without
 * control characters. Code that finds a fault later (a codec's spelling, a cut outside the model) reports it with
 * sl_conf_client_fail, which names the place in the file.
 *
 * Errors are CONFIG with "file:line:column: sentence that says what would be right"; NOINPUT if the file cannot be
 * read. YAML anchors, aliases, tags, merge keys and second documents are refused. */
#ifndef SL_CONF_CONF_H
#define SL_CONF_CONF_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/err.h"
#include "common/base/log.h"
#include "common/conf/agreed.h"
#include "common/conf/networks.h"

enum {
	SL_CONF_TEXT = 256,
	SL_CONF_LIST_MAX = 32,
	SL_CONF_LABELS_MAX = 1024, /* columns that patterns in data.label may name */
	SL_CONF_NAME_TEXT = 64,
	SL_CONF_ALSO = 8,          /* sources in data.also */
	SL_CONF_WHY = 320,         /* a sentence of a check */
	SL_CONF_SOCKET_PATH = 108, /* sun_path */
	SL_CONF_MAX_KEYS = 224,
	SL_CONF_MIN_IMAGE = 8, /* pixels of a side of a network's input, here, in plans and on the wire */
	SL_CONF_MAX_IMAGE = 4096,
	SL_CONF_MAX_BYTES = 1 << 20 /* of a config file */
};

struct sl_conf_list {
	int n;
	char item[SL_CONF_LIST_MAX][SL_CONF_TEXT];
};

/* Height and width of an image; equal if the config has one number. */
struct sl_conf_size {
	int h, w;
};

/* Where each value came from, in the order of the table; line 0: the default, line -1: --set. */
struct sl_conf_origin {
	char path[PATH_MAX];
	char part[32]; /* what errors name before the key: "data.also: source 1: " */
	struct sl_conf_mark {
		int line, column; /* from 1 */
	} mark[SL_CONF_MAX_KEYS];
};

/* Metrics that evaluations compute, by their names in client/figures/metric.h. */
/* clang-format off */
#define SL_CLASS_METRICS(X) \
	X("accuracy") X("top5") X("matthews") X("f1") X("precision") X("recall") X("specificity") X("balanced_accuracy") \
	X("auc") X("average_precision") X("calibration_error")
#define SL_LABEL_METRICS(X) X("f1_micro") X("precision_micro") X("recall_micro")
#define SL_PIXEL_METRICS(X) X("mean_iou") X("dice")
#define SL_NUMBER_METRICS(X, LAST) X("pearson") X("spearman") X("mae") X("rmse") LAST("r2")
/* clang-format on */

enum sl_conf_form { SL_FORM_CIFAR, SL_FORM_IMAGENET };
/* Where samples come from: X(enum, NAME, data.kind). A new kind is a row here, and a file in client/data that
 * defines sl_source_NAME. The order counts: kinds before VOLUMES are pictures, those from COLA on are texts, and
 * those from COLA to WNLI are tasks of GLUE. SL_DATA_GLUE stands for the task that data.task names. */
/* clang-format off */
#define SL_DATA_KINDS(X) \
	X(CIFAR10, cifar10, "cifar10") \
	X(CIFAR100, cifar100, "cifar100") \
	X(IMAGES, images, "images") \
	X(WEBDATASET, webdataset, "webdataset") \
	X(VOLUMES, volumes, "volumes") \
	X(MADE_TOKENS, made_tokens, "made_tokens") \
	X(CSV, csv, "csv") \
	X(COLA, cola, "cola") X(SST2, sst2, "sst2") X(MRPC, mrpc, "mrpc") X(QQP, qqp, "qqp") X(MNLI, mnli, "mnli") \
	X(MNLI_MM, mnli_mm, "mnli-mm") X(QNLI, qnli, "qnli") X(RTE, rte, "rte") X(STSB, stsb, "stsb") X(WNLI, wnli, "wnli") \
	X(TEXT, text, "text")
/* clang-format on */
#define SL_DATA_ENUM(id, name, word) SL_DATA_##id,
enum sl_conf_data_kind { SL_DATA_KINDS(SL_DATA_ENUM) SL_DATA_GLUE };
extern const char *const sl_conf_data_kinds[]; /* by kind, NULL-terminated */
/* How members of a group share one set of data (data.partition). */
enum sl_conf_parts_kind { SL_PARTS_FILES, SL_PARTS_IID, SL_PARTS_BY_LABEL, SL_PARTS_BATCH, SL_PARTS_DIRICHLET };
struct sl_conf_parts {
	enum sl_conf_parts_kind kind;
	double alpha; /* DIRICHLET */
};
/* How the numbers of a volume are scaled (data.intensity). */
struct sl_conf_intensity {
	enum sl_conf_intensity_kind {
		SL_INTENSITY_NONE, /* they stay as they are */
		SL_INTENSITY_CT,   /* cut off at `low` and `high`; then less `mean`, divided by `deviation` */
		SL_INTENSITY_MRI   /* where not 0: less their mean, divided by their deviation, for each sequence of a
				      case */
	} kind;
	double low, high, mean, deviation;
};
/* Reads "none", "mri", "ct:LOW,HIGH" or "ct:LOW,HIGH,MEAN,DEVIATION". Without mean and deviation LOW becomes 0, and
 * HIGH
 * 1. False: it is malformed, and *out is untouched. */
bool sl_conf_intensity_read(const char *text, struct sl_conf_intensity *out);
/* Reads three numbers from `low` to `high`, which are whole if `whole`. False: the list has others. */
bool sl_conf_three(const struct sl_conf_list *list, double low, double high, bool whole, double out[3]);
enum { SL_CONF_MAX_PATCH = 1024 }; /* voxels of a patch's side */
enum sl_conf_normalize { SL_NORMALIZE_IMAGENET, SL_NORMALIZE_CIFAR10, SL_NORMALIZE_CIFAR100, SL_NORMALIZE_NONE };
enum sl_conf_schedule {
	SL_CONF_CONSTANT,
	SL_CONF_COSINE,
	SL_CONF_POLYNOMIAL,
	SL_CONF_STEP,
	SL_CONF_POINTS,
	SL_CONF_EXPONENTIAL
};
enum sl_conf_loss {
	SL_CONF_LABELS,
	SL_CONF_RESTORE_HEAD,
	SL_CONF_RESTORE_TAIL,
	SL_CONF_MSE, /* these are losses of numbers */
	SL_CONF_L1,
	SL_CONF_HUBER,
	SL_CONF_DICE, /* these are losses of pixels */
	SL_CONF_DICE_CE,
	SL_CONF_FOREGROUND_DICE,
	SL_CONF_FOREGROUND_DICE_CE
};
enum sl_conf_warmup { SL_CONF_ABOVE_ZERO, SL_CONF_FROM_ZERO };
enum sl_conf_by { SL_CONF_BY_STEP, SL_CONF_BY_EPOCH };
enum sl_conf_chunk_loss { SL_CHUNK_LOSS_MEAN, SL_CHUNK_LOSS_SUM };
enum sl_conf_recompute { SL_RECOMPUTE_AUTO, SL_RECOMPUTE_ON, SL_RECOMPUTE_OFF };
enum sl_conf_nan { SL_NAN_STOP, SL_NAN_SKIP };
enum sl_conf_ends_precision { SL_ENDS_FP32, SL_ENDS_BF16_FACTORS };
enum sl_conf_lost { SL_LOST_EXIT, SL_LOST_WAIT };
enum sl_conf_channels { SL_CHANNELS_OF_NETWORK, SL_CHANNELS_GREY, SL_CHANNELS_RGB };
enum sl_conf_bad_sample { SL_BAD_SAMPLE_STOP, SL_BAD_SAMPLE_SKIP };
enum sl_conf_missed { SL_MISSED_CONTINUE, SL_MISSED_EXIT };

/* A phase: a part of a run with sizes of its own. */
struct sl_conf_phase {
	int epochs;
	struct sl_conf_size image; /* 0: model.image */
	int batch, chunks;         /* 0: train.batch, train.chunks */
	double lr;                 /* factor of the schedule's learning rate */
};
/* Reads an item of train.phases, "epochs=5 image=128 batch=512 lr=2". False: it is malformed, and *out is untouched. */
bool sl_conf_phase_read(const char *text, struct sl_conf_phase *out);

/* A server's has window_bytes alone: each client says the other numbers in its Hello. */
struct sl_conf_link {
	int64_t part_bytes;   /* payload of one message, ≤ 1 MiB */
	int64_t window_bytes; /* credit: bytes in flight in one direction, ≥ part_bytes */
	int heartbeat_ms;
	int timeout_ms; /* silence after which the peer is lost, ≥ 2 heartbeats */
	int connect_timeout_ms;
	enum sl_conf_lost on_server_lost;
	int retry_ms;
	int stall_s; /* 0: no limit */
};

struct sl_conf_client {
	char server[SL_CONF_TEXT]; /* tcp://host:port */
	struct {
		char name[SL_CONF_TEXT];
		char huggingface[PATH_MAX]; /* a folder; then `name` is SL_CONF_HUGGINGFACE. "": none */
		char network[PATH_MAX]; /* a file; then `name` is SL_CONF_NETWORK or one of its variants. "": none */
		char onnx[PATH_MAX];    /* "": refused otherwise */
		enum { SL_CONF_CLASSIFIER, SL_CONF_MASKED_LM, SL_CONF_CAUSAL_LM } head; /* of a Hugging Face folder */
		enum {
			SL_CONF_CLASSES,
			SL_CONF_NUMBERS,
			SL_CONF_SEVERAL_LABELS,
			SL_CONF_PIXELS
		} task; /* the same values as sl_learn_kind */
		double width;
		int classes;
		struct sl_conf_size image;
		enum sl_conf_form form;
		bool init_bn0;
		double dropout;
		int features;           /* for networks of tables */
		int vocab, tokens;      /* for networks of tokens */
		char weights[PATH_MAX]; /* "": initialised from train.seed */
		bool partial;
		struct sl_conf_list insert_weights; /* files with the inserts' weights; none: `weights` may have them */
	} model;
	struct {
		int rank; /* 0: no adapters */
		double alpha, dropout;
		struct sl_conf_list target;
		char adapter[PATH_MAX]; /* a folder in PEFT's format; "": adapters start from train.seed */
	} lora;
	struct sl_conf_list batches; /* share.batches, as numbers */
	char share_secret[PATH_MAX]; /* share.secret, a key file; "": none */
	bool share_report;           /* share.report */
	struct sl_conf_list inputs;  /* share.inputs of this member, or data.inputs: none or one */
	int also; /* of a config that sl_conf_also made: which source of data.also it is, from 1; 0: of no other */
	struct sl_conf_list peers; /* share.peers, by member: a public key, or a file that holds it */
	struct {
		enum { SL_ALIGN_EXACT, SL_ALIGN_PADDED } pad;
	} align;
	char partition[SL_CONF_TEXT];  /* "A:-B": A units of the head, B of the tail */
	char head_end[SL_CONF_TEXT];   /* "": partition's first number */
	char tail_begin[SL_CONF_TEXT]; /* "": partition's second number */
	int cut_values;                /* most that may cross at each end */
	enum { SL_CONF_TAIL_ALL, SL_CONF_TAIL_LOSS } tail_tokens;
	struct {
		char head[SL_CONF_CODEC_TEXT], tail[SL_CONF_CODEC_TEXT]; /* specs of client/model/insert.h; "": none */
	} insert;
	struct {
		enum sl_conf_data_kind kind;
		char dir[PATH_MAX];
		struct sl_conf_list train_files, test_files; /* file names in dir; none: all files of the kind */
		int train_limit, test_limit;                 /* samples; 0: all */
		char partition[SL_CONF_TEXT];                /* as sl_conf_parts_read reads it */
		int crop_padding;                            /* pixels; 0: no crop */
		bool flip;
		enum sl_conf_normalize normalize;
		struct sl_conf_list transforms, test_transforms; /* steps of client/data/transform.h; none: the usual */
		char task[SL_CONF_TEXT];                         /* the task of GLUE */
		struct sl_conf_list label; /* tables, texts: columns of labels (texts: one); pixels: classes */
		enum { SL_LABEL_AS_IT_IS, SL_LABEL_SCALED } scale_label; /* numbers */
		char labels[PATH_MAX],
			label_id[SL_CONF_TEXT];         /* pictures: a CSV file, and its column that names them */
		char masks[PATH_MAX];                   /* pixels: the folder of masks in dir */
		struct sl_conf_list ignore, dates, ids; /* tables: columns that are left out; of dates; of ids */
		int buckets;                            /* tables: of ids; 0: they are numbered */
		enum { SL_MISSING_REFUSE, SL_MISSING_MEAN } missing; /* tables: empty cells */
		enum { SL_SEPARATOR_COMMA, SL_SEPARATOR_SEMICOLON, SL_SEPARATOR_TAB } separator; /* tables: cells */
		enum { SL_DECIMAL_POINT, SL_DECIMAL_COMMA } decimal;                             /* tables: numbers */
		char like[PATH_MAX];         /* tables: a file that says their columns */
		char id[SL_CONF_TEXT];       /* vertical: what names a row; "": its place */
		char aligned[PATH_MAX];      /* vertical: what splitc align writes; "": rows are as they are */
		struct sl_conf_list also;    /* further sources, as sl_conf_also reads them */
		char tokenizer[PATH_MAX];    /* of texts */
		int max_length;              /* tokens of a row; 0: as many as the network takes */
		struct sl_conf_list columns; /* own texts: one column of text, or two of pairs */
		enum { SL_CONF_PAD_NONE, SL_CONF_PAD_LONGEST, SL_CONF_PAD_MAX } pad;
		struct {
			double train, val, test; /* they add up to 1; all 0, and no folds: nothing is split */
			int folds, fold;         /* in place of train and val */
			char by[SL_CONF_TEXT];
			int64_t seed;
		} split;
		enum { SL_SAMPLING_SHUFFLED, SL_SAMPLING_BALANCED } sampling;
		bool group_by_length;
		double mask_rate; /* of masked language models: share of a row's tokens that are to be guessed */
		enum { SL_CONF_PACK_NONE, SL_CONF_PACK_SPLIT, SL_CONF_PACK_JOIN } pack; /* of causal language models */
		enum { SL_CONF_LOSS_COMPLETION, SL_CONF_LOSS_ALL } loss_on;
		bool end; /* an end token follows each text */
		bool token_cache;
		enum sl_conf_bad_sample on_bad_sample;
		int64_t max_pixels;
		enum sl_conf_channels channels;
		enum { SL_BITS_8, SL_BITS_16 } bits; /* of a channel of a picture */
		enum { SL_JPEG_FAST, SL_JPEG_EXACT } jpeg;
		bool exif;                                /* turn pictures as their EXIF says */
		struct sl_conf_list window;               /* of DICOM: centre and width; none: as the file says */
		struct sl_conf_list patch, size, spacing; /* volumes: three numbers each, of depth, height, width */
		enum { SL_AXES_ZYX, SL_AXES_XYZ } axes;
		char intensity[SL_CONF_TEXT], cache[PATH_MAX]; /* volumes; cache "": a folder in log.dir */
		int patches;                                   /* volumes: of a case, in an epoch */
		double foreground; /* volumes: share of patches around a voxel with a class */
		int threads;       /* 0: as many as threads that compute if pictures are decoded, else one */
		int prefetch;      /* batches */
	} data;
	struct {
		int epochs;
		int64_t max_steps;       /* 0: no limit */
		int64_t keep_head_bytes; /* memory for a frozen head's activations; 0: they are not kept */
		int64_t keep_sent_bytes; /* the same, in the server's memory */
		double lr;               /* train.optimizer.lr */
		struct {
			enum sl_conf_schedule kind;
			enum sl_conf_warmup warmup;
			enum sl_conf_by by;
			double warmup_epochs, power, end_lr;
			double every_epochs;            /* this, milestones and gamma: of kind step; 0: none */
			struct sl_conf_list milestones; /* epochs, each a number */
			double gamma;
			struct sl_conf_list points; /* EPOCH:LR, as sl_conf_point reads them */
		} schedule;
		enum sl_conf_loss loss;
		double label_smoothing, mixup;
		struct sl_conf_list class_weights; /* one of none and balanced, or numbers above 0 */
		enum sl_conf_chunk_loss chunk_loss;
		int eval_every;              /* epochs; 0: after the last only */
		struct sl_conf_list metrics; /* of evaluations, beside those that are always computed */
		int checkpoint_every;        /* steps; 0: never */
		int64_t audit_every;         /* steps; 0: never */
		bool keep_best;
		char best_metric[SL_CONF_TEXT]; /* "": chosen by the data */
		struct {
			char metric[SL_CONF_TEXT]; /* "": as best_metric */
			int patience;              /* evaluations; 0: the run does not stop */
			double min_delta;
		} stop;
		enum sl_conf_missed on_checkpoint_error;
		bool drop_last;
		enum sl_conf_ends_precision ends_precision;
		enum sl_conf_nan on_nan;
		struct sl_conf_list freeze; /* globs over names of parameters */
		struct sl_conf_list groups; /* as sl_conf_group_read reads them */
		struct sl_conf_list phases; /* as sl_conf_phase_read reads them; none: one phase of all epochs */
	} train;
	struct {
		int max_tokens, top_k;
		double temperature, top_p, penalty;
		int64_t seed;
		bool cache;
	} generate;
	struct {
		double head_act, mid_grad; /* standard deviation, in units of a sample's root mean square; 0: none */
		char key[PATH_MAX];        /* key file */
	} noise;
	struct {
		double clip, clip_grad; /* largest norms of what a sample sends; 0: there is no privacy.… */
		double noise;           /* standard deviation, in units of these norms */
		double delta, budget;   /* budget: the largest epsilon; 0: none */
		char key[PATH_MAX];     /* key file */
	} privacy;
	struct sl_agreed agreed; /* the rest of train, codec and share: what the server has to agree with */
	struct sl_conf_link link;
	struct {
		char secret_key[PATH_MAX]; /* key file; "": the link is not encrypted, and server_key is "", too */
		char server_key[PATH_MAX]; /* public key, or a file with it */
	} auth;
	int threads; /* 0: all CPUs */
	enum sl_conf_recompute recompute;
	char device[SL_CONF_TEXT];
	struct {
		char dir[PATH_MAX]; /* of log.jsonl; "": no log */
		bool tensorboard;   /* events beside log.jsonl; never without a log */
		enum sl_log_level level;
	} log;
	char control[SL_CONF_SOCKET_PATH]; /* resolved, never "" */
	char metrics[SL_CONF_TEXT];        /* 127.0.0.1:9570; "": none */
	struct sl_conf_list metrics_hosts; /* names for which it answers, besides addresses and localhost */
	bool web;                          /* it serves a page of the run, too */
	int watchdog_s, drain_s;           /* 0: no watchdog; SIGTERM ends at once */
	struct sl_conf_origin origin;
};

struct sl_conf_server {
	char listen[SL_CONF_TEXT];   /* tcp://host:port, on loopback where there is no auth; port 0: any free one */
	char store[PATH_MAX];        /* "": uploaded weights are not kept */
	int64_t store_ttl_s;         /* 0: for ever */
	int64_t store_bytes;         /* 0: derived from the free space */
	int64_t store_bytes_per_key; /* 0: half of store_bytes */
	int threads;
	enum sl_conf_recompute recompute;
	char device[SL_CONF_TEXT]; /* auto | cpu | cuda:N */
	struct sl_conf_link link;
	struct {
		char secret_key[PATH_MAX]; /* key file; "": nobody is authenticated, and `clients` is "" too */
		char clients[PATH_MAX];    /* allow-list */
	} auth;
	struct {
		int sessions, sessions_per_key, connections_per_s;
		int64_t memory_bytes, memory_bytes_per_key; /* per_key 0: derived */
		int64_t part_bytes;
		int task_s, piece_ms; /* 0: no limit */
		int report_samples;   /* fewest of an evaluation that a member may report */
	} limits;
	struct {
		enum sl_log_level level;
	} log;
	char control[SL_CONF_SOCKET_PATH];
	char metrics[SL_CONF_TEXT];        /* as the client's */
	struct sl_conf_list metrics_hosts; /* the same */
	bool deterministic;
	int watchdog_s, drain_s; /* as the client's */
	struct sl_conf_origin origin;
};

/* A row of a sweep's list: what it changes in the config; "" and 0: as in the config. */
struct sl_conf_sweep_row {
	char name[SL_CONF_NAME_TEXT]; /* of the method; rows of one name are one line of a plot */
	char codec[4][SL_CONF_CODEC_TEXT];
	struct {
		char head[SL_CONF_CODEC_TEXT], tail[SL_CONF_CODEC_TEXT];
	} insert;
	int chunks;
	struct sl_conf_list set; /* other keys of the config, "key.path=value" each */
	struct sl_conf_origin origin;
};

struct sl_conf_schema; /* key.h */
extern const struct sl_conf_schema sl_conf_client_schema, sl_conf_server_schema, sl_conf_sweep_schema;

/* The network's input that this member, or this source of data, has; NULL: it is not named. */
static inline const char *sl_conf_input(const struct sl_conf_client *c)
{
	return c->inputs.n ? c->inputs.item[0] : NULL;
}

/* Whether the data here have no labels: they are another member's, or of `data` where this is a further source. */
static inline bool sl_conf_lacks_labels(const struct sl_conf_client *c)
{
	return c->also || sl_agreed_has_role(&c->agreed, SL_ROLE_FEATURES);
}

/* Whether the data here have labels alone, and the input is another member's or a further source's. */
static inline bool sl_conf_lacks_input(const struct sl_conf_client *c)
{
	return (c->data.also.n || sl_agreed_has_role(&c->agreed, SL_ROLE_LABELS)) && !c->inputs.n;
}

/* How many sources data.also has. */
int sl_conf_also_count(const struct sl_conf_client *conf);
/* The config of source `index` of data.also: its keys stand in place of the section data. What counts for all samples,
 * such as data.split, stays. NULL, or `why` with a sentence on what is wrong. */
const char *sl_conf_also(struct sl_conf_client *out, const struct sl_conf_client *conf, int index,
			 char why[SL_CONF_WHY]);

/* Whether the training files are split into training, validation and test. */
static inline bool sl_conf_splits(const struct sl_conf_client *c)
{
	return c->data.split.train > 0 || c->data.split.folds;
}

/* Reads data.partition. False: it is malformed. */
bool sl_conf_parts_read(const char *text, struct sl_conf_parts *out);
/* Reads an item of train.schedule.milestones (`lr` NULL: "16") or train.schedule.points ("5:0.4"). False: it is
 * malformed. */
bool sl_conf_point(const char *text, double *epoch, double *lr);

/* Loads either config; callers use the typed wrappers below. `set`: n_set texts "key.path=value" of --set, applied
 * after the file, the last one wins; a list's items are separated by commas, `codec=…` sets all four. */
enum sl_err sl_conf_load(const struct sl_conf_schema *schema, void *out, const char *path, const char *const *set,
			 int n_set, struct sl_fail *fail) SL_MUST_CHECK;
/* The same from memory; `name` is the file in errors. `text` NULL: defaults and `set`, not checked together. */
enum sl_err sl_conf_parse(const struct sl_conf_schema *schema, void *out, const char *name, const char *text,
			  size_t len, const char *const *set, int n_set, struct sl_fail *fail) SL_MUST_CHECK;
/* Loads a file that is a list of sections, each complete by the schema, to rows [most]; *n are filled. CONFIG also
 * if there are more than `most`. */
enum sl_err sl_conf_load_list(const struct sl_conf_schema *schema, void *rows, int most, int *n, const char *path,
			      struct sl_fail *fail) SL_MUST_CHECK;
/* The effective config as YAML that can be loaded again, with each key's help as a comment. IO where `file` fails. */
enum sl_err sl_conf_print(const struct sl_conf_schema *schema, const void *conf, FILE *file) SL_MUST_CHECK;
/* One key's value as sl_conf_print writes it, cut off at `size`. BUG, and "", if there is no such key. */
enum sl_err sl_conf_value_text(const struct sl_conf_schema *schema, const void *conf, const char *path, char *out,
			       size_t size) SL_MUST_CHECK;
/* Whether neither the file nor --set has set the key. */
bool sl_conf_is_default(const struct sl_conf_schema *schema, const void *conf, const char *key);
/* Returns CONFIG; *fail becomes "file:line:column: key: text", or "--set key: text", or "file: key (default): text". */
enum sl_err sl_conf_fail(const struct sl_conf_schema *schema, const void *conf, const char *key, struct sl_fail *fail,
			 const char *fmt, ...) SL_PRINTF(5, 6);
/* Puts the same in front of the text of *fail, whose status is `err`, and returns `err`. Does nothing if that is OK,
 * or if the schema lacks the key. */
enum sl_err sl_conf_blame(const struct sl_conf_schema *schema, const void *conf, const char *key, enum sl_err err,
			  struct sl_fail *fail);

static inline enum sl_err SL_MUST_CHECK sl_conf_client_load(struct sl_conf_client *out, const char *path,
							    const char *const *set, int n_set, struct sl_fail *fail)
{
	return sl_conf_load(&sl_conf_client_schema, out, path, set, n_set, fail);
}

/* Whether train.class_weights is a word, or has a number for each class. */
bool sl_conf_weights_fit(const struct sl_conf_client *conf);
/* Whether training uses the labels of samples, and not an activation that an insert restores. */
static inline bool sl_conf_learns_labels(const struct sl_conf_client *c)
{
	return c->train.loss != SL_CONF_RESTORE_HEAD && c->train.loss != SL_CONF_RESTORE_TAIL;
}

/* Whether this key has no effect beside the others: it belongs to another network or optimizer, say. */
bool sl_conf_client_is_idle(const struct sl_conf_client *conf, const char *path);
/* `key` as in the file: sl_conf_client_fail(conf, "codec.head_act", fail, "%s", why) */
#define sl_conf_client_fail(conf, key, fail, ...) \
	sl_conf_fail(&sl_conf_client_schema, (conf), (key), (fail), __VA_ARGS__)
#define sl_conf_client_blame(conf, key, err, fail) sl_conf_blame(&sl_conf_client_schema, (conf), (key), (err), (fail))
#define sl_conf_server_blame(conf, key, err, fail) sl_conf_blame(&sl_conf_server_schema, (conf), (key), (err), (fail))

#endif
