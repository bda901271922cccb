#include "common/session/checkpoint.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"

void sl_checkpoint_floats(struct sl_checkpoint *c, const char *name, float *data, int64_t count)
{
	c->part[c->n_part++] = (struct sl_checkpoint_part){name, true, data, count};
}

void sl_checkpoint_bytes(struct sl_checkpoint *c, const char *name, uint8_t *data, int64_t count)
{
	c->part[c->n_part++] = (struct sl_checkpoint_part){name, false, data, count};
}

void sl_checkpoint_note(struct sl_checkpoint *c, const char *key, const char *fmt, ...)
{
	struct sl_checkpoint_note *n = &c->note[c->n_note++];
	va_list ap;

	n->key = key;
	va_start(ap, fmt);
	vsnprintf(n->value, sizeof n->value, fmt, ap);
	va_end(ap);
}

const char *sl_checkpoint_noted(const struct sl_checkpoint *c, const char *key)
{
	for (int i = 0; i < c->n_note; i++)
		if (strcmp(c->note[i].key, key) == 0)
			return c->note[i].value;
	return NULL;
}

static bool path_of(char out[PATH_MAX], const char *dir, const char *prefix, uint64_t step)
{
	return snprintf(out, PATH_MAX, "%s/%s-%012" PRIu64 ".safetensors", dir, prefix, step) < PATH_MAX;
}

/* The step in a file's name, or false where it is not one of ours. */
static bool step_of(const char *name, const char *prefix, uint64_t *step)
{
	size_t n = strlen(prefix);
	int end = 0;

	if (strncmp(name, prefix, n) != 0 || name[n] != '-')
		return false;
	return sscanf(name + n + 1, "%12" SCNu64 ".safetensors%n", step, &end) == 1 && end == 12 + 12 &&
	       name[n + 1 + (size_t)end] == '\0';
}

/* Visits every file of the prefix. */
static void each_file(const char *dir, const char *prefix, void (*fn)(void *arg, uint64_t step), void *arg)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	uint64_t step;

	while (d && (entry = readdir(d)))
		if (step_of(entry->d_name, prefix, &step))
			fn(arg, step);
	if (d)
		closedir(d);
}

struct newest {
	uint64_t step[SL_CHECKPOINT_KEPT];
	int n;
};

static void keep_newest(void *arg, uint64_t step)
{
	struct newest *k = arg;
	int at = k->n;

	while (at > 0 && k->step[at - 1] < step)
		at--;
	if (at == SL_CHECKPOINT_KEPT)
		return;
	if (k->n < SL_CHECKPOINT_KEPT)
		k->n++;
	for (int i = k->n - 1; i > at; i--)
		k->step[i] = k->step[i - 1];
	k->step[at] = step;
}

int sl_checkpoint_list(const char *dir, const char *prefix, uint64_t step[SL_CHECKPOINT_KEPT])
{
	struct newest k = {.n = 0};

	each_file(dir, prefix, keep_newest, &k);
	memcpy(step, k.step, sizeof k.step);
	return k.n;
}

struct removal {
	const char *dir, *prefix;
	uint64_t below; /* remove files of smaller steps */
};

static void remove_old(void *arg, uint64_t step)
{
	const struct removal *r = arg;
	char path[PATH_MAX];

	if (step < r->below && path_of(path, r->dir, r->prefix, step))
		unlink(path);
}

void sl_checkpoint_clear(const char *dir, const char *prefix)
{
	struct removal r = {dir, prefix, UINT64_MAX};

	each_file(dir, prefix, remove_old, &r);
}

enum sl_err sl_checkpoint_write(const struct sl_checkpoint *c, uint64_t step, struct sl_fail *fail)
{
	struct sl_st_item item[SL_CHECKPOINT_MAX_PARTS];
	struct sl_st_note note[SL_CHECKPOINT_MAX_NOTES];
	uint64_t kept[SL_CHECKPOINT_KEPT];
	char path[PATH_MAX];
	enum sl_err err;

	if (!path_of(path, c->dir, c->prefix, step))
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "checkpoint: the path is too long");
	for (int i = 0; i < c->n_part; i++)
		item[i] = (struct sl_st_item){.name = c->part[i].name,
					      .dtype = c->part[i].floats ? "F32" : "U8",
					      .ndim = 1,
					      .dim = {c->part[i].count},
					      .data = c->part[i].data};
	for (int i = 0; i < c->n_note; i++)
		note[i] = (struct sl_st_note){c->note[i].key, c->note[i].value};
	err = sl_st_write(path, item, c->n_part, note, c->n_note, fail);
	if (err)
		return err;
	if (sl_checkpoint_list(c->dir, c->prefix, kept) == SL_CHECKPOINT_KEPT) {
		struct removal r = {c->dir, c->prefix, kept[SL_CHECKPOINT_KEPT - 1]};

		each_file(c->dir, c->prefix, remove_old, &r);
	}
	return SL_OK;
}

static enum sl_err check_note(const struct sl_st_file *file, const char *path, struct sl_checkpoint_note *n,
			      struct sl_fail *fail)
{
	const char *found = sl_st_metadata(file, n->key);

	if (!found || strlen(found) >= sizeof n->value)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: no note '%s'", path, n->key);
	if (n->value[0] && strcmp(n->value, found) != 0)
		return sl_fail_set(fail, SL_ERR_MISMATCH, "%s: its %s is %s, this run's is %s", path, n->key, found,
				   n->value);
	snprintf(n->value, sizeof n->value, "%s", found);
	return SL_OK;
}

static const struct sl_st_tensor *find_part(const struct sl_st_file *file, const struct sl_checkpoint_part *p)
{
	const struct sl_st_tensor *t = sl_st_find(file, p->name);
	bool fits = t && t->ndim == 1 && (p->floats ? t->count == p->count : t->count <= p->count);

	return fits && strcmp(t->dtype, p->floats ? "F32" : "U8") == 0 ? t : NULL;
}

static enum sl_err read_bytes(const struct sl_st_file *file, const struct sl_st_tensor *t, struct sl_checkpoint_part *p,
			      struct sl_fail *fail)
{
	int64_t *wide = malloc((size_t)t->count * sizeof *wide + 1);
	uint8_t *to = p->data;
	enum sl_err err;

	if (!wide)
		return sl_fail_set(fail, SL_ERR_NOMEM, "checkpoint: no memory");
	err = sl_st_read_i64(file, t, wide, fail);
	for (int64_t i = 0; i < t->count && !err; i++)
		to[i] = (uint8_t)wide[i];
	p->count = t->count;
	free(wide);
	return err;
}

enum sl_err sl_checkpoint_read(struct sl_checkpoint *c, uint64_t step, struct sl_fail *fail)
{
	struct sl_st_file *file;
	char path[PATH_MAX];
	enum sl_err err;

	if (!path_of(path, c->dir, c->prefix, step))
		return sl_fail_set(fail, SL_ERR_NOINPUT, "checkpoint: the path is too long");
	err = sl_st_open(&file, path, fail);
	if (err)
		return err;
	for (int i = 0; i < c->n_note && !err; i++)
		err = check_note(file, path, &c->note[i], fail);
	for (int i = 0; i < c->n_part && !err; i++)
		if (!find_part(file, &c->part[i]))
			err = sl_fail_set(fail, SL_ERR_DATA, "%s: no '%s' of the length that this plan has", path,
					  c->part[i].name);
	for (int i = 0; i < c->n_part && !err; i++) {
		const struct sl_st_tensor *t = find_part(file, &c->part[i]);

		err = c->part[i].floats ? sl_st_read_f32(file, t, c->part[i].data, fail)
					: read_bytes(file, t, &c->part[i], fail);
	}
	sl_st_close(file);
	return err;
}
