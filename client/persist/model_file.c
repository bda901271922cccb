#include "client/persist/model_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/model/weights_file.h"
#include "common/base/folder.h"
#include "common/base/version.h"

enum sl_err sl_log_dir_path(char path[PATH_MAX], const struct sl_conf_client *conf, const char *name,
			    struct sl_fail *fail)
{
	if (snprintf(path, PATH_MAX, "%s/%s", conf->log.dir, name) >= PATH_MAX)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "log.dir: the path is too long");
	return SL_OK;
}

bool sl_model_file_is_of_run(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	char folder[PATH_MAX], log[PATH_MAX];

	return (strcmp(name, SL_MODEL_FILE) == 0 || strcmp(name, SL_MODEL_BEST) == 0) && access(path, F_OK) == 0 &&
	       sl_folder_of(path, folder) && snprintf(log, sizeof log, "%s/log.jsonl", folder) < PATH_MAX &&
	       access(log, F_OK) == 0;
}

/* Writes what a party of a vertical group has: its part, and the middle. */
static enum sl_err save_party(const struct sl_plan *plan, const struct sl_weights *weights, const char *path,
			      uint64_t steps, const struct sl_st_note *note, int notes, struct sl_fail *fail)
{
	const float **own = calloc((size_t)weights->n_param + 1, sizeof *own);
	enum sl_err err;

	if (!own)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the model's file");
	for (int i = 0; i < SL_SEGMENT_COUNT; i++)
		for (int k = 0; k < plan->segment[i].n_param; k++)
			own[plan->segment[i].param[k].model_param] =
				weights->value[plan->segment[i].param[k].model_param];
	err = sl_weights_save(plan->model, path, own, (int64_t)steps, note, notes, fail);
	free(own);
	return err;
}

enum sl_err sl_model_file_write(const struct sl_conf_client *conf, const struct sl_plan *plan,
				const struct sl_weights *weights, const char *about, const char *best, const char *name,
				uint64_t steps, struct sl_fail *fail)
{
	char path[PATH_MAX], count[24];
	/* transformers reads no safetensors file without a format */
	struct sl_st_note note[5] = {{"software", "splitc " SL_VERSION}, {SL_WEIGHTS_STEPS, count}, {"format", "pt"}};
	int notes = 3;
	enum sl_err err;

	if (!conf->log.dir[0])
		return SL_OK;
	err = sl_log_dir_path(path, conf, name, fail);
	if (err)
		return err;
	snprintf(count, sizeof count, "%" PRIu64, steps);
	if (about)
		note[notes++] = (struct sl_st_note){SL_MODEL_DATA, about};
	if (best)
		note[notes++] = (struct sl_st_note){SL_MODEL_SCORE, best};
	if (plan->spec.party)
		return save_party(plan, weights, path, steps, note, notes, fail);
	return sl_weights_save_all(plan->model, path, weights, (int64_t)steps, note, notes, fail);
}

char *sl_model_file_note(const struct sl_conf_client *conf, const char *name, const char *key)
{
	char path[PATH_MAX];
	struct sl_fail fail;

	return sl_log_dir_path(path, conf, name, &fail) ? NULL : sl_weights_note(path, key);
}

int64_t sl_model_file_steps(const struct sl_conf_client *conf, const char *name)
{
	char path[PATH_MAX];
	struct sl_fail fail;

	if (!conf->log.dir[0] || sl_log_dir_path(path, conf, name, &fail) != SL_OK)
		return INT64_MAX;
	return sl_weights_steps(path);
}

void sl_model_file_remove(const struct sl_conf_client *conf, const char *name)
{
	char path[PATH_MAX];
	struct sl_fail fail;

	if (conf->log.dir[0] && sl_log_dir_path(path, conf, name, &fail) == SL_OK &&
	    sl_folder_check(path, &fail) == SL_OK)
		unlink(path);
}
