#include "client/leak/decoder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/graph/model.h"
#include "common/weights/weights.h"

enum { ROWS = 32, WIDE = 32, HIDDEN = 128 };
static const double RATE = 3e-3;
/* A picture's target is (pixel - MIDDLE) * SPREAD, with a mean of about 0 and a deviation of about 1. With plain pixels
 * the same number of steps learns less: 2 dB of PSNR less on CIFAR-10 with a head of one unit. */
static const float MIDDLE = 0.5f, SPREAD = 4;

struct sl_decoder {
	struct sl_decoder_spec spec;
	struct sl_plan *plan;
	struct sl_exec *exec;
	int64_t in, out; /* floats of a row */
	float *target;   /* [ROWS, out]; with classes int32_t [ROWS] */
	float *said;     /* [ROWS, out] outputs */
};

/* ---- the graph */

static int conv(struct sl_build *b, const char *name, int x, int channels)
{
	const int64_t in = sl_build_shape(b, x).dim[3];
	const struct sl_build_window w = {.out_c = channels, .k = 3, .pad = 1, .bias = true};

	return sl_build_conv_from(b, name, x, w, sl_init_as_torch(in * 9));
}

static int64_t doubled(int64_t now, int64_t most)
{
	return 2 * now < most ? 2 * now : most;
}

/* Doubles height and width, up to those of the picture. */
static int upwards(struct sl_build *b, int x, int level, const struct sl_shape *image)
{
	const struct sl_shape s = sl_build_shape(b, x);
	const struct sl_build_window w = {.out_c = WIDE, .k = 4, .stride = 2, .pad = 1, .bias = true};
	char name[32];

	snprintf(name, sizeof name, "up%d", level);
	x = sl_build_convt(b, name, x, w, doubled(s.dim[1], image->dim[1]), doubled(s.dim[2], image->dim[2]),
			   sl_init_as_torch(s.dim[3] * 4));
	snprintf(name, sizeof name, "up%d.norm", level);
	x = sl_build_bn(b, name, x);
	snprintf(name, sizeof name, "up%d.relu", level);
	return sl_build_act(b, name, x, SL_ACT_RELU);
}

static int64_t outputs(const struct sl_decoder_spec *spec)
{
	return spec->classes ? spec->classes : sl_shape_row(&spec->image);
}

static int layers(struct sl_build *b, const struct sl_decoder_spec *spec)
{
	const struct sl_shape *image = &spec->image;
	int x = SL_BUILD_INPUT;

	x = sl_build_bn(b, "norm", x);
	if (spec->act.ndim != 4 || spec->table) {
		int64_t terms = sl_shape_row(&spec->act);

		x = sl_build_flatten(b, "flatten", x);
		if (spec->table) {
			x = sl_build_linear(b, "hidden", x, HIDDEN, true, sl_init_as_torch(terms));
			x = sl_build_act(b, "relu", x, SL_ACT_RELU);
			terms = HIDDEN;
		}
		return sl_build_linear(b, "linear", x, (int)outputs(spec), true, sl_init_as_torch(terms));
	}
	for (int level = 0; !b->err && sl_build_shape(b, x).dim[1] < image->dim[1]; level++)
		x = upwards(b, x, level, image);
	x = sl_build_act(b, "relu1", conv(b, "conv1", x, WIDE), SL_ACT_RELU);
	x = sl_build_act(b, "relu2", conv(b, "conv2", x, WIDE), SL_ACT_RELU);
	return sl_build_flatten(b, "flatten", conv(b, "conv3", x, (int)image->dim[3]));
}

static enum sl_err build(struct sl_model **out, const struct sl_decoder_spec *spec, struct sl_fail *fail)
{
	const struct sl_learn_task *task = &sl_learn_tasks[spec->classes ? SL_LEARN_CLASSES : SL_LEARN_NUMBER];
	const struct sl_shape act = spec->act.ndim == 4 ? spec->act : sl_shape4(1, 1, 1, sl_shape_row(&spec->act));
	struct sl_build b;
	enum sl_err err = sl_build_open(&b, "decoder", act, task, (int)outputs(spec), fail);

	if (err)
		return err;
	sl_build_loss(&b, "loss", layers(&b, spec));
	if (b.err)
		sl_model_close(b.model);
	*out = b.model;
	return b.err;
}

/* ---- */

static enum sl_err open_plan(struct sl_decoder *d, struct sl_fail *fail)
{
	const struct sl_plan_spec spec = {
		.batch = ROWS,
		.chunks = 1,
		.seed = d->spec.seed,
		.optimizer = {.kind = SL_OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
		.no_grad = {true, true},
	};
	struct sl_model *model;
	enum sl_err err = build(&model, &d->spec, fail);

	if (err)
		return err;
	err = sl_plan_open_part(&d->plan, &spec, SL_TAIL, &model->graph, fail);
	sl_model_close(model);
	return err;
}

static enum sl_err first_weights(struct sl_decoder *d)
{
	const struct sl_plan_segment *s = &d->plan->segment[SL_TAIL];
	float *range = malloc((size_t)s->weight_count * sizeof *range + 1);
	enum sl_err err = SL_ERR_NOMEM;

	if (range) {
		sl_weights_init_range(s, d->spec.seed, range);
		err = sl_exec_set_weights(d->exec, range);
	}
	free(range);
	return err;
}

enum sl_err sl_decoder_open(struct sl_decoder **out, const struct sl_decoder_spec *spec, struct sl_backend *be,
			    struct sl_fail *fail)
{
	struct sl_decoder *d = calloc(1, sizeof *d);
	enum sl_err err;

	if (!d)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a decoder");
	d->spec = *spec;
	d->in = sl_shape_row(&spec->act);
	d->out = outputs(spec);
	d->target = malloc((size_t)(ROWS * d->out) * sizeof *d->target);
	d->said = malloc((size_t)(ROWS * d->out) * sizeof *d->said);
	err = d->target && d->said ? open_plan(d, fail) : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a decoder");
	if (!err)
		err = sl_exec_open(&d->exec, d->plan, SL_TAIL, be, fail);
	if (!err && first_weights(d))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a decoder");
	if (err)
		sl_decoder_close(d);
	else
		*out = d;
	return err;
}

void sl_decoder_close(struct sl_decoder *d)
{
	if (!d)
		return;
	sl_exec_close(d->exec);
	sl_plan_close(d->plan);
	free(d->target);
	free(d->said);
	free(d);
}

static double rate_of(const struct sl_decoder *d, int step)
{
	return RATE * (1 + cos(M_PI * step / d->spec.steps)) / 2;
}

/* The loss against the rows in d->target, which are floats or int32_t labels. */
static struct sl_exec_loss loss_of(const struct sl_decoder *d, float scale)
{
	const bool classes = d->spec.classes;

	return (struct sl_exec_loss){.targets = classes ? NULL : d->target,
				     .labels = classes ? (const int32_t *)d->target : NULL,
				     .scale = scale};
}

static bool pixels(const struct sl_decoder *d)
{
	return !d->spec.classes && !d->spec.table;
}

enum sl_err sl_decoder_step(struct sl_decoder *d, const float *act, const void *wanted, int64_t n, int step,
			    double *loss)
{
	const struct sl_rng_key key = {d->spec.seed, (uint64_t)step, 0, SL_RNG_LEAK};
	const struct sl_exec_call call = {.dims = {.rows = ROWS}, .step = (uint64_t)step, .training = true};
	const int64_t floats = d->spec.classes ? 1 : d->out;
	struct sl_exec_loss of = loss_of(d, 1.0f / ROWS);
	float *to = sl_exec_input(d->exec, 0, ROWS).data;
	const int64_t rows = ROWS;
	enum sl_err err = sl_exec_begin(d->exec);

	for (int64_t i = 0; i < ROWS; i++) {
		const int64_t row = sl_rng_below(sl_rng_u32(&key, (uint64_t)i), (uint32_t)n);

		memcpy(to + i * d->in, act + row * d->in, (size_t)d->in * sizeof *to);
		memcpy(d->target + i * floats, (const float *)wanted + row * floats, (size_t)floats * sizeof *to);
		for (int64_t k = 0; k < floats && pixels(d); k++)
			d->target[i * floats + k] = (d->target[i * floats + k] - MIDDLE) * SPREAD;
	}
	if (!err)
		err = sl_exec_forward(d->exec, &call, &of);
	if (!err)
		err = sl_exec_backward(d->exec, &call, &of);
	if (!err)
		err = sl_exec_commit(d->exec, rate_of(d, step), &rows, 1);
	*loss = of.sum / ROWS / (pixels(d) ? SPREAD * SPREAD : 1);
	return err ? err : sl_exec_set_done(d->exec, (uint64_t)step + 1);
}

static enum sl_err apply_rows(struct sl_decoder *d, const float *act, int64_t rows, float *said)
{
	const struct sl_exec_call call = {.dims = {.rows = rows}};
	struct sl_exec_loss of = loss_of(d, 1);
	enum sl_err err;

	of.logits = d->said;
	memset(d->target, 0, (size_t)(ROWS * d->out) * sizeof *d->target);
	memcpy(sl_exec_input(d->exec, 0, rows).data, act, (size_t)(rows * d->in) * sizeof *act);
	err = sl_exec_forward(d->exec, &call, &of);
	for (int64_t i = 0; i < rows * d->out && !err; i++)
		said[i] =
			pixels(d) && !isnan(d->said[i]) ? fminf(1, fmaxf(0, d->said[i] / SPREAD + MIDDLE)) : d->said[i];
	return err;
}

enum sl_err sl_decoder_apply(struct sl_decoder *d, const float *act, int64_t n, float *said)
{
	enum sl_err err = SL_OK;

	for (int64_t at = 0; at < n && !err; at += ROWS)
		err = apply_rows(d, act + at * d->in, n - at < ROWS ? n - at : ROWS, said + at * d->out);
	return err;
}
