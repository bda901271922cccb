#include "client/cmd/run_report.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cmd/command.h"
#include "client/cmd/run_report_impl.h"
#include "client/persist/journal.h"
#include "client/persist/log_check.h"
#include "client/persist/model_file.h"
#include "client/persist/record.h"
#include "client/setup/about.h"
#include "common/telemetry/json.h"
#include "common/telemetry/report.h"

enum { CONFIG_MOST = 1 << 20 };

json_t *sl_run_report_section(struct sl_run_report *r, const char *title)
{
	json_t *s = sl_report_section(title);

	json_array_append_new(r->sections, s);
	return s;
}

void sl_run_report_unknown(struct sl_run_report *r, const char *what, const char *why)
{
	sl_report_fact(r->unknown, what, "%s", why);
}

bool sl_run_report_has(const struct sl_run_report *r, const char *lines)
{
	return strstr(r->settings, lines) != NULL;
}

json_t *sl_run_report_json(const char *dir, const char *name)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof path, "%s/%s", dir, name) < PATH_MAX
		       ? json_load_file(path, JSON_REJECT_DUPLICATES, NULL)
		       : NULL;
}

/* ---- the files of log.dir */

static uint64_t number_of(const json_t *row, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(row, key));
}

/* Adds n steps from `first` on to the text of audited ones. */
static void add_range(struct sl_run_report *r, uint64_t first, uint64_t n)
{
	const size_t len = strlen(r->audited_steps), room = sizeof r->audited_steps - len;

	char last[32] = "";

	if (n > 1)
		snprintf(last, sizeof last, "-%" PRIu64, first + n - 1);
	if (n && room > 64)
		snprintf(r->audited_steps + len, room, "%s%" PRIu64 "%s", len ? ", " : "", first, last);
	else if (n && r->audited_steps[len - 1] != 's')
		snprintf(r->audited_steps + len, room, " and others");
}

/* Counts the epochs that the log has steps of, once their length is known. */
static void take_epochs(struct sl_run_report *r, json_t *row)
{
	if (strcmp(sl_json_string(row, "type"), "step") != 0 || !r->per_epoch || !number_of(row, "step"))
		return;
	if (!r->some || r->epoch.number != (number_of(row, "step") - 1) / r->per_epoch) {
		r->epoch.number = (number_of(row, "step") - 1) / r->per_epoch;
		r->epoch.steps = 0;
		r->some++;
	}
	r->full += ++r->epoch.steps == r->per_epoch;
}

static void take_log(struct sl_run_report *r, json_t *row)
{
	const char *type = sl_json_string(row, "type"), *found = sl_json_string(row, "found");

	if (strcmp(type, "step") == 0) {
		r->steps++;
		r->skipped += json_is_true(json_object_get(row, "skipped"));
	} else if (strcmp(type, "epoch") == 0) {
		r->epochs++;
		r->evaluations += json_is_number(json_object_get(row, "test_loss"));
		r->per_epoch = number_of(row, "steps") / (number_of(row, "epoch") ? number_of(row, "epoch") : 1);
		r->epsilon = fmax(r->epsilon, sl_json_number(row, "epsilon"));
	} else if (strcmp(type, "audit") == 0 && found) {
		r->audits++;
		r->audited += number_of(row, "steps");
		add_range(r, number_of(row, "step"), number_of(row, "steps"));
		if (strcmp(found, "as agreed") != 0) {
			r->found++;
			snprintf(r->last_found, sizeof r->last_found, "%s", found);
		}
	} else if (strcmp(type, "summary") == 0) {
		json_decref(r->summary);
		r->summary = json_incref(row);
	}
}

static void take_session(struct sl_run_report *r, json_t *row)
{
	const char *type = sl_json_string(row, "type");

	if (strcmp(type, "start") == 0) {
		r->starts++;
		r->local |= strcmp(sl_json_string(row, "mode"), "local") == 0;
		r->samples[0] = json_integer_value(json_object_get(row, "train_samples"));
		r->samples[1] = json_integer_value(json_object_get(row, "test_samples"));
	}
	r->ends += strcmp(type, "end") == 0;
	if (strcmp(type, "back") == 0) {
		r->backs++;
		r->back = number_of(row, "step");
	}
	r->lost += strcmp(type, "lost") == 0;
	json_array_append(r->sessions, row);
}

static enum sl_err read_lines(struct sl_run_report *r, const char *name, void (*take)(struct sl_run_report *, json_t *),
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

static void tell_processes(struct sl_run_report *r)
{
	json_t *s = sl_run_report_section(r, "Processes of the run");
	char from[TIME_TEXT], until[TIME_TEXT + 16], step[TEXT];
	const json_t *start = NULL, *seen = NULL;

	sl_report_line(s, "columns", 5, "began", "ended", "how", "behind step", "program");
	for (size_t i = 0; i <= json_array_size(r->sessions); i++) {
		const json_t *row = json_array_get(r->sessions, i); /* NULL: behind the last line */
		const char *type = row ? sl_json_string(row, "type") : "start";
		const bool begins = strcmp(type, "start") == 0, ends = strcmp(type, "end") == 0;

		snprintf(until, sizeof until, "%s%s", ends ? "" : "last seen ",
			 sl_report_time(ends ? row : seen, "time", from));
		if (start && (begins || ends))
			sl_report_line(s, "rows", 5, sl_report_time(start, "time", from), until,
				       ends  ? sl_json_string(row, "outcome")
				       : row ? "killed, or failed"
					     : "killed or failed, or it still runs",
				       sl_report_show(ends ? row : NULL, "step", step),
				       sl_json_string(start, "version"));
		start = begins ? row : ends ? NULL : start;
		seen = row;
	}
	sl_report_fact(s, "Interruptions",
		       "%d process%s began, %d wrote an end; %d link%s lost while a process went on; the run went back "
		       "%d time%s",
		       r->starts, r->starts == 1 ? "" : "es", r->ends, r->lost, r->lost == 1 ? " was" : "s were",
		       r->backs, sl_plural(r->backs));
}

/* What the group's record says of who was away: MEMBER:STEP, MEMBER:FROM-TO and MEMBER:FROM-TO@STEP. */
static void tell_absent(struct sl_run_report *r, json_t *s, const char *absent)
{
	uint64_t member, from, to, own;
	char name[48];

	for (const char *at = absent; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : "") {
		const int n = sscanf(at, "%" SCNu64 ":%" SCNu64 "-%" SCNu64 "@%" SCNu64, &member, &from, &to, &own);

		if (n < 2)
			continue;
		snprintf(name, sizeof name, "Member %" PRIu64, member);
		if (n < 3 || to < from)
			sl_report_fact(s, name, "%s step %" PRIu64, n < 3 ? "was late in" : "came back before", from);
		else if (n == 3)
			sl_report_fact(s, name, "missed steps %" PRIu64 " to %" PRIu64, from, to);
		else
			sl_report_fact(s, name,
				       "missed steps %" PRIu64 " to %" PRIu64
				       ", and went on with its head and tail of step %" PRIu64,
				       from, to, own);
	}
	if (absent && *absent)
		sl_report_fact(
			s, "To check the state",
			"splitc train CONFIG --local --clients %zu --absent %.600s repeats the run in one process with "
			"all members' data, if their configs are equal; then the weights are equal, too",
			json_array_size(json_object_get(json_object_get(r->summary, "group"), "members")), absent);
}

/* Each break in the order of time; nothing if there was none. */
static void tell_breaks(struct sl_run_report *r)
{
	const char *absent = sl_json_string(json_object_get(r->summary, "group"), "absent"), *before = "", *what;
	json_t *s = sl_report_section("What was interrupted"), *row, *warning;
	char at[TIME_TEXT], step[TEXT];
	size_t i;

	sl_report_line(s, "columns", 3, "when", "what happened", "behind step");
	json_array_foreach(r->sessions, i, row)
	{
		const char *type = sl_json_string(row, "type");
		const bool begins = strcmp(type, "start") == 0;

		if (i && begins && strcmp(before, "end") != 0)
			sl_report_line(s, "rows", 3, sl_report_time(json_array_get(r->sessions, i - 1), "time", at),
				       "the last sign of the process: it was killed, or failed", NULL);
		what = begins && i                   ? "a process began"
		       : strcmp(type, "back") == 0   ? "it went on from a checkpoint of this step"
		       : strcmp(type, "lost") == 0   ? "a link was lost"
		       : strcmp(before, "lost") == 0 ? "the link was up again"
						     : NULL;
		if (what)
			sl_report_line(s, "rows", 3, sl_report_time(row, "time", at), what,
				       sl_report_show(row, "step", step));
		before = type;
	}
	tell_absent(r, s, absent);
	if (r->uncounted)
		sl_report_fact(s, "Lost with a killed process",
			       "%" PRIu64
			       " steps of this host behind its checkpoint. The server's layers have their effect, this "
			       "host's own do not, unless the group shares them; they were not repeated",
			       r->uncounted);
	json_array_foreach(json_object_get(r->summary, "warnings"), i, warning)
	{
		snprintf(step, sizeof step, "Warning %.60s", sl_json_string(warning, "id"));
		sl_report_fact(s, step, "%s", sl_json_string(warning, "text"));
	}
	if (json_array_size(json_object_get(s, "rows")) || json_array_size(json_object_get(s, "facts")))
		json_array_append(r->sections, s);
	json_decref(s);
}

/* A remark of config.yaml, or one of the keys that say most, as a fact. `part`: the part of the config that l is in. */
static void tell_setting(json_t *s, const char *part, const char *l)
{
	static const struct {
		const char *part, *begin, *name;
		bool if_on; /* not told if it is "0" or empty */
	} of[] = {{"", "# command: ", "Command", false},
		  {"", "# in: ", "In the folder", false},
		  {"", "# on: ", "On", false},
		  {"", "# with: ", "Program", false},
		  {"train:", "  batch: ", "Batch", false},
		  {"train:", "  seed: ", "Seed", false},
		  {"train:", "  epochs: ", "Epochs to do", false},
		  {"share:", "  group: ", "Group", true},
		  {"share:", "  clients: ", "Members", false},
		  {"share:", "  member: ", "This member", false},
		  {"noise:", "  head_act: ", "Noise on head_act (noise.…)", true},
		  {"noise:", "  mid_grad: ", "Noise on mid_grad (noise.…)", true},
		  {"privacy:", "  clip: ", "Privacy: clip of head_act", true},
		  {"privacy:", "  clip_grad: ", "Privacy: clip of gradients", true},
		  {"privacy:", "  noise: ", "Privacy: noise, in these norms", true}};

	for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
		if (strncmp(part, of[i].part, strlen(of[i].part)) == 0 &&
		    strncmp(l, of[i].begin, strlen(of[i].begin)) == 0 &&
		    (!of[i].if_on ||
		     (strcmp(l + strlen(of[i].begin), "0") != 0 && strcmp(l + strlen(of[i].begin), "\"\"") != 0)))
			sl_report_fact(s, of[i].name, "%s", l + strlen(of[i].begin));
}

/* The record of the run: what says most in section s, and all keys as the text of `settings`. Keys of auth are paths
 * there. */
static void tell_config(struct sl_run_report *r, json_t *s, json_t *settings)
{
	char path[PATH_MAX], *save = NULL, *keys = NULL;
	const char *part = "";
	uint8_t *text = NULL;
	struct sl_fail fail;
	size_t len;
	FILE *to = open_memstream(&keys, &len);

	if (!to || snprintf(path, sizeof path, "%s/" SL_RECORD_FILE, r->dir) >= PATH_MAX ||
	    sl_file_read(path, CONFIG_MOST, &text, &len, &fail) != SL_OK)
		sl_run_report_unknown(r, "Settings", "log.dir has no record of the run (config.yaml)");
	for (char *l = text ? strtok_r((char *)text, "\n", &save) : NULL; l; l = strtok_r(NULL, "\n", &save)) {
		part = *l != ' ' && *l != '#' ? l : part;
		tell_setting(s, part, l);
		if (l[strspn(l, " ")] != '#')
			fprintf(to, "%s\n", l);
	}
	if (to && fclose(to) == 0 && *keys)
		json_object_set_new(settings, "text", sl_json_text(keys));
	if (json_object_get(settings, "text"))
		r->settings = json_string_value(json_object_get(settings, "text"));
	sl_run_report_cut(r, s);
	free(keys);
	free(text);
}

/* Steps of this member that the group's record has, and the log has not. */
static void count_lost(struct sl_run_report *r)
{
	const json_t *members = json_object_get(json_object_get(r->summary, "group"), "members");
	const char *at = strstr(r->settings, "\n  member: ");
	const uint64_t said =
		at ? number_of(json_array_get(members, strtoul(at + strlen("\n  member: "), NULL, 10)), "steps") : 0;

	r->uncounted = said > r->steps - r->skipped ? said - (r->steps - r->skipped) : 0;
}

static void tell_run(struct sl_run_report *r, json_t *settings)
{
	json_t *s = sl_run_report_section(r, "The run");
	char outcome[TEXT], steps[TEXT], epochs[TEXT];

	sl_report_fact(s, "Outcome", "%s%s", r->summary ? sl_report_show(r->summary, "outcome", outcome) : "not ended",
		       json_is_true(json_object_get(json_object_get(r->summary, "privacy"), "spent"))
			       ? ", before its last epoch: privacy.budget was spent"
			       : "");
	sl_report_fact(s, "Steps of this host",
		       "%" PRIu64 " in the log, of which %" PRIu64 " were skipped; %" PRIu64 " end%s of epochs",
		       r->steps, r->skipped, r->epochs, sl_plural((long long)r->epochs));
	if (r->summary)
		sl_report_fact(
			s, "Steps of the whole run", "%s, in %s epochs; of a group also those that this member missed",
			sl_report_show(r->summary, "steps", steps), sl_report_show(r->summary, "epochs", epochs));
	tell_config(r, s, settings);
	count_lost(r);
	if (r->uncounted)
		sl_report_fact(s, "Steps of this host by the server's count",
			       "%" PRIu64 ": %" PRIu64
			       " more than the log has. A killed process did them behind its last "
			       "checkpoint",
			       r->steps - r->skipped + r->uncounted, r->uncounted);
}

static void tell_who(struct sl_run_report *r)
{
	json_t *s = sl_run_report_section(r, "Who"), *members, *m;
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
		sl_report_fact(s, "Links", "%s",
			       r->local ? "none: all was computed in this process"
					: SL_SESSIONS_FILE " has none: no server took the run, or lines are missing");
	members = json_object_get(json_object_get(r->summary, "group"), "members");
	json_array_foreach(members, i, m)
	{
		snprintf(name, sizeof name, "Member %zu", i);
		sl_report_fact(s, name, "took part in %s steps, with %s %% of all rows, as the server says",
			       sl_report_show(m, "steps", steps), sl_report_show(m, "rows", rows));
	}
	if (json_array_size(members))
		sl_run_report_unknown(r, "Keys and addresses of other members", "the server alone knows them");
	sl_run_report_unknown(r, "Who else read what the server received", "nothing on this host can show that");
}

static void tell_privacy(struct sl_run_report *r)
{
	const json_t *p = json_object_get(r->summary, "privacy");
	char a[TEXT], b[TEXT], c[TEXT];
	json_t *s;

	if (!json_is_object(p) && !(r->epsilon > 0)) {
		sl_run_report_unknown(r, "Privacy as a number",
				      !r->settings[0] ? "the log has no epsilon, and there is no record of privacy.…"
				      : sl_run_report_has(r, "privacy:\n  clip: 0\n")
					      ? "there is none: privacy.… was off"
				      : sl_run_report_has(r, "privacy:\n  clip: ")
					      ? "privacy.… was on, but no epoch has ended"
					      : "the log has no epsilon, and the record of the run lacks privacy.…");
		return;
	}
	s = sl_run_report_section(r, "Privacy as a number");
	if (!json_is_object(p)) {
		sl_report_fact(s, "A training sample", "epsilon %.4g at the end of the last epoch in the log",
			       r->epsilon);
		sl_run_report_unknown(r, "Epsilon of the epoch under way",
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
	sl_run_report_unknown(
		r, "What epsilon leaves out",
		"earlier runs on the same samples; several rows of one patient; what head, tail and model learned from "
		"a sample, unless both were frozen");
}

static const char *interval(const json_t *intervals, const char *key, char out[TEXT])
{
	const json_t *x = json_object_get(intervals, key);

	snprintf(out, TEXT, "no interval");
	if (json_array_size(x) == 2)
		snprintf(out, TEXT, "95 %% interval %.4g to %.4g", json_number_value(json_array_get(x, 0)),
			 json_number_value(json_array_get(x, 1)));
	return out;
}

static void tell_model(struct sl_run_report *r)
{
	json_t *s = sl_run_report_section(r, "The model"), *classes = json_object_get(r->about, "classes"), *x;
	char path[PATH_MAX], hash[SL_CHAIN_TEXT], a[TEXT], b[TEXT], c[TEXT];
	const json_t *intervals = json_object_get(r->summary, "test_intervals");
	struct sl_fail fail;
	const char *name;

	if (snprintf(path, sizeof path, "%s/" SL_MODEL_FILE, r->dir) < PATH_MAX && !sl_chain_file(hash, path, &fail))
		sl_report_fact(s, SL_MODEL_FILE, "BLAKE2b, 16 bytes: %s", hash);
	else
		sl_run_report_unknown(r, "The model", "log.dir has no " SL_MODEL_FILE);
	if (sl_run_report_has(r, "\n  ends: private\n"))
		sl_report_fact(
			s, "Models of the members",
			"differ: share.ends is private, so head and tail are this member's own. The group shares the "
			"server's layers, which are in the file, too");
	if (!r->summary) {
		sl_run_report_unknown(r, "Figures", "the run has not ended, so there is no summary");
		return;
	}
	if (json_is_integer(json_object_get(r->summary, "best_step")))
		sl_report_fact(s, SL_MODEL_BEST, "the weights behind step %s, by the log",
			       sl_report_show(r->summary, "best_step", a));
	sl_report_fact(s, "Evaluated", "on the part \"%s\": loss %s, accuracy %s",
		       sl_report_show(r->summary, "evaluated_part", a), sl_report_show(r->summary, "test_loss", b),
		       sl_report_show(r->summary, "test_acc", c));
	sl_report_fact(s, "accuracy", "%s, %s", c, interval(intervals, "acc", b));
	json_object_foreach(json_object_get(r->summary, "test_metrics"), name, x)
	{
		snprintf(a, sizeof a, "%.6g", json_number_value(x));
		sl_report_fact(s, name, "%s, %s", json_is_number(x) ? a : "undefined", interval(intervals, name, b));
	}
	sl_run_report_mean(r, s);
	if (json_array_size(classes) == 2 && json_object_size(json_object_get(r->summary, "test_metrics")))
		sl_report_fact(
			s, "Of which class",
			"precision, recall, specificity, f1 and average_precision are of \"%.200s\", the second one",
			json_string_value(json_array_get(classes, 1)));
	x = json_object_get(r->summary, "test_baseline");
	if (json_object_get(x, "acc"))
		sl_report_fact(s, "To compare", "always \"%s\" has accuracy %s", sl_report_show(x, "class", a),
			       sl_report_show(x, "acc", b));
	if (!intervals || json_is_null(intervals))
		sl_run_report_unknown(r, "Intervals", "there is none for these figures");
	sl_run_report_unknown(r, "Other data",
			      "the figures are of the evaluated part; data of another site or time can differ");
}

static void tell_logs(struct sl_run_report *r)
{
	json_t *s = sl_run_report_section(r, "The logs");
	struct sl_log_check found;

	if (sl_log_check(&found, r->dir, r->unfit) != SL_OK) {
		sl_report_fact(s, "Checked", "THEY DO NOT FIT: %s", r->unfit->text);
		if (!r->starts && found.unchained == found.lines) /* of an earlier version, which wrote no hashes */
			r->unfit->code = SL_OK;
		return;
	}
	for (int i = 0; i < 4 && found.gone[i]; i++)
		if (strcmp(found.gone[i], SL_MODEL_BEST) == 0)
			sl_run_report_unknown(r, "The best model", "log.dir has no " SL_MODEL_BEST);
	sl_report_fact(s, "Checked", "log.jsonl %ld lines, " SL_SESSIONS_FILE " %ld; each fits the one before",
		       found.lines, found.sessions);
	sl_report_fact(s, "Log head", "%s", found.head);
	sl_report_fact(s, "A change shows in",
		       "log.jsonl, " SL_SESSIONS_FILE ", %s, by splitc report --verify and this log head%s",
		       SL_LOG_CHECK_FILES,
		       found.ended  ? ""
		       : r->summary ? "; not in the models and about.json, since " SL_SESSIONS_FILE
				      " lacks the line that "
				      "follows the summary"
				    : "; not yet in the models and about.json, as the run has not ended");
	sl_report_fact(
		s, "A change does not show in",
		"weights in checkpoint-… and finished-… (their notes hold the heads of both logs), traffic, releases, "
		"audits, leak, earlier records such as config.yaml.1, and what the server keeps");
	if (found.covered < found.lines)
		sl_report_fact(r->unknown, "The log's end", "behind line %ld nothing else holds a hash of the log",
			       found.covered);
	sl_run_report_unknown(
		r, "Whether somebody made all files anew",
		"the hashes have no key. Compare the log head with the one that was handed on when the run ended");
}

enum sl_err sl_run_report_make(json_t **out, struct sl_fail *unfit, const char *dir, struct sl_fail *fail)
{
	struct sl_run_report r = {.dir = dir,
				  .unfit = unfit,
				  .sections = json_array(),
				  .sessions = json_array(),
				  .settings = "",
				  .unknown = sl_report_section("What is not known")};
	json_t *settings = sl_report_section("Settings");
	enum sl_err err = read_lines(&r, "log.jsonl", take_log, fail);

	*unfit = (struct sl_fail){.code = SL_OK};
	if (!err)
		err = read_lines(&r, "log.jsonl", take_epochs, fail);

	if (!err && read_lines(&r, SL_SESSIONS_FILE, take_session, fail) == SL_ERR_DATA)
		err = SL_ERR_DATA;
	if (!err) {
		r.about = sl_run_report_json(dir, SL_ABOUT_FILE);
		tell_run(&r, settings);
		tell_processes(&r);
		tell_breaks(&r);
		sl_run_report_data(&r);
		sl_run_report_crossed(&r);
		tell_who(&r);
		sl_run_report_audits(&r);
		sl_run_report_leaks(&r);
		tell_privacy(&r);
		tell_model(&r);
		tell_logs(&r);
		if (!r.starts)
			sl_run_report_unknown(&r, "Times and links",
					      SL_SESSIONS_FILE " has no start of a process: it is cut, or of an "
							       "earlier version of Split");
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
