/* Files of whole models in log.dir: safetensors with torchvision's names. */
#ifndef SL_CLIENT_PERSIST_MODEL_FILE_H
#define SL_CLIENT_PERSIST_MODEL_FILE_H

#include <limits.h>
#include <stdbool.h>

#include "common/conf/conf.h"
#include "common/exec/plan.h"
#include "common/weights/weights.h"

#define SL_ABOUT_FILE  "about.json"
#define SL_MODEL_FILE  "model.safetensors" /* the model at the end of a run */
#define SL_MODEL_BEST  "best.safetensors"  /* the weights of the best evaluation so far: train.keep_best */
#define SL_MODEL_ASKED "asked.safetensors" /* written by a run under way for `splitc export` */

/* notes of these files */
#define SL_MODEL_DATA  "data" /* describes the data (run/about.h) */
#define SL_MODEL_SCORE "best" /* of SL_MODEL_BEST: its evaluation, as a checkpoint's note "best" */

/* The path of a file in log.dir. CANTCREATE: it is too long. */
enum sl_err sl_log_dir_path(char path[PATH_MAX], const struct sl_conf_client *conf, const char *name,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* Writes `weights` of the plan's model after `steps` steps, with the notes `about` its data and `best` of its
 * evaluation (NULL: none). The file appears whole or not at all (base/newfile.h). log.dir "": nothing is written. Any
 * thread. */
enum sl_err sl_model_file_write(const struct sl_conf_client *conf, const struct sl_plan *plan,
				const struct sl_weights *weights, const char *about, const char *best, const char *name,
				uint64_t steps, struct sl_fail *fail) SL_MUST_CHECK;
/* Whether `path` is the model or the best weights of a run, whose log lies beside it. */
bool sl_model_file_is_of_run(const char *path);
/* A note of the file; NULL: there is none. The caller frees it. */
char *sl_model_file_note(const struct sl_conf_client *conf, const char *name, const char *key);
/* The number of steps that the model was trained for; INT64_MAX: there is no model, or it does not say. */
int64_t sl_model_file_steps(const struct sl_conf_client *conf, const char *name);
void sl_model_file_remove(const struct sl_conf_client *conf, const char *name);

#endif
