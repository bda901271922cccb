/* What an attacker says of labels, from one vector of each sample [n, d]. */
#ifndef SL_CLIENT_LEAK_LABELS_H
#define SL_CLIENT_LEAK_LABELS_H

#include <stdint.h>

/* Share of samples whose label is that of the known example with the largest cosine to them. Of each class the first
 * sample is known; it does not count. */
double sl_leak_labels_known(const float *x, int64_t n, int64_t d, const int32_t *label, int classes);
/* Share of samples that have the most frequent label of their cluster, of `classes` clusters by cosine (k-means of
 * directions, 20 rounds; each new centre is the sample that is farthest from all others). NOMEM: NAN. */
double sl_leak_labels_clusters(const float *x, int64_t n, int64_t d, const int32_t *label, int classes);
/* Share of samples whose label is the most frequent one of the `k` samples nearest to them, each of which is known. */
double sl_leak_labels_near(const float *x, int64_t n, int64_t d, const int32_t *label, int classes, int k);
/* Of x [n, d] the row of `table` [rows, d] with the largest cosine: the share for which that is number row[i]. */
double sl_leak_labels_rows(const float *x, int64_t n, int64_t d, const int32_t *row, const float *table, int64_t rows);
/* Share of the most frequent label: what says nothing says as much. */
double sl_leak_labels_most(const int32_t *label, int64_t n, int classes);

#endif
