/* What splitc leak finds, as a list: terminal, page, JSON and CSV all print it from here. */
#ifndef SL_CLIENT_LEAK_FIGURES_H
#define SL_CLIENT_LEAK_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "client/figures/similarity.h"

enum sl_leak_kind {
	SL_LEAK_PSNR,
	SL_LEAK_SSIM,
	SL_LEAK_R2,
	SL_LEAK_R2_COLUMN, /* of one column, which the figure's key names */
	SL_LEAK_AGAIN,
	SL_LEAK_PROBE,
	SL_LEAK_WORDS,
	SL_LEAK_LABELS_ONE,
	SL_LEAK_LABELS_CLUSTERS,
	SL_LEAK_LABELS_CLUSTERS_ACT,
	SL_LEAK_LABELS_CLUSTERS_BOTH,
	SL_LEAK_LABELS_HEAD,
	SL_LEAK_LABELS_MID,
	SL_LEAK_SITE_ONE, /* by the party with features of a vertical pair */
	SL_LEAK_SITE_CLUSTERS,
	SL_LEAK_SITE_NEAREST,
	SL_LEAK_SITE_MASKS,
	SL_LEAK_DCOR,
	SL_LEAK_KINDS
};

struct sl_leak_kind_info {
	const char *key;   /* in leak.json */
	const char *name;  /* in a table */
	const char *means; /* a sentence */
	enum sl_leak_unit { SL_LEAK_DB, SL_LEAK_SHARE, SL_LEAK_NUMBER } unit;
	enum sl_leak_of { SL_LEAK_OF_DATA, SL_LEAK_OF_LABELS, SL_LEAK_OFS } of; /* what is found */
};
extern const struct sl_leak_kind_info sl_leak_kinds[SL_LEAK_KINDS];

struct sl_leak_figure {
	enum sl_leak_kind kind;
	const char *group; /* the object of leak.json that has it; "": the root */
	const char *key;   /* its key there */
	/* NAN: undefined. low and high: of a share the 95 % interval, else the 10th and 90th percentile of the samples
	 * or columns; both NAN: none. chance: what a guess without the crossing tensors reaches; NAN: not known. */
	double value, low, high, chance;
	int64_t n; /* samples */
	/* Of labels: the share of each class alone, NAN where it has no sample; NULL: none. The list owns it. */
	double *of_class;
	int classes, worst; /* `worst` has the lowest share; -1: none has one */
};

struct sl_leak_figures {
	struct sl_leak_figure *item;
	int n, room;
	enum sl_err err; /* NOMEM: the list lacks figures */
};

/* Appends. key NULL: the kind's; group and key are borrowed. `s`: value, low and high; a share gets its interval. */
void sl_leak_figures_add(struct sl_leak_figures *to, enum sl_leak_kind kind, const char *group, const char *key,
			 struct sl_leak_spread s, double chance, int64_t n);
/* Gives the last figure the shares of its classes. Takes ownership of `of_class`. */
void sl_leak_figures_classes(struct sl_leak_figures *to, double *of_class, int classes);
void sl_leak_figures_close(struct sl_leak_figures *figures); /* idempotent */

enum {
	SL_LEAK_TEXT = 32,
	SL_LEAK_RANGE_TEXT = 2 * SL_LEAK_TEXT + 4,
	SL_LEAK_CLASSES_TEXT = 512,
	SL_LEAK_SHORT_TEXT = 256
};
extern const char *const sl_leak_of_words[SL_LEAK_OFS]; /* "data", "labels" */
/* What the figures say about data or labels, as a sentence without its end: the share that is furthest above chance,
 * in parts of what chance leaves, if its whole interval is above; or that none is, or that none is known. Returns out.
 */
const char *sl_leak_in_short(const struct sl_leak_figures *figures, enum sl_leak_of of, char out[SL_LEAK_SHORT_TEXT]);
/* "26.5 dB", "72.1 %", "0.92"; NAN: "undefined". Returns out. */
const char *sl_leak_text(const struct sl_leak_figure *figure, double value, char out[SL_LEAK_TEXT]);
/* "worst class 3: 41.2 %; by class: 97.0 94.1 …"; many classes are not listed; "": it has none. Returns out. */
const char *sl_leak_classes_text(const struct sl_leak_figure *figure, char out[SL_LEAK_CLASSES_TEXT]);
/* "62.1 to 80.2 %"; "": it has none. Returns out. */
const char *sl_leak_range_text(const struct sl_leak_figure *figure, char out[SL_LEAK_RANGE_TEXT]);

#endif
