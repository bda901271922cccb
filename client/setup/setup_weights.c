/* The weights that a run begins with: of a seed, of a folder, of files. */
#include <stdlib.h>

#include "client/model/adapter_file.h"
#include "client/model/held.h"
#include "client/model/weights_file.h"
#include "client/setup/setup.h"
#include "common/base/log.h"

/* How much of the model *path must have. Without a file, *path becomes a Hugging Face folder that has weights; these
 * may lack the head. */
static unsigned first_weights(const struct sl_setup *s, const char **path, bool strict)
{
	const char *folder = s->conf->model.huggingface;

	if (!strict && !(*path)[0] && folder[0] && sl_st_in_folder(folder))
		*path = folder;
	return strict ? SL_WEIGHTS_STRICT
		      : SL_WEIGHTS_NEW_INSERTS | (s->conf->model.partial ? SL_WEIGHTS_PARTIAL : 0) |
				(folder[0] ? SL_WEIGHTS_NEW_HEAD : 0);
}

void sl_setup_choose_held(const struct sl_setup *s, struct sl_parts *parts)
{
	const char *path = s->weights_from ? s->weights_from : s->conf->model.weights;

	(void)first_weights(s, &path, s->weights_from != NULL);
	if (path[0] && !s->conf->model.network[0])
		sl_held_choose(parts, path);
}

static bool middle_untouched(const struct sl_plan *plan, const bool *loaded)
{
	const struct sl_plan_segment *m = &plan->segment[SL_MIDDLE];

	for (int i = 0; i < m->n_param; i++)
		if (loaded[m->param[i].model_param])
			return false;
	return true;
}

/* Adds the config's key to an error, unless the file is one that a run has left (strict). */
static enum sl_err blame_weights(const struct sl_setup *s, bool strict, enum sl_err err, struct sl_fail *fail)
{
	const struct sl_fail why = *fail;

	if (strict)
		return err;
	if (err == SL_ERR_NOINPUT)
		sl_fail_set(fail, err, "%s (a safetensors file with PyTorch's names of %s, as `splitc export` writes)",
			    why.text, s->plan->model->name);
	return sl_conf_client_blame(s->conf, s->conf->model.weights[0] ? "model.weights" : "model.huggingface", err,
				    fail);
}

/* Reads adapters and head of PEFT's files over the weights in `param`; NULL: the files are only checked. */
static enum sl_err read_adapter(const struct sl_setup *s, float *const *param, struct sl_fail *fail)
{
	const char *dir = s->conf->lora.adapter;
	bool head;
	enum sl_err err;

	if (!s->conf->lora.rank || !dir[0])
		return SL_OK;
	err = sl_adapter_read(s->plan->model, &s->lora, dir, param, &head, fail);
	if (!err && !head && param)
		sl_log(SL_LOG_INFO, "adapter-head", "%s has no classifier: it stays as it is", dir);
	return sl_conf_client_blame(s->conf, "lora.adapter", err, fail);
}

/* Inserts from files of their own, over the weights that are there; `param` NULL: the files are only checked. */
static enum sl_err load_inserts(const struct sl_setup *s, float *const *param, struct sl_fail *fail)
{
	const struct sl_conf_list *files = &s->conf->model.insert_weights;
	const struct sl_model *model = s->plan->model;
	bool *loaded = calloc((size_t)model->graph.n_param, sizeof *loaded);
	enum sl_err err = loaded ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the weights");

	for (int i = 0; i < files->n && !err; i++)
		err = sl_weights_load_part(model, files->item[i], "insert.", param, loaded, fail);
	for (int i = model->n_plain; i < model->graph.n_param && !err && files->n; i++)
		if (!loaded[i])
			err = sl_fail_set(fail, SL_ERR_DATA, "none of the files has the tensor \"%s\"",
					  model->graph.param[i].name);
	free(loaded);
	return err ? sl_conf_client_blame(s->conf, "model.insert_weights", err, fail) : SL_OK;
}

/* Reads the weights of the network's file; model.weights is read over them. `param` NULL: the file is only checked. */
static enum sl_err read_network(const struct sl_setup *s, float *const *param, struct sl_fail *fail)
{
	const struct sl_model *model = s->plan->model;
	enum sl_err err = sl_weights_load(model, s->conf->model.network, SL_WEIGHTS_NEW_INSERTS, param, NULL, fail);

	return sl_conf_client_blame(s->conf, "model.network", err, fail);
}

/* NOINPUT: adapters would train beside random weights. `path`: as first_weights left it. */
static enum sl_err check_base(const struct sl_setup *s, const char *path, bool strict, struct sl_fail *fail)
{
	if (strict || path[0] || !s->conf->model.huggingface[0] || !s->conf->lora.rank)
		return SL_OK;
	sl_fail_set(fail, SL_ERR_NOINPUT,
		    "%.200s has no weights, and adapters (lora.rank) would train beside random ones: put "
		    "model.safetensors there, or give a file in model.weights",
		    s->conf->model.huggingface);
	return sl_conf_client_blame(s->conf, "model.huggingface", SL_ERR_NOINPUT, fail);
}

/* Says that all weights are random where a user may expect others: in a folder of Hugging Face, or what is frozen. */
static void warn_of_random(const struct sl_setup *s)
{
	const struct sl_conf_client *c = s->conf;

	if (c->model.huggingface[0])
		sl_log(SL_LOG_WARN, "weights-none",
		       "%s has no weights: all start from seed %lld, as random numbers; for trained ones put "
		       "model.safetensors there, or give a file in model.weights",
		       c->model.huggingface, (long long)c->agreed.seed);
	else if (c->train.freeze.n)
		sl_log(SL_LOG_WARN, "weights-none",
		       "train.freeze keeps weights that start from seed %lld, as random numbers: give trained ones in "
		       "model.weights",
		       (long long)c->agreed.seed);
}

enum sl_err sl_setup_check_weights(const struct sl_setup *s, const char *path, bool strict, struct sl_fail *fail)
{
	const unsigned how = first_weights(s, &path, strict);
	enum sl_err err = check_base(s, path, strict, fail);

	if (!err && s->conf->model.network[0] && !strict)
		err = read_network(s, NULL, fail);
	if (!err && path[0])
		err = blame_weights(s, strict, sl_weights_load(s->plan->model, path, how, NULL, NULL, fail), fail);
	if (!err && !strict)
		err = load_inserts(s, NULL, fail);
	return err || strict ? err : read_adapter(s, NULL, fail);
}

/* Loads the weights of a file or folder. Those that it lacks keep their values from the seed. */
static enum sl_err load_weights(struct sl_setup *s, const char *path, bool strict, unsigned how, struct sl_fail *fail)
{
	const struct sl_model *model = s->plan->model;
	bool *loaded = calloc((size_t)model->graph.n_param, sizeof *loaded);
	const char *first = NULL;
	int missing = 0;
	enum sl_err err;

	if (!loaded)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the weights");
	err = sl_weights_load(model, path, how, s->weights.value, loaded, fail);
	if (!err)
		err = sl_held_map(&s->weights, model, path, fail);
	err = blame_weights(s, strict, err, fail);
	for (int i = model->graph.n_param - 1; i >= 0 && !err; i--) {
		missing += !loaded[i];
		s->inserts_given = s->inserts_given || (loaded[i] && i >= model->n_plain);
		first = loaded[i] ? first : model->graph.param[i].name;
	}
	if (!err && missing)
		sl_log(SL_LOG_INFO, "weights-partial",
		       "%s gives %d of %d tensors; the others, %s first, start from seed %lld", path,
		       model->graph.n_param - missing, model->graph.n_param, first, (long long)s->conf->agreed.seed);
	if (!err)
		s->weights_from_seed = s->weights_from_seed && middle_untouched(s->plan, loaded);
	free(loaded);
	return err;
}

/* Warns of a decaying insert that begins anew with weights of a run that had narrowed it. */
static void note_width(const struct sl_setup *s, const char *path)
{
	const int64_t steps = sl_weights_steps(path);

	for (int i = 0; i < 2 && s->inserts_given && steps < INT64_MAX; i++)
		if (!sl_decay_same(&s->plan->decay[i], 0, (uint64_t)steps))
			sl_log(SL_LOG_WARN, "insert-anew",
			       "insert.%s begins anew: %s had made it narrower in %lld steps. from=%lld in the insert "
			       "goes on from there",
			       i ? "tail" : "head", path, (long long)steps, (long long)steps);
}

enum sl_err sl_setup_weights(struct sl_setup *s, const char *path, bool strict, struct sl_fail *fail)
{
	const char *folder = s->conf->model.huggingface;
	const bool file = s->conf->model.network[0];
	const unsigned how = first_weights(s, &path, strict);
	enum sl_err err = check_base(s, path, strict, fail);

	if (!err)
		err = sl_weights_open(&s->weights, s->plan->model, fail);
	if (err)
		return err;
	sl_weights_init(&s->weights, s->plan->model, s->plan->spec.seed);
	s->weights_from_seed = !file;
	if (file && !strict)
		err = read_network(s, s->weights.value, fail);
	if (err)
		return err;
	if (path[0])
		err = load_weights(s, path, strict, how, fail);
	else if (!file && !strict)
		warn_of_random(s);
	if (path[0] && !err && !strict)
		note_width(s, path);
	if (folder[0] && !strict && !s->conf->lora.adapter[0])
		sl_adapter_note_unread(folder);
	if (!err && !strict && s->conf->model.insert_weights.n) {
		s->weights_from_seed = false;
		s->inserts_given = true;
		err = load_inserts(s, s->weights.value, fail);
	}
	if (err || strict || !s->conf->lora.adapter[0])
		return err;
	s->weights_from_seed = false;
	return read_adapter(s, s->weights.value, fail);
}
