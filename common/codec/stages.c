/* Every method, in order of id. */
#include <string.h>

#include "common/codec/stage.h"

#define SL_STAGE_ROW(KIND, id, stage, ...) extern const struct sl_codec_stage sl_stage_##stage;
#include "common/codec/stages.def"

static const struct sl_codec_stage *const stages[] = {
#define SL_STAGE_ROW(KIND, id, stage, ...) &sl_stage_##stage,
#include "common/codec/stages.def"
	NULL};

const struct sl_codec_stage *const *sl_codec_stages(void)
{
	return stages;
}

const struct sl_codec_stage *sl_codec_stage_find(const char *name, size_t len)
{
	for (int i = 0; stages[i] != NULL; i++) {
		if (strlen(stages[i]->name) == len && memcmp(stages[i]->name, name, len) == 0)
			return stages[i];
	}
	return NULL;
}

bool sl_codec_by_token(const struct sl_codec_spec *spec, int64_t features)
{
	for (int i = 0; i < spec->n_stage; i++) {
		const struct sl_codec_stage *stage = spec->stage[i].stage;

		if (stage->kind != SL_STAGE_BYTES &&
		    (stage->by_token == NULL || !stage->by_token(spec->stage[i].arg, features)))
			return false;
	}
	return !spec->error_feedback;
}

bool sl_codec_spec_variant(const struct sl_codec_spec *spec, enum sl_codec_variant variant, struct sl_codec_spec *out)
{
	for (int i = 0; i < spec->n_stage; i++) {
		const int *from = spec->stage[i].stage->variant_arg;

		if (!from[variant] || !spec->stage[i].arg[from[variant]])
			continue;
		*out = *spec;
		out->of_change = variant == SL_CODEC_CHANGE;
		out->stage[i].arg[0] = spec->stage[i].arg[from[variant]];
		for (int v = 0; v < SL_CODEC_VARIANTS; v++)
			out->stage[i].arg[from[v]] = 0;
		return true;
	}
	return false;
}

const char *sl_dir_name(enum sl_dir dir)
{
	static const char *const names[SL_DIR_COUNT] = {"head_act", "mid_act", "mid_grad", "head_grad"};

	return (unsigned)dir < SL_DIR_COUNT ? names[dir] : "?";
}
