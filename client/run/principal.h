/* What insert.head begins from where train.loss is restore_head: the principal components of the activation at its cut.
 * Of all linear maps to as many numbers they leave the least mean squared error (Eckart and Young, 1936). */
#ifndef SL_CLIENT_RUN_PRINCIPAL_H
#define SL_CLIENT_RUN_PRINCIPAL_H

#include "client/run/setup.h"

/* Writes them into s->weights and says in the log what they leave out. Nothing is done of other losses and inserts:
 * there has to be one convolution whose windows touch and do not overlap (k = s, p = 0) and have more numbers than it
 * has channels, and no file may have given its weights. Nor is it done in a group, whose members begin with the same
 * weights. A setup that is whole. */
enum sl_err sl_setup_principal(struct sl_setup *s, struct sl_fail *fail) SL_MUST_CHECK;

#endif
