#include "client/leak/crossing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/pass/local.h"

enum { MOST_CHANNELS = 3 }; /* RGB; a grey picture has 1 */

/* The work of sl_crossing_collect: what crossed of the batch under way, and how to read it. */
struct collector {
	enum sl_crossing_kind kind;
	struct sl_setup *setup;
	struct sl_local *local;
	struct sl_loader *loader;
	float *act[SL_DIR_COUNT];   /* [batch, …], of texts [batch's tokens, …] or [batch, …] */
	struct sl_joint joint[2];   /* by cut */
	int64_t row[SL_DIR_COUNT];  /* floats of a row of `act` */
	int64_t rows[SL_DIR_COUNT]; /* that `act` has memory for; 0: not kept */
	bool per_token[SL_DIR_COUNT];
	float mean[MOST_CHANNELS], std[MOST_CHANNELS];
	int64_t picture;       /* floats of a picture or table row, or of a row of `words` */
	int64_t input;         /* of a sample; of volumes more than `picture` */
	struct sl_shape shown; /* of a picture that is kept */
	struct sl_crossed_depth volume;
	const float *words;    /* the word embedding table; NULL: no texts */
	const uint32_t *begin; /* offset of each text's first token in the batch; NULL: no texts */
};

void sl_crossed_close(struct sl_crossed *c)
{
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		free(c->act[dir]);
	free(c->image);
	free(c->label);
	free(c->mask);
	*c = (struct sl_crossed){0};
}

static float *alloc_rows(int64_t n, int64_t row)
{
	return malloc((size_t)(n * row) * sizeof(float) + 1);
}

/* The cut that a tensor crosses: 0 is the head's end. */
static bool at_tail(enum sl_dir dir)
{
	return dir == SL_DIR_MID_ACT || dir == SL_DIR_MID_GRAD;
}

/* `kept`: bits of enum sl_dir. */
static enum sl_err open_crossed(struct sl_crossed *to, const struct collector *c, int64_t n, bool images, unsigned kept,
				struct sl_fail *fail)
{
	const struct sl_plan *plan = c->setup->plan;
	bool room = true;

	*to = (struct sl_crossed){.most = n,
				  .joint = {c->joint[0], c->joint[1]},
				  .head = c->joint[0].row,
				  .mid = c->joint[1].row,
				  .volume = c->volume,
				  .picture = c->kind == SL_CROSSING_PICTURES ? c->shown : sl_shape2(1, c->picture)};
	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		const bool crosses = dir < SL_DIR_MID_GRAD || !plan->spec.no_grad[at_tail(dir)];

		to->act[dir] = kept >> dir & crosses ? alloc_rows(n, c->row[dir]) : NULL;
		room = room && (to->act[dir] || !(kept >> dir & crosses));
	}
	to->image = images ? alloc_rows(n, c->picture) : NULL;
	to->label = malloc((size_t)n * sizeof *to->label + 1);
	to->masks = sl_crossing_masks(c->setup);
	to->mask = to->masks.ndim ? alloc_rows(n, sl_shape_row(&to->masks)) : NULL;
	if (room && to->label && (!images || to->image) && (!to->masks.ndim || to->mask))
		return SL_OK;
	sl_crossed_close(to);
	return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for what crosses of %lld samples", (long long)n);
}

static bool is_map(const struct sl_shape *s)
{
	return s->ndim == 4;
}

/* Positions of a row: height times width. */
static int64_t places_of(const struct sl_shape *s)
{
	return is_map(s) ? s->dim[1] * s->dim[2] : 1;
}

struct sl_joint sl_joint_of(const struct sl_plan *plan, bool mid, bool pictures)
{
	struct sl_joint j = {.n = sl_plan_cut_values(plan, mid)};
	struct sl_shape largest = sl_shape2(1, 0);

	for (int v = 0; v < j.n; v++) {
		j.value[v].shape = sl_plan_value_shape(plan, mid, v, 1);
		if (pictures && !mid && is_map(&j.value[v].shape) && places_of(&j.value[v].shape) > places_of(&largest))
			largest = j.value[v].shape;
	}
	for (int v = 0; v < j.n; v++) {
		const struct sl_shape *s = &j.value[v].shape;

		j.value[v].first = j.all;
		j.value[v].width = is_map(&largest) && is_map(s) ? s->dim[3] : sl_shape_row(s);
		j.all += j.value[v].width;
	}
	j.row = j.n == 1           ? sl_plan_cut_shape(plan, mid, 1)
		: is_map(&largest) ? sl_shape4(1, largest.dim[1], largest.dim[2], j.all)
				   : sl_shape2(1, j.all);
	return j;
}

/* The position of a value's row that stands at position `at` of the joined one. */
static int64_t place_in(const struct sl_shape *value, const struct sl_shape *row, int64_t at)
{
	if (!is_map(value) || !is_map(row))
		return 0;
	return at / row->dim[2] * value->dim[1] / row->dim[1] * value->dim[2] +
	       at % row->dim[2] * value->dim[2] / row->dim[2];
}

void sl_joint_put(const struct sl_joint *j, const struct sl_tensor *x, float *to)
{
	const int64_t rows = x->shape.dim[0], places = sl_shape_row(&j->row) / j->all;

	for (int v = 0; v < j->n; v++) {
		const int64_t row = sl_shape_row(&x[v].shape), width = j->value[v].width;

		for (int64_t i = 0; i < rows * places; i++)
			memcpy(to + i * j->all + j->value[v].first,
			       (const float *)x[v].data + i / places * row +
				       place_in(&j->value[v].shape, &j->row, i % places) * width,
			       (size_t)width * sizeof(float));
	}
}

float *sl_joint_value(const struct sl_joint *j, const float *x, int64_t n, int value)
{
	const int64_t places = sl_shape_row(&j->row) / j->all, width = j->value[value].width;
	float *out = malloc((size_t)(n * places * width) * sizeof(float) + 1);

	for (int64_t i = 0; i < n * places && out; i++)
		memcpy(out + i * width, x + i * j->all + j->value[value].first, (size_t)width * sizeof(float));
	return out;
}

static void crossed(void *arg, enum sl_dir dir, int chunk, const struct sl_tensor *x)
{
	struct collector *c = arg;
	const int64_t first = chunk * c->setup->plan->rows;
	const int64_t from = (c->per_token[dir] ? (int64_t)c->begin[first] : first) * c->row[dir];
	const struct sl_joint *j = &c->joint[at_tail(dir)];

	if (c->rows[dir] && j->n > 1)
		sl_joint_put(j, x, c->act[dir] + from);
	else if (c->rows[dir])
		memcpy(c->act[dir] + from, x->data, (size_t)sl_shape_count(&x->shape) * sizeof(float));
}

/* Sets row number `at` to the mean of n rows. */
static void put(float *to, const float *from, int64_t at, int64_t first, int64_t n, int64_t floats)
{
	for (int64_t i = 0; i < floats && to; i++) {
		double sum = 0;

		for (int64_t row = first; row < first + n; row++)
			sum += (double)from[row * floats + i];
		to[at * floats + i] = (float)(sum / (double)n);
	}
}

static int32_t label_of(const struct collector *c, const struct sl_batch *b, int64_t row)
{
	const struct sl_learn_task *task = sl_setup_task(c->setup->conf);

	if (!sl_crossing_classes(c->setup))
		return 0;
	return task->dtype == SL_F32 ? ((const float *)sl_batch_target(b))[row] > 0 : sl_batch_labels(b)[row];
}

/* Where a text's tokens end, without padding. */
static int64_t end_of(const struct collector *c, const struct sl_batch *b, int64_t row)
{
	const int32_t *token = b->field[SL_FIELD_INPUT].data;
	int64_t end = b->begin[row + 1];

	while (b->pieces && end > b->begin[row] + 1 && token[end - 1] == c->setup->set[SL_SPLIT_TEST].pad)
		end--;
	return end;
}

/* Keeps the tokens of a text, without the first and the last. */
static void keep_tokens(const struct collector *c, struct sl_crossed *to, const struct sl_batch *b, int64_t row)
{
	const int32_t *token = b->field[SL_FIELD_INPUT].data;
	const int64_t end = end_of(c, b, row);

	for (int64_t at = b->begin[row] + 1; at + 1 < end && to->n < to->most; at++) {
		put(to->act[SL_DIR_HEAD_ACT], c->act[SL_DIR_HEAD_ACT], to->n, at, 1, c->row[SL_DIR_HEAD_ACT]);
		put(to->image, c->words, to->n, token[at], 1, c->picture);
		to->label[to->n++] = token[at];
	}
}

/* Where number i of a kept picture is in a sample: of volumes [H, W, slices, channels] in [D, H, W, channels]. */
static int64_t place_of(const struct collector *c, int64_t i, int64_t channels)
{
	const int64_t n = c->volume.n, plane = c->volume.depth ? c->input / c->volume.depth : 0;

	return plane ? (c->volume.first + i / channels % n) * plane + i / channels / n * channels + i % channels : i;
}

static void keep_image(const struct collector *c, struct sl_crossed *to, const float *image)
{
	const int64_t all = to->picture.dim[to->picture.ndim - 1], channels = c->volume.depth ? all / c->volume.n : all;
	const bool plain = c->kind == SL_CROSSING_TABLE || c->setup->conf->data.kind == SL_DATA_VOLUMES;

	for (int64_t i = 0; i < c->picture; i++) {
		const float x = image[place_of(c, i, channels)];

		to->image[to->n * c->picture + i] = plain ? x : x * c->std[i % channels] + c->mean[i % channels];
	}
}

/* Brings each channel of volumes from files to [0, 1] by the numbers of `aux`. */
static void scale_images(const struct collector *c, struct sl_crossed *victim, struct sl_crossed *aux)
{
	const int64_t channels = c->picture / (c->shown.dim[1] * c->shown.dim[2] * c->volume.n);
	struct sl_crossed *const both[] = {aux, victim};

	for (int64_t ch = 0; ch < channels; ch++) {
		float low = INFINITY, high = -INFINITY;

		for (int64_t i = ch; i < aux->n * c->picture; i += channels) {
			low = fminf(low, aux->image[i]);
			high = fmaxf(high, aux->image[i]);
		}
		for (int k = 0; k < 2 && high > low; k++)
			for (int64_t i = ch; both[k] && i < both[k]->n * c->picture; i += channels)
				both[k]->image[i] = (both[k]->image[i] - low) / (high - low);
	}
}

float *sl_crossed_middle(const struct sl_crossed *c, struct sl_shape *shape)
{
	const struct sl_crossed_depth *v = &c->volume;
	const int64_t *dim = c->head.dim, high = dim[1] / v->act, places = high * dim[2];
	const int64_t from = v->first * v->act / v->depth - 1, to = ((v->first + v->n) * v->act - 1) / v->depth + 1;
	const int64_t first = from < 0 ? 0 : from, n = (to < v->act ? to + 1 : v->act) - first;
	float *out = malloc((size_t)(c->n * places * n * dim[3]) * sizeof *out + 1), *at = out;

	*shape = sl_shape4(1, high, dim[2], n * dim[3]);
	for (int64_t i = 0; i < c->n * places && out; i++)
		for (int64_t k = 0; k < n; k++, at += dim[3])
			memcpy(at,
			       c->act[SL_DIR_HEAD_ACT] +
				       ((i / places * v->act + first + k) * places + i % places) * dim[3],
			       (size_t)dim[3] * sizeof *at);
	return out;
}

static void keep_mask(const struct sl_crossed *to, const int32_t *label)
{
	const int64_t classes = to->masks.dim[3], floats = sl_shape_row(&to->masks);

	for (int64_t i = 0; i < floats; i++)
		to->mask[to->n * floats + i] = label[i / classes] == i % classes;
}

static void keep_sample(const struct collector *c, struct sl_crossed *to, const struct sl_batch *b, int64_t row)
{
	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		const int64_t first = c->per_token[dir] ? b->begin[row] : row;

		put(to->act[dir], c->act[dir], to->n, first, c->per_token[dir] ? end_of(c, b, row) - first : 1,
		    c->row[dir]);
	}
	if (to->image)
		keep_image(c, to, (const float *)b->input[0] + row * c->input);
	if (to->mask)
		keep_mask(to, sl_batch_labels(b) + row * sl_setup_answers(c->setup->conf));
	to->label[to->n++] = label_of(c, b, row);
}

static enum sl_err one_batch(struct collector *c, uint64_t number, const struct sl_batch **out, struct sl_fail *fail)
{
	const int64_t step = c->setup->trained < INT64_MAX ? c->setup->trained : 0;
	struct sl_step_result result;
	struct sl_feed feed;
	enum sl_err err = sl_loader_take(c->loader, out, fail);

	if (err)
		return err;
	feed = sl_feed_of(*out);
	c->begin = feed.begin;
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		for (int64_t i = 0; i < c->rows[dir] * c->row[dir]; i++)
			c->act[dir][i] = NAN; /* for a step that ends early */
	err = sl_local_step(c->local, &feed, (uint64_t)step + number, 0, &result, fail);
	return err == SL_ERR_NONFINITE ? sl_local_set_done(c->local, (uint64_t)step + number + 1, fail) : err;
}

/* Takes batches at even distances over the test set, and victims at even distances among their rows, since many sets
 * are sorted by class. */
static enum sl_err collect(struct collector *c, int64_t victims, int64_t all, struct sl_crossed *victim,
			   struct sl_crossed *aux, struct sl_crossed *text, struct sl_fail *fail)
{
	const int64_t batches = sl_loader_batches(c->loader), batch = c->setup->plan->spec.batch;
	const int64_t wanted = (all + batch - 1) / batch < batches ? (all + batch - 1) / batch : batches;
	enum sl_err err = SL_OK;
	int64_t at = 0;

	for (int64_t k = 0; k < wanted && !err; k++) {
		const struct sl_batch *b = NULL;

		err = sl_loader_seek(c->loader, 0, k * batches / wanted);
		if (!err)
			err = one_batch(c, (uint64_t)k, &b, fail);
		for (int64_t row = 0; !err && row < b->rows && at < all; row++, at++) {
			const bool is_victim = at * victims / all != (at + 1) * victims / all;

			if (c->words && (!is_victim || victim))
				keep_tokens(c, is_victim ? victim : aux, b, row);
			else if (!is_victim || victim)
				keep_sample(c, is_victim ? victim : aux, b, row);
			if (text && at * text->most / all != (at + 1) * text->most / all)
				keep_sample(c, text, b, row);
		}
		if (b)
			sl_loader_release(c->loader, b);
	}
	return err;
}

/* `texts`: what crosses of texts is wanted, beside their tokens. */
static enum sl_err open_local(struct collector *c, bool texts, struct sl_fail *fail)
{
	struct sl_setup *s = c->setup;
	const struct sl_ends_use use = sl_setup_use(s);
	enum sl_err err = sl_setup_loader(s, SL_SPLIT_TEST, NULL, NULL, &c->loader, fail);

	if (!err)
		err = sl_local_open(&c->local, s->plan, &s->agreement, NULL, &s->be, fail);
	if (!err)
		err = sl_local_use(c->local, &use, fail);
	if (!err)
		err = sl_local_set_weights(c->local, &s->weights, fail);
	for (int dir = 0; dir < SL_DIR_COUNT && !err; dir++) {
		const bool mid = at_tail(dir);

		c->per_token[dir] = c->words && sl_plan_cut_per_token(s->plan, mid);
		c->row[dir] = sl_shape_row(&c->joint[mid].row);
		if (!c->words || texts || dir == SL_DIR_HEAD_ACT)
			c->rows[dir] = sl_plan_chunks_of(s->plan, s->plan->spec.batch) * sl_plan_cut_most(s->plan, mid);
		c->act[dir] = alloc_rows(c->rows[dir], c->row[dir]);
		if (!c->act[dir])
			err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a batch");
	}
	if (!err)
		sl_local_listen(c->local, crossed, c);
	return err;
}

static void close_collector(struct collector *c)
{
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		free(c->act[dir]);
	sl_local_close(c->local);
	sl_loader_close(c->loader);
}

const float *sl_crossing_words(const struct sl_setup *setup, int64_t *features)
{
	const struct sl_graph *g = &setup->plan->model->graph;

	for (int i = 0; i < g->n_node; i++) {
		const struct sl_node *n = &g->node[i];

		if (n->kind != SL_OP_EMBEDDING || n->u.embedding.position || n->u.embedding.segment)
			continue;
		*features = g->value[n->out].shape.dim[1];
		return setup->weights.value[g->link[n->param]];
	}
	return NULL;
}

enum sl_crossing_kind sl_crossing_kind(const struct sl_setup *setup)
{
	if (setup->plan->model->vocab)
		return SL_CROSSING_TOKENS;
	return sl_setup_input(setup)->set[SL_SPLIT_TEST].field[SL_FIELD_INPUT].ndim == 1 ? SL_CROSSING_TABLE
											 : SL_CROSSING_PICTURES;
}

int sl_crossing_classes(const struct sl_setup *setup)
{
	const struct sl_learn_task *task = sl_setup_task(setup->conf);

	if (task->kind == SL_LEARN_CLASSES)
		return setup->plan->model->classes;
	return task->kind == SL_LEARN_LABELS && sl_set_targets(&setup->set[SL_SPLIT_TEST]) == 1 ? 2 : 0;
}

struct sl_shape sl_crossing_masks(const struct sl_setup *setup)
{
	const struct sl_conf_size size = sl_setup_mask(setup->conf);

	return setup->features && setup->conf->model.task == SL_CONF_PIXELS
		       ? sl_shape4(1, size.h, size.w, setup->plan->model->classes)
		       : (struct sl_shape){.ndim = 0};
}

/* CONFIG: nothing can be measured of what crosses. */
static enum sl_err check(const struct collector *c, const struct sl_shape *input, struct sl_fail *fail)
{
	const struct sl_shape head = sl_plan_cut_shape(c->setup->plan, false, 1);

	if (c->kind == SL_CROSSING_TOKENS && !sl_plan_cut_per_token(c->setup->plan, false))
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "leak measures text token by token, and at this cut the activation has no row for "
				   "each token: cut before the layer that joins them");
	if (c->volume.depth && (sl_plan_cut_values(c->setup->plan, false) > 1 || (!c->volume.act && is_map(&head))))
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "leak measures volumes where one value goes up, behind a layer that tells how many "
				   "slices it has: cut behind a convolution, with cut_values: 1");
	if (c->kind == SL_CROSSING_PICTURES && !c->volume.depth &&
	    (input->ndim != 4 || (input->dim[3] != MOST_CHANNELS && input->dim[3] != 1)))
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "leak measures pictures of one or three channels, volumes, tables and texts");
	return SL_OK;
}

/* Chooses the middle slices of volumes. */
static void choose_slices(struct collector *c, const struct sl_shape *input)
{
	const struct sl_model *m = c->setup->plan->model;
	const struct sl_graph *head = &c->setup->plan->segment[SL_HEAD].graph;
	struct sl_crossed_depth *v = &c->volume;

	c->shown = *input;
	c->input = c->picture;
	if (c->kind != SL_CROSSING_PICTURES || !m->depth[0] || input->ndim != 4 || input->dim[1] % m->depth[0])
		return;
	v->depth = m->depth[0];
	v->n = v->depth < SL_CROSSED_SLICES ? v->depth : SL_CROSSED_SLICES;
	v->first = (v->depth - v->n) / 2;
	v->act = sl_model_slices(head, head->out[0].value, v->depth);
	c->shown = sl_shape4(1, input->dim[1] / v->depth, input->dim[2], v->n * input->dim[3]);
	c->picture = sl_shape_row(&c->shown);
}

enum sl_err sl_crossing_collect(struct sl_setup *setup, int64_t victims, int64_t aux_rows, struct sl_crossed *victim,
				struct sl_crossed *aux, struct sl_crossed *text, struct sl_fail *fail)
{
	const int64_t wanted = victims + aux_rows, there = setup->set[SL_SPLIT_TEST].count;
	const int64_t all = wanted < there ? wanted : there, some = victims * all / wanted;
	const unsigned act = 1U << SL_DIR_HEAD_ACT, grad = (unsigned)(setup->features != NULL) << SL_DIR_HEAD_GRAD;
	const unsigned most = grad | act | 1U << SL_DIR_MID_ACT | 1U << SL_DIR_MID_GRAD;
	const struct sl_graph *g = &setup->plan->model->graph;
	const struct sl_setup *from = sl_setup_input(setup);
	const struct sl_shape input = g->value[g->in[0].value].shape;
	struct collector c = {.setup = setup, .kind = sl_crossing_kind(setup), .picture = sl_shape_row(&input)};
	enum sl_err err;

	choose_slices(&c, &input);
	err = check(&c, &input, fail);
	c.words = sl_crossing_words(setup, &c.picture);
	for (int mid = 0; mid < 2; mid++)
		c.joint[mid] = sl_joint_of(setup->plan, mid, c.kind == SL_CROSSING_PICTURES);
	if (from->transform[SL_SPLIT_TEST])
		sl_transform_norm(from->transform[SL_SPLIT_TEST], c.mean, c.std);
	else
		sl_norm_values(from->conf->data.normalize, c.mean, c.std);
	if (!err)
		err = open_local(&c, text != NULL, fail);
	if (!err && victim)
		err = open_crossed(victim, &c, c.words ? victims : some + 1, true, c.words ? act : most, fail);
	if (!err)
		err = open_crossed(aux, &c, c.words ? aux_rows : all - some + 1, true,
				   act | (unsigned)(setup->features != NULL) << SL_DIR_MID_ACT |
					   (sl_crossing_masks(setup).ndim ? grad : 0),
				   fail);
	if (!err && text)
		err = open_crossed(text, &c, victims < all ? victims : all, false, most, fail);
	if (!err)
		err = collect(&c, some, all, victim, aux, text, fail);
	if (!err && setup->conf->data.kind == SL_DATA_VOLUMES)
		scale_images(&c, victim, aux);
	close_collector(&c);
	return err;
}
