/* What a user of a trained network must know of its data, as JSON: the names of classes, how pictures become inputs,
 * what becomes of a table's columns. Model files carry it as "data" in their metadata. While a run has only
 * checkpoints, it is in log.dir/about.json. docs/howto-predict.md describes it. */
#ifndef SL_CLIENT_SETUP_ABOUT_H
#define SL_CLIENT_SETUP_ABOUT_H

#include <jansson.h>

#include "client/setup/setup.h"

#define SL_ABOUT_ALSO   "also"   /* what is known of the sources of data.also: a list of such objects */
#define SL_ABOUT_INPUTS "inputs" /* of a network with several: those that this source gives */
#define SL_ABOUT_CODEC  "codec"  /* of head_act and of mid_act */
#define SL_ABOUT_ROWS   "rows"   /* a hash of the names of all rows of data.also that data.split divides */
#define SL_ABOUT_KEPT   "data"   /* a checkpoint's note: setup->kept */
#define SL_ABOUT_RUN    "run"    /* of a vertical group's member: a number that the group's members share */
/* of weights that a run wrote before its end: {"step", "of"}, and of a run with phases {"phase", "phases"} */
#define SL_ABOUT_UNFINISHED "unfinished"
#define SL_ABOUT_UNTRAINED  "untrained" /* true: the run that wrote the weights has trained no step of its own */

/* Fills setup->about from the training data, which are open. For several labels, allocates setup->threshold. */
enum sl_err sl_about_make(struct sl_setup *setup, struct sl_fail *fail) SL_MUST_CHECK;
/* Fills setup->about from the model file `path` or, if that is NULL, from log.dir. It is NULL if there is none. */
void sl_about_read(struct sl_setup *setup, const char *path);
/* Reads what a run's about.json or a model's file says of its data. *out, which the caller drops, is NULL if the file
 * says nothing. */
enum sl_err sl_about_file(json_t **out, const char *path, struct sl_fail *fail) SL_MUST_CHECK;
/* How far weights have come in their run. */
struct sl_about_reached {
	uint64_t step, of; /* steps done; in all, 0: not known */
	bool untrained;    /* the process has trained none of them: each was skipped, or others' */
	bool best;         /* an evaluation chose them, so they need not be those of the run's end */
	uint64_t made;     /* what made the weights, if it is not 0 */
};

/* The text for a model file: setup->about with, for several labels, the thresholds that an evaluation has found, and
 * with what `at` (NULL: nothing) says of the weights. Malloc'ed; NULL: nothing is known, or there is no memory. */
char *sl_about_text(const struct sl_setup *setup, const struct sl_about_reached *at);
/* MISMATCH if the data or data.split are not those that the run in log.dir began with; a warning if nothing says.
 * Copies that run's thresholds to setup->threshold. */
enum sl_err sl_about_compare(const struct sl_setup *setup, struct sl_fail *fail) SL_MUST_CHECK;
/* Writes sl_about_text to log.dir/about.json. */
enum sl_err sl_about_keep(const struct sl_setup *setup, struct sl_fail *fail) SL_MUST_CHECK;

/* Fills setup->recalled for a data set that is about to be opened: its table's columns are those of the model under
 * evaluation, or of the file data.like. */
enum sl_err sl_about_recall(struct sl_setup *setup, struct sl_fail *fail) SL_MUST_CHECK;
void sl_about_forget(struct sl_setup *setup); /* drops setup->recalled; idempotent */
/* about_agreed.c: a hash of what members of a group with one head and tail must have in common, of each source: the
 * names of classes; a table's columns, their texts, means and deviations; the tokenizer; the scale of pictures. It has
 * 16 bits, too few to recover a name or a mean from. Never 0. */
int64_t sl_about_agreed(const struct sl_setup *setup);
/* about_pictures.c: adds the preprocessing of an evaluation, step by step in torchvision's notation; the last step is
 * Normalize. */
void sl_about_pictures(json_t *about, const struct sl_setup *setup, const struct sl_set *set);
/* Adds the names of classes, labels or numbers. */
void sl_about_classes(json_t *about, const struct sl_set *set);
/* The text of the Normalize with which the list of transforms ends. */
void sl_about_norm(char out[SL_CONF_TEXT], const float mean[3], const float std[3], bool grey);

/* ---- about_model.c: the files of trained models ---- */

/* As sl_about_read. Where the file says nothing and data.scale_label is true, the training data say it. */
enum sl_err sl_about_of_model(struct sl_setup *setup, const char *path, struct sl_fail *fail) SL_MUST_CHECK;
/* As sl_about_read, from the model files of a vertical group's members: `labels` and the n `features`. The text is as
 * one process with the data of all writes it. */
enum sl_err sl_about_join(struct sl_setup *setup, const char *labels, const char *const *features, int n,
			  struct sl_fail *fail) SL_MUST_CHECK;
/* MISMATCH: the model files of two members are of several runs or steps. Warns if one does not say. */
enum sl_err sl_about_same_run(const char *a, const char *b, struct sl_fail *fail) SL_MUST_CHECK;

/* about_end.c: warns if the weights in the file `path` are not those of their run's end, or if it has trained no step
 * of its own. */
void sl_about_check_end(const char *path);
/* Adds that the weights are not those of the run's end. */
void sl_about_add_unfinished(json_t *about, const struct sl_setup *setup, const struct sl_about_reached *at);

/* ---- about_check.c: whatever reads trained weights compares here what their file says with what is now ---- */

/* For an evaluation, whose data are open. MISMATCH if its classes or task are not those of the model's file, or else of
 * the file that gave the weights. Warns of all else that makes other inputs, or counts outputs as others. */
enum sl_err sl_about_check(const struct sl_setup *setup, struct sl_fail *fail) SL_MUST_CHECK;
/* The same for a training, after sl_about_make, with the file that gives its first weights: model.weights,
 * model.network, lora.adapter or a folder of Hugging Face. It may be meant to learn others, so all are warnings. */
void sl_about_check_begun(const struct sl_setup *setup);
/* Warns if a table's columns become inputs, and only the training data say how: the weights file `path`, which exists,
 * says nothing. */
void sl_about_warn_of_columns(const struct sl_conf_client *conf, const char *path);
/* For trained weights, after sl_setup_plan: warns if the plan's network is not the one that setup->about names. */
void sl_about_check_network(const struct sl_setup *setup);
/* The same for texts that are not from a data set: warns if `tokenizer`, a hash, is not the model's. */
void sl_about_check_tokenizer(const struct sl_setup *setup, uint64_t tokenizer);

/* ---- what these compare ---- */

/* Warns of an evaluation on the samples that train. `then` tells of training, `now` of the evaluation; either may be
 * NULL. `files`: both know the names and sizes of files alone. Returns whether it warned. */
bool sl_about_warn_of_same(const json_t *then, const json_t *now, bool files);
/* All that is known of the training data except the fingerprints of their samples. */
json_t *sl_about_describe(const struct sl_setup *setup);
/* All that is known of a data set except the fingerprints of its samples. */
json_t *sl_about_set(const struct sl_setup *setup, const struct sl_set *set);
extern const char *const sl_about_split[SL_SPLIT_COUNT]; /* "train", "test" */
/* Adds what --resume compares: sizes and fingerprints of the open data, and data.split. */
void sl_about_fingerprints(json_t *about, const struct sl_setup *setup);
/* Adds what is known of the plan. */
void sl_about_network(json_t *about, const struct sl_setup *setup);
void sl_about_tokenizer(json_t *about, uint64_t tokenizer);
/* What the model file `path` says of its data; NULL: nothing. */
json_t *sl_about_note(const char *path);
/* What `all`, of a model's file, says of the source that `conf` reads: of the inputs that it names, or else in its
 * place. Borrowed; NULL: nothing. */
json_t *sl_about_source(json_t *all, const struct sl_conf_client *conf);
/* setup->about as a JSON object, which the caller drops; NULL: there is none. */
json_t *sl_about_parse(const struct sl_setup *setup);

#endif
