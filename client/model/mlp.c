/* A multilayer perceptron for rows of numbers: two hidden layers with ReLU, 64 features wide at width 1, and a
 * classifier. Weights start as torch starts Linear: U(±1 / sqrt(features in)). */
#include <math.h>

#include "client/model/sources.h"

enum { HIDDEN = 64 };

void sl_source_mlp(struct sl_build *b, const struct sl_model_spec *spec)
{
	const int wide = (int)lround(HIDDEN * spec->width) < 1 ? 1 : (int)lround(HIDDEN * spec->width);
	int x;

	sl_build_unit(b, "layer1");
	x = sl_build_linear(b, "layer1.linear", SL_BUILD_INPUT, wide, true, sl_init_as_torch(spec->features));
	x = sl_build_act(b, "layer1.relu", x, SL_ACT_RELU);
	sl_build_unit(b, "layer2");
	x = sl_build_linear(b, "layer2.linear", x, wide, true, sl_init_as_torch(wide));
	x = sl_build_act(b, "layer2.relu", x, SL_ACT_RELU);
	x = sl_build_dropout(b, "layer2.dropout", x, (float)spec->dropout);
	sl_build_unit(b, "classifier");
	x = sl_build_linear(b, "classifier", x, spec->classes, true, sl_init_as_torch(wide));
	sl_build_loss(b, "loss", x);
}
