/* The weights with which insert.head begins if train.loss is restore_head: the principal components of the activation
 * at its cut. Of all linear maps to as many numbers they have the least mean squared error (Eckart, Young, 1936). */
#ifndef SL_CLIENT_SETUP_PRINCIPAL_H
#define SL_CLIENT_SETUP_PRINCIPAL_H

#include "client/setup/setup.h"

/* Writes them to s->weights, and logs how much variance they leave out. `s` is complete. Does nothing for another loss,
 * for weights that a file gave, or in a group, whose members begin with the same weights. It also does
 * nothing for an insert that is not one convolution whose windows touch and do not overlap (k = s, p = 0). A window
 * must have more numbers than the convolution has channels, and at most 4096. */
enum sl_err sl_setup_principal(struct sl_setup *s, struct sl_fail *fail) SL_MUST_CHECK;

#endif
