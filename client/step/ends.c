#include "client/step/ends.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "client/step/ends_check.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

/* The number of batches in a step of the optimizer. */
static int64_t accumulated(const struct sl_plan *plan)
{
	return plan->spec.accumulate > 1 ? plan->spec.accumulate : 1;
}

static int64_t chosen_most(const struct sl_plan *plan)
{
	return sl_plan_chosen_most(plan, &plan->segment[SL_TAIL].graph);
}

static bool has_dice(const struct sl_graph *tail)
{
	bool has = false;

	for (int i = 0; i < tail->n_node; i++)
		has |= tail->node[i].kind == SL_OP_XENT && tail->node[i].u.xent.fn != SL_XENT_ENTROPY;
	return has;
}

enum sl_err sl_ends_open(struct sl_ends *ends, const struct sl_plan *plan, struct sl_backend *be, struct sl_fail *fail)
{
	enum sl_err err;

	*ends = (struct sl_ends){.plan = plan};
	err = sl_party_has(plan->spec.party, SL_HEAD) ? sl_exec_open(&ends->head, plan, SL_HEAD, be, fail) : SL_OK;
	if (!err && sl_party_has(plan->spec.party, SL_TAIL))
		err = sl_exec_open(&ends->tail, plan, SL_TAIL, be, fail);
	if (!err && plan->spec.chunk_tokens) {
		ends->begin = calloc((size_t)sl_plan_chunks_of(plan, plan->spec.batch) *
					     sl_dims_numbers(plan->rows, sl_plan_pairs(&plan->spec)),
				     sizeof *ends->begin);
		err = ends->begin ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the lengths of rows");
	}
	if (!err && ends->tail && chosen_most(plan)) {
		ends->place = calloc((size_t)sl_plan_chunks_of(plan, plan->spec.batch) * (size_t)chosen_most(plan),
				     sizeof *ends->place);
		err = ends->place ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the places of tokens");
	}
	if (!err && ends->head && ends->tail)
		sl_exec_lend(ends->tail, ends->head);
	ends->pictures = accumulated(plan) > 1 && has_dice(&plan->segment[SL_TAIL].graph);
	if (err)
		sl_ends_close(ends);
	return err;
}

void sl_ends_close(struct sl_ends *ends)
{
	sl_exec_close(ends->head);
	sl_exec_close(ends->tail);
	free(ends->begin);
	free(ends->place);
	free(ends->scaled);
	free(ends->sent);
	free(ends->word);
	*ends = (struct sl_ends){0};
}

/* The most floats of a chunk at one of the cuts, of all values. */
static int64_t chunk_floats(const struct sl_plan *plan, bool mid)
{
	return sl_plan_cut_floats(plan, mid, sl_plan_cut_most(plan, mid));
}

enum sl_err sl_ends_use(struct sl_ends *ends, const struct sl_ends_use *use, struct sl_fail *fail)
{
	const struct sl_noise *noise = use->noise;
	const struct sl_plan *plan = ends->plan;
	const int64_t head = chunk_floats(plan, false), mid = chunk_floats(plan, true);
	const int chunks = sl_plan_chunks_of(plan, plan->spec.batch);

	ends->use = *use;
	free(ends->scaled);
	free(ends->sent);
	free(ends->word);
	ends->scaled = NULL;
	ends->sent = NULL;
	ends->word = NULL;
	if (use->scale) {
		ends->scaled = calloc((size_t)(plan->spec.batch * sl_ends_targets(ends)), sizeof *ends->scaled);
		if (!ends->scaled)
			return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for scaled numbers");
	}
	if (!noise || (noise->head_act == 0 && noise->mid_grad == 0))
		return SL_OK;
	ends->sent = calloc((size_t)(noise->head_act > 0 ? chunks * head : 1), sizeof *ends->sent);
	ends->word = calloc((size_t)(head > mid ? head : mid) + 1, sizeof *ends->word);
	return ends->sent && ends->word ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for noise");
}

enum sl_err sl_ends_sent(struct sl_ends *ends, enum sl_dir dir, int chunk, struct sl_tensor *x, struct sl_fail *fail)
{
	const struct sl_chunk *c = &ends->chunk[chunk];
	const bool noisy = sl_noise_of(ends->use.noise, dir) > 0, mid = dir == SL_DIR_MID_GRAD;
	float *sent = noisy && !mid ? ends->sent + chunk * chunk_floats(ends->plan, false) : NULL;
	const int n = sl_plan_cut_values(ends->plan, mid);

	for (int v = 0; v < n && noisy; v++) {
		const struct sl_noise_place place = {ends->step, ends->training, v, c->first};
		float *to = mid ? x[v].data : sent;
		enum sl_err err = sl_noise_check(ends->use.noise, dir, &place, &x[v], fail);

		if (err)
			return err;
		sl_noise_add(ends->use.noise, dir, &place, &c->call.dims, &x[v], to, ends->word);
		x[v].data = to;
		sent += mid ? 0 : sl_shape_count(&x[v].shape);
	}
	if (dir == SL_DIR_HEAD_ACT && !ends->training && ends->use.dcor)
		sl_dcor_put(ends->use.dcor, &ends->feed, c->first, c->call.dims.rows, x, n);
	return SL_OK;
}

/* Held weights (frozen ones, in 16 bits) are not copied: the executor gets pointers to them. */
static enum sl_err hold(struct sl_exec *exec, const struct sl_weights *weights)
{
	const struct sl_plan_segment *s = sl_exec_segment(exec);
	const uint16_t **held = calloc((size_t)s->n_param + 1, sizeof *held);

	if (!held)
		return SL_ERR_NOMEM;
	for (int i = 0; i < s->n_param; i++)
		held[i] = s->param[i].held ? weights->held[s->param[i].model_param] : NULL;
	sl_exec_hold(exec, held);
	free(held);
	return SL_OK;
}

enum sl_err sl_exec_put(struct sl_exec *exec, const struct sl_weights *weights)
{
	const struct sl_plan_segment *s = exec ? sl_exec_segment(exec) : NULL;
	float *range = s ? malloc((size_t)s->weight_count * sizeof *range + 1) : NULL;
	enum sl_err err = range ? SL_OK : SL_ERR_NOMEM;

	if (!exec)
		return SL_OK;
	if (!err && s->which != SL_MIDDLE)
		err = hold(exec, weights);
	if (!err)
		sl_weights_pack(weights, s, range);
	if (!err)
		err = sl_exec_set_weights(exec, range);
	free(range);
	return err;
}

enum sl_err sl_exec_take(struct sl_exec *exec, struct sl_weights *weights)
{
	const struct sl_plan_segment *s = exec ? sl_exec_segment(exec) : NULL;
	float *range = s ? malloc((size_t)s->weight_count * sizeof *range + 1) : NULL;
	enum sl_err err;

	if (!exec)
		return SL_OK;
	if (!range)
		return SL_ERR_NOMEM;
	err = sl_exec_get_model(exec, range, s->weight_count);
	if (!err)
		sl_weights_unpack(weights, s, range, s->weight_count, weights);
	free(range);
	return err;
}

enum sl_err sl_ends_set_weights(struct sl_ends *ends, const struct sl_weights *weights)
{
	enum sl_err err = sl_exec_put(ends->head, weights);

	if (ends->use.head_cache)
		sl_head_cache_forget(ends->use.head_cache);

	return err ? err : sl_exec_put(ends->tail, weights);
}

enum sl_err sl_ends_get_weights(struct sl_ends *ends, struct sl_weights *weights)
{
	enum sl_err err = sl_exec_take(ends->head, weights);

	return err ? err : sl_exec_take(ends->tail, weights);
}

/* Labels of a row: one, or one for each pixel. */
static int64_t labels_of_row(const struct sl_ends *ends)
{
	const struct sl_graph *g = &ends->plan->model->graph;

	return ends->plan->model->task->kind == SL_LEARN_PIXELS ? sl_shape_row(&g->value[g->in[1].value].shape) : 1;
}

/* Places of chosen tokens count from the batch's first token in a feed, and from the chunk's first token here. */
static void take_places(struct sl_ends *ends, struct sl_chunk *c)
{
	struct sl_dims *dims = &c->call.dims;
	uint32_t *place = ends->place + c->call.slot * chosen_most(ends->plan);

	dims->place = place;
	dims->chosen = (int64_t)ends->feed.chosen[c->first + dims->rows] - c->answer;
	for (int64_t i = 0; i < dims->chosen; i++)
		place[i] = ends->feed.place[c->answer + i] - ends->feed.begin[c->first];
}

static void take_tokens(struct sl_ends *ends, struct sl_chunk *c)
{
	const struct sl_plan *plan = ends->plan;
	const struct sl_feed *feed = &ends->feed;
	struct sl_dims *dims = &c->call.dims;
	uint32_t *begin = ends->begin + (size_t)c->call.slot * sl_dims_numbers(plan->rows, sl_plan_pairs(&plan->spec));

	sl_dims_take(begin, plan->rows, feed->begin, feed->pieces, feed->cached, c->first, dims->rows);
	dims->tokens = begin[dims->rows];
	dims->begin = begin;
	dims->pieces = feed->pieces ? sl_dims_pairs(begin, plan->rows) : NULL;
	dims->cached = feed->cached ? sl_dims_pairs(begin, plan->rows) : NULL;
	if (feed->chosen)
		take_places(ends, c);
}

/* The sum of class weights of n labels from `from` on, or how many are not ignored. Labels that are no class are
 * refused later. */
static double weight_of(const struct sl_ends *ends, int64_t from, int64_t n)
{
	const struct sl_model *model = ends->plan->model;
	const bool weighted = ends->use.class_weight && ends->training && model->task->dtype == SL_I32;
	const bool pixels = model->task->kind == SL_LEARN_PIXELS;
	const int32_t *label = ends->feed.target;
	double sum = 0;

	if (!label || (!weighted && !pixels))
		return (double)n;
	for (int64_t i = from; i < from + n; i++)
		if (weighted && label[i] >= 0 && label[i] < model->classes)
			sum += (double)ends->use.class_weight[label[i]];
		else
			sum += !pixels || label[i] != SL_LEARN_IGNORED;
	return sum;
}

/* A mean loss over labels of this weight is divided by it. If none counts, the loss is 0. */
static double divisor(double weight)
{
	return weight > 0 ? weight : 1;
}

void sl_ends_take(struct sl_ends *ends, const struct sl_feed *feed, uint64_t step, bool training)
{
	const struct sl_plan *plan = ends->plan;

	ends->feed = *feed;
	ends->step = step;
	ends->training = training;
	ends->weight = weight_of(ends, 0, sl_feed_answers(feed) * labels_of_row(ends));
	if (training && step % (uint64_t)accumulated(plan) == 0) /* also after a step whose last batch was skipped */
		ends->weights = (struct sl_batch_weights){0};
	ends->chunks = sl_plan_split(plan, feed->rows, ends->rows);
	for (int i = 0; i < ends->chunks; i++) {
		struct sl_chunk *c = &ends->chunk[i];

		*c = (struct sl_chunk){.first = i * plan->rows,
				       .call = {.slot = i,
						.chunk = sl_plan_chunk_number(plan, i),
						.dims = sl_dims_rows(ends->rows[i]),
						.step = step,
						.training = training}};
		c->answer = feed->chosen ? (int64_t)feed->chosen[c->first] : c->first * labels_of_row(ends);
		if (feed->begin)
			take_tokens(ends, c);
		c->cut[0] = sl_plan_cut_count(plan, false, &c->call.dims);
		c->cut[1] = sl_plan_cut_count(plan, true, &c->call.dims);
	}
	sl_ends_check_batch(ends);
}

/* A token is an index into the embedding's table, which nothing later checks. */
static bool tokens_are_known(const struct sl_ends *ends, const int32_t *token, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (token[i] < 0 || token[i] >= ends->plan->model->vocab)
			return false;
	return true;
}

/* Uploads the chunk's part of the batch to the head's input. */
static enum sl_err take_input(struct sl_ends *ends, const struct sl_chunk *c)
{
	const struct sl_dims *dims = &c->call.dims;
	const struct sl_tensor in = sl_exec_input(ends->head, c->call.slot, sl_exec_in_count(ends->head, dims));
	const int64_t n = sl_shape_count(&in.shape);
	const int64_t at = dims->begin ? (int64_t)ends->feed.begin[c->first] : c->first * sl_shape_row(&in.shape);
	const size_t element = sl_dtype_bytes(in.dtype);
	const enum sl_err err = sl_ends_take_more(ends, c);

	if (dims->begin && !tokens_are_known(ends, (const int32_t *)ends->feed.input + at, n))
		return SL_ERR_DATA;
	return err ? err
		   : in.be->ops->upload(in.be, in.data, (const char *)ends->feed.input + (size_t)at * element,
					(size_t)n * element);
}

/* Computes a chunk's activations, unless the cache has those of all its samples. */
static enum sl_err head_chunk(struct sl_ends *ends, const struct sl_chunk *c)
{
	struct sl_head_cache *cache = ends->training && ends->feed.samples ? ends->use.head_cache : NULL;
	const int32_t *sample = cache ? ends->feed.samples + c->first : NULL;
	float *out = cache ? sl_exec_output(ends->head, c->call.slot, c->cut[0]).data : NULL;
	enum sl_err err;

	if (cache && sl_head_cache_take(cache, sample, c->call.dims.rows, out))
		return SL_OK;
	err = take_input(ends, c);
	if (!err)
		err = sl_exec_forward(ends->head, &c->call, NULL);
	if (!err && cache)
		sl_head_cache_put(cache, sample, c->call.dims.rows, out);
	return err;
}

/* A step's first task. */
static enum sl_err begin_step(struct sl_ends *ends)
{
	enum sl_err err = ends->head ? sl_exec_begin(ends->head) : SL_OK;

	ends->tied = false;
	return err || !ends->tail ? err : sl_exec_begin(ends->tail);
}

enum sl_err sl_ends_head_forward(struct sl_ends *ends, int chunk)
{
	enum sl_err err;

	sl_ends_check_chunk(ends, chunk);
	err = chunk == 0 && ends->training ? begin_step(ends) : SL_OK;
	return err ? err : head_chunk(ends, &ends->chunk[chunk]);
}

int64_t sl_ends_answers(const struct sl_ends *ends)
{
	const int64_t n = ends->feed.rows * labels_of_row(ends);
	const int32_t *label = ends->feed.target;
	int64_t answers = 0;

	if (ends->plan->model->task->kind != SL_LEARN_PIXELS)
		return sl_feed_answers(&ends->feed);
	for (int64_t i = 0; i < n; i++)
		answers += label[i] != SL_LEARN_IGNORED;
	return answers;
}

/* How much the batch counts in its step, if that has several. */
static double batch_weight(const struct sl_ends *ends)
{
	return ends->pictures ? (double)ends->feed.rows : ends->weight;
}

/* The weight by which the losses of the batch are divided: its own or, if it is not the first of its step, that of the
 * step's first batch. sl_ends_mean_factor makes up for the difference once the weights of all are known. */
static double step_weight(const struct sl_ends *ends)
{
	return ends->weights.sum > 0 ? ends->weights.first : divisor(batch_weight(ends));
}

double sl_ends_mean_factor(const struct sl_ends *ends)
{
	const int64_t batches = accumulated(ends->plan);
	const double sum = ends->weights.sum + batch_weight(ends);

	if (batches == 1 || !ends->training || ends->use.chunk_loss_sum || (ends->step + 1) % (uint64_t)batches ||
	    !(sum > 0))
		return 1;
	return (double)(float)(step_weight(ends) * (double)batches / sum);
}

/* The divisor of the gradient of a row's loss. A group's middle sums the gradients of all members. So each member
 * divides by the rows of the group's step, even if some rows have more tokens with a loss than others. sl_ends_commit
 * undoes that for the member's own two ends. */
static double loss_rows(const struct sl_ends *ends, const struct sl_chunk *c)
{
	const struct sl_dims *dims = &c->call.dims;
	const int64_t group = ends->plan->spec.group_rows;

	if (group)
		return (double)group;
	if (!ends->use.chunk_loss_sum)
		return step_weight(ends) * (divisor(ends->weight) / divisor(batch_weight(ends)));
	return ends->feed.chosen ? (double)dims->chosen
				 : divisor(weight_of(ends, c->answer, dims->rows * labels_of_row(ends)));
}

/* Multiplies the gradients by `factor`. */
static enum sl_err scale(struct sl_ends *ends, double factor)
{
	enum sl_err err = ends->head ? sl_exec_scale(ends->head, factor) : SL_OK;

	return err || !ends->tail ? err : sl_exec_scale(ends->tail, factor);
}

/* Once head and tail are done: sums their gradients of shared parameters, and makes gradients means over the batch. */
static enum sl_err tie(struct sl_ends *ends)
{
	const double factor = sl_plan_sum_factor(&ends->plan->spec, sl_feed_answers(&ends->feed));
	enum sl_err err = ends->tied || !ends->tail || !ends->head ? SL_OK : sl_exec_tie(ends->tail);

	if (!err && !ends->tied)
		err = scale(ends, factor);
	ends->tied = true;
	return err;
}

/* Makes the Dice loss a mean over pictures, although gradients are divided by pixels: by `rows`. */
static double dice_weight(const struct sl_ends *ends, const struct sl_chunk *c, double rows)
{
	if (ends->use.chunk_loss_sum)
		return rows / (double)c->call.dims.rows;
	return (accumulated(ends->plan) > 1 ? divisor(ends->weight) : rows) / (double)ends->feed.rows;
}

enum sl_err sl_ends_tail(struct sl_ends *ends, int chunk, struct sl_fail *fail)
{
	const struct sl_chunk *c = &ends->chunk[chunk];
	struct sl_exec_loss *loss = &ends->loss[chunk];
	const int64_t first = c->answer;
	const struct sl_model *model = ends->plan->model;
	const bool numbers = model->task->dtype == SL_F32 && !ends->use.restores;
	const double rows = loss_rows(ends, c);
	enum sl_err err;

	*loss = (struct sl_exec_loss){
		.labels = numbers ? NULL : (const int32_t *)ends->feed.target + first,
		.targets = numbers ? sl_ends_numbers(ends, c) : NULL,
		.other = ends->feed.other ? ends->feed.other + first : NULL,
		.share = ends->feed.share ? ends->feed.share + first : NULL,
		.logits = ends->use.logits && !ends->training ? ends->use.logits + first * model->classes : NULL,
		.weight = ends->use.class_weight,
		.ignores = model->task->kind == SL_LEARN_PIXELS,
		.ignored = SL_LEARN_IGNORED,
		.dice = ends->training ? (float)dice_weight(ends, c, rows) : 0, /* only gradients need it */
		.scale = 1.0f / (float)(rows * (double)accumulated(ends->plan)),
	};
	sl_ends_carry_home(ends, &c->call);
	err = !ends->head && chunk == 0 && ends->training ? begin_step(ends) : SL_OK;
	if (!err)
		err = sl_exec_forward(ends->tail, &c->call, loss);
	if (!err && numbers)
		sl_ends_unscale(ends, c, loss->logits);
	if (err || !ends->training)
		return err;
	if (!isfinite(loss->sum))
		return sl_fail_set(fail, SL_ERR_NONFINITE, "NaN or Inf in the loss of chunk %d", chunk);
	return sl_exec_backward(ends->tail, &c->call, loss);
}

enum sl_err sl_ends_head_backward(struct sl_ends *ends, int chunk)
{
	const struct sl_exec_call *call = &ends->chunk[chunk].call;

	sl_ends_carry_home_back(ends, call);
	return sl_exec_backward(ends->head, call, NULL);
}

enum sl_err sl_ends_check(struct sl_ends *ends, struct sl_fail *fail)
{
	enum sl_err err;

	if (SL_FAILPOINT_CALL(SL_FP_CLIENT_CHECK, 0))
		return SL_ERR_NONFINITE;
	err = tie(ends);
	if (!err && ends->head)
		err = sl_exec_check(ends->head, ends->rows, ends->chunks, fail);
	return err || !ends->tail ? err : sl_exec_check(ends->tail, ends->rows, ends->chunks, fail);
}

/* Logs a line for every cut whose width falls. */
static void say_widths(const struct sl_plan *plan, uint64_t done)
{
	static const char *const cut[2] = {"head", "tail"};

	for (int mid = 0; mid < 2; mid++) {
		const struct sl_decay *d = &plan->decay[mid];
		int before = sl_decay_width(d, done - 1), now = sl_decay_width(d, done);

		if (sl_decay_same(d, done - 1, done))
			continue;
		if (d->tokens)
			sl_log(SL_LOG_INFO, "insert-narrowed",
			       "insert.%s: from step %" PRIu64 " on %d features of %d tokens a row cross, not %d of %d",
			       cut[mid], done + 1, now, sl_decay_row_tokens(d, done), before,
			       sl_decay_row_tokens(d, done - 1));
		else
			sl_log(SL_LOG_INFO, "insert-narrowed",
			       "insert.%s: from step %" PRIu64 " on %d features cross, not %d", cut[mid], done + 1, now,
			       before);
	}
}

enum sl_err sl_ends_squares(struct sl_ends *ends, double squares[2], struct sl_fail *fail)
{
	const double factor = sl_ends_mean_factor(ends);
	enum sl_err err = sl_exec_squares(ends->head, &squares[0], fail);

	if (!err)
		err = sl_exec_squares(ends->tail, &squares[1], fail);
	for (int i = 0; i < 2; i++)
		squares[i] = sl_plan_own_squares(&ends->plan->spec, sl_feed_answers(&ends->feed), squares[i]) * factor *
			     factor;
	return err;
}

static void add_weight(struct sl_ends *ends)
{
	struct sl_batch_weights *w = &ends->weights;

	if ((ends->step + 1) % (uint64_t)accumulated(ends->plan) == 0) {
		*w = (struct sl_batch_weights){0};
		return;
	}
	w->first = step_weight(ends);
	w->sum += batch_weight(ends);
}

enum sl_err sl_ends_commit(struct sl_ends *ends, double lr, double grad_scale)
{
	enum sl_err err;

	if (ends->plan->spec.group_rows && ends->plan->spec.shared)
		grad_scale = (grad_scale > 0 ? grad_scale : 1) *
			     sl_plan_own_factor(&ends->plan->spec, sl_feed_answers(&ends->feed));
	err = scale(ends, grad_scale);
	if (!err && ends->head)
		err = sl_exec_commit(ends->head, lr, ends->rows, ends->chunks);
	if (!err && ends->tail)
		err = sl_exec_commit(ends->tail, lr, ends->rows, ends->chunks);
	if (!err)
		add_weight(ends);
	return err;
}

enum sl_err sl_ends_change(struct sl_ends *ends, const struct sl_end_layout *l, float *change)
{
	enum sl_err err =
		sl_exec_get_change(ends->head, ends->rows, ends->chunks, sl_end_change(l, ends->plan, SL_HEAD, change));

	return err ? err
		   : sl_exec_get_change(ends->tail, ends->rows, ends->chunks,
					sl_end_change(l, ends->plan, SL_TAIL, change));
}

enum sl_err sl_ends_commit_mean(struct sl_ends *ends, const struct sl_end_layout *l, float *mean, double lr)
{
	enum sl_err err;

	sl_exec_set_change(ends->head, sl_end_change(l, ends->plan, SL_HEAD, mean));
	sl_exec_set_change(ends->tail, sl_end_change(l, ends->plan, SL_TAIL, mean));
	err = sl_exec_commit(ends->head, lr, NULL, 0);
	return err ? err : sl_exec_commit(ends->tail, lr, NULL, 0);
}

enum sl_err sl_ends_set_done(struct sl_ends *ends, uint64_t done)
{
	enum sl_err err = ends->head ? sl_exec_set_done(ends->head, done) : SL_OK;

	if (!err && done == ends->step + 1)
		say_widths(ends->plan, done);
	return err || !ends->tail ? err : sl_exec_set_done(ends->tail, done);
}

double sl_ends_loss(const struct sl_ends *ends, double *dice)
{
	double sum = 0, of_pictures = 0;

	for (int i = 0; i < ends->chunks; i++) {
		sum += ends->loss[i].sum - (double)ends->loss[i].dice * ends->loss[i].dice_sum;
		of_pictures += ends->loss[i].dice_sum;
	}
	*dice = ends->feed.rows ? of_pictures / (double)ends->feed.rows : 0;
	return sum / divisor(ends->weight) + *dice;
}

int64_t sl_ends_correct(const struct sl_ends *ends)
{
	int64_t n = 0;

	for (int i = 0; i < ends->chunks; i++)
		n += ends->loss[i].correct;
	return n;
}
