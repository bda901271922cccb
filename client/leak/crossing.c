#include "client/leak/crossing.h"

#include <stdlib.h>
#include <string.h>

#include "client/run/local.h"

enum { CHANNELS = 3 }; /* of a picture, or 1 */

/* The work of sl_crossing_collect: what crossed of the batch under way, and how to read it. */
struct collector {
	struct sl_setup *setup;
	struct sl_local *local;
	struct sl_loader *loader;
	float *act[SL_DIR_COUNT]; /* [batch, …] */
	int64_t row[SL_DIR_COUNT];
	float mean[CHANNELS], std[CHANNELS];
	int64_t picture;       /* floats of a picture, or of a row of `words` */
	const float *words;    /* the word embedding table; NULL: pictures */
	const uint32_t *begin; /* offset of each text's first token in the batch; NULL: pictures */
};

void sl_crossed_close(struct sl_crossed *c)
{
	free(c->head_act);
	free(c->mid_act);
	free(c->mid_grad);
	free(c->image);
	free(c->label);
	*c = (struct sl_crossed){0};
}

static float *room(int64_t n, int64_t row)
{
	return malloc((size_t)(n * row) * sizeof(float) + 1);
}

static enum sl_err open_crossed(struct sl_crossed *to, const struct collector *c, int64_t n, bool all,
				struct sl_fail *fail)
{
	const struct sl_plan *plan = c->setup->plan;

	*to = (struct sl_crossed){.most = n,
				  .head = sl_plan_cut_shape(plan, false, 1),
				  .mid = sl_plan_cut_shape(plan, true, 1),
				  .picture = c->words ? sl_shape2(1, c->picture)
						      : plan->model->graph.value[plan->model->graph.in[0].value].shape};
	all = all && !c->words;
	to->head_act = room(n, c->row[SL_DIR_HEAD_ACT]);
	to->image = room(n, c->picture);
	to->label = malloc((size_t)n * sizeof *to->label + 1);
	to->mid_act = all ? room(n, c->row[SL_DIR_MID_ACT]) : NULL;
	to->mid_grad = all && !plan->spec.no_grad[1] ? room(n, c->row[SL_DIR_MID_GRAD]) : NULL;
	if (to->head_act && to->image && to->label && (!all || to->mid_act))
		return SL_OK;
	sl_crossed_close(to);
	return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for what crosses of %lld samples", (long long)n);
}

static void crossed(void *arg, enum sl_dir dir, int chunk, const struct sl_tensor *x)
{
	struct collector *c = arg;
	const int64_t first = chunk * c->setup->plan->rows;
	const int64_t from = (c->begin ? (int64_t)c->begin[first] : first) * c->row[dir];

	if (!c->words || dir == SL_DIR_HEAD_ACT)
		memcpy(c->act[dir] + from, x->data, (size_t)sl_shape_count(&x->shape) * sizeof(float));
}

static void put(float *to, const float *from, int64_t at, int64_t row, int64_t floats)
{
	if (to)
		memcpy(to + at * floats, from + row * floats, (size_t)floats * sizeof *to);
}

static void keep_row(const struct collector *c, struct sl_crossed *to, const struct sl_batch *b, int64_t row)
{
	const float *image = sl_batch_images(b) + row * c->picture;
	float *pixel = to->image + to->n * c->picture;
	const int64_t channels = to->picture.dim[3];

	put(to->head_act, c->act[SL_DIR_HEAD_ACT], to->n, row, c->row[SL_DIR_HEAD_ACT]);
	put(to->mid_act, c->act[SL_DIR_MID_ACT], to->n, row, c->row[SL_DIR_MID_ACT]);
	put(to->mid_grad, c->act[SL_DIR_MID_GRAD], to->n, row, c->row[SL_DIR_MID_GRAD]);
	for (int64_t i = 0; i < c->picture; i++)
		pixel[i] = image[i] * c->std[i % channels] + c->mean[i % channels];
	to->label[to->n++] = sl_batch_labels(b)[row];
}

/* Keeps the tokens of a text, without the first, the last and padding. */
static void keep_text(const struct collector *c, struct sl_crossed *to, const struct sl_batch *b, int64_t row)
{
	const int32_t *token = b->field[SL_FIELD_INPUT].data;
	int64_t at = b->begin[row] + 1, end = b->begin[row + 1];

	while (b->pieces && end > at && token[end - 1] == c->setup->set[SL_SPLIT_TEST].pad)
		end--;
	for (; at + 1 < end && to->n < to->most; at++) {
		put(to->head_act, c->act[SL_DIR_HEAD_ACT], to->n, at, c->row[SL_DIR_HEAD_ACT]);
		put(to->image, c->words, to->n, token[at], c->picture);
		to->label[to->n++] = token[at];
	}
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
	return sl_local_step(c->local, &feed, (uint64_t)step + number, 0, &result, fail);
}

/* Takes batches at even distances over the test set, and victims at even distances among their rows, since many sets
 * are sorted by class. */
static enum sl_err collect(struct collector *c, int64_t victims, int64_t all, struct sl_crossed *victim,
			   struct sl_crossed *aux, struct sl_fail *fail)
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

			if (!is_victim || victim)
				(c->words ? keep_text : keep_row)(c, is_victim ? victim : aux, b, row);
		}
		if (b)
			sl_loader_release(c->loader, b);
	}
	return err;
}

static enum sl_err open_local(struct collector *c, struct sl_fail *fail)
{
	struct sl_setup *s = c->setup;
	const struct sl_ends_use use = sl_setup_use(s);
	enum sl_err err = sl_setup_loader(s, SL_SPLIT_TEST, NULL, NULL, &c->loader, fail);

	if (!err)
		err = sl_local_open(&c->local, s->plan, &s->agreement, NULL, &s->be, fail);
	if (!err)
		err = sl_local_use(c->local, &use, fail);
	if (!err && sl_local_set_weights(c->local, &s->weights))
		err = sl_fail_set(fail, SL_ERR_DEVICE, "the weights could not be set");
	for (int dir = 0; dir < SL_DIR_COUNT && !err; dir++) {
		const struct sl_shape one =
			sl_plan_cut_shape(s->plan, dir == SL_DIR_MID_ACT || dir == SL_DIR_MID_GRAD, 1);

		c->row[dir] = sl_shape_row(&one);
		c->act[dir] = room(c->words ? sl_plan_chunks_of(s->plan, s->plan->spec.batch) *
						      sl_plan_cut_most(s->plan, false)
					    : s->plan->spec.batch,
				   c->row[dir]);
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

enum sl_err sl_crossing_collect(struct sl_setup *setup, int64_t victims, int64_t aux_rows, struct sl_crossed *victim,
				struct sl_crossed *aux, struct sl_fail *fail)
{
	const int64_t wanted = victims + aux_rows, there = setup->set[SL_SPLIT_TEST].count;
	const int64_t all = wanted < there ? wanted : there, some = victims * all / wanted;
	const struct sl_graph *g = &setup->plan->model->graph;
	const struct sl_shape picture = g->value[g->in[0].value].shape;
	struct collector c = {.setup = setup, .picture = sl_shape_row(&picture)};
	enum sl_err err;

	c.words = sl_crossing_words(setup, &c.picture);
	if (c.words && !sl_plan_cut_per_token(setup->plan, false))
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "leak looks for tokens, and at this cut no row for each token crosses");
	if (!c.words && (picture.ndim != 4 || (picture.dim[3] != CHANNELS && picture.dim[3] != 1)))
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "leak measures networks that read pictures or texts, and this one reads neither");
	if (c.words)
		; /* tokens have no scale */
	else if (setup->transform[SL_SPLIT_TEST])
		sl_transform_norm(setup->transform[SL_SPLIT_TEST], c.mean, c.std);
	else
		sl_norm_values(setup->conf->data.normalize, c.mean, c.std);
	err = open_local(&c, fail);
	if (!err && victim)
		err = open_crossed(victim, &c, c.words ? victims : some + 1, true, fail);
	if (!err)
		err = open_crossed(aux, &c, c.words ? aux_rows : all - some + 1, false, fail);
	if (!err)
		err = collect(&c, some, all, victim, aux, fail);
	close_collector(&c);
	return err;
}
