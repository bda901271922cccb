/* Specifications as users type them: "topk:0.2|quant:8,per=channel". Grammar and canonical form: docs/CODECS.md. */
#include <stdio.h>
#include <string.h>

#include "common/base/nearest.h"
#include "common/codec/stage.h"

enum { NOT_GIVEN = -1 };

struct parser {
	struct sl_codec_spec spec;
	bool channels, samples; /* the values at this point still have them */
	enum sl_stage_kind last;
	struct sl_fail *fail;
};

/* An option of the whole chain, written at its first stage. */
static const struct sl_arg feedback = {.key = "ef", .type = SL_ARG_FLAG, .otherwise = NOT_GIVEN};

static struct sl_args arguments(const struct sl_codec_stage *stage)
{
	return (struct sl_args){.prefix = "codec: ",
				.name = stage->name,
				.usage = stage->usage,
				.table = stage->args,
				.common = &feedback};
}

static int n_arguments(const struct sl_codec_stage *stage)
{
	int n = 0;

	while (stage->args[n].key != NULL)
		n++;
	return n;
}

static enum sl_err find_stage(const struct parser *p, const char *text, size_t len, const struct sl_codec_stage **stage)
{
	struct sl_nearest best = {NULL, 0};
	char names[160] = "";

	*stage = sl_codec_stage_find(text, len);
	if (*stage != NULL)
		return SL_OK;
	for (const struct sl_codec_stage *const *s = sl_codec_stages(); *s != NULL; s++) {
		size_t used = strlen(names);

		snprintf(names + used, sizeof names - used, "%s%s", used == 0 ? "" : ", ", (*s)->name);
		sl_nearest_offer(&best, text, len, (*s)->name);
	}
	if (best.name)
		return sl_fail_set(p->fail, SL_ERR_CONFIG, "codec: no method is called '%.*s': did you mean \"%s\"?",
				   (int)len, text, best.name);
	return sl_fail_set(p->fail, SL_ERR_CONFIG, "codec: no method is called '%.*s'; there are %s", (int)len, text,
			   names);
}

/* Puts a parsed stage at the end of the chain, if the order of kinds allows it. */
static enum sl_err append(struct parser *p, const struct sl_codec_stage *stage, const double *arg)
{
	int n = p->spec.n_stage;
	enum sl_err err;

	if (n == SL_CODEC_MAX_STAGES)
		return sl_fail_set(p->fail, SL_ERR_CONFIG, "codec: a chain has at most %d stages", SL_CODEC_MAX_STAGES);
	if (n > 0 && (stage->kind < p->last || (stage->kind == p->last && stage->kind != SL_STAGE_TRANSFORM)))
		return sl_fail_set(p->fail, SL_ERR_CONFIG,
				   "codec: '%s' cannot follow '%s': first what keeps or transforms values, then one "
				   "quantizer, then zstd",
				   stage->name, p->spec.stage[n - 1].stage->name);
	if (stage->check != NULL) {
		err = stage->check(arg, p->channels, p->samples, p->fail);
		if (err)
			return err;
	}
	p->spec.stage[n].stage = stage;
	memcpy(p->spec.stage[n].arg, arg, sizeof p->spec.stage[n].arg);
	p->spec.n_stage++;
	p->last = stage->kind;
	if (stage->kind == SL_STAGE_TRANSFORM) {
		p->channels = p->channels && stage->keeps_channels;
		p->samples = p->samples && stage->keeps_samples;
	}
	return SL_OK;
}

static enum sl_err parse_stage(struct parser *p, const char *text, size_t len)
{
	double value[SL_ARGS_MAX] = {0}, *ef;
	const size_t name_len = strcspn(text, ":,|");
	const struct sl_codec_stage *stage;
	struct sl_args args;
	enum sl_err err = find_stage(p, text, name_len, &stage);

	if (err)
		return err;
	args = arguments(stage);
	err = sl_args_read(&args, text + name_len, len - name_len, value, p->fail);
	if (err)
		return err;
	ef = &value[n_arguments(stage)];
	if (*ef != NOT_GIVEN && p->spec.n_stage != 0)
		return sl_fail_set(p->fail, SL_ERR_CONFIG,
				   "codec: ef concerns the whole chain and stands at its first stage, not at '%s'",
				   stage->name);
	if (p->spec.n_stage == 0)
		p->spec.error_feedback = *ef == 1;
	*ef = 0;
	return append(p, stage, value);
}

static enum sl_err print_spec(struct parser *p)
{
	struct sl_codec_spec *spec = &p->spec;
	char text[SL_CODEC_MAX_STAGES * 256];
	size_t len = 0;

	for (int s = 0; s < spec->n_stage; s++) {
		const struct sl_args args = arguments(spec->stage[s].stage);
		double value[SL_ARGS_MAX] = {0};

		memcpy(value, spec->stage[s].arg, sizeof spec->stage[s].arg);
		value[n_arguments(spec->stage[s].stage)] = s == 0 && spec->error_feedback ? 1 : NOT_GIVEN;
		if (s)
			text[len++] = '|';
		len += sl_args_write(&args, value, text + len, sizeof text - len);
	}
	if (len >= SL_CODEC_SPEC_MAX)
		return sl_fail_set(p->fail, SL_ERR_CONFIG, "codec: '%s' is longer than %d characters", text,
				   SL_CODEC_SPEC_MAX - 1);
	memcpy(spec->text, text, len + 1);
	return SL_OK;
}

/* Drops `none` from a longer chain: a chain without a quantizer has it anyway. */
static void drop_none(struct sl_codec_spec *spec)
{
	for (int s = 0; s < spec->n_stage && spec->n_stage > 1; s++) {
		if (spec->stage[s].stage->id != SL_STAGE_ID_NONE)
			continue;
		spec->n_stage--;
		memmove(&spec->stage[s], &spec->stage[s + 1], (size_t)(spec->n_stage - s) * sizeof spec->stage[0]);
		return;
	}
}

/* Changes are cut to the range of their codes, so nothing stands between the two. */
static enum sl_err check_change(const struct parser *p)
{
	const struct sl_codec_stage *first = p->spec.stage[0].stage;
	struct sl_codec_spec change;

	if (!sl_codec_spec_variant(&p->spec, SL_CODEC_CHANGE, &change))
		return SL_OK;
	if (first->kind == SL_STAGE_TRANSFORM)
		return sl_fail_set(p->fail, SL_ERR_CONFIG, "codec: quant with change=b begins its chain: leave %s out",
				   first->name);
	if (p->spec.error_feedback)
		return sl_fail_set(p->fail, SL_ERR_CONFIG, "codec: change=b does without ef=true: leave that out");
	return SL_OK;
}

static void tell_quantizer(struct sl_codec_spec *spec)
{
	const int last = spec->n_stage - 1;

	if (last > 0 && spec->stage[last].stage->kind == SL_STAGE_BYTES && spec->stage[last - 1].stage->follows_arg)
		spec->stage[last - 1].arg[spec->stage[last - 1].stage->follows_arg] = 1;
}

enum sl_err sl_codec_parse(const char *text, struct sl_codec_spec *out, struct sl_fail *fail)
{
	struct parser p = {.channels = true, .samples = true, .fail = fail};
	enum sl_err err;

	if (strlen(text) >= SL_CODEC_SPEC_MAX)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "codec: a specification has at most %d characters, this one %zu",
				   SL_CODEC_SPEC_MAX - 1, strlen(text));
	for (;;) {
		size_t len = strcspn(text, "|");

		err = parse_stage(&p, text, len);
		if (err)
			return err;
		if (text[len] == '\0')
			break;
		text += len + 1;
	}
	err = check_change(&p);
	if (err)
		return err;
	drop_none(&p.spec);
	tell_quantizer(&p.spec);
	err = print_spec(&p);
	if (err)
		return err;
	*out = p.spec;
	return SL_OK;
}

bool sl_codec_spec_pairs(const struct sl_codec_spec *act, const struct sl_codec_spec *grad)
{
	for (int s = 0; s < act->n_stage && s < grad->n_stage; s++) {
		const struct sl_codec_stage *stage = act->stage[s].stage;

		if (stage != grad->stage[s].stage ||
		    memcmp(act->stage[s].arg, grad->stage[s].arg, sizeof act->stage[s].arg) != 0)
			return false;
		if (!stage->keeps_places)
			return stage->pairs;
	}
	return false;
}
