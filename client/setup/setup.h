/* From a config to everything a run needs. Each piece is opened on its own, since `flops` needs a plan and no data.
 * All errors name the place in the config. */
#ifndef SL_CLIENT_SETUP_SETUP_H
#define SL_CLIENT_SETUP_SETUP_H

#include "client/data/aligned.h"
#include "client/data/loader.h"
#include "client/link/link.h"
#include "client/model/source.h"
#include "client/setup/order.h"
#include "client/step/ends.h"
#include "common/base/pool.h"
#include "common/conf/conf.h"
#include "common/exec/backend.h"
#include "common/session/agree.h"
#include "common/session/memory.h"
#include "common/session/turns.h"
#include "common/weights/weights.h"

/* Which part of a run with train.phases this is. */
struct sl_phase {
	int index, count; /* count 0: the run has no phases, and the other fields mean nothing */
	int first_epoch;  /* epochs of the phases before it; conf's train.epochs are this phase's own */
	int epochs;       /* of all phases */
	uint64_t step;    /* the step that it begins with */
	double lr;        /* factor of the schedule's learning rate */
};

/* What a run needs, in the order in which it is opened. Each stage reads what stands above it. Pointers are owned
 * unless said. */
struct sl_setup {
	/* ---- given: the caller sets it before sl_setup_plan; zeros suit an undivided training run */
	const struct sl_conf_client *conf; /* borrowed */
	struct sl_phase phase;
	int64_t trained; /* steps that the weights have had before this run: where decaying inserts begin. INT64_MAX:
			    all of them */
	/* The splits for whose rows the plan has room: with a network of tokens it depends on their lengths. NONE: data
	 * are not looked at, and rows may be as long as model.tokens. */
	enum sl_setup_reads { SL_READS_NONE, SL_READS_TEST, SL_READS_ALL } reads;
	const char *weights_from; /* the file of the weights, in place of the config's; NULL: the config's */
	bool audits;              /* an audit fetches the middle's whole state */
	bool alone;               /* has a member's part of the data, but is in no group */
	bool fresh;               /* --fresh: what an earlier run in log.dir has sent is not this run's */
	/* Of a vertical group in one process (`alone`): the parties with features, whose data give inputs, and whose
	 * noise is in head_act. NULL: the data here give it. Borrowed */
	const struct sl_setup *features;
	int n_features;
	const char *const *given; /* [ngiven] what to predict in place of the test set; NULL: the test set. Borrowed */
	int ngiven;
	const char *record; /* of a training run: the record that is kept in log.dir (record.h); NULL: none. Borrowed */
	/* To predict volumes: their samples are whole cases, as files or prepared one by one. A bad one stops no
	 * other. */
	enum { SL_CASES_UNASKED, SL_CASES_FILES, SL_CASES_EACH } cases;
	bool streams; /* the test set is lines that come one by one (stream_set.h), and `given` is empty */

	/* ---- sl_setup_plan: what both sides agree on, and how the parts are computed */
	struct sl_agreement agreement;
	struct sl_model_takes takes;
	struct sl_lora lora; /* rank 0: none */
	int *room, rooms;    /* from the first split on that is opened: of struct sl_set_spec */
	struct sl_conf_list adapted;
	struct sl_plan *plan;
	int64_t epoch_steps;   /* steps of an epoch, the same for all members of a group; 0: there is no group */
	int64_t dealt;         /* a hash of share.batches; 0: it is not given */
	struct sl_turns turns; /* which of the dealt batches are this member's own */
	/* [n_features] with data.also: `features` are its sources, and these are the same setups and their configs,
	 * from the first split on that is opened. NULL: none */
	struct sl_setup *further;
	struct sl_conf_client *further_conf;

	/* ---- sl_setup_weights */
	struct sl_weights weights; /* of the whole model */
	bool weights_from_seed;    /* all of the middle's are from the seed: no upload is needed */
	bool inserts_given;        /* a file has given weights of inserts */
	char *weights_file;        /* of a command on trained weights: where they were read; NULL: elsewhere */

	/* ---- sl_setup_split and sl_setup_data. The plan opens splits whose rows it looks at. */
	struct sl_set set[SL_SPLIT_COUNT];
	char *about; /* what is known of the data, from them or a model file (about.h); NULL: nothing */
	char *kept;  /* of training: what --resume compares of it; NULL: nothing */
	/* While a split is opened, and with `streams` until the end: names a table's columns. NULL: the data do. */
	struct json_t *recalled;
	struct sl_augment *augment; /* NULL: transforms instead */
	struct sl_transform *transform[SL_SPLIT_COUNT];
	float *class_weight;          /* [classes], of train.class_weights; NULL: all are 1 */
	struct sl_label_scale *scale; /* [targets], of data.scale_label or the model; NULL: numbers are not scaled */
	double centre[SL_CONF_LABELS_MAX];   /* the same as in `scale`, from the first set on that is opened */
	double rounding[SL_CONF_LABELS_MAX]; /* [targets], to what floats round numbers noticeably; 0: they do not */
	enum { SL_CENTRE_UNKNOWN, SL_CENTRE_CHOSEN, SL_CENTRE_KNOWN } centred; /* CHOSEN: by training's set */
	struct sl_order order;                                                 /* in a vertical group; else zeros */
	struct sl_key seal; /* share.secret, where the agreement has share.seal; else zeros */
	struct sl_aligned
		*aligned; /* data.aligned, from the first split on that is opened, or common rows; NULL: none */
	uint32_t *home;   /* train.keep_sent_bytes: where the server keeps each training sample; NULL: it does not */
	struct sl_head_cache *head_cache; /* train.keep_head_bytes; NULL: nothing is kept */
	struct sl_dcor *dcor;             /* for a training run's evaluations; NULL: there is no such figure */
	/* [classes] for several labels, in training: the probability from which on each is predicted, as the last
	 * evaluation found it; 0: there was none yet. NULL: the task is another one */
	double *threshold;

	/* ---- sl_setup_backend */
	struct sl_noise noise;
	struct sl_noise_count noise_count; /* with privacy.… */
	struct sl_pool *pool;
	struct sl_backend be;
	bool be_open;
	void *in_use; /* what a task that hangs uses, besides this: sl_setup_close leaves all open. NULL: none hangs */
};

/* The setup whose data give the network's input; with several inputs, the first one's. */
static inline const struct sl_setup *sl_setup_input(const struct sl_setup *s)
{
	return s->features && !s->further ? s->features : s;
}

/* The size of a sample's mask: that of pictures if each pixel has a class, else 1 × 1. */
static inline struct sl_conf_size sl_setup_mask(const struct sl_conf_client *conf)
{
	return conf->model.task == SL_CONF_PIXELS ? conf->model.image : (struct sl_conf_size){1, 1};
}

/* Labels of a row. */
static inline int64_t sl_setup_answers(const struct sl_conf_client *conf)
{
	return (int64_t)sl_setup_mask(conf).h * sl_setup_mask(conf).w;
}

/* What the network learns. */
static inline const struct sl_learn_task *sl_setup_task(const struct sl_conf_client *conf)
{
	if (conf->model.head == SL_CONF_CAUSAL_LM)
		return &sl_learn_tasks[SL_LEARN_NEXT];
	return sl_learn_task_of((enum sl_learn_kind)conf->model.task, conf->model.classes,
				conf->model.head == SL_CONF_MASKED_LM);
}

/* If the network has a file of its own (model.network), sets model.classes, model.image and others as that says, unless
 * they are given. CONFIG: class weights are not as many as classes, or a table's classes meet a network with one
 * output. */
enum sl_err sl_setup_sizes(struct sl_conf_client *conf, struct sl_fail *fail) SL_MUST_CHECK;
/* The sizes in the network's file; all 0 without such a file. */
enum sl_err sl_setup_file_sizes(struct sl_model_sizes *out, const struct sl_conf_client *conf,
				struct sl_fail *fail) SL_MUST_CHECK;
/* Sets s->room by the network's file. CONFIG: it looks up ids, and the data have none, or the other way round. */
extern const char sl_setup_no_lookup[];
enum sl_err sl_setup_room(struct sl_setup *s, struct sl_fail *fail) SL_MUST_CHECK;
/* Makes the plan, and checks codecs and optimizer with it. `conf` is borrowed. */
enum sl_err sl_setup_plan(struct sl_setup *s, const struct sl_conf_client *conf, struct sl_fail *fail) SL_MUST_CHECK;
/* Makes the weights: from the seed, over these those of the network's file, over these those of `path` or, if that is
 * "", of a Hugging Face folder. strict: `path` must have all of them, and the config's keys for weights do not count.
 */
enum sl_err sl_setup_weights(struct sl_setup *s, const char *path, bool strict, struct sl_fail *fail) SL_MUST_CHECK;
/* Gets the longest row, and the most tokens of a chunk; 0: the network takes no tokens. sl_setup_plan calls it. */
enum sl_err sl_setup_tokens(struct sl_setup *s, int64_t *row, int64_t *chunk, struct sl_fail *fail) SL_MUST_CHECK;
/* Steps of a round of the group; 0: there are no rounds. */
static inline uint64_t sl_setup_round(const struct sl_setup *s)
{
	const struct sl_agreed *a = &s->agreement.agreed;

	return s->epoch_steps && a->share.mode == SL_SHARE_ROUNDS ? (uint64_t)a->share.round : 0;
}
/* In a group, before the plan: opens the member's training data and, unless it is alone, sets epoch_steps and turns. */
enum sl_err sl_setup_share(struct sl_setup *s, struct sl_fail *fail) SL_MUST_CHECK;
/* Whether the network suits the member of a vertical group: what it has must not be read by others, as only what the
 * middle makes of it crosses. A network with several inputs needs such a group. CONFIG. */
enum sl_err sl_setup_check_parties(const struct sl_setup *s, const struct sl_parts *parts,
				   struct sl_fail *fail) SL_MUST_CHECK;
/* For all members that train in one process: the head learns as the configs of the members that have it say. CONFIG:
 * over links these would not train together. */
enum sl_err sl_setup_take_roles(const struct sl_setup *s, struct sl_parts *parts, struct sl_fail *fail) SL_MUST_CHECK;
/* Of several inputs such a member keeps its own, and the part of the head that depends on that alone. `learns`: any
 * parameter of the complete head does. */
enum sl_err sl_setup_take_input(struct sl_setup *s, struct sl_parts *parts, bool learns,
				struct sl_fail *fail) SL_MUST_CHECK;
/* setup_also.c, for a config with data.also: makes `further`, once. Its sets are not open yet. */
enum sl_err sl_setup_further(struct sl_setup *s, struct sl_fail *fail) SL_MUST_CHECK;
/* Finds the rows of the split that all sources have; s->aligned names them. */
enum sl_err sl_setup_join(struct sl_setup *s, enum sl_split split, struct sl_fail *fail) SL_MUST_CHECK;
/* Adds the names of all rows of a split's files to *out. */
enum sl_err sl_setup_names(struct sl_setup *s, enum sl_split split, struct sl_names *out,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* Opens a split's data, unless they are open already. */
enum sl_err sl_setup_split(struct sl_setup *s, enum sl_split split, struct sl_fail *fail) SL_MUST_CHECK;
/* setup_parts.c: the word for a part, in all that is printed: "training", "validation" or "test". It follows from
 * data.split, or from the usual name of the files, which are open. */
const char *sl_setup_part(const struct sl_setup *s, enum sl_split split);
/* Chooses the part of data.split that a split reads; false: there is no data.split. */
bool sl_setup_choose_part(const struct sl_setup *s, enum sl_split split, struct sl_parts *out);
/* Whether data.split divides each class by itself: all but numbers, several labels, pixels, language models, vertical
 * groups and data.also, whose members or sources do not all have the labels. A model of an older version is evaluated
 * by the split that it was trained with. */
bool sl_setup_stratifies(const struct sl_setup *s);
/* Whether data.split has a test part beside the validation part that training evaluates. */
bool sl_setup_has_test_part(const struct sl_setup *s);
/* Opens that test part, once training's data are open. The caller closes *out. */
enum sl_err sl_setup_test_part(const struct sl_setup *s, struct sl_set *out, struct sl_fail *fail) SL_MUST_CHECK;
/* How many groups of data.split.by the samples of a set are in; 0: in none. */
int64_t sl_setup_groups(const struct sl_set *set);
/* Logs how many samples of an open split data.split gives to its part, by class and group. Warns of an evaluated part
 * where a class has too few for a figure. */
void sl_setup_note_part(const struct sl_setup *s, enum sl_split split);
/* Marks frozen weights that the file has in 16 bits: they stay in 16 bits, and the plan has to know. */
void sl_setup_choose_held(const struct sl_setup *s, struct sl_parts *parts);
/* class_weights.c: whether a set's smallest class has less than a fifth of the samples of its largest. */
bool sl_setup_is_unequal(const struct sl_set *set);
/* class_weights.c: the largest class of the samples that are evaluated, and its share: what a network reaches that
 * always says it. -1: the network has no classes, or they are not known. */
int sl_setup_majority(const struct sl_setup *s, double *share);
/* class_weights.c: warns of classes and labels that no sample of an open set has, and of very unequal ones. DATA:
 * training has one class alone, and is no member of a group. */
enum sl_err sl_setup_check_classes(const struct sl_setup *s, enum sl_split split, struct sl_fail *fail) SL_MUST_CHECK;
/* same_rows.c: warns of rows, texts and pictures of the evaluation that training has, too, without data.split; and of
 * cases of volumes, also with it. */
void sl_setup_warn_of_rows(const struct sl_setup *s);
/* class_weights.c: sets class_weight; balanced weights open the training data. sl_setup_data calls it for training. */
enum sl_err sl_setup_class_weights(struct sl_setup *s, struct sl_fail *fail) SL_MUST_CHECK;
/* The member of setup->about that says how numbers are scaled: [[mean, deviation], …], and [mean, deviation, centre]
 * where a centre is not 0. It lacks where they are not. */
#define SL_SETUP_SCALE "label_scale"
/* The one that has `rounding`. It lacks where all are 0. */
#define SL_SETUP_ROUNDING "label_rounding"
/* label_scale.c: sets scale, for training from data.like or the training data, which are open, else from setup->about,
 * whichever party of a vertical group reads the model. For training it warns of numbers whose deviation is far from 1,
 * without data.scale_label. Always it warns of numbers that floats round. sl_setup_data calls it. */
enum sl_err sl_setup_label_scale(struct sl_setup *s, bool train, struct sl_fail *fail) SL_MUST_CHECK;
/* label_scale.c: finds the centre of numbers before a set is opened: the model's, or that of data.like. */
enum sl_err sl_setup_centre(struct sl_setup *s, struct sl_fail *fail) SL_MUST_CHECK;
/* setup_cut.c: checks error feedback on the tensors of a whole chunk. */
enum sl_err sl_setup_try_feedback(const struct sl_setup *setup, enum sl_dir dir, bool mid,
				  struct sl_fail *fail) SL_MUST_CHECK;
/* setup_cut.c: CONFIG if a stage of the codec works on rows across the border of two slices of volumes. */
enum sl_err sl_setup_check_slices(const struct sl_setup *setup, enum sl_dir dir, bool mid,
				  struct sl_fail *fail) SL_MUST_CHECK;
/* Logs where another cut would be better: the head has most multiplications, or a skip could stay at home. */
void sl_setup_advise_cut(const struct sl_setup *setup);
/* setup_head_cache.c: makes room for activations of training samples that client and server keep. sl_setup_data calls
 * it. */
enum sl_err sl_setup_keep(struct sl_setup *s, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_setup_data(struct sl_setup *s, bool train, struct sl_fail *fail) SL_MUST_CHECK;
/* Check the files for sl_setup_weights and sl_setup_data, without reading them in full: whether they exist, with the
 * right form and size, and labels in range. samples [SL_SPLIT_COUNT]: how many there are; without `train`, that split
 * has 0. */
enum sl_err sl_setup_check_weights(const struct sl_setup *s, const char *path, bool strict,
				   struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_setup_check_data(struct sl_setup *s, bool train, int64_t *samples, struct sl_fail *fail) SL_MUST_CHECK;
/* Checks the lists of transforms, without any data. */
enum sl_err sl_setup_check_transforms(const struct sl_setup *s, struct sl_fail *fail) SL_MUST_CHECK;
/* The memory that a side needs for its part of setup's plan. Nothing is allocated. */
enum sl_err sl_setup_memory(const struct sl_setup *setup, enum sl_session_role role, struct sl_backend *be,
			    struct sl_session_memory *out, struct sl_fail *fail) SL_MUST_CHECK;
/* Whether the client recomputes activations: as its key `recompute` says, or (auto) if it lacks memory otherwise. */
bool sl_setup_recomputes(const struct sl_setup *setup, struct sl_backend *be);
enum sl_err sl_setup_backend(struct sl_setup *s, struct sl_fail *fail) SL_MUST_CHECK;
/* A loader over one split; `wake` as in loader.h, may be NULL. */
enum sl_err sl_setup_loader(const struct sl_setup *s, enum sl_split split, void (*wake)(void *arg), void *arg,
			    struct sl_loader **out, struct sl_fail *fail) SL_MUST_CHECK;
/* Which of the head's inputs takes the data of that config; the first, if they are labels alone. */
int sl_setup_place(const struct sl_setup *s, const struct sl_conf_client *conf);
/* How many threads prepare samples; 0: all CPUs. */
int sl_setup_loader_threads(const struct sl_conf_client *conf);
/* The most tokens of a row. */
int sl_setup_row_most(const struct sl_conf_client *conf);
/* The options of head and tail that the config gives; the rest is zero. */
struct sl_ends_use sl_setup_use(const struct sl_setup *s);
/* The settings of a link, from the config and what is open here; all is borrowed, `auth` too. The rest is zero. */
struct sl_link_conf sl_setup_link(struct sl_setup *s, const struct sl_transport_auth *auth);
/* If *fail, from here or from the server, names a key of the config (train.precision, train.batch), puts the key's
 * place in the file in front of it. */
void sl_setup_blame(const struct sl_setup *s, struct sl_fail *fail);
void sl_setup_close(struct sl_setup *s); /* idempotent; a zeroed one is fine */

#endif
