#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/data/sheet.h"
#include "client/leak/leak.h"
#include "common/base/real.h"
#include "common/base/version.h"
#include "common/link/wire.h"
#include "common/telemetry/json.h"

enum { OF_EACH = 8, THIRDS = 3, RGB = 3 };

/* ---- the sheet */

static int by_db(const void *a, const void *b, void *db)
{
	const double x = ((const double *)db)[*(const int64_t *)a], y = ((const double *)db)[*(const int64_t *)b];

	return (x < y) - (x > y);
}

/* Chooses the pictures with the best, median and worst PSNR. Returns how many there are; 0: no memory. */
static int choose(int64_t out[THIRDS * OF_EACH], const struct sl_attack *a, int64_t n)
{
	int64_t *order = malloc((size_t)n * sizeof *order);
	const int each = n < THIRDS * OF_EACH ? (int)(n / THIRDS) : OF_EACH;
	const int64_t from[THIRDS] = {0, n / 2 - each / 2, n - each};

	if (!order)
		return 0;
	for (int64_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, (size_t)n, sizeof *order, by_db, a->db);
	for (int i = 0; i < THIRDS * each; i++)
		out[i] = order[from[i / each] + i % each];
	free(order);
	return THIRDS * each;
}

/* Slices of a victim that are shown side by side; of pictures 1. */
static int64_t slices_of(const struct sl_leak *l)
{
	return l->victim.volume.depth ? l->victim.volume.n : 1;
}

/* Puts a picture of one or three channels, or the first channel of a volume's slices, into a half of `pair` [h, 2·w,
 * RGB]; `half` is where that half begins. */
static void put_half(float *half, const float *picture, const struct sl_leak *l)
{
	const int64_t *dim = l->victim.picture.dim, n = slices_of(l), of_one = dim[3] / n, w = n * dim[2];

	for (int64_t i = 0; i < dim[1] * dim[2]; i++)
		for (int64_t s = 0; s < n; s++)
			for (int c = 0; c < RGB; c++)
				half[(i / dim[2] * 2 * w + s * dim[2] + i % dim[2]) * RGB + c] =
					picture[i * dim[3] + s * of_one + (l->victim.volume.depth ? 0 : c % of_one)];
}

static enum sl_err put_pair(struct sl_sheet *sheet, int at, const struct sl_leak *l, int64_t i, float *pair,
			    struct sl_fail *fail)
{
	const int64_t *dim = l->victim.picture.dim, floats = dim[1] * dim[2] * dim[3];
	char label[32];

	put_half(pair, l->victim.image + i * floats, l);
	put_half(pair + slices_of(l) * dim[2] * RGB, l->attack[0].guess + i * floats, l);
	snprintf(label, sizeof label, "%.1f dB", l->attack[0].db[i]);
	return sl_sheet_put(sheet, at, pair, label, fail);
}

static enum sl_err write_sheet(const struct sl_leak *l, const char *path, struct sl_fail *fail)
{
	const int64_t *dim = l->victim.picture.dim;
	int64_t chosen[THIRDS * OF_EACH];
	const int n = choose(chosen, &l->attack[0], l->victim.n);
	const int64_t wide = 2 * slices_of(l) * dim[2];
	float *pair = malloc((size_t)(dim[1] * wide * RGB) * sizeof *pair);
	struct sl_sheet *sheet = NULL;
	enum sl_err err = pair ? sl_sheet_open(&sheet, n, (int)dim[1], (int)wide, fail)
			       : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for pictures");

	for (int i = 0; i < n && !err; i++)
		err = put_pair(sheet, i, l, chosen[i], pair, fail);
	if (!err)
		err = sl_sheet_write(sheet, path, fail);
	sl_sheet_close(sheet);
	free(pair);
	return err;
}

/* ---- JSON */

/* The object in `root` that has the figure; it is made if needed. */
static json_t *group_of(json_t *root, const char *group)
{
	json_t *of = *group ? json_object_get(root, group) : root;

	if (!of)
		json_object_set_new(root, group, of = json_object());
	return of;
}

static json_t *figure_json(const struct sl_leak_figure *f)
{
	json_t *figure = json_pack("{s:o, s:o, s:o, s:o, s:I}", "value", sl_json_real(f->value), "low",
				   sl_json_real(f->low), "high", sl_json_real(f->high), "chance",
				   sl_json_real(f->chance), "samples", (json_int_t)f->n);
	json_t *classes = f->of_class ? json_array() : NULL;

	for (int c = 0; c < f->classes; c++)
		json_array_append_new(classes, sl_json_real(f->of_class[c]));
	if (f->worst >= 0) {
		json_object_set_new(figure, "worst", sl_json_real(f->of_class[f->worst]));
		json_object_set_new(figure, "worst_class", json_integer(f->worst));
	}
	if (classes)
		json_object_set_new(figure, "classes", classes);
	return figure;
}

json_t *sl_leak_json(const struct sl_leak *l, const struct sl_setup *s)
{
	static const char *const counted[] = {"pictures", "tokens", "rows"};
	const struct sl_agreed *a = &s->agreement.agreed;
	char text[SL_LEAK_SHORT_TEXT];
	json_t *root =
		json_pack("{s:i, s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:[]}", "schema", 3, "software",
			  "splitc " SL_VERSION, "protocol", SL_WIRE_VERSION, "model", s->plan->model->name, "cut",
			  s->plan->cut.text, "codec_head_act", a->codec[SL_DIR_HEAD_ACT], "codec_mid_act",
			  a->codec[SL_DIR_MID_ACT], "codec_mid_grad", a->codec[SL_DIR_MID_GRAD], "codec_head_grad",
			  a->codec[SL_DIR_HEAD_GRAD], "seed", (json_int_t)s->plan->spec.seed, counted[l->kind],
			  (json_int_t)l->victim.n, "trained_with", (json_int_t)l->aux, "not_measured");

	json_object_set_new(root, "noise",
			    json_pack("{s:f, s:f, s:f, s:f}", "head_act", s->noise.head_act, "mid_grad",
				      s->noise.mid_grad, "clip_act", s->noise.clip_act, "clip_grad",
				      s->noise.clip_grad));
	json_object_set_new(root, "fingerprint", json_pack("{s:s, s:s}", "weights", l->weights, "samples", l->samples));
	for (int of = 0; of < SL_LEAK_OFS; of++)
		json_object_set_new(group_of(root, "in_short"), sl_leak_of_words[of],
				    json_string(sl_leak_in_short(&l->figures, of, text)));
	if (l->victim.volume.depth)
		json_object_set_new(root, "slices", json_integer(l->victim.volume.n));
	if (l->joint[0])
		json_object_set_new(root, "values", json_string(l->joint));
	for (int i = 0; i < SL_LEAK_OMISSIONS; i++)
		if (l->omitted[i])
			json_array_append_new(json_object_get(root, "not_measured"), json_string(l->omitted[i]));
	for (int i = 0; i < SL_ATTACKERS && root; i++)
		if (l->attack[i].made)
			json_object_set_new(group_of(root, sl_attackers[i]), "steps", json_integer(l->attack[i].steps));
	for (int i = 0; i < l->figures.n && root; i++)
		json_object_set_new(group_of(root, l->figures.item[i].group), l->figures.item[i].key,
				    figure_json(&l->figures.item[i]));
	return root;
}

/* ---- files */

static enum sl_err close_file(FILE *f, const char *path, struct sl_fail *fail)
{
	bool bad;

	if (!f)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "%s: %s", path, strerror(errno));
	bad = ferror(f);
	return fclose(f) != 0 || bad ? sl_fail_set(fail, SL_ERR_IO, "%s: could not be written", path) : SL_OK;
}

static FILE *open_file(char path[PATH_MAX], const char *dir, const char *name)
{
	if (snprintf(path, PATH_MAX, "%s/%s", dir, name) < PATH_MAX)
		return fopen(path, "w");
	errno = ENAMETOOLONG;
	return NULL;
}

static void put_cell(FILE *f, const char *text)
{
	fputc('"', f);
	for (; *text; text++)
		fprintf(f, *text == '"' ? "\"\"" : "%c", *text);
	fputc('"', f);
}

/* A line for each figure: its place in leak.json, and its numbers, empty where they are undefined. */
static void put_csv(FILE *f, const struct sl_leak_figures *figures)
{
	char text[SL_REAL_TEXT];

	fputs("group,figure,value,low,high,chance,samples,worst,worst_class\n", f);
	for (int i = 0; i < figures->n; i++) {
		const struct sl_leak_figure *figure = &figures->item[i];
		const double number[] = {figure->value, figure->low, figure->high, figure->chance};

		put_cell(f, figure->group);
		fputc(',', f);
		put_cell(f, figure->key);
		for (int k = 0; k < 4; k++)
			fprintf(f, ",%s", isnan(number[k]) ? "" : sl_double_text(number[k], text));
		fprintf(f, ",%" PRId64, figure->n);
		if (figure->worst < 0)
			fputs(",,\n", f);
		else
			fprintf(f, ",%s,%d\n", sl_double_text(figure->of_class[figure->worst], text), figure->worst);
	}
}

static enum sl_err write_page(const struct sl_leak *l, const struct sl_setup *s, const struct sl_leak_report *report,
			      const char *dir, struct sl_fail *fail)
{
	char path[PATH_MAX];
	uint8_t *sheet = NULL;
	size_t bytes = 0;
	enum sl_err err = SL_OK;
	FILE *f;

	if (l->attack[0].db) {
		snprintf(path, sizeof path, "%.4000s/sheet.png", dir);
		err = write_sheet(l, path, fail);
		if (!err)
			err = sl_file_read(path, SIZE_MAX, &sheet, &bytes, fail);
	}
	if (!err) {
		f = open_file(path, dir, "leak.html");
		if (f)
			sl_leak_page(f, l, s, report, sheet, bytes);
		err = close_file(f, path, fail);
	}
	free(sheet);
	return err;
}

enum sl_err sl_leak_write(const struct sl_leak *l, const struct sl_setup *s, const struct sl_leak_report *report,
			  const char *dir, struct sl_fail *fail)
{
	json_t *root = sl_leak_json(l, s);
	char path[PATH_MAX];
	enum sl_err err;
	FILE *f;

	if (!root)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the report");
	if (mkdir(dir, 0700) && errno != EEXIST) {
		json_decref(root);
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "%s: %s", dir, strerror(errno));
	}
	f = open_file(path, dir, "leak.json");
	if (f)
		sl_json_print(root, JSON_INDENT(2), f);
	else
		json_decref(root);
	err = close_file(f, path, fail);
	if (err)
		return err;
	f = open_file(path, dir, "leak.csv");
	if (f)
		put_csv(f, &l->figures);
	err = close_file(f, path, fail);
	return err ? err : write_page(l, s, report, dir, fail);
}
