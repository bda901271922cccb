/* What model files say of their data, for commands on trained weights (about.h). */
#include <stdlib.h>
#include <unistd.h>

#include "client/model/weights_file.h"
#include "client/setup/about.h"
#include "common/base/log.h"
#include "common/telemetry/json.h"

enum sl_err sl_about_of_model(struct sl_setup *s, const char *path, struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	struct sl_setup from = {.conf = c, .reads = SL_READS_ALL};
	json_t *about;
	bool known;
	enum sl_err err;

	sl_about_read(s, path);
	about = sl_about_parse(s);
	known = about;
	json_decref(about);
	if (!known && path)
		sl_about_warn_of_columns(c, path);
	if (known || (path && access(path, R_OK) != 0) || c->data.scale_label != SL_LABEL_SCALED ||
	    !sl_conf_learns_labels(c))
		return SL_OK;
	if (sl_conf_lacks_labels(c))
		return sl_conf_client_fail(
			c, "data.scale_label", fail,
			"%.300s does not say how numbers were scaled, and the labels are another member's",
			path ? path : c->log.dir);
	sl_log(SL_LOG_INFO, "scale-measured",
	       "%.300s does not say how numbers were scaled (data.scale_label): as the training data say now",
	       path ? path : c->log.dir);
	err = sl_setup_split(&from, SL_SPLIT_TRAIN, fail);
	if (!err)
		err = sl_setup_label_scale(&from, true, fail);
	about = err ? NULL : sl_about_describe(&from);
	free(s->about);
	s->about = about ? sl_json_dump(about, JSON_COMPACT) : NULL;
	json_decref(about);
	sl_setup_close(&from);
	return err;
}

/* Adds what the member with `features` says: of a network with one input, beside the labels. */
static bool join_note(json_t **about, json_t *own, bool several)
{
	json_object_del(own, "task"); /* the member with features need not know what is predicted */
	if (several)
		return json_array_append_new(json_object_get(*about, SL_ABOUT_ALSO), own) == 0;
	json_object_del(*about, SL_ABOUT_INPUTS);
	json_object_update_missing(own, *about);
	json_decref(*about);
	*about = own;
	return own != NULL;
}

enum sl_err sl_about_join(struct sl_setup *s, const char *labels, const char *const *features, int n,
			  struct sl_fail *fail)
{
	const bool several = s->plan->model->graph.n_in > 2; /* labels are one */
	json_t *about = sl_about_note(labels);
	bool said = about;

	if (several && about)
		json_object_set_new(about, SL_ABOUT_ALSO, json_array());
	for (int i = 0; i < n && said; i++)
		said = join_note(&about, sl_about_note(features[i]), several);
	free(s->about);
	s->about = said ? sl_json_dump(about, JSON_COMPACT) : NULL;
	json_decref(about);
	return s->about ? SL_OK
			: sl_fail_set(fail, SL_ERR_DATA, "%s or %s does not say what it learned from", features[0],
				      labels);
}

enum sl_err sl_about_same_run(const char *a, const char *b, struct sl_fail *fail)
{
	json_t *one = sl_about_note(a), *other = sl_about_note(b);
	const json_t *was = json_object_get(one, SL_ABOUT_RUN), *is = json_object_get(other, SL_ABOUT_RUN);
	enum sl_err err = SL_OK;

	if (sl_weights_steps(a) != sl_weights_steps(b) || (was && is && !json_equal(was, is)))
		err = sl_fail_set(fail, SL_ERR_MISMATCH,
				  "%.200s and %.200s are of several runs or steps: take both models of one run, after "
				  "the same step",
				  a, b);
	else if (!was || !is)
		sl_log(SL_LOG_WARN, "join-unsure",
		       "%.200s does not say of which run it is: take both models of one run, after the same step",
		       was ? b : a);
	json_decref(one);
	json_decref(other);
	return err;
}
