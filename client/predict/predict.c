#include "client/predict/predict.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/picture_write.h"
#include "client/figures/by_class.h"
#include "client/figures/metric.h"
#include "common/base/real.h"

enum { NUMBER = 32, NAME = PATH_MAX + 64 };

static const char *value_name(const struct sl_predict_spec *s)
{
	return s->logits ? "logit" : "probability";
}

static bool names_samples(const struct sl_predict_spec *s)
{
	return s->set && s->set->source->sample_name;
}

/* How many classes a line has. */
static int shown(const struct sl_predict_spec *s)
{
	return s->top && s->top < s->classes ? s->top : s->classes;
}

/* ---- the line of names ---- */

static void put_text_names(const struct sl_predict_spec *s)
{
	fprintf(s->out, "%8s", "sample");
	if (!s->task->met && !s->unlabelled)
		fprintf(s->out, " %12s", "number");
	if (!s->task->met)
		fprintf(s->out, " %12s", "predicted");
	if (s->task->met && !s->unlabelled)
		fprintf(s->out, " %6s", "label");
	if (s->task->met)
		fprintf(s->out, " %6s  %s", "class", value_name(s));
	if (s->task->met && s->top > 1)
		fputs("  others", s->out);
	fprintf(s->out, "%s%s\n", s->task->met && s->class_name ? "  class_name" : "",
		names_samples(s) ? "  name" : "");
}

/* Prints a text as CSV has it (RFC 4180), as a string of JSON, or in a line of text. */
static void put_quoted(const struct sl_predict_spec *s, const char *text)
{
	const bool json = s->format == SL_PREDICT_JSON;
	const bool quotes = json || (s->format == SL_PREDICT_CSV && strpbrk(text, ",\"\r\n"));

	if (quotes)
		putc('"', s->out);
	for (; *text; text++) {
		if (quotes && *text == '"')
			putc(json ? '\\' : '"', s->out);
		if (json && *text == '\\')
			putc('\\', s->out);
		if (json && (unsigned char)*text < ' ')
			fprintf(s->out, "\\u%04x", *text);
		else
			putc(!quotes && (unsigned char)*text < ' ' ? '?' : *text, s->out);
	}
	if (quotes)
		putc('"', s->out);
}

static void put_names_of(const struct sl_predict_spec *s, const char *before)
{
	for (int k = 0; k < s->classes; k++) {
		char name[NAME];

		if (s->class_name)
			snprintf(name, sizeof name, "%s%s", before, s->class_name[k]);
		else
			snprintf(name, sizeof name, "%s%d", before[0] ? before : "target_", k);
		putc(',', s->out);
		put_quoted(s, name);
	}
}

static void put_csv_names(const struct sl_predict_spec *s)
{
	const bool classes = s->task->met, named = classes && s->class_name;

	fputs("sample", s->out);
	if (!s->unlabelled)
		fputs(classes ? ",label" : ",number", s->out);
	fputs(classes ? ",class" : ",predicted", s->out);
	if (classes && !s->top)
		put_names_of(s, s->logits ? "logit_" : "probability_");
	for (int k = 1; classes && s->top && k <= shown(s); k++) {
		fprintf(s->out, ",class_%d", k);
		if (named)
			fprintf(s->out, ",class_name_%d", k);
		fprintf(s->out, ",%s_%d", value_name(s), k);
	}
	fprintf(s->out, "%s%s\n", named ? ",class_name" : "", names_samples(s) ? ",name" : "");
}

void sl_predict_close(struct sl_predict *p)
{
	free(p->row);
	free(p->value);
	free(p->order);
	free(p->mask);
	for (int i = 0; i < 2; i++)
		sl_room_close(&p->room[i]);
	sl_transform_work_close(&p->work);
	*p = (struct sl_predict){.rows = 0};
}

/* ---- values of a row ---- */

/* The row's logits, or their softmax. */
static void fill_values(struct sl_predict *p, const float *x, int best)
{
	const int classes = p->spec.classes;
	double sum = 0;

	for (int k = 0; k < classes; k++) {
		p->value[k] = p->spec.logits ? (double)x[k] : exp((double)x[k] - (double)x[best]);
		sum += p->value[k];
	}
	for (int k = 0; k < classes && !p->spec.logits; k++)
		p->value[k] /= sum;
}

/* Sorts the `top` classes by falling logit to the front; without `top`, classes stay in their own order. */
static void fill_order(struct sl_predict *p, const float *x)
{
	for (int i = 0; i < p->spec.classes; i++)
		p->order[i] = i;
	for (int i = 0; p->spec.top && i < shown(&p->spec); i++) {
		int best = i, class;

		for (int k = i + 1; k < p->spec.classes; k++)
			if (x[p->order[k]] > x[p->order[best]])
				best = k;
		class = p->order[best]; /* the others keep their order, and so do equal logits */
		memmove(p->order + i + 1, p->order + i, (size_t)(best - i) * sizeof *p->order);
		p->order[i] = class;
	}
}

/* A float has the digits that identify it; a probability, which is a double, has nine. */
static const char *number(double x, const char *unknown, char text[NUMBER])
{
	if (!isfinite(x))
		return unknown;
	if ((double)(float)x == x)
		return sl_float_text((float)x, text);
	snprintf(text, NUMBER, "%.9g", x);
	return text;
}

/* Number k, from which its centre was taken off. The sum has more digits than a float. */
static const char *number_of(const struct sl_predict_spec *s, int k, float x, const char *unknown, char text[NUMBER])
{
	const double centre = s->centre ? s->centre[k] : 0, sum = centre + (double)x;

	if (centre == 0 || !isfinite(x))
		return number((double)x, unknown, text);
	snprintf(text, NUMBER, rint(sum) == sum && fabs(sum) <= 0x1p53 ? "%.0f" : "%.15g", sum);
	return text;
}

/* ---- names ---- */

static void put_class(const struct sl_predict_spec *s, int class)
{
	char number[NUMBER];

	snprintf(number, sizeof number, "%d", class);
	put_quoted(s, s->class_name ? s->class_name[class] : number);
}

/* Whatever a file is called, a line is UTF-8 without control characters. */
static void put_sample(const struct sl_predict *p)
{
	char name[NAME];

	p->spec.set->source->sample_name(p->spec.set, p->index, name, sizeof name);
	sl_text_make_safe(name, '?');
	put_quoted(&p->spec, name);
}

/* ---- lines ---- */

static void put_value(const struct sl_predict *p, double value)
{
	if (isfinite(value))
		fprintf(p->spec.out, "%.4f", value);
	else
		putc('-', p->spec.out);
}

static void put_json_name(const struct sl_predict *p)
{
	if (!names_samples(&p->spec))
		return;
	fputs(",\"name\":", p->spec.out);
	put_sample(p);
}

/* The end of a line: the sample's name, where it has one. */
static void end_line(const struct sl_predict *p)
{
	const struct sl_predict_spec *s = &p->spec;

	if (s->format == SL_PREDICT_JSON) {
		put_json_name(p);
	} else if (names_samples(s)) {
		fputs(s->format == SL_PREDICT_CSV ? "," : "  ", s->out);
		put_sample(p);
	}
	if (s->format == SL_PREDICT_JSON)
		fprintf(s->out, "%s}", s->doubt);
	putc('\n', s->out);
}

static void put_text(const struct sl_predict *p, int32_t label, int best)
{
	const struct sl_predict_spec *s = &p->spec;

	fprintf(s->out, "%8" PRIu64, p->rows);
	if (!s->unlabelled)
		fprintf(s->out, " %6d", (int)label);
	fprintf(s->out, " %6d  ", best);
	put_value(p, p->value[best]);
	for (int k = 1; s->top && k < shown(s); k++) {
		fputs(k > 1 ? ", " : "  ", s->out);
		put_class(s, p->order[k]);
		putc(' ', s->out);
		put_value(p, p->value[p->order[k]]);
	}
	if (s->class_name) {
		fputs("  ", s->out);
		put_class(s, best);
	}
	end_line(p);
}

static void put_csv(const struct sl_predict *p, int32_t label, int best)
{
	const struct sl_predict_spec *s = &p->spec;
	char text[NUMBER];

	fprintf(s->out, "%" PRIu64, p->rows);
	if (!s->unlabelled)
		fprintf(s->out, ",%d", (int)label);
	fprintf(s->out, ",%d", best);
	for (int k = 0; k < shown(s); k++) {
		if (s->top)
			fprintf(s->out, ",%d", p->order[k]);
		if (s->top && s->class_name) {
			putc(',', s->out);
			put_class(s, p->order[k]);
		}
		fprintf(s->out, ",%s", number(p->value[p->order[k]], "", text));
	}
	if (s->class_name) {
		putc(',', s->out);
		put_class(s, best);
	}
	end_line(p);
}

static void put_json_top(const struct sl_predict *p)
{
	const struct sl_predict_spec *s = &p->spec;
	char text[NUMBER];

	fputs("\"top\":[", s->out);
	for (int k = 0; k < shown(s); k++) {
		fprintf(s->out, "%s{\"class\":%d", k ? "," : "", p->order[k]);
		if (s->class_name) {
			fputs(",\"class_name\":", s->out);
			put_class(s, p->order[k]);
		}
		fprintf(s->out, ",\"%s\":%s}", value_name(s), number(p->value[p->order[k]], "null", text));
	}
	fprintf(s->out, "]%s}\n", s->doubt);
}

static void put_json(const struct sl_predict *p, int32_t label, int best)
{
	const struct sl_predict_spec *s = &p->spec;
	char text[NUMBER];

	fprintf(s->out, "{\"sample\":%" PRIu64, p->rows);
	put_json_name(p);
	if (!s->unlabelled)
		fprintf(s->out, ",\"label\":%d", (int)label);
	fprintf(s->out, ",\"class\":%d,", best);
	if (s->class_name) {
		fputs("\"class_name\":", s->out);
		put_class(s, best);
		putc(',', s->out);
	}
	if (s->top) {
		put_json_top(p);
		return;
	}
	fprintf(s->out, "\"%s\":[", s->logits ? "logits" : "probabilities");
	for (int k = 0; k < s->classes; k++)
		fprintf(s->out, "%s%s", k ? "," : "", number(p->value[k], "null", text));
	fprintf(s->out, "]%s}\n", s->doubt);
}

/* ---- a number, or several ---- */

static const char *const sample_format[] = {"%8" PRIu64, "%" PRIu64, "{\"sample\":%" PRIu64};

static void put_number(const struct sl_predict *p, float right, float predicted)
{
	static const char *const unknown[] = {
		[SL_PREDICT_TEXT] = "-", [SL_PREDICT_CSV] = "", [SL_PREDICT_JSON] = "null"};
	static const char *const is[] = {" %12s", ",%s", ",\"number\":%s"};
	static const char *const said[] = {" %12s", ",%s", ",\"predicted\":%s"};
	const struct sl_predict_spec *s = &p->spec;
	char text[NUMBER];

	fprintf(s->out, sample_format[s->format], p->rows);
	if (!s->unlabelled)
		fprintf(s->out, is[s->format], number_of(s, 0, right, unknown[s->format], text));
	fprintf(s->out, said[s->format], number_of(s, 0, predicted, unknown[s->format], text));
	end_line(p);
}

/* Whether a sample has several numbers or labels; `right` and x are then [classes]. */
static bool has_several(const struct sl_predict_spec *s)
{
	return s->task->kind == SL_LEARN_LABELS || (s->task->each && s->classes > 1);
}

static bool is_said(const struct sl_predict_spec *s, int k, float x)
{
	return s->threshold ? sl_metric_sigmoid(x) >= s->threshold[k] : x > 0;
}

static double shown_value(const struct sl_predict_spec *s, float x)
{
	return s->task->kind == SL_LEARN_LABELS && !s->logits ? sl_metric_sigmoid(x) : (double)x;
}

/* What a line has for each number or label: the target, the predicted label, the value. In CSV each is a column, in
 * JSON a list. */
enum what { RIGHT, SAID, SHOWN, WHATS };

/* The beginning of a column's name in CSV, or the name of the list in JSON; NULL: a line does not have this. */
static const char *word_of(const struct sl_predict_spec *s, enum what what)
{
	const bool json = s->format == SL_PREDICT_JSON, labels = s->task->kind == SL_LEARN_LABELS;
	const char *const shown = json ? s->logits ? "logits" : "probabilities" : s->logits ? "logit_" : "probability_";

	if (what == RIGHT)
		return s->unlabelled ? NULL : !json ? "" : labels ? "labels" : "numbers";
	if (what == SAID)
		return !labels ? NULL : json ? "said" : "said_";
	return labels ? shown : json ? "predicted" : "predicted_";
}

static double value_of(const struct sl_predict_spec *s, enum what what, int k, const float *right, const float *x)
{
	return what == RIGHT ? (double)right[k] : what == SAID ? is_said(s, k, x[k]) : shown_value(s, x[k]);
}

static void put_several_csv_names(const struct sl_predict_spec *s)
{
	fputs("sample", s->out);
	for (int what = 0; what < WHATS; what++)
		if (word_of(s, what))
			put_names_of(s, word_of(s, what));
	fputs(names_samples(s) ? ",name\n" : "\n", s->out);
}

static void put_several_text_names(const struct sl_predict_spec *s)
{
	fprintf(s->out, "%8s", "sample");
	for (int k = 0; k < sl_by_target_shown(s->classes) && s->task->kind == SL_LEARN_NUMBER; k++) {
		const char *name = s->class_name ? s->class_name[k] : "number";

		if (!s->unlabelled)
			fprintf(s->out, " %12.12s", name);
		fprintf(s->out, " %12.12s", s->unlabelled ? name : "predicted");
	}
	if (s->task->kind == SL_LEARN_NUMBER && s->classes > sl_by_target_shown(s->classes))
		fprintf(s->out, "  (%d more: --csv, --json)", s->classes - sl_by_target_shown(s->classes));
	fprintf(s->out, "%s%s\n", s->task->kind == SL_LEARN_LABELS ? "  labels" : "", names_samples(s) ? "  name" : "");
}

static void put_lists(const struct sl_predict *p, const float *right, const float *x)
{
	const struct sl_predict_spec *s = &p->spec;
	const bool json = s->format == SL_PREDICT_JSON, numbers = s->task->kind == SL_LEARN_NUMBER;
	const char *unknown = json ? "null" : "";
	char text[NUMBER];

	for (int what = 0; what < WHATS; what++) {
		if (!word_of(s, what))
			continue;
		if (json)
			fprintf(s->out, ",\"%s\":[", word_of(s, what));
		for (int k = 0; k < s->classes; k++)
			fprintf(s->out, "%s%s", !json || k ? "," : "",
				numbers ? number_of(s, k, what == RIGHT ? right[k] : x[k], unknown, text)
					: number(value_of(s, what, k, right, x), unknown, text));
		fputs(json ? "]" : "", s->out);
	}
}

/* The labels that are predicted, or every number. */
static void put_several_text(const struct sl_predict *p, const float *right, const float *x)
{
	const struct sl_predict_spec *s = &p->spec;
	const bool labels = s->task->kind == SL_LEARN_LABELS;
	const char *before = "  ";
	char text[NUMBER];

	for (int k = 0; k < sl_by_target_shown(s->classes) && !labels; k++) {
		if (!s->unlabelled)
			fprintf(s->out, " %12s", number_of(s, k, right[k], "-", text));
		fprintf(s->out, " %12s", number_of(s, k, x[k], "-", text));
	}
	for (int k = 0; k < s->classes && labels; k++) {
		if (!is_said(s, k, x[k]))
			continue;
		fputs(before, s->out);
		put_class(s, k);
		putc(' ', s->out);
		put_value(p, shown_value(s, x[k]));
		before = ", ";
	}
	if (labels && before[0] == ' ')
		fputs("  -", s->out);
}

static void put_several(const struct sl_predict *p, const float *right, const float *x)
{
	fprintf(p->spec.out, sample_format[p->spec.format], p->rows);
	(p->spec.format == SL_PREDICT_TEXT ? put_several_text : put_lists)(p, right, x);
	end_line(p);
}

enum sl_err sl_predict_open(struct sl_predict *p, const struct sl_predict_spec *spec, int64_t batch,
			    struct sl_fail *fail)
{
	*p = (struct sl_predict){.spec = *spec};
	p->spec.doubt = spec->doubt ? spec->doubt : "";
	p->spec.h += !spec->h;
	p->spec.w += !spec->w;
	p->row = calloc((size_t)batch * (size_t)p->spec.h * (size_t)p->spec.w * (size_t)spec->classes, sizeof *p->row);
	p->mask = calloc((size_t)p->spec.h, (size_t)p->spec.w);
	p->value = calloc((size_t)spec->classes, sizeof *p->value);
	p->order = calloc((size_t)spec->classes, sizeof *p->order);
	if (!p->row || !p->value || !p->order || !p->mask) {
		sl_predict_close(p);
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the logits of a batch");
	}
	return spec->task->kind == SL_LEARN_PIXELS
		       ? sl_mask_names_open(&p->names, spec->set, spec->dir, ".png", spec->force, fail)
		       : SL_OK;
}

static void put_names(const struct sl_predict_spec *s)
{
	if (s->format == SL_PREDICT_TEXT)
		(has_several(s) ? put_several_text_names : put_text_names)(s);
	if (s->format == SL_PREDICT_CSV)
		(has_several(s) ? put_several_csv_names : put_csv_names)(s);
}

static void put_class_of(struct sl_predict *p, int32_t label, const float *x)
{
	static void (*const put[])(const struct sl_predict *p, int32_t label, int best) = {put_text, put_csv, put_json};
	const int best = sl_metric_largest(x, p->spec.classes);

	fill_values(p, x, best);
	fill_order(p, x);
	put[p->spec.format](p, label, best);
	p->correct += best == label;
}

/* ---- a class for each pixel ---- */

/* Writes p->mask of the current sample, as large as its picture. */
static enum sl_err write_mask(struct sl_predict *p, const char *path)
{
	const struct sl_predict_spec *s = &p->spec;
	const int *size = p->work.whole;
	struct sl_value value[SL_FIELD_COUNT] = {0};
	enum sl_err err;

	p->room[0].wanted = sl_transform_begin(s->transform, &p->work, 0, 0, (int64_t)p->rows);
	err = s->set->source->sample(s->set, (int64_t)p->rows, &p->room[0], value, &p->fail);
	if (err)
		return err;
	if (!p->work.chosen) /* the source has read the whole picture */
		p->room[0].wanted->choose(p->room[0].wanted->arg,
					  &(struct sl_window){.h = (int)value[SL_FIELD_INPUT].dim[0],
							      .w = (int)value[SL_FIELD_INPUT].dim[1]});
	err = sl_room_need(&p->room[1], (size_t)size[0] * (size_t)size[1]);
	if (err)
		return sl_fail_set(&p->fail, err, "no memory for a mask of %d x %d", size[1], size[0]);
	sl_transform_back(s->transform, p->room[1].data, size[0], size[1], p->mask);
	return sl_picture_write_mask(path, p->room[1].data, size[0], size[1], &p->fail);
}

static void put_mask(struct sl_predict *p, const int32_t *right, const float *x)
{
	const struct sl_predict_spec *s = &p->spec;
	char path[SL_MASK_NAME];

	for (int64_t i = 0; i < (int64_t)s->h * s->w; i++) {
		p->mask[i] = (uint8_t)sl_metric_largest(x + i * s->classes, s->classes);
		p->counted += right[i] != SL_LEARN_IGNORED;
		p->correct += right[i] == p->mask[i];
	}
	if (sl_mask_names_path(&p->names, (int64_t)p->rows, path, &p->fail) == SL_OK && write_mask(p, path) == SL_OK)
		fprintf(s->out, "%s\n", path);
}

/* Whether the network has predicted the sample. Otherwise the command ends, as `generate` does. */
static bool is_predicted(struct sl_predict *p, const float *x, int64_t labels)
{
	const struct sl_predict_spec *s = &p->spec;
	char name[NAME] = "";

	for (int64_t i = 0; i < labels && !p->fail.code; i++) {
		if (sl_metric_is_defined(s->task->kind, x + i * s->classes, s->classes))
			continue;
		if (names_samples(s))
			s->set->source->sample_name(s->set, p->index, name, sizeof name);
		sl_text_make_safe(name, '?');
		(void)!sl_fail_set(&p->fail, SL_ERR_NONFINITE,
				   "sample %" PRIu64 "%s%.200s%s: the network's outputs hold NaN or Inf, so nothing is "
				   "predicted: look at this sample, and whether `splitc eval` has a loss",
				   p->rows, name[0] ? " (" : "", name, name[0] ? ")" : "");
	}
	return !p->fail.code;
}

static void put_row(struct sl_predict *p, const void *target, int64_t n)
{
	const int64_t labels = (int64_t)p->spec.h * p->spec.w;
	const float *x = p->row + n * labels * p->spec.classes;

	if (!is_predicted(p, x, labels))
		return;
	if (p->spec.task->kind == SL_LEARN_PIXELS)
		put_mask(p, (const int32_t *)target + n * labels, x);
	else if (p->spec.task->met)
		put_class_of(p, ((const int32_t *)target)[n], x);
	else if (has_several(&p->spec))
		put_several(p, (const float *)target + n * p->spec.classes, x);
	else
		put_number(p, ((const float *)target)[n], *x);
}

void sl_predict_batch(struct sl_predict *p, const void *target, const int32_t *samples, const struct sl_fail *row_fail,
		      int64_t rows)
{
	if (!p->rows && p->spec.task->kind != SL_LEARN_PIXELS)
		put_names(&p->spec);
	for (int64_t n = 0; n < rows && !p->fail.code; n++, p->rows += !p->fail.code) {
		p->index = (int64_t)p->rows;
		if (samples[n] != (int32_t)p->rows)
			p->unread++;
		else if (!row_fail || !row_fail[n].code)
			put_row(p, target, n);
		if (row_fail && (row_fail[n].code || p->fail.code))
			sl_predict_pass(p, row_fail[n].code ? &row_fail[n] : &p->fail);
	}
}

void sl_predict_line(struct sl_predict *p, const void *target, int64_t row, uint64_t number)
{
	p->rows = number;
	p->index = row;
	p->fail = (struct sl_fail){.code = SL_OK};
	put_row(p, target, row);
	if (p->fail.code)
		sl_predict_refuse(p, number, &p->fail);
}
