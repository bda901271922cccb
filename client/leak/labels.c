#include "client/leak/labels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/figures/similarity.h"
#include "common/base/rng.h"
#include "common/exec/finite.h"

enum { ROUNDS = 20, SHUFFLES = 20, MOST_NEAR = 64 };

static double cosine(const float *x, const float *y, int64_t d)
{
	const double by = sqrt(sl_leak_dot(x, x, d) * sl_leak_dot(y, y, d));

	return by > 0 ? sl_leak_dot(x, y, d) / by : 0;
}

double sl_leak_labels_most(const int32_t *label, int64_t n, int classes)
{
	int64_t most = 0;

	for (int c = 0; c < classes; c++) {
		int64_t count = 0;

		for (int64_t i = 0; i < n; i++)
			count += label[i] == c;
		most = count > most ? count : most;
	}
	return n ? (double)most / (double)n : 0;
}

double sl_leak_labels_rows(const float *x, int64_t n, int64_t d, const int32_t *row, const float *table, int64_t rows)
{
	double *best = malloc((size_t)n * sizeof *best + 1);
	int64_t *said = calloc((size_t)n + 1, sizeof *said), met = 0;
	const bool finite = sl_finite_host(x, n * d);
	double share;

	for (int64_t i = 0; i < n && best; i++)
		best[i] = -INFINITY;
	for (int64_t r = 0; r < rows && best && said; r++) {
		const double norm = sqrt(sl_leak_dot(table + r * d, table + r * d, d));

		for (int64_t i = 0; i < n && norm > 0; i++) {
			const double like = sl_leak_dot(table + r * d, x + i * d, d) / norm;

			said[i] = like > best[i] ? r : said[i];
			best[i] = fmax(best[i], like);
		}
	}
	for (int64_t i = 0; i < n && best && said; i++)
		met += said[i] == row[i];
	share = n && finite && best && said ? (double)met / (double)n : NAN;
	free(best);
	free(said);
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

double sl_leak_labels_known(const float *x, int64_t n, int64_t d, const int32_t *label, int classes)
{
	int64_t met = 0, asked = 0;

	if (!sl_finite_host(x, n * d))
		return NAN;
	for (int64_t i = 0; i < n; i++) {
		double best = -2;
		int said = -1;

		if (first_of(label, n, label[i]) == i)
			continue;
		for (int c = 0; c < classes; c++) {
			const int64_t known = first_of(label, n, c);
			const double like = known < 0 ? -2 : cosine(x + known * d, x + i * d, d);

			said = like > best ? c : said;
			best = fmax(best, like);
		}
		met += said == label[i];
		asked++;
	}
	return asked ? (double)met / (double)asked : NAN;
}

/* ---- clusters */

struct clusters {
	const float *x;
	int64_t n, d;
	int k;
	float *centre; /* [k, d] */
	int *of;       /* [n] */
};

static int nearest(const struct clusters *c, int64_t i, int k, double *like)
{
	int at = 0;

	*like = -2;
	for (int j = 0; j < k; j++) {
		const double now = cosine(c->centre + j * c->d, c->x + i * c->d, c->d);

		at = now > *like ? j : at;
		*like = fmax(*like, now);
	}
	return at;
}

static void begin_clusters(struct clusters *c)
{
	memcpy(c->centre, c->x, (size_t)c->d * sizeof *c->centre);
	for (int k = 1; k < c->k; k++) {
		double least = 2, like;
		int64_t at = 0;

		for (int64_t i = 0; i < c->n; i++) {
			nearest(c, i, k, &like);
			at = like < least ? i : at;
			least = fmin(least, like);
		}
		memcpy(c->centre + k * c->d, c->x + at * c->d, (size_t)c->d * sizeof *c->centre);
	}
}

/* Each centre becomes the sum of its samples' directions. */
static void one_round(struct clusters *c)
{
	double like;

	for (int64_t i = 0; i < c->n; i++)
		c->of[i] = nearest(c, i, c->k, &like);
	memset(c->centre, 0, (size_t)(c->k * c->d) * sizeof *c->centre);
	for (int64_t i = 0; i < c->n; i++) {
		const float *x = c->x + i * c->d;
		const double norm = sqrt(sl_leak_dot(x, x, c->d));

		for (int64_t j = 0; j < c->d && norm > 0; j++)
			c->centre[c->of[i] * c->d + j] += (float)((double)x[j] / norm);
	}
}

static int by_key(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* `key` is scratch, [n]. It is sorted by cluster, then by label: the longest run in each cluster is counted. */
static double purity(const struct clusters *c, const int32_t *label, int classes, int64_t *key)
{
	int64_t met = 0, most = 0, run = 0;

	for (int64_t i = 0; i < c->n; i++)
		key[i] = (int64_t)c->of[i] * classes + label[i];
	qsort(key, (size_t)c->n, sizeof *key, by_key);
	for (int64_t i = 0; i < c->n; i++) {
		run = i && key[i] == key[i - 1] ? run + 1 : 1;
		most = run > most ? run : most;
		if (i + 1 == c->n || key[i + 1] / classes != key[i] / classes) {
			met += most;
			most = 0;
		}
	}
	return (double)met / (double)c->n;
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

double sl_leak_labels_clusters(const float *x, int64_t n, int64_t d, const int32_t *label, int classes, double *chance)
{
	struct clusters c = {.x = x, .n = n, .d = d, .k = classes < n ? classes : (int)n};
	int64_t *key = malloc((size_t)n * sizeof *key + 1);
	int32_t *shuffled = malloc((size_t)n * sizeof *shuffled + 1);
	double pure = NAN;

	*chance = NAN;
	c.centre = malloc((size_t)(c.k * d) * sizeof *c.centre + 1);
	c.of = calloc((size_t)n + 1, sizeof *c.of);
	if (key && shuffled && c.centre && c.of && n && sl_finite_host(x, n * d)) {
		begin_clusters(&c);
		for (int i = 0; i < ROUNDS; i++)
			one_round(&c);
		pure = purity(&c, label, classes, key);
		memcpy(shuffled, label, (size_t)n * sizeof *shuffled);
		*chance = 0;
		for (int i = 0; i < SHUFFLES; i++) {
			shuffle(shuffled, n, i);
			*chance += purity(&c, shuffled, classes, key) / SHUFFLES;
		}
	}
	free(key);
	free(shuffled);
	free(c.centre);
	free(c.of);
	return pure;
}

/* ---- neighbours */

struct near {
	double distance[MOST_NEAR];
	int32_t label[MOST_NEAR];
	int n;
};

static void keep_near(struct near *near, double distance, int32_t label, int k)
{
	int at = near->n < k ? near->n++ : k;

	while (at > 0 && near->distance[at - 1] > distance) {
		if (at < k) {
			near->distance[at] = near->distance[at - 1];
			near->label[at] = near->label[at - 1];
		}
		at--;
	}
	if (at < k) {
		near->distance[at] = distance;
		near->label[at] = label;
	}
}

/* The most frequent label; of equally frequent ones that of the nearest sample. */
static int32_t vote(const struct near *near)
{
	int32_t said = -1;
	int best = 0;

	for (int i = 0; i < near->n; i++) {
		int count = 0;

		for (int j = 0; j < near->n; j++)
			count += near->label[j] == near->label[i];
		said = count > best ? near->label[i] : said;
		best = count > best ? count : best;
	}
	return said;
}

double sl_leak_labels_near(const float *x, int64_t n, int64_t d, const int32_t *label, int k)
{
	int64_t met = 0;

	if (!sl_finite_host(x, n * d))
		return NAN;
	for (int64_t i = 0; i < n; i++) {
		struct near near = {.n = 0};

		for (int64_t j = 0; j < n; j++)
			if (j != i)
				keep_near(&near, sl_leak_distance(x + j * d, x + i * d, d), label[j],
					  k < MOST_NEAR ? k : MOST_NEAR);
		met += vote(&near) == label[i];
	}
	return n ? (double)met / (double)n : NAN;
}
