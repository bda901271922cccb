#include "client/pass/local_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/step/ends_check.h"
#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/exec/clip.h"
#include "common/exec/finite.h"
#include "common/session/port.h"

/* Whether a tensor crosses: a gradient does not if nothing in front of the cut learns. */
static bool crosses(const struct sl_local *l, enum sl_dir dir)
{
	const bool *no_grad = l->plan->spec.no_grad;

	return !(dir == SL_DIR_HEAD_GRAD && no_grad[0]) && !(dir == SL_DIR_MID_GRAD && no_grad[1]);
}

/* Opens a codec, or leaves it NULL if its tensor does not cross. */
static enum sl_err open_codec(struct sl_local *l, enum side side, enum sl_dir dir, struct sl_fail *fail)
{
	const struct sl_codec_spec *spec = l->agreement.codec;
	bool mid = dir == SL_DIR_MID_ACT || dir == SL_DIR_MID_GRAD;
	enum sl_dir act = mid ? SL_DIR_MID_ACT : SL_DIR_HEAD_ACT;
	bool paired = dir != act && sl_codec_spec_pairs(&spec[act], &spec[dir]);
	struct sl_codec_env env = {
		.be = l->be,
		.shape = sl_plan_cut_shape_after(l->plan, mid, sl_plan_cut_most(l->plan, mid), l->done),
		.row_tokens = sl_plan_cut_per_token(l->plan, mid) ? l->plan->spec.row_tokens : 0,
		.rows = l->plan->rows,
		.slots = sl_plan_chunks_of(l->plan, l->plan->spec.batch),
		.seed = l->plan->spec.seed,
		.keep_tokens =
			dir == SL_DIR_MID_ACT && sl_plan_cut_per_token(l->plan, false) ? l->plan->spec.keep_tokens : 0,
		.dir = dir,
		.pair = paired ? l->codec[side][act] : NULL,
	};
	struct sl_codec_env next[SL_CUT_VALUES];

	sl_port_env_values(l->plan, &env, next);
	return crosses(l, dir) ? sl_codec_open(&l->codec[side][dir], &spec[dir], &env, fail) : SL_OK;
}

static enum sl_err open_codecs(struct sl_local *l, enum side side, struct sl_fail *fail)
{
	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		enum sl_err err = open_codec(l, side, (enum sl_dir)dir, fail);
		size_t bound;

		if (err)
			return err;
		bound = l->codec[side][dir] ? sl_codec_bound(l->codec[side][dir],
							     sl_plan_cut_most(l->plan, dir == SL_DIR_MID_ACT ||
											       dir == SL_DIR_MID_GRAD))
					    : 0;
		if (bound > l->buf.cap)
			l->buf.cap = bound;
	}
	return SL_OK;
}

/* Opens the codecs of a tensor that gets narrower anew, without their state. */
static enum sl_err reopen_codecs(struct sl_local *l, uint64_t done, struct sl_fail *fail)
{
	static const enum sl_dir pair[2][2] = {{SL_DIR_HEAD_ACT, SL_DIR_HEAD_GRAD}, {SL_DIR_MID_ACT, SL_DIR_MID_GRAD}};
	uint64_t was = l->done;
	enum sl_err err = SL_OK;

	l->done = done;
	for (int i = 0; i < SIDES * 2 && !err; i++) {
		const struct sl_decay *decay = &l->plan->decay[i % 2];
		struct sl_codec **codec = l->codec[i / 2];

		if (sl_decay_same(decay, was, done))
			continue;
		for (int k = 1; k >= 0; k--) {
			sl_codec_close(codec[pair[i % 2][k]]);
			codec[pair[i % 2][k]] = NULL;
		}
		for (int k = 0; k < 2 && !err; k++)
			err = open_codec(l, (enum side)(i / 2), pair[i % 2][k], fail);
	}
	return err;
}

static enum sl_err open_middle(struct sl_local *l, const struct sl_exec *trunk, struct sl_fail *fail)
{
	enum sl_err err = sl_exec_prepare(&l->middle, l->plan, SL_MIDDLE, l->be, fail);

	if (!err && trunk)
		err = sl_exec_borrow(l->middle, trunk, fail);
	return err ? err : sl_exec_allocate(l->middle, fail);
}

/* The trunk's side only decodes this member's changes: the coder with which it encodes the mean is the group's. */
static enum sl_err open_shared(struct sl_local *l, struct sl_fail *fail)
{
	const struct sl_agreement *a = &l->agreement;
	enum sl_err err;

	if (!l->plan->spec.shared_ends)
		return SL_OK;
	err = sl_end_layout_of(&l->layout, l->plan, fail);
	for (int side = 0; side < SIDES && !err; side++)
		for (int end = 0; end < SL_END_COUNT && !err; end++) {
			const struct sl_end_coder_env env =
				sl_agreement_coder(a, &l->layout, (enum sl_ends_run)end, l->be);

			if (side == CLIENT || end == SL_END_GRAD)
				err = sl_end_coder_open(&l->end[side][end], &env, fail);
		}
	if (err)
		return err;
	if (sl_end_coder_bound(l->end[CLIENT][SL_END_GRAD]) > l->buf.cap)
		l->buf.cap = sl_end_coder_bound(l->end[CLIENT][SL_END_GRAD]);
	l->change = calloc((size_t)l->layout.floats + 1, sizeof *l->change);
	if (!l->change)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the gradients of head and tail");
	return l->layout.round ? sl_ends_round_open(&l->round, &l->ends, &l->layout, a->agreed.share.moments, fail)
			       : SL_OK;
}

enum sl_err sl_local_open(struct sl_local **out, const struct sl_plan *plan, const struct sl_agreement *agreement,
			  const struct sl_exec *trunk, struct sl_backend *be, struct sl_fail *fail)
{
	struct sl_local *l = calloc(1, sizeof *l);
	enum sl_err err;

	if (!l)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the run");
	l->plan = plan;
	l->agreement = *agreement;
	l->be = be;
	err = sl_ends_open(&l->ends, plan, be, fail);
	if (!err)
		err = open_middle(l, trunk, fail);
	for (int side = 0; side < SIDES && !err; side++)
		err = open_codecs(l, (enum side)side, fail);
	if (!err)
		err = open_shared(l, fail);
	if (!err) {
		l->buf.data = malloc(l->buf.cap + 1);
		l->home = calloc((size_t)plan->rows + 1, sizeof *l->home);
		if (!l->buf.data || !l->home)
			err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a payload");
	}
	if (err) {
		sl_local_close(l);
		return err;
	}
	*out = l;
	return SL_OK;
}

enum sl_err sl_local_use(struct sl_local *l, const struct sl_ends_use *use, struct sl_fail *fail)
{
	return sl_ends_use(&l->ends, use, fail);
}

void sl_local_close(struct sl_local *l)
{
	if (!l)
		return;
	for (int side = 0; side < SIDES; side++)
		for (int dir = SL_DIR_COUNT - 1; dir >= 0; dir--)
			sl_codec_close(l->codec[side][dir]);
	for (int i = 0; i < SIDES * SL_END_COUNT; i++)
		sl_end_coder_close(l->end[i / SL_END_COUNT][i % SL_END_COUNT]);
	sl_ends_round_close(&l->round);
	sl_end_layout_close(&l->layout);
	free(l->change);
	sl_ends_close(&l->ends);
	sl_exec_close(l->middle);
	free(l->home);
	free(l->buf.data);
	free(l);
}

enum sl_err sl_local_set_weights(struct sl_local *l, const struct sl_weights *weights, struct sl_fail *fail)
{
	enum sl_err err = sl_ends_set_weights(&l->ends, weights);

	if (!err && l->round.ends)
		err = sl_ends_round_begin(&l->round);
	if (!err)
		err = sl_exec_put(l->middle, weights);
	return err ? sl_fail_set(fail, err, "the weights could not be set") : SL_OK;
}

enum sl_err sl_local_get_weights(struct sl_local *l, struct sl_weights *weights)
{
	enum sl_err err = sl_ends_get_weights(&l->ends, weights);

	return err ? err : sl_exec_take(l->middle, weights);
}

enum sl_err sl_local_take(struct sl_local *l, struct sl_local_state *state)
{
	struct sl_exec *exec[SL_SEGMENT_COUNT] = {l->ends.head, l->middle, l->ends.tail};
	enum sl_err err = SL_OK;

	sl_local_state_close(state);
	state->weights = l->ends.weights;
	for (int i = 0; i < SL_SEGMENT_COUNT && !err; i++) {
		err = sl_exec_state_open(&state->part[i], &l->plan->segment[i], NULL);
		if (!err)
			err = sl_exec_state_take(&state->part[i], exec[i]);
	}
	return err;
}

enum sl_err sl_local_give(struct sl_local *l, const struct sl_local_state *state, uint64_t done, struct sl_fail *fail)
{
	struct sl_exec *exec[SL_SEGMENT_COUNT] = {l->ends.head, l->middle, l->ends.tail};
	enum sl_err err = sl_local_set_done(l, done, fail);

	l->ends.weights = state->weights;
	for (int i = 0; i < SL_SEGMENT_COUNT && !err; i++)
		if (sl_exec_state_give(&state->part[i], exec[i]))
			err = sl_fail_set(fail, SL_ERR_DEVICE, "the state of step %llu could not be set",
					  (unsigned long long)done);
	return err;
}

double sl_local_middle_squares(const struct sl_local *l)
{
	return l->middle_squares;
}

void sl_local_listen(struct sl_local *l, sl_local_crossed *crossed, void *arg)
{
	l->crossed = crossed;
	l->crossed_arg = arg;
}

enum sl_err sl_local_give_all(struct sl_local *l, const struct sl_client_state *client, const struct sl_carried *layout,
			      const float *weights, const uint8_t *carried)
{
	enum sl_err err = sl_client_state_give(client, l->ends.head, l->ends.tail, l->codec[CLIENT]);

	l->ends.weights = client->weights;
	return err ? err : sl_carried_give(layout, l->middle, l->codec[SERVER], weights, carried);
}

enum sl_err sl_local_take_middle(struct sl_local *l, const struct sl_carried *layout, float *weights, uint8_t *carried)
{
	return sl_carried_take(layout, l->middle, l->codec[SERVER], weights, carried);
}

void sl_local_state_close(struct sl_local_state *state)
{
	for (int i = 0; i < SL_SEGMENT_COUNT; i++)
		sl_exec_state_close(&state->part[i]);
}

/* A chunk's size as both ends of a link have it: without the choice of tokens that the tail alone makes. */
static struct sl_dims crossing_dims(const struct sl_local *l, const struct sl_dims *of)
{
	struct sl_dims dims = *of;

	if (!sl_plan_cut_chosen(l->plan)) {
		dims.chosen = 0;
		dims.place = NULL;
	}
	return dims;
}

/* Does to the values of a run what a link would: one side encodes them, the other decodes them. */
static enum sl_err cross(struct sl_local *l, enum sl_dir dir, int chunk, const struct sl_tensor *from,
			 struct sl_tensor *to, struct sl_fail *fail)
{
	bool up = dir == SL_DIR_HEAD_ACT || dir == SL_DIR_MID_GRAD;
	const struct sl_exec_call *c = &l->ends.chunk[chunk].call;
	const struct sl_codec_call call = {
		.slot = chunk,
		.step = c->training ? c->step : c->step | 1ull << 63,
		.chunk = (uint16_t)c->chunk,
		.training = c->training,
		.dims = crossing_dims(l, &c->dims),
		.home = l->ends.use.home && l->ends.feed.samples ? l->home : NULL,
	};
	/* a link's payload begins with the rows' lengths, which both sides have here */
	const size_t bytes = sl_port_lengths(l->plan, (int)dir, call.dims.rows, call.dims.tokens);
	enum sl_err err;

	l->buf.len = 0;
	err = l->ends.training
		      ? sl_port_finite(from, sl_codec_values(l->codec[up ? CLIENT : SERVER][dir]), dir, chunk, fail)
		      : SL_OK;
	if (err)
		return err;
	for (int64_t i = 0; call.home && i < call.dims.rows; i++)
		l->home[i] = 1 + l->ends.use.home[l->ends.feed.samples[l->ends.chunk[chunk].first + i]];
	err = sl_codec_encode(l->codec[up ? CLIENT : SERVER][dir], &call, from, &l->buf);
	if (err)
		return sl_fail_set(fail, err, "%s of chunk %d: %s", sl_dir_name(dir), chunk, sl_err_text(err));
	sl_assert_int(l->buf.len, <=, l->buf.cap);
	*(up ? &l->tx_bytes : &l->rx_bytes) += l->buf.len + bytes;
	l->payload[dir] += l->buf.len + bytes;
	l->nominal[dir] +=
		sl_codec_nominal_bytes(l->codec[up ? CLIENT : SERVER][dir], from->data ? from->shape.dim[0] : 0);
	err = sl_codec_decode(l->codec[up ? SERVER : CLIENT][dir], &call, (struct sl_bytes){l->buf.data, l->buf.len},
			      to, fail);
	if (!err && l->crossed)
		l->crossed(l->crossed_arg, dir, chunk, to);
	return err;
}

static enum sl_err forward_chunk(struct sl_local *l, const struct sl_chunk *c, struct sl_fail *fail)
{
	const int chunk = c->call.slot;
	struct sl_tensor from[SL_CUT_VALUES], to[SL_CUT_VALUES];
	enum sl_err err = sl_ends_head_forward(&l->ends, chunk);

	if (!err && chunk == 0 && c->call.training)
		err = sl_exec_begin(l->middle);
	if (!err) {
		sl_exec_crossing(l->ends.head, SL_END_OUT, chunk, &c->call.dims, from);
		sl_exec_crossing(l->middle, SL_END_IN, chunk, &c->call.dims, to);
		err = sl_ends_sent(&l->ends, SL_DIR_HEAD_ACT, chunk, from, fail);
	}
	if (!err) {
		err = cross(l, SL_DIR_HEAD_ACT, chunk, from, to, fail);
	}
	if (!err)
		err = sl_exec_forward(l->middle, &c->call, NULL);
	sl_exec_crossing(l->middle, SL_END_OUT, chunk, &c->call.dims, from);
	sl_exec_crossing(l->ends.tail, SL_END_IN, chunk, &c->call.dims, to);
	if (!err)
		err = cross(l, SL_DIR_MID_ACT, chunk, from, to, fail);
	return err ? err : sl_ends_tail(&l->ends, chunk, fail);
}

static enum sl_err backward_chunk(struct sl_local *l, const struct sl_chunk *c, struct sl_fail *fail)
{
	const int chunk = c->call.slot;
	struct sl_tensor from[SL_CUT_VALUES], to[SL_CUT_VALUES];
	enum sl_err err;

	if (!crosses(l, SL_DIR_MID_GRAD))
		return SL_OK;
	sl_exec_crossing(l->ends.tail, SL_END_DIN, chunk, &c->call.dims, from);
	sl_exec_crossing(l->middle, SL_END_DOUT, chunk, &c->call.dims, to);
	err = sl_ends_sent(&l->ends, SL_DIR_MID_GRAD, chunk, from, fail);
	if (err)
		return err;
	err = cross(l, SL_DIR_MID_GRAD, chunk, from, to, fail);
	if (!err)
		err = sl_exec_backward(l->middle, &c->call, NULL);
	if (err || !crosses(l, SL_DIR_HEAD_GRAD))
		return err;
	sl_exec_crossing(l->middle, SL_END_DIN, chunk, &c->call.dims, from);
	sl_exec_crossing(l->ends.head, SL_END_DOUT, chunk, &c->call.dims, to);
	err = cross(l, SL_DIR_HEAD_GRAD, chunk, from, to, fail);
	return err ? err : sl_ends_head_backward(&l->ends, chunk);
}

/* The three segments and the codecs of what crosses stand at the same step. */
static void check_done(const struct sl_local *l, uint64_t done)
{
	sl_ends_check_done(&l->ends, done);
	sl_assert_int(sl_exec_done(l->middle), ==, done);
	sl_assert_int(l->done, ==, done);
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		sl_assert(!l->codec[CLIENT][dir] == !l->codec[SERVER][dir]);
}

enum sl_err sl_local_set_done(struct sl_local *l, uint64_t done, struct sl_fail *fail)
{
	enum sl_err err = sl_ends_set_done(&l->ends, done);

	if (!err)
		err = sl_exec_set_done(l->middle, done);
	if (!err)
		err = reopen_codecs(l, done, fail);
	if (!err)
		check_done(l, done);
	return err;
}

/* As the server of a vertical group adds the squares of its members. */
static enum sl_err sum_members(struct sl_local *l, double squares[2], struct sl_fail *fail)
{
	const struct sl_ends_use *use = &l->ends.use;
	enum sl_err err = SL_OK;

	squares[0] = 0;
	for (int k = 0; k < use->members && !err; k++) {
		double head = 0;

		if (use->input[k] >= 0)
			err = sl_exec_squares_of(l->ends.head, use->input[k], &head, fail);
		squares[0] += head + (k == use->labels ? squares[1] : 0);
	}
	squares[1] = 0;
	return err;
}

/* As over a link, where the sides exchange their squares. A middle without a gradient adds nothing. */
enum sl_err sl_local_find_scale(struct sl_local *l, double *scale, struct sl_fail *fail)
{
	const double factor = sl_ends_mean_factor(&l->ends);
	double ends[2], middle = 0;
	enum sl_err err = sl_ends_squares(&l->ends, ends, fail);

	if (!err && l->ends.use.members)
		err = sum_members(l, ends, fail);
	if (!err && crosses(l, SL_DIR_MID_GRAD))
		err = sl_exec_squares(l->middle, &middle, fail);
	middle = sl_plan_own_squares(&l->plan->spec, sl_feed_answers(&l->ends.feed), middle) * factor * factor;
	if (!err) {
		const double squares[3] = {ends[0], middle, ends[1]};

		l->middle_squares = middle;
		l->grad_norm = sl_clip_norm(squares);
		*scale = factor * sl_clip_factor(l->plan->spec.clip_norm, squares);
	}
	return err;
}

static enum sl_err commit(struct sl_local *l, double lr, struct sl_fail *fail)
{
	enum sl_err err = sl_ends_check(&l->ends, fail);
	double grad_scale = sl_ends_mean_factor(&l->ends);

	if (!err)
		err = sl_exec_scale(l->middle, sl_plan_sum_factor(&l->plan->spec, sl_feed_answers(&l->ends.feed)));
	if (!err)
		err = sl_exec_check(l->middle, l->ends.rows, l->ends.chunks, fail);
	if (!err && l->plan->spec.clip_norm > 0)
		err = sl_local_find_scale(l, &grad_scale, fail);
	if (!err) /* what a step is applied to; attacks of `splitc leak` begin at any number */
		check_done(l, l->done);
	if (!err)
		err = sl_exec_scale(l->middle, grad_scale);
	if (!err)
		err = sl_exec_commit(l->middle, lr, l->ends.rows, l->ends.chunks);
	for (int i = 0; i < SIDES * SL_DIR_COUNT && !err; i++)
		sl_codec_commit(l->codec[i / SL_DIR_COUNT][i % SL_DIR_COUNT]);
	if (!err)
		err = sl_ends_commit(&l->ends, lr, grad_scale);
	return err ? err : sl_local_set_done(l, l->ends.step + 1, fail);
}

enum sl_err sl_local_chunks(struct sl_local *l, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	for (int chunk = 0; chunk < l->ends.chunks && !err; chunk++) {
		err = forward_chunk(l, &l->ends.chunk[chunk], fail);
		if (!err && l->ends.training)
			err = backward_chunk(l, &l->ends.chunk[chunk], fail);
	}
	return err;
}

void sl_local_begin_pass(struct sl_local *l)
{
	l->began_ns = sl_now_ns();
	l->grad_norm = NAN;
	l->grad_scale = 0;
	l->tx_bytes = l->rx_bytes = 0;
}

void sl_local_roll_back(struct sl_local *l)
{
	for (int i = 0; i < SIDES * SL_DIR_COUNT; i++)
		sl_codec_rollback(l->codec[i / SL_DIR_COUNT][i % SL_DIR_COUNT]);
	sl_end_coder_rollback(l->end[CLIENT][SL_END_GRAD]);
}

void sl_local_name_step(const struct sl_local *l, enum sl_err err, struct sl_fail *fail)
{
	if (err && !fail->text[0])
		sl_fail_set(fail, err, "step %llu: %s", (unsigned long long)l->ends.step, sl_err_text(err));
}

struct sl_step_result sl_local_result(const struct sl_local *l, double lr, bool skipped)
{
	const double took = sl_seconds_since(l->began_ns);
	struct sl_step_result result = {
		.step = l->ends.step,
		.rows = l->ends.feed.rows,
		.tokens = sl_feed_tokens(&l->ends.feed),
		.answers = sl_ends_answers(&l->ends),
		.correct = sl_ends_correct(&l->ends),
		.skipped = skipped,
		.lr = lr,
		.grad_norm = skipped ? NAN : l->grad_norm,
		.t_step_s = took,
		.t_compute_s = took,
		.t_server_s = 0, /* this process is both sides */
		.tx_bytes = l->tx_bytes,
		.rx_bytes = l->rx_bytes,
	};

	result.loss = sl_ends_loss(&l->ends, &result.dice);
	return result;
}

static enum sl_err pass(struct sl_local *l, double lr, struct sl_step_result *result, struct sl_fail *fail)
{
	enum sl_err err;

	sl_local_begin_pass(l);
	err = sl_local_chunks(l, fail);
	if (!err && l->ends.training)
		err = commit(l, lr, fail);
	if (err == SL_ERR_NONFINITE && l->ends.training)
		sl_local_roll_back(l);
	sl_local_name_step(l, err, fail);
	if (!err || err == SL_ERR_NONFINITE)
		*result = sl_local_result(l, lr, err);
	return err;
}

void sl_local_payload(const struct sl_local *l, uint64_t payload[SL_CROSS_COUNT], double nominal[SL_CROSS_COUNT])
{
	memcpy(payload, l->payload, sizeof l->payload);
	memcpy(nominal, l->nominal, sizeof l->nominal);
}

enum sl_err sl_local_step(struct sl_local *l, const struct sl_feed *feed, uint64_t number, double lr,
			  struct sl_step_result *result, struct sl_fail *fail)
{
	fail->text[0] = '\0';
	sl_ends_take(&l->ends, feed, number, true);
	return pass(l, lr, result, fail);
}

enum sl_err sl_local_eval(struct sl_local *l, const struct sl_feed *feed, uint64_t number,
			  struct sl_step_result *result, struct sl_fail *fail)
{
	fail->text[0] = '\0';
	sl_ends_take(&l->ends, feed, number, false);
	return pass(l, 0, result, fail);
}
