#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/cmd/run_report_impl.h"
#include "client/cmd/run_report_words.h"
#include "common/telemetry/json.h"

enum { CLASSES_LISTED = 12, KINDS = 4 };

/* ---- what crossed */

/* Adds the bytes of each process that wrote its end. */
static json_t *add_up(const struct sl_run_report *r)
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

/* So that the parts add up to all bytes of the links. rest: of each direction, what the table of tensors leaves. */
static void tell_bytes(const struct sl_run_report *r, json_t *s, const json_int_t tensors[2])
{
	static const char *const part[KINDS][2] = {{"wire", "All bytes of the run's links"},
						   {"weights", "Of these weights of the server's layers"},
						   {"framing", "Of these framing and heartbeats of ZeroMQ"},
						   {"curve", "Of these encryption"}};
	json_int_t bytes[2], rest[2] = {-tensors[0], -tensors[1]};
	char key[32];

	for (int i = 0; i < KINDS && r->summary; i++) {
		for (int way = 0; way < 2; way++) {
			snprintf(key, sizeof key, "%s_%s_bytes", part[i][0], way ? "rx" : "tx");
			bytes[way] = json_integer_value(json_object_get(r->summary, key));
			rest[way] += i ? -bytes[way] : bytes[way];
		}
		sl_report_fact(s, part[i][1], "%" JSON_INTEGER_FORMAT " sent, %" JSON_INTEGER_FORMAT " received",
			       bytes[0], bytes[1]);
	}
	if (r->summary && rest[0] >= 0 && rest[1] >= 0)
		sl_report_fact(s,
			       r->starts > r->ends ? "Of these other messages, and tensors of killed processes"
						   : "Of these other messages",
			       "%" JSON_INTEGER_FORMAT " sent, %" JSON_INTEGER_FORMAT " received", rest[0], rest[1]);
}

/* How often each row has crossed, as far as the log tells. */
static void tell_often(const struct sl_run_report *r, json_t *s)
{
	const bool killed = r->starts > r->ends,
		   once = sl_run_report_has(r, "\n  sampling: shuffled\n") &&
			  (sl_run_report_has(r, "\n  epoch_steps: 0\n") || !sl_run_report_has(r, "\n  epoch_steps: "));
	const char *by = sl_json_string(json_object_get(r->about, "split"), "by");
	char rows[TEXT], least[32] = "";
	uint64_t most = r->some;

	if (r->uncounted && r->per_epoch) /* if they were done at once, in these epochs; else each in another */
		most += r->backs > 1 ? r->uncounted + 1
				     : (r->back + r->uncounted) / r->per_epoch - r->back / r->per_epoch + 1;
	if (r->full != most)
		snprintf(least, sizeof least, "%" PRIu64 " to ", r->full);
	if (once && r->per_epoch)
		sl_report_fact(s, "How often each training row crossed",
			       "%s%" PRIu64 " times. Epochs with all steps in the log: %" PRIu64 "; with some: %" PRIu64
			       "%s%s",
			       least, most, r->full, r->some - r->full,
			       r->uncounted ? "; and the server counts steps of this host in others" : "",
			       killed && !r->uncounted ? "; more, if a killed process worked behind its checkpoint"
						       : "");
	else if (r->summary && r->samples[0])
		sl_report_fact(s, "How often each training row crossed",
			       "%.2f times on average by the log: rows are drawn, or share.epoch_steps says how long "
			       "an epoch is",
			       (double)(json_integer_value(json_object_get(r->summary, "samples")) -
					(json_int_t)r->evaluations * r->samples[1]) /
				       (double)r->samples[0]);
	if (sl_run_report_has(r, "\n  keep_sent_bytes: ") && !sl_run_report_has(r, "\n  keep_sent_bytes: 0\n"))
		sl_report_fact(
			s, "Of these times with head_act",
			"the first on each link: the server keeps it until the link ends (train.keep_sent_bytes)");
	sl_report_fact(s, "How often each evaluated row crossed", "in %" PRIu64 " evaluations of the log%s",
		       r->evaluations, killed ? "; more, if a killed process evaluated behind its checkpoint" : "");
	sl_report_fact(s, "Rows trained and evaluated", "%s in all%s", sl_report_show(r->summary, "samples", rows),
		       killed ? ", without those that a killed process sent behind its last checkpoint" : "");
	if (!by || !*by)
		sl_report_fact(s, "Rows of one patient",
			       "count apart, as data.split.by is not set: what crossed of a patient is that of all "
			       "these rows");
}

void sl_run_report_crossed(struct sl_run_report *r)
{
	json_t *s = sl_run_report_section(r, "What crossed"), *sum = add_up(r), *of;
	json_int_t all[2] = {0, 0};
	char a[TEXT], b[TEXT], c[TEXT];

	sl_report_fact(
		s, "Data and labels",
		"stay on this host. What is sent: the tensors below, which tell of both, the network's form, and with "
		"share.report figures of evaluations");
	sl_report_line(s, "columns", 7, "tensor", "what it is", "direction", "codec", "bytes with headers",
		       "payload with the codec's header", "as fp32");
	for (int i = 0; sl_report_tensors[i].name; i++) {
		of = json_object_get(sum, sl_report_tensors[i].name);
		all[!sl_report_tensors[i].sent] += json_integer_value(json_object_get(of, "wire_bytes"));
		if (of)
			sl_report_line(s, "rows", 7, sl_report_tensors[i].name, sl_report_tensors[i].means,
				       sl_report_tensors[i].sent ? "to the server" : "from the server",
				       sl_json_string(of, "codec"), sl_report_show(of, "wire_bytes", a),
				       sl_report_show(of, "payload_bytes", b), sl_report_show(of, "raw_bytes", c));
	}
	json_decref(sum);
	tell_bytes(r, s, all);
	tell_often(r, s);
	if (r->starts > r->ends)
		sl_run_report_unknown(r, "Bytes by tensor of killed processes",
				      "the table counts processes that wrote their end. The bytes of all links count "
				      "the others, too, but for the last quarter of a second before a kill: the "
				      "server's report counts that");
	if (r->backs)
		sl_run_report_unknown(
			r, "Repeated steps",
			"steps between a checkpoint and a kill are not in this log. A client alone repeats them with "
			"the same values; in a group the others may have gone on, and then the server counts these "
			"steps");
}

/* ---- audits */

void sl_run_report_audits(struct sl_run_report *r)
{
	json_t *s = sl_run_report_section(r, "Audits of the server"), *one, *share, *word;
	char a[TEXT], b[TEXT], c[TEXT], d[TEXT], all[TEXT] = "";
	size_t i;

	word = json_object_get(r->summary, "servers_word");
	share = json_object_get(r->summary, "audited");
	if (r->summary)
		sl_report_fact(s, "Begun and ended", "%s and %s in the run",
			       sl_report_show(r->summary, "audits_begun", a),
			       sl_report_show(r->summary, "audits_ended", b));
	sl_report_fact(s, "In the log",
		       "%" PRIu64 " audits, in which this host computed %" PRIu64 " steps, too; %" PRIu64
		       " found a difference%s%s",
		       r->audits, r->audited, r->found, r->found ? ": " : "", r->last_found);
	if (r->audits)
		sl_report_fact(s, "Steps that this host computed, too", "%s", r->audited_steps);
	if (json_is_object(share))
		sl_report_fact(s, "Batches of evaluations that this host computed, too",
			       "%s of %s in the process that ended; of its last evaluation %s of %s",
			       sl_report_show(share, "eval_batches", a), sl_report_show(share, "of_eval_batches", b),
			       sl_report_show(share, "last_batches", c), sl_report_show(share, "of_last_batches", d));
	json_array_foreach(word, i, one) snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? "; " : "",
						  sl_report_word(json_string_value(one)));
	if (*all)
		sl_report_fact(s, "The server's word, which nothing here checked", "%s", all);
	if (r->steps > r->audited)
		sl_run_report_unknown(r, "Steps without an audit",
				      "that the server computed these as agreed is its word");
}

/* ---- what the server could learn */

/* "benign 100 %, malignant 85.7 %", and of these the best: there the attack finds most. */
static void put_classes(const json_t *values, const json_t *names, char each[TEXT], char best[TEXT])
{
	double most = -INFINITY;
	size_t i, ties = 0, n = 0;
	char name[48];
	json_t *x;

	json_array_foreach(values, i, x) most = json_is_number(x) ? fmax(most, json_number_value(x)) : most;
	each[0] = best[0] = '\0';
	json_array_foreach(values, i, x) if (json_is_number(x)) /* null: none of this class was there */
	{
		snprintf(name, sizeof name, "class %zu", i);
		if (json_is_string(json_array_get(names, i)))
			snprintf(name, sizeof name, "%.40s", json_string_value(json_array_get(names, i)));
		if (n++ < CLASSES_LISTED)
			snprintf(each + strlen(each), TEXT - strlen(each), "%s%s %.3g %%", *each ? ", " : "", name,
				 100 * json_number_value(x));
		if (json_number_value(x) == most && ++ties <= CLASSES_LISTED)
			snprintf(best + strlen(best), TEXT - strlen(best), "%s%s", *best ? ", " : "", name);
	}
	if (n && ties == n)
		snprintf(best, TEXT, "all classes alike");
}

/* Adds a row for each figure in `of`, which is one, or an object of such. */
static void tell_figures(const struct sl_run_report *r, json_t *s, const json_t *of, const char *name, int depth)
{
	char value[TEXT], chance[TEXT], each[TEXT], best[TEXT], below[160], range[64] = "-";
	const json_t *low = json_object_get(of, "low"), *high = json_object_get(of, "high");
	const char *key;
	json_t *x;

	if (json_object_get(of, "value")) {
		put_classes(json_object_get(of, "classes"), json_object_get(r->about, "classes"), each, best);
		if (json_is_number(low) && json_is_number(high))
			snprintf(range, sizeof range, "%.4g to %.4g", json_number_value(low), json_number_value(high));
		sl_report_line(s, "rows", 6, name, sl_report_show(of, "value", value), range,
			       sl_report_show(of, "chance", chance), *best ? best : NULL, *each ? each : NULL);
		return;
	}
	json_object_foreach((json_t *)(uintptr_t)of, key, x) if (json_is_object(x) && depth < 4)
	{
		if (*name)
			snprintf(below, sizeof below, "%.100s \"%.50s\"", name, key);
		else
			snprintf(below, sizeof below, "%.50s", key);
		tell_figures(r, s, x, below, depth + 1);
	}
}

void sl_run_report_leaks(struct sl_run_report *r)
{
	static const char *const counted[] = {"rows", "pictures", "tokens"};
	json_t *leak = sl_run_report_json(r->dir, "leak/leak.json"), *x;
	json_t *s = sl_run_report_section(r, "What the server could learn");
	char n[TEXT], others[TEXT];
	const char *of;

	if (!leak) {
		sl_report_fact(s, "Measured",
			       "no. To measure it on this host: splitc leak %.200s/config.yaml --weights "
			       "%.200s/model.safetensors --out %.200s/leak, then this report anew",
			       r->dir, r->dir, r->dir);
		sl_run_report_unknown(r, "Leaks", "what the server could learn from what crossed was not measured");
		return;
	}
	json_object_foreach(json_object_get(leak, "in_short"), of, x)
		sl_report_fact(s, of, "%s", json_string_value(x) ? json_string_value(x) : "-");
	for (int i = 0; i < 3; i++)
		if (json_object_get(leak, counted[i]))
			sl_report_fact(s, "Attacked", "%s %s; the attacker has learned from %s others",
				       sl_report_show(leak, counted[i], n), counted[i],
				       sl_report_show(leak, "trained_with", others));
	sl_report_fact(s, "Attackers of the data",
		       "\"informed\" knows the head as it is, \"start\" only the weights "
		       "that the run began with");
	sl_report_fact(s, "Ranges",
		       "of a share its 95 %% interval. \"r2\" is the median of all columns that vary, its "
		       "range from the 10th to the 90th percentile of them");
	sl_report_line(s, "columns", 6, "figure", "value", "range", "chance", "found best", "each class");
	tell_figures(r, s, leak, "", 0);
	json_decref(leak);
	sl_run_report_unknown(r, "Better attacks", "a bad reconstruction proves only that this attack failed");
}
