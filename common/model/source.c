#include "common/model/source.h"

#include <stdio.h>
#include <string.h>

#include "common/conf/conf.h"
#include "common/model/sources.h"

/* Generous, and small enough that no product of a source can overflow. */
enum { MAX_CLASSES = 1 << 20 };
_Static_assert((int)SL_MODEL_MIN_IMAGE == (int)SL_CONF_MIN_IMAGE && (int)SL_MODEL_MAX_IMAGE == (int)SL_CONF_MAX_IMAGE,
	       "what a config may ask for, a model has");
static const double min_width = 0.01, max_width = 16.0;

static const struct source {
	const char *name;
	void (*build)(struct sl_build *b, const struct sl_model_spec *spec);
} sources[] = {
	{"mobilenet_v2", sl_source_mobilenet_v2},
	{"resnet9", sl_source_resnet9},
};
enum { N_SOURCES = sizeof(sources) / sizeof(sources[0]) };

static enum sl_err unknown_model(const char *name, struct sl_fail *fail)
{
	char known[256] = "";
	size_t used = 0;

	for (int i = 0; i < N_SOURCES && used < sizeof(known); i++)
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "", sources[i].name);
	return sl_fail_at(fail, "model.name", SL_ERR_CONFIG, "unknown model \"%s\"; known: %s", name, known);
}

/* The comparisons are written so that NaN fails them. */
static enum sl_err check_spec(const struct sl_model_spec *s, struct sl_fail *fail)
{
	if (!(s->width >= min_width && s->width <= max_width))
		return sl_fail_at(fail, "model.width", SL_ERR_CONFIG, "width is %g; it must lie in %g … %g", s->width,
				  min_width, max_width);
	if (s->classes < 2 || s->classes > MAX_CLASSES)
		return sl_fail_at(fail, "model.classes", SL_ERR_CONFIG, "classes is %d; it must lie in 2 … %d",
				  s->classes, MAX_CLASSES);
	if (s->image < SL_MODEL_MIN_IMAGE || s->image > SL_MODEL_MAX_IMAGE ||
	    sl_model_image_w(s) < SL_MODEL_MIN_IMAGE || sl_model_image_w(s) > SL_MODEL_MAX_IMAGE)
		return sl_fail_at(fail, "model.image", SL_ERR_CONFIG,
				  "image is %dx%d; height and width must lie in %d … %d", s->image, sl_model_image_w(s),
				  SL_MODEL_MIN_IMAGE, SL_MODEL_MAX_IMAGE);
	if (!(s->dropout >= 0.0 && s->dropout < 1.0))
		return sl_fail_at(fail, "model.dropout", SL_ERR_CONFIG, "dropout is %g; it must lie in [0, 1)",
				  s->dropout);
	return SL_OK;
}

enum sl_err sl_model_open(struct sl_model **out, const struct sl_model_spec *spec, struct sl_fail *fail)
{
	const struct source *entry = NULL;
	struct sl_build b;
	char width[16] = "";
	enum sl_err err;

	for (int i = 0; i < N_SOURCES; i++)
		if (!strcmp(spec->name, sources[i].name))
			entry = &sources[i];
	if (!entry)
		return unknown_model(spec->name, fail);
	err = check_spec(spec, fail);
	if (err != SL_OK)
		return err;
	err = sl_build_open(&b, spec->name, sl_shape4(1, spec->image, sl_model_image_w(spec), 3), spec->classes, fail);
	if (err != SL_OK)
		return err;
	if (sl_model_image_w(spec) != spec->image)
		snprintf(width, sizeof(width), "x%d", sl_model_image_w(spec));
	snprintf(b.model->note, sizeof(b.model->note), "%s, %d classes, images of %d%s, width %g, dropout %g",
		 spec->name, spec->classes, spec->image, width, spec->width, spec->dropout);
	entry->build(&b, spec);
	return sl_build_finish(&b, out);
}
