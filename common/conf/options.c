#include "common/conf/options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/wrap.h"
#include "common/conf/key.h"

enum { HELP_COLUMN = 22 };

struct option {
	const char *name, *value; /* value NULL: a flag */
	unsigned takes;
	size_t at; /* offset of the bool or text in struct sl_options; 0: --set, which has a list */
	const char *help;
};

#define AT(member) offsetof(struct sl_options, member)

static const struct option table[] = {
	{"--local", NULL, SL_OPT_LOCAL, AT(local), "compute head, middle and tail in this process, without a server"},
	{"--clients", "N", SL_OPT_GROUP, AT(clients),
	 "with --local: a group of N members in this process, each with its log in log.dir/member-K"},
	{"--absent", "LIST", SL_OPT_GROUP, AT(absent),
	 "with --local of a group: MEMBER:STEP, a member that is late in this step, and MEMBER:FROM-TO, one that is "
	 "not "
	 "there in these steps; such as 1:3,2:10-25"},
	{"--alone", "K", SL_OPT_GROUP, AT(alone),
	 "with --local of a group: train member K by itself, on its part of the data, without the others"},
	{"--party", "CONFIG", SL_OPT_PARTY | SL_OPT_MANY, AT(party),
	 "of a vertical group in one process: the config of another member, whose input or labels are used; may be "
	 "repeated"},
	{"--resume", NULL, SL_OPT_RESUME, AT(resume),
	 "after Ctrl-C or a crash, go on from the newest checkpoint that client and server both hold; a finished run "
	 "needs more to do, such as --set train.epochs=N"},
	{"--fresh", NULL, SL_OPT_RESUME, AT(fresh),
	 "remove the run that log.dir holds, finished or not, and begin a new one"},
	{"--auto-resume", NULL, SL_OPT_RESUME, AT(auto_resume),
	 "begin the run, or go on with it, or end with status 0 if it is done: for services and scripts"},
	{"--epochs", "N", SL_OPT_TRAIN, AT(epochs), "short for --set train.epochs=N"},
	{"--batch", "N", SL_OPT_TRAIN, AT(batch), "short for --set train.batch=N"},
	{"--lr", "X", SL_OPT_TRAIN, AT(lr), "short for --set train.optimizer.lr=X"},
	{"--weights", "FILE", SL_OPT_WEIGHTS, AT(weights),
	 "use these weights, not log.dir/model.safetensors; `best` is log.dir/best.safetensors"},
	{"--parity", NULL, SL_OPT_PARITY, AT(parity), "compare the config's codecs with no codec, side by side"},
	{"--codecs", "LIST.yaml", SL_OPT_SWEEP, AT(codecs), "list of the rows of the sweep"},
	{"--lr-range", "FROM:TO", SL_OPT_SWEEP, AT(lr_range),
	 "instead of a list, one run whose learning rate grows from FROM to TO; suggests a rate"},
	{"--out", "DIR", SL_OPT_SWEEP, AT(out), "folder of the results (sweep)"},
	{"--out", "FILE", SL_OPT_OUT, AT(out), "file for the secret key; an existing file is never overwritten"},
	{"--out", "FILE", SL_OPT_PLOT, AT(out),
	 "the picture (default plot.png): .png, .svg, or .gp for the gnuplot script alone"},
	{"--figure", "NAME", SL_OPT_PLOT, AT(figure),
	 "one of: all (default), training, loss, accuracy, bytes, or a metric; of an evaluation confusion, roc, "
	 "calibration"},
	{"--control", "PATH", SL_OPT_CONTROL, AT(control),
	 "ask this control socket, not the config's or the usual one"},
	{"--prometheus", NULL, SL_OPT_CONTROL, AT(prometheus),
	 "metrics in Prometheus' text format, for example for the textfile collector of its node exporter"},
	{"--live", NULL, SL_OPT_CONTROL, AT(live),
	 "liveness probe: print one line; exit status 0 if the daemon's loop answers within 2 s, else 69"},
	{"--ready", NULL, SL_OPT_CONTROL, AT(ready),
	 "readiness probe: as --live; exit status 0 if a server would accept another session, or if a client is "
	 "connected to its server or done"},
	{"--quiet", NULL, SL_OPT_CONTROL, AT(quiet), "with --live or --ready: print no line if the exit status is 0"},
	{"--watch", NULL, SL_OPT_CONTROL, AT(watch), "show it again every second until the daemon ends or Ctrl-C"},
	{"--measure", NULL, SL_OPT_MEASURE, AT(measure), "measure codecs instead of listing them"},
	{"--shape", "N,H,W,C", SL_OPT_MEASURE, AT(shape),
	 "measure on normally distributed values of this shape (2 to 4 numbers)"},
	{"--threads", "N", SL_OPT_MEASURE, AT(threads), "measure with N threads (default 1)"},
	{"--logits", NULL, SL_OPT_PREDICT, AT(logits), "print logits, not probabilities (their softmax)"},
	{"--csv", NULL, SL_OPT_PREDICT, AT(csv),
	 "print comma-separated values of all classes, after a line of column names"},
	{"--json", NULL, SL_OPT_PREDICT, AT(json), "print a JSON object for each sample, one on each line"},
	{"--top", "N", SL_OPT_PREDICT, AT(top), "print the N most probable classes of each sample, not all"},
	{"--stream", NULL, SL_OPT_PREDICT, AT(lines.stream), "predict each line of standard input as it comes"},
	{"--listen", "unix:PATH", SL_OPT_PREDICT | SL_OPT_ONCE, AT(lines.listen),
	 "the same for the lines of many clients of this socket, which are JSON"},
	{"--out", "FILE", SL_OPT_PREDICT, AT(out), "write FILE once it is complete; an existing one needs --force"},
	{"--force", NULL, SL_OPT_PREDICT, AT(force), "overwrite an existing FILE of --out"},
	{"--prompt", "TEXT", SL_OPT_GENERATE | SL_OPT_ONCE, AT(prompt), "the beginning of the text"},
	{"--prompts", "FILE", SL_OPT_GENERATE, AT(prompts), "a prompt in each line; - is standard input"},
	{"--ids", NULL, SL_OPT_GENERATE, AT(ids), "print the ids of the tokens behind the prompt, not the text"},
	{"--json", NULL, SL_OPT_GENERATE, AT(json), "print a JSON object for each prompt, one on each line"},
	{"--server", "ADDRESS", SL_OPT_INIT, AT(server), "where splits listens, tcp://HOST:PORT"},
	{"--model", "NAME", SL_OPT_INIT, AT(model), "the network, as in model.name"},
	{"--data", "KIND:DIR", SL_OPT_INIT, AT(data),
	 "the data, such as photos or images:photos; KIND or DIR may be left out"},
	{"--cut", "CUT", SL_OPT_INIT, AT(cut), "the part of the network that stays on this host"},
	{"--party", "ROLE", SL_OPT_INIT | SL_OPT_ONCE, AT(role),
	 "write the config of a member of a vertical pair, which has the features or the labels"},
	{"--force", NULL, SL_OPT_INIT, AT(force), "overwrite an existing file"},
	{"--force", NULL, SL_OPT_SWEEP, AT(force), "write over the sweep that DIR holds"},
	{"--text", NULL, SL_OPT_GRAPH, AT(text),
	 "print the middle, or the part that is named, in the form in which it travels to the server"},
	{"--cuts", NULL, SL_OPT_GRAPH, AT(cuts), "list other cuts: what crosses, and what each part computes"},
	{"--text", NULL, SL_OPT_TOKENS, AT(text), "print tokens as the vocabulary writes them, not their ids"},
	{"--pair", NULL, SL_OPT_TOKENS, AT(pair), "each line has two texts, with a tab between them"},
	{"--task", "NAME", SL_OPT_TOKENS, AT(task),
	 "the FILEs are folders of this task of GLUE: cola, sst2, mrpc, qqp, mnli, mnli-mm, qnli, rte, stsb or wnli"},
	{"--split", "NAME", SL_OPT_TOKENS, AT(split), "with --task: train, dev or test (default train)"},
	{"--columns", "A[,B]", SL_OPT_TOKENS, AT(columns),
	 "the FILEs are TSV, CSV or JSON Lines: take the text, or two texts, from these columns"},
	{"--format", "NAME", SL_OPT_TOKENS, AT(format),
	 "with --columns: tsv, csv or jsonl (default: by the end of a file's name)"},
	{"--max-length", "N", SL_OPT_TOKENS, AT(max_length),
	 "cut each row to N tokens, special tokens included; of a pair the longer text first"},
	{"--stats", NULL, SL_OPT_TOKENS, AT(stats),
	 "print how many rows and tokens there are, how long rows are, and how many are cut"},
	{"--json", NULL, SL_OPT_TOKENS, AT(json), "print a JSON object for each row, or one with --stats"},
	{"--adapter", NULL, SL_OPT_EXPORT, AT(export.adapter),
	 "of a run with lora: write PEFT's adapter_config.json and adapter_model.safetensors to the folder OUT"},
	{"--join", "FILE", SL_OPT_EXPORT | SL_OPT_MANY, AT(export.join),
	 "of a vertical group's member: another one's model, whose part of the network is added; may be repeated"},
	{"--training", NULL, SL_OPT_EXPORT, AT(export.training),
	 "of OUT.onnx: mark batch norms and dropout as in training, as PyTorch's export of model.train() does"},
	{"--out", "DIR", SL_OPT_LEAK, AT(out), "folder of the report (default leak)"},
	{"--steps", "N", SL_OPT_LEAK, AT(steps), "steps of each decoder (default 500)"},
	{"--minutes", "M", SL_OPT_LEAK, AT(minutes),
	 "end the decoders' training after so many minutes; figures may then differ from machine to machine"},
	{"--format", "NAME", SL_OPT_REPORT | SL_OPT_ONCE, AT(report.format),
	 "html, md or json (default: by the end of FILE's name, or md)"},
	{"--out", "FILE", SL_OPT_REPORT, AT(out), "write FILE once it is complete, not standard output"},
	{"--verify", NULL, SL_OPT_REPORT, AT(report.verify),
	 "write no report: check the logs and models, and name the first line or file that does not fit"},
	{"--steps", "N", SL_OPT_AUDIT, AT(steps), "repeat N steps (default 4)"},
	{"--sheet", "FILE.png", SL_OPT_DATA, AT(sheet),
	 "draw 64 samples, or one batch, as training has them, with their labels"},
	{"--json", NULL, SL_OPT_JSON, AT(json), "print JSON instead of a table"},
	{"--set", "KEY=VALUE", SL_OPT_CONFIG | SL_OPT_CONTROL | SL_OPT_INIT | SL_OPT_SET, 0,
	 "change a key of the config; may be repeated"},
	{"--check-config", NULL, SL_OPT_CONFIG, AT(check_config),
	 "check the config and the files that it names, print ok, and end"},
	{"--connect", NULL, SL_OPT_TRAIN, AT(check.connect),
	 "with --check-config: try the server, too: reach, key, protocol, group, and how long three steps take there"},
	{"--print-config", NULL, SL_OPT_CONFIG, AT(print_config),
	 "print every key, what it means and its value, and end"},
};

enum { OPTIONS = sizeof table / sizeof table[0] };

static int program_length(const struct sl_options *o)
{
	return (int)strcspn(o->usage[0], " ");
}

static int usage_error(const struct sl_options *o, const char *what, const char *arg)
{
	fprintf(stderr, "%.*s %s: %s '%s'; usage: %s\n", program_length(o), o->usage[0], o->command, what, arg,
		o->usage[0]);
	return sl_err_exit_status(SL_ERR_USAGE);
}

/* Reports an unknown option. It may be a key of the config: --momentum, --train.epochs=3. */
static int unknown_option(const struct sl_options *o, const char *arg)
{
	char name[SL_CONF_TEXT];
	const char *path = NULL;

	snprintf(name, sizeof name, "%.*s", (int)strcspn(arg + strspn(arg, "-"), "="), arg + strspn(arg, "-"));
	for (char *c = name; *c; c++)
		*c = *c == '-' ? '_' : *c;
	if (o->keys)
		path = sl_conf_find(o->keys, name) >= 0 ? name : sl_conf_elsewhere(o->keys, name);
	if (!path)
		return usage_error(o, "unknown option", arg);
	fprintf(stderr, "%.*s %s: unknown option '%s'; a key of the config is set by --set %s=VALUE\n",
		program_length(o), o->usage[0], o->command, arg, path);
	return sl_err_exit_status(SL_ERR_USAGE);
}

static void print_option(const char *name, const char *value, const char *help)
{
	int at = printf("  %s%s%s", name, value ? " " : "", value ? value : "");

	if (at + 2 > HELP_COLUMN)
		at = printf("\n") - 1;
	printf("%*s", HELP_COLUMN - at, "");
	sl_print_wrapped(stdout, help, HELP_COLUMN, SL_WRAP_WIDTH);
}

static void print_usage(const struct sl_options *o, unsigned takes)
{
	sl_print_wrapped(stdout, o->usage[0], printf("usage: "), SL_WRAP_WIDTH);
	for (int i = 1; o->usage[i]; i++) {
		printf("\n  ");
		sl_print_wrapped(stdout, o->usage[i], 2, SL_WRAP_WIDTH);
	}
	printf("\noptions:\n");
	for (int i = 0; i < OPTIONS; i++)
		if (takes & table[i].takes)
			print_option(table[i].name, table[i].value, table[i].help);
	print_option("-h, --help", NULL, "print this help");
}

/* Finds an option. `arg`: --name, or --name=value if it takes a value. */
static const struct option *find(const char *arg, unsigned takes)
{
	size_t len = strcspn(arg, "=");

	for (int i = 0; i < OPTIONS; i++)
		if ((takes & table[i].takes) && strlen(table[i].name) == len && strncmp(arg, table[i].name, len) == 0 &&
		    (!arg[len] || table[i].value))
			return &table[i];
	return NULL;
}

/* Returns how many arguments it took; 0: the value is missing, or is one too many. */
static int take(struct sl_options *o, const struct option *option, const char *value)
{
	char *at = (char *)o + option->at;

	if (!option->value) {
		*(bool *)at = true;
		return 1;
	}
	if (!value)
		return 0;
	if (option->takes & SL_OPT_MANY) {
		const char **list = (void *)at;
		int n = 0;

		while (list[n])
			n++;
		if (n == SL_MAX_PARTIES)
			return 0;
		list[n] = value;
		return 2;
	}
	if (option->at) {
		if ((option->takes & SL_OPT_ONCE) && *(const char **)(void *)at)
			return 0;
		*(const char **)(void *)at = value;
		return 2;
	}
	if (o->n_set == SL_MAX_SETS)
		return 0;
	o->set[o->n_set++] = value;
	return 2;
}

int sl_options_parse(struct sl_options *o, int argc, char **argv, unsigned takes, int operands)
{
	o->positional = (const char **)argv;
	for (int i = 0, taken; i < argc; i += taken) {
		const struct option *option = find(argv[i], takes);

		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			print_usage(o, takes);
			return 0;
		}
		if (option) {
			const char *joined = strchr(argv[i], '=');

			taken = take(o, option, joined ? joined + 1 : i + 1 < argc ? argv[i + 1] : NULL);
			if (!taken)
				return usage_error(o, "no value (or too many) for", argv[i]);
			taken = joined ? 1 : taken;
			continue;
		}
		if (argv[i][0] == '-' && argv[i][1])
			return unknown_option(o, argv[i]);
		if (o->n_positional == operands)
			return usage_error(o, "one argument too many:", argv[i]);
		o->positional[o->n_positional++] = argv[i];
		taken = 1;
	}
	o->config = o->n_positional > 0 ? o->positional[0] : NULL;
	o->operand = o->n_positional > 1 ? o->positional[1] : NULL;
	return -1;
}

enum sl_err sl_options_whom(const struct sl_options *o, const struct sl_conf_schema *schema, void *conf,
			    const char *text, struct sl_fail *fail)
{
	if (o->json + o->prometheus + o->live + o->ready > 1)
		return sl_fail_set(fail, SL_ERR_USAGE, "%s: --json, --prometheus, --live or --ready: one of them",
				   o->command);
	if (o->watch && (o->prometheus || o->live || o->ready))
		return sl_fail_set(fail, SL_ERR_USAGE, "%s: --watch goes with a table or --json", o->command);
	if (o->quiet && !o->live && !o->ready)
		return sl_fail_set(fail, SL_ERR_USAGE, "%s: --quiet goes with --live or --ready", o->command);
	if (o->control)
		return SL_OK;
	return o->config ? sl_conf_load(schema, conf, o->config, o->set, o->n_set, fail)
			 : sl_conf_parse(schema, conf, "default", text, strlen(text), o->set, o->n_set, fail);
}

int sl_options_missing(const struct sl_options *o, const char *what)
{
	return usage_error(o, "missing argument", what);
}

int sl_options_failed(const char *program, const struct sl_fail *fail)
{
	fprintf(stderr, "%s%s: %s\n", sl_log_priority(SL_LOG_ERROR), program, fail->text);
	return sl_err_exit_status(fail->code);
}
