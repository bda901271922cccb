/* What a network computes, as a number: whether weights that were trained in one network belong in another. */
#ifndef SL_CLIENT_MODEL_NETWORK_H
#define SL_CLIENT_MODEL_NETWORK_H

#include "common/exec/plan.h"

/* A hash of the layers from the input to the logits: kinds, attributes, names of parameters, and what goes into what;
 * of inserts, too. Equal wherever the network is cut, for any batch, precision, loss and size of the input, and with or
 * without dropout and adapters. `plan`: the client's, of all three parts. 0: there is no memory. */
uint64_t sl_network_hash(const struct sl_plan *plan);

#endif
