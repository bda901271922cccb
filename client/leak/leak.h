/* Measures what a server could learn about this host's data: it attacks the tensors that really cross the link. The
 * figures are a function of the config, the weights, the test set and the number of steps; not of threads. */
#ifndef SL_CLIENT_LEAK_LEAK_H
#define SL_CLIENT_LEAK_LEAK_H

#include <stdio.h>

#include "client/leak/crossing.h"
#include "client/leak/figures.h"
#include "common/base/buf.h"

/* INFORMED knows the head's weights as they are; START only those that the run began with, which every server knows.
 * SITE_A is the party with features of a vertical pair: it decodes masks from head_grad. SITE_B, with the labels,
 * decodes mid_act. All have samples like the victim's: the part of the test set that is not attacked. */
enum sl_attacker { SL_ATTACKER_INFORMED, SL_ATTACKER_START, SL_ATTACKER_SITE_A, SL_ATTACKER_SITE_B, SL_ATTACKERS };

struct sl_attack {
	bool made;
	int steps;    /* that the decoder was trained for */
	float *guess; /* [n, picture] its reconstructions; of texts logits [n, distinct tokens]; NULL: none */
	double *db;   /* [n] PSNR of each picture; NULL: no pictures */
};

/* What may be left out. */
enum { SL_LEAK_LABELS, SL_LEAK_GRADIENTS, SL_LEAK_HEAD_GRAD, SL_LEAK_TABLE, SL_LEAK_UNDEFINED, SL_LEAK_OMISSIONS };

struct sl_leak {
	enum sl_crossing_kind kind;
	struct sl_crossed victim; /* the samples or tokens that are attacked, and what crossed of them */
	struct sl_crossed text;   /* of texts with classes: what crossed of each text, whose labels are attacked */
	int64_t aux;              /* samples or tokens that the decoders were trained with */
	int vocab;                /* tokens of the vocabulary; 0: the network reads no texts */
	int classes;              /* of the labels; 0: they are no classes */
	struct sl_attack attack[SL_ATTACKERS];
	double mean_psnr, mean_ssim; /* of the mean picture as every reconstruction */
	struct json_t *about;        /* of tables: what describes their columns */
	struct sl_leak_figures figures;
	char joint[320];                        /* where several values cross: what was attacked together; else "" */
	const char *omitted[SL_LEAK_OMISSIONS]; /* sentences: what was not measured, and why; or NULL */
	char weights[SL_HEX16_TEXT],
		samples[SL_HEX16_TEXT]; /* XXH3-128 of all parameters; of images and labels of `victim` */
};

struct sl_leak_options {
	int steps;      /* of each decoder */
	double minutes; /* for all decoders; 0: no limit. If it ends one early, the figures depend on the machine */
	void (*progress)(void *arg, int done, int all, double loss); /* called after each step; may be NULL */
	void *arg;
};

/* `setup` has the run's weights, the test set and a backend; of a vertical pair, it has setup->features. This call
 * changes its plan: decaying inserts (graph/decay.h) keep their present width. `start`: the weights that the run began
 * with; NULL: setup->weights are these, and the only attacker is INFORMED. setup->weights is the same after the call.
 * On an error `out` is closed. */
enum sl_err sl_leak_measure(struct sl_leak *out, struct sl_setup *setup, struct sl_weights *start,
			    const struct sl_leak_options *options, struct sl_fail *fail) SL_MUST_CHECK;
void sl_leak_close(struct sl_leak *leak); /* idempotent; a zeroed one is fine */

/* find_labels.c: adds the figures of all attacks of labels, which are classes. Errors: figures.err. */
void sl_leak_find_labels(struct sl_leak *leak);

extern const char *const sl_attackers[SL_ATTACKERS];
extern const char *const sl_leak_words[]; /* by kind: "picture", "token", "row" */

/* What the report says beside the figures; all borrowed. */
struct sl_leak_report {
	int steps;              /* of a decoder that was not ended early */
	const char *config;     /* text of the config file */
	const char *const *set; /* [n_set] values of --set */
	int n_set;
};

/* Writes leak.json, leak.csv and the page leak.html into the folder `dir`, which it makes if needed. For pictures it
 * also writes sheet.png: the best, median and worst reconstructions beside their originals. CANTCREATE, IO, NOMEM. */
enum sl_err sl_leak_write(const struct sl_leak *leak, const struct sl_setup *setup, const struct sl_leak_report *report,
			  const char *dir, struct sl_fail *fail) SL_MUST_CHECK;
struct json_t *sl_leak_json(const struct sl_leak *leak,
			    const struct sl_setup *setup); /* the caller owns it; NULL: no memory */
/* page.c: writes the page. `sheet` [sheet_bytes]: a PNG that it embeds; NULL: none. The caller looks at ferror. */
void sl_leak_page(FILE *to, const struct sl_leak *leak, const struct sl_setup *setup,
		  const struct sl_leak_report *report, const uint8_t *sheet, size_t sheet_bytes);

#endif
