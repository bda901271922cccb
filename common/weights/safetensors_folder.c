/* Weights of a folder: one safetensors file, or several with an index that says which tensor lies where. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/text.h"
#include "common/weights/safetensors_impl.h"

enum { SHARDS_MOST = 1024, INDEX_BYTES_MOST = 64 << 20 };

static const char whole_name[] = "model.safetensors", index_name[] = "model.safetensors.index.json";

/* A link whose file is gone counts, so that opening it says so. */
static bool in_folder(const char *dir, const char *name, char path[PATH_MAX])
{
	return snprintf(path, PATH_MAX, "%s/%s", dir, name) < PATH_MAX &&
	       faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static const char other_format[] = "write model.safetensors with transformers' save_pretrained";

/* Endings of weights that are not read, and what to do about them. */
static const struct {
	const char *end, *advice;
} unread[] = {
	{".incomplete", "the download did not end: repeat it"},
	{"adapter_model.safetensors", "it has adapters alone: give this folder in lora.adapter, and the folder of the "
				      "network that they adapt in model.huggingface"},
	{".safetensors", "the names that are read are model.safetensors, and those in model.safetensors.index.json: "
			 "get the index too, or rename a single file"},
	{".gguf", other_format},
	{".bin", "weights of torch.save, which may hold code, are not read: write model.safetensors with "
		 "transformers' save_pretrained"},
	{".pt", other_format},
	{".pth", other_format},
	{".ckpt", other_format},
	{".h5", other_format},
	{".msgpack", other_format},
	{".ot", other_format},
};

enum { OF_ANY_NAME = 4, UNREAD = sizeof unread / sizeof unread[0] };

/* The row of `unread` for a file; UNREAD: it is none of them. Endings as common as .bin need a name of a model's. */
static size_t kind_of(const char *name)
{
	size_t kind = 0;

	while (kind < UNREAD && !sl_ends_with(name, unread[kind].end))
		kind++;
	return kind < OF_ANY_NAME || strstr(name, "model") || strstr(name, "consolidated") ? kind : UNREAD;
}

/* Finds a file of weights that is not read: the first row of `unread` counts, then the first name. UNREAD: there is
 * none. */
static size_t find_unread(const char *dir, const char *below, char path[PATH_MAX])
{
	size_t best = UNREAD;
	char first[NAME_MAX + 1] = "", whole[PATH_MAX];
	DIR *d = snprintf(whole, sizeof whole, "%s%s", dir, below) < PATH_MAX ? opendir(whole) : NULL;

	for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
		const size_t kind = kind_of(e->d_name);

		if (kind > best || kind == UNREAD || (kind == best && strcmp(e->d_name, first) > 0))
			continue;
		best = kind;
		snprintf(first, sizeof first, "%s", e->d_name);
	}
	if (d)
		closedir(d);
	return best < UNREAD && snprintf(path, PATH_MAX, "%s/%s", whole, first) < PATH_MAX ? best : UNREAD;
}

/* huggingface_hub leaves what it has not ended in a folder below. */
static size_t look_for_unread(const char *dir, char path[PATH_MAX])
{
	const size_t kind = find_unread(dir, "", path);

	return kind < UNREAD ? kind : find_unread(dir, "/.cache/huggingface/download", path);
}

bool sl_st_in_folder(const char *dir)
{
	char path[PATH_MAX];

	return in_folder(dir, whole_name, path) || in_folder(dir, index_name, path) ||
	       look_for_unread(dir, path) < UNREAD;
}

/* Whether the name stays within the folder and is safe to print. */
static bool is_plain(const char *name)
{
	if (!name || !name[0] || name[0] == '.' || strlen(name) > NAME_MAX)
		return false;
	return !strchr(name, '/') && sl_text_is_safe(name, strlen(name));
}

static enum sl_err read_index(json_t **map, json_t **root, const char *path, struct sl_fail *fail)
{
	json_error_t at;
	uint8_t *data;
	size_t len;
	enum sl_err err = sl_file_read(path, INDEX_BYTES_MOST, &data, &len, fail);

	if (err)
		return err;
	*root = json_loadb((const char *)data, len, JSON_REJECT_DUPLICATES, &at);
	free(data);
	if (!*root)
		return sl_fail_set(fail, SL_ERR_DATA, "%s:%d:%d: no JSON", path, at.line, at.column);
	*map = json_object_get(*root, "weight_map");
	if (!json_is_object(*map))
		return sl_fail_set(fail, SL_ERR_DATA, "%s: no map weight_map", path);
	return SL_OK;
}

/* Finds the number of the shard `name`, and opens it if it is new. names [n_shard] belong to the index. */
static enum sl_err shard_of(struct sl_st_file *f, const char **names, const char *dir, const char *name, int *shard,
			    struct sl_fail *fail)
{
	char path[PATH_MAX];
	enum sl_err err;

	for (*shard = 0; *shard < f->n_shard; ++*shard)
		if (strcmp(names[*shard], name) == 0)
			return SL_OK;
	if (f->n_shard == SHARDS_MOST)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: more than %d files", f->name, SHARDS_MOST);
	if (snprintf(path, sizeof path, "%s/%s", dir, name) >= PATH_MAX)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "the path of %s is too long", name);
	err = sl_st_open(&f->shard[f->n_shard], path, fail);
	if (!err)
		names[f->n_shard++] = name;
	return err;
}

static enum sl_err add_tensor(struct sl_st_file *f, const char **names, const char *dir, const char *tensor,
			      const json_t *file, struct sl_fail *fail)
{
	const struct sl_st_tensor *found;
	int shard;
	enum sl_err err;

	if (!is_plain(json_string_value(file)))
		return sl_fail_set(fail, SL_ERR_DATA, "%s: \"%.96s\" lies in no file of this folder", f->name, tensor);
	err = shard_of(f, names, dir, json_string_value(file), &shard, fail);
	if (err)
		return err;
	found = sl_st_find(f->shard[shard], tensor);
	if (!found)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: %s has no tensor \"%.96s\"", f->name,
				   json_string_value(file), tensor);
	f->tensor[f->n_tensor] = *found;
	f->tensor[f->n_tensor++].shard = shard;
	return SL_OK;
}

static enum sl_err open_shards(struct sl_st_file *f, const char *dir, const json_t *map, struct sl_fail *fail)
{
	const size_t n = json_object_size(map);
	const char **names = calloc(SHARDS_MOST, sizeof *names);
	const char *key;
	json_t *value;
	int held = 0;
	enum sl_err err = SL_OK;

	f->tensor = calloc(n + 1, sizeof *f->tensor);
	f->shard = calloc(SHARDS_MOST, sizeof *f->shard);
	if (!names || !f->tensor || !f->shard)
		err = sl_fail_set(fail, SL_ERR_NOMEM, "%s: no memory for its list of tensors", f->name);
	json_object_foreach((json_t *)map, key, value)
	{
		if (!err)
			err = add_tensor(f, names, dir, key, value, fail);
	}
	for (int i = 0; i < f->n_shard; i++)
		held += sl_st_count(f->shard[i]);
	if (!err && held != f->n_tensor)
		err = sl_fail_set(fail, SL_ERR_DATA, "%s: it lists %d tensors, and its files hold %d", f->name,
				  f->n_tensor, held);
	free(names);
	if (!err)
		qsort(f->tensor, (size_t)f->n_tensor, sizeof *f->tensor, sl_st_by_name);
	return err;
}

static enum sl_err open_index(struct sl_st_file **out, const char *dir, const char *path, struct sl_fail *fail)
{
	struct sl_st_file *f = sl_st_new(path);
	json_t *map = NULL, *root = NULL;
	enum sl_err err;

	if (!f)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to open %s", path);
	err = read_index(&map, &root, path, fail);
	if (!err)
		err = open_shards(f, dir, map, fail);
	json_decref(root);
	if (err)
		sl_st_close(f);
	else
		*out = f;
	return err;
}

enum sl_err sl_st_open_folder(struct sl_st_file **out, const char *dir, struct sl_fail *fail)
{
	char path[PATH_MAX];
	size_t kind;

	if (in_folder(dir, whole_name, path))
		return sl_st_open(out, path, fail);
	if (in_folder(dir, index_name, path))
		return open_index(out, dir, path, fail);
	kind = look_for_unread(dir, path);
	if (kind < UNREAD)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%.200s is there and not read: %s", path, unread[kind].advice);
	return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: no %s there", dir, whole_name);
}
