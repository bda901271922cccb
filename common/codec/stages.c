/* Every method, in order of id. */
#include <string.h>

#include "common/codec/stage.h"

extern const struct sl_codec_stage sl_stage_none, sl_stage_f16, sl_stage_bf16, sl_stage_quant, sl_stage_sortquant,
	sl_stage_terngrad, sl_stage_qsgd, sl_stage_topk, sl_stage_randomk, sl_stage_threshold, sl_stage_lowrank,
	sl_stage_downsample, sl_stage_cells, sl_stage_adaptive, sl_stage_normal, sl_stage_hadamard, sl_stage_zstd;

static const struct sl_codec_stage *const stages[] = {
	&sl_stage_none,       &sl_stage_f16,       &sl_stage_bf16,
	&sl_stage_quant,      &sl_stage_sortquant, &sl_stage_terngrad,
	&sl_stage_qsgd,       &sl_stage_normal,    &sl_stage_topk,
	&sl_stage_randomk,    &sl_stage_threshold, &sl_stage_lowrank,
	&sl_stage_downsample, &sl_stage_cells,     &sl_stage_adaptive,
	&sl_stage_hadamard,   &sl_stage_zstd,      NULL,
};

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

const char *sl_dir_name(enum sl_dir dir)
{
	static const char *const names[SL_DIR_COUNT] = {"head_act", "mid_act", "mid_grad", "head_grad"};

	return (unsigned)dir < SL_DIR_COUNT ? names[dir] : "?";
}
