/* What a server could learn of this host's data: attacks on what really crosses, and what they find. Figures are a
 * function of the config, the weights, the test set and the number of steps; not of threads. */
#ifndef SL_CLIENT_LEAK_LEAK_H
#define SL_CLIENT_LEAK_LEAK_H

#include "client/leak/crossing.h"
#include "client/leak/metrics.h"

/* What an attacker knows: the head as it is; or the weights that the run began with, which the server knows. Both have
 * pictures like yours: the part of the test set that is not attacked. */
enum sl_attacker { SL_ATTACKER_INFORMED, SL_ATTACKER_START, SL_ATTACKERS };

struct sl_attack {
	bool made;
	struct sl_leak_spread psnr, ssim; /* dB on pixels in [0, 1]; structural similarity */
	double retrieved; /* share of pictures whose nearest original is the right one; of tokens that are found */
	double loss;      /* of the decoder's last step */
	int steps;        /* that it had */
	float *said;      /* [n, h, w, c] the pictures that it gives back */
	double *db;       /* [n] PSNR of each */
};

struct sl_leak {
	struct sl_crossed victim; /* the pictures that are attacked, and what crossed of them */
	int64_t aux;              /* pictures that the decoders were trained with */
	int classes;              /* 0: the data have none */
	int vocab;                /* of texts; 0: pictures */
	struct sl_attack attack[SL_ATTACKERS];
	struct sl_attack mean;    /* the mean picture in place of each: what is known without an attack */
	struct sl_leak_dcor dcor; /* of pictures and head_act */
	int64_t dcor_n;
	/* shares of labels that are found; NAN: does not apply */
	double words_nearest; /* of tokens: those to whose row of the table head_act is nearest by its direction */
	double labels_known, labels_clusters, labels_head, labels_mid, labels_most;
};

struct sl_leak_options {
	int steps;      /* of each decoder */
	double minutes; /* for all decoders; 0: no limit. Where it ends one early, figures depend on the machine */
	void (*progress)(void *arg, int done, int all, double loss); /* NULL: nobody asks */
	void *arg;
};

/* `setup` has the run's weights, the test set and a backend. Its plan's decaying inserts stay as wide as they are.
 * `start`: the weights that the run began with; NULL: these are the run's, and there is one attacker. They are set, and
 * setup->weights is put back. */
enum sl_err sl_leak_measure(struct sl_leak *out, struct sl_setup *setup, struct sl_weights *start,
			    const struct sl_leak_options *options, struct sl_fail *fail) SL_MUST_CHECK;
void sl_leak_close(struct sl_leak *leak); /* idempotent; a zeroed one is fine */

extern const char *const sl_attackers[SL_ATTACKERS];

/* `steps`: as many as a decoder should have had. Into the folder `dir`: leak.json, leak.csv, leak.md, and of pictures
 * sheet.png with the best, median and worst ones beside their originals. CANTCREATE, IO, NOMEM. */
enum sl_err sl_leak_write(const struct sl_leak *leak, const struct sl_setup *setup, int steps, const char *dir,
			  struct sl_fail *fail) SL_MUST_CHECK;
struct json_t *sl_leak_json(const struct sl_leak *leak,
			    const struct sl_setup *setup); /* the caller's; NULL: no memory */

#endif
