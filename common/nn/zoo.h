/* The zoo: one file per model, each with one function that appends the model to an open builder. It may assume a spec
 * that sl_model_open has checked, and leaves failures to the builder. The first op reads value 0. */
#ifndef SL_NN_ZOO_H
#define SL_NN_ZOO_H

#include "common/nn/model.h"

void sl_zoo_mobilenet_v2(struct sl_model_builder *b, const struct sl_model_spec *spec);
void sl_zoo_resnet9(struct sl_model_builder *b, const struct sl_model_spec *spec);

#endif
