#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/pass/remote_parts.h"
#include "client/step/ends_check.h"
#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/exec/clip.h"

static void task_ran(void *arg, enum sl_task task, struct sl_event *done)
{
	const struct sl_remote *r = arg;

	memcpy(done->squares, r->squares, sizeof done->squares);
}

static float *place(void *arg, enum sl_dir dir, int chunk)
{
	struct sl_remote *r = arg;
	const bool mid = dir == SL_DIR_MID_ACT;
	const int64_t most = sl_plan_cut_most(r->conf.link.plan, mid);

	return mid ? sl_exec_input(r->ends.tail, chunk, most).data : sl_exec_dout(r->ends.head, chunk, most).data;
}

/* Clipping by a norm that is nearly all somebody else's has left less than a thousandth of this side's gradient. A
 * server or a member that says such a norm stops the training of the others. */
static bool stands_still(const struct sl_session *s)
{
	const double all = sl_clip_norm((double[3]){s->squares[0], s->squares[1], s->squares[2]});

	return s->limits.clip_norm > 0 && s->own_squares > 0 && s->grad_scale < s->mean_factor / 1000 &&
	       sqrt(s->own_squares) < all / 1000;
}

struct sl_step_result sl_remote_result(const struct sl_remote *r)
{
	struct sl_port_stats now = sl_port_stats(sl_link_port(r->link));
	const struct sl_session *s = sl_link_session(r->link);
	struct sl_step_result result = {
		.step = r->ends.step,
		.rows = r->ends.feed.rows,
		.tokens = sl_feed_tokens(&r->ends.feed),
		.answers = sl_ends_answers(&r->ends),
		.correct = sl_ends_correct(&r->ends),
		.skipped = sl_session_skips(s),
		.late = sl_session_skips(s) && s->late,
		.passed = s->commit == SL_COMMIT_PASSES,
		.lr = r->lr,
		.grad_norm = sl_plan_clip_own(&r->conf.link.plan->spec) > 0 && s->training && !sl_session_skips(s)
				     ? sl_clip_norm(s->squares)
				     : NAN,
		.t_step_s = sl_seconds_since(r->started_ns),
		.t_compute_s = now.compute_s + now.codec_s - r->before.compute_s - r->before.codec_s,
		.t_server_s = s->training && s->decided ? s->server_compute_s : NAN,
		.tx_bytes = now.tx_bytes - r->before.tx_bytes,
		.rx_bytes = now.rx_bytes - r->before.rx_bytes,
	};

	result.still = !result.skipped && s->training && stands_still(s);
	result.loss = sl_ends_loss(&r->ends, &result.dice);
	if (!r->ends.tail) { /* the loss and the labels are another party's */
		result.answers = result.correct = 0;
		result.loss = NAN;
		result.dice = 0;
	}
	return result;
}

static void free_ends(void *arg)
{
	struct sl_remote *r = arg;

	sl_ends_round_close(&r->round);
	sl_ends_close(&r->ends);
	for (int end = 0; end < SL_END_COUNT; end++)
		sl_end_coder_close(r->end[end]);
	sl_end_layout_close(&r->layout);
	free(r->change);
	free(r);
}

/* ---- opening ---- */

static enum sl_err open_shared(struct sl_remote *r, struct sl_fail *fail)
{
	const struct sl_agreement *a = r->conf.link.agreement;
	enum sl_err err;

	if (!r->conf.link.plan->spec.shared_ends)
		return SL_OK;
	err = sl_end_layout_of(&r->layout, r->conf.link.plan, fail);
	for (int end = 0; end < SL_END_COUNT && !err; end++) {
		const struct sl_end_coder_env env =
			sl_agreement_coder(a, &r->layout, (enum sl_ends_run)end, r->conf.link.be);

		err = sl_end_coder_open(&r->end[end], &env, fail);
		r->conf.link.end_bytes[end] = err ? 0 : sl_end_coder_bound(r->end[end]);
	}
	if (err)
		return err;
	r->state = sl_end_layout_state(&r->layout, &r->conf.link.plan->spec);
	r->conf.link.end_bytes[SL_END_STATE] = sl_remote_seal_bytes(r) + (size_t)r->state.floats * sizeof(float);
	r->change = calloc((size_t)r->layout.floats + 1, sizeof *r->change);
	if (!r->change)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the gradients of head and tail");
	if (!r->layout.round)
		return SL_OK;
	err = sl_ends_round_open(&r->round, &r->ends, &r->layout, a->agreed.share.moments, fail);
	if (!err && sl_ends_round_begin(&r->round))
		err = sl_fail_set(fail, SL_ERR_DEVICE, "the weights could not be read back");
	return err;
}

enum sl_err sl_remote_open(struct sl_remote **out, struct sl_loop *loop, const struct sl_remote_conf *conf,
			   const struct sl_link_events *events, void *arg, struct sl_fail *fail)
{
	struct sl_link_work work = {sl_remote_run_task, task_ran, place, free_ends, NULL};
	struct sl_remote *r = calloc(1, sizeof *r);
	enum sl_err err;

	if (!r)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a session");
	r->conf = *conf;
	err = sl_ends_open(&r->ends, conf->link.plan, conf->link.be, fail);
	if (!err && sl_ends_set_weights(&r->ends, conf->link.weights))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "the weights could not be set");
	if (!err)
		err = sl_ends_use(&r->ends, &conf->use, fail);
	if (!err)
		err = open_shared(r, fail);
	work.arg = r;
	if (!err)
		err = sl_link_open(&r->link, loop, &r->conf.link, events, arg, &work, fail);
	if (err) {
		free_ends(r);
		return err;
	}
	*out = r;
	return SL_OK;
}

/* ---- the caller's requests ---- */

static void begin(struct sl_remote *r, const struct sl_feed *feed, struct sl_event pass)
{
	uint8_t tag[SL_WIRE_ORDER];

	if (!sl_link_is_up(r->link)) /* it has failed; `failed` follows when its last task has ended */
		return;
	sl_assert(!r->torn);
	sl_assert_int(feed->rows, <=, r->conf.link.plan->spec.batch);
	if (pass.kind != SL_EV_BEGIN_EVAL)
		sl_assert_int(r->applied, <=, pass.number);
	sl_ends_take(&r->ends, feed, pass.number, pass.kind != SL_EV_BEGIN_EVAL);
	r->lr = pass.lr;
	r->started_ns = sl_now_ns();
	r->before = sl_port_stats(sl_link_port(r->link));
	pass.batch_rows = (uint64_t)feed->rows;
	pass.grad_scale = sl_ends_mean_factor(&r->ends);
	pass.begin = feed->begin;
	pass.pieces = feed->pieces;
	pass.chosen = feed->chosen;
	pass.place = feed->place;
	pass.cached = feed->cached;
	pass.samples = feed->samples;
	if (r->conf.order && pass.kind != SL_EV_PASS) {
		sl_order_tag(r->conf.order, feed, pass.number, pass.kind == SL_EV_BEGIN_STEP, tag);
		pass.tag = tag;
	}
	pass.home = r->conf.use.home;
	sl_link_begin(r->link, &pass);
}

void sl_remote_step(struct sl_remote *r, const struct sl_feed *feed, uint64_t step, double lr, bool checkpoint)
{
	begin(r, feed, (struct sl_event){.kind = SL_EV_BEGIN_STEP, .number = step, .lr = lr, .checkpoint = checkpoint});
}

void sl_remote_pass(struct sl_remote *r, uint64_t step, double lr, bool checkpoint)
{
	begin(r, &(struct sl_feed){0},
	      (struct sl_event){.kind = SL_EV_PASS, .number = step, .lr = lr, .checkpoint = checkpoint});
}

void sl_remote_eval(struct sl_remote *r, const struct sl_feed *feed, uint64_t number)
{
	begin(r, feed, (struct sl_event){.kind = SL_EV_BEGIN_EVAL, .number = number});
}

enum sl_err sl_remote_state_open(struct sl_remote *r, struct sl_client_state *s, struct sl_fail *fail)
{
	enum sl_err err = sl_client_state_open(s, r->conf.link.plan, sl_port_codecs(sl_link_port(r->link)), fail);

	return err ? err : sl_client_state_open_end(s, r->end[SL_END_GRAD], r->round.base ? r->layout.grads : 0, fail);
}

const char *sl_remote_record(const struct sl_remote *r)
{
	return sl_port_record(sl_link_port(r->link));
}

enum sl_err sl_remote_take(struct sl_remote *r, struct sl_client_state *s)
{
	enum sl_err err = sl_client_state_take(s, r->ends.head, r->ends.tail, sl_port_codecs(sl_link_port(r->link)));

	s->weights = r->ends.weights;
	return err ? err : sl_client_state_take_end(s, r->end[SL_END_GRAD], r->round.base);
}

static void forget_codecs(struct sl_remote *r)
{
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		sl_codec_forget(sl_port_codecs(sl_link_port(r->link))[dir]);
	if (r->end[SL_END_GRAD])
		sl_end_coder_forget(r->end[SL_END_GRAD]);
}

enum sl_err sl_remote_give(struct sl_remote *r, const struct sl_client_state *s)
{
	enum sl_err err = sl_remote_set_step(r, s->step);

	if (!err)
		err = sl_client_state_give(s, r->ends.head, r->ends.tail, sl_port_codecs(sl_link_port(r->link)));
	r->ends.weights = s->weights;
	if (!err)
		sl_ends_check_done(&r->ends, s->step);
	if (!err)
		err = sl_client_state_give_end(s, r->end[SL_END_GRAD], r->round.base);
	if (!err && sl_remote_made(r) == SL_MADE_UNKNOWN)
		forget_codecs(r); /* as the server does */
	return err;
}

struct sl_sealed sl_remote_seal(const struct sl_remote *r, uint64_t branch)
{
	return (struct sl_sealed){r->conf.seal, r->conf.link.agreement->agreed.share.group,
				  sl_link_session(r->link)->next_step, branch};
}

enum sl_err sl_remote_take_ends(struct sl_remote *r, struct sl_fail *fail)
{
	uint8_t *run = (uint8_t *)(uintptr_t)sl_port_end_run(sl_link_port(r->link), SL_END_STATE).data;
	float *from = (float *)(void *)(run + sl_remote_seal_bytes(r));
	const struct sl_sealed seal = sl_remote_seal(r, sl_link_session(r->link)->made & ~SL_MADE_ANEW);
	enum sl_err err;

	sl_assert(r->change && sl_session_has_ends(sl_link_session(r->link)));
	SL_FAILPOINT(SL_FP_CLIENT_TAKES);
	if (r->conf.seal && sl_sealed_open(&seal, run, (size_t)r->state.floats * sizeof(float)))
		return sl_fail_at(fail, "share.secret", SL_ERR_PAYLOAD,
				  "the head and tail of group %s before step %" PRIu64
				  " do not open: they are sealed by another secret, of another step, or forged",
				  seal.group, seal.step + 1);
	err = sl_end_check(&r->state, from, fail);
	if (!err)
		err = sl_end_check_moments(&r->state, from, sl_link_session(r->link)->next_step, fail);
	if (err)
		return sl_fail_set(fail, SL_ERR_PAYLOAD, "the head and tail of another member are not valid");
	forget_codecs(r);
	err = sl_ends_set_state(&r->ends, &r->state, from);
	if (!err && r->round.ends)
		err = sl_ends_round_begin(&r->round);
	return err ? sl_fail_set(fail, err, "the head and tail of the group could not be set") : SL_OK;
}

enum sl_err sl_remote_set_step(struct sl_remote *r, uint64_t step)
{
	struct sl_fail why;
	enum sl_err err = sl_port_set_done(sl_link_port(r->link), step, &why);

	return err ? err : sl_ends_set_done(&r->ends, step);
}

uint64_t sl_remote_made(const struct sl_remote *r)
{
	const struct sl_session *s = sl_link_session(r->link);

	return !r->applied ? s->made : s->branch ? s->branch : s->epoch;
}

bool sl_remote_applied(const struct sl_remote *r)
{
	return sl_link_ended_in_commit(r->link) && r->applied == r->ends.step + 1;
}

bool sl_remote_torn(const struct sl_remote *r)
{
	return r->torn;
}

bool sl_remote_in_doubt(const struct sl_remote *r)
{
	const struct sl_session *s = sl_link_session(r->link);
	/* without the mean of heads and tails this side cannot apply the step */
	const bool crosses = r->change && (!s->limits.ends_round || (s->number + 1) % s->limits.ends_round == 0);
	const bool may_apply = !crosses || sl_session_heard(s);

	return sl_link_ended_in_commit(r->link) && !sl_remote_applied(r) && may_apply;
}

enum sl_err sl_remote_apply(struct sl_remote *r, struct sl_fail *fail)
{
	return sl_remote_commit(r, fail);
}

enum sl_err sl_remote_get_weights(struct sl_remote *r, struct sl_weights *weights, struct sl_fail *fail)
{
	const struct sl_plan_segment *s = &r->conf.link.plan->segment[SL_MIDDLE];
	const float *middle;
	enum sl_err err = sl_link_weights(r->link, &middle, fail);

	if (err)
		return err;
	sl_weights_unpack(weights, s, middle, sl_plan_fetch_count(s), r->conf.link.weights);
	return sl_ends_get_weights(&r->ends, weights)
		       ? sl_fail_set(fail, SL_ERR_DEVICE, "the weights could not be read back")
		       : SL_OK;
}

struct sl_link *sl_remote_link(const struct sl_remote *r)
{
	return r->link;
}

bool sl_remote_kept_there(const struct sl_remote *r, uint64_t step)
{
	return sl_link_session(r->link)->kept_step == step;
}

struct sl_port_stats sl_remote_stats(const struct sl_remote *r)
{
	return sl_port_stats(sl_link_port(r->link));
}

void sl_remote_close(struct sl_remote *r)
{
	sl_link_close(r->link);
}
