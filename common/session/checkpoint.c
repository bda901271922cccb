#include "common/session/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "common/base/assert.h"
#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/worker.h"
#include "common/conf/agreed.h"

/* Whether one more fits beside n; else notes that there are too many. */
static bool has_place(struct sl_checkpoint *c, int n, int most)
{
	if (n >= most)
		c->too_many = true;
	return n < most;
}

static void add_part(struct sl_checkpoint *c, struct sl_checkpoint_part part)
{
	sl_assert(part.count >= 0 && (part.data || !part.count));
	if (has_place(c, c->n_part, SL_CHECKPOINT_MAX_PARTS))
		c->part[c->n_part++] = part;
}

void sl_checkpoint_floats(struct sl_checkpoint *c, const char *name, float *data, int64_t count)
{
	add_part(c, (struct sl_checkpoint_part){name, true, data, count});
}

void sl_checkpoint_bytes(struct sl_checkpoint *c, const char *name, uint8_t *data, int64_t count)
{
	add_part(c, (struct sl_checkpoint_part){name, false, data, count});
}

void sl_checkpoint_note(struct sl_checkpoint *c, const char *key, const char *fmt, ...)
{
	struct sl_checkpoint_note *n = &c->note[c->n_note];
	va_list ap;

	if (!has_place(c, c->n_note, SL_CHECKPOINT_MAX_NOTES))
		return;
	c->n_note++;
	n->key = key;
	n->may_lack = false;
	va_start(ap, fmt);
	vsnprintf(n->value, sizeof n->value, fmt, ap);
	va_end(ap);
}

void sl_checkpoint_ask(struct sl_checkpoint *c, const char *key)
{
	sl_checkpoint_note(c, key, "%s", "");
	c->note[c->n_note - 1].may_lack = true;
}

/* The number of frozen parameters in all segments of the plan. */
static int frozen_of(const struct sl_plan *plan)
{
	int n = 0;

	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		for (int i = 0; i < plan->segment[which].graph.n_param; i++)
			n += plan->segment[which].graph.param[i].role == SL_FROZEN;
	return n;
}

static const char layout_key[] = "layout";

void sl_checkpoint_plan(struct sl_checkpoint *c, const struct sl_plan *plan)
{
	char hash[SL_HEX16_TEXT];

	if (plan->model) { /* on a client */
		sl_checkpoint_note(c, "model", "%s", plan->model->note);
		sl_checkpoint_note(c, "cut", "%s", plan->cut.text);
	}
	sl_checkpoint_note(c, "frozen", "%d parameters", frozen_of(plan));
	sl_checkpoint_note(c, "plan", "%s", sl_hex16(plan->hash, hash));
	sl_checkpoint_note(c, layout_key, "%s", sl_hex16(plan->layout_hash, hash));
	c->note[c->n_note - 1].may_lack = true; /* files of earlier versions lack it */
	c->border = plan->spec.phase_step;
	c->agreement = plan->spec.note[0] ? plan->spec.note : NULL;
}

const char *sl_checkpoint_noted(const struct sl_checkpoint *c, const char *key)
{
	for (int i = 0; i < c->n_note; i++)
		if (strcmp(c->note[i].key, key) == 0)
			return c->note[i].value;
	return NULL;
}

bool sl_checkpoint_link(const struct sl_checkpoint *c, uint64_t *epoch)
{
	const char *text = sl_checkpoint_noted(c, "link");
	char *end;

	if (!text || text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*epoch = strtoull(text, &end, 10);
	return !*end && !errno;
}

void sl_checkpoint_name(char *out, size_t size, const char *prefix, uint64_t step)
{
	snprintf(out, size, "%s-%012" PRIu64 ".safetensors", prefix, step);
}

static bool path_of(char out[PATH_MAX], const char *dir, const char *prefix, uint64_t step)
{
	return snprintf(out, PATH_MAX, "%s/%s-%012" PRIu64 ".safetensors", dir, prefix, step) < PATH_MAX;
}

static const char suffix[] = ".safetensors", tmp_suffix[] = ".safetensors.tmp";

/* Reads the step from a file's name; false: it is not a name of this prefix and ending. */
static bool step_of(const char *name, const char *prefix, const char *end, uint64_t *step)
{
	size_t n = strlen(prefix);
	int digits = 0;

	if (strncmp(name, prefix, n) != 0 || name[n] != '-')
		return false;
	return sscanf(name + n + 1, "%12" SCNu64 "%n", step, &digits) == 1 && digits == 12 &&
	       strcmp(name + n + 1 + 12, end) == 0;
}

/* Calls fn for every file of the prefix with this ending. */
static void each_file(const char *dir, const char *prefix, const char *end, void (*fn)(void *arg, uint64_t step),
		      void *arg)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	uint64_t step;

	while (d && (entry = readdir(d)))
		if (step_of(entry->d_name, prefix, end, &step))
			fn(arg, step);
	if (d)
		closedir(d);
}

struct older {
	uint64_t than, newest;
	bool any;
};

static void find_older(void *arg, uint64_t step)
{
	struct older *o = arg;

	if (step < o->than && (!o->any || step > o->newest)) {
		o->newest = step;
		o->any = true;
	}
}

bool sl_checkpoint_older(const char *dir, const char *prefix, uint64_t *step)
{
	struct older o = {.than = *step};

	each_file(dir, prefix, suffix, find_older, &o);
	if (o.any)
		*step = o.newest;
	return o.any;
}

/* ---- removing */

static void remove_tmp(void *arg, uint64_t step)
{
	const struct sl_checkpoint *c = arg;
	char path[PATH_MAX];

	if (path_of(path, c->dir, c->prefix, step) && strlen(path) + 4 < sizeof path)
		unlink(strcat(path, ".tmp"));
}

void sl_checkpoint_touch(const struct sl_checkpoint *c, uint64_t step)
{
	char path[PATH_MAX];
	struct sl_fail why;

	if (path_of(path, c->dir, c->prefix, step) && sl_folder_check(path, &why) == SL_OK)
		(void)!utimensat(AT_FDCWD, path, NULL, 0);
}

struct pruning {
	const struct sl_checkpoint *c;
	uint64_t step, below; /* step: the one just written; below: the newest before it */
	bool any_below;
};

static void prune_one(void *arg, uint64_t step)
{
	const struct pruning *p = arg;
	const struct sl_checkpoint *c = p->c;
	bool kept = step == p->step || (p->any_below && step == p->below);
	char path[PATH_MAX];

	for (int i = 0; i < c->n_pin; i++)
		kept = kept || step == c->pin[i];
	if (!kept && path_of(path, c->dir, c->prefix, step))
		(void)!SL_FAILPOINT_CALL(SL_FP_CKPT_PRUNE, unlink(path));
}

static void prune(const struct sl_checkpoint *c, uint64_t step)
{
	struct pruning p = {.c = c, .step = step, .below = step};

	p.any_below = sl_checkpoint_older(c->dir, c->prefix, &p.below);
	sl_assert_int(c->n_pin, <=, SL_CHECKPOINT_MAX_PINS);
	each_file(c->dir, c->prefix, suffix, prune_one, &p);
	each_file(c->dir, c->prefix, tmp_suffix, remove_tmp, (void *)(uintptr_t)c);
}

struct clearing {
	struct sl_checkpoint c;
	uint64_t from, but; /* removes steps from `from` on, except `but` */
	enum sl_failpoint point;
	char removed[PATH_MAX]; /* path of one removed file; "": none */
};

static void clear_one(void *arg, uint64_t step)
{
	struct clearing *a = arg;
	char path[PATH_MAX];

	if (step >= a->from && step != a->but && path_of(path, a->c.dir, a->c.prefix, step) &&
	    SL_FAILPOINT_CALL(a->point, unlink(path)) == 0)
		memcpy(a->removed, path, sizeof path);
}

/* Otherwise a power cut may bring the files back, and they may not fit the other side's files of a later run. */
static void sync_clearing(const struct clearing *a)
{
	if (a->removed[0] && sl_folder_sync_of(a->removed) != 0)
		sl_log(SL_LOG_WARN, "checkpoint-clear", "%s: %s; old checkpoints may come back after a power cut",
		       a->c.dir, strerror(errno));
}

/* Whether the folder is still the one that this process holds: nothing is removed from another one. */
static bool is_same(const char *dir)
{
	char path[PATH_MAX];
	struct sl_fail fail;
	const bool same = !path_of(path, dir, "any", 0) || sl_folder_check(path, &fail) == SL_OK;

	if (!same)
		sl_log(SL_LOG_WARN, "checkpoint-clear", "%s", fail.text);
	return same;
}

void sl_checkpoint_leave(const char *dir, const char *prefix, uint64_t step)
{
	struct clearing a = {
		.c = {.dir = dir, .prefix = prefix}, .from = step + 1, .but = UINT64_MAX, .point = SL_FP_CKPT_PRUNE};

	if (step == UINT64_MAX || !is_same(dir))
		return;
	each_file(dir, prefix, suffix, clear_one, &a);
	sync_clearing(&a);
}

void sl_checkpoint_clear(const char *dir, const char *prefix)
{
	sl_checkpoint_only(dir, prefix, UINT64_MAX);
}

enum sl_err sl_checkpoint_rename(const char *dir, const char *prefix, const char *other, uint64_t step,
				 struct sl_fail *fail)
{
	char from[PATH_MAX], to[PATH_MAX];

	if (!path_of(from, dir, prefix, step) || !path_of(to, dir, other, step))
		return sl_fail_set(fail, SL_ERR_IO, "%s: the path is too long", dir);
	if (sl_folder_check(to, fail) != SL_OK)
		return SL_ERR_CANTCREATE;
	if (rename(from, to) != 0 || sl_folder_sync_of(to) != 0)
		return sl_fail_set(fail, SL_ERR_IO, "%s: %s", to, strerror(errno));
	return SL_OK;
}

void sl_checkpoint_only(const char *dir, const char *prefix, uint64_t step)
{
	struct clearing a = {.c = {.dir = dir, .prefix = prefix}, .but = step, .point = SL_FP_CKPT_CLEAR};

	if (!is_same(dir))
		return;
	each_file(dir, prefix, suffix, clear_one, &a);
	each_file(dir, prefix, tmp_suffix, remove_tmp, &a.c);
	sync_clearing(&a);
}

/* ---- the hash covers the step, all notes (in any order: their hashes are added), and all parts by name, with dtype
 * and length */

static const char hash_key[] = "xxh3";

enum { BLOCK = 65536, HASH_TEXT = 17 };

static void hash_note(void *arg, const char *key, const char *value)
{
	uint64_t *sum = arg;

	if (strcmp(key, hash_key) != 0)
		*sum += XXH3_64bits_withSeed(value, strlen(value), XXH3_64bits(key, strlen(key)));
}

static uint64_t hash_head(uint64_t h, const char *name, const char *dtype, int64_t count)
{
	h = XXH3_64bits_withSeed(name, strlen(name), h);
	h = XXH3_64bits_withSeed(dtype, strlen(dtype), h);
	return XXH3_64bits_withSeed(&count, sizeof count, h);
}

static const char *dtype_of(const struct sl_checkpoint_part *p)
{
	return p->floats ? "F32" : "U8";
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct sl_checkpoint_part *)a)->name, ((const struct sl_checkpoint_part *)b)->name);
}

static uint64_t hash_of(const struct sl_checkpoint *c, uint64_t step)
{
	struct sl_checkpoint_part part[SL_CHECKPOINT_MAX_PARTS];
	uint64_t h = step;

	for (int i = 0; i < c->n_note; i++)
		hash_note(&h, c->note[i].key, c->note[i].value);
	memcpy(part, c->part, sizeof part);
	qsort(part, (size_t)c->n_part, sizeof part[0], by_name);
	for (int i = 0; i < c->n_part; i++) {
		size_t left = (size_t)part[i].count * (part[i].floats ? sizeof(float) : 1), len;

		h = hash_head(h, part[i].name, dtype_of(&part[i]), part[i].count);
		for (const uint8_t *at = part[i].data; left > 0; at += len, left -= len) {
			len = left < BLOCK ? left : BLOCK;
			sl_worker_turn();
			h = XXH3_64bits_withSeed(at, len, h);
		}
	}
	return h;
}

static enum sl_err hash_of_file(const struct sl_st_file *file, uint64_t step, uint64_t *hash, struct sl_fail *fail)
{
	uint8_t block[BLOCK];
	uint64_t h = step;

	sl_st_each_note(file, hash_note, &h);
	for (int i = 0; i < sl_st_count(file); i++) {
		const struct sl_st_tensor *t = sl_st_at(file, i);

		h = hash_head(h, t->name, t->dtype, t->ndim == 1 ? t->count : -1);
		for (uint64_t at = 0; at < t->bytes; at += BLOCK) {
			size_t len = t->bytes - at < BLOCK ? (size_t)(t->bytes - at) : BLOCK;
			enum sl_err err = sl_st_read_raw(file, t, at, block, len, fail);

			if (err)
				return err;
			sl_worker_turn();
			h = XXH3_64bits_withSeed(block, len, h);
		}
	}
	*hash = h;
	return SL_OK;
}

static enum sl_err check_hash(const struct sl_st_file *file, const char *path, uint64_t step, struct sl_fail *fail)
{
	const char *noted = sl_st_metadata(file, hash_key);
	char found[HASH_TEXT];
	uint64_t hash;
	enum sl_err err = hash_of_file(file, step, &hash, fail);

	if (err)
		return err;
	snprintf(found, sizeof found, "%016" PRIx64, hash);
	if (noted && strcmp(noted, found) == 0)
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_DATA, "%s: damaged: its hash is %s, its note says %.20s", path, found,
			   noted ? noted : "nothing");
}

/* ---- the agreement: a part like others, but a difference is reported by key */

static const char agreement_key[] = "agreement";

/* The checkpoint as it is written, with the agreement. */
static struct sl_checkpoint with_agreement(const struct sl_checkpoint *c)
{
	struct sl_checkpoint whole = *c;

	if (c->agreement)
		sl_checkpoint_bytes(&whole, agreement_key, (uint8_t *)(uintptr_t)c->agreement,
				    (int64_t)strlen(c->agreement));
	return whole;
}

static enum sl_err check_agreement(const struct sl_st_file *file, const struct sl_checkpoint *c, const char *path,
				   struct sl_fail *fail)
{
	const struct sl_st_tensor *t = sl_st_find(file, agreement_key);
	char then[SL_AGREED_TEXT];
	struct sl_agreed now;
	struct sl_fail why;
	enum sl_err err;

	if (!c->agreement)
		return SL_OK;
	if (!t || t->ndim != 1 || strcmp(t->dtype, "U8") != 0 || t->bytes > sizeof then)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: no agreement", path);
	err = sl_st_read_raw(file, t, 0, then, (size_t)t->bytes, fail);
	if (err)
		return err;
	err = sl_agreed_read(&now, c->agreement, strlen(c->agreement), fail);
	if (!err && (err = sl_agreed_same(then, (size_t)t->bytes, &now, &why)))
		sl_fail_set(fail, err, "%s: %s%s%s", path, why.key, why.key[0] ? " " : "", sl_fail_sentence(&why));
	return err;
}

/* ---- writing and reading */

static enum sl_err path_for(char path[PATH_MAX], const struct sl_checkpoint *c, uint64_t step, enum sl_err too_long,
			    struct sl_fail *fail)
{
	if (c->too_many)
		return sl_fail_set(fail, SL_ERR_BUG, "checkpoint: more than %d parts or %d notes",
				   SL_CHECKPOINT_MAX_PARTS, SL_CHECKPOINT_MAX_NOTES);
	return path_of(path, c->dir, c->prefix, step) ? sl_folder_check(path, fail)
						      : sl_fail_set(fail, too_long, "checkpoint: the path is too long");
}

enum sl_err sl_checkpoint_write(const struct sl_checkpoint *parts, uint64_t step, struct sl_fail *fail)
{
	const struct sl_checkpoint whole = with_agreement(parts), *c = &whole;
	struct sl_st_item item[SL_CHECKPOINT_MAX_PARTS];
	struct sl_st_note note[SL_CHECKPOINT_MAX_NOTES + 1];
	char path[PATH_MAX], hash[HASH_TEXT];
	enum sl_err err = path_for(path, c, step, SL_ERR_CANTCREATE, fail);

	if (err)
		return err;
	for (int i = 0; i < c->n_part; i++)
		item[i] = (struct sl_st_item){.name = c->part[i].name,
					      .dtype = dtype_of(&c->part[i]),
					      .ndim = 1,
					      .dim = {c->part[i].count},
					      .data = c->part[i].data};
	for (int i = 0; i < c->n_note; i++)
		note[i] = (struct sl_st_note){c->note[i].key, c->note[i].value};
	snprintf(hash, sizeof hash, "%016" PRIx64, hash_of(c, step));
	note[c->n_note] = (struct sl_st_note){hash_key, hash};
	err = sl_st_write(path, item, c->n_part, note, c->n_note + 1, SL_FP_CKPT_OPEN, fail);
	if (!err)
		prune(c, step);
	return err;
}

/* Whether a note may differ in a file of another plan: it only identifies the plan. */
static bool may_differ(const struct sl_checkpoint_note *n)
{
	return strcmp(n->key, "model") == 0 || strcmp(n->key, "plan") == 0;
}

static enum sl_err check_note(const struct sl_st_file *file, const char *path, struct sl_checkpoint_note *n,
			      bool border, struct sl_fail *fail)
{
	const char *found = sl_st_metadata(file, n->key);

	if (!found && n->may_lack && !(border && strcmp(n->key, layout_key) == 0))
		return SL_OK;
	if (border && may_differ(n))
		return SL_OK;
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

	return fits && strcmp(t->dtype, dtype_of(p)) == 0 ? t : NULL;
}

/* The file has no part that `p` could take. A codec's state may be of another length where samples or settings changed.
 */
static enum sl_err say_part(const struct sl_st_file *file, const char *path, const struct sl_checkpoint_part *p,
			    struct sl_fail *fail)
{
	const struct sl_st_tensor *t = sl_st_find(file, p->name);

	if (!t)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: it has no '%s', which this run needs", path, p->name);
	return sl_fail_set(fail, SL_ERR_DATA, "%s: its '%s' has %lld values of %s, this run's has %s%lld of %s", path,
			   p->name, (long long)t->count, t->dtype, p->floats ? "" : "at most ", (long long)p->count,
			   dtype_of(p));
}

static enum sl_err read_bytes(const struct sl_st_file *file, const struct sl_st_tensor *t, struct sl_checkpoint_part *p,
			      struct sl_fail *fail)
{
	enum sl_err err = sl_st_read_raw(file, t, 0, p->data, (size_t)t->bytes, fail);

	if (!err)
		p->count = t->count;
	return err;
}

/* Whoever wrote the file may have been killed before it synced the folder. From here on the other side may remove what
 * it has of earlier steps, so the name must survive a power cut. */
static void keep_name(const char *path)
{
	if (sl_folder_sync_of(path) != 0)
		sl_log(SL_LOG_WARN, "checkpoint-sync",
		       "%s: its folder cannot be synced: %s; a power cut may take this checkpoint", path,
		       strerror(errno));
}

enum sl_err sl_checkpoint_read(struct sl_checkpoint *c, uint64_t step, struct sl_fail *fail)
{
	struct sl_st_file *file;
	char path[PATH_MAX];
	bool border;
	enum sl_err err = path_for(path, c, step, SL_ERR_NOINPUT, fail);

	if (!err)
		err = sl_st_open(&file, path, fail);
	if (err)
		return err;
	border = c->border && c->border == step;
	err = border ? SL_OK : check_agreement(file, c, path, fail);
	for (int i = 0; i < c->n_note && !err; i++)
		err = check_note(file, path, &c->note[i], border, fail);
	for (int i = 0; i < c->n_part && !err; i++)
		if (!find_part(file, &c->part[i]))
			err = say_part(file, path, &c->part[i], fail);
	for (int i = 0; i < c->n_part && !err; i++) {
		const struct sl_st_tensor *t = find_part(file, &c->part[i]);

		err = c->part[i].floats ? sl_st_read_f32(file, t, c->part[i].data, fail)
					: read_bytes(file, t, &c->part[i], fail);
	}
	if (!err)
		err = check_hash(file, path, step, fail);
	sl_st_close(file);
	if (!err)
		keep_name(path);
	return err;
}

void sl_checkpoint_good(struct sl_checkpoint_state *s, uint64_t step)
{
	*s = (struct sl_checkpoint_state){.good = step};
}

void sl_checkpoint_missed(struct sl_checkpoint_state *s, uint64_t step, const struct sl_fail *why)
{
	const char *name = strrchr(why->text, '/');

	s->missed = step;
	snprintf(s->why, sizeof s->why, "%.*s", (int)sizeof s->why - 1, name ? name + 1 : why->text);
}
