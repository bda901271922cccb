/* Measures what a server could learn about this host's data: it attacks the tensors that really cross the link. The
 * figures are a function of the config, the weights, the test set and the number of steps; not of threads. */
#ifndef SL_CLIENT_LEAK_LEAK_H
#define SL_CLIENT_LEAK_LEAK_H

#include "client/leak/crossing.h"
#include "client/leak/metrics.h"

/* INFORMED knows the head's weights as they are; START only those that the run began with, which every server knows.
 * Both have pictures like the victim's: the part of the test set that is not attacked. */
enum sl_attacker { SL_ATTACKER_INFORMED, SL_ATTACKER_START, SL_ATTACKERS };

struct sl_attack {
	bool made;
	struct sl_leak_spread psnr, ssim; /* dB on pixels in [0, 1]; structural similarity */
	double retrieved; /* share of pictures whose nearest original is the right one; or of tokens that are found */
	double loss;      /* of the decoder's last step */
	int steps;        /* that the decoder was trained for */
	float *said;      /* [n, h, w, c] its reconstructions; of texts logits [n, distinct tokens] */
	double *db;       /* [n] PSNR of each picture */
};

struct sl_leak {
	struct sl_crossed victim; /* the pictures or tokens that are attacked, and what crossed of them */
	int64_t aux;              /* pictures or tokens that the decoders were trained with */
	int classes;              /* 0: the data have none */
	int vocab;                /* tokens of the vocabulary; 0: pictures */
	struct sl_attack attack[SL_ATTACKERS];
	struct sl_attack mean;    /* the baseline without an attack: the mean picture as every reconstruction */
	struct sl_leak_dcor dcor; /* of pictures and head_act */
	/* Shares of labels that are found (labels.h); NAN: does not apply. */
	double words_nearest; /* share of tokens whose row of the embedding table has the largest cosine to head_act */
	double labels_known, labels_clusters, labels_head, labels_mid, labels_most;
};

struct sl_leak_options {
	int steps;      /* of each decoder */
	double minutes; /* for all decoders; 0: no limit. If it ends one early, the figures depend on the machine */
	void (*progress)(void *arg, int done, int all, double loss); /* called after each step; may be NULL */
	void *arg;
};

/* `setup` has the run's weights, the test set and a backend. This call changes its plan: decaying inserts
 * (graph/decay.h) keep their present width. `start`: the weights that the run began with; NULL: setup->weights are
 * these, and the only attacker is INFORMED. setup->weights is the same after the call. On an error `out` is closed. */
enum sl_err sl_leak_measure(struct sl_leak *out, struct sl_setup *setup, struct sl_weights *start,
			    const struct sl_leak_options *options, struct sl_fail *fail) SL_MUST_CHECK;
void sl_leak_close(struct sl_leak *leak); /* idempotent; a zeroed one is fine */

extern const char *const sl_attackers[SL_ATTACKERS];

/* Writes leak.json, leak.csv and leak.md into the folder `dir`, which it makes if needed. For pictures it also writes
 * sheet.png: the best, median and worst reconstructions beside their originals. `steps`: of a decoder that was not
 * ended early. CANTCREATE, IO, NOMEM. */
enum sl_err sl_leak_write(const struct sl_leak *leak, const struct sl_setup *setup, int steps, const char *dir,
			  struct sl_fail *fail) SL_MUST_CHECK;
struct json_t *sl_leak_json(const struct sl_leak *leak,
			    const struct sl_setup *setup); /* the caller owns it; NULL: no memory */

#endif
