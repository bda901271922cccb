/* How well an attacker guesses labels from one vector per sample, x [n, d]. Results are shares, 0 to 1. NAN: x holds
 * NaN or Inf, so the share is undefined. */
#ifndef SL_CLIENT_LEAK_LABELS_H
#define SL_CLIENT_LEAK_LABELS_H

#include <stdint.h>

/* One known example per class, its first sample, which does not count itself: the share of the other samples whose
 * label is that of the known example with the largest cosine to them. NAN: there are no other samples. */
double sl_leak_labels_known(const float *x, int64_t n, int64_t d, const int32_t *label, int classes);
/* Purity of `classes` clusters, n at most: the share of samples that have the most frequent label of their cluster.
 * Clusters are by cosine (spherical k-means, 20 rounds). The first sample is the first centre; each further one is the
 * sample that is farthest from the centres so far. *chance: the same clusters' purity if the labels are shuffled, the
 * mean of 20 shuffles. It grows with the number of clusters: with one sample in each it is 1. NAN: no memory, or no
 * samples. */
double sl_leak_labels_clusters(const float *x, int64_t n, int64_t d, const int32_t *label, int classes, double *chance);
/* k nearest neighbours (k at most 64): the share of samples whose label is the most frequent one of the `k` other
 * samples nearest to them, whose labels are known. NAN: no samples. */
double sl_leak_labels_near(const float *x, int64_t n, int64_t d, const int32_t *label, int k);
/* The share of vectors i of x [n, d] for which row[i] is the row of `table` [rows, d] with the largest cosine.
 * NAN: no memory, or no vectors. */
double sl_leak_labels_rows(const float *x, int64_t n, int64_t d, const int32_t *row, const float *table, int64_t rows);
/* Share of the most frequent label: the base rate that a guess without any information reaches. */
double sl_leak_labels_most(const int32_t *label, int64_t n, int classes);

#endif
