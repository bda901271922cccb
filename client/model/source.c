#include "client/model/source.h"

#include <stdio.h>
#include <string.h>

#include "client/model/huggingface.h"
#include "client/model/network_file.h"
#include "client/model/sources.h"
#include "common/base/nearest.h"
#include "common/conf/conf.h"

#define BUILT_IN(name, has) {#name, sl_source_##name},

static const struct source {
	const char *name;
	void (*build)(struct sl_build *b, const struct sl_model_spec *spec);
} sources[] = {SL_BUILT_IN_NETWORKS(BUILT_IN){SL_CONF_HUGGINGFACE, NULL} /* huggingface.h */};
enum { N_SOURCES = sizeof(sources) / sizeof(sources[0]) };

static const struct source *find(const char *name)
{
	for (int i = 0; i < N_SOURCES; i++)
		if (strcmp(name, sources[i].name) == 0)
			return &sources[i];
	return NULL;
}

bool sl_model_takes_tokens(const char *name)
{
	return sl_network_has(name) & SL_NETWORK_TOKENS;
}

bool sl_model_takes_rows(const char *name)
{
	return sl_network_has(name) & SL_NETWORK_ROWS;
}

static enum sl_err unknown_model(const char *name, struct sl_fail *fail)
{
	struct sl_nearest near = {NULL, 0};
	char known[256] = "";
	size_t used = 0;

	for (int i = 0; sources[i].build; i++)
		sl_nearest_offer(&near, name, strlen(name), sources[i].name);
	for (int i = 0; sources[i].build && used < sizeof(known); i++)
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", used ? ", " : "", sources[i].name);
	return sl_fail_at(fail, "model.name", SL_ERR_CONFIG,
			  "unknown model \"%s\"%s%s%s: %s; others by model.huggingface or model.network", name,
			  near.name ? ": did you mean \"" : "; known", near.name ? near.name : "",
			  near.name ? "\"? Known" : "", known);
}

/* Checks what the bounds of the config's keys do not. */
static enum sl_err check_spec(const struct sl_model_spec *s, bool tokens, struct sl_fail *fail)
{
	const int least = tokens || s->task != SL_LEARN_CLASSES ? 1 : 2;

	if (s->task == SL_LEARN_NEXT && !s->huggingface)
		return sl_fail_at(fail, "model.head", SL_ERR_CONFIG, "causal_lm belongs to model.huggingface");
	if (s->masked > 0 && !s->huggingface)
		return sl_fail_at(fail, "model.head", SL_ERR_CONFIG, "a share of %g masked tokens is not possible",
				  s->masked);
	if (!(s->masked > 0) && s->task != SL_LEARN_NEXT && s->classes < least)
		return sl_fail_at(fail, "model.classes", SL_ERR_CONFIG,
				  "classes is %d; of this network it must be %d to 100000%s", s->classes, least,
				  least < 2 ? "" : ", since a classifier tells two classes or more apart");
	return SL_OK;
}

static enum sl_err open_images(struct sl_build *b, const struct sl_model_spec *spec, struct sl_fail *fail)
{
	char width[16] = "";
	enum sl_err err = sl_build_open(b, spec->name, sl_shape4(1, spec->image, sl_model_image_w(spec), 3),
					sl_model_task(spec), spec->classes, fail);

	if (err)
		return err;
	if (sl_model_image_w(spec) != spec->image)
		snprintf(width, sizeof(width), "x%d", sl_model_image_w(spec));
	snprintf(b->model->note, sizeof(b->model->note), "%s, %d classes, images of %d%s, width %g, dropout %g",
		 spec->name, spec->classes, spec->image, width, spec->width, spec->dropout);
	return SL_OK;
}

static enum sl_err open_tokens(struct sl_build *b, const struct sl_model_spec *spec, struct sl_fail *fail)
{
	enum sl_err err = sl_build_open_tokens(b, spec->name, spec->tokens, spec->vocab, sl_model_task(spec),
					       spec->classes, fail);

	if (!err)
		snprintf(b->model->note, sizeof(b->model->note),
			 "%s, %d classes, rows of up to %d tokens below %d, width %g, dropout %g", spec->name,
			 spec->classes, spec->tokens, spec->vocab, spec->width, spec->dropout);
	return err;
}

static enum sl_err open_rows(struct sl_build *b, const struct sl_model_spec *spec, struct sl_fail *fail)
{
	enum sl_err err =
		sl_build_open(b, spec->name, sl_shape2(1, spec->features), sl_model_task(spec), spec->classes, fail);

	if (!err)
		snprintf(b->model->note, sizeof(b->model->note), "%s, %d classes, rows of %d, width %g, dropout %g",
			 spec->name, spec->classes, spec->features, spec->width, spec->dropout);
	return err;
}

enum sl_err sl_model_takes_of(struct sl_model_takes *out, const struct sl_model_spec *spec, struct sl_fail *fail)
{
	if (spec->network && sl_model_takes_tokens(spec->name)) {
		struct sl_model_sizes sizes;
		enum sl_err err = sl_network_file_sizes(&sizes, spec->network, spec->input, fail);

		if (!err)
			*out = sizes.takes;
		return err;
	}
	if (spec->huggingface)
		return sl_hf_takes(out, spec, fail);
	*out = (struct sl_model_takes){.vocab = spec->vocab};
	return SL_OK;
}

enum sl_err sl_model_open(struct sl_model **out, const struct sl_model_spec *spec, struct sl_fail *fail)
{
	const bool tokens = sl_model_takes_tokens(spec->name), rows = sl_model_takes_rows(spec->name);
	const struct source *entry = find(spec->name);
	struct sl_build b;
	enum sl_err err;

	if (spec->network)
		return sl_network_file_open(out, spec, fail);
	if (!entry)
		return unknown_model(spec->name, fail);
	err = check_spec(spec, tokens, fail);
	if (!err && !entry->build == !spec->huggingface)
		err = sl_fail_at(fail, "model.huggingface", SL_ERR_CONFIG, "%s a folder",
				 entry->build ? "this network has no" : "needs");
	if (!err && !entry->build)
		return sl_hf_open(out, spec, fail);
	if (!err)
		err = tokens ? open_tokens(&b, spec, fail)
		      : rows ? open_rows(&b, spec, fail)
			     : open_images(&b, spec, fail);
	if (err)
		return err;
	entry->build(&b, spec);
	return sl_build_finish(&b, out);
}
