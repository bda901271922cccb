/* The built-in networks, one file each: each adds its units and nodes to a builder that was opened. */
#ifndef SL_CLIENT_MODEL_SOURCES_H
#define SL_CLIENT_MODEL_SOURCES_H

#include <math.h>

#include "client/model/source.h"

/* `c` channels at this width: the nearest multiple of 8, and at least 8. */
static inline int sl_source_channels(int c, double width)
{
	const int rounded = (int)lround(c * width / 8) * 8;

	return rounded < 8 ? 8 : rounded;
}

void sl_source_mobilenet_v2(struct sl_build *b, const struct sl_model_spec *spec);
void sl_source_mobilenet_v2_pool4(struct sl_build *b, const struct sl_model_spec *spec);
void sl_source_mobilenet_v2_relu(struct sl_build *b, const struct sl_model_spec *spec);
void sl_source_mlp(struct sl_build *b, const struct sl_model_spec *spec);
void sl_source_token_mlp(struct sl_build *b, const struct sl_model_spec *spec);
void sl_source_resnet9(struct sl_build *b, const struct sl_model_spec *spec);
void sl_source_resnet18(struct sl_build *b, const struct sl_model_spec *spec);
void sl_source_resnet34(struct sl_build *b, const struct sl_model_spec *spec);
void sl_source_resnet50(struct sl_build *b, const struct sl_model_spec *spec);
void sl_source_resnext50(struct sl_build *b, const struct sl_model_spec *spec);
void sl_source_alexnet(struct sl_build *b, const struct sl_model_spec *spec);
void sl_source_alexnet1(struct sl_build *b, const struct sl_model_spec *spec);
void sl_source_vgg16(struct sl_build *b, const struct sl_model_spec *spec);

#endif
