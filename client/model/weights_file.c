#include "client/model/weights_file.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/model/lora.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/exec/finite.h"

static const char tracked[] = ".num_batches_tracked";
static const char running_mean[] = ".running_mean";

/* [blocks, rows, cols] → [blocks, cols, rows] */
static void transpose(const float *src, float *dst, int64_t blocks, int64_t rows, int64_t mid, int64_t cols)
{
	const int64_t n = rows * mid * cols;

	for (int64_t b = 0; b < blocks; b++, src += n, dst += n)
		for (int64_t r = 0; r < rows; r++)
			for (int64_t m = 0; m < mid; m++)
				for (int64_t c = 0; c < cols; c++)
					dst[(c * mid + m) * rows + r] = src[(r * mid + m) * cols + c];
}

/* The file's order as [blocks, rows, mid, cols], such that memory's order is [blocks, cols, mid, rows]. */
static void file_matrix(const struct sl_file_param *p, int64_t *blocks, int64_t *rows, int64_t *mid, int64_t *cols)
{
	const int64_t *d = p->shape.dim;

	*mid = 1;
	switch (p->layout) {
	case SL_LAYOUT_OHWI_FROM_OIHW:
		*blocks = d[0];
		*rows = d[1];
		*cols = d[2] * d[3];
		return;
	case SL_LAYOUT_OHWI_FROM_OIDHW:
		*blocks = d[0];
		*rows = d[1];
		*mid = d[2];
		*cols = d[3];
		return;
	case SL_LAYOUT_HWC_FROM_C1HW:
		*blocks = 1;
		*rows = d[0];
		*cols = sl_shape_count(&p->shape) / d[0];
		return;
	case SL_LAYOUT_HWC_FROM_CHW:
		*blocks = d[0];
		*rows = p->channels;
		*cols = d[1] / p->channels;
		return;
	default:
		*blocks = *rows = 1;
		*cols = sl_shape_count(&p->shape);
	}
}

void sl_param_from_file_order(const struct sl_file_param *p, const float *file, float *memory)
{
	int64_t blocks, rows, mid, cols;

	file_matrix(p, &blocks, &rows, &mid, &cols);
	transpose(file, memory, blocks, rows, mid, cols);
}

void sl_param_to_file_order(const struct sl_file_param *p, const float *memory, float *file)
{
	int64_t blocks, rows, mid, cols;

	file_matrix(p, &blocks, &rows, &mid, &cols);
	transpose(memory, file, blocks, cols, mid, rows);
}

/* The tensor's dimensions in a file; returns how many. */
static int dims_of(const struct sl_file_param *p, int64_t dim[SL_ST_MAX_DIMS])
{
	const bool volumes = p->layout == SL_LAYOUT_OHWI_FROM_OIDHW;

	for (int i = 0; i < p->shape.ndim; i++)
		dim[i] = p->shape.dim[i];
	if (volumes) {
		dim[3] = p->shape.dim[3] / p->channels;
		dim[4] = p->channels;
	}
	return p->shape.ndim + volumes;
}

static bool same_shape(const struct sl_st_tensor *t, const struct sl_file_param *p)
{
	int64_t dim[SL_ST_MAX_DIMS];

	return t->ndim == dims_of(p, dim) && memcmp(t->dim, dim, (size_t)t->ndim * sizeof dim[0]) == 0;
}

enum sl_err sl_weights_check_tensor(const struct sl_st_tensor *t, const char *name, const struct sl_file_param *p,
				    struct sl_fail *fail)
{
	char theirs[SL_ST_SHAPE_TEXT], ours[SL_ST_SHAPE_TEXT];
	struct sl_st_tensor want = {0};

	want.ndim = dims_of(p, want.dim);
	(void)sl_st_shape_text(&want, ours);
	if (!t)
		return sl_fail_set(fail, SL_ERR_DATA, "tensor \"%s\" is missing; the model has it as %s", name, ours);
	if (!same_shape(t, p))
		return sl_fail_set(fail, SL_ERR_DATA, "tensor \"%s\" is %s in the file and %s in the model", name,
				   sl_st_shape_text(t, theirs), ours);
	if (!sl_st_is_float(t))
		return sl_fail_set(fail, SL_ERR_DATA,
				   "tensor \"%s\" is of type %.16s, which is none of F32, F16, BF16, F64", name,
				   t->dtype);
	return SL_OK;
}

enum sl_err sl_weights_read_tensor(const struct sl_st_file *file, const struct sl_st_tensor *t,
				   const struct sl_file_param *p, float *out, struct sl_fail *fail)
{
	float *file_order;
	enum sl_err err;

	if (p->layout == SL_LAYOUT_SAME)
		return sl_st_read_f32(file, t, out, fail);
	file_order = malloc((size_t)t->count * sizeof(*file_order));
	if (!file_order)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to read \"%s\"", t->name);
	err = sl_st_read_f32(file, t, file_order, fail);
	if (!err)
		sl_param_from_file_order(p, file_order, out);
	free(file_order);
	return err;
}

enum sl_err sl_weights_read_param(const struct sl_st_file *file, const char *name, const struct sl_file_param *p,
				  float *out, struct sl_fail *fail)
{
	const struct sl_st_tensor *t = sl_st_find(file, name);
	enum sl_err err = sl_weights_check_tensor(t, name, p, fail);

	return err ? err : sl_weights_read_tensor(file, t, p, out, fail);
}

static bool in_last_unit(const struct sl_model *m, const char *name)
{
	const char *unit = m->unit[m->n_unit - 1].name;
	size_t len = strlen(unit);

	return !strncmp(name, unit, len) && name[len] == '.';
}

const struct sl_st_tensor *sl_weights_find(const struct sl_model *m, const struct sl_st_file *file, const char *name)
{
	static const char *const old[][2] = {{".LayerNorm.weight", ".LayerNorm.gamma"},
					     {".LayerNorm.bias", ".LayerNorm.beta"}};
	const struct sl_st_tensor *t = sl_st_find(file, name);
	const size_t len = strlen(m->prefix);
	char other[SL_NAME_MAX + 8];

	if (t || !len)
		return t;
	if (strncmp(name, m->prefix, len) == 0 && (t = sl_st_find(file, name + len)))
		return t;
	for (int i = 0; i < 2; i++) {
		if (!sl_ends_with(name, old[i][0]))
			continue;
		snprintf(other, sizeof other, "%.*s%s", (int)(strlen(name) - strlen(old[i][0])), name, old[i][1]);
		t = sl_st_find(file, other);
		return t || strncmp(name, m->prefix, len) != 0 ? t : sl_st_find(file, other + len);
	}
	return NULL;
}

/* Whether model->ignored matches a name, with or without the model's prefix. */
static bool is_ignored(const struct sl_model *m, const char *name)
{
	const size_t len = strlen(m->prefix);

	for (const char *const *glob = m->ignored; glob && *glob; glob++)
		if (fnmatch(*glob, name, 0) == 0 ||
		    (len && strncmp(*glob, m->prefix, len) == 0 && fnmatch(*glob + len, name, 0) == 0))
			return true;
	return false;
}

/* A file that is being read. */
struct reading {
	const struct sl_model *m;
	const struct sl_st_file *file;
	bool partial, new_inserts, of_party;
	bool new_head;                    /* the file has no parameter of the head, as it may */
	const struct sl_st_tensor **from; /* [n_param], NULL: none */
	const char *ignored;              /* the first of n_ignored tensors that are passed over */
	int n_ignored;
};

static int by_place(const void *a, const void *b)
{
	const struct sl_st_tensor *const *x = a, *const *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Checks that every tensor of the file is a parameter's, or may be passed over. */
static enum sl_err check_extra(struct reading *r, struct sl_fail *fail)
{
	const int n = r->m->graph.n_param;
	const struct sl_st_tensor **known = malloc(((size_t)n + 1) * sizeof *known);
	const char *first = NULL;
	int extra = 0;

	if (!known)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the weights");
	memcpy(known, r->from, (size_t)n * sizeof *known);
	qsort(known, (size_t)n, sizeof *known, by_place);
	for (int i = 0; i < sl_st_count(r->file); i++) {
		const struct sl_st_tensor *t = sl_st_at(r->file, i);

		if (sl_ends_with(t->name, tracked) || (r->partial && in_last_unit(r->m, t->name)) ||
		    bsearch(&t, known, (size_t)n, sizeof *known, by_place))
			continue;
		if (is_ignored(r->m, t->name)) {
			r->ignored = r->n_ignored++ ? r->ignored : t->name;
			continue;
		}
		if (!first)
			first = t->name;
		extra++;
	}
	free(known);
	if (extra)
		return sl_fail_set(fail, SL_ERR_DATA, "%d tensor%s of the file %s not of %s, \"%.96s\" first", extra,
				   extra > 1 ? "s" : "", extra > 1 ? "are" : "is", r->m->name, first);
	return SL_OK;
}

/* Whether parameter i is of the last unit, and the file lacks it or has it in another shape. */
static bool may_begin_anew(const struct reading *r, int i)
{
	const struct sl_st_tensor *t = r->from[i];

	return in_last_unit(r->m, r->m->graph.param[i].name) && (!t || !same_shape(t, &r->m->file[i]));
}

/* Whether parameter i is to be read from the file. */
static bool is_wanted(const struct reading *r, int i)
{
	const struct sl_file_param *p = &r->m->file[i];
	const struct sl_st_tensor *t = r->from[i];
	const bool optional = r->of_party || (p->optional && (r->new_inserts || sl_lora_has(r->m, i))) ||
			      (p->near_head && r->new_head);

	return !(optional && !t) && !(p->head && r->new_head) && !(r->partial && may_begin_anew(r, i));
}

/* Finds the tensors of all parameters, and checks all that can be checked before anything is read. */
static enum sl_err find_all(struct reading *r, unsigned how, struct sl_fail *fail)
{
	const struct sl_model *m = r->m;
	bool head = false;
	enum sl_err err = SL_OK;

	for (int i = 0; i < m->graph.n_param; i++) {
		r->from[i] = sl_weights_find(m, r->file, m->graph.param[i].name);
		head = head || (m->file[i].head && r->from[i]);
	}
	r->new_head = (how & SL_WEIGHTS_NEW_HEAD) && !head;
	for (int i = 0; i < m->graph.n_param && !err; i++) {
		struct sl_fail why;

		if (is_wanted(r, i))
			err = sl_weights_check_tensor(r->from[i], m->graph.param[i].name, &m->file[i], &why);
		if (err)
			sl_fail_set(fail, err, "%.400s%s", why.text,
				    how != SL_WEIGHTS_STRICT && may_begin_anew(r, i)
					    ? "; with model.partial: true the last unit begins anew"
					    : "");
	}
	return err ? err : check_extra(r, fail);
}

enum sl_err sl_weights_load_file(const struct sl_model *model, const struct sl_st_file *file, unsigned how,
				 float *const *param, bool *loaded, struct sl_fail *fail)
{
	struct reading r = {.m = model,
			    .file = file,
			    .partial = how & SL_WEIGHTS_PARTIAL,
			    .new_inserts = how & SL_WEIGHTS_NEW_INSERTS,
			    .of_party = how & SL_WEIGHTS_OF_PARTY};
	enum sl_err err;

	r.from = calloc((size_t)model->graph.n_param + 1, sizeof *r.from);
	if (!r.from)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the weights");
	err = find_all(&r, how, fail);
	if (!err && r.n_ignored && param)
		sl_log(SL_LOG_INFO, "weights-ignored",
		       "%d tensor%s of the weights %s not of this network and %s left out, %.96s first", r.n_ignored,
		       r.n_ignored > 1 ? "s" : "", r.n_ignored > 1 ? "are" : "is", r.n_ignored > 1 ? "are" : "is",
		       r.ignored);
	for (int i = 0; i < model->graph.n_param && !err; i++) {
		const bool wanted = is_wanted(&r, i);

		if (wanted && param && param[i])
			err = sl_weights_read_tensor(file, r.from[i], &model->file[i], param[i], fail);
		if (!err && loaded)
			loaded[i] = wanted;
	}
	free(r.from);
	return err;
}

enum sl_err sl_weights_open_file(struct sl_st_file **out, const char *path, struct sl_fail *fail)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? sl_st_open_folder(out, path, fail)
							   : sl_st_open(out, path, fail);
}

/* Warns if the file has a hash, and its bytes are no longer those that were written. */
static enum sl_err warn_of_changes(const struct sl_st_file *file, const char *path, struct sl_fail *fail)
{
	bool changed;
	enum sl_err err = sl_st_check_hash(file, &changed, fail);

	if (!err && changed)
		sl_log(SL_LOG_WARN, "weights-changed",
		       "%.400s has changed since splitc wrote it: the disk may have damaged it, or another program "
		       "has written it. Restore it from a copy, or export it again",
		       path);
	return err;
}

/* What wrote names that begin with a wrapper's, and what to write instead; "": none did. */
static const char *wrapped(const struct sl_st_file *file)
{
	const char *first = sl_st_count(file) ? sl_st_at(file, 0)->name : "";

	if (strncmp(first, "_orig_mod.", 10) == 0)
		return "; its names begin with _orig_mod., of torch.compile: save model._orig_mod.state_dict()";
	if (strncmp(first, "base_model.model.", 17) == 0)
		return "; its names begin with base_model.model., of PEFT: save model.merge_and_unload(), or give "
		       "adapters in lora.adapter";
	if (strncmp(first, "module.", 7) == 0)
		return "; its names begin with module., of DataParallel: save model.module.state_dict()";
	return "";
}

enum sl_err sl_weights_load(const struct sl_model *model, const char *path, unsigned how, float *const *param,
			    bool *loaded, struct sl_fail *fail)
{
	struct sl_st_file *file = NULL;
	struct sl_fail inner = {0};
	enum sl_err err = sl_weights_open_file(&file, path, fail);

	if (err)
		return err;
	err = param ? warn_of_changes(file, path, &inner) : SL_OK;
	if (!err)
		err = sl_weights_load_file(model, file, how, param, loaded, &inner);
	if (err)
		sl_fail_set(fail, err, "%s: %.300s%s", path, inner.text, err == SL_ERR_DATA ? wrapped(file) : "");
	sl_st_close(file);
	return err;
}

/* Finds the model's parameter for a tensor, which must not be loaded yet. */
static enum sl_err find_fresh(const struct sl_model *m, const char *name, const bool *loaded, int *at,
			      struct sl_fail *fail)
{
	for (*at = 0; *at < m->graph.n_param; ++*at)
		if (strcmp(m->graph.param[*at].name, name) == 0)
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

static enum sl_err load_part(const struct sl_model *m, const struct sl_st_file *file, const char *prefix,
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
	err = param ? warn_of_changes(file, path, &inner) : SL_OK;
	if (!err)
		err = load_part(model, file, prefix, param, loaded, &inner);
	sl_st_close(file);
	return err ? sl_fail_set(fail, err, "%s: %s", path, inner.text) : SL_OK;
}

/* A list of items under construction: parameters, and one counter beside every running_mean. */
struct state_dict {
	struct sl_st_item *item;
	char (*name)[SL_NAME_MAX + sizeof(tracked)]; /* the counters' names */
	float *file_order;                           /* all parameters whose layout differs, one after another */
	int n;
};

static struct sl_st_item *add_item(struct state_dict *d, const char *name, const char *dtype,
				   const struct sl_file_param *p, const void *data)
{
	struct sl_st_item *item = &d->item[d->n++];

	*item = (struct sl_st_item){.name = name, .dtype = dtype, .data = data};
	item->ndim = dims_of(p, item->dim);
	return item;
}

static void add_param(struct state_dict *d, const char *name, const struct sl_file_param *p, const float *memory,
		      float **scratch)
{
	struct sl_st_item *item = add_item(d, name, "F32", p, memory);

	if (p->layout == SL_LAYOUT_SAME)
		return;
	sl_param_to_file_order(p, memory, *scratch);
	item->data = *scratch;
	*scratch += sl_shape_count(&p->shape);
}

static void add_counter(struct state_dict *d, const char *of, const int64_t *count)
{
	char *name = d->name[d->n];

	snprintf(name, sizeof(d->name[0]), "%.*s%s", (int)(strlen(of) - strlen(running_mean)), of, tracked);
	d->item[d->n++] = (struct sl_st_item){.name = name, .dtype = "I64", .data = count};
}

/* Writes held[i] in place of a param[i] that is NULL; `held` NULL: leaves such parameters out. */
static enum sl_err save(const struct sl_model *model, const char *path, const float *const *param,
			const uint16_t *const *held, int64_t batches_tracked, const struct sl_st_note *notes,
			int n_notes, struct sl_fail *fail)
{
	struct state_dict d = {0};
	struct sl_st_note *note = malloc(((size_t)n_notes + 1) * sizeof *note);
	size_t floats = 0;
	float *scratch;
	enum sl_err err;

	for (int i = 0; i < model->graph.n_param; i++)
		if (model->file[i].layout != SL_LAYOUT_SAME)
			floats += (size_t)sl_shape_count(&model->file[i].shape);
	d.item = calloc(2 * (size_t)model->graph.n_param + 1, sizeof(*d.item));
	d.name = calloc(2 * (size_t)model->graph.n_param + 1, sizeof(*d.name));
	d.file_order = scratch = malloc((floats + 1) * sizeof(*d.file_order));
	if (!d.item || !d.name || !d.file_order || !note) {
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory to write %s", path);
		goto fail;
	}
	for (int i = 0; i < model->graph.n_param; i++) {
		const struct sl_param *p = &model->graph.param[i];

		if (!param[i] && held && held[i])
			add_item(&d, p->name, p->held == SL_F16 ? "F16" : "BF16", &model->file[i], held[i]);
		if (!param[i])
			continue;
		add_param(&d, model->graph.param[i].name, &model->file[i], param[i], &scratch);
		if (sl_ends_with(model->graph.param[i].name, running_mean))
			add_counter(&d, model->graph.param[i].name, &batches_tracked);
	}
	if (n_notes)
		memcpy(note, notes, (size_t)n_notes * sizeof *note);
	note[n_notes] = (struct sl_st_note){SL_ST_HASH, SL_ST_HASH_OPEN};
	err = sl_st_write(path, d.item, d.n, note, n_notes + 1, SL_FP_MODEL_OPEN, fail);
fail:
	free(note);
	free(d.item);
	free(d.name);
	free(d.file_order);
	return err;
}

enum sl_err sl_weights_save(const struct sl_model *model, const char *path, const float *const *param,
			    int64_t batches_tracked, const struct sl_st_note *notes, int n_notes, struct sl_fail *fail)
{
	return save(model, path, param, NULL, batches_tracked, notes, n_notes, fail);
}

enum sl_err sl_weights_save_all(const struct sl_model *model, const char *path, const struct sl_weights *w,
				int64_t batches_tracked, const struct sl_st_note *notes, int n_notes,
				struct sl_fail *fail)
{
	return save(model, path, (const float *const *)w->value, w->held, batches_tracked, notes, n_notes, fail);
}

enum sl_err sl_weights_check_finite(const struct sl_model *model, const struct sl_weights *weights,
				    struct sl_fail *fail)
{
	for (int i = 0; i < model->graph.n_param; i++) {
		const struct sl_param *p = &model->graph.param[i];

		if (weights->value[i] && !sl_finite_host(weights->value[i], sl_shape_count(&p->shape)))
			return sl_fail_set(fail, SL_ERR_DATA, "\"%s\" of these weights holds NaN or Inf", p->name);
	}
	return SL_OK;
}

char *sl_weights_note(const char *path, const char *key)
{
	struct sl_st_file *file;
	struct sl_fail fail;
	const char *text;
	char *note;

	if (sl_st_open(&file, path, &fail) != SL_OK)
		return NULL;
	text = sl_st_metadata(file, key);
	note = text ? strdup(text) : NULL;
	sl_st_close(file);
	return note;
}

int64_t sl_weights_steps(const char *path)
{
	char *text = sl_weights_note(path, SL_WEIGHTS_STEPS), *end;
	int64_t steps = INT64_MAX;

	if (text && *text >= '0' && *text <= '9') {
		steps = strtoll(text, &end, 10);
		if (*end)
			steps = INT64_MAX;
	}
	free(text);
	return steps;
}
