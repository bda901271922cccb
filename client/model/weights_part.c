#include "client/model/weights_part.h"

#include <stdlib.h>
#include <string.h>

/* Finds the model's parameter for a tensor, which must not be loaded yet. */
static enum sl_err find_fresh(const struct sl_model *m, const char *name, const bool *loaded, int *at,
			      struct sl_fail *fail)
{
	for (*at = 0; *at < m->graph.n_param; ++*at)
		if (!strcmp(m->graph.param[*at].name, name))
			break;
	if (*at == m->graph.n_param)
		return sl_fail_set(fail, SL_ERR_DATA, "tensor \"%.96s\" is of no layer that the config has", name);
	if (loaded[*at])
		return sl_fail_set(fail, SL_ERR_DATA, "tensor \"%.96s\" is in another of the files, too", name);
	return SL_OK;
}

static enum sl_err read_one(const struct sl_model *m, const struct sl_st_file *file, const char *name, int at,
			    float *const *param, struct sl_fail *fail)
{
	float *made = param ? NULL : malloc((size_t)sl_shape_count(&m->file[at].shape) * sizeof *made);
	enum sl_err err = param || made ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory to check \"%s\"", name);

	if (!err)
		err = sl_weights_read_param(file, name, &m->file[at], param ? param[at] : made, fail);
	free(made);
	return err;
}

static enum sl_err load(const struct sl_model *m, const struct sl_st_file *file, const char *prefix,
			float *const *param, bool *loaded, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;
	int n = 0, at;

	for (int i = 0; i < sl_st_count(file) && !err; i++) {
		const char *name = sl_st_at(file, i)->name;

		if (strncmp(name, prefix, strlen(prefix)) != 0)
			continue;
		n++;
		err = find_fresh(m, name, loaded, &at, fail);
		if (!err)
			err = read_one(m, file, name, at, param, fail);
		if (!err)
			loaded[at] = true;
	}
	return err || n ? err : sl_fail_set(fail, SL_ERR_DATA, "no tensor is called %s*", prefix);
}

enum sl_err sl_weights_load_part(const struct sl_model *model, const char *path, const char *prefix,
				 float *const *param, bool *loaded, struct sl_fail *fail)
{
	struct sl_st_file *file = NULL;
	struct sl_fail inner = {0};
	enum sl_err err = sl_st_open(&file, path, fail);

	if (err)
		return err;
	err = load(model, file, prefix, param, loaded, &inner);
	sl_st_close(file);
	return err ? sl_fail_set(fail, err, "%s: %s", path, inner.text) : SL_OK;
}
