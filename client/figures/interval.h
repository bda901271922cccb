/* 95 % intervals of an evaluation's figures: by samples or, where these are in groups such as a patient's, by groups.
 */
#ifndef SL_CLIENT_FIGURES_INTERVAL_H
#define SL_CLIENT_FIGURES_INTERVAL_H

#include <stdbool.h>
#include <stdint.h>

/* NaN, NaN: it is not known. */
struct sl_interval {
	double low, high;
};

/* A share, `right` of n samples: Wilson, Probable inference, the law of succession, and statistical inference, 1927. */
struct sl_interval sl_interval_share(double right, double n);

/* The same where the samples of a group resemble each other; right, n [groups], and groups without samples do not
 * count. n is divided by the design effect (Rao and Scott, A simple method for the analysis of clustered binary data,
 * 1992). The quantile is Student's, of the number of groups less one. Where all samples
 * are right, or none is, n is the number of groups. */
struct sl_interval sl_interval_grouped(const double *right, const double *n, int groups);

/* The mean of n shares, by Student's quantile; of these the sum, and the sum of squares. Unknown: n < 2. */
struct sl_interval sl_interval_mean(double sum, double square, int64_t n);

struct sl_ranked {
	double value;
	bool yes;      /* the sample is of the class */
	int32_t group; /* 0 … groups − 1 */
	double won;    /* filled: the share of the other side's samples that it is ranked rightly against */
};

/* The area under the ROC curve of s [n], which is sorted by value. Its variance is that of Obuchowski, Nonparametric
 * analysis of clustered ROC curve data, 1997; where each sample is a group of its own (`groups` 0, groups are not
 * read), it is that of DeLong, DeLong and Clarke-Pearson, 1988. Unknown: the class, or the rest, is in fewer than two
 * groups; no pair is ranked wrongly, or all are. */
struct sl_interval sl_interval_area(struct sl_ranked *s, int64_t n, int groups);

#endif
