#include "client/leak/figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LISTED = 20 }; /* classes in a text */

const struct sl_leak_kind_info sl_leak_kinds[SL_LEAK_KINDS] = {
	[SL_LEAK_AGAIN] =
		{"found_again", "samples found again",
		 "Re-identification: the share of reconstructions that are nearer to their own original than to "
		 "any other. Chance: one of them.",
		 SL_LEAK_SHARE},
	[SL_LEAK_PSNR] =
		{"psnr_db", "PSNR of reconstructed pictures",
		 "Closeness to the originals, by the mean squared error. From about 20 dB on a person sees what a "
		 "picture shows. Chance: guessing the mean picture.",
		 SL_LEAK_DB},
	[SL_LEAK_SSIM] = {"ssim", "SSIM of reconstructed pictures",
			  "Structural similarity; 1: equal to the original. Chance: guessing the mean picture.",
			  SL_LEAK_NUMBER},
	[SL_LEAK_R2] =
		{"r2", "R² of reconstructed columns, median",
		 "The share of a column's variation that is reconstructed; 1: every value. Chance: guessing its mean. "
		 "Columns whose values are all equal do not count.",
		 SL_LEAK_NUMBER},
	[SL_LEAK_R2_COLUMN] = {"", "", "Undefined also where all values are equal.", SL_LEAK_NUMBER},
	[SL_LEAK_PROBE] =
		{"tokens_by_probe", "tokens found by a linear probe",
		 "The probe has learned from other texts, and knows only their tokens. Chance: the most frequent "
		 "token.",
		 SL_LEAK_SHARE},
	[SL_LEAK_WORDS] =
		{"tokens_by_nearest_row", "tokens found by the nearest row of the word table",
		 "Nearest to the activation in direction. This attack needs no data. Chance: the most frequent "
		 "token.",
		 SL_LEAK_SHARE},
	[SL_LEAK_LABELS_ONE] = {"mid_grad_one_example", "labels from gradients, one known example of each class",
				"By the direction of the gradients. Chance: the most frequent label.", SL_LEAK_SHARE,
				SL_LEAK_OF_LABELS},
	[SL_LEAK_LABELS_CLUSTERS] =
		{"mid_grad_clusters", "labels from gradients, no known label",
		 "Purity of clusters (k-means, the best of 50 starts by distance): the share of samples with the "
		 "most frequent label of their cluster. "
		 "Chance: the same clusters with shuffled labels.",
		 SL_LEAK_SHARE, SL_LEAK_OF_LABELS},
	[SL_LEAK_LABELS_CLUSTERS_ACT] = {"mid_act_clusters", "labels from the middle's activations, no known label",
					 "Purity of clusters, in the same way.", SL_LEAK_SHARE, SL_LEAK_OF_LABELS},
	[SL_LEAK_LABELS_CLUSTERS_BOTH] = {"mid_both_clusters",
					  "labels from the middle's activations and gradients, no known label",
					  "Purity of clusters of both side by side.", SL_LEAK_SHARE, SL_LEAK_OF_LABELS},
	[SL_LEAK_LABELS_HEAD] =
		{"head_act_neighbours", "labels from the head's activations",
		 "k-NN: the most frequent label of the ten nearest known samples. Chance: the most frequent "
		 "label of all.",
		 SL_LEAK_SHARE, SL_LEAK_OF_LABELS},
	[SL_LEAK_LABELS_MID] = {"mid_act_neighbours", "labels from the middle's activations", "In the same way.",
				SL_LEAK_SHARE, SL_LEAK_OF_LABELS},
	[SL_LEAK_SITE_ONE] = {"head_grad_one_example", "labels from head_grad, one known example of each class",
			      "By the direction of the gradients. Chance: the most frequent label.", SL_LEAK_SHARE,
			      SL_LEAK_OF_LABELS},
	[SL_LEAK_SITE_CLUSTERS] = {"head_grad_clusters", "labels from head_grad, no known label",
				   "Purity of clusters. Chance: the same clusters with shuffled labels.", SL_LEAK_SHARE,
				   SL_LEAK_OF_LABELS},
	[SL_LEAK_SITE_NEAREST] = {"head_grad_neighbours", "labels from head_grad, by neighbours",
				  "The most frequent label of the ten nearest known samples.", SL_LEAK_SHARE,
				  SL_LEAK_OF_LABELS},
	[SL_LEAK_SITE_MASKS] = {"head_grad_masks", "pixels of masks from head_grad",
				"The share of pixels whose class a decoder finds. Chance: the most frequent class.",
				SL_LEAK_SHARE, SL_LEAK_OF_LABELS},
	[SL_LEAK_DCOR] = {"dcor_squared", "distance correlation of inputs and activations, squared",
			  "Without bias. Near 1: similar inputs send similar activations. Near 0 proves nothing.",
			  SL_LEAK_NUMBER},
};

void sl_leak_figures_add(struct sl_leak_figures *to, enum sl_leak_kind kind, const char *group, const char *key,
			 struct sl_leak_spread s, double chance, int64_t n)
{
	const struct sl_leak_kind_info *info = &sl_leak_kinds[kind];
	struct sl_leak_figure *item = to->item;

	if (to->n == to->room) {
		item = realloc(item, (size_t)(2 * to->room + 16) * sizeof *item);
		if (!item) {
			to->err = SL_ERR_NOMEM;
			return;
		}
		to->item = item;
		to->room = 2 * to->room + 16;
	}
	if (info->unit == SL_LEAK_SHARE)
		sl_leak_interval(s.mean, n, &s.p10, &s.p90);
	item[to->n++] = (struct sl_leak_figure){.kind = kind,
						.group = group,
						.key = key ? key : info->key,
						.value = s.mean,
						.low = s.p10,
						.high = s.p90,
						.chance = chance,
						.n = n,
						.worst = -1};
}

void sl_leak_figures_classes(struct sl_leak_figures *to, double *of_class, int classes)
{
	struct sl_leak_figure *f = to->item + to->n - 1;

	if (to->err || !of_class) {
		to->err = SL_ERR_NOMEM;
		free(of_class);
		return;
	}
	f->of_class = of_class;
	f->classes = classes;
	for (int c = 0; c < classes; c++)
		if (!isnan(of_class[c]) && (f->worst < 0 || of_class[c] < of_class[f->worst]))
			f->worst = c;
}

void sl_leak_figures_close(struct sl_leak_figures *f)
{
	for (int i = 0; i < f->n; i++)
		free(f->item[i].of_class);
	free(f->item);
	*f = (struct sl_leak_figures){0};
}

static const char *const unit_text[] = {[SL_LEAK_DB] = " dB", [SL_LEAK_SHARE] = " %", [SL_LEAK_NUMBER] = ""};

static void number_text(const struct sl_leak_figure *f, double value, const char *unit, char out[SL_LEAK_TEXT])
{
	const enum sl_leak_unit of = sl_leak_kinds[f->kind].unit;

	snprintf(out, SL_LEAK_TEXT, "%.*f%s", of == SL_LEAK_NUMBER ? 2 : 1, of == SL_LEAK_SHARE ? 100 * value : value,
		 unit);
}

const char *sl_leak_text(const struct sl_leak_figure *f, double value, char out[SL_LEAK_TEXT])
{
	if (isnan(value))
		snprintf(out, SL_LEAK_TEXT, "undefined");
	else
		number_text(f, value, unit_text[sl_leak_kinds[f->kind].unit], out);
	return out;
}

const char *sl_leak_classes_text(const struct sl_leak_figure *f, char out[SL_LEAK_CLASSES_TEXT])
{
	char text[SL_LEAK_TEXT];
	size_t at;

	out[0] = '\0';
	if (f->worst < 0)
		return out;
	snprintf(out, SL_LEAK_CLASSES_TEXT, "worst class %d: %s", f->worst,
		 sl_leak_text(f, f->of_class[f->worst], text));
	for (int c = 0; c < f->classes && f->classes <= MOST_LISTED; c++) {
		at = strlen(out);
		number_text(f, f->of_class[c], "", text);
		snprintf(out + at, SL_LEAK_CLASSES_TEXT - at, "%s %s",
			 c ? "" : "; by class:", isnan(f->of_class[c]) ? "–" : text);
	}
	return out;
}

const char *sl_leak_range_text(const struct sl_leak_figure *f, char out[SL_LEAK_RANGE_TEXT])
{
	char low[SL_LEAK_TEXT], high[SL_LEAK_TEXT];

	number_text(f, f->low, "", low);
	number_text(f, f->high, unit_text[sl_leak_kinds[f->kind].unit], high);
	out[0] = '\0';
	if (!isnan(f->low))
		snprintf(out, SL_LEAK_RANGE_TEXT, "%s to %s", low, high);
	return out;
}

const char *const sl_leak_of_words[SL_LEAK_OFS] = {[SL_LEAK_OF_DATA] = "data", [SL_LEAK_OF_LABELS] = "labels"};

const char *sl_leak_in_short(const struct sl_leak_figures *l, enum sl_leak_of of, char out[SL_LEAK_SHORT_TEXT])
{
	const struct sl_leak_figure *most = NULL;
	double above = -1;
	bool known = false, undefined = false;
	char value[SL_LEAK_TEXT], chance[SL_LEAK_TEXT];

	for (const struct sl_leak_figure *f = l->item; f < l->item + l->n; f++) {
		const double share = (f->value - f->chance) / (1 - f->chance);

		if (sl_leak_kinds[f->kind].unit != SL_LEAK_SHARE || sl_leak_kinds[f->kind].of != of)
			continue;
		undefined |= isnan(f->value);
		known |= !isnan(f->value);
		if (f->low > f->chance && share > above) {
			above = share;
			most = f;
		}
	}
	if (most)
		snprintf(out, SL_LEAK_SHORT_TEXT, "%s: %s; a guess has %s", sl_leak_kinds[most->kind].name,
			 sl_leak_text(most, most->value, value), sl_leak_text(most, most->chance, chance));
	else
		snprintf(out, SL_LEAK_SHORT_TEXT, "%s",
			 known       ? "no attack found more than a guess does, which proves nothing"
			 : undefined ? "undefined, since what crosses holds NaN or Inf; nothing follows from that"
				     : "not measured");
	return out;
}
