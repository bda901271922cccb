#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/conf/conf.h"
#include "common/telemetry/json.h"
#include "server/command.h"

static const char *const usage[] = {
	"splits reports CONFIG GROUP [--json] [--set KEY=VALUE]…",
	"Prints what the members of a group have reported of their last evaluations (share.report), from the store of "
	"this config: a row for each member of the group's newest run, and one for all. There loss and accuracy are "
	"weighted by samples, which "
	"is "
	"what one evaluation of all samples would give. Other metrics are printed by member alone, since those of "
	"several members have no common mean.",
	NULL,
};

struct all {
	double samples, loss, lost, correct, judged; /* lost, judged: samples with a loss; with an accuracy */
};

/* Puts a report in the place of an earlier one of this member. Members that have not reported have nulls. */
static void put(json_t *last, size_t k, size_t members, json_t *report, json_t *time)
{
	while (json_array_size(last) <= k || json_array_size(last) < members)
		json_array_append_new(last, json_pack("{sIsnsnsnsns{}sn}", "member", (json_int_t)json_array_size(last),
						      "step", "samples", "loss", "correct", "scores", "time"));
	json_object_set_new(report, "member", json_integer((json_int_t)k));
	json_object_set(report, "time", time);
	json_array_set(last, k, report);
}

json_t *splits_reports_read(const struct sl_conf_server *conf, const char *group, char newest[SPLITS_RUN_TEXT],
			    struct sl_fail *fail)
{
	char path[PATH_MAX], *line = NULL;
	json_t *runs;
	size_t cap = 0;
	FILE *f;

	if (strchr(group, '/') || snprintf(path, sizeof path, "%s/%s.reports.jsonl", conf->store, group) >= PATH_MAX) {
		(void)sl_fail_set(fail, SL_ERR_USAGE, "reports: '%.40s' is no group's name", group);
		return NULL;
	}
	f = fopen(path, "r");
	if (!f) {
		(void)sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s", path, strerror(errno));
		return NULL;
	}
	runs = json_object();
	newest[0] = '\0';
	while (getline(&line, &cap, f) > 0) {
		json_t *one = json_loads(line, 0, NULL);
		const char *text = json_string_value(json_object_get(one, "report")),
			   *run = json_string_value(json_object_get(one, "run"));
		json_t *report = json_loads(text ? text : "", 0, NULL);
		const json_int_t k = json_integer_value(json_object_get(one, "member")),
				 n = json_integer_value(json_object_get(one, "members"));

		if (!report || !json_is_integer(json_object_get(one, "member")) || k < 0 ||
		    k >= SL_CONF_SHARE_CLIENTS || n < 0 || n > SL_CONF_SHARE_CLIENTS) {
			sl_log(SL_LOG_WARN, "report-unread", "%s: a line is no report: it is left out", path);
		} else {
			snprintf(newest, SPLITS_RUN_TEXT, "%s",
				 run ? run : ""); /* a line of an earlier version has none */
			if (!json_object_get(runs, newest))
				json_object_set_new(runs, newest, json_array());
			put(json_object_get(runs, newest), (size_t)k, (size_t)n, report, json_object_get(one, "time"));
		}
		json_decref(report);
		json_decref(one);
	}
	free(line);
	fclose(f);
	return runs;
}

static void add(struct all *all, const json_t *report)
{
	const double n = sl_json_number(report, "samples"), loss = sl_json_number(report, "loss"),
		     correct = sl_json_number(report, "correct");

	if (isnan(n))
		return;
	all->samples += n;
	all->lost += isnan(loss) ? 0 : n;
	all->loss += isnan(loss) ? 0 : n * loss;
	all->judged += isnan(correct) ? 0 : n;
	all->correct += isnan(correct) ? 0 : correct;
}

static void print_figure(double x, const char *unit)
{
	char text[40] = "-";

	if (!isnan(x))
		snprintf(text, sizeof text, "%.4g%s", x, unit);
	printf(" %-10s", text);
}

static void print_row(const json_t *report, const char *who, const char *step)
{
	const double n = sl_json_number(report, "samples");
	const char *name;
	json_t *value;

	printf("%-8s %-8s %-9.0f", who, step, n);
	print_figure(sl_json_number(report, "loss"), "");
	print_figure(100 * sl_json_number(report, "correct") / n, " %");
	json_object_foreach(json_object_get(report, "scores"), name,
			    value) if (json_is_number(value) && strcmp(name, "accuracy") != 0)
		printf(" %s %.4g", name, json_number_value(value));
	putchar('\n');
}

static void print_table(const json_t *members, const json_t *all, size_t earlier)
{
	const json_t *one;
	size_t k;

	printf("member   step     samples   loss       accuracy\n");
	json_array_foreach(members, k, one)
	{
		char who[24], step[24];

		snprintf(who, sizeof who, "%zu", k);
		snprintf(step, sizeof step, "%" JSON_INTEGER_FORMAT, json_integer_value(json_object_get(one, "step")));
		if (json_is_null(json_object_get(one, "step")))
			printf("%-8zu %-8s %-9s %-10s %-10s no report\n", k, "-", "-", "-", "-");
		else
			print_row(one, who, step);
	}
	print_row(all, "all", "-");
	if (earlier)
		printf("this is the newest run; the file has %zu earlier run%s of this group\n", earlier,
		       sl_plural((long long)earlier));
}

static json_t *sum_up(const json_t *members)
{
	struct all all = {0};

	for (size_t i = 0; i < json_array_size(members); i++)
		add(&all, json_array_get(members, i));
	return json_pack("{sfsoso}", "samples", all.samples, "loss", sl_json_real(all.loss / all.lost), "correct",
			 sl_json_real(all.judged > 0 ? all.correct / all.judged * all.samples : (double)NAN));
}

static enum sl_err show(const struct sl_conf_server *conf, const char *group, bool json, struct sl_fail *fail)
{
	char newest[SPLITS_RUN_TEXT];
	json_t *runs, *members, *all;
	size_t earlier;

	if (!conf->store[0])
		return sl_fail_set(fail, SL_ERR_CONFIG, "store: this config has none, so there are no reports");
	runs = splits_reports_read(conf, group, newest, fail);
	if (!runs)
		return fail->code;
	members = json_object_get(runs, newest);
	earlier = json_object_size(runs) - (members != NULL);
	all = sum_up(members);
	if (json)
		sl_json_print(json_pack("{sisssssIsosO}", "schema", 1, "group", group, "run", newest, "earlier_runs",
					(json_int_t)earlier, "members", members ? json_incref(members) : json_array(),
					"all", all),
			      0, stdout);
	else
		print_table(members, all, earlier);
	json_decref(runs);
	json_decref(all);
	return SL_OK;
}

int splits_reports(int argc, char **argv)
{
	struct sl_options o = {.command = "reports", .usage = usage, .keys = &sl_conf_server_schema};
	struct sl_conf_server conf;
	struct sl_fail fail;
	enum sl_err err;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_JSON | SL_OPT_SET, 2);

	if (status >= 0)
		return status;
	if (!o.operand)
		return sl_options_missing(&o, o.config ? "a GROUP" : "a CONFIG");
	err = sl_conf_load(&sl_conf_server_schema, &conf, o.config, o.set, o.n_set, &fail);
	if (!err)
		err = show(&conf, o.operand, o.json, &fail);
	return err ? sl_options_failed("splits", &fail) : 0;
}
