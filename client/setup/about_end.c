/* Whether weights are those of their run's end: what model files say of it, and the warnings of all that read them. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "client/model/weights_file.h"
#include "client/persist/last_run.h"
#include "client/persist/model_file.h"
#include "client/setup/about.h"
#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/text.h"

void sl_about_add_unfinished(json_t *about, const struct sl_setup *s, const struct sl_about_reached *at)
{
	const struct sl_phase *phase = &s->phase;
	const bool later = phase->index + 1 < phase->count;
	json_t *end = json_pack("{s:I}", "step", (json_int_t)at->step);

	if (at->of)
		json_object_set_new(end, "of", json_integer((json_int_t)at->of));
	if (phase->count)
		json_object_update_new(end, json_pack("{s:i, s:i}", "phase", phase->index + 1, "phases", phase->count));
	if (!at->best && (at->step < at->of || !at->of || later))
		json_object_set(about, SL_ABOUT_UNFINISHED, end);
	if (at->untrained)
		json_object_set_new(about, SL_ABOUT_UNTRAINED, json_true());
	json_decref(end);
}

static long long number(const json_t *end, const char *key)
{
	return json_integer_value(json_object_get(end, key));
}

static void say_unfinished(const json_t *end, const char *path)
{
	char of[48] = "", phase[64] = "";

	if (number(end, "of"))
		snprintf(of, sizeof of, " of %lld", number(end, "of"));
	if (number(end, "phases"))
		snprintf(phase, sizeof phase, ", in phase %lld of %lld", number(end, "phase"), number(end, "phases"));
	sl_log(SL_LOG_WARN, "unfinished",
	       "%.300s has the weights of step %lld%s%s: they are not those of the run's end", path,
	       number(end, "step"), of, phase);
}

/* The best weights of a run are written while it goes on. Whether it came to its end its folder says. */
static void check_best(const char *path)
{
	char folder[PATH_MAX], model[PATH_MAX];

	if (!sl_ends_with(path, "/" SL_MODEL_BEST) || !sl_folder_of(path, folder))
		return;
	if (!sl_past_run_is_open(folder) && (snprintf(model, sizeof model, "%s/" SL_MODEL_FILE, folder) >= PATH_MAX ||
					     sl_weights_steps(model) != INT64_MAX))
		return;
	sl_log(SL_LOG_WARN, "unfinished",
	       "%.300s is of a run that has not come to its end: a later evaluation may find better weights", path);
}

void sl_about_check_end(const char *path)
{
	json_t *about = sl_about_note(path);
	const json_t *end = json_object_get(about, SL_ABOUT_UNFINISHED);

	if (end)
		say_unfinished(end, path);
	if (json_is_true(json_object_get(about, SL_ABOUT_UNTRAINED)))
		sl_log(SL_LOG_WARN, "untrained",
		       "the run that wrote %.300s has trained no step of its own: its weights are those with which it "
		       "began, or of its group",
		       path);
	check_best(path);
	json_decref(about);
}
