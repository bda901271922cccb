#include "client/predict/case_lines.h"

#include <math.h>

#include "client/figures/interval.h"
#include "common/base/wrap.h"
#include "common/telemetry/json.h"

enum { WIDE = 28 };

static const char *name_of(const struct sl_case_lines *l, int k, char number[SL_FIGURE_TEXT])
{
	snprintf(number, SL_FIGURE_TEXT, "%d", k);
	return l->class_name ? l->class_name[k] : number;
}

static const char *figure(double x, int digits, char out[SL_FIGURE_TEXT])
{
	snprintf(out, SL_FIGURE_TEXT, isfinite(x) ? "%.*f" : "-", digits, x);
	return out;
}

static void add(struct sl_case_sums *s, const struct sl_overlap *of)
{
	const bool has = isfinite(of->dice), far = isfinite(of->hd95);

	s->cases += has;
	s->empty += !has;
	s->distances += far;
	s->dice += has ? of->dice : 0;
	s->square += has ? of->dice * of->dice : 0;
	s->hd95 += far ? of->hd95 : 0;
}

static json_t *classes_json(const struct sl_case_lines *l, const struct sl_overlap *of)
{
	char number[SL_FIGURE_TEXT];
	json_t *all = json_array();

	for (int k = 1; k < l->classes; k++)
		json_array_append_new(all,
				      json_pack("{s:i, s:o, s:I, s:I, s:o, s:o}", "class", k, "class_name",
						sl_json_text(name_of(l, k, number)), "voxels", (json_int_t)of[k].right,
						"predicted_voxels", (json_int_t)of[k].said, "dice",
						sl_json_real(of[k].dice), "hd95_mm", sl_json_real(of[k].hd95)));
	return all;
}

static void put_json(const struct sl_case_lines *l, int64_t i, const char *name, const char *mask,
		     const struct sl_fail *why, const struct sl_overlap *of)
{
	json_t *line = json_pack("{s:I, s:o}", "sample", (json_int_t)i, "name", sl_json_text(name));

	json_object_set_new(line, why ? "error" : "mask", sl_json_text(why ? sl_err_name(why->code) : mask));
	if (why)
		json_object_set_new(line, "message", sl_json_text(why->text));
	if (of)
		json_object_set_new(line, "classes", classes_json(l, of));
	json_object_update(line, (json_t *)(uintptr_t)l->doubt);
	sl_json_print(line, JSON_COMPACT, stdout);
}

void sl_case_lines_put(struct sl_case_lines *l, int64_t i, const char *name, const char *mask,
		       const struct sl_fail *why, const struct sl_overlap *of)
{
	char text[3][SL_FIGURE_TEXT];

	for (int k = 1; k < l->classes && of; k++)
		add(&l->sum[k], &of[k]);
	if (l->json)
		put_json(l, i, name, mask, why, of);
	else if (!why)
		puts(mask);
	for (int k = 1; k < l->classes && of && !l->json; k++) {
		fputs("  ", stdout);
		sl_print_cell(stdout, name_of(l, k, text[0]), 2, WIDE);
		printf(" Dice %6s  HD95 %7s mm\n", figure(of[k].dice, 4, text[1]), figure(of[k].hd95, 2, text[2]));
	}
	(void)!fflush(stdout);
}

void sl_case_lines_end(const struct sl_case_lines *l)
{
	char text[4][SL_FIGURE_TEXT];

	if (l->json || l->classes < 2 || !(l->sum[1].cases + l->sum[1].empty))
		return;
	printf("\n%-*s %5s %5s  %6s  %-15s  %7s %5s\n", WIDE, "means of classes", "cases", "empty", "Dice",
	       "95 % interval", "HD95 mm", "cases");
	for (int k = 1; k < l->classes; k++) {
		const struct sl_case_sums *s = &l->sum[k];
		const struct sl_interval x = sl_interval_mean(s->dice, s->square, s->cases);

		sl_print_cell(stdout, name_of(l, k, text[0]), 0, WIDE);
		printf(" %5lld %5lld  %6s", (long long)s->cases, (long long)s->empty,
		       figure(s->dice / (double)s->cases, 4, text[0]));
		printf("  %6s … %6s  %7s %5lld\n", figure(x.low, 4, text[1]), figure(x.high, 4, text[2]),
		       figure(s->hd95 / (double)s->distances, 2, text[3]), (long long)s->distances);
	}
}
