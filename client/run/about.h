/* What whoever uses a trained network has to know of its data, as JSON: the names of classes, how pictures become
 * inputs, what a table's columns become. It travels as "data" in the metadata of model files, and lies as about.json in
 * log.dir while a run has nothing but checkpoints. docs/howto-predict.md describes it. */
#ifndef SL_CLIENT_RUN_ABOUT_H
#define SL_CLIENT_RUN_ABOUT_H

#include <jansson.h>

#include "client/run/setup.h"

#define SL_ABOUT_FILE "about.json"

/* Fills setup->about from the training data, which are open. */
enum sl_err sl_about_make(struct sl_setup *setup, struct sl_fail *fail) SL_MUST_CHECK;
/* From a model file's metadata, or where `path` is NULL from log.dir; nothing where there is none. */
void sl_about_read(struct sl_setup *setup, const char *path);
/* What a model's file says: setup->about, and of several labels setup->threshold. Malloc'ed; NULL: nothing is known, or
 * there is no memory. */
char *sl_about_text(const struct sl_setup *setup);
/* MISMATCH where the data are not those that the run in log.dir began with; fine where nothing is known of them.
 * Takes over the run's thresholds. */
enum sl_err sl_about_compare(const struct sl_setup *setup, struct sl_fail *fail) SL_MUST_CHECK;
/* For an evaluation, whose data are open: MISMATCH where its classes or task are not those of the model's file. Other
 * ways to make inputs of pictures are warned of. */
enum sl_err sl_about_check(const struct sl_setup *setup, struct sl_fail *fail) SL_MUST_CHECK;
/* For trained weights, behind sl_setup_plan: warns where the plan's network is not the one that setup->about names. */
void sl_about_check_network(const struct sl_setup *setup);
/* Likewise, where texts come from elsewhere than a data set: warns of another tokenizer, by its hash. */
void sl_about_check_tokenizer(const struct sl_setup *setup, uint64_t tokenizer);
/* For a training from model.weights, behind sl_about_make: warns where that file's table has other columns, or other
 * texts in them, which become other features. */
void sl_about_check_columns(const struct sl_setup *setup);
/* Writes it to log.dir. */
enum sl_err sl_about_keep(const struct sl_setup *setup, struct sl_fail *fail) SL_MUST_CHECK;

/* Fills setup->recalled for a data set that opens: a table's columns are those of the model that is evaluated, or of
 * data.like. */
enum sl_err sl_about_recall(struct sl_setup *setup, struct sl_fail *fail) SL_MUST_CHECK;
void sl_about_forget(struct sl_setup *setup); /* drops that; idempotent */
/* Of the names of classes, and of a table's columns and their texts, in their order: 16 bits, so that nobody reads a
 * name from it. Never 0. */
int64_t sl_about_labels(const struct sl_setup *setup);
/* The Normalize that the list of transforms ends with. */
void sl_about_norm(char out[SL_CONF_TEXT], const float mean[3], const float std[3], bool grey);
/* An object, which the caller drops; NULL: there is none. */
json_t *sl_about_parse(const struct sl_setup *setup);

#endif
