#include "client/model/adapter_file.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/model/weights_file.h"
#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/newfile.h"
#include "common/conf/conf.h"

enum { CONFIG_MOST = 1 << 20, NAME_BYTES = SL_NAME_MAX + 64 };

static const char config_name[] = "adapter_config.json", weights_name[] = "adapter_model.safetensors";
static const char prefix[] = "base_model.model.";

static enum sl_err path_of(char path[PATH_MAX], const char *dir, const char *name, struct sl_fail *fail)
{
	return snprintf(path, PATH_MAX, "%s/%s", dir, name) < PATH_MAX
		       ? SL_OK
		       : sl_fail_set(fail, SL_ERR_NOINPUT, "the path of %s is too long", name);
}

static bool is_number(const json_t *root, const char *key, double value)
{
	const json_t *member = json_object_get(root, key);

	return json_is_number(member) && json_number_value(member) == value;
}

/* Whether the adapted weights are [in, out], which PEFT calls fan_in_fan_out. */
static bool has_fan_in(const struct sl_model *m)
{
	return m->n_adapter > 0 && m->adapter[0].transposed;
}

/* Whether PEFT makes initial adapters of this kind from the network's weights, and subtracts them from these, also when
 * it loads the adapters. Beside the unchanged weights such adapters would make another network. */
static bool begins_elsewhere(const json_t *init)
{
	static const char *const plain[] = {"gaussian", "eva", "orthogonal"};
	const char *kind = json_string_value(init);

	for (size_t i = 0; kind && i < sizeof plain / sizeof plain[0]; i++)
		if (strcmp(kind, plain[i]) == 0)
			return false;
	return kind;
}

/* Refuses settings by which PEFT would make other adapters of the same tensors. */
static enum sl_err check_config(const json_t *root, const char *path, const struct sl_lora *lora, bool fan_in,
				struct sl_fail *fail)
{
	static const char *const off[] = {
		"use_dora",         "use_rslora", "rank_pattern", "alpha_pattern", "alora_invocation_tokens",
		"layer_replication"};
	const char *type = json_string_value(json_object_get(root, "peft_type"));
	const json_t *bias = json_object_get(root, "bias");

	if (!json_is_object(root) || !type || strcmp(type, "LORA") != 0)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s: peft_type is not LORA", path);
	if (!is_number(root, "r", lora->rank))
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s: r is not %d, which lora.rank is", path, lora->rank);
	if (!is_number(root, "lora_alpha", lora->alpha))
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s: lora_alpha is not %g, which lora.alpha is", path,
				   lora->alpha);
	for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
		const json_t *value = json_object_get(root, off[i]);

		if (json_is_true(value) || json_object_size(value) > 0 || json_array_size(value) > 0)
			return sl_fail_set(fail, SL_ERR_CONFIG, "%s: %s is set, which is not known here", path, off[i]);
	}
	if (begins_elsewhere(json_object_get(root, "init_lora_weights")))
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "%s: init_lora_weights is a kind for which PEFT changes the network's weights: let "
				   "its save_pretrained convert the adapter (path_initial_model_for_weight_conversion)",
				   path);
	if (json_is_true(json_object_get(root, "fan_in_fan_out")) && !fan_in)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s: fan_in_fan_out is set, but these weights are [out, in]",
				   path);
	if (json_is_string(bias) && strcmp(json_string_value(bias), "none") != 0)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%s: bias is not none", path);
	return SL_OK;
}

static enum sl_err read_config(const char *dir, const struct sl_lora *lora, bool fan_in, struct sl_fail *fail)
{
	char path[PATH_MAX];
	json_error_t at;
	json_t *root;
	uint8_t *data;
	size_t len;
	enum sl_err err = path_of(path, dir, config_name, fail);

	if (!err)
		err = sl_file_read(path, CONFIG_MOST, &data, &len, fail);
	if (err)
		return err;
	root = json_loadb((const char *)data, len, JSON_REJECT_DUPLICATES, &at);
	free(data);
	if (root)
		err = check_config(root, path, lora, fan_in, fail);
	else
		err = sl_fail_set(fail, SL_ERR_DATA, "%s:%d:%d: no JSON", path, at.line, at.column);
	json_decref(root);
	return err;
}

static bool is_ours(const struct sl_model *m, int i)
{
	return m->file[i].head || sl_lora_has(m, i);
}

/* Finds a tensor under PEFT's name. A head's name may contain modules_to_save, as in
 * classifier.modules_to_save.dense.weight. */
static const struct sl_st_tensor *find(const struct sl_st_file *file, const char *name)
{
	const char *dot = strchr(name, '.');
	char theirs[NAME_BYTES];
	const struct sl_st_tensor *t;

	snprintf(theirs, sizeof theirs, "%s%s", prefix, name);
	t = sl_st_find(file, theirs);
	if (t || !dot)
		return t;
	snprintf(theirs, sizeof theirs, "%s%.*s.modules_to_save%s", prefix, (int)(dot - name), name, dot);
	return sl_st_find(file, theirs);
}

static enum sl_err read_weights(const struct sl_model *m, const struct sl_st_file *file, float *const *param,
				bool *head, struct sl_fail *fail)
{
	int used = 0;
	enum sl_err err = SL_OK;

	*head = false;
	for (int i = 0; i < m->graph.n_param; i++)
		*head = *head || (m->file[i].head && find(file, m->graph.param[i].name));
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < m->graph.n_param && !err; i++) {
			const struct sl_st_tensor *t = is_ours(m, i) ? find(file, m->graph.param[i].name) : NULL;

			if (!is_ours(m, i) || (m->file[i].head && !*head))
				continue;
			if (pass == 0)
				err = sl_weights_check_tensor(t, m->graph.param[i].name, &m->file[i], fail);
			else if (param && param[i])
				err = sl_weights_read_tensor(file, t, &m->file[i], param[i], fail);
			used += pass == 0;
		}
		if (!err && used != sl_st_count(file))
			err = sl_fail_set(fail, SL_ERR_DATA,
					  "%d of its %d tensors belong to no layer that lora.target names",
					  sl_st_count(file) - used, sl_st_count(file));
	}
	return err;
}

enum sl_err sl_adapter_read(const struct sl_model *m, const struct sl_lora *lora, const char *dir, float *const *param,
			    bool *head, struct sl_fail *fail)
{
	struct sl_st_file *file = NULL;
	char path[PATH_MAX];
	struct sl_fail why;
	enum sl_err err = read_config(dir, lora, has_fan_in(m), fail);

	if (!err)
		err = path_of(path, dir, weights_name, fail);
	if (!err)
		err = sl_st_open(&file, path, fail);
	if (err)
		return err;
	err = read_weights(m, file, param, head, &why);
	sl_st_close(file);
	return err ? sl_fail_set(fail, err, "%s: %s", path, why.text) : SL_OK;
}

/* The first words of the names of the head's parameters, each once; JSON's null: there is no head. */
static json_t *heads_of(const struct sl_model *m)
{
	json_t *list = json_array();
	const char *last = "";
	size_t len = 0;

	for (int i = 0; i < m->graph.n_param; i++) {
		const char *name = m->graph.param[i].name;

		if (!m->file[i].head || (len && strncmp(name, last, len) == 0 && name[len] == '.'))
			continue;
		last = name;
		len = strcspn(name, ".");
		json_array_append_new(list, json_stringn(name, len));
	}
	if (json_array_size(list))
		return list;
	json_decref(list);
	return json_null();
}

static enum sl_err write_config(const struct sl_model *m, const struct sl_lora *lora, const char *dir, const char *base,
				struct sl_fail *fail)
{
	char path[PATH_MAX], *text;
	json_t *targets = json_array(), *saved = heads_of(m), *alpha, *root;
	enum sl_err err = path_of(path, dir, config_name, fail);

	for (int i = 0; i < lora->target->n; i++)
		json_array_append_new(targets, json_string(lora->target->item[i]));
	/* a whole number, as PEFT writes it */
	alpha = lora->alpha == floor(lora->alpha) ? json_integer((json_int_t)lora->alpha) : json_real(lora->alpha);
	root = json_pack("{s:s, s:s?, s:i, s:o, s:f, s:o, s:o, s:s, s:b, s:b, s:s}", "peft_type", "LORA", "task_type",
			 m->task->kind == SL_LEARN_NEXT     ? "CAUSAL_LM"
			 : m->task->kind == SL_LEARN_MASKED ? NULL /* PEFT has no word for it */
							    : "SEQ_CLS",
			 "r", lora->rank, "lora_alpha", alpha, "lora_dropout", lora->dropout, "target_modules", targets,
			 "modules_to_save", saved, "bias", "none", "fan_in_fan_out", has_fan_in(m), "inference_mode", 1,
			 "base_model_name_or_path", base);
	text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
	json_decref(root);
	if (!err && !text)
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory to write %s", path);
	if (!err)
		err = sl_newfile_put(path, 0600, SL_FP_NONE, text, strlen(text), fail);
	free(text);
	return err;
}

void sl_adapter_note_unread(const char *dir)
{
	char path[PATH_MAX];
	struct sl_fail fail;

	if (path_of(path, dir, config_name, &fail) == SL_OK && access(path, F_OK) == 0)
		sl_log(SL_LOG_WARN, "adapter-unread", "%s is not read; lora.adapter=%s starts from its adapters", path,
		       dir);
}

enum sl_err sl_adapter_write(const struct sl_model *m, const struct sl_lora *lora, const char *dir, const char *base,
			     const float *const *param, const struct sl_st_note *about, struct sl_fail *fail)
{
	struct sl_st_item *item = calloc((size_t)m->graph.n_param + 1, sizeof *item);
	char(*name)[NAME_BYTES] = calloc((size_t)m->graph.n_param + 1, sizeof *name);
	const struct sl_st_note note[] = {{"format", "pt"}, about ? *about : (struct sl_st_note){NULL}};
	char path[PATH_MAX];
	int n = 0;
	enum sl_err err = path_of(path, dir, weights_name, fail);

	if (!item || !name)
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory to write %s", path);
	for (int i = 0; i < m->graph.n_param && !err; i++) {
		const struct sl_shape *s = &m->file[i].shape;

		if (!is_ours(m, i))
			continue;
		snprintf(name[n], sizeof name[n], "%s%s", prefix, m->graph.param[i].name);
		item[n] = (struct sl_st_item){.name = name[n], .dtype = "F32", .ndim = s->ndim, .data = param[i]};
		for (int k = 0; k < s->ndim; k++)
			item[n].dim[k] = s->dim[k];
		n++;
	}
	if (!err)
		err = sl_folder_make(dir, 0700, fail);
	if (!err)
		err = sl_st_write(path, item, n, note, about ? 2 : 1, SL_FP_MODEL_OPEN, fail);
	if (!err)
		err = write_config(m, lora, dir, base, fail);
	free(item);
	free(name);
	return err;
}

/* Whether the file has parameter i with these values. */
static bool has_same(const struct sl_model *m, const struct sl_st_file *file, int i, const float *value)
{
	const struct sl_st_tensor *t = sl_weights_find(m, file, m->graph.param[i].name);
	const size_t bytes = (size_t)sl_shape_count(&m->file[i].shape) * sizeof *value;
	float *theirs = malloc(bytes);
	struct sl_fail why;
	const bool same = theirs && !sl_weights_check_tensor(t, m->graph.param[i].name, &m->file[i], &why) &&
			  !sl_weights_read_tensor(file, t, &m->file[i], theirs, &why) &&
			  memcmp(theirs, value, bytes) == 0;

	free(theirs);
	return same;
}

int sl_adapter_lacks(const struct sl_model *m, const char *base, const float *const *param, const char **first)
{
	struct sl_st_file *file = NULL;
	struct sl_fail why;
	const bool open = sl_weights_open_file(&file, base, &why) == SL_OK;
	int n = 0;

	for (int i = m->graph.n_param - 1; i >= 0; i--) {
		if (is_ours(m, i) || (open && has_same(m, file, i, param[i])))
			continue;
		*first = m->graph.param[i].name;
		n++;
	}
	if (open)
		sl_st_close(file);
	return n;
}
