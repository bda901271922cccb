#include "client/leak/leak.h"

#include <math.h>
#include <stdlib.h>

#include "client/leak/decoder.h"
#include "client/leak/labels.h"
#include "common/base/clock.h"

enum { VICTIMS = 1024, AUX = 4096, AUX_TOKENS = 16384, NEAR = 10 };
static const int64_t most_floats = INT64_C(192) << 20; /* most floats of head_act that are kept, of all samples */

const char *const sl_attackers[SL_ATTACKERS] = {"informed", "start"};

static void close_attack(struct sl_attack *a)
{
	free(a->said);
	free(a->db);
	*a = (struct sl_attack){0};
}

void sl_leak_close(struct sl_leak *l)
{
	sl_crossed_close(&l->victim);
	for (int i = 0; i < SL_ATTACKERS; i++)
		close_attack(&l->attack[i]);
	close_attack(&l->mean);
}

/* Scores the reconstructions a->said against the original pictures. */
static enum sl_err score(struct sl_attack *a, const struct sl_crossed *v)
{
	const int64_t floats = sl_shape_row(&v->picture);
	double *ssim = malloc((size_t)v->n * sizeof *ssim + 1), *db = malloc((size_t)v->n * sizeof *db + 1);

	a->db = malloc((size_t)v->n * sizeof *a->db + 1);
	for (int64_t i = 0; i < v->n && ssim && db && a->db; i++) {
		const float *x = v->image + i * floats, *y = a->said + i * floats;

		a->db[i] = db[i] = sl_leak_psnr(x, y, floats);
		ssim[i] = sl_leak_ssim(x, y, (int)v->picture.dim[1], (int)v->picture.dim[2], (int)v->picture.dim[3]);
	}
	if (ssim && db && a->db) {
		a->psnr = sl_leak_spread(db, v->n);
		a->ssim = sl_leak_spread(ssim, v->n);
		a->retrieved = sl_leak_retrieved(v->image, a->said, v->n, floats);
		a->made = true;
	}
	free(ssim);
	free(db);
	return a->made ? SL_OK : SL_ERR_NOMEM;
}

/* Numbers the distinct tokens of `aux` from 0. *number [n] has the number of each row's token; *token_of [*distinct]
 * maps numbers to tokens. The caller frees both, after an error too. */
static enum sl_err number_tokens(const struct sl_crossed *aux, int vocab, int32_t **number, int32_t **token_of,
				 int *distinct)
{
	int32_t *seen = calloc((size_t)vocab, sizeof *seen);

	*number = malloc((size_t)aux->n * sizeof **number + 1);
	*token_of = malloc((size_t)aux->n * sizeof **token_of + 1);
	*distinct = 0;
	for (int64_t i = 0; i < aux->n && seen && *number && *token_of; i++) {
		int32_t *at = &seen[aux->label[i]];

		if (!*at) {
			(*token_of)[*distinct] = aux->label[i];
			*at = ++*distinct;
		}
		(*number)[i] = *at - 1;
	}
	free(seen);
	return seen && *number && *token_of ? SL_OK : SL_ERR_NOMEM;
}

static void count_found(struct sl_attack *a, const struct sl_crossed *v, const int32_t *token_of, int classes)
{
	int64_t met = 0;

	for (int64_t i = 0; i < v->n; i++) {
		const float *logit = a->said + i * classes;
		int said = 0;

		for (int k = 1; k < classes; k++)
			said = logit[k] > logit[said] ? k : said;
		met += token_of[said] == v->label[i];
	}
	a->retrieved = (double)met / (double)v->n;
	a->made = true;
}

static enum sl_err train(struct sl_decoder *d, struct sl_attack *a, const struct sl_crossed *aux, const void *wanted,
			 const struct sl_leak_options *o, int attacker, int attackers)
{
	const uint64_t began = sl_now_ns();
	enum sl_err err = SL_OK;

	for (a->steps = 0; a->steps < o->steps && !err; a->steps++) {
		if (o->minutes > 0 && sl_seconds_since(began) * attackers > o->minutes * 60)
			break;
		err = sl_decoder_step(d, aux->head_act, wanted, aux->n, a->steps, &a->loss);
		if (o->progress)
			o->progress(o->arg, attacker * o->steps + a->steps + 1, attackers * o->steps, a->loss);
	}
	return err;
}

static enum sl_err attack(struct sl_leak *l, enum sl_attacker which, const struct sl_crossed *aux,
			  struct sl_setup *setup, const struct sl_leak_options *o, int attackers, struct sl_fail *fail)
{
	struct sl_decoder_spec spec = {
		.act = aux->head, .image = aux->picture, .seed = setup->plan->spec.seed, .steps = o->steps};
	struct sl_attack *a = &l->attack[which];
	int32_t *number = NULL, *token_of = NULL;
	struct sl_decoder *d = NULL;
	enum sl_err err = l->vocab ? number_tokens(aux, l->vocab, &number, &token_of, &spec.classes) : SL_OK;

	if (!err && (err = sl_decoder_open(&d, &spec, &setup->be, fail)))
		goto done;
	a->said = malloc(
		(size_t)(l->victim.n * (l->vocab ? spec.classes : sl_shape_row(&aux->picture))) * sizeof *a->said + 1);
	if (!err)
		err = a->said ? train(d, a, aux, number ? number : (void *)aux->image, o, (int)which, attackers)
			      : SL_ERR_NOMEM;
	if (!err)
		err = sl_decoder_apply(d, l->victim.head_act, l->victim.n, a->said);
	if (!err && l->vocab)
		count_found(a, &l->victim, token_of, spec.classes);
	else if (!err)
		err = score(a, &l->victim);
	if (err)
		sl_fail_set(fail, err, "the decoder: %s", sl_err_text(err));
done:
	sl_decoder_close(d);
	free(number);
	free(token_of);
	return err;
}

static enum sl_err mean_picture(struct sl_leak *l, const struct sl_crossed *aux)
{
	const int64_t floats = sl_shape_row(&aux->picture);

	l->mean.said = calloc((size_t)(l->victim.n * floats) + 1, sizeof *l->mean.said);
	if (!l->mean.said)
		return SL_ERR_NOMEM;
	for (int64_t k = 0; k < floats; k++) {
		double sum = 0;

		for (int64_t i = 0; i < aux->n; i++)
			sum += (double)aux->image[i * floats + k];
		for (int64_t i = 0; i < l->victim.n; i++)
			l->mean.said[i * floats + k] = (float)(sum / (double)aux->n);
	}
	return score(&l->mean, &l->victim);
}

static void find_labels(struct sl_leak *l)
{
	const struct sl_crossed *v = &l->victim;
	const int64_t mid = sl_shape_row(&v->mid), head = sl_shape_row(&v->head);

	l->labels_known = l->labels_clusters = l->labels_head = l->labels_mid = l->labels_most = NAN;
	if (!l->classes || l->vocab)
		return;
	l->labels_most = sl_leak_labels_most(v->label, v->n, l->classes);
	l->labels_head = sl_leak_labels_near(v->head_act, v->n, head, v->label, NEAR);
	l->labels_mid = sl_leak_labels_near(v->mid_act, v->n, mid, v->label, NEAR);
	if (!v->mid_grad)
		return;
	l->labels_known = sl_leak_labels_known(v->mid_grad, v->n, mid, v->label, l->classes);
	l->labels_clusters = sl_leak_labels_clusters(v->mid_grad, v->n, mid, v->label, l->classes);
}

static void find_words(struct sl_leak *l, const struct sl_setup *setup)
{
	const struct sl_crossed *v = &l->victim;
	int64_t features = 0;
	const float *words = sl_crossing_words(setup, &features);

	l->labels_most = sl_leak_labels_most(v->label, v->n, l->vocab);
	l->words_nearest = features == sl_shape_row(&v->head)
				   ? sl_leak_labels_rows(v->head_act, v->n, features, v->label, words, l->vocab)
				   : NAN;
}

static enum sl_err correlate(struct sl_leak *l)
{
	const struct sl_crossed *v = &l->victim;

	return sl_leak_dcor(&l->dcor, v->image, sl_shape_row(&v->picture), v->head_act, sl_shape_row(&v->head), v->n);
}

/* Collects what crosses with the weights that the run began with, trains a decoder on it, and attacks with that. */
static enum sl_err attack_from_start(struct sl_leak *l, struct sl_setup *setup, struct sl_weights *start,
				     int64_t victims, int64_t aux_rows, const struct sl_leak_options *o,
				     struct sl_fail *fail)
{
	const struct sl_weights run = setup->weights;
	struct sl_crossed aux = {0};
	enum sl_err err;

	setup->weights = *start;
	err = sl_crossing_collect(setup, victims, aux_rows, NULL, &aux, fail);
	setup->weights = run;
	if (!err)
		err = attack(l, SL_ATTACKER_START, &aux, setup, o, SL_ATTACKERS, fail);
	sl_crossed_close(&aux);
	return err;
}

static void hold(struct sl_decay *d)
{
	d->times = sl_decay_falls(d, 0);
}

/* Keeps the steps computed here from narrowing an insert: all samples cross as wide as in the run's next step. */
static void hold_widths(struct sl_plan *plan)
{
	for (int mid = 0; mid < 2; mid++)
		hold(&plan->decay[mid]);
	for (int i = 0; i < SL_SEGMENT_COUNT; i++) {
		hold(&plan->segment[i].graph.in[0].decay);
		hold(&plan->segment[i].graph.out[0].decay);
	}
}

enum sl_err sl_leak_measure(struct sl_leak *l, struct sl_setup *setup, struct sl_weights *start,
			    const struct sl_leak_options *o, struct sl_fail *fail)
{
	const struct sl_shape head = sl_plan_cut_shape(setup->plan, false, 1);
	const int64_t fit = most_floats / (sl_shape_row(&head) + 1);
	const int vocab = setup->plan->model->vocab, most = VICTIMS + (vocab ? AUX_TOKENS : AUX);
	const int64_t all = fit < most ? fit : most;
	const int64_t victims = all * VICTIMS / most, aux_rows = all - victims;
	struct sl_crossed aux = {0};
	enum sl_err err;

	*l = (struct sl_leak){.vocab = vocab, .words_nearest = NAN};
	hold_widths(setup->plan);
	if (sl_setup_task(setup->conf)->kind == SL_LEARN_CLASSES)
		l->classes = setup->plan->model->classes;
	err = sl_crossing_collect(setup, victims, aux_rows, &l->victim, &aux, fail);
	if (!err && (l->victim.n < 8))
		err = sl_fail_set(fail, SL_ERR_CONFIG, "the test set has %lld %s, and leak needs %s or more",
				  (long long)setup->set[SL_SPLIT_TEST].count, vocab ? "texts" : "samples",
				  vocab ? "100" : "40");
	l->aux = aux.n;
	if (!err)
		err = attack(l, SL_ATTACKER_INFORMED, &aux, setup, o, start ? SL_ATTACKERS : 1, fail);
	if (!err && ((!vocab && mean_picture(l, &aux)) || correlate(l)))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for what was found");
	sl_crossed_close(&aux);
	if (!err && start)
		err = attack_from_start(l, setup, start, victims, aux_rows, o, fail);
	if (!err)
		find_labels(l);
	if (!err && vocab)
		find_words(l, setup);
	if (err)
		sl_leak_close(l);
	return err;
}
