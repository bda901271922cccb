#include "client/leak/leak.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/csv_column.h"
#include "client/figures/similarity.h"
#include "client/leak/decoder.h"
#include "client/leak/labels.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/exec/finite.h"

enum { VICTIMS = 1024, AUX = 4096, AUX_TOKENS = 16384 };
static const int64_t most_floats = INT64_C(192) << 20; /* most floats of head_act that are kept, of all samples */

const char *const sl_attackers[SL_ATTACKERS] = {"informed", "start", "site_a", "site_b"};
const char *const sl_leak_words[] = {"picture", "token", "row"};

static void close_attack(struct sl_attack *a)
{
	free(a->guess);
	free(a->db);
	*a = (struct sl_attack){0};
}

void sl_leak_close(struct sl_leak *l)
{
	sl_crossed_close(&l->victim);
	sl_crossed_close(&l->text);
	for (int i = 0; i < SL_ATTACKERS; i++)
		close_attack(&l->attack[i]);
	sl_leak_figures_close(&l->figures);
	json_decref(l->about);
	l->about = NULL;
}

static struct sl_leak_spread alone(double x)
{
	return (struct sl_leak_spread){x, NAN, NAN, x};
}

static void add(struct sl_leak *l, enum sl_leak_kind kind, const char *group, struct sl_leak_spread s, double chance)
{
	sl_leak_figures_add(&l->figures, kind, group, NULL, s, chance, l->victim.n);
}

/* ---- scores of reconstructions */

/* Of reconstructions `guess`, whose rows lie `stride` floats apart. *db [n] PSNR of each picture; the caller frees it.
 */
static enum sl_err score_pictures(const struct sl_crossed *v, const float *guess, int64_t stride, double **db,
				  struct sl_leak_spread *psnr, struct sl_leak_spread *ssim)
{
	const int64_t floats = sl_shape_row(&v->picture), *dim = v->picture.dim;
	double *sorted = malloc((size_t)v->n * sizeof *sorted + 1), *like = malloc((size_t)v->n * sizeof *like + 1);

	*db = malloc((size_t)v->n * sizeof **db + 1);
	for (int64_t i = 0; i < v->n && sorted && like && *db; i++) {
		const float *x = v->image + i * floats, *y = guess + i * stride;

		(*db)[i] = sorted[i] = sl_leak_psnr(x, y, floats);
		like[i] = sl_leak_ssim(x, y, (int)dim[1], (int)dim[2], (int)dim[3]);
	}
	if (sorted && like && *db) {
		*psnr = sl_leak_spread(sorted, v->n);
		*ssim = sl_leak_spread(like, v->n);
	}
	free(sorted);
	free(like);
	return sorted && like && *db ? SL_OK : SL_ERR_NOMEM;
}

static enum sl_err found_pictures(struct sl_leak *l, enum sl_attacker which)
{
	struct sl_attack *a = &l->attack[which];
	struct sl_leak_spread psnr, ssim;
	enum sl_err err = score_pictures(&l->victim, a->guess, sl_shape_row(&l->victim.picture), &a->db, &psnr, &ssim);

	if (!err) {
		add(l, SL_LEAK_PSNR, sl_attackers[which], psnr, l->mean_psnr);
		add(l, SL_LEAK_SSIM, sl_attackers[which], ssim, l->mean_ssim);
	}
	return err;
}

/* Adds the median over all columns that vary, and each column. One column that hardly varies can make a mean of
 * any size. */
static enum sl_err found_columns(struct sl_leak *l, enum sl_attacker which)
{
	static const char *const groups[SL_ATTACKERS] = {"informed_columns", "start_columns", "", "site_b_columns"};
	const struct sl_crossed *v = &l->victim;
	json_t *list = json_object_get(l->about, "columns"), *column, *texts;
	double *vary = malloc(json_array_size(list) * sizeof *vary + 1), r2;
	const int median = l->figures.n;
	int64_t first = 0, n = 0;
	size_t i;

	if (!vary)
		return SL_ERR_NOMEM;
	add(l, SL_LEAK_R2, sl_attackers[which], alone(NAN), 0);
	json_array_foreach(list, i, column)
	{
		const int64_t wide = (texts = json_object_get(column, "texts")) ? (int64_t)json_array_size(texts)
				     : json_object_get(column, "dates")         ? SL_CSV_DATE_FEATURES
										: 1;

		if (json_object_get(column, "ids")) { /* near numbers are not alike */
			first++;
			continue;
		}
		r2 = sl_leak_r2(l->attack[which].guess, v->image, v->n, sl_shape_row(&v->picture), first, wide);
		sl_leak_figures_add(&l->figures, SL_LEAK_R2_COLUMN, groups[which],
				    json_string_value(json_object_get(column, "name")), alone(r2), 0, v->n);
		if (!isnan(r2))
			vary[n++] = r2;
		first += wide;
	}
	if (!l->figures.err) {
		const struct sl_leak_spread s = sl_leak_spread(vary, n);

		l->figures.item[median].value = s.median;
		l->figures.item[median].low = s.p10;
		l->figures.item[median].high = s.p90;
	}
	free(vary);
	return SL_OK;
}

static enum sl_err found_samples(struct sl_leak *l, enum sl_attacker which)
{
	const struct sl_crossed *v = &l->victim;
	const double again = sl_leak_retrieved(v->image, l->attack[which].guess, v->n, sl_shape_row(&v->picture));

	add(l, SL_LEAK_AGAIN, sl_attackers[which], alone(again), 1 / (double)v->n);
	return (l->kind == SL_CROSSING_TABLE ? found_columns : found_pictures)(l, which);
}

static int64_t largest(const float *x, int64_t n)
{
	int64_t best = 0;

	for (int64_t i = 1; i < n; i++)
		best = x[i] > x[best] ? i : best;
	return best;
}

/* Adds the share of pixels whose class is found; those of unknown class do not count. */
static enum sl_err found_masks(struct sl_leak *l)
{
	const struct sl_crossed *v = &l->victim;
	const int64_t classes = v->masks.dim[3], pixels = v->n * sl_shape_row(&v->masks) / classes;
	const float *guess = l->attack[SL_ATTACKER_SITE_A].guess;
	const bool finite = sl_finite_host(guess, pixels * classes);
	int64_t *count = calloc((size_t)classes, sizeof *count), met = 0, known = 0, most = 0;
	double *of_class = calloc((size_t)classes, sizeof *of_class);

	if (!count || !of_class) {
		free(count);
		free(of_class);
		return SL_ERR_NOMEM;
	}
	for (int64_t i = 0; i < pixels; i++) {
		const int64_t is = largest(v->mask + i * classes, classes);

		if (v->mask[i * classes + is] > 0) {
			const bool found = largest(guess + i * classes, classes) == is;

			known++;
			met += found;
			of_class[is] += found;
			most = ++count[is] > most ? count[is] : most;
		}
	}
	add(l, SL_LEAK_SITE_MASKS, sl_attackers[SL_ATTACKER_SITE_A],
	    alone(known && finite ? (double)met / (double)known : NAN), known ? (double)most / (double)known : NAN);
	for (int64_t c = 0; c < classes; c++)
		of_class[c] = count[c] && finite ? of_class[c] / (double)count[c] : NAN;
	sl_leak_figures_classes(&l->figures, of_class, (int)classes);
	free(count);
	return SL_OK;
}

/* ---- decoders */

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

static void found_tokens(struct sl_leak *l, enum sl_attacker which, const int32_t *token_of, int distinct)
{
	const struct sl_crossed *v = &l->victim;
	const float *guess = l->attack[which].guess;
	int64_t met = 0;

	for (int64_t i = 0; i < v->n; i++) {
		const float *logit = guess + i * distinct;
		int best = 0;

		for (int k = 1; k < distinct; k++)
			best = logit[k] > logit[best] ? k : best;
		met += token_of[best] == v->label[i];
	}
	add(l, SL_LEAK_PROBE, sl_attackers[which],
	    alone(sl_finite_host(guess, v->n * distinct) ? (double)met / (double)v->n : NAN),
	    sl_leak_labels_majority(v->label, v->n, l->vocab));
}

static enum sl_err train(struct sl_decoder *d, struct sl_attack *a, const float *act, int64_t n, const void *wanted,
			 const struct sl_leak_options *o, int attacker, int attackers)
{
	const uint64_t began = sl_now_ns();
	enum sl_err err = SL_OK;
	double loss;

	for (a->steps = 0; a->steps < o->steps && !err; a->steps++) {
		if (o->minutes > 0 && sl_seconds_since(began) * attackers > o->minutes * 60)
			break;
		err = sl_decoder_step(d, act, wanted, n, a->steps, &loss);
		if (o->progress)
			o->progress(o->arg, attacker * o->steps + a->steps + 1, attackers * o->steps, loss);
	}
	return err;
}

/* What an attacker decodes. */
static enum sl_dir seen_by(enum sl_attacker which)
{
	return which == SL_ATTACKER_SITE_B   ? SL_DIR_MID_ACT
	       : which == SL_ATTACKER_SITE_A ? SL_DIR_HEAD_GRAD
					     : SL_DIR_HEAD_ACT;
}

/* Trains a decoder on act [aux->n, spec->act], and gives its answer to `theirs`, which crossed of the victims. That is
 * NAN if NaN or Inf has crossed. */
static enum sl_err decode(struct sl_leak *l, enum sl_attacker which, const struct sl_decoder_spec *spec,
			  const float *act, const float *theirs, int64_t n, const void *wanted, struct sl_setup *setup,
			  const struct sl_leak_options *o, int attackers, struct sl_fail *fail)
{
	const int64_t floats = l->victim.n * (spec->classes ? spec->classes : sl_shape_row(&spec->image));
	const int64_t row = sl_shape_row(&spec->act);
	struct sl_attack *a = &l->attack[which];
	struct sl_decoder *d = NULL;
	int before = 0; /* attackers that are done */
	enum sl_err err = sl_decoder_open(&d, spec, &setup->be, fail);

	if (err)
		return err;
	for (int i = 0; i < SL_ATTACKERS; i++)
		before += l->attack[i].made;
	a->made = true;
	a->guess = malloc((size_t)floats * sizeof *a->guess + 1);
	if (!a->guess)
		err = SL_ERR_NOMEM;
	else if (sl_finite_host(act, n * row) && sl_finite_host(theirs, l->victim.n * row)) {
		err = train(d, a, act, n, wanted, o, before, attackers);
		if (!err)
			err = sl_decoder_apply(d, theirs, l->victim.n, a->guess);
	} else
		for (int64_t i = 0; i < floats; i++)
			a->guess[i] = NAN;
	sl_decoder_close(d);
	return err ? sl_fail_set(fail, err, "the decoder: %s", sl_err_text(err)) : SL_OK;
}

/* Gradients may be far below the eps of a decoder's batch norm: brings those of both to a mean square of 1 in `aux`. */
static void scale(struct sl_crossed *aux, struct sl_crossed *victim, enum sl_dir dir)
{
	const int64_t row = sl_shape_row(&aux->head);
	const double mean = sl_leak_dot(aux->act[dir], aux->act[dir], aux->n * row) / (double)(aux->n * row);
	const float by = mean > 0 ? (float)(1 / sqrt(mean)) : 1;

	for (int64_t i = 0; i < aux->n * row; i++)
		aux->act[dir][i] *= by;
	for (int64_t i = 0; i < victim->n * row; i++)
		victim->act[dir][i] *= by;
}

static enum sl_err attack(struct sl_leak *l, enum sl_attacker which, const struct sl_crossed *aux,
			  struct sl_setup *setup, const struct sl_leak_options *o, int attackers, struct sl_fail *fail)
{
	const bool masks = which == SL_ATTACKER_SITE_A;
	struct sl_decoder_spec spec = {.act = seen_by(which) == SL_DIR_MID_ACT ? aux->mid : aux->head,
				       .image = masks ? aux->masks : aux->picture,
				       .table = l->kind == SL_CROSSING_TABLE,
				       .seed = setup->plan->spec.seed,
				       .steps = o->steps};
	const float *act = aux->act[seen_by(which)], *theirs = l->victim.act[seen_by(which)];
	float *own[2] = {NULL, NULL};
	int32_t *number = NULL, *token_of = NULL;
	enum sl_err err = l->vocab ? number_tokens(aux, l->vocab, &number, &token_of, &spec.classes) : SL_OK;

	if (aux->volume.act && seen_by(which) == SL_DIR_HEAD_ACT) {
		act = own[0] = sl_crossed_middle(aux, &spec.act);
		theirs = own[1] = sl_crossed_middle(&l->victim, &spec.act);
		err = act && theirs ? err : SL_ERR_NOMEM;
	}
	if (err)
		sl_fail_set(fail, err, "no memory for what a decoder reads");
	else
		err = decode(l, which, &spec, act, theirs, aux->n,
			     number  ? (void *)number
			     : masks ? aux->mask
				     : aux->image,
			     setup, o, attackers, fail);
	if (!err && l->vocab)
		found_tokens(l, which, token_of, spec.classes);
	else if (!err && (masks ? found_masks(l) : found_samples(l, which)))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for what was found");
	free(own[0]);
	free(own[1]);
	free(number);
	free(token_of);
	return err;
}

/* ---- what needs no decoder */

static enum sl_err mean_picture(struct sl_leak *l, const struct sl_crossed *aux)
{
	const int64_t floats = sl_shape_row(&aux->picture);
	float *mean = malloc((size_t)floats * sizeof *mean + 1);
	struct sl_leak_spread psnr = {0}, ssim = {0};
	double *db = NULL;
	enum sl_err err;

	for (int64_t k = 0; k < floats && mean; k++) {
		double sum = 0;

		for (int64_t i = 0; i < aux->n; i++)
			sum += (double)aux->image[i * floats + k];
		mean[k] = (float)(sum / (double)aux->n);
	}
	err = mean ? score_pictures(&l->victim, mean, 0, &db, &psnr, &ssim) : SL_ERR_NOMEM;
	l->mean_psnr = psnr.mean;
	l->mean_ssim = ssim.mean;
	free(db);
	free(mean);
	return err;
}

static void note_values(struct sl_leak *l)
{
	const struct sl_joint *j = l->victim.joint;

	if (j[0].n > 1 || j[1].n > 1)
		snprintf(l->joint, sizeof l->joint,
			 "%d values go up and %d come down. Reconstructions use all together; a figure of labels is "
			 "the most that one value, or all together, give away.",
			 j[0].n, j[1].n);
}

static void find_words(struct sl_leak *l, const struct sl_setup *setup)
{
	const struct sl_crossed *v = &l->victim;
	int64_t features = 0;
	const float *words = sl_crossing_words(setup, &features);

	if (features == sl_shape_row(&v->head))
		add(l, SL_LEAK_WORDS, "",
		    alone(sl_leak_labels_rows(v->act[SL_DIR_HEAD_ACT], v->n, features, v->label, words, l->vocab)),
		    sl_leak_labels_majority(v->label, v->n, l->vocab));
	else
		l->omitted[SL_LEAK_TABLE] =
			"Tokens by the word table: its rows are longer or shorter than what crosses of a token.";
}

/* A column whose values are all equal is undefined, too, and says nothing of what crosses. */
static bool is_undefined(const struct sl_leak_figures *f)
{
	for (int i = 0; i < f->n; i++)
		if (isnan(f->item[i].value) && f->item[i].kind != SL_LEAK_R2_COLUMN && f->item[i].kind != SL_LEAK_R2)
			return true;
	return false;
}

/* What needs no decoder. */
static enum sl_err find_rest(struct sl_leak *l, const struct sl_setup *setup)
{
	const struct sl_crossed *v = &l->victim;
	double dcor;
	enum sl_err err = sl_leak_dcor(&dcor, v->image, sl_shape_row(&v->picture), v->act[SL_DIR_HEAD_ACT],
				       sl_shape_row(&v->head), v->n);

	note_values(l);
	if (setup->features && !v->act[SL_DIR_HEAD_GRAD])
		l->omitted[SL_LEAK_HEAD_GRAD] = "Labels from head_grad: the head is frozen, so member A gets none.";
	if (l->classes)
		sl_leak_find_labels(l);
	else if (l->attack[SL_ATTACKER_SITE_A].made)
		l->omitted[SL_LEAK_LABELS] =
			"Labels at the server: here they are pixels. Only what member A finds was measured.";
	else if (sl_setup_task(setup->conf)->labelled)
		l->omitted[SL_LEAK_LABELS] =
			"Labels: here they are numbers, several labels or pixels. Only classes, and a "
			"single yes or no, are attacked.";
	else
		l->omitted[SL_LEAK_LABELS] = "Labels: those of a language model are its tokens. Gradients were not "
					     "searched for them.";
	if (l->vocab)
		find_words(l, setup);
	add(l, SL_LEAK_DCOR, "", alone(dcor), 0);
	if (is_undefined(&l->figures))
		l->omitted[SL_LEAK_UNDEFINED] =
			"Figures that are undefined: NaN or Inf crosses. It does not follow that nothing is seen.";
	return err ? err : l->figures.err;
}

/* `part` [n]: hashes. */
static void print_hash(char out[SL_HEX16_TEXT], const uint8_t part[][16], int n)
{
	uint8_t all[16];

	sl_weights_hash((const float *)part, 4 * n, all);
	sl_hex16(all, out);
}

static void fingerprint(struct sl_leak *l, const struct sl_setup *setup)
{
	const struct sl_crossed *v = &l->victim;
	_Alignas(float) uint8_t hash[SL_SEGMENT_COUNT][16];

	for (int i = 0; i < SL_SEGMENT_COUNT; i++)
		sl_weights_hash_packed(&setup->weights, &setup->plan->segment[i], hash[i]);
	print_hash(l->weights, hash, SL_SEGMENT_COUNT);
	sl_weights_hash(v->image, v->n * sl_shape_row(&v->picture), hash[0]);
	sl_weights_hash((const float *)v->label, v->n, hash[1]);
	print_hash(l->samples, hash, 2);
}

/* Collects what crosses with the weights that the run began with, trains a decoder on it, and attacks with that. */
static enum sl_err attack_from_start(struct sl_leak *l, struct sl_setup *setup, struct sl_weights *start,
				     int64_t victims, int64_t aux_rows, const struct sl_leak_options *o, int attackers,
				     struct sl_fail *fail)
{
	const struct sl_weights run = setup->weights;
	struct sl_crossed aux = {0};
	enum sl_err err;

	setup->weights = *start;
	err = sl_crossing_collect(setup, victims, aux_rows, NULL, &aux, NULL, fail);
	setup->weights = run;
	if (!err)
		err = attack(l, SL_ATTACKER_START, &aux, setup, o, attackers, fail);
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

static void warn_of_ids(const struct sl_leak *l)
{
	const json_t *column;
	size_t i;
	int n = 0;

	json_array_foreach(json_object_get(l->about, "columns"), i, column) n += json_object_get(column, "ids") != NULL;
	if (n)
		sl_log(SL_LOG_WARN, "ids-not-measured",
		       "R² says nothing of %d column%s of ids (data.ids), and leaves them out: what crosses may tell "
		       "ids "
		       "by their embeddings",
		       n, sl_plural(n));
}

enum sl_err sl_leak_measure(struct sl_leak *l, struct sl_setup *setup, struct sl_weights *start,
			    const struct sl_leak_options *o, struct sl_fail *fail)
{
	const bool parties = setup->features != NULL;
	const struct sl_joint head = sl_joint_of(setup->plan, false, sl_crossing_kind(setup) == SL_CROSSING_PICTURES);
	const struct sl_joint mid = sl_joint_of(setup->plan, true, false);
	const struct sl_shape masks = sl_crossing_masks(setup);
	const bool reads_masks = masks.ndim && !setup->plan->spec.no_grad[0];
	const int64_t fit = most_floats / (sl_shape_row(&head.row) + parties * sl_shape_row(&mid.row) +
					   (masks.ndim ? sl_shape_row(&masks) : 0) + 1);
	const int vocab = setup->plan->model->vocab, most = VICTIMS + (vocab ? AUX_TOKENS : AUX);
	const int64_t all = fit < most ? fit : most;
	const int64_t victims = all * VICTIMS / most, aux_rows = all - victims;
	const struct sl_set *set = &sl_setup_input(setup)->set[SL_SPLIT_TEST];
	const int attackers = 1 + (start != NULL) + parties + reads_masks;
	struct sl_crossed aux = {0};
	enum sl_err err;

	*l = (struct sl_leak){.vocab = vocab, .kind = sl_crossing_kind(setup), .classes = sl_crossing_classes(setup)};
	hold_widths(setup->plan);
	if (l->kind == SL_CROSSING_TABLE && (l->about = json_object()) && set->source->describe)
		set->source->describe(set, l->about);
	warn_of_ids(l);
	err = sl_crossing_collect(setup, victims, aux_rows, &l->victim, &aux, vocab && l->classes ? &l->text : NULL,
				  fail);
	if (!err && (l->victim.n < 8))
		err = sl_fail_set(fail, SL_ERR_CONFIG, "the %s part has %lld %s, and leak needs %s or more",
				  sl_setup_part(sl_setup_input(setup), SL_SPLIT_TEST), (long long)set->count,
				  vocab                     ? "texts"
				  : sl_set_has_patches(set) ? "patches of its cases"
							    : "samples",
				  vocab ? "100" : "40");
	l->aux = aux.n;
	if (!err && l->kind == SL_CROSSING_PICTURES && mean_picture(l, &aux))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the mean picture");
	if (!err)
		err = attack(l, SL_ATTACKER_INFORMED, &aux, setup, o, attackers, fail);
	if (!err && reads_masks) {
		scale(&aux, &l->victim, SL_DIR_HEAD_GRAD);
		err = attack(l, SL_ATTACKER_SITE_A, &aux, setup, o, attackers, fail);
	}
	if (!err && parties)
		err = attack(l, SL_ATTACKER_SITE_B, &aux, setup, o, attackers, fail);
	sl_crossed_close(&aux);
	if (!err && start)
		err = attack_from_start(l, setup, start, victims, aux_rows, o, attackers, fail);
	if (!err && find_rest(l, setup))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for what was found");
	if (!err)
		fingerprint(l, setup);
	if (err)
		sl_leak_close(l);
	return err;
}
