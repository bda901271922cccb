/* Shared by metric.c, metric_rank.c and scores.c alone. */
#ifndef SL_CLIENT_FIGURES_METRIC_KINDS_H
#define SL_CLIENT_FIGURES_METRIC_KINDS_H

#include "client/figures/metric.h"

/* metric.c: adds x and y to the sums about their means; the correlation that these sums give */
void sl_metric_moment(struct sl_metric_state *s, double x, double y);
double sl_metric_pearson(const struct sl_metric_state *s);

/* metric_rank.c: metrics that keep all outputs and targets */
enum sl_err sl_metric_keep_labels(struct sl_metric_state *s, const float *output, const void *target, int64_t rows);
enum sl_err sl_metric_keep_numbers(struct sl_metric_state *s, const float *output, const void *target, int64_t rows);
enum sl_err sl_metric_keep_more(struct sl_metric_state *s, const struct sl_metric_state *behind);
double sl_metric_auc(const struct sl_metric_state *s);
double sl_metric_average_precision(const struct sl_metric_state *s);
/* From all rows of a label: the probability from which on it is predicted with the largest F1. */
double sl_metric_threshold(const struct sl_metric_state *s);
double sl_metric_calibration(const struct sl_metric_state *s);
int sl_metric_roc(const struct sl_metric_state *s, int k, struct sl_roc_point *point, double *area);
bool sl_metric_bins(const struct sl_metric_state *s, struct sl_metric_bin bin[SL_METRIC_BINS]);
/* Of two classes: the interval of the area. Row r is in group[r]; NULL: each row is a group of its own. */
struct sl_interval sl_metric_area(const struct sl_metric_state *s, const int32_t *group, int groups);
double sl_metric_spearman(const struct sl_metric_state *s);

#endif
