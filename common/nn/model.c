#include "common/nn/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/base/worker.h"
#include "common/conf/conf.h"
#include "common/nn/zoo.h"

/* Bounds of a spec, which may come from a peer: generous, and small enough that no product below can overflow. */
enum { MAX_CLASSES = 1 << 20 };
static const double min_width = 0.01, max_width = 16.0;

static const struct zoo_entry {
	const char *name;
	void (*build)(struct sl_model_builder *b, const struct sl_model_spec *spec);
} zoo[] = {
	{"mobilenet_v2", sl_zoo_mobilenet_v2},
	{"resnet9", sl_zoo_resnet9},
};
enum { N_ZOO = sizeof(zoo) / sizeof(zoo[0]) };

static enum sl_err unknown_model(const char *name, struct sl_fail *fail)
{
	char known[256] = "";
	size_t used = 0;

	for (int i = 0; i < N_ZOO && used < sizeof(known); i++)
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "", zoo[i].name);
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
	if (s->image < SL_CONF_MIN_IMAGE || s->image > SL_CONF_MAX_IMAGE || sl_model_image_w(s) < SL_CONF_MIN_IMAGE ||
	    sl_model_image_w(s) > SL_CONF_MAX_IMAGE)
		return sl_fail_at(fail, "model.image", SL_ERR_CONFIG,
				  "image is %dx%d; height and width must lie in %d … %d", s->image, sl_model_image_w(s),
				  SL_CONF_MIN_IMAGE, SL_CONF_MAX_IMAGE);
	if (!(s->dropout >= 0.0 && s->dropout < 1.0))
		return sl_fail_at(fail, "model.dropout", SL_ERR_CONFIG, "dropout is %g; it must lie in [0, 1)",
				  s->dropout);
	return SL_OK;
}

enum sl_err sl_model_open(struct sl_model **out, const struct sl_model_spec *spec, struct sl_fail *fail)
{
	const struct zoo_entry *entry = NULL;
	struct sl_model_builder b;
	enum sl_err err;

	for (int i = 0; i < N_ZOO; i++)
		if (!strcmp(spec->name, zoo[i].name))
			entry = &zoo[i];
	if (!entry)
		return unknown_model(spec->name, fail);
	err = check_spec(spec, fail);
	if (err != SL_OK)
		return err;
	err = sl_builder_open(&b, spec->name, sl_shape4(1, spec->image, sl_model_image_w(spec), 3), spec->classes,
			      fail);
	if (err != SL_OK)
		return err;
	entry->build(&b, spec);
	return sl_builder_finish(&b, out);
}

void sl_model_close(struct sl_model *model)
{
	if (!model)
		return;
	free(model->op);
	free(model->param);
	free(model->unit);
	free(model);
}

enum { PIECE = 1 << 16 }; /* numbers, between which a worker's job gives way */

static void fill(float *out, int64_t count, float value)
{
	for (int64_t i = 0; i < count; i++)
		out[i] = value;
}

/* Element i takes its words from the quad i / 4: words 0 and 1 make normals 0 and 1, words 2 and 3 the others. */
static void fill_normal(float *out, int64_t count, float std, const struct sl_rng_key *key)
{
	for (int64_t i = 0; i < count; i += 4) {
		uint32_t word[4];
		float z[4];

		if (i % PIECE == 0)
			sl_worker_turn();
		sl_rng_quad(key, (uint32_t)(i / 4), word);
		sl_rng_normal2(word[0], word[1], z);
		sl_rng_normal2(word[2], word[3], z + 2);
		for (int j = 0; j < 4 && i + j < count; j++)
			out[i + j] = std * z[j];
	}
}

static void fill_uniform(float *out, int64_t count, float bound, const struct sl_rng_key *key)
{
	for (int64_t i = 0; i < count; i += 4) {
		uint32_t word[4];

		if (i % PIECE == 0)
			sl_worker_turn();
		sl_rng_quad(key, (uint32_t)(i / 4), word);
		for (int j = 0; j < 4 && i + j < count; j++)
			out[i + j] = bound * (2.0f * sl_rng_unit(word[j]) - 1.0f);
	}
}

void sl_param_init(const struct sl_model *model, int index, uint64_t seed, float *out)
{
	const struct sl_param *p = &model->param[index];
	const int64_t count = sl_shape_count(&p->shape);
	const struct sl_rng_key key = {.seed = seed, .step = (uint64_t)index, .tensor = SL_RNG_INIT};

	switch (p->init) {
	case SL_INIT_ZERO:
		fill(out, count, 0.0f);
		break;
	case SL_INIT_ONE:
		fill(out, count, 1.0f);
		break;
	case SL_INIT_KAIMING_FAN_OUT:
		fill_normal(out, count, (float)sqrt(2.0 / (double)p->fan), &key);
		break;
	case SL_INIT_KAIMING_LINEAR:
		fill_normal(out, count, (float)sqrt(1.0 / (double)p->fan), &key);
		break;
	case SL_INIT_UNIFORM_FAN_IN:
		fill_uniform(out, count, (float)(1.0 / sqrt((double)p->fan)), &key);
		break;
	case SL_INIT_IDENTITY:
		for (int64_t i = 0; i < count; i++)
			out[i] = i / p->fan == i % p->fan ? 1.0f : 0.0f;
		break;
	case SL_INIT_NORMAL_001:
		fill_normal(out, count, 0.01f, &key);
		break;
	case SL_INIT_COUNT:
		break;
	}
}
