/* From a config to pictures: how they are decoded, and the steps from a picture to the network's input. */
#include "client/run/setup_pictures.h"

#include <math.h>
#include <stdlib.h>

#include "client/model/onnx.h"
#include "common/base/log.h"

enum {
	CHANNELS = 3, /* that a network of images takes */
	MASKS = 64
}; /* that are looked at */

int sl_setup_network_channels(const struct sl_setup *s)
{
	const struct sl_graph *g = s->plan ? &s->plan->model->graph : NULL;
	struct sl_onnx_sizes sizes;
	struct sl_fail fail;

	if (!g && s->conf->model.onnx[0] && sl_onnx_sizes(&sizes, s->conf->model.onnx, &fail) == SL_OK)
		return sizes.channels;

	return g && g->value[g->in[0].value].shape.ndim == 4 ? (int)g->value[g->in[0].value].shape.dim[3] : CHANNELS;
}

static int channels_of(const struct sl_setup *s)
{
	const struct sl_conf_client *c = s->conf;

	return c->data.channels == SL_CHANNELS_OF_NETWORK ? sl_setup_network_channels(s)
	       : c->data.channels == SL_CHANNELS_GREY     ? 1
							  : CHANNELS;
}

/* data.window; false: there is none, or it is none. */
static bool read_window(const struct sl_conf_client *c, double out[2])
{
	for (int i = 0; i < 2 && c->data.window.n == 2; i++) {
		char *end;

		out[i] = strtod(c->data.window.item[i], &end);
		if (end == c->data.window.item[i] || *end || !isfinite(out[i]))
			return false;
	}
	return c->data.window.n == 2 && out[1] >= 1;
}

struct sl_picture_spec sl_setup_pictures(const struct sl_setup *s)
{
	const struct sl_conf_client *c = s->conf;
	struct sl_picture_spec spec = {
		.max_pixels = c->data.max_pixels,
		.channels = channels_of(s),
		.deep = c->data.bits == SL_BITS_16,
		.exact = c->data.jpeg == SL_JPEG_EXACT,
		.upright = c->data.exif,
	};

	spec.windowed = read_window(c, spec.window);
	return spec;
}

enum sl_norm sl_setup_norm(const struct sl_conf_client *c)
{
	static const enum sl_norm norm[] = {
		[SL_NORMALIZE_IMAGENET] = SL_NORM_IMAGENET,
		[SL_NORMALIZE_CIFAR10] = SL_NORM_CIFAR10,
		[SL_NORMALIZE_CIFAR100] = SL_NORM_CIFAR100,
		[SL_NORMALIZE_NONE] = SL_NORM_NONE,
	};

	return norm[c->data.normalize];
}

static enum sl_err open_augment(struct sl_setup *s, struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	const int64_t *side = s->set[SL_SPLIT_TEST].field[SL_FIELD_INPUT].dim;
	const struct sl_augment_spec spec = {
		.in_h = (int)side[0],
		.in_w = (int)side[1],
		.out_h = c->model.image.h,
		.out_w = c->model.image.w,
		.crop_padding = c->data.crop_padding,
		.flip = c->data.flip,
		.norm = sl_setup_norm(c),
	};

	return sl_augment_open(&s->augment, &spec, fail);
}

bool sl_setup_decodes(const struct sl_conf_client *c)
{
	return c->data.kind == SL_DATA_IMAGES || c->data.kind == SL_DATA_WEBDATASET;
}

/* Whether a list of transforms prepares samples, and not CIFAR's own augmentation. */
static bool transforms(const struct sl_conf_client *c)
{
	return sl_setup_decodes(c) || c->data.transforms.n;
}

static enum sl_err open_transform(const struct sl_setup *s, enum sl_split split, struct sl_transform **out,
				  struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	const bool train = split == SL_SPLIT_TRAIN;
	struct sl_conf_list usual, *list = &usual;
	struct sl_fail why;

	sl_transform_usual(&usual, c->model.image.h, c->model.image.w, train);
	if (train ? c->data.transforms.n : c->data.test_transforms.n)
		list = (struct sl_conf_list *)(train ? &c->data.transforms : &c->data.test_transforms);
	if (sl_transform_open(out,
			      &(struct sl_transform_spec){
				      .step = (const char(*)[SL_CONF_TEXT])list->item,
				      .n = list->n,
				      .out_h = c->model.image.h,
				      .out_w = c->model.image.w,
				      .norm = sl_setup_norm(c),
				      .fixed = !train,
				      .channels = channels_of(s),
				      .deep = c->data.bits == SL_BITS_16,
				      .masked = c->model.task == SL_CONF_PIXELS,
			      },
			      &why) != SL_OK)
		return sl_conf_client_fail(c, train ? "data.transforms" : "data.test_transforms", fail, "%s", why.text);
	return SL_OK;
}

enum sl_err sl_setup_check_transforms(const struct sl_setup *s, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;
	double window[2];

	if (s->conf->data.window.n && !read_window(s->conf, window))
		return sl_conf_client_fail(s->conf, "data.window", fail,
					   "must be two numbers, [centre, width], with a width of at least 1");
	for (int split = 0; split < SL_SPLIT_COUNT && !err && transforms(s->conf); split++) {
		struct sl_transform *t = NULL;

		err = open_transform(s, (enum sl_split)split, &t, fail);
		sl_transform_close(t);
	}
	return err;
}

/* Many tools write masks of 0 and 255, of which 255 is not counted: all answers would be right. One mask with a second
 * class is enough. Whatever cannot be read is refused where it is used. */
static void look_at_masks(const struct sl_set *set, const char *of)
{
	const int64_t n = set->count < MASKS ? set->count : MASKS;
	struct sl_room room = {0};
	bool ignored = false, several = false;
	int only = SL_LEARN_IGNORED;

	for (int64_t i = 0; i < n && !several; i++) {
		struct sl_value value[SL_FIELD_COUNT] = {0};
		const struct sl_value *mask = &value[SL_FIELD_TARGET];

		if (set->source->sample(set, sl_set_spread(i, n, set->count), &room, value, NULL) != SL_OK)
			continue;
		for (int64_t k = 0; k < mask->dim[0] * mask->dim[1]; k++) {
			const int pixel = ((const uint8_t *)mask->data)[k];

			several |= pixel != SL_LEARN_IGNORED && only != SL_LEARN_IGNORED && pixel != only;
			ignored |= pixel == SL_LEARN_IGNORED;
			only = pixel == SL_LEARN_IGNORED ? only : pixel;
		}
	}
	sl_room_close(&room);
	if (ignored && !several)
		sl_log(SL_LOG_WARN, "one-class-masks",
		       "%lld masks of %s were looked at: all pixels are %d or 255, and 255 is not counted, so every "
		       "answer would be right; if 255 is a class, write its number there, such as 1",
		       (long long)n, of, only == SL_LEARN_IGNORED ? 0 : only);
}

enum sl_err sl_setup_prepare(struct sl_setup *s, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	if (!transforms(s->conf))
		return open_augment(s, fail);
	for (int split = 0; split < SL_SPLIT_COUNT && !err; split++)
		err = open_transform(s, (enum sl_split)split, &s->transform[split], fail);
	for (int split = 0; split < SL_SPLIT_COUNT && !err; split++)
		if (s->set[split].source && s->conf->model.task == SL_CONF_PIXELS && !s->given)
			look_at_masks(&s->set[split], split == SL_SPLIT_TRAIN ? "training" : "the evaluation");
	return err;
}
