#include "client/setup/principal.h"

#include <stdlib.h>
#include <string.h>

#include "client/model/insert.h"
#include "client/step/ends.h"
#include "common/base/log.h"
#include "kernels/cpu/principal.h"

enum { SAMPLES = 512, MOST = 4096 }; /* that are looked at; most numbers of a window */

struct windows {
	struct sl_insert_item item;
	int channels, size;   /* of the activation; numbers of a window */
	int slices, deep;     /* of the activation and of a window; of pictures 1 */
	float *window, *mean; /* [size] */
	struct sl_principal *found;
};

/* Copies the window whose first pixel is `from`, of slices of `high` rows of `wide` pixels: [k, k, deep, channels]. */
static void copy_window(const struct windows *w, const float *from, int64_t high, int64_t wide)
{
	const int64_t k = w->item.k, c = w->channels;
	float *to = w->window;

	for (int64_t i = 0; i < k * k; i++)
		for (int64_t z = 0; z < w->deep; z++, to += c)
			memcpy(to, from + ((z * high + i / k) * wide + i % k) * c, (size_t)c * sizeof *to);
}

/* Adds the windows of x [rows, slices·H, W, C] that lie wholly inside. */
static void add_windows(const struct windows *w, const struct sl_tensor *x)
{
	const int64_t *dim = x->shape.dim, k = w->item.k, high = dim[1] / w->slices, wide = dim[2];
	const float *from = x->data;

	for (int64_t n = 0; n < dim[0]; n++)
		for (int64_t z = 0; z + w->deep <= w->slices; z += w->deep)
			for (int64_t y = 0; y + k <= high; y += k)
				for (int64_t at = 0; at + k <= wide; at += k) {
					const int64_t row = (n * w->slices + z) * high + y;

					copy_window(w, from + (row * wide + at) * w->channels, high, wide);
					sl_principal_add(w->found, w->window);
				}
}

/* Adds the head's activations of SAMPLES training samples, as a first step computes them. */
static enum sl_err look(const struct windows *w, struct sl_ends *ends, struct sl_loader *loader)
{
	enum sl_err err = SL_OK;
	int64_t seen = 0;

	for (int64_t i = 0; i < sl_loader_batches(loader) && seen < SAMPLES && !err; i++) {
		const struct sl_batch *batch = NULL;
		struct sl_feed feed;

		err = sl_loader_next(loader, &batch);
		if (err)
			return err;
		feed = sl_feed_of(batch);
		sl_ends_take(ends, &feed, 0, true);
		for (int chunk = 0; chunk < ends->chunks && !batch->err && !err; chunk++) {
			struct sl_tensor x = sl_exec_output(ends->head, chunk, ends->rows[chunk]);

			err = sl_ends_head_forward(ends, chunk);
			if (!err)
				add_windows(w, &x);
		}
		seen += batch->rows;
		sl_loader_release(loader, batch);
	}
	return err;
}

static enum sl_err look_at_samples(const struct windows *w, struct sl_setup *s, struct sl_fail *fail)
{
	struct sl_ends ends = {0};
	struct sl_loader *loader = NULL;
	enum sl_err err = sl_ends_open(&ends, s->plan, &s->be, fail);

	if (!err)
		err = sl_setup_loader(s, SL_SPLIT_TRAIN, NULL, NULL, &loader, fail);
	if (!err) {
		err = sl_ends_set_weights(&ends, &s->weights);
		if (!err)
			err = look(w, &ends, loader);
		if (err)
			sl_fail_set(fail, err, "the activations that an insert begins from: %s", sl_err_text(err));
	}
	sl_loader_close(loader);
	sl_ends_close(&ends);
	return err;
}

/* Makes the mean the same at all places of a window, since a channel has only one bias; or as many equal ones as a
 * window is deep. */
static void centre(const struct windows *w, float *bias)
{
	const int places = w->size / w->channels;

	sl_principal_mean(w->found, w->mean);
	for (int c = 0; c < w->channels; c++) {
		double sum = 0;

		for (int i = 0; i < places; i++)
			sum += (double)w->mean[i * w->channels + c];
		for (int z = 0; z < w->deep; z++)
			bias[z * w->channels + c] = (float)(sum / places);
		for (int i = 0; i < places; i++)
			w->mean[i * w->channels + c] = bias[c];
	}
}

static float *value_of(const struct sl_setup *s, const char *name)
{
	const struct sl_graph *g = &s->plan->model->graph;
	int i = s->plan->model->n_plain;

	while (strcmp(g->param[i].name, name) != 0)
		i++;
	return s->weights.value[i];
}

/* y = axis · (x − mean) crosses, and axisᵀ · y + mean is restored. The transposed convolution that restores has its
 * weight in the layout of the first one; where K = 1 a plain one restores (insert.h). */
static enum sl_err write_weights(const struct windows *w, struct sl_setup *s, double *rest)
{
	const int count = w->item.c;
	float *axis = value_of(s, "insert.head.0.weight"), *back = value_of(s, "insert.head.restore.0.weight");
	float *bias = value_of(s, "insert.head.0.bias");
	enum sl_err err;

	centre(w, value_of(s, "insert.head.restore.0.bias"));
	err = sl_principal_find(w->found, w->mean, count, axis, rest);
	for (int c = 0; c < count && !err; c++) {
		double sum = 0;

		for (int i = 0; i < w->size; i++) {
			sum += (double)axis[c * w->size + i] * (double)w->mean[i];
			back[w->item.k == 1 ? i * count + c : c * w->size + i] = axis[c * w->size + i];
		}
		bias[c] = (float)-sum;
	}
	return err;
}

static enum sl_err begin_from(struct windows *w, struct sl_setup *s, struct sl_fail *fail)
{
	double rest = 1;
	enum sl_err err = sl_principal_open(&w->found, w->size);

	w->window = malloc(2 * (size_t)w->size * sizeof *w->window);
	if (err || !w->window)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the principal components of an activation");
	w->mean = w->window + w->size;
	err = look_at_samples(w, s, fail);
	if (err)
		return err;
	err = write_weights(w, s, &rest);
	if (err)
		return sl_fail_at(fail, "insert.head", err,
				  "the activation at the cut has no variance, or is not finite");
	s->weights_from_seed = false;
	sl_log(SL_LOG_INFO, "insert-principal",
	       "insert.head begins from %d principal components, which leave out %.3g %% of the activation's variance",
	       w->item.c, 100 * rest);
	return SL_OK;
}

enum sl_err sl_setup_principal(struct sl_setup *s, struct sl_fail *fail)
{
	const struct sl_shape cut = sl_plan_cut_shape(s->plan, false, 1);
	const struct sl_model *m = s->plan->model;
	struct sl_insert insert = {.n = 0};
	struct windows w = {.channels = (int)cut.dim[3]};
	enum sl_err err = SL_OK;

	if (s->conf->train.loss == SL_CONF_RESTORE_HEAD && !s->inserts_given && !s->conf->agreed.share.group[0])
		err = sl_insert_parse(&insert, "insert.head", s->conf->insert.head, fail);
	w.item = insert.item[0];
	if (err || insert.n != 1 || w.item.kind != SL_INSERT_CONV || w.item.k != w.item.stride || w.item.pad)
		return err;
	w.slices = sl_model_slices(&m->graph, s->plan->cut.head_value, m->depth[0]);
	w.deep = w.slices ? w.item.k : 1;
	w.slices = w.slices ? w.slices : 1;
	if (cut.dim[3] * w.item.k * w.item.k * w.deep > MOST || cut.dim[3] * w.item.k * w.item.k * w.deep <= w.item.c)
		return SL_OK;
	w.size = w.channels * w.item.k * w.item.k * w.deep;
	err = begin_from(&w, s, fail);
	sl_principal_close(w.found);
	free(w.window);
	return err;
}
