/* Tests a backend's optimizers on ranges of weights: some steps for each setting in a list. */
#ifndef SL_TESTS_OP_UPDATE_H
#define SL_TESTS_OP_UPDATE_H

#include "tests/support/op_rig.h"

/* Compares weights and moments of `got` with those of `want`: within the tolerances of op_run.h, or bit for bit. */
void op_update_compare(struct sl_backend *got, struct sl_backend *want, bool bits, struct op_log *log);
/* Checks one weight's updates against values computed by hand. */
void op_update_by_hand(struct sl_backend *be, struct op_log *log);

#endif
