/* What a run learned from, and which network. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cmd/run_report_impl.h"
#include "common/telemetry/json.h"

/* The value of a key of the config, such as "\nhead_end: ", without quotes. "": unknown or empty. */
static const char *value_of(const struct sl_run_report *r, const char *key, char out[TEXT])
{
	const char *at = strstr(r->settings, key);

	at = at ? at + strlen(key) : "";
	at += *at == '"';
	snprintf(out, TEXT, "%.*s", (int)strcspn(at, "\"\n"), at);
	return out;
}

void sl_run_report_cut(const struct sl_run_report *r, json_t *s)
{
	char name[TEXT], file[TEXT], folder[TEXT], head[TEXT], tail[TEXT], numbers[TEXT];

	if (!r->settings[0])
		return;
	value_of(r, "\n  name: ", name);
	value_of(r, "\n  network: ", file);
	value_of(r, "\n  huggingface: ", folder);
	value_of(r, "\nhead_end: ", head);
	value_of(r, "\ntail_begin: ", tail);
	value_of(r, "\npartition: ", numbers);
	sl_report_fact(s, "Network", "\"%s\"", file[0] ? file : folder[0] ? folder : name);
	if (head[0] || tail[0])
		sl_report_fact(s, "Cut", "the head ends with %s, the tail begins with %s%s%s",
			       head[0] ? head : "partition's first number",
			       tail[0] ? tail : "partition's second number",
			       head[0] && tail[0] ? "" : "; partition: ", head[0] && tail[0] ? "" : numbers);
	else
		sl_report_fact(s, "Cut", "\"%s\"", numbers);
}

/* How many cases a part has; 0: unknown, or its samples are none of cases. */
static long long cases_of(const struct sl_run_report *r, const char *part)
{
	return json_integer_value(json_object_get(json_object_get(r->about, part), "cases"));
}

/* The numbers of a list; 0 where there is none. */
static void read_numbers(const json_t *list, double *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = json_number_value(json_array_get(list, i));
}

static void tell_volumes(const struct sl_run_report *r, json_t *s)
{
	const json_t *v = json_object_get(r->about, "volume"), *patch = json_object_get(v, "patch");
	char text[TEXT];
	double x[4];

	if (patch && cases_of(r, "train"))
		sl_report_fact(s, "Cases", "%lld to train on, %lld to evaluate on: the samples are patches of these",
			       cases_of(r, "train"), cases_of(r, "test"));
	read_numbers(patch ? patch : json_object_get(v, "size"), x, 3);
	sl_report_fact(s, patch ? "Patch" : "Size of a case", "%g × %g × %g voxels, axes %s", x[0], x[1], x[2],
		       sl_report_show(v, "axes", text));
	read_numbers(json_object_get(v, "spacing"), x, 3);
	if (x[0] > 0 && x[1] > 0 && x[2] > 0)
		sl_report_fact(s, "Spacing", "%g, %g, %g mm", x[0], x[1], x[2]);
	else
		sl_report_fact(s, "Spacing", "as the files have it");
	read_numbers(json_object_get(v, "by"), x, 4);
	if (strcmp(sl_report_show(v, "intensity", text), "ct") == 0)
		sl_report_fact(s, "Intensity", "ct: cut off at %g and %g, less %g, divided by %g", x[0], x[1], x[2],
			       x[3]);
	else
		sl_report_fact(s, "Intensity", "%s", text);
}

void sl_run_report_mean(const struct sl_run_report *r, json_t *s)
{
	char task[TEXT];

	if (json_object_get(json_object_get(r->about, "volume"), "patch"))
		sl_report_fact(s, "What the figures are of",
			       "all voxels of the %lld evaluated patches together, which lie side by side: none is a "
			       "mean over cases. splitc predict without FILE gives those",
			       (long long)r->samples[1]);
	else if (strcmp(sl_report_show(r->about, "task", task), "pixels") == 0)
		sl_report_fact(s, "What the figures are of",
			       "all pixels of the evaluated pictures together: none is a mean over pictures");
}

void sl_run_report_data(struct sl_run_report *r)
{
	static const char *const part[] = {"train", "test"};
	json_t *s = sl_run_report_section(r, "The data"), *classes = json_object_get(r->about, "classes");
	char samples[TEXT], *split;

	if (!r->about) {
		sl_run_report_unknown(r, "Data", "log.dir says nothing of them (about.json)");
		return;
	}
	sl_report_fact(s, "Kind", "%s", sl_json_string(r->about, "kind") ? sl_json_string(r->about, "kind") : "-");
	if (json_array_size(classes))
		sl_report_fact(s, "Classes", "%zu, from \"%.200s\" to \"%.200s\"", json_array_size(classes),
			       json_string_value(json_array_get(classes, 0)),
			       json_string_value(json_array_get(classes, json_array_size(classes) - 1)));
	sl_report_fact(s, "Samples", "%" JSON_INTEGER_FORMAT " to train on, %" JSON_INTEGER_FORMAT " to evaluate on",
		       r->samples[0], r->samples[1]);
	if (json_object_get(r->about, "volume"))
		tell_volumes(r, s);
	sl_report_line(s, "columns", 3, "part", "samples", "fingerprint");
	for (int i = 0; i < 2; i++) {
		const json_t *p = json_object_get(r->about, part[i]);

		if (p)
			sl_report_line(s, "rows", 3, part[i], sl_report_show(p, "samples", samples),
				       sl_json_string(p, "fingerprint"));
	}
	if (r->settings[0] && !sl_run_report_has(r, "\n  partition: \"files\"\n"))
		sl_report_fact(s, "Fingerprint of training",
			       "of all samples of the data set, of which this member has a part "
			       "(data.partition). So members can have the same one");
	if (!json_object_get(r->about, "train"))
		sl_run_report_unknown(r, "Fingerprints",
				      "the run recorded none of its samples, so other data can have the same number");
	split = json_dumps(json_object_get(r->about, "split"), JSON_COMPACT);
	sl_report_fact(s, "Divided by", "%s", split ? split : "no data.split");
	if (!split)
		sl_run_report_unknown(r, "Patients or groups",
				      "without data.split.by nothing says whether samples of one patient are "
				      "both in training and in the evaluation");
	free(split);
}
