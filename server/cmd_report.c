#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "common/telemetry/chained.h"
#include "common/telemetry/json.h"
#include "common/telemetry/report.h"
#include "server/command.h"
#include "server/host/visits.h"

static const char *const usage[] = {
	"splits report CONFIG [GROUP] [--format html|md|json] [--out FILE] [--set KEY=VALUE]… | --verify",
	"Writes who was connected to this server, from " SL_VISITS_FILE " in the store of this config: client, key, "
	"address, group, from when to when, bytes, and how each session ended. With GROUP: this group alone, and what "
	"its members have reported of their evaluations. A section says what is not known.",
	"--verify checks the file by the hashes in its lines. Status 65 and a sentence name the first line that does "
	"not fit; without --verify the report is written all the same. The hashes have no key, and lines at the end "
	"can "
	"be missing. So compare the head with the one that the server logs as it ends.",
	NULL,
};

enum { TEXT = SL_REPORT_TEXT, TIME = SL_REPORT_TIME };

/* What sessions.jsonl says, as tables. */
struct tables {
	const char *group; /* NULL: all */
	json_t *processes, *clients, *sessions, *others, *unknown;
	json_t *open;        /* sessions that have begun and not ended, by id and time */
	json_t *sums;        /* of each client: its row's figures */
	const json_t *start; /* of the process, while it has not stopped; owned by `lines` */
	json_t *lines;       /* all that count */
};

static json_int_t number_of(const json_t *of, const char *key)
{
	return json_integer_value(json_object_get(of, key));
}

static void put_session(struct tables *t, const json_t *line, const char *until, const char *outcome)
{
	char from[TIME], steps[TEXT], received[TEXT], sent[TEXT], group[TEXT] = "-";

	if (sl_json_string(line, "group"))
		snprintf(group, sizeof group, "%s, member %" JSON_INTEGER_FORMAT, sl_json_string(line, "group"),
			 number_of(line, "member"));
	sl_report_line(t->sessions, "rows", 10, sl_report_time(line, "since", from), until,
		       sl_json_string(line, "client"), sl_json_string(line, "key"), sl_json_string(line, "address"),
		       group, sl_report_show(line, "steps", steps), sl_report_show(line, "received_bytes", received),
		       sl_report_show(line, "sent_bytes", sent), outcome);
}

/* Adds an ended session to the figures of its client: by its key, without auth by its address. */
static void add_up(struct tables *t, const json_t *line)
{
	static const char *const figure[] = {"steps", "received_bytes", "sent_bytes"};
	const char *key = sl_json_string(line, "key") ? sl_json_string(line, "key") : sl_json_string(line, "address");
	json_t *sum = json_object_get(t->sums, key ? key : "-");

	if (!sum) {
		sum = json_pack("{s:O?, s:O, s:i}", "client", json_object_get(line, "client"), "first",
				json_object_get(line, json_object_get(line, "since") ? "since" : "time"), "sessions",
				0);
		json_object_set_new(t->sums, key ? key : "-", sum);
	}
	json_object_set(sum, "time", json_object_get(line, "time"));
	json_object_set_new(sum, "sessions", json_integer(number_of(sum, "sessions") + 1));
	for (size_t i = 0; i < sizeof figure / sizeof figure[0]; i++)
		json_object_set_new(sum, figure[i],
				    json_integer(number_of(sum, figure[i]) + number_of(line, figure[i])));
}

/* A process that was killed has ended its sessions, too. */
static void end_open(struct tables *t, const char *outcome)
{
	json_t *line;
	const char *id;

	json_object_foreach(t->open, id, line) put_session(t, line, NULL, outcome);
	json_object_clear(t->open);
}

static void put_process(struct tables *t, const json_t *stop, const char *without)
{
	char from[TIME], until[TIME], came[TEXT], admitted[TEXT];

	if (t->start)
		sl_report_line(t->processes, "rows", 6, sl_report_time(t->start, "time", from),
			       stop ? sl_report_time(stop, "time", until) : without,
			       sl_json_string(t->start, "version"), sl_json_string(t->start, "key"),
			       sl_report_show(stop, "connections", came), sl_report_show(stop, "admitted", admitted));
	t->start = NULL;
}

static void take_other(struct tables *t, const char *type, const json_t *line)
{
	char at[TIME], count[TEXT];

	sl_report_line(t->others, "rows", 6, sl_report_time(line, "time", at),
		       strcmp(type, "align") == 0 ? "alignment" : "refused: no key of the list",
		       sl_json_string(line, "client"), sl_json_string(line, "key"), sl_json_string(line, "address"),
		       sl_report_show(line, "handshakes", count));
}

static enum sl_err take(void *arg, const char *text, size_t len, long number, struct sl_fail *fail)
{
	struct tables *t = arg;
	json_t *line = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	const char *type = sl_json_string(line, "type"), *group = sl_json_string(line, "group");
	char id[128], until[TIME];

	if (!type) {
		json_decref(line);
		return sl_fail_set(fail, SL_ERR_DATA,
				   SL_VISITS_FILE ":%ld: not a line of a server's log (docs/OUTPUT.md)", number);
	}
	snprintf(id, sizeof id, "%.40s %" JSON_INTEGER_FORMAT,
		 sl_json_string(line, "session") ? sl_json_string(line, "session") : "", number_of(line, "since"));
	if (strcmp(type, "start") == 0) {
		end_open(t, "the server was killed, or failed");
		put_process(t, NULL, "killed or failed");
		t->start = line;
	} else if (strcmp(type, "stop") == 0) {
		put_process(t, line, NULL);
	} else if (!t->group || (group && strcmp(group, t->group) == 0)) {
		if (strcmp(type, "begin") == 0) {
			json_object_set(t->open, id, line);
		} else if (strcmp(type, "end") == 0) {
			json_object_del(t->open, id);
			put_session(t, line, sl_report_time(line, "time", until), sl_json_string(line, "outcome"));
			add_up(t, line);
		} else
			take_other(t, type, line);
		json_array_append(t->lines, line);
	}
	if (strcmp(type, "start") == 0)
		json_array_append(t->lines, line);
	json_decref(line);
	return SL_OK;
}

static void put_clients(struct tables *t)
{
	char first[TIME], last[TIME], n[TEXT], steps[TEXT], received[TEXT], sent[TEXT];
	const char *key;
	json_t *sum;

	json_object_foreach(t->sums, key, sum) sl_report_line(
		t->clients, "rows", 8, sl_json_string(sum, "client"), key, sl_report_show(sum, "sessions", n),
		sl_report_time(sum, "first", first), sl_report_time(sum, "time", last),
		sl_report_show(sum, "steps", steps), sl_report_show(sum, "received_bytes", received),
		sl_report_show(sum, "sent_bytes", sent));
}

/* What the group's members have reported; NULL: no section. */
static json_t *figures_of(const struct sl_conf_server *conf, const char *group)
{
	json_t *s, *runs, *one;
	char newest[SPLITS_RUN_TEXT], k[TEXT], step[TEXT], samples[TEXT], loss[TEXT], correct[TEXT];
	struct sl_fail fail;
	size_t i;

	s = sl_report_section("What members have reported");
	runs = splits_reports_read(conf, group, newest, &fail);
	if (!runs) {
		sl_report_fact(s, "Reports", "none (share.report): %s", fail.text);
		return s;
	}
	sl_report_fact(s, "Of the run", "%s, the newest of this group: each member's last evaluation, as it says",
		       newest);
	sl_report_line(s, "columns", 5, "member", "step", "samples", "loss", "correct");
	json_array_foreach(json_object_get(runs, newest), i, one)
		sl_report_line(s, "rows", 5, sl_report_show(one, "member", k), sl_report_show(one, "step", step),
			       sl_report_show(one, "samples", samples), sl_report_show(one, "loss", loss),
			       sl_report_show(one, "correct", correct));
	json_decref(runs);
	return s;
}

static void tell_unknown(json_t *s)
{
	sl_report_fact(s, "What was in what crossed",
		       "the client's report says what crossed, and what it shows of the data");
	sl_report_fact(s, "Bytes of framing, heartbeats and encryption",
		       "the tables count messages; a client's report counts these bytes, too");
	sl_report_fact(s, "Who is behind a key",
		       "the list of clients says whose it is; without auth anyone can be a client");
	sl_report_fact(s, "Where a client is", "an address is that of the last proxy or router in between");
	sl_report_fact(s, "Who made connections that were not admitted",
		       "they are counted alone, and not for a process that was killed; of refused keys each line "
		       "names one");
	sl_report_fact(s, "Bytes of sessions that the server's end cut off", "they are in no line");
	sl_report_fact(
		s, "Lines at the end",
		"they can be missing, after a power cut or by somebody's hand: compare the head with the server's log");
}

static void begin(struct tables *t, const char *group)
{
	*t = (struct tables){.group = group,
			     .processes = sl_report_section("The server"),
			     .clients = sl_report_section("Clients"),
			     .sessions = sl_report_section("Sessions"),
			     .others = sl_report_section("Alignments and refused keys"),
			     .unknown = sl_report_section("What is not known"),
			     .open = json_object(),
			     .sums = json_object(),
			     .lines = json_array()};
	sl_report_line(t->processes, "columns", 6, "began", "ended", "version", "its key", "connections",
		       "of these admitted");
	sl_report_line(t->clients, "columns", 8, "client", "key or address", "sessions", "first began", "last ended",
		       "steps", "bytes received", "bytes sent");
	sl_report_line(t->sessions, "columns", 10, "from", "until", "client", "key", "address", "group", "steps",
		       "bytes received", "bytes sent", "how it ended");
	sl_report_line(t->others, "columns", 6, "when", "what", "client", "key", "address", "handshakes");
}

static json_t *finish(struct tables *t, const struct sl_conf_server *conf, const struct sl_chain *chain,
		      const char *unfit)
{
	json_t *sections = json_array();

	end_open(t, "not ended: it goes on, or the server was killed");
	put_process(t, NULL, "killed or failed, or it still runs");
	put_clients(t);
	tell_unknown(t->unknown);
	sl_report_fact(t->clients, "Each row",
		       "adds up all ended sessions of a key, also of different runs and groups. "
		       "A pause of a client is a gap between two of its sessions below");
	sl_report_fact(t->processes, "Store", "%s", conf->store);
	if (t->group)
		sl_report_fact(t->processes, "Group", "%s alone", t->group);
	if (unfit)
		sl_report_fact(t->processes, "Log", "ITS LINES DO NOT FIT: %s", unfit);
	else
		sl_report_fact(t->processes, "Log", "%ld line%s, and each fits the one before; head %s", chain->n,
			       sl_plural(chain->n), chain->after[chain->n].text);
	json_array_append(sections, t->processes);
	json_array_append(sections, t->clients);
	json_array_append(sections, t->sessions);
	if (t->group)
		json_array_append_new(sections, figures_of(conf, t->group));
	else
		json_array_append(sections, t->others);
	if (!json_array_size(json_object_get(t->others, "rows")))
		sl_report_fact(t->others, "None", "no client asked for an alignment, and no key was refused");
	json_array_append(sections, t->unknown);
	return json_pack("{s:i, s:s, s:s?, s:o, s:O}", "schema", 1, "store", conf->store, "group", t->group, "sections",
			 sections, "sessions", t->lines);
}

static void end(struct tables *t)
{
	json_t *all[] = {t->processes, t->clients, t->sessions, t->others, t->unknown, t->open, t->sums, t->lines};

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		json_decref(all[i]);
}

static enum sl_err write_report(const struct sl_conf_server *conf, const struct sl_options *o, struct sl_fail *fail)
{
	struct sl_chain chain = {.name = SL_VISITS_FILE};
	char title[PATH_MAX + 40];
	struct sl_fail why;
	struct tables t;
	json_t *report;
	enum sl_err err, written;

	begin(&t, o->operand);
	err = sl_chain_read(&chain, conf->store, o->report.verify ? NULL : take, &t, fail);
	if (!err && o->report.verify) {
		printf(SL_VISITS_FILE ", %ld line%s: each fits the one before\nlog head %s\n", chain.n,
		       sl_plural(chain.n), chain.after[chain.n].text);
	} else if (!o->report.verify && (!err || err == SL_ERR_DATA)) {
		report = finish(&t, conf, &chain, err ? fail->text : NULL);
		snprintf(title, sizeof title, "Report of the server with the store %s", conf->store);
		written = sl_report_write(report, title, o->report.format, o->out, err ? &why : fail);
		err = err ? err : written;
		json_decref(report);
	}
	free(chain.after);
	end(&t);
	return err;
}

int splits_report(int argc, char **argv)
{
	struct sl_options o = {.command = "report", .usage = usage, .keys = &sl_conf_server_schema};
	struct sl_conf_server conf;
	struct sl_fail fail;
	enum sl_err err;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_REPORT | SL_OPT_SET, 2);

	if (status >= 0)
		return status;
	if (!o.config)
		return sl_options_missing(&o, "a CONFIG");
	err = sl_conf_load(&sl_conf_server_schema, &conf, o.config, o.set, o.n_set, &fail);
	if (!err && !conf.store[0])
		err = sl_fail_set(&fail, SL_ERR_CONFIG, "store: this config has none, so there is no log of sessions");
	if (!err && o.report.verify && (o.out || o.report.format || o.operand))
		err = sl_fail_set(&fail, SL_ERR_USAGE,
				  "report: --verify writes no report: leave GROUP, --out and --format away");
	if (!err)
		err = write_report(&conf, &o, &fail);
	return err ? sl_options_failed("splits", &fail) : 0;
}
