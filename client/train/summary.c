#include "client/train/summary.h"
#include "client/train/group_record.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/figures/by_class.h"
#include "common/base/log.h"
#include "common/base/wrap.h"
#include "common/telemetry/json.h"

enum { CODEC_WIDTH = 24 };

static const double MB = 1e6;

static double per(double a, double b)
{
	return b > 0 ? a / b : NAN;
}

/* Bytes of a tensor as fp32 and without inserts, over the whole run; padding counts. */
static uint64_t raw_bytes(const struct sl_setup *setup, const struct sl_training_totals *t, enum sl_dir dir)
{
	bool grad = dir == SL_DIR_MID_GRAD || dir == SL_DIR_HEAD_GRAD;
	bool mid = dir == SL_DIR_MID_ACT || dir == SL_DIR_MID_GRAD;
	uint64_t elements = (uint64_t)sl_plan_plain_count(setup->plan, mid);

	if (setup->plan->plain_per_token[mid])
		return (t->linked_train_tokens + (grad ? 0 : t->linked_eval_tokens)) * elements * sizeof(float);
	return (t->linked_train_samples + (grad ? 0 : t->linked_eval_samples)) * elements * sizeof(float);
}

/* The same for shared heads and tails: a whole change for each step, or each round, in which it crosses. */
static uint64_t raw_end_bytes(const struct sl_setup *setup, const struct sl_training_totals *t, enum sl_ends_run end)
{
	const int member = setup->plan->spec.member;
	const uint64_t round = setup->plan->spec.ends_round, from = t->linked_from;
	const uint64_t own =
		sl_turns_before(&setup->turns, member, t->steps) - sl_turns_before(&setup->turns, member, from);
	uint64_t times = t->steps - from;
	struct sl_end_layout layout;
	struct sl_fail fail;

	if (round)
		times = t->steps / round - from / round;
	else if (end == SL_END_GRAD)
		times = own > t->skipped ? own - t->skipped : 0;
	if (sl_end_layout_of(&layout, setup->plan, &fail))
		return 0;
	times *= (uint64_t)layout.floats * sizeof(float);
	sl_end_layout_close(&layout);
	return times;
}

static const char *codec_of(const struct sl_setup *setup, int cross)
{
	return cross < SL_DIR_COUNT ? setup->agreement.codec[cross].text
				    : setup->agreement.end_codec[cross - SL_DIR_COUNT].text;
}

/* The server's mean time for a step, over those for which it is known: not if the answer to COMMIT was lost. */
static double server_compute_s(const struct sl_training_totals *t)
{
	return per(t->server_s, (double)t->server_steps);
}

void sl_summary_scores(struct sl_jsonl_score out[SL_JSONL_SCORES], const struct sl_score score[SL_SCORES_MOST])
{
	for (int i = 0; i < SL_SCORES_MOST; i++)
		out[i] = (struct sl_jsonl_score){score[i].metric ? score[i].metric->name : NULL, score[i].value};
}

const char *sl_summary_score_text(const struct sl_score *score, char out[SL_SCORE_TEXT])
{
	char figure[SL_FIGURE_TEXT];

	snprintf(out, SL_SCORE_TEXT, "%s %s", score->metric->name,
		 (score->metric->share ? sl_share_text : sl_figure_text)(score->value, figure));
	return out;
}

const char *sl_summary_stop_text(const struct sl_training_stop *s, char out[SL_STOP_TEXT])
{
	char figure[SL_FIGURE_TEXT];

	if (isnan(s->best))
		snprintf(out, SL_STOP_TEXT, "%s was undefined in %d evaluation%s", s->by, s->waited,
			 sl_plural(s->waited));
	else
		snprintf(out, SL_STOP_TEXT,
			 "%s was %s after step %" PRIu64 "; evaluations since then, none of them better: %d", s->by,
			 sl_figure_text(s->best, figure), s->step, s->waited);
	return out;
}

/* What the server says of this run, and no audit, bound or comparison has checked. */
static void list_words(struct sl_jsonl_summary *out, const struct sl_setup *setup, const struct sl_training_totals *t,
		       const struct sl_training_link *link)
{
	const struct sl_audit_share *a = &link->audited;
	const bool trains = !t->weights;
	int n = 0;

	if (trains && (!link->audits || a->steps < a->all_steps))
		out->word[n++] = "steps";
	if (!link->audits || a->evals < a->all_evals)
		out->word[n++] = "evaluations";
	if (t->steps && t->linked_from)
		out->word[n++] = "earlier";
	if (setup && setup->phase.index)
		out->word[n++] = "phase-start";
	if (trains && setup && setup->conf && setup->conf->agreed.share.group[0])
		out->word[n++] = "members";
	out->word[n++] = "times";
	if (trains)
		out->word[n++] = "checkpoints";
}

void sl_summary_fill(struct sl_jsonl_summary *out, const struct sl_setup *setup, const struct sl_training_totals *t,
		     const struct sl_training_link *link, const char *outcome)
{
	const struct sl_traffic *tx = &t->traffic[SL_SENT], *rx = &t->traffic[SL_RECEIVED];
	const bool local = strcmp(t->mode, "local") == 0;
	const double steps = (double)t->own_steps;
	double compute_s = per(t->compute_s, steps) + server_compute_s(t);

	*out = (struct sl_jsonl_summary){
		.epochs = t->epochs,
		.steps = t->steps,
		.skipped = t->skipped,
		.samples = t->samples,
		.test_loss = t->test_loss,
		.test_acc = t->test_acc,
		.evaluated_part = t->part,
		.best_test_acc = t->best_test_acc,
		.best_step = t->best_step,
		.t_total_s = t->total_s,
		.t_per_batch_s = per(t->train_s, steps),
		.t_compute_per_batch_s = compute_s,
		.avg_mb_s = per(per((double)t->train_tx_bytes, steps), compute_s) / MB,
		.tx_mb_s = local ? NAN : per((double)t->train_tx_bytes, t->train_s) / MB,
		.rx_mb_s = local ? NAN : per((double)t->train_rx_bytes, t->train_s) / MB,
		.peak_client_mb_s = link->peak_tx > 0 ? link->peak_tx / MB : NAN,
		.peak_server_mb_s = link->peak_rx > 0 ? link->peak_rx / MB : NAN,
		.wire_tx_bytes = local ? t->tx_bytes : tx->bytes,
		.wire_rx_bytes = local ? t->rx_bytes : rx->bytes,
		.weights_tx_bytes = tx->weights,
		.weights_rx_bytes = rx->weights,
		.framing_tx_bytes = tx->framing,
		.framing_rx_bytes = rx->framing,
		.curve_tx_bytes = tx->curve,
		.curve_rx_bytes = rx->curve,
		.audits = link->audits,
		.audited = {{link->audited.steps, link->audited.all_steps},
			    {link->audited.evals, link->audited.all_evals},
			    {link->audited.last_evals, link->audited.all_last}},
		.audits_begun = link->audited.begun,
		.audits_ended = link->audited.ended,
		.still = t->still,
		.group = link->record,
		.outcome = outcome,
		.privacy = t->privacy,
		.undefined = t->undefined[0] ? t->undefined : NULL,
		.rounding = setup && setup->conf ? setup->rounding : NULL,
		.numbers = setup && setup->conf ? setup->conf->model.classes : 0,
		.best_metric = setup && setup->conf && setup->conf->train.keep_best ? t->kept_by : NULL,
	};
	out->majority_share = t->majority_share;
	out->spread = t->spread;
	out->evaluated = t->test_samples;
	out->groups = (uint64_t)t->groups;
	memcpy(out->acc_interval, &t->acc_interval, sizeof out->acc_interval);
	memcpy(out->auc_interval, &t->auc_interval, sizeof out->auc_interval);
	out->majority = t->majority;
	sl_summary_scores(out->score, t->score);
	if (!local)
		list_words(out, setup, t, link);
	for (int dir = 0; dir < SL_CROSS_COUNT; dir++) {
		if (!link->wire[dir])
			continue;
		out->direction[dir] = (struct sl_jsonl_direction){
			.name = sl_cross_name(dir),
			.codec = codec_of(setup, dir),
			.wire_bytes = link->wire[dir],
			.payload_bytes = link->payload[dir],
			.raw_bytes = dir < SL_DIR_COUNT
					     ? raw_bytes(setup, t, (enum sl_dir)dir)
					     : raw_end_bytes(setup, t, (enum sl_ends_run)(dir - SL_DIR_COUNT)),
			.nominal_bytes = link->nominal[dir],
		};
	}
}

static void print_both(const char *name, const char *what, const char *more, uint64_t up, uint64_t down)
{
	printf("%-9s  %s%s: %.2f MB up, %.2f MB down\n", name, what, more, (double)up / MB, (double)down / MB);
}

static void print_bytes(const struct sl_jsonl_summary *s, uint64_t from, bool local)
{
	char codec[64] = "codec";

	if (from)
		snprintf(codec, sizeof codec, "codec (from step %" PRIu64 ")", from);
	printf("\n%-9s  %-*s %10s %10s %7s %7s\n", "tensor", CODEC_WIDTH, codec, "wire MB", "fp32 MB", "real",
	       "nominal");
	for (int dir = 0; dir < SL_JSONL_DIRECTIONS; dir++) {
		const struct sl_jsonl_direction *d = &s->direction[dir];
		bool up = dir == SL_DIR_HEAD_ACT || dir == SL_DIR_MID_GRAD || dir == SL_DIR_COUNT + SL_END_GRAD;

		if (!d->name)
			continue;
		sl_print_cell(stdout, d->codec, printf("%-9s  ", d->name), CODEC_WIDTH);
		printf(" %10.2f %10.2f %7.4f %7.4f  %s\n", (double)d->wire_bytes / MB, (double)d->raw_bytes / MB,
		       per((double)d->wire_bytes, (double)d->raw_bytes), per(d->nominal_bytes, (double)d->raw_bytes),
		       up ? "up" : "down");
	}
	if (!local) {
		print_both("weights", "of the middle", "", s->weights_tx_bytes, s->weights_rx_bytes);
		print_both("framing", "ZeroMQ's, and handshakes", "", s->framing_tx_bytes, s->framing_rx_bytes);
		if (s->curve_tx_bytes)
			print_both("CURVE", "what encryption adds", "", s->curve_tx_bytes, s->curve_rx_bytes);
	}
	print_both("all", local ? "payloads, as they would cross a link" : "bytes that the connection carried",
		   from ? ", from step 0" : "", s->wire_tx_bytes, s->wire_rx_bytes);
}

static void print_steps(const struct sl_jsonl_summary *s, const struct sl_training_totals *t)
{
	char text[SL_STOP_TEXT], figure[4][SL_FIGURE_TEXT];

	printf("%s: %" PRIu64 " step%s", s->outcome, s->steps, sl_plural(s->steps));
	if (t->linked_from)
		printf(", those from %" PRIu64 " on", t->linked_from);
	printf(" in %.1f s in all; ", s->t_total_s);
	if (t->train_samples)
		printf("%.1f samples/s in training\n", per((double)t->train_samples, t->train_s));
	else
		puts("nothing was trained here");
	if (t->stop.stopped)
		printf("it ended early (train.stop): %s\n", sl_summary_stop_text(&t->stop, text));
	if (s->privacy.delta > 0)
		printf("%s: epsilon %.4g at delta %g, by %" PRIu64 " releases of each training sample; %.4g by %" PRIu64
		       " of each evaluated one\n",
		       s->privacy.spent ? "the privacy budget ended it" : "privacy", s->privacy.epsilon,
		       s->privacy.delta, s->privacy.releases, s->privacy.evaluated_epsilon,
		       s->privacy.evaluated_releases);
	if (s->privacy.delta > 0 && isfinite(s->privacy.act_clipped) && isfinite(s->privacy.grad_clipped))
		printf("clipped in this process: %.1f %% of head_act, %.1f %% of mid_grad (half is a usual choice)\n",
		       100 * s->privacy.act_clipped, 100 * s->privacy.grad_clipped);
	if (s->skipped)
		printf("%" PRIu64 " of these steps were skipped: they had NaN or Inf, or in a group were late or above "
		       "share.member_norm\n",
		       s->skipped);
	printf("time per batch %s, computation %s (client %s, server %s)\n", sl_time_text(s->t_per_batch_s, figure[0]),
	       sl_time_text(s->t_compute_per_batch_s, figure[1]),
	       sl_time_text(per(t->compute_s, (double)t->own_steps), figure[2]),
	       sl_time_text(server_compute_s(t), figure[3]));
}

/* Prints what says how much the figures are worth: the interval, and what a network reaches that has learned nothing.
 */
static void print_worth(const struct sl_jsonl_summary *s)
{
	char figure[SL_FIGURE_TEXT];
	const bool sure = isfinite(s->acc_interval[0]);

	if (sure)
		printf("95 %% interval %.1f to %.1f %%, by %" PRIu64 " %s", 100 * s->acc_interval[0],
		       100 * s->acc_interval[1], s->groups ? s->groups : s->evaluated,
		       s->groups ? "groups" : "samples");
	if (s->majority)
		printf("%salways \"%s\" would be %s", sure ? "; " : "", s->majority,
		       sl_share_text(s->majority_share, figure));
	else if (isfinite(s->spread))
		printf("%salways the mean would be rmse %s", sure ? "; " : "", sl_figure_text(s->spread, figure));
	if (sure || s->majority || isfinite(s->spread))
		putchar('\n');
}

/* Prints the last evaluation; an earlier one may have been better. */
static void print_test(const struct sl_jsonl_summary *s, const struct sl_training_totals *t)
{
	char text[SL_SCORE_TEXT], figure[SL_FIGURE_TEXT];

	if (t->weights)
		printf("\nweights: %s", t->weights);
	if (t->weights && t->weights_step < INT64_MAX)
		printf(", after step %" PRId64, t->weights_step);
	if (t->has_accuracy)
		printf("\n%s accuracy %s", t->part, sl_share_text(s->test_acc, figure));
	else if (t->blind)
		printf("\nthe member with labels has the %s loss", t->part);
	else
		printf("\n%s loss %s", t->part, sl_figure_text(s->test_loss, figure));
	if (t->test_samples) /* else another process of the run evaluated */
		printf(" of %s%" PRIu64 " sample%s", t->task->of, t->test_samples,
		       sl_plural((long long)t->test_samples));
	if (t->labels && sl_set_has_patches(t->labels))
		fputs(", which are patches side by side: no figure is a mean over cases", stdout);
	if (t->has_accuracy)
		printf(", loss %s", sl_figure_text(s->test_loss, figure));
	if (isfinite(s->best_test_acc) && !(s->best_test_acc <= s->test_acc))
		printf("; the best of the run was %s", sl_share_text(s->best_test_acc, figure));
	if (t->test_step &&
	    t->test_step < s->steps) /* it was interrupted: these are not the weights that it ends with */
		printf("\nthat was after step %" PRIu64 ", and the run ended after step %" PRIu64, t->test_step,
		       s->steps);
	putchar('\n');
	print_worth(s);
	for (int i = 0; i < SL_SCORES_MOST && t->score[i].metric; i++) {
		printf("%s%s%s", i ? ", " : t->part, i ? "" : " ", sl_summary_score_text(&t->score[i], text));
		if (strcmp(t->score[i].metric->name, "auc") == 0 && isfinite(s->auc_interval[0]))
			printf(" (%.4f to %.4f)", s->auc_interval[0], s->auc_interval[1]);
	}
	if (t->score[0].metric)
		putchar('\n');
	if (s->undefined)
		printf("undefined: %s\n", s->undefined);
	if (s->best_step)
		printf("best.safetensors holds the weights after step %" PRIu64 ", with %s %s\n", s->best_step,
		       strcmp(t->kept_by, "accuracy") == 0 ? "accuracy" : t->kept_by,
		       (strcmp(t->kept_by, "accuracy") == 0 ? sl_share_text : sl_figure_text)(t->kept, figure));
	else if (t->no_best)
		printf("best.safetensors was not written: %s was undefined in every evaluation\n", t->kept_by);
}

/* Prints the rates that are known: a very short run has no peaks. */
static void print_rates(const struct sl_jsonl_summary *s)
{
	printf("MB/s (10^6 bytes) over the steps: sent %.2f, received %.2f", s->tx_mb_s, s->rx_mb_s);
	if (!isnan(s->peak_client_mb_s))
		printf("; the fastest tensor sent %.2f", s->peak_client_mb_s);
	if (!isnan(s->peak_server_mb_s))
		printf("; the fastest received %.2f", s->peak_server_mb_s);
	putchar('\n');
}

static void print_words(const struct sl_jsonl_summary *s)
{
	for (int i = 0; i < SL_JSONL_WORDS && s->word[i]; i++)
		printf("%s%s", i ? ", " : "the server's word, unaudited: ", s->word[i]);
	if (s->word[0])
		putchar('\n');
}

/* "3 warnings: class-missing, same-data" */
static void print_warnings(void)
{
	const unsigned long long n = sl_log_warned();
	const char *id[SL_LOG_KEPT];
	struct sl_log_warning w;

	for (int i = 0; sl_log_warning(i, &w); i++) {
		bool said = false;

		id[i] = w.id;
		for (int k = 0; k < i; k++)
			said = said || strcmp(id[k], w.id) == 0;
		if (!i)
			printf("%llu warning%s: %s", n, sl_plural((long long)n), w.id);
		else if (!said)
			printf(", %s", w.id);
	}
	if (n)
		putchar('\n');
}

static void print_group(const char *text)
{
	json_t *record = sl_group_record_read(text);

	sl_group_record_print(record);
	json_decref(record);
}

static void print_table(const struct sl_jsonl_summary *s, const struct sl_training_totals *t,
			const struct sl_training_link *link)
{
	bool local = strcmp(t->mode, "local") == 0;

	if (s->steps)
		print_steps(s, t);
	else if (strcmp(s->outcome, "finished") != 0)
		printf("%s: nothing was finished, so there are no figures\n", s->outcome);
	if (link->lost)
		printf("%" PRIu64 " of %" PRIu64 " links were lost\n", link->lost, link->links);
	if (link->audits)
		printf("audits of the server: %" PRIu64 " begun, %" PRIu64 " ended; of this process %" PRIu64
		       " of %" PRIu64 " steps and %" PRIu64 " of %" PRIu64 " batches of evaluations\n",
		       s->audits_begun, s->audits_ended, link->audited.steps, link->audited.all_steps,
		       link->audited.evals, link->audited.all_evals);
	if (s->still)
		printf("%" PRIu64 " step%s nearly without effect here: the norm that the server said was above 1,000 "
		       "times that of this side's gradient, and of train.clip_norm\n",
		       s->still, s->still == 1 ? " was" : "s were");
	print_words(s);
	print_group(s->group);
	if (s->direction[0].name) {
		if (s->steps && !local)
			print_rates(s);
		print_bytes(s, t->linked_from, local);
	}
	if (t->test_samples || t->test_step || !isnan(s->test_loss))
		print_test(s, t);
	sl_by_class_print(t->scores, t->labels);
	sl_by_target_print(t->scores, t->score, t->labels);
	if (t->head[0])
		printf("log head %s (splitc report --verify)\n", t->head);
	print_warnings();
}

static void print_json(const struct sl_jsonl_summary *s, const struct sl_training_totals *t,
		       const struct sl_training_link *link)
{
	json_t *root = json_pack("{s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "schema", 2,
				 "mode", t->mode, "outcome", s->outcome, "steps", (json_int_t)s->steps, "skipped",
				 (json_int_t)s->skipped, "samples", (json_int_t)s->samples, "wire_tx_bytes",
				 (json_int_t)s->wire_tx_bytes, "wire_rx_bytes", (json_int_t)s->wire_rx_bytes,
				 "weights_tx_bytes", (json_int_t)s->weights_tx_bytes, "weights_rx_bytes",
				 (json_int_t)s->weights_rx_bytes, "framing_tx_bytes", (json_int_t)s->framing_tx_bytes,
				 "framing_rx_bytes", (json_int_t)s->framing_rx_bytes, "curve_tx_bytes",
				 (json_int_t)s->curve_tx_bytes, "curve_rx_bytes", (json_int_t)s->curve_rx_bytes);
	json_t *directions = json_array(), *metrics = json_object(), *group = sl_group_record_read(s->group);

	json_object_set_new(root, "links", json_integer((json_int_t)link->links));
	json_object_set_new(root, "lost", json_integer((json_int_t)link->lost));
	json_object_set_new(root, "rejected", json_integer((json_int_t)link->rejected));
	json_object_set_new(root, "audits_begun", json_integer((json_int_t)s->audits_begun));
	json_object_set_new(root, "audits_ended", json_integer((json_int_t)s->audits_ended));
	json_object_set_new(root, "audited", sl_jsonl_audited(s));
	json_object_set_new(root, "group", group ? group : json_null());
	json_object_set_new(root, "servers_word", sl_jsonl_words(s));
	json_object_set_new(root, "label_rounding", sl_jsonl_rounding(s->rounding, s->numbers));
	json_object_set_new(root, "still_steps", json_integer((json_int_t)s->still));
	json_object_set_new(root, "warned", json_integer((json_int_t)sl_log_warned()));
	json_object_set_new(root, "warnings", sl_jsonl_warnings());
	json_object_set_new(root, "evaluated_part", json_string(s->evaluated_part));
	json_object_set_new(root, "test_loss", sl_json_real(s->test_loss));
	json_object_set_new(root, "test_acc", sl_json_real(s->test_acc));
	json_object_set_new(root, "best_test_acc", sl_json_real(s->best_test_acc));
	for (int i = 0; i < SL_JSONL_SCORES && s->score[i].name; i++)
		json_object_set_new(metrics, s->score[i].name, sl_json_real(s->score[i].value));
	json_object_set_new(root, "test_metrics", metrics);
	json_object_set_new(root, "test_baseline", sl_jsonl_baseline(s));
	json_object_set_new(root, "test_intervals", sl_jsonl_intervals(s));
	json_object_set_new(root, "test_undefined", s->undefined ? json_string(s->undefined) : json_null());
	json_object_set_new(root, "weights",
			    t->weights
				    ? json_pack("{s:o, s:o}", "file", sl_json_text(t->weights), "step",
						t->weights_step < INT64_MAX ? json_integer((json_int_t)t->weights_step)
									    : json_null())
				    : json_null());
	sl_by_class_json(root, t->scores, t->labels);
	sl_by_target_json(root, t->scores, t->score, t->labels);
	json_object_set_new(root, "evaluated_step",
			    t->test_step ? json_integer((json_int_t)t->test_step) : json_null());
	json_object_set_new(root, "best_step", s->best_step ? json_integer((json_int_t)s->best_step) : json_null());
	json_object_set_new(root, "best_metric", s->best_metric ? json_string(s->best_metric) : json_null());
	json_object_set_new(root, "privacy", sl_jsonl_privacy(s));
	json_object_set_new(root, "stopped_by", t->stop.stopped ? json_string(t->stop.by) : json_null());
	json_object_set_new(root, "t_total_s", sl_json_real(s->t_total_s));
	json_object_set_new(root, "t_per_batch_s", sl_json_real(s->t_per_batch_s));
	json_object_set_new(root, "t_compute_per_batch_s", sl_json_real(s->t_compute_per_batch_s));
	json_object_set_new(root, "t_compute_client_per_batch_s",
			    sl_json_real(per(t->compute_s, (double)t->own_steps)));
	json_object_set_new(root, "t_compute_server_per_batch_s", sl_json_real(server_compute_s(t)));
	json_object_set_new(root, "avg_mb_s", sl_json_real(s->avg_mb_s));
	json_object_set_new(root, "tx_mb_s", sl_json_real(s->tx_mb_s));
	json_object_set_new(root, "rx_mb_s", sl_json_real(s->rx_mb_s));
	json_object_set_new(root, "peak_client_mb_s", sl_json_real(s->peak_client_mb_s));
	json_object_set_new(root, "peak_server_mb_s", sl_json_real(s->peak_server_mb_s));
	for (int dir = 0; dir < SL_JSONL_DIRECTIONS; dir++) {
		const struct sl_jsonl_direction *d = &s->direction[dir];

		if (d->name)
			json_array_append_new(directions,
					      json_pack("{s:s, s:s, s:I, s:I, s:I, s:f}", "tensor", d->name, "codec",
							d->codec, "wire_bytes", (json_int_t)d->wire_bytes,
							"payload_bytes", (json_int_t)d->payload_bytes, "raw_bytes",
							(json_int_t)d->raw_bytes, "nominal_bytes", d->nominal_bytes));
	}
	json_object_set_new(root, "directions", directions);
	json_object_set_new(root, "log_head", t->head[0] ? json_string(t->head) : json_null());
	sl_json_print(root, JSON_COMPACT, stdout);
}

void sl_summary_print(const struct sl_jsonl_summary *s, const struct sl_training_totals *totals,
		      const struct sl_training_link *link, bool json)
{
	(json ? print_json : print_table)(s, totals, link);
	fflush(stdout);
}
