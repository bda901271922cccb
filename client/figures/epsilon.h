/* Differential privacy of what a client sends, as an accounted epsilon. A release is a sample's tensor, scaled to a
 * norm of C at most, with normal noise of deviation s · C. Two samples differ there by 2 C at most. So a release has
 * the Rényi divergence 2 a / s² of order a (Mironov 2017, "Rényi differential privacy", proposition 7). Divergences of
 * releases add up; n of them are (epsilon, delta) by the conversion of Canonne, Kamath and Steinke 2020 ("The discrete
 * Gaussian for differential privacy", proposition 12), at the best order. Neighbours are data sets in which one sample
 * was replaced by any other one. No sampling is counted: the server sees which rows cross. Pure functions; any
 * thread. */
#ifndef SL_CLIENT_FIGURES_EPSILON_H
#define SL_CLIENT_FIGURES_EPSILON_H

#include <stdint.h>

/* noise: s > 0; 0 < delta < 1. 0 releases: 0. */
double sl_epsilon(double noise, uint64_t releases, double delta);
/* The most releases whose epsilon is at most `budget`. */
uint64_t sl_epsilon_releases(double noise, double delta, double budget);

#endif
