/* Specifications as users type them: "topk:0.2|quant:8,per=channel". Grammar and canonical form: docs/CODECS.md. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/nearest.h"
#include "common/codec/stage.h"

struct parser {
	struct sl_codec_spec spec;
	bool channels, samples; /* what flows at this point still has them */
	enum sl_stage_kind last;
	struct sl_fail *fail;
};

static enum sl_err bad_value(const struct parser *p, const struct sl_codec_stage *stage, const char *word, size_t len)
{
	return sl_fail_set(p->fail, SL_ERR_CONFIG, "codec: %s, got '%.*s'", stage->usage, (int)len, word);
}

static enum sl_err parse_value(const struct parser *p, const struct sl_codec_stage *stage,
			       const struct sl_stage_arg *arg, const char *text, size_t len, double *out)
{
	char word[32], *end;
	double value;

	if (len == 0 || len >= sizeof word)
		return bad_value(p, stage, text, len);
	memcpy(word, text, len);
	word[len] = '\0';
	switch (arg->type) {
	case SL_ARG_FLAG:
		if (strcmp(word, "true") != 0 && strcmp(word, "false") != 0)
			return bad_value(p, stage, text, len);
		*out = word[0] == 't';
		return SL_OK;
	case SL_ARG_CHOICE:
		for (int i = 0; arg->choices[i] != NULL; i++) {
			if (strcmp(word, arg->choices[i]) == 0) {
				*out = i;
				return SL_OK;
			}
		}
		return bad_value(p, stage, text, len);
	case SL_ARG_INT:
	case SL_ARG_REAL:
		break;
	}
	/* strtod also takes hexadecimal, "inf", "nan" and leading blanks */
	if (strspn(word, "0123456789.eE+-") != len)
		return bad_value(p, stage, text, len);
	value = strtod(word, &end);
	if (*end != '\0' || !isfinite(value) || value > arg->most)
		return bad_value(p, stage, text, len);
	if (arg->type == SL_ARG_INT ? value < arg->least || value != floor(value) : value <= arg->least)
		return bad_value(p, stage, text, len);
	*out = value;
	return SL_OK;
}

/* The positional words of a stage, behind its colon: numbers joined by '+'. */
static enum sl_err parse_positional(const struct parser *p, const struct sl_codec_stage *stage, const char *text,
				    size_t len, double *arg, unsigned *given)
{
	const char *stop = text + len;

	for (int i = 0;; i++) {
		const char *plus = text;
		enum sl_err err;

		if (stage->args[i].key == NULL || !stage->args[i].positional)
			return bad_value(p, stage, text, (size_t)(stop - text));
		/* a '+' behind an 'e' belongs to the number */
		while (plus < stop && (*plus != '+' || (plus > text && (plus[-1] == 'e' || plus[-1] == 'E'))))
			plus++;
		err = parse_value(p, stage, &stage->args[i], text, (size_t)(plus - text), &arg[i]);
		if (err != SL_OK)
			return err;
		*given |= 1u << i;
		if (plus == stop)
			return SL_OK;
		text = plus + 1;
	}
}

static enum sl_err given_twice(const struct parser *p, const struct sl_codec_stage *stage, const char *key)
{
	return sl_fail_set(p->fail, SL_ERR_CONFIG, "codec: '%s' is given twice for %s", key, stage->name);
}

static enum sl_err parse_option(struct parser *p, const struct sl_codec_stage *stage, const char *text, size_t len,
				double *arg, unsigned *given)
{
	static const struct sl_stage_arg ef = {.key = "ef", .type = SL_ARG_FLAG};
	const char *eq = memchr(text, '=', len);
	size_t key_len = eq == NULL ? len : (size_t)(eq - text);
	const char *value = eq == NULL ? text + len : eq + 1;
	size_t value_len = (size_t)(text + len - value);

	if (eq != NULL && key_len == 2 && memcmp(text, "ef", 2) == 0) {
		double on;
		enum sl_err err = parse_value(p, stage, &ef, value, value_len, &on);

		if (err != SL_OK)
			return err;
		if (p->spec.n_stage != 0)
			return sl_fail_set(
				p->fail, SL_ERR_CONFIG,
				"codec: ef concerns the whole chain and stands at its first stage, not at '%s'",
				stage->name);
		if (*given >> SL_CODEC_MAX_ARGS & 1)
			return given_twice(p, stage, ef.key);
		*given |= 1u << SL_CODEC_MAX_ARGS; /* behind the stage's own */
		p->spec.error_feedback = on != 0;
		return SL_OK;
	}
	for (int i = 0; stage->args[i].key != NULL; i++) {
		const char *key = stage->args[i].key;

		if (eq == NULL || stage->args[i].positional || strlen(key) != key_len ||
		    memcmp(key, text, key_len) != 0)
			continue;
		if (*given >> i & 1)
			return given_twice(p, stage, key);
		*given |= 1u << i;
		return parse_value(p, stage, &stage->args[i], value, value_len, &arg[i]);
	}
	return sl_fail_set(p->fail, SL_ERR_CONFIG, "codec: %s has no option '%.*s': %s", stage->name, (int)key_len,
			   text, stage->usage);
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

/* Puts a parsed stage at the end of the chain, where the order of kinds allows it. */
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
		if (err != SL_OK)
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
	double arg[SL_CODEC_MAX_ARGS] = {0};
	size_t name_len = 0, at;
	const struct sl_codec_stage *stage;
	unsigned given = 0;
	enum sl_err err;

	while (name_len < len && text[name_len] != ':' && text[name_len] != ',')
		name_len++;
	err = find_stage(p, text, name_len, &stage);
	if (err != SL_OK)
		return err;
	for (int i = 0; stage->args[i].key != NULL; i++)
		arg[i] = stage->args[i].otherwise;
	at = name_len;
	if (at < len && text[at] == ':') {
		const char *comma = memchr(text + at, ',', len - at);
		size_t end = comma == NULL ? len : (size_t)(comma - text);

		err = parse_positional(p, stage, text + at + 1, end - at - 1, arg, &given);
		if (err != SL_OK)
			return err;
		at = end;
	}
	while (at < len) {
		const char *word = text + at + 1, *comma = memchr(word, ',', len - at - 1);
		size_t end = comma == NULL ? len : (size_t)(comma - text);

		err = parse_option(p, stage, word, end - at - 1, arg, &given);
		if (err != SL_OK)
			return err;
		at = end;
	}
	for (int i = 0; stage->args[i].key != NULL; i++) {
		if (stage->args[i].required && !(given >> i & 1))
			return bad_value(p, stage, text, len);
	}
	return append(p, stage, arg);
}

/* Shortest decimal that reads back as the same double. */
static int print_number(char *out, size_t cap, double value)
{
	int len = 0;

	for (int digits = 1; digits <= 17; digits++) {
		len = snprintf(out, cap, "%.*g", digits, value);
		if (strtod(out, NULL) == value)
			break;
	}
	return len;
}

static int print_value(char *out, size_t cap, const struct sl_stage_arg *arg, double value)
{
	switch (arg->type) {
	case SL_ARG_FLAG:
		return snprintf(out, cap, "%s", value != 0 ? "true" : "false");
	case SL_ARG_CHOICE:
		return snprintf(out, cap, "%s", arg->choices[(int)value]);
	case SL_ARG_INT:
		return snprintf(out, cap, "%.0f", value);
	case SL_ARG_REAL:
		break;
	}
	return print_number(out, cap, value);
}

static enum sl_err print_spec(struct parser *p)
{
	struct sl_codec_spec *spec = &p->spec;
	char text[SL_CODEC_MAX_STAGES * 256];
	size_t len = 0;

	for (int s = 0; s < spec->n_stage; s++) {
		const struct sl_codec_stage *stage = spec->stage[s].stage;
		char sep = ':';

		len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", s == 0 ? "" : "|", stage->name);
		for (int i = 0; stage->args[i].key != NULL; i++) {
			const struct sl_stage_arg *arg = &stage->args[i];
			double value = spec->stage[s].arg[i];

			if (value == arg->otherwise && !arg->required)
				continue;
			if (arg->positional) {
				text[len++] = sep;
				sep = '+';
			} else {
				len += (size_t)snprintf(text + len, sizeof text - len, ",%s=", arg->key);
			}
			len += (size_t)print_value(text + len, sizeof text - len, arg, value);
		}
		if (s == 0 && spec->error_feedback)
			len += (size_t)snprintf(text + len, sizeof text - len, ",ef=true");
	}
	if (len >= SL_CODEC_SPEC_MAX)
		return sl_fail_set(p->fail, SL_ERR_CONFIG, "codec: '%s' is longer than %d characters", text,
				   SL_CODEC_SPEC_MAX - 1);
	memcpy(spec->text, text, len + 1);
	return SL_OK;
}

/* `none` is what a chain without a quantizer has anyway. */
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
		if (err != SL_OK)
			return err;
		if (text[len] == '\0')
			break;
		text += len + 1;
	}
	drop_none(&p.spec);
	err = print_spec(&p);
	if (err != SL_OK)
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
