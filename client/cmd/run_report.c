#include "client/cmd/run_report.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cmd/command.h"
#include "client/cmd/run_report_words.h"
#include "client/persist/journal.h"
#include "client/persist/log_check.h"
#include "client/persist/model_file.h"
#include "client/persist/record.h"
#include "client/setup/about.h"
#include "common/telemetry/json.h"
#include "common/telemetry/report.h"

enum { TEXT = SL_REPORT_TEXT, TIME_TEXT = SL_REPORT_TIME, CONFIG_MOST = 1 << 20 };

struct report {
	const char *dir;
	json_t *sections, *unknown; /* unknown: the last section */
	json_t *summary, *about;    /* NULL: there is none */
	json_t *sessions;           /* the lines of sessions.jsonl */
	uint64_t steps, skipped, epochs, audits, audited,
		found; /* of log.jsonl; found: audits that found a difference */
	char last_found[SL_FAIL_TEXT];
	double epsilon;        /* of the last epoch with one; 0: none */
	json_int_t samples[2]; /* to train on; to evaluate on */
	int starts, ends, backs, lost;
};

/* ---- sections */

static json_t *section(struct report *r, const char *title)
{
	json_t *s = sl_report_section(title);

	json_array_append_new(r->sections, s);
	return s;
}

static void unknown(struct report *r, const char *what, const char *why)
{
	sl_report_fact(r->unknown, what, "%s", why);
}

/* ---- the files of log.dir */

static json_t *read_json(const char *dir, const char *name)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof path, "%s/%s", dir, name) < PATH_MAX
		       ? json_load_file(path, JSON_REJECT_DUPLICATES, NULL)
		       : NULL;
}

static void take_log(struct report *r, json_t *row)
{
	const char *type = sl_json_string(row, "type"), *found = sl_json_string(row, "found");

	if (strcmp(type, "step") == 0) {
		r->steps++;
		r->skipped += json_is_true(json_object_get(row, "skipped"));
	} else if (strcmp(type, "epoch") == 0) {
		r->epochs++;
		r->epsilon = fmax(r->epsilon, sl_json_number(row, "epsilon"));
	} else if (strcmp(type, "audit") == 0 && found) {
		r->audits++;
		r->audited += (uint64_t)json_integer_value(json_object_get(row, "steps"));
		if (strcmp(found, "as agreed") != 0) {
			r->found++;
			snprintf(r->last_found, sizeof r->last_found, "%s", found);
		}
	} else if (strcmp(type, "summary") == 0) {
		json_decref(r->summary);
		r->summary = json_incref(row);
	}
}

static void take_session(struct report *r, json_t *row)
{
	const char *type = sl_json_string(row, "type");

	if (strcmp(type, "start") == 0) {
		r->starts++;
		r->samples[0] = json_integer_value(json_object_get(row, "train_samples"));
		r->samples[1] = json_integer_value(json_object_get(row, "test_samples"));
	}
	r->ends += strcmp(type, "end") == 0;
	r->backs += strcmp(type, "back") == 0;
	r->lost += strcmp(type, "lost") == 0;
	json_array_append(r->sessions, row);
}

static enum sl_err read_lines(struct report *r, const char *name, void (*take)(struct report *, json_t *),
			      struct sl_fail *fail)
{
	char path[PATH_MAX], *text = NULL;
	FILE *f = snprintf(path, sizeof path, "%s/%s", r->dir, name) < PATH_MAX ? fopen(path, "re") : NULL;
	enum sl_err err = SL_OK;
	size_t room = 0;
	long n = 0;

	if (!f)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%.300s/%s: %s (give a run's log.dir)", r->dir, name,
				   strerror(errno));
	for (ssize_t len; !err && (len = getline(&text, &room, f)) > 0 && text[len - 1] == '\n';) {
		json_t *row = json_loadb(text, (size_t)len, JSON_REJECT_DUPLICATES, NULL);

		n++;
		if (sl_json_string(row, "type"))
			take(r, row);
		else
			err = sl_fail_set(fail, SL_ERR_DATA, "%s:%ld: not a line of a run's log (docs/OUTPUT.md)", path,
					  n);
		json_decref(row);
	}
	free(text);
	fclose(f);
	return err;
}

/* ---- what the sections say */

static void tell_processes(struct report *r)
{
	json_t *s = section(r, "Processes of the run");
	char from[TIME_TEXT], until[TIME_TEXT], step[TEXT];
	const json_t *start = NULL;

	sl_report_line(s, "columns", 5, "began", "ended", "how", "behind step", "program");
	for (size_t i = 0; i <= json_array_size(r->sessions); i++) {
		const json_t *row = json_array_get(r->sessions, i); /* NULL: behind the last line */
		const char *type = row ? sl_json_string(row, "type") : "start";
		const bool begins = strcmp(type, "start") == 0, ends = strcmp(type, "end") == 0;

		if (start && (begins || ends))
			sl_report_line(s, "rows", 5, sl_report_time(start, "time", from),
				       sl_report_time(ends ? row : NULL, "time", until),
				       ends  ? sl_json_string(row, "outcome")
				       : row ? "killed, or failed"
					     : "killed or failed, or it still runs",
				       sl_report_show(ends ? row : NULL, "step", step),
				       sl_json_string(start, "version"));
		start = begins ? row : ends ? NULL : start;
	}
	sl_report_fact(s, "Interruptions",
		       "%d process%s began, %d wrote an end; %d link%s lost; the run went back %d time%s", r->starts,
		       r->starts == 1 ? "" : "es", r->ends, r->lost, r->lost == 1 ? " was" : "s were", r->backs,
		       sl_plural(r->backs));
}

/* A remark of config.yaml, or one of the keys that say most, as a fact. `part`: the part of the config that l is in. */
static void tell_setting(json_t *s, const char *part, const char *l)
{
	static const struct {
		const char *part, *begin, *name;
	} of[] = {{"", "# command: ", "Command"},
		  {"", "# in: ", "In the folder"},
		  {"", "# on: ", "On"},
		  {"", "# with: ", "Program"},
		  {"model:", "  name: ", "Network"},
		  {"partition:", "partition: ", "Cut"},
		  {"train:", "  batch: ", "Batch"},
		  {"train:", "  seed: ", "Seed"},
		  {"train:", "  epochs: ", "Epochs to do"},
		  {"share:", "  group: ", "Group"},
		  {"share:", "  clients: ", "Members"},
		  {"share:", "  member: ", "This member"},
		  {"noise:", "  head_act: ", "Noise on head_act (noise.…)"},
		  {"noise:", "  mid_grad: ", "Noise on mid_grad (noise.…)"},
		  {"privacy:", "  clip: ", "Privacy: clip of head_act"},
		  {"privacy:", "  clip_grad: ", "Privacy: clip of gradients"},
		  {"privacy:", "  noise: ", "Privacy: noise, in these norms"}};

	for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
		if (strncmp(part, of[i].part, strlen(of[i].part)) == 0 &&
		    strncmp(l, of[i].begin, strlen(of[i].begin)) == 0)
			sl_report_fact(s, of[i].name, "%s", l + strlen(of[i].begin));
}

/* The record of the run: what says most in section s, and all keys as the text of `settings`. Keys of auth are paths
 * there. */
static void tell_config(struct report *r, json_t *s, json_t *settings)
{
	char path[PATH_MAX], *save = NULL, *keys = NULL;
	const char *part = "";
	uint8_t *text = NULL;
	struct sl_fail fail;
	size_t len;
	FILE *to = open_memstream(&keys, &len);

	if (!to || snprintf(path, sizeof path, "%s/" SL_RECORD_FILE, r->dir) >= PATH_MAX ||
	    sl_file_read(path, CONFIG_MOST, &text, &len, &fail) != SL_OK)
		unknown(r, "Settings", "log.dir has no record of the run (config.yaml)");
	for (char *l = text ? strtok_r((char *)text, "\n", &save) : NULL; l; l = strtok_r(NULL, "\n", &save)) {
		part = *l != ' ' && *l != '#' ? l : part;
		tell_setting(s, part, l);
		if (l[strspn(l, " ")] != '#')
			fprintf(to, "%s\n", l);
	}
	if (to && fclose(to) == 0 && *keys)
		json_object_set_new(settings, "text", sl_json_text(keys));
	free(keys);
	free(text);
}

static void tell_run(struct report *r, json_t *settings)
{
	json_t *s = section(r, "The run");
	char outcome[TEXT];

	sl_report_fact(s, "Outcome", "%s%s", r->summary ? sl_report_show(r->summary, "outcome", outcome) : "not ended",
		       json_is_true(json_object_get(json_object_get(r->summary, "privacy"), "spent"))
			       ? ", before its last epoch: privacy.budget was spent"
			       : "");
	sl_report_fact(s, "Steps of this host",
		       "%" PRIu64 " in the log, of which %" PRIu64 " were skipped; %" PRIu64 " epoch%s", r->steps,
		       r->skipped, r->epochs, sl_plural((long long)r->epochs));
	tell_config(r, s, settings);
}

static void tell_data(struct report *r)
{
	static const char *const part[] = {"train", "test"};
	json_t *s = section(r, "The data"), *classes = json_object_get(r->about, "classes");
	char samples[TEXT], *split;

	if (!r->about) {
		unknown(r, "Data", "log.dir says nothing of them (about.json)");
		return;
	}
	sl_report_fact(s, "Kind", "%s", sl_json_string(r->about, "kind") ? sl_json_string(r->about, "kind") : "-");
	if (json_array_size(classes))
		sl_report_fact(s, "Classes", "%zu, from \"%.200s\" to \"%.200s\"", json_array_size(classes),
			       json_string_value(json_array_get(classes, 0)),
			       json_string_value(json_array_get(classes, json_array_size(classes) - 1)));
	sl_report_fact(s, "Samples", "%" JSON_INTEGER_FORMAT " to train on, %" JSON_INTEGER_FORMAT " to evaluate on",
		       r->samples[0], r->samples[1]);
	sl_report_line(s, "columns", 3, "part", "samples", "fingerprint");
	for (int i = 0; i < 2; i++) {
		const json_t *p = json_object_get(r->about, part[i]);

		if (p)
			sl_report_line(s, "rows", 3, part[i], sl_report_show(p, "samples", samples),
				       sl_json_string(p, "fingerprint"));
	}
	if (!json_object_get(r->about, "train"))
		unknown(r, "Fingerprints",
			"the run recorded none of its samples, so other data can have the same number");
	split = json_dumps(json_object_get(r->about, "split"), JSON_COMPACT);
	sl_report_fact(s, "Divided by", "%s", split ? split : "no data.split");
	if (!split)
		unknown(r, "Patients or groups",
			"without data.split.by nothing says whether samples of one patient are "
			"both in training and in the evaluation");
	free(split);
}

/* Adds the bytes of each process that wrote its end. */
static json_t *add_up(const struct report *r)
{
	json_t *sum = json_object(), *row, *of;
	const char *name, *key;
	size_t i;

	json_array_foreach(r->sessions, i, row) json_object_foreach(json_object_get(row, "direction"), name, of)
	{
		json_t *all = json_object_get(sum, name), *x;

		if (!all)
			json_object_set_new(sum, name, all = json_object());
		json_object_foreach(of, key, x) if (json_is_integer(x)) json_object_set_new(
			all, key, json_integer(json_integer_value(x) + json_integer_value(json_object_get(all, key))));
		else json_object_set(all, key, x);
	}
	return sum;
}

/* So that the parts add up to all bytes of the links. */
static void tell_bytes(struct report *r, json_t *s)
{
	static const char *const part[][2] = {{"wire", "All bytes of the run's links"},
					      {"weights", "Of these weights of the server's layers"},
					      {"framing", "Of these framing and heartbeats of ZeroMQ"},
					      {"curve", "Of these encryption"}};
	char key[32], a[TEXT], b[TEXT];

	for (size_t i = 0; i < sizeof part / sizeof part[0] && r->summary; i++) {
		snprintf(key, sizeof key, "%s_tx_bytes", part[i][0]);
		sl_report_show(r->summary, key, a);
		snprintf(key, sizeof key, "%s_rx_bytes", part[i][0]);
		sl_report_fact(s, part[i][1], "%s sent, %s received", a, sl_report_show(r->summary, key, b));
	}
}

static void tell_crossed(struct report *r)
{
	json_t *s = section(r, "What crossed"), *sum = add_up(r), *of;
	char a[TEXT], b[TEXT], c[TEXT];

	sl_report_fact(
		s, "Data and labels",
		"stay on this host. What is sent: the tensors below, which tell of both, the network's form, and with "
		"share.report figures of evaluations");
	sl_report_line(s, "columns", 7, "tensor", "what it is", "direction", "codec", "bytes with headers", "payload",
		       "as fp32");
	for (int i = 0; sl_report_tensors[i].name; i++) {
		of = json_object_get(sum, sl_report_tensors[i].name);
		if (of)
			sl_report_line(s, "rows", 7, sl_report_tensors[i].name, sl_report_tensors[i].means,
				       sl_report_tensors[i].sent ? "to the server" : "from the server",
				       sl_json_string(of, "codec"), sl_report_show(of, "wire_bytes", a),
				       sl_report_show(of, "payload_bytes", b), sl_report_show(of, "raw_bytes", c));
	}
	json_decref(sum);
	tell_bytes(r, s);
	sl_report_fact(s, "How often",
		       "the log has the end of %" PRIu64
		       " epoch%s. In an epoch each training row crosses once with data.sampling: "
		       "shuffled; in a group that may be less, where others went on. An evaluated row crosses in each "
		       "evaluation. Samples trained and evaluated in the whole run: %s",
		       r->epochs, sl_plural((long long)r->epochs), sl_report_show(r->summary, "samples", a));
	if (r->starts > r->ends)
		unknown(r, "Bytes by tensor of killed processes",
			"the table counts processes that wrote their end; the bytes of all links count the others, "
			"too");
	if (r->backs)
		unknown(r, "Repeated steps",
			"steps between a checkpoint and a kill are not in this log. A client alone repeats them with "
			"the same values; in a group the others may have gone on, and then the server counts these "
			"steps");
}

static void tell_who(struct report *r)
{
	json_t *s = section(r, "Who"), *members, *m;
	char from[TIME_TEXT], until[TIME_TEXT], steps[TEXT], rows[TEXT], name[32];
	const json_t *link = NULL;
	size_t i;

	sl_report_line(s, "columns", 5, "from", "until", "server", "its key", "this client's key");
	for (i = 0; i <= json_array_size(r->sessions); i++) {
		const json_t *row = json_array_get(r->sessions, i); /* NULL: behind the last line */
		const char *type = row ? sl_json_string(row, "type") : "start";
		const bool is = strcmp(type, "link") == 0, killed = strcmp(type, "start") == 0,
			   ends = is || killed || strcmp(type, "lost") == 0 || strcmp(type, "end") == 0;

		if (link && ends)
			sl_report_line(s, "rows", 5, sl_report_time(link, "time", from),
				       sl_report_time(killed ? NULL : row, "time", until),
				       sl_json_string(link, "server"), sl_json_string(link, "server_key"),
				       sl_json_string(link, "key"));
		link = is ? row : ends ? NULL : link;
	}
	if (!json_array_size(json_object_get(s, "rows")))
		sl_report_fact(s, "Links", "none: all was computed in this process");
	members = json_object_get(json_object_get(r->summary, "group"), "members");
	json_array_foreach(members, i, m)
	{
		snprintf(name, sizeof name, "Member %zu", i);
		sl_report_fact(s, name, "took part in %s steps, with %s %% of all rows, as the server says",
			       sl_report_show(m, "steps", steps), sl_report_show(m, "rows", rows));
	}
	if (json_array_size(members))
		unknown(r, "Keys and addresses of other members", "the server alone knows them");
	unknown(r, "Who else read what the server received", "nothing on this host can show that");
}

static void tell_audits(struct report *r)
{
	json_t *s = section(r, "Audits of the server"), *word = json_object_get(r->summary, "servers_word"), *one;
	char a[TEXT], b[TEXT], all[TEXT] = "";
	size_t i;

	if (r->summary)
		sl_report_fact(s, "Begun and ended", "%s and %s in the run",
			       sl_report_show(r->summary, "audits_begun", a),
			       sl_report_show(r->summary, "audits_ended", b));
	sl_report_fact(s, "In the log",
		       "%" PRIu64 " audits, in which this host computed %" PRIu64 " steps, too; %" PRIu64
		       " found a difference%s%s",
		       r->audits, r->audited, r->found, r->found ? ": " : "", r->last_found);
	json_array_foreach(word, i, one) snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? "; " : "",
						  sl_report_word(json_string_value(one)));
	if (*all)
		sl_report_fact(s, "The server's word, which nothing here checked", "%s", all);
	if (r->steps > r->audited)
		unknown(r, "Steps without an audit", "that the server computed these as agreed is its word");
}

/* Adds a row for each figure in `of`, which is one, or an object of such. */
static int tell_figures(json_t *s, const json_t *of, const char *name, int depth)
{
	char value[TEXT], chance[TEXT], worst[TEXT], by[TEXT], below[160], *classes;
	const char *key;
	json_t *x;
	int n = 0;

	if (json_object_get(of, "value")) {
		classes = json_dumps(json_object_get(of, "classes"), JSON_COMPACT | JSON_REAL_PRECISION(3));
		snprintf(by, sizeof by, "%s (class %s)", sl_report_show(of, "worst", worst),
			 sl_report_show(of, "worst_class", chance));
		sl_report_line(s, "rows", 5, name, sl_report_show(of, "value", value),
			       sl_report_show(of, "chance", chance), json_object_get(of, "worst") ? by : NULL, classes);
		free(classes);
		return 1;
	}
	json_object_foreach((json_t *)(uintptr_t)of, key, x) if (json_is_object(x) && depth < 4)
	{
		snprintf(below, sizeof below, "%.100s%s%.50s", name, *name ? " " : "", key);
		n += tell_figures(s, x, below, depth + 1);
	}
	return n;
}

static void tell_leaks(struct report *r)
{
	json_t *leak = read_json(r->dir, "leak/leak.json"), *s = section(r, "What the server could learn"), *x;
	const char *of;

	if (!leak) {
		sl_report_fact(s, "Measured", "no: splitc leak CONFIG --out %.300s/leak would be part of this report",
			       r->dir);
		unknown(r, "Leaks", "what the server could learn from what crossed was not measured");
		return;
	}
	json_object_foreach(json_object_get(leak, "in_short"), of, x)
		sl_report_fact(s, of, "%s", json_string_value(x) ? json_string_value(x) : "-");
	sl_report_line(s, "columns", 5, "figure", "value", "chance", "worst class", "each class");
	(void)tell_figures(s, leak, "", 0);
	json_decref(leak);
	unknown(r, "Better attacks", "a bad reconstruction proves only that this attack failed");
}

static void tell_privacy(struct report *r)
{
	const json_t *p = json_object_get(r->summary, "privacy");
	char a[TEXT], b[TEXT], c[TEXT];
	json_t *s;

	if (!json_is_object(p) && !(r->epsilon > 0)) {
		unknown(r, "Privacy as a number", "the log has no epsilon: privacy.… was off, or no epoch has ended");
		return;
	}
	s = section(r, "Privacy as a number");
	if (!json_is_object(p)) {
		sl_report_fact(s, "A training sample", "epsilon %.4g at the end of the last epoch in the log",
			       r->epsilon);
		unknown(r, "Epsilon of the epoch under way",
			"the run has not ended: samples of one more epoch may have crossed");
		return;
	}
	sl_report_fact(s, "A training sample", "epsilon %s at delta %s, by %s releases",
		       sl_report_show(p, "epsilon", a), sl_report_show(p, "delta", b),
		       sl_report_show(p, "releases", c));
	sl_report_fact(s, "An evaluated sample", "epsilon %s, by %s releases",
		       sl_report_show(p, "evaluated_epsilon", a), sl_report_show(p, "evaluated_releases", c));
	sl_report_fact(s, "Budget", "%s%s", sl_report_show(p, "budget", a),
		       json_is_true(json_object_get(p, "spent")) ? "; it has ended the run" : "");
	unknown(r, "What epsilon leaves out",
		"earlier runs on the same samples; several rows of one patient; what head, tail and model learned from "
		"a sample, unless both were frozen");
}

static void tell_interval(json_t *s, const json_t *intervals, const char *key, const char *name)
{
	const json_t *x = json_object_get(intervals, key);

	if (json_array_size(x) == 2)
		sl_report_fact(s, name, "95 %% interval %.4g to %.4g", json_number_value(json_array_get(x, 0)),
			       json_number_value(json_array_get(x, 1)));
}

static void tell_model(struct report *r)
{
	json_t *s = section(r, "The model"), *x;
	char path[PATH_MAX], hash[SL_CHAIN_TEXT], a[TEXT], b[TEXT], c[TEXT];
	const json_t *intervals = json_object_get(r->summary, "test_intervals");
	struct sl_fail fail;
	const char *name;

	if (snprintf(path, sizeof path, "%s/" SL_MODEL_FILE, r->dir) < PATH_MAX && !sl_chain_file(hash, path, &fail))
		sl_report_fact(s, SL_MODEL_FILE, "BLAKE2b, 16 bytes: %s", hash);
	else
		unknown(r, "The model", "log.dir has no " SL_MODEL_FILE);
	if (!r->summary) {
		unknown(r, "Figures", "the run has not ended, so there is no summary");
		return;
	}
	sl_report_fact(s, "Evaluated", "on the part \"%s\": loss %s, accuracy %s",
		       sl_report_show(r->summary, "evaluated_part", a), sl_report_show(r->summary, "test_loss", b),
		       sl_report_show(r->summary, "test_acc", c));
	tell_interval(s, intervals, "acc", "accuracy");
	tell_interval(s, intervals, "auc", "auc");
	json_object_foreach(json_object_get(r->summary, "test_metrics"), name, x)
	{
		snprintf(a, sizeof a, "%.6g", json_number_value(x));
		sl_report_fact(s, name, "%s", json_is_number(x) ? a : "undefined");
	}
	x = json_object_get(r->summary, "test_baseline");
	if (json_object_get(x, "acc"))
		sl_report_fact(s, "To compare", "always \"%s\" has accuracy %s", sl_report_show(x, "class", a),
			       sl_report_show(x, "acc", b));
	if (!intervals || json_is_null(intervals))
		unknown(r, "Intervals", "there is none for these figures");
	unknown(r, "Other data", "the figures are of the evaluated part; data of another site or time can differ");
}

static void tell_logs(struct report *r)
{
	json_t *s = section(r, "The logs");
	struct sl_log_check found;
	struct sl_fail fail;

	if (sl_log_check(&found, r->dir, &fail) != SL_OK) {
		sl_report_fact(s, "Checked", "THEY DO NOT FIT: %s", fail.text);
		return;
	}
	sl_report_fact(s, "Checked", "log.jsonl %ld lines, " SL_SESSIONS_FILE " %ld; each fits the one before",
		       found.lines, found.sessions);
	sl_report_fact(s, "Log head", "%s (it covers both, and the models)", found.head);
	if (found.covered < found.lines)
		sl_report_fact(r->unknown, "The log's end", "behind line %ld nothing else holds a hash of the log",
			       found.covered);
	unknown(r, "Whether somebody made all files anew",
		"the hashes have no key. Compare the log head with the one that was handed on when the run ended");
}

enum sl_err sl_run_report_make(json_t **out, const char *dir, struct sl_fail *fail)
{
	struct report r = {.dir = dir,
			   .sections = json_array(),
			   .sessions = json_array(),
			   .unknown = sl_report_section("What is not known")};
	json_t *settings = sl_report_section("Settings");
	enum sl_err err = read_lines(&r, "log.jsonl", take_log, fail);

	if (!err && read_lines(&r, SL_SESSIONS_FILE, take_session, fail) == SL_ERR_DATA)
		err = SL_ERR_DATA;
	if (!err) {
		r.about = read_json(dir, SL_ABOUT_FILE);
		tell_run(&r, settings);
		tell_processes(&r);
		tell_data(&r);
		tell_crossed(&r);
		tell_who(&r);
		tell_audits(&r);
		tell_leaks(&r);
		tell_privacy(&r);
		tell_model(&r);
		tell_logs(&r);
		if (!r.starts)
			unknown(&r, "Times and links",
				"log.dir has no " SL_SESSIONS_FILE ": an earlier version of Split wrote it");
		json_array_append(r.sections, r.unknown);
		json_array_append(r.sections, settings);
		*out = json_pack("{s:i, s:o, s:O, s:O?, s:O}", "schema", 1, "run", sl_json_text(dir), "sections",
				 r.sections, "summary", r.summary, "sessions", r.sessions);
	}
	json_decref(r.unknown);
	json_decref(settings);
	json_decref(r.sections);
	json_decref(r.sessions);
	json_decref(r.summary);
	json_decref(r.about);
	return err;
}
