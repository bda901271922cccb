#include "common/conf/named_codecs.h"

#include <string.h>

const char *const sl_codecs_of_names[SL_CODECS_OF_COUNT] = {"pictures", "rows", "tokens"};

/* clang-format off */
const struct sl_named_codecs sl_named_codecs[] = {
	{"exact", {{NULL}}},
	{"small", {
		[SL_CODECS_PICTURES] = {"quant:8|zstd", "quant:8|zstd", "quant:8,round=stochastic|zstd", "quant:8,round=stochastic|zstd"},
		[SL_CODECS_ROWS] = {"quant:8", "quant:8", "quant:8,round=stochastic", "quant:8,round=stochastic"},
		[SL_CODECS_TOKENS] = {"quant:8,block=64|zstd:19", "quant:8|zstd:19", "hadamard|quant:4,round=dither|zstd:19", "hadamard|quant:4,round=dither|zstd:19"}}},
	{"smallest", {
		[SL_CODECS_PICTURES] = {"quant:4|zstd", "quant:4|zstd", "quant:4,round=dither|zstd", "quant:4,round=dither|zstd"},
		[SL_CODECS_ROWS] = {"quant:4", "quant:4", "quant:4,round=dither", "quant:4,round=dither"},
		[SL_CODECS_TOKENS] = {"quant:4,block=64|zstd:19", "quant:5,eval=8|zstd:19", "hadamard|quant:3,round=dither|zstd:19", "hadamard|quant:3,round=dither|zstd:19"}}},
	{NULL, {{NULL}}},
};
/* clang-format on */

static enum sl_codecs_of what_crosses(enum sl_conf_data_kind kind)
{
	return kind < SL_DATA_MADE_TOKENS ? SL_CODECS_PICTURES
	       : kind == SL_DATA_CSV      ? SL_CODECS_ROWS
					  : SL_CODECS_TOKENS;
}

const char *sl_named_codec(const char *text, enum sl_conf_data_kind kind, int dir)
{
	for (const struct sl_named_codecs *n = sl_named_codecs; n->name; n++) {
		const char *codec = n->codec[what_crosses(kind)][dir];

		if (strcmp(text, n->name) == 0)
			return codec ? codec : "none";
	}
	return text;
}
