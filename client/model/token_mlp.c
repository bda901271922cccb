/* A small network of tokens: an embedding, a layer over each token, and a classifier of the first token of every row.
 * It has no attention, so a row's class must lie in its first token. It is there to test what networks of tokens need.
 */
#include <math.h>

#include "client/model/sources.h"

enum { FEATURES = 64, WIDE = 4 };

/* Smaller than the 1 of torch's Embedding, so that the first logits are small. */
static const double embedding_std = 0.1;

void sl_source_token_mlp(struct sl_build *b, const struct sl_model_spec *spec)
{
	const int f = (int)lround(FEATURES * spec->width) < 1 ? 1 : (int)lround(FEATURES * spec->width);
	int x;

	sl_build_unit(b, "embedding");
	x = sl_build_embedding(b, "embedding", SL_BUILD_INPUT, f, embedding_std);
	sl_build_unit(b, "up");
	x = sl_build_linear(b, "up.linear", x, WIDE * f, true, sl_init_as_torch(f));
	x = sl_build_gelu(b, "up.gelu", x);
	x = sl_build_dropout(b, "up.dropout", x, (float)spec->dropout);
	sl_build_unit(b, "down");
	x = sl_build_linear(b, "down.linear", x, f, true, sl_init_as_torch(WIDE * f));
	x = sl_build_gelu(b, "down.gelu", x);
	sl_build_unit(b, "first");
	x = sl_build_select(b, "first", x);
	sl_build_unit(b, "dense");
	x = sl_build_linear(b, "dense.linear", x, f, true, sl_init_as_torch(f));
	x = sl_build_gelu(b, "dense.gelu", x);
	sl_build_unit(b, "classifier");
	x = sl_build_linear(b, "classifier", x, spec->classes, true, sl_init_as_torch(f));
	sl_build_loss(b, "loss", x);
}
