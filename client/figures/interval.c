#include "client/figures/interval.h"

#include <math.h>
#include <stdlib.h>

static const double normal = 1.959963984540054; /* the quantile of 0.975 */
static const struct sl_interval unknown = {(double)NAN, (double)NAN};

/* Student's quantile of 0.975: exact up to two degrees of freedom, else by its series (Abramowitz and Stegun, 26.7.5).
 * The series is 1 % too small for three, and right to four digits from eight on. */
static double student(int freedom)
{
	const double z = normal, z2 = z * z, f = freedom;

	if (freedom < 3)
		return freedom == 2 ? 4.302652729911275 : 12.706204736432095;
	return z + z * (z2 + 1) / (4 * f) + z * ((5 * z2 + 16) * z2 + 3) / (96 * f * f) +
	       z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * f * f * f);
}

static struct sl_interval wilson(double p, double n, double z)
{
	const double middle = (p + z * z / (2 * n)) / (1 + z * z / n),
		     half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n));

	return (struct sl_interval){fmax(0, middle - half), fmin(1, middle + half)};
}

struct sl_interval sl_interval_share(double right, double n)
{
	return n > 0 ? wilson(right / n, n, normal) : unknown;
}

struct sl_interval sl_interval_grouped(const double *right, const double *n, int groups)
{
	double rights = 0, all = 0, square = 0, p, variance;
	int used = 0;

	for (int g = 0; g < groups; g++) {
		rights += right[g];
		all += n[g];
		used += n[g] > 0;
	}
	if (used < 2)
		return unknown;
	p = rights / all;
	for (int g = 0; g < groups; g++)
		square += pow(right[g] - n[g] * p, 2);
	variance = used / (used - 1.0) * square / (all * all);
	return wilson(p, variance > 0 ? fmin(all, p * (1 - p) / variance) : used, student(used - 1));
}

struct sl_interval sl_interval_mean(double sum, double square, int64_t n)
{
	const double mean = sum / (double)n, variance = fmax(0, square - sum * mean) / ((double)n - 1);
	const double half = n < 2 ? 0 : student((int)n - 1) * sqrt(variance / (double)n);

	return n < 2 ? unknown : (struct sl_interval){fmax(0, mean - half), fmin(1, mean + half)};
}

/* Fills `won`; returns the area. */
static double rank(struct sl_ranked *s, int64_t n, double yes, double no)
{
	double no_below = 0, yes_below = 0, sum = 0;

	for (int64_t i = 0, end; i < n; i = end) {
		double yes_here = 0, no_here = 0;

		for (end = i; end < n && (end == i || s[end].value <= s[i].value); end++)
			*(s[end].yes ? &yes_here : &no_here) += 1;
		for (int64_t k = i; k < end; k++) {
			s[k].won = s[k].yes ? (no_below + no_here / 2) / no : (yes - yes_below - yes_here / 2) / yes;
			sum += s[k].yes ? s[k].won : 0;
		}
		no_below += no_here;
		yes_below += yes_here;
	}
	return sum / yes;
}

/* A group's sums of what its samples won beyond the area, of the class and of the rest, and how many they are. */
struct cluster {
	double sum[2], n[2];
};

/* The variance of the area, from its clusters; *fewest: how many the class or the rest has. */
static double variance_of(const struct cluster *c, int64_t groups, double yes, double no, int *fewest)
{
	const double n[2] = {no, yes};
	double own[2] = {0, 0}, both = 0, of[2] = {0, 0}, all = 0;

	for (int64_t g = 0; g < groups; g++) {
		for (int k = 0; k < 2; k++) {
			own[k] += c[g].sum[k] * c[g].sum[k];
			of[k] += c[g].n[k] > 0;
		}
		both += c[g].sum[0] * c[g].sum[1];
		all += c[g].n[0] + c[g].n[1] > 0;
	}
	*fewest = (int)fmin(of[0], of[1]);
	for (int k = 0; k < 2; k++)
		own[k] *= of[k] / ((of[k] - 1) * n[k] * n[k]);
	return own[0] + own[1] + 2 * both * all / ((all - 1) * yes * no);
}

struct sl_interval sl_interval_area(struct sl_ranked *s, int64_t n, int groups)
{
	const int64_t many = groups ? groups : n;
	struct cluster *cluster = calloc((size_t)many + 1, sizeof *cluster);
	double yes = 0, area, variance, half;
	int fewest;

	for (int64_t i = 0; i < n; i++)
		yes += s[i].yes;
	if (!cluster || yes < 1 || yes > (double)n - 1) {
		free(cluster);
		return unknown;
	}
	area = rank(s, n, yes, (double)n - yes);
	for (int64_t i = 0; i < n; i++) {
		struct cluster *c = &cluster[groups ? s[i].group : i];

		c->sum[s[i].yes] += s[i].won - area;
		c->n[s[i].yes]++;
	}
	variance = variance_of(cluster, many, yes, (double)n - yes, &fewest);
	free(cluster);
	if (fewest < 2 || !(variance > 0))
		return unknown;
	half = (groups ? student(fewest - 1) : normal) * sqrt(variance);
	return (struct sl_interval){fmax(0, area - half), fmin(1, area + half)};
}
