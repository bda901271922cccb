/* From a config to everything a run needs. Each piece is opened on its own, since `flops` needs a plan and no data;
 * all errors name the config's place. */
#ifndef SL_CLIENT_RUN_SETUP_H
#define SL_CLIENT_RUN_SETUP_H

#include "client/data/loader.h"
#include "client/link/link.h"
#include "client/model/source.h"
#include "client/run/ends.h"
#include "common/base/pool.h"
#include "common/conf/conf.h"
#include "common/exec/backend.h"
#include "common/session/agree.h"
#include "common/session/memory.h"
#include "common/session/turns.h"
#include "common/weights/weights.h"

/* Which part of a run with train.phases this is. */
struct sl_phase {
	int index, count; /* count 0: the run has no phases, and nothing else here counts */
	int first_epoch;  /* that the phases before it had; conf's train.epochs are this phase's own */
	int epochs;       /* of all phases */
	uint64_t step;    /* that it begins with */
	double lr;        /* factor of the schedule's */
};

struct sl_setup {
	const struct sl_conf_client *conf;
	struct sl_phase phase; /* set it before sl_setup_plan */
	struct sl_agreement agreement;
	struct sl_model_takes takes;
	struct sl_lora lora; /* rank 0: none */
	struct sl_conf_list adapted;
	struct sl_plan *plan;
	int64_t trained; /* steps that the weights have had before this run: where decaying inserts begin. Set it before
			    sl_setup_plan; INT64_MAX: all of them */
	/* Of a network of tokens the plan depends on the lengths of rows. Which splits it is for; NONE: data are not
	 * looked at, and rows may be as long as model.tokens. Set it before sl_setup_plan. */
	enum sl_setup_reads { SL_READS_NONE, SL_READS_TEST, SL_READS_ALL } reads;
	const char *weights_from;  /* the file that they will come from, in place of the config's; NULL: that. Set it
				      before  sl_setup_plan */
	struct sl_weights weights; /* of the whole model */
	bool weights_from_seed;    /* every one of the middle's: no upload is needed */
	bool inserts_given;        /* a file has given one of theirs */
	struct sl_set set[SL_SPLIT_COUNT];
	int64_t epoch_steps;   /* of a group, all of whose members have as many; 0: there is none */
	int64_t dealt;         /* stands for share.batches; 0: there are none */
	struct sl_turns turns; /* which of the dealt batches are this member's own */
	bool audits;           /* an audit fetches the middle's whole state. Set it before sl_setup_plan */
	bool alone;            /* has a member's part of the data, and is in no group. Set it before sl_setup_plan */
	char *about;           /* of the data, in training or of a model file (about.h); NULL: nothing is known */
	/* [classes] of several labels, in training: the probabilities from which on each is said, as the last
	 * evaluation found them; 0: none was yet. NULL: there are no such labels */
	double *threshold;
	const char *const *given; /* what is to be predicted, in place of the test set [ngiven]; NULL: that. Borrowed */
	int ngiven;
	struct json_t *recalled;    /* what says a table's columns, while a split is opened; NULL: the data */
	struct sl_augment *augment; /* NULL: transforms instead */
	struct sl_transform *transform[SL_SPLIT_COUNT];
	float *class_weight;   /* [classes], of train.class_weights; NULL: all are 1 */
	struct sl_noise noise; /* sl_setup_backend reads its key */
	struct sl_kept *kept;  /* train.keep_head_bytes; NULL: nothing is kept */
	struct sl_dcor *dcor;  /* of a training run's evaluations; NULL: it has none */
	uint32_t *home; /* train.keep_sent_bytes: where the server keeps each training sample; NULL: it does not */
	struct sl_pool *pool;
	struct sl_backend be;
	bool be_open;
	bool in_use; /* by a task that may never end: sl_setup_close leaves everything */
};

/* Of a class for each pixel: the picture's size; else 1 × 1. */
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

/* Where the network's own file says what model.classes and model.image are: these, unless they are given. CONFIG: a
 * table's classes, and one output. */
enum sl_err sl_setup_sizes(struct sl_conf_client *conf, struct sl_fail *fail) SL_MUST_CHECK;
/* `conf` is borrowed. The plan, codecs and optimizer. */
enum sl_err sl_setup_plan(struct sl_setup *s, const struct sl_conf_client *conf, struct sl_fail *fail) SL_MUST_CHECK;
/* From `path`, or where that is "" from the seed. strict: conf's `partial` does not count. */
enum sl_err sl_setup_weights(struct sl_setup *s, const char *path, bool strict, struct sl_fail *fail) SL_MUST_CHECK;
/* Longest row, and most tokens of a chunk; 0: the network takes none. sl_setup_plan calls it. */
enum sl_err sl_setup_tokens(struct sl_setup *s, int64_t *row, int64_t *chunk, struct sl_fail *fail) SL_MUST_CHECK;
/* Steps of a round of its group; 0: it has no rounds. */
static inline uint64_t sl_setup_round(const struct sl_setup *s)
{
	const struct sl_agreed *a = &s->agreement.agreed;

	return s->epoch_steps && a->share.mode == SL_SHARE_ROUNDS ? (uint64_t)a->share.round : 0;
}
/* In a group, before the plan: the member's training data, and epoch_steps unless it is alone. */
enum sl_err sl_setup_share(struct sl_setup *s, struct sl_fail *fail) SL_MUST_CHECK;
/* Its data, where they are not open yet. */
enum sl_err sl_setup_split(struct sl_setup *s, enum sl_split split, struct sl_fail *fail) SL_MUST_CHECK;
/* class_weights.c, of training's data, which balanced ones open; sl_setup_data calls it for training. */
enum sl_err sl_setup_class_weights(struct sl_setup *s, struct sl_fail *fail) SL_MUST_CHECK;
/* setup_kept.c: makes room for what head and server keep of training's samples; sl_setup_data calls it. */
enum sl_err sl_setup_keep(struct sl_setup *s, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_setup_data(struct sl_setup *s, bool train, struct sl_fail *fail) SL_MUST_CHECK;
/* What sl_setup_weights and sl_setup_data would say of the files, without reading them: whether they are there, and of
 * the right form and size, and their labels in range. *samples: [SL_SPLIT_COUNT], those of `train` are 0 where it is
 * false. */
enum sl_err sl_setup_check_weights(const struct sl_setup *s, const char *path, bool strict,
				   struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_setup_check_data(struct sl_setup *s, bool train, int64_t *samples, struct sl_fail *fail) SL_MUST_CHECK;
/* The lists of steps from pictures to inputs, without any data. */
enum sl_err sl_setup_check_transforms(const struct sl_setup *s, struct sl_fail *fail) SL_MUST_CHECK;
/* Of a side's part of setup's plan; nothing is taken. */
enum sl_err sl_setup_memory(const struct sl_setup *setup, enum sl_session_role role, struct sl_backend *be,
			    struct sl_session_memory *out, struct sl_fail *fail) SL_MUST_CHECK;
/* Whether the client computes activations again, by its key `recompute`. */
bool sl_setup_recomputes(const struct sl_setup *setup, struct sl_backend *be);
enum sl_err sl_setup_backend(struct sl_setup *s, struct sl_fail *fail) SL_MUST_CHECK;
/* A loader over one split; `wake` as in loader.h, may be NULL. */
enum sl_err sl_setup_loader(const struct sl_setup *s, enum sl_split split, void (*wake)(void *arg), void *arg,
			    struct sl_loader **out, struct sl_fail *fail) SL_MUST_CHECK;
/* How many threads prepare samples; 0: all CPUs. */
int sl_setup_loader_threads(const struct sl_conf_client *conf);
/* Tokens of a row at most. */
int sl_setup_row_most(const struct sl_conf_client *conf);
/* What every use of head and tail takes of the config; the rest is zero. */
struct sl_ends_use sl_setup_use(const struct sl_setup *s);
/* What a link takes of the config and of what is open here; all is borrowed, `auth` too. The rest is zero. */
struct sl_link_conf sl_setup_link(struct sl_setup *s, const struct sl_transport_auth *auth);
/* Where *fail, from here or from the server, names a key of the config (train.precision, train.batch): puts the key's
 * place in the file in front of it. */
void sl_setup_blame(const struct sl_setup *s, struct sl_fail *fail);
void sl_setup_close(struct sl_setup *s); /* idempotent; a zeroed one is fine */

#endif
