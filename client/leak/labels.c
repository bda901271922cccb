#include "client/leak/labels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/figures/similarity.h"
#include "common/base/rng.h"
#include "common/exec/finite.h"

enum { STARTS = 50, ROUNDS = 50, SHUFFLES = 20, MOST_NEIGHBOURS = 64 };

static double cosine(const float *x, const float *y, int64_t d)
{
	const double by = sqrt(sl_leak_dot(x, x, d) * sl_leak_dot(y, y, d));

	return by > 0 ? sl_leak_dot(x, y, d) / by : 0;
}

double sl_leak_labels_majority(const int32_t *label, int64_t n, int classes)
{
	int64_t majority = 0;

	for (int c = 0; c < classes; c++) {
		int64_t count = 0;

		for (int64_t i = 0; i < n; i++)
			count += label[i] == c;
		majority = count > majority ? count : majority;
	}
	return n ? (double)majority / (double)n : 0;
}

double sl_leak_labels_share(const int32_t *predicted, const int32_t *label, int64_t n, int classes, double *of_class)
{
	int64_t correct = 0, asked = 0;

	for (int64_t i = 0; i < n; i++) {
		correct += predicted[i] == label[i];
		asked += predicted[i] >= 0;
	}
	for (int c = 0; c < classes && of_class; c++) {
		int64_t of_correct = 0, of_asked = 0;

		for (int64_t i = 0; i < n; i++) {
			of_correct += label[i] == c && predicted[i] == c;
			of_asked += label[i] == c && predicted[i] >= 0;
		}
		of_class[c] = of_asked ? (double)of_correct / (double)of_asked : NAN;
	}
	return asked ? (double)correct / (double)asked : NAN;
}

double sl_leak_labels_rows(const float *x, int64_t n, int64_t d, const int32_t *row, const float *table, int64_t rows)
{
	double *best = malloc((size_t)n * sizeof *best + 1);
	int64_t *predicted = calloc((size_t)n + 1, sizeof *predicted), correct = 0;
	const bool finite = sl_finite_host(x, n * d);
	double share;

	for (int64_t i = 0; i < n && best; i++)
		best[i] = -INFINITY;
	for (int64_t r = 0; r < rows && best && predicted; r++) {
		const double norm = sqrt(sl_leak_dot(table + r * d, table + r * d, d));

		for (int64_t i = 0; i < n && norm > 0; i++) {
			const double similarity = sl_leak_dot(table + r * d, x + i * d, d) / norm;

			predicted[i] = similarity > best[i] ? r : predicted[i];
			best[i] = fmax(best[i], similarity);
		}
	}
	for (int64_t i = 0; i < n && best && predicted; i++)
		correct += predicted[i] == row[i];
	share = n && finite && best && predicted ? (double)correct / (double)n : NAN;
	free(best);
	free(predicted);
	return share;
}

/* The first sample of a class; -1: there is none. */
static int64_t first_of(const int32_t *label, int64_t n, int c)
{
	for (int64_t i = 0; i < n; i++)
		if (label[i] == c)
			return i;
	return -1;
}

double sl_leak_labels_known(const float *x, int64_t n, int64_t d, const int32_t *label, int classes, int32_t *predicted)
{
	if (!sl_finite_host(x, n * d))
		return NAN;
	for (int64_t i = 0; i < n; i++) {
		double best = -2;

		predicted[i] = -1;
		if (first_of(label, n, label[i]) == i)
			continue;
		for (int c = 0; c < classes; c++) {
			const int64_t known = first_of(label, n, c);
			const double similarity = known < 0 ? -2 : cosine(x + known * d, x + i * d, d);

			predicted[i] = similarity > best ? c : predicted[i];
			best = fmax(best, similarity);
		}
	}
	return sl_leak_labels_share(predicted, label, n, classes, NULL);
}

/* ---- clusters: k-means on the products of all samples. A centre is a mean of samples, so distances
 * follow from these products alone, and the work does not depend on how wide the vectors are. */

struct clusters {
	const double *gram; /* [n, n] products of the rows */
	int64_t n;
	int k;
	double *with;     /* [k, n] each centre's product with each sample */
	double *self;     /* [k] its product with itself */
	double *distance; /* [n] squared, to the nearest centre */
	int64_t *size;    /* [k] */
	int *of;          /* [n] the nearest centre */
	int *best;        /* [n] those of the best start so far */
};

/* Adds the products of the rows of x, which are first brought to length 1, and centred. */
static bool add_products(double *gram, const float *x, int64_t n, int64_t d)
{
	float *row = malloc((size_t)(n * d) * sizeof *row + 1);
	double *sum = calloc((size_t)d + 1, sizeof *sum);

	for (int64_t i = 0; i < n && row && sum; i++) {
		const double norm = sqrt(sl_leak_dot(x + i * d, x + i * d, d));

		for (int64_t j = 0; j < d; j++) {
			row[i * d + j] = norm > 0 ? (float)((double)x[i * d + j] / norm) : 0;
			sum[j] += (double)row[i * d + j];
		}
	}
	for (int64_t i = 0; i < n && row && sum; i++)
		for (int64_t j = 0; j < d; j++)
			row[i * d + j] -= (float)(sum[j] / (double)n);
	for (int64_t i = 0; i < n && row && sum; i++)
		for (int64_t j = 0; j <= i; j++) {
			gram[i * n + j] += sl_leak_dot(row + i * d, row + j * d, d);
			gram[j * n + i] = gram[i * n + j];
		}
	free(row);
	free(sum);
	return row && sum;
}

/* Brings the rows to length 1; `norm` is scratch, [n]. */
static void scale_products(double *gram, int64_t n, double *norm)
{
	for (int64_t i = 0; i < n; i++)
		norm[i] = sqrt(fmax(gram[i * n + i], 0));
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < n; j++)
			gram[i * n + j] = norm[i] > 0 && norm[j] > 0 ? gram[i * n + j] / (norm[i] * norm[j]) : 0;
}

/* Squared. */
static double distance_to(const struct clusters *c, int64_t i, int centre)
{
	return c->gram[i * c->n + i] - 2 * c->with[centre * c->n + i] + c->self[centre];
}

/* Assigns each sample to the nearest centre. Returns how many changed. */
static int64_t assign(struct clusters *c)
{
	int64_t changed = 0;

	for (int64_t i = 0; i < c->n; i++) {
		double least = INFINITY;
		int at = 0;

		for (int j = 0; j < c->k; j++) {
			const double d = distance_to(c, i, j);

			at = d < least ? j : at;
			least = fmin(least, d);
		}
		changed += c->of[i] != at;
		c->of[i] = at;
		c->distance[i] = fmax(least, 0);
	}
	return changed;
}

/* k-means++ (Arthur and Vassilvitskii, 2007): a sample becomes a centre with a probability that is
 * proportional to its squared distance. */
static void begin_clusters(struct clusters *c, int start)
{
	const struct sl_rng_key key = {0, (uint64_t)(SHUFFLES + start), 0, SL_RNG_LEAK};

	for (int k = 0; k < c->k; k++) {
		const double draw = (double)sl_rng_u32(&key, (uint64_t)k) / 4294967296.0;
		double sum = 0, left;
		int64_t at = 0;

		for (int64_t i = 0; i < c->n; i++) {
			c->distance[i] = k ? c->distance[i] : INFINITY;
			sum += k ? c->distance[i] : 1;
		}
		left = draw * sum;
		while (at + 1 < c->n && (left -= k ? c->distance[at] : 1) >= 0)
			at++;
		memcpy(c->with + k * c->n, c->gram + at * c->n, (size_t)c->n * sizeof *c->with);
		c->self[k] = c->gram[at * c->n + at];
		for (int64_t i = 0; i < c->n; i++) {
			const double d = fmax(distance_to(c, i, k), 0);

			c->of[i] = d < c->distance[i] ? k : c->of[i];
			c->distance[i] = fmin(c->distance[i], d);
		}
	}
}

/* Each centre becomes the mean of its samples. A centre without samples stays. */
static void move_centres(struct clusters *c)
{
	memset(c->size, 0, (size_t)c->k * sizeof *c->size);
	for (int64_t i = 0; i < c->n; i++)
		c->size[c->of[i]]++;
	for (int j = 0; j < c->k; j++)
		if (c->size[j]) {
			memset(c->with + j * c->n, 0, (size_t)c->n * sizeof *c->with);
			c->self[j] = 0;
		}
	for (int64_t j = 0; j < c->n; j++) {
		double *with = c->with + c->of[j] * c->n;
		const double by = (double)c->size[c->of[j]];

		for (int64_t i = 0; i < c->n; i++)
			with[i] += c->gram[j * c->n + i] / by;
	}
	for (int64_t i = 0; i < c->n; i++)
		c->self[c->of[i]] += c->with[c->of[i] * c->n + i] / (double)c->size[c->of[i]];
}

static void find_clusters(struct clusters *c)
{
	double least = INFINITY;

	for (int start = 0; start < STARTS; start++) {
		double sum = 0;

		begin_clusters(c, start);
		for (int i = 0; i < ROUNDS; i++) {
			move_centres(c);
			if (!assign(c))
				break;
		}
		for (int64_t i = 0; i < c->n; i++)
			sum += c->distance[i];
		if (sum < least)
			memcpy(c->best, c->of, (size_t)c->n * sizeof *c->best);
		least = fmin(least, sum);
	}
}

static int by_key(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* `key` is scratch, [n]. It is sorted by cluster, then by label: the longest run of each cluster is its
 * most frequent label, name[cluster]. Returns the purity. */
static double name_clusters(const struct clusters *c, const int32_t *label, int classes, int64_t *key, int32_t *name)
{
	int64_t correct = 0, longest = 0, run = 0;

	for (int64_t i = 0; i < c->n; i++)
		key[i] = (int64_t)c->best[i] * classes + label[i];
	qsort(key, (size_t)c->n, sizeof *key, by_key);
	for (int64_t i = 0; i < c->n; i++) {
		run = i && key[i] == key[i - 1] ? run + 1 : 1;
		if (run > longest)
			name[key[i] / classes] = (int32_t)(key[i] % classes);
		longest = run > longest ? run : longest;
		if (i + 1 == c->n || key[i + 1] / classes != key[i] / classes) {
			correct += longest;
			longest = 0;
		}
	}
	return (double)correct / (double)c->n;
}

static void shuffle(int32_t *label, int64_t n, int number)
{
	const struct sl_rng_key key = {0, (uint64_t)number, 0, SL_RNG_LEAK};

	for (int64_t i = n - 1; i > 0; i--) {
		const int64_t j = sl_rng_below(sl_rng_u32(&key, (uint64_t)i), (uint32_t)i + 1);
		const int32_t other = label[j];

		label[j] = label[i];
		label[i] = other;
	}
}

/* Purity of the clusters c->best and of the same ones with shuffled labels; NAN: no memory. */
static double judge_clusters(const struct clusters *c, const int32_t *label, int classes, int32_t *predicted,
			     double *chance)
{
	int64_t *key = malloc((size_t)c->n * sizeof *key);
	int32_t *shuffled = malloc((size_t)c->n * sizeof *shuffled);
	int32_t *name = calloc((size_t)c->k, sizeof *name);
	double purity = NAN;

	if (key && shuffled && name) {
		purity = name_clusters(c, label, classes, key, name);
		for (int64_t i = 0; i < c->n; i++)
			predicted[i] = name[c->best[i]];
		memcpy(shuffled, label, (size_t)c->n * sizeof *shuffled);
		*chance = 0;
		for (int i = 0; i < SHUFFLES; i++) {
			shuffle(shuffled, c->n, i);
			*chance += name_clusters(c, shuffled, classes, key, name) / SHUFFLES;
		}
	}
	free(key);
	free(shuffled);
	free(name);
	return purity;
}

double sl_leak_labels_clusters(const struct sl_leak_vectors *v, int64_t n, const int32_t *label, int classes,
			       int32_t *predicted, double *chance)
{
	struct clusters c = {.n = n, .k = classes < n ? classes : (int)n};
	double *gram = calloc((size_t)(n * n) + 1, sizeof *gram), purity = NAN;
	bool good = gram && n > 0;

	c.with = malloc((size_t)(c.k * n) * sizeof *c.with + 1);
	c.self = malloc((size_t)c.k * sizeof *c.self + 1);
	c.distance = malloc((size_t)n * sizeof *c.distance + 1);
	c.size = malloc((size_t)c.k * sizeof *c.size + 1);
	c.of = calloc((size_t)n + 1, sizeof *c.of);
	c.best = calloc((size_t)n + 1, sizeof *c.best);
	*chance = NAN;
	good = good && c.with && c.self && c.distance && c.size && c.of && c.best;
	for (int i = 0; i < v->parts && good; i++)
		good = sl_finite_host(v->x[i], n * v->d[i]) && add_products(gram, v->x[i], n, v->d[i]);
	if (good) {
		scale_products(gram, n, c.distance);
		c.gram = gram;
		find_clusters(&c);
		purity = judge_clusters(&c, label, classes, predicted, chance);
	}
	free(gram);
	free(c.with);
	free(c.self);
	free(c.distance);
	free(c.size);
	free(c.of);
	free(c.best);
	return purity;
}

/* ---- neighbours */

struct neighbours {
	double distance[MOST_NEIGHBOURS];
	int32_t label[MOST_NEIGHBOURS];
	int n;
};

static void keep_nearest(struct neighbours *to, double distance, int32_t label, int k)
{
	int at = to->n < k ? to->n++ : k;

	while (at > 0 && to->distance[at - 1] > distance) {
		if (at < k) {
			to->distance[at] = to->distance[at - 1];
			to->label[at] = to->label[at - 1];
		}
		at--;
	}
	if (at < k) {
		to->distance[at] = distance;
		to->label[at] = label;
	}
}

/* The most frequent label; of equally frequent ones that of the nearest sample. */
static int32_t vote(const struct neighbours *of)
{
	int32_t predicted = -1;
	int best = 0;

	for (int i = 0; i < of->n; i++) {
		int count = 0;

		for (int j = 0; j < of->n; j++)
			count += of->label[j] == of->label[i];
		predicted = count > best ? of->label[i] : predicted;
		best = count > best ? count : best;
	}
	return predicted;
}

double sl_leak_labels_neighbours(const float *x, int64_t n, int64_t d, const int32_t *label, int k, int32_t *predicted)
{
	int64_t correct = 0;

	if (!sl_finite_host(x, n * d))
		return NAN;
	for (int64_t i = 0; i < n; i++) {
		struct neighbours near = {.n = 0};

		for (int64_t j = 0; j < n; j++)
			if (j != i)
				keep_nearest(&near, sl_leak_distance(x + j * d, x + i * d, d), label[j],
					     k < MOST_NEIGHBOURS ? k : MOST_NEIGHBOURS);
		predicted[i] = vote(&near);
		correct += predicted[i] == label[i];
	}
	return n ? (double)correct / (double)n : NAN;
}
