/* A hash of what a network computes, which tells whether weights that were trained in one network fit another. */
#ifndef SL_CLIENT_MODEL_NETWORK_H
#define SL_CLIENT_MODEL_NETWORK_H

#include "common/exec/plan.h"

/* Hashes the layers from the input to the logits, inserts included: kinds, attributes, names of parameters and
 * connections. The hash is equal wherever the network is cut, for any batch, precision, loss and size of the input, and
 * with or without dropout and adapters. `plan`: the client's, of all three parts. 0: there is no memory. */
uint64_t sl_network_hash(const struct sl_plan *plan);

#endif
