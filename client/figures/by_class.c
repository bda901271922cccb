#include "client/figures/by_class.h"

#include <math.h>
#include <stdio.h>

#include "client/data/class_name.h"
#include "common/base/wrap.h"
#include "common/telemetry/json.h"

enum { MOST_CURVES = 20 };

struct of_class {
	int64_t is, said, right; /* samples: of the class; predicted as it; both */
	int other;               /* the class for which it is most often mistaken; -1: none */
};

static struct of_class look(const int64_t *c, int width, int k)
{
	struct of_class o = {.right = c[k * width + k], .other = -1};

	for (int j = 0; j < width; j++) {
		o.is += c[k * width + j];
		o.said += c[j * width + k];
		if (j != k && c[k * width + j] > (o.other < 0 ? 0 : c[k * width + o.other]))
			o.other = j;
	}
	return o;
}

static void put_share(int64_t part, int64_t all)
{
	if (all)
		printf("  %7.2f %%", 100 * (double)part / (double)all);
	else
		printf("  %9s", "-");
}

/* ---- several numbers or labels ---- */

/* Whether some target has a metric of its own. Otherwise nothing was evaluated, or the only target's metrics are the
 * run's. */
static bool has_targets(const struct sl_scores *scores, int metrics)
{
	bool any = false;

	for (int k = 0; scores && sl_scores_targets(scores) > 1 && k < sl_scores_targets(scores); k++)
		for (int i = 0; i < metrics; i++)
			any |= !isnan(sl_scores_of(scores, i, k));
	return any;
}

static int count(const struct sl_score score[SL_SCORES_MOST])
{
	int n = 0;

	while (n < SL_SCORES_MOST && score[n].metric)
		n++;
	return n;
}

void sl_by_target_print(const struct sl_scores *scores, const struct sl_score score[SL_SCORES_MOST],
			const struct sl_set *set)
{
	const int n = count(score), all = scores ? sl_scores_targets(scores) : 0, shown = sl_by_target_shown(all);
	char text[SL_CLASS_NAME_BYTES], figure[SL_FIGURE_TEXT];

	if (!has_targets(scores, n))
		return;
	putchar('\n');
	for (int i = 0; i < n; i++)
		if (!score[i].metric->pooled)
			printf("%20s", score[i].metric->name);
	puts("  of");
	for (int k = 0; k < shown; k++) {
		for (int i = 0; i < n; i++) {
			const double value = sl_scores_of(scores, i, k);

			if (!score[i].metric->pooled)
				printf("%20s", sl_figure_text(value, figure));
		}
		printf("  %s\n", sl_class_name(set, k, text));
	}
	if (shown < all)
		printf("%20s and %d more, of which --json has the metrics\n", "", all - shown);
}

void sl_by_target_json(json_t *root, const struct sl_scores *scores, const struct sl_score score[SL_SCORES_MOST],
		       const struct sl_set *set)
{
	const int n = count(score);
	json_t *list;
	char text[SL_CLASS_NAME_BYTES];

	if (!has_targets(scores, n))
		return;
	list = json_array();
	for (int k = 0; k < sl_scores_targets(scores); k++) {
		json_t *one = json_pack("{s:s}", "name", sl_class_name(set, k, text));

		for (int i = 0; i < n; i++)
			if (!score[i].metric->pooled)
				json_object_set_new(one, score[i].metric->name,
						    sl_json_real(sl_scores_of(scores, i, k)));
		json_array_append_new(list, one);
	}
	json_object_set_new(root, "targets", list);
}

/* ---- classes ---- */

void sl_by_class_print(const struct sl_scores *scores, const struct sl_set *set)
{
	char text[SL_CLASS_NAME_BYTES];
	int width;
	const int64_t *c = scores ? sl_scores_confusion(scores, &width) : NULL;

	if (c)
		printf("\nsamples  precision     recall         F1  class\n");
	for (int k = 0; c && k < width; k++) {
		const struct of_class o = look(c, width, k);

		if (!o.is && !o.said)
			continue;
		printf("%7lld", (long long)o.is);
		put_share(o.right, o.said);
		put_share(o.right, o.is);
		put_share(2 * o.right, o.is + o.said);
		printf("  %s", sl_class_name(set, k, text));
		if (o.other >= 0)
			printf(", %lld taken for %s", (long long)c[k * width + o.other],
			       sl_class_name(set, o.other, text));
		putchar('\n');
	}
}

static json_t *curve_of(const struct sl_scores *scores, int k)
{
	struct sl_roc_point point[SL_METRIC_ROC_POINTS];
	double area = NAN;
	const int n = sl_scores_roc(scores, k, point, &area);
	const struct sl_interval sure = sl_scores_area(scores); /* of two classes alone */
	json_t *points = json_array();

	for (int i = 0; i < n; i++)
		json_array_append_new(points, json_pack("[f, f]", point[i].others, point[i].own));
	return json_pack("{s:i, s:o, s:o, s:o}", "class", k, "auc", sl_json_real(area), "interval",
			 isfinite(sure.low) ? json_pack("[f, f]", sure.low, sure.high) : json_null(), "points", points);
}

/* Adds ROC curves and calibration bins. Of two classes, class 1 has a curve; of up to 20, each has one against the
 * rest; of more there are none, null. */
static void put_curves(json_t *root, const struct sl_scores *scores, int width)
{
	struct sl_metric_bin bin[SL_METRIC_BINS];
	const bool binned = sl_scores_bins(scores, bin);
	json_t *roc = json_array(), *bins = json_array();

	for (int k = width == 2; k < width && width <= MOST_CURVES; k++)
		json_array_append_new(roc, curve_of(scores, k));
	for (int b = 0; b < SL_METRIC_BINS && binned; b++)
		json_array_append_new(bins, json_pack("{s:I, s:f, s:f}", "samples", (json_int_t)bin[b].n, "probability",
						      bin[b].probability, "right", bin[b].right));
	if (width <= MOST_CURVES)
		json_object_set(root, "roc", roc);
	else
		json_object_set_new(root, "roc", json_null());
	json_decref(roc);
	json_object_set_new(root, "calibration", bins);
}

void sl_by_class_json(json_t *root, const struct sl_scores *scores, const struct sl_set *set)
{
	json_t *names = json_array(), *rows = json_array();
	char text[SL_CLASS_NAME_BYTES];
	int width;
	const int64_t *c = scores ? sl_scores_confusion(scores, &width) : NULL;

	for (int k = 0; c && k < width; k++) {
		json_t *row = json_array();

		for (int j = 0; j < width; j++)
			json_array_append_new(row, json_integer((json_int_t)c[k * width + j]));
		json_array_append_new(rows, row);
		json_array_append_new(names, json_string(sl_class_name(set, k, text)));
	}
	if (c) {
		json_object_set(root, "classes", names);
		json_object_set(root, "confusion", rows);
		put_curves(root, scores, width);
	}
	json_decref(names);
	json_decref(rows);
}
