/* Which attacks of labels are made on what, and their figures. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/leak/labels.h"
#include "client/leak/leak.h"

enum { NEIGHBOURS = 10 };

/* Attacks of labels, in the order of their figures. BOTH: clusters of mid_act and mid_grad side by side. */
static const struct label_attack {
	enum sl_leak_kind kind;
	enum sl_dir on;
	enum { KNOWN, CLUSTERS, BOTH, NEAREST } how;
} label_attacks[] = {
	{SL_LEAK_LABELS_ONE, SL_DIR_MID_GRAD, KNOWN},
	{SL_LEAK_LABELS_CLUSTERS, SL_DIR_MID_GRAD, CLUSTERS},
	{SL_LEAK_LABELS_CLUSTERS_ACT, SL_DIR_MID_ACT, CLUSTERS},
	{SL_LEAK_LABELS_CLUSTERS_BOTH, SL_DIR_MID_GRAD, BOTH},
	{SL_LEAK_LABELS_HEAD, SL_DIR_HEAD_ACT, NEAREST},
	{SL_LEAK_LABELS_MID, SL_DIR_MID_ACT, NEAREST},
	{SL_LEAK_SITE_ONE, SL_DIR_HEAD_GRAD, KNOWN},
	{SL_LEAK_SITE_CLUSTERS, SL_DIR_HEAD_GRAD, CLUSTERS},
	{SL_LEAK_SITE_NEAREST, SL_DIR_HEAD_GRAD, NEAREST},
};

/* What an attack found: its share, that of chance, and the label that it gave each sample. */
struct label_guess {
	double found, chance;
	int32_t *predicted; /* [n] */
};

/* Where the labels of texts are attacked, each row is a text. */
static const struct sl_crossed *labelled(const struct sl_leak *l)
{
	return l->vocab ? &l->text : &l->victim;
}

static void find_label(const struct sl_leak *l, const struct label_attack *a, const float *x, int64_t row,
		       struct label_guess *g)
{
	const struct sl_crossed *v = labelled(l);
	const struct sl_leak_vectors vectors = {
		1 + (a->how == BOTH), {x, v->act[SL_DIR_MID_ACT]}, {row, sl_shape_row(&v->mid)}};

	if (a->how == KNOWN)
		g->found = sl_leak_labels_known(x, v->n, row, v->label, l->classes, g->predicted);
	else if (a->how == NEAREST)
		g->found = sl_leak_labels_neighbours(x, v->n, row, v->label, NEIGHBOURS, g->predicted);
	else
		g->found = sl_leak_labels_clusters(&vectors, v->n, v->label, l->classes, g->predicted, &g->chance);
}

/* The most that an attack finds in one of the values, or in all together. `other` is scratch; it may be swapped. */
static void most_found(struct sl_leak *l, const struct label_attack *a, struct label_guess *g,
		       struct label_guess *other)
{
	const struct sl_crossed *v = labelled(l);
	const struct sl_joint *j = &v->joint[a->on == SL_DIR_MID_ACT || a->on == SL_DIR_MID_GRAD];
	const size_t used = strlen(l->joint);
	int worst = -1;

	find_label(l, a, v->act[a->on], sl_shape_row(&j->row), g);
	for (int i = 0; i < j->n && j->n > 1 && a->how != BOTH; i++) {
		float *alone = sl_joint_value(j, v->act[a->on], v->n, i);
		const struct label_guess before = *g;

		other->found = NAN;
		other->chance = g->chance;
		if (!alone)
			l->figures.err = SL_ERR_NOMEM;
		else
			find_label(l, a, alone, sl_shape_row(&j->row) / j->all * j->value[i].width, other);
		free(alone);
		if (!(other->found > g->found) && !isnan(g->found))
			continue;
		*g = *other;
		*other = before;
		worst = i;
	}
	if (worst >= 0)
		snprintf(l->joint + used, sizeof l->joint - used, " %s: %s.%d.", sl_leak_kinds[a->kind].name,
			 sl_dir_name(a->on), worst);
}

static void add_label(struct sl_leak *l, const struct label_attack *a, const struct label_guess *g)
{
	const struct sl_crossed *v = labelled(l);
	double *of_class = calloc((size_t)l->classes, sizeof *of_class);

	sl_leak_figures_add(&l->figures, a->kind, a->on == SL_DIR_HEAD_GRAD ? "site_a" : "labels", NULL,
			    (struct sl_leak_spread){.mean = g->found}, g->chance, v->n);
	if (of_class && !isnan(g->found))
		sl_leak_labels_share(g->predicted, v->label, v->n, l->classes, of_class);
	for (int c = 0; c < l->classes && of_class && isnan(g->found); c++)
		of_class[c] = NAN;
	sl_leak_figures_classes(&l->figures, of_class, l->classes);
}

void sl_leak_find_labels(struct sl_leak *l)
{
	const struct sl_crossed *v = labelled(l);
	const double majority = sl_leak_labels_majority(v->label, v->n, l->classes);
	struct label_guess g = {.predicted = malloc((size_t)v->n * sizeof *g.predicted + 1)};
	struct label_guess other = {.predicted = malloc((size_t)v->n * sizeof *other.predicted + 1)};

	if (!g.predicted || !other.predicted)
		l->figures.err = SL_ERR_NOMEM;
	if (!v->act[SL_DIR_MID_GRAD])
		l->omitted[SL_LEAK_GRADIENTS] =
			"Labels from gradients: with this config no gradient of the tail crosses.";
	for (size_t i = 0; i < sizeof label_attacks / sizeof label_attacks[0] && !l->figures.err; i++) {
		const struct label_attack *a = &label_attacks[i];

		if (!v->act[a->on] || (a->how == BOTH && !v->act[SL_DIR_MID_ACT]))
			continue;
		g.chance = majority;
		most_found(l, a, &g, &other);
		add_label(l, a, &g);
	}
	free(g.predicted);
	free(other.predicted);
}
