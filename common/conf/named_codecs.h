/* Codecs by a name: `codec: small`. What a name stands for depends on what crosses, by the kind of the data. One table:
 * configs, `splitc codecs` and docs/howto-choose.md have it from here. Pure. */
#ifndef SL_COMMON_CONF_NAMED_CODECS_H
#define SL_COMMON_CONF_NAMED_CODECS_H

#include "common/conf/conf.h"

enum sl_codecs_of { SL_CODECS_PICTURES, SL_CODECS_ROWS, SL_CODECS_TOKENS, SL_CODECS_OF_COUNT };

struct sl_named_codecs {
	const char *name;
	const char *codec[SL_CODECS_OF_COUNT][4]; /* [enum sl_dir]; NULL: none */
};

extern const struct sl_named_codecs sl_named_codecs[]; /* ends with a name of NULL */
extern const char *const sl_codecs_of_names[SL_CODECS_OF_COUNT];

/* What the name `text` stands for; `text` itself if it is no name. */
const char *sl_named_codec(const char *text, enum sl_conf_data_kind kind, int dir);

#endif
