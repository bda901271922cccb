/* Sizes of a network that a file describes: what the file says, and what the config says. */
#include <stdio.h>

#include "client/model/source.h"
#include "common/conf/conf.h"
#include "common/conf/networks.h"

static enum sl_err settle_image(struct sl_model_sizes *s, const char *name, const struct sl_model_spec *spec,
				struct sl_fail *fail)
{
	const int height = spec->image, width = sl_model_image_w(spec);

	if (height && ((s->height && s->height != height) || (s->width && s->width != width)))
		return sl_fail_at(fail, "model.image", SL_ERR_CONFIG,
				  "%s takes images of %dx%d, not %dx%d; leave this key out, or write the file with an "
				  "example of that size",
				  name, s->height, s->width, height, width);
	s->height = s->height ? s->height : height;
	s->width = s->width ? s->width : width;
	if (s->height < SL_CONF_MIN_IMAGE || s->width < SL_CONF_MIN_IMAGE)
		return sl_fail_at(fail, "model.image", SL_ERR_CONFIG,
				  "%s does not say how large its images are: give this key", name);
	return SL_OK;
}

enum sl_err sl_model_settle_sizes(struct sl_model_sizes *s, const char *name, const struct sl_model_spec *spec,
				  struct sl_fail *fail)
{
	if (spec->classes && spec->classes != s->classes && sl_model_task(spec)->labelled)
		return sl_fail_at(fail, "model.classes", SL_ERR_CONFIG, "%s has %d outputs, not %d; leave this key out",
				  name, s->classes, spec->classes);
	if (!s->vocab != !(sl_network_has(spec->name) & SL_NETWORK_TOKENS))
		return sl_fail_set(fail, SL_ERR_CONFIG, "its input is %s",
				   s->vocab ? "token ids: give data.kind: text, and data.tokenizer"
					    : "no token ids, and data.kind has texts");
	if (s->vocab && s->tokens && spec->tokens > s->tokens)
		return sl_fail_at(fail, "model.tokens", SL_ERR_CONFIG,
				  "%s takes rows of %d tokens at most; for longer ones write it with such an example",
				  name, s->tokens);
	if (s->vocab)
		return SL_OK;
	if (!s->features != !(sl_network_has(spec->name) & SL_NETWORK_ROWS))
		return sl_fail_set(fail, SL_ERR_CONFIG, "its input is %s, and data.kind %s",
				   s->features ? "rows of numbers" : "images",
				   s->features ? "has none: give csv" : "csv has rows of numbers");
	if (s->features && spec->features && spec->features != s->features)
		return sl_fail_at(fail, "model.features", SL_ERR_CONFIG, "%s takes rows of %d numbers, not %d", name,
				  s->features, spec->features);
	return s->features ? SL_OK : settle_image(s, name, spec, fail);
}

enum sl_err sl_build_open_sized(struct sl_build *b, const struct sl_model_sizes *s, const char *name,
				const struct sl_model_spec *spec, struct sl_fail *fail)
{
	const struct sl_shape shape =
		s->features ? sl_shape2(1, s->features) : sl_shape4(1, s->height, s->width, s->channels);
	enum sl_err err =
		s->vocab ? sl_build_open_tokens(b, name, spec->tokens, s->vocab, sl_model_task(spec), s->classes, fail)
			 : sl_build_open(b, name, shape, sl_model_task(spec), s->classes, fail);

	if (err)
		return err;
	if (s->vocab)
		snprintf(b->model->note, sizeof b->model->note, "%s, %d classes, rows of up to %d tokens below %d",
			 name, s->classes, spec->tokens, s->vocab);
	else if (s->features)
		snprintf(b->model->note, sizeof b->model->note, "%s, %d classes, rows of %d", name, s->classes,
			 s->features);
	else
		snprintf(b->model->note, sizeof b->model->note, "%s, %d classes, images of %dx%d", name, s->classes,
			 s->height, s->width);
	return SL_OK;
}
