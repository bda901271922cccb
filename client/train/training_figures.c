/* The figures of an evaluation, as a member of a group reports them to its server (share.report). */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/train/training_run.h"
#include "common/base/log.h"
#include "common/telemetry/json.h"

/* A loss per label and a label per sample: only so do figures of members add up by their samples. */
static bool counts_samples(const struct sl_training *r)
{
	return r->totals.has_accuracy && sl_setup_answers(r->setup->conf) == 1 && !r->task->perplexity;
}

static json_t *scores_of(const struct sl_training *r)
{
	json_t *scores = json_object();

	for (int i = 0; i < SL_SCORES_MOST; i++) {
		const struct sl_score *s = &r->totals.score[i];

		if (s->metric)
			json_object_set_new(scores, s->metric->name, sl_json_real(s->value));
	}
	return scores;
}

bool sl_training_figures(struct sl_training *r, char out[SL_WIRE_REPORT + 1])
{
	const struct sl_training_totals *t = &r->totals;
	const bool due = r->report_due && !r->eval_only && !t->blind;
	json_t *root = due ? json_pack("{sIsIsososo}", "step", (json_int_t)t->test_step, "samples",
				       (json_int_t)t->test_samples, "loss", sl_json_real(t->test_loss), "correct",
				       counts_samples(r) ? json_integer(llround(t->test_acc * (double)t->test_samples))
							 : json_null(),
				       "scores", scores_of(r))
			   : NULL;
	char *text = root ? sl_json_dump(root, JSON_COMPACT) : NULL;
	const bool fits = text && strlen(text) <= SL_WIRE_REPORT_MOST;

	r->report_due = false;
	if (text && !fits && !r->said_long)
		sl_log(SL_LOG_WARN, "report-too-long",
		       "the figures of step %" PRIu64
		       " are %zu bytes, and a report has at most %d: the server does not "
		       "get such ones; fewer train.metrics would fit",
		       t->test_step, strlen(text), SL_WIRE_REPORT_MOST);
	r->said_long = r->said_long || (text && !fits);
	if (fits)
		memcpy(out, text, strlen(text) + 1);
	free(text);
	json_decref(root);
	return fits;
}
