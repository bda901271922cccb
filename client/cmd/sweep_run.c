#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/cmd/child.h"
#include "client/cmd/sweep.h"
#include "common/base/folder.h"
#include "common/telemetry/json.h"

static double positive(double x)
{
	return x > 0 ? x : (double)NAN;
}

static void read_directions(struct sl_sweep_result *r, const json_t *list)
{
	double raw = 0, nominal = 0, wire = 0;

	for (size_t i = 0; i < json_array_size(list) && i < 4; i++) {
		const json_t *d = json_array_get(list, i);
		const char *codec = json_string_value(json_object_get(d, "codec"));

		raw += sl_json_number(d, "raw_bytes");
		nominal += sl_json_number(d, "nominal_bytes");
		wire += sl_json_number(d, "wire_bytes");
		snprintf(r->codec[i], sizeof r->codec[i], "%s", codec ? codec : "");
	}
	r->rate_nominal = raw > 0 ? nominal / raw : (double)NAN;
	r->rate_real = raw > 0 ? wire / raw : (double)NAN;
}

static void read_scores(struct sl_sweep_result *r, json_t *metrics)
{
	const char *name;
	json_t *value;
	int n = 0;

	json_object_foreach(metrics, name, value)
	{
		if (n == SL_SCORES_MOST)
			return;
		snprintf(r->score[n].name, sizeof r->score[n].name, "%s", name);
		r->score[n++].value = json_is_number(value) ? json_number_value(value) : (double)NAN;
	}
}

#define READ(name)    r->name = sl_json_number(root, #name);
#define UNKNOWN(name) .name = (double)NAN,

static void read_summary(struct sl_sweep_result *r, const json_t *root)
{
	SL_SWEEP_FIGURES(READ)
	/* a local run has no link */
	r->peak_client_mb_s = positive(r->peak_client_mb_s);
	r->peak_server_mb_s = positive(r->peak_server_mb_s);
	if (isnan(r->peak_client_mb_s))
		r->avg_mb_s = (double)NAN;
	snprintf(r->part, sizeof r->part, "%s", json_string_value(json_object_get(root, "evaluated_part")) ?: "");
	r->wire_tx_bytes = sl_json_number(root, "wire_tx_bytes");
	r->wire_rx_bytes = sl_json_number(root, "wire_rx_bytes");
	read_scores(r, json_object_get(root, "test_metrics"));
	read_directions(r, json_object_get(root, "directions"));
}

static void add_settings(struct sl_child *c, const struct sl_conf_sweep_row *row, bool keeps, const char *dir)
{
	static const char *const codec[] = {"codec.head_act", "codec.mid_act", "codec.mid_grad", "codec.head_grad"};
	char chunks[16];

	for (int i = 0; i < row->set.n; i++)
		sl_child_setting(c, row->set.item[i]);
	for (int i = 0; i < 4; i++)
		if (row->codec[i][0])
			sl_child_set(c, codec[i], row->codec[i]);
	if (row->insert.head[0])
		sl_child_set(c, "insert.head", row->insert.head);
	if (row->insert.tail[0])
		sl_child_set(c, "insert.tail", row->insert.tail);
	if (row->chunks) {
		snprintf(chunks, sizeof chunks, "%d", row->chunks);
		sl_child_set(c, "train.chunks", chunks);
	}
	/* a row is never resumed: checkpoints are of use only while it waits for a lost server, and between phases */
	if (!keeps)
		sl_child_set(c, "train.checkpoint_every", "0");
	sl_child_set(c, "log.dir", dir);
}

static enum sl_err run(struct sl_sweep_result *r, const struct sl_options *o, const struct sl_conf_sweep_row *row,
		       const char *dir, struct sl_fail *fail)
{
	char log[SL_CHILD_TEXT];
	struct sl_child child;
	json_t *summary;
	const char *outcome;
	enum sl_err err;

	err = sl_folder_check(dir, fail);
	if (!err)
		err = sl_folder_make(dir, 0700, fail);
	if (err)
		return err;
	snprintf(log, sizeof log, "%s/stderr.log", dir);
	sl_child_open(&child, o);
	add_settings(&child, row, r->keeps, dir);
	err = sl_child_run(&child, log, &summary, fail);
	if (err)
		return err;
	read_summary(r, summary);
	outcome = json_string_value(json_object_get(summary, "outcome"));
	if (!outcome || strcmp(outcome, "finished") != 0)
		err = sl_fail_set(fail, SL_ERR_UNAVAILABLE, "%.100s", outcome ? outcome : "no outcome");
	json_decref(summary);
	return err;
}

static enum sl_err blame_row(const struct sl_options *o, const struct sl_conf_sweep_row *row, const struct sl_fail *why,
			     struct sl_fail *fail)
{
	return sl_fail_set(fail, why->code, "%s, row \"%s\": %.*s", o->codecs ? o->codecs : o->config, row->name,
			   SL_FAIL_TEXT / 2, why->text);
}

/* Whether a setting's key is that of `other`, or a section of it (codec of codec.mid_act). */
static bool covers(const char *setting, const char *other)
{
	const size_t n = strcspn(setting, "=");

	return strncmp(setting, other, n) == 0 && (other[n] == '=' || other[n] == '.');
}

/* Refuses keys of a row's `set` that another setting of the row, or the sweep itself, would overwrite. */
static enum sl_err check_keys(const struct sl_options *o, const struct sl_conf_sweep_row *row, bool keeps,
			      struct sl_fail *fail)
{
	struct sl_child all;
	int first;

	sl_child_open(&all, o);
	first = all.n_arg + 1; /* behind --set */
	add_settings(&all, row, keeps, "");
	for (int i = 0; i < row->set.n; i++) {
		const char *own = row->set.item[i];

		if (covers("data.split.folds=", own))
			return sl_fail_set(fail, SL_ERR_CONFIG,
					   "data.split.folds belongs to the config or --set: the sweep then trains "
					   "each row once for each fold");
		for (int k = i + 1; first + 2 * k < all.n_arg; k++)
			if (covers(all.arg[first + 2 * k], own) ||
			    (k >= row->set.n && covers(own, all.arg[first + 2 * k])))
				return sl_fail_set(fail, SL_ERR_CONFIG,
						   "%.*s is also set by the sweep or by another key of the row: leave "
						   "it out of `set`",
						   (int)strcspn(own, "="), own);
	}
	return SL_OK;
}

enum sl_err sl_sweep_begin(struct sl_sweep_result *r, const struct sl_options *o, const struct sl_conf_sweep_row *row,
			   struct sl_fail *fail)
{
	const char *set[SL_MAX_SETS + SL_CONF_LIST_MAX];
	struct sl_conf_client conf;
	struct sl_fail why;
	bool keeps;
	int n = 0;

	for (int i = 0; i < o->n_set; i++)
		set[n++] = o->set[i];
	for (int i = 0; i < row->set.n; i++)
		set[n++] = row->set.item[i];
	if (sl_conf_client_load(&conf, o->config, set, n, &why) != SL_OK)
		return blame_row(o, row, &why, fail);
	keeps = conf.link.on_server_lost == SL_LOST_WAIT || conf.train.phases.n;
	if (check_keys(o, row, keeps, &why) != SL_OK)
		return blame_row(o, row, &why, fail);
	*r = (struct sl_sweep_result){.keeps = keeps,
				      .chunks = row->chunks ? row->chunks : conf.agreed.chunks,
				      .wire_tx_bytes = (double)NAN,
				      .wire_rx_bytes = (double)NAN,
				      SL_SWEEP_FIGURES(UNKNOWN)};
	for (int i = 0; i < 4; i++)
		snprintf(r->codec[i], sizeof r->codec[i], "%s",
			 row->codec[i][0] ? row->codec[i] : conf.agreed.codec[i]);
	return SL_OK;
}

enum sl_err sl_sweep_check(const struct sl_options *o, const struct sl_conf_sweep_row *row, struct sl_fail *fail)
{
	const char *set[SL_CHILD_ARGS];
	struct sl_setup setup = {0};
	struct sl_conf_client conf;
	struct sl_child child;
	struct sl_fail why;
	enum sl_err err;
	int n = 0;

	sl_child_open(&child, o);
	add_settings(&child, row, true, "");
	for (int i = 0; i + 1 < child.n_arg; i++)
		if (strcmp(child.arg[i], "--set") == 0)
			set[n++] = child.arg[++i];
	err = child.overflow ? sl_fail_set(&why, SL_ERR_LIMIT, "too many or too long settings")
			     : sl_conf_client_load(&conf, o->config, set, n, &why);
	if (!err)
		err = sl_setup_sizes(&conf, &why);
	if (!err)
		err = sl_setup_plan(&setup, &conf, &why);
	sl_setup_close(&setup);
	return err ? blame_row(o, row, &why, fail) : SL_OK;
}

void sl_sweep_run(struct sl_sweep_result *r, const struct sl_options *o, const struct sl_conf_sweep_row *row, int n,
		  const char *out_dir)
{
	char dir[SL_CHILD_TEXT - 32];
	struct sl_fail fail;

	if (snprintf(dir, sizeof dir, "%s/row-%02d", out_dir, n) >= (int)sizeof dir)
		snprintf(r->error, sizeof r->error, "the path of --out is too long");
	else if (run(r, o, row, dir, &fail) != SL_OK)
		snprintf(r->error, sizeof r->error, "%.*s", (int)sizeof r->error - 1, fail.text);
	else
		r->done = true;
}
