/* The sources that there are, for source.c and tests. */
#ifndef SL_CLIENT_DATA_SOURCES_H
#define SL_CLIENT_DATA_SOURCES_H

#include "client/data/source.h"

/* Binary files of CIFAR-10 and CIFAR-100 (https://www.cs.toronto.edu/~kriz/cifar.html). A record is the label bytes
 * (CIFAR-10: one; CIFAR-100: coarse, then fine, which is the label) and 3072 bytes of pixels, all red, then all green,
 * then all blue values, each 32 rows of 32. The set holds all pixels in memory. A last record that is cut off is DATA,
 * and both sizes are named; so is a label out of range, with its record's number, from 0 in its file. */
extern const struct sl_source sl_source_cifar10, sl_source_cifar100;

#endif
