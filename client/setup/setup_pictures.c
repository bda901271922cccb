/* From a config to pictures: how they are decoded, and the steps from a picture to the network's input. */
#include "client/setup/setup_pictures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/class_name.h"
#include "client/model/source.h"
#include "common/base/log.h"

enum {
	CHANNELS = 3, /* of a network of images, unless it says otherwise */
	MASKS = 64,   /* how many masks are looked at */
	COLOURS = 2
};

static const char *const keys[SL_SPLIT_COUNT] = {"data.transforms", "data.test_transforms"};
/* Steps that change the values of every picture, in the order in which they are allowed. */
static const char *const colours[COLOURS] = {"Grayscale", "Normalize"};

int sl_setup_network_channels(const struct sl_setup *s)
{
	const struct sl_graph *g = s->plan ? &s->plan->model->graph : NULL;
	const int input = g && sl_conf_input(s->conf) ? sl_model_input(g, sl_conf_input(s->conf)) : 0;
	struct sl_model_sizes sizes;
	struct sl_fail fail;

	if (!g && sl_setup_file_sizes(&sizes, s->conf, &fail) == SL_OK && sizes.channels)
		return sizes.channels;

	return g && g->value[input].shape.ndim == 4 ? (int)g->value[input].shape.dim[3] : CHANNELS;
}

static int channels_of(const struct sl_setup *s)
{
	const struct sl_conf_client *c = s->conf;

	return c->data.channels == SL_CHANNELS_OF_NETWORK ? sl_setup_network_channels(s)
	       : c->data.channels == SL_CHANNELS_GREY     ? 1
							  : CHANNELS;
}

/* Reads data.window; false: it is not given, or malformed. */
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
		.norm = c->data.normalize,
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
	return sl_setup_decodes(c) || (c->data.transforms.n && c->data.kind != SL_DATA_VOLUMES);
}

/* The step of this name; NULL: there is none. RandomGrayscale is another step than Grayscale. */
static const char *find_step(const struct sl_conf_list *list, const char *name)
{
	for (int i = 0; i < list->n; i++)
		if (strstr(list->item[i], name) && !strstr(list->item[i], "Random"))
			return list->item[i];
	return NULL;
}

void sl_setup_steps(struct sl_conf_list *out, const struct sl_conf_client *c, enum sl_split split)
{
	const bool train = split == SL_SPLIT_TRAIN;
	const struct sl_conf_list *own = train ? &c->data.transforms : &c->data.test_transforms;
	const struct sl_conf_list *other = train ? &c->data.test_transforms : &c->data.transforms;

	if (own->n) {
		*out = *own;
		return;
	}
	sl_transform_usual(out, c->model.image.h, c->model.image.w, train);
	for (int k = 0; k < COLOURS; k++)
		if (find_step(other, colours[k]))
			strcpy(out->item[out->n++], find_step(other, colours[k]));
}

/* Whether the network has volumes, whose slices lie one below the other in a picture. */
static bool has_slices(const struct sl_setup *s)
{
	return s->plan && s->plan->model->depth[0];
}

/* Whether a step leaves each row in its slice. */
static bool keeps_slices(const struct sl_step *step, const struct sl_conf_client *c)
{
	switch (step->kind) {
	case SL_STEP_RESIZE:
		return step->h == c->model.image.h && step->w == c->model.image.w;
	case SL_STEP_CENTER_CROP:
	case SL_STEP_RANDOM_CROP:
	case SL_STEP_RANDOM_RESIZED_CROP:
	case SL_STEP_VERTICAL_FLIP:
	case SL_STEP_RANDOM_ROTATION:
	case SL_STEP_RANDOM_AFFINE:
	case SL_STEP_RAND_AUGMENT:
		return false;
	default:
		return true;
	}
}

/* CONFIG: the network has volumes, and a step would work on rows across the border of two slices. */
static enum sl_err check_slices(const struct sl_setup *s, enum sl_split split, const struct sl_conf_list *list,
				struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;

	for (int i = 0; has_slices(s) && i < list->n; i++) {
		struct sl_step step;
		struct sl_fail why;

		if (sl_step_read(&step, list->item[i], c->model.image.h, c->model.image.w, &why) == SL_OK &&
		    !keeps_slices(&step, c)) /* a step that cannot be read is named when the list is opened */
			return sl_conf_client_fail(
				c, keys[split], fail,
				"%.60s would mix or turn the slices of volumes, which lie one below the other: "
				"give Resize((%d, %d)), and of other steps RandomHorizontalFlip, ColorJitter "
				"and Normalize",
				list->item[i], c->model.image.h, c->model.image.w);
	}
	return SL_OK;
}

static enum sl_err open_transform(const struct sl_setup *s, enum sl_split split, struct sl_transform **out,
				  struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	const bool train = split == SL_SPLIT_TRAIN;
	struct sl_conf_list list;
	struct sl_fail why;

	sl_setup_steps(&list, c, split);
	if (check_slices(s, split, &list, fail) != SL_OK)
		return fail->code;
	if (sl_transform_open(out,
			      &(struct sl_transform_spec){
				      .step = (const char(*)[SL_CONF_TEXT])list.item,
				      .n = list.n,
				      .out_h = c->model.image.h,
				      .out_w = c->model.image.w,
				      .norm = c->data.normalize,
				      .fixed = !train,
				      .channels = channels_of(s),
				      .deep = c->data.bits == SL_BITS_16,
				      .masked = c->model.task == SL_CONF_PIXELS,
				      .slices = has_slices(s),
			      },
			      &why) != SL_OK)
		return sl_conf_client_fail(c, keys[split], fail, "%s", why.text);
	return SL_OK;
}

enum sl_err sl_setup_norm(const struct sl_setup *s, float mean[3], float std[3], struct sl_fail *fail)
{
	struct sl_transform *t = NULL;
	enum sl_err err = transforms(s->conf) ? open_transform(s, SL_SPLIT_TEST, &t, fail) : SL_OK;

	if (t)
		sl_transform_norm(t, mean, std);
	else
		sl_norm_values(s->conf->data.normalize, mean, std);
	sl_transform_close(t);
	return err;
}

/* Grayscale and Normalize must be the same for both splits: a network that sees other values than in training predicts
 * at random. */
static enum sl_err check_alike(const struct sl_setup *s, struct sl_transform *const t[SL_SPLIT_COUNT],
			       struct sl_fail *fail)
{
	struct sl_conf_list list[SL_SPLIT_COUNT];
	float norm[SL_SPLIT_COUNT][2][CHANNELS];

	for (int split = 0; split < SL_SPLIT_COUNT; split++) {
		sl_setup_steps(&list[split], s->conf, (enum sl_split)split);
		sl_transform_norm(t[split], norm[split][0], norm[split][1]);
	}
	for (int k = 0; k < COLOURS; k++) {
		const char *in[] = {find_step(&list[0], colours[k]), find_step(&list[1], colours[k])};
		const int bad = in[SL_SPLIT_TRAIN] ? SL_SPLIT_TEST : SL_SPLIT_TRAIN, other = !bad;
		const bool grey = strcmp(colours[k], "Grayscale") == 0;

		if (grey ? !in[0] != !in[1] && channels_of(s) != 1 : memcmp(norm[0], norm[1], sizeof norm[0]) != 0)
			return sl_conf_client_fail(s->conf, keys[bad], fail,
						   "has %s, and %s has %s, so evaluations would see other numbers than "
						   "training: write the same %s into both lists",
						   in[bad] ? in[bad]
						   : grey  ? "no Grayscale"
							   : "no Normalize",
						   keys[other], in[other], colours[k]);
	}
	return SL_OK;
}

enum sl_err sl_setup_check_transforms(const struct sl_setup *s, struct sl_fail *fail)
{
	const int first = s->conf->data.transforms.n ? SL_SPLIT_TRAIN : SL_SPLIT_TEST; /* the default takes from it */
	struct sl_transform *t[SL_SPLIT_COUNT] = {0};
	enum sl_err err = SL_OK;
	double window[2];

	if (s->conf->data.window.n && !read_window(s->conf, window))
		return sl_conf_client_fail(s->conf, "data.window", fail,
					   "must be two numbers, [centre, width], with a width of at least 1");
	if (!transforms(s->conf))
		return SL_OK;
	for (int i = 0; i < SL_SPLIT_COUNT && !err; i++) {
		const int split = (first + i) % SL_SPLIT_COUNT;

		err = open_transform(s, (enum sl_split)split, &t[split], fail);
	}
	if (!err)
		err = check_alike(s, t, fail);
	for (int split = 0; split < SL_SPLIT_COUNT; split++)
		sl_transform_close(t[split]);
	return err;
}

/* Notes which classes up to MASKS masks have: in seen [256]. Unreadable masks are refused when they are used. Returns
 * how many it looked at. */
static int64_t see_masks(const struct sl_set *set, bool *seen)
{
	const int64_t n = set->count < MASKS ? set->count : MASKS;
	struct sl_room room = {0};

	for (int64_t i = 0; i < n; i++) {
		struct sl_value value[SL_FIELD_COUNT] = {0};
		const struct sl_value *mask = &value[SL_FIELD_TARGET];

		if (set->source->sample(set, sl_set_spread(i, n, set->count), &room, value, NULL) == SL_OK)
			for (int64_t k = 0; k < mask->dim[0] * mask->dim[1]; k++)
				seen[((const uint8_t *)mask->data)[k]] = true;
	}
	sl_room_close(&room);
	return n;
}

/* Warns if all masks have the same class, or none has some class. Many tools write masks of 0 and 255, of which 255 is
 * ignored, so that every prediction would be right. */
static void look_at_masks(const struct sl_setup *s, const struct sl_set *set, const char *of)
{
	bool seen[SL_LEARN_IGNORED + 1] = {false};
	const int64_t n = see_masks(set, seen);
	int only = 0, several = 0, missing = -1;
	char name[SL_CLASS_NAME_BYTES];

	for (int k = SL_LEARN_IGNORED - 1; k >= 0; k--) {
		several += seen[k];
		only = seen[k] ? k : only;
		missing = seen[k] || k >= s->conf->model.classes ? missing : k;
	}
	if (several < 2 && (several || seen[SL_LEARN_IGNORED]))
		sl_log(SL_LOG_WARN, "one-class-masks",
		       "%lld masks of %s were looked at: all pixels are %d%s, so every answer would be right. If 255 "
		       "is a "
		       "class, replace it by its number, such as 1",
		       (long long)n, of, only, seen[SL_LEARN_IGNORED] ? " or 255, and 255 is not counted" : "");
	else if (several && missing >= 0)
		sl_log(SL_LOG_WARN, "class-missing",
		       "class \"%.60s\": none of %lld masks of %s that were looked at has it",
		       sl_class_name(set, missing, name), (long long)n, of);
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
			look_at_masks(s, &s->set[split], split == SL_SPLIT_TRAIN ? "training" : "the evaluation");
	return err;
}
