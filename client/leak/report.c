#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/data/sheet.h"
#include "client/leak/leak.h"

enum { OF_EACH = 8, THIRDS = 3, RGB = 3 };

/* ---- the sheet */

static int by_db(const void *a, const void *b, void *db)
{
	const double x = ((const double *)db)[*(const int64_t *)a], y = ((const double *)db)[*(const int64_t *)b];

	return (x < y) - (x > y);
}

/* Chooses the pictures with the best, median and worst PSNR. Returns how many there are; 0: no memory. */
static int choose(int64_t out[THIRDS * OF_EACH], const struct sl_attack *a, int64_t n)
{
	int64_t *order = malloc((size_t)n * sizeof *order);
	const int each = n < THIRDS * OF_EACH ? (int)(n / THIRDS) : OF_EACH;
	const int64_t from[THIRDS] = {0, n / 2 - each / 2, n - each};

	if (!order)
		return 0;
	for (int64_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, (size_t)n, sizeof *order, by_db, a->db);
	for (int i = 0; i < THIRDS * each; i++)
		out[i] = order[from[i / each] + i % each];
	free(order);
	return THIRDS * each;
}

/* Puts a picture of one or three channels into a half of `pair` [h, 2·w, RGB]; `half` is where that half begins. */
static void put_half(float *half, const float *picture, const int64_t *dim)
{
	for (int64_t i = 0; i < dim[1] * dim[2]; i++)
		for (int c = 0; c < RGB; c++)
			half[(i / dim[2] * 2 * dim[2] + i % dim[2]) * RGB + c] = picture[i * dim[3] + c % dim[3]];
}

static enum sl_err put_pair(struct sl_sheet *sheet, int at, const struct sl_leak *l, int64_t i, float *pair,
			    struct sl_fail *fail)
{
	const int64_t *dim = l->victim.picture.dim, floats = dim[1] * dim[2] * dim[3];
	char label[32];

	put_half(pair, l->victim.image + i * floats, dim);
	put_half(pair + dim[2] * RGB, l->attack[0].said + i * floats, dim);
	snprintf(label, sizeof label, "%.1f dB", l->attack[0].db[i]);
	return sl_sheet_put(sheet, at, pair, label, fail);
}

static enum sl_err write_sheet(const struct sl_leak *l, const char *path, struct sl_fail *fail)
{
	const int64_t *dim = l->victim.picture.dim;
	int64_t chosen[THIRDS * OF_EACH];
	const int n = choose(chosen, &l->attack[0], l->victim.n);
	float *pair = malloc((size_t)(2 * dim[1] * dim[2] * RGB) * sizeof *pair);
	struct sl_sheet *sheet = NULL;
	enum sl_err err = pair ? sl_sheet_open(&sheet, n, (int)dim[1], 2 * (int)dim[2], fail)
			       : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for pictures");

	for (int i = 0; i < n && !err; i++)
		err = put_pair(sheet, i, l, chosen[i], pair, fail);
	if (!err)
		err = sl_sheet_write(sheet, path, fail);
	sl_sheet_close(sheet);
	free(pair);
	return err;
}

/* ---- JSON */

static json_t *share(double x)
{
	return isnan(x) ? json_null() : json_real(x);
}

static json_t *spread(const struct sl_leak_spread *s)
{
	return json_pack("{s:f, s:f, s:f}", "mean", s->mean, "p10", s->p10, "p90", s->p90);
}

static json_t *attack_json(const struct sl_attack *a, int vocab)
{
	if (!a->made)
		return json_null();
	if (vocab)
		return json_pack("{s:f, s:i}", "tokens_by_probe", a->retrieved, "steps", a->steps);
	return json_pack("{s:o, s:o, s:f, s:i}", "psnr_db", spread(&a->psnr), "ssim", spread(&a->ssim), "retrieved",
			 a->retrieved, "steps", a->steps);
}

json_t *sl_leak_json(const struct sl_leak *l, const struct sl_setup *s)
{
	json_t *root = json_pack("{s:i, s:s, s:s, s:s, s:s, s:I, s:I, s:o}", "schema", 1, "model", s->plan->model->name,
				 "cut", s->plan->cut.text, "codec_head_act", s->agreement.agreed.codec[SL_DIR_HEAD_ACT],
				 "codec_mid_grad", s->agreement.agreed.codec[SL_DIR_MID_GRAD],
				 l->vocab ? "tokens" : "pictures", (json_int_t)l->victim.n, "trained_with",
				 (json_int_t)l->aux, "mean_picture", attack_json(&l->mean, 0));

	json_object_set_new(root, "noise",
			    json_pack("{s:f, s:f}", "head_act", s->noise.head_act, "mid_grad", s->noise.mid_grad));
	for (int i = 0; i < SL_ATTACKERS && root; i++)
		json_object_set_new(root, sl_attackers[i], attack_json(&l->attack[i], l->vocab));
	json_object_set_new(root, "dcor_squared",
			    json_pack("{s:f, s:f, s:I}", "corrected", l->dcor.corrected, "usual", l->dcor.usual,
				      l->vocab ? "tokens" : "pictures", (json_int_t)l->victim.n));
	if (l->vocab) {
		json_object_set_new(root, "tokens_by_nearest_row", share(l->words_nearest));
		json_object_set_new(root, "most_frequent_token", share(l->labels_most));
		return root;
	}
	json_object_set_new(root, "labels",
			    json_pack("{s:o, s:o, s:o, s:o, s:o}", "mid_grad_one_example", share(l->labels_known),
				      "mid_grad_clusters", share(l->labels_clusters), "head_act_neighbours",
				      share(l->labels_head), "mid_act_neighbours", share(l->labels_mid),
				      "most_frequent", share(l->labels_most)));
	return root;
}

/* ---- the page */

static void row(FILE *f, const char *who, const struct sl_attack *a)
{
	fprintf(f, "| %s | %.1f (%.1f to %.1f) | %.2f (%.2f to %.2f) | %.1f %% |\n", who, a->psnr.mean, a->psnr.p10,
		a->psnr.p90, a->ssim.mean, a->ssim.p10, a->ssim.p90, 100 * a->retrieved);
}

static void label_row(FILE *f, const char *how, double x)
{
	if (!isnan(x))
		fprintf(f, "| %s | %.1f %% |\n", how, 100 * x);
}

static void assumed(FILE *f, const struct sl_leak *l, const struct sl_setup *s)
{
	const char *each = l->vocab ? "token" : "picture";
	char shape[SL_SHAPE_TEXT];

	sl_shape_text(&l->victim.head, shape);
	fprintf(f, "# What a server could learn of these data\n\n## What was assumed\n\n");
	fprintf(f,
		"- The network is %s, cut at `%s`. Of each %s %s numbers cross to the server, behind the codec "
		"`%s`.\n",
		s->plan->model->name, s->plan->cut.text, each, shape, s->agreement.agreed.codec[SL_DIR_HEAD_ACT]);
	if (s->noise.head_act > 0 || s->noise.mid_grad > 0)
		fprintf(f,
			"- The client adds noise, from a key that the attacker lacks: %g times a sample's root mean "
			"square "
			"to activations, %g times to gradients.\n",
			s->noise.head_act, s->noise.mid_grad);
	if (!l->attack[SL_ATTACKER_START].made)
		fprintf(f, "- The weights are those that a run begins with.\n");
	else if (s->trained < INT64_MAX)
		fprintf(f, "- The weights are those after %" PRId64 " steps of training.\n", s->trained);
	fprintf(f,
		"- The attacker is the server, or whoever reads its memory. It has %ss like yours: here %" PRId64
		" of the test set. It trains a decoder to give %ss back from what crosses.\n",
		each, l->aux, each);
	fprintf(f, "- It is tried on %" PRId64 " other %ss of the test set, which no decoder saw.\n", l->victim.n,
		each);
	fprintf(f,
		"- `informed` knows the weights of the head as they are. `start` knows only those that the run began "
		"with, which every server knows.\n\n");
}

static void correlation(FILE *f, const struct sl_leak *l)
{
	fprintf(f,
		"Distance correlation of %s and what crosses, squared: %.3f without its bias (%.3f by the usual "
		"estimator, which stays high in many dimensions whatever happens), over %" PRId64 " of them.\n\n",
		l->vocab ? "words" : "pictures", l->dcor.corrected, l->dcor.usual, l->victim.n);
}

static void found_words(FILE *f, const struct sl_leak *l)
{
	fprintf(f, "## What was found\n\n| tokens found, of %" PRId64 " | share |\n|---|---|\n", l->victim.n);
	for (int i = 0; i < SL_ATTACKERS; i++)
		if (l->attack[i].made)
			fprintf(f, "| by a linear probe of `%s` | %.1f %% |\n", sl_attackers[i],
				100 * l->attack[i].retrieved);
	label_row(f, "by the nearest row of the table of words", l->words_nearest);
	label_row(f, "without an attack: the most frequent token", l->labels_most);
	fprintf(f, "\nThe first and the last token of each text do not count. A probe knows only tokens that its part "
		   "of the texts has.\n\n");
	correlation(f, l);
}

static void found(FILE *f, const struct sl_leak *l)
{
	fprintf(f,
		"## What was found\n\nMeans, with the 10th and the 90th percentile.\n\n"
		"| attacker | PSNR, dB | SSIM | found among %" PRId64 " |\n|---|---|---|---|\n",
		l->victim.n);
	for (int i = 0; i < SL_ATTACKERS; i++)
		if (l->attack[i].made)
			row(f, sl_attackers[i], &l->attack[i]);
	row(f, "none: the mean picture", &l->mean);
	fprintf(f,
		"\nThe last column is the share of pictures whose reconstruction is nearer to the right original than "
		"to any other.\n\n![original and reconstruction](sheet.png)\n\n"
		"Each pair is an original and what `informed` made of what crossed: the best pictures first, then "
		"median ones, then the worst.\n\n");
	correlation(f, l);
	if (!l->classes)
		return;
	fprintf(f, "| labels found | share |\n|---|---|\n");
	label_row(f, "from gradients (mid_grad), with one known example of each class", l->labels_known);
	label_row(f, "from gradients, without any label: purity of clusters", l->labels_clusters);
	label_row(f, "from head_act, by the 10 nearest of known samples", l->labels_head);
	label_row(f, "from mid_act, by the 10 nearest of known samples", l->labels_mid);
	label_row(f, "without an attack: the most frequent label", l->labels_most);
	fputc('\n', f);
}

static void cannot(FILE *f, const struct sl_leak *l, int steps)
{
	fprintf(f, "## What this cannot show\n\n"
		   "A good reconstruction proves a leak. A bad one proves that this decoder, in this time, with these "
		   "data, failed. Other attackers know more, train longer or change the protocol. The figures hold for "
		   "these weights: measure again when they have moved.\n");
	for (int i = 0; i < SL_ATTACKERS; i++)
		if (l->attack[i].made && l->attack[i].steps < steps)
			fprintf(f,
				"\nThe decoder of `%s` had %d of %d steps, since its time was over: on another machine "
				"it may "
				"do better.\n",
				sl_attackers[i], l->attack[i].steps, steps);
}

static enum sl_err close_file(FILE *f, const char *path, struct sl_fail *fail)
{
	bool bad;

	if (!f)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "%s: %s", path, strerror(errno));
	bad = ferror(f);
	return fclose(f) != 0 || bad ? sl_fail_set(fail, SL_ERR_IO, "%s: not written whole", path) : SL_OK;
}

static enum sl_err in_folder(char path[PATH_MAX], const char *dir, const char *name, struct sl_fail *fail)
{
	return snprintf(path, PATH_MAX, "%s/%s", dir, name) < PATH_MAX
		       ? SL_OK
		       : sl_fail_set(fail, SL_ERR_CANTCREATE, "the path of the report is too long");
}

/* Writes a line for each figure: the path of its keys, such as informed.ssim.mean, and its value. */
static void dump_csv(FILE *f, const json_t *of, const char *place)
{
	const char *key;
	json_t *value;
	char path[128];

	json_object_foreach((json_t *)of, key, value)
	{
		snprintf(path, sizeof path, "%s%s%s", place, *place ? "." : "", key);
		if (json_is_object(value)) {
			dump_csv(f, value, path);
			continue;
		}
		fprintf(f, "%s,", path);
		if (!json_is_null(value))
			json_dumpf(value, f, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
		fputc('\n', f);
	}
}

static enum sl_err write_figures(const struct sl_leak *l, const struct sl_setup *s, const char *path, bool csv,
				 struct sl_fail *fail)
{
	json_t *root = sl_leak_json(l, s);
	FILE *f = root ? fopen(path, "w") : NULL;

	if (f && csv)
		dump_csv(f, root, "");
	else if (f)
		json_dumpf(root, f, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	json_decref(root);
	return close_file(f, path, fail);
}

enum sl_err sl_leak_write(const struct sl_leak *l, const struct sl_setup *s, int steps, const char *dir,
			  struct sl_fail *fail)
{
	char path[PATH_MAX];
	enum sl_err err = in_folder(path, dir, "leak.md", fail);
	FILE *f;

	if (!err && mkdir(dir, 0700) && errno != EEXIST)
		err = sl_fail_set(fail, SL_ERR_CANTCREATE, "%s: %s", dir, strerror(errno));
	if (err)
		return err;
	f = fopen(path, "w");
	if (f) {
		assumed(f, l, s);
		(l->vocab ? found_words : found)(f, l);
		cannot(f, l, steps);
	}
	err = close_file(f, path, fail);
	if (!err && !(err = in_folder(path, dir, "leak.json", fail)))
		err = write_figures(l, s, path, false, fail);
	if (!err && !(err = in_folder(path, dir, "leak.csv", fail)))
		err = write_figures(l, s, path, true, fail);
	if (!err && !l->vocab && !(err = in_folder(path, dir, "sheet.png", fail)))
		err = write_sheet(l, path, fail);
	return err;
}
