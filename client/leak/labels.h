/* How well an attacker guesses labels from one vector per sample, x [n, d]. Results are shares, 0 to
 * 1. NAN: x holds NaN or Inf, so the share is undefined, or there is no memory. Attacks write the
 * label that they give each sample to predicted [n]; -1: the sample was not asked. */
#ifndef SL_CLIENT_LEAK_LABELS_H
#define SL_CLIENT_LEAK_LABELS_H

#include <stdint.h>

/* One known example per class, its first sample, which is not asked: each other sample gets the label
 * of the known example with the largest cosine to it. NAN: there are no other samples. */
double sl_leak_labels_known(const float *x, int64_t n, int64_t d, const int32_t *label, int classes,
			    int32_t *predicted);

/* Vectors that clusters are made of: of one tensor, or of two side by side (parts 2). */
struct sl_leak_vectors {
	int parts;
	const float *x[2]; /* [n, d] */
	int64_t d[2];
};

/* Purity of `classes` clusters, n at most: each sample gets the most frequent label of its cluster.
 * Rows of each part become rows of length 1. Then rows are centred, and become rows of length 1.
 * k-means runs from 50 starts (k-means++, at most 50 rounds); the least sum of squared distances
 * decides, which an attacker can compute. *chance: the same clusters' purity if the labels are
 * shuffled, the mean of 20 shuffles. It grows with the number of clusters: with one sample in each it
 * is 1. Needs memory for 2 n² doubles and a copy of one part. NAN: also if there are no samples. */
double sl_leak_labels_clusters(const struct sl_leak_vectors *v, int64_t n, const int32_t *label, int classes,
			       int32_t *predicted, double *chance);

/* k nearest neighbours (k at most 64): each sample gets the most frequent label of the `k` other
 * samples nearest to it, whose labels are known. NAN: also if there are no samples. */
double sl_leak_labels_neighbours(const float *x, int64_t n, int64_t d, const int32_t *label, int k, int32_t *predicted);

/* Share of the samples that were asked whose label is predicted; NAN: none. of_class [classes], or
 * NULL: the same of each class alone. */
double sl_leak_labels_share(const int32_t *predicted, const int32_t *label, int64_t n, int classes, double *of_class);

/* The share of vectors i of x [n, d] for which row[i] is the row of `table` [rows, d] with the largest
 * cosine. NAN: also if there are no vectors. */
double sl_leak_labels_rows(const float *x, int64_t n, int64_t d, const int32_t *row, const float *table, int64_t rows);

/* Share of the most frequent label: the base rate that a guess without any information reaches. */
double sl_leak_labels_majority(const int32_t *label, int64_t n, int classes);

#endif
