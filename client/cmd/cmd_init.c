#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cmd/command.h"
#include "client/cmd/preset.h"
#include "client/cmd/preset_keys.h"
#include "client/cmd/preset_party.h"
#include "common/base/log.h"
#include "common/base/newfile.h"
#include "common/conf/key.h"

static const char *const usage[] = {
	"splitc init [FILE] [--data DATA] [--model NAME] [--cut CUT] [--server ADDRESS] [--party ROLE] "
	"[--set KEY=VALUE]… [--force]",
	"Writes a config with comments to FILE (splitc.yaml), for `splitc train FILE`. In a terminal it asks for "
	"what no option gives. An empty answer, or no terminal, takes the demo's value.",
	"DATA is a folder of pictures, a table (.csv), texts (.jsonl, .tsv, .csv, .txt), tar files, volumes (NIfTI) "
	"with masks, or a folder with one of these. init finds out which. KIND:DATA names the kind: cifar10, "
	"cifar100, images, webdataset, volumes, csv, "
	"text or a task of GLUE, such as cola. NAME is a built-in network, FILE.safetensors as split.write_network "
	"writes it, or huggingface:FOLDER, which reads texts. Sizes are those that suit data and network. "
	"CUT is 1:-1, "
	"which keeps the first and the last unit of the network on this host, or two names, such as "
	"features.0.1,classifier.",
	"--party features and --party labels write the two configs of a vertical pair, from the members' tables.",
	"With --force, init keeps the keys that you have changed in FILE, and chooses the others anew. --set adds "
	"keys, such as --set data.label=price.",
	NULL,
};

#define NAME(name, has) #name ", "
enum { ANSWER = PATH_MAX };
enum { DATA, NETWORK, LABEL, CUT, SERVER, QUESTIONS };

static const struct {
	const char *text, *help;
} questions[QUESTIONS] = {
	[DATA] = {"Data, a folder or a file",
		  "A folder of pictures with a folder for each class, a table (.csv), texts (.jsonl, .tsv, .csv or "
		  ".txt), "
		  "or tar files. KIND:PLACE names the kind: cifar10, cifar100, images, webdataset, volumes, csv, text, "
		  "or a task "
		  "of GLUE, such as cola."},
	[NETWORK] = {"Network", "Pictures: one of " SL_BUILT_IN_NETWORKS(
					NAME) "or your own, FILE.safetensors. Tables: mlp, or your own. "
					      "Texts: huggingface:FOLDER, with config.json and a tokenizer."},
	[LABEL] = {"Label, the column to be predicted", "The other columns are what the network predicts it from."},
	[CUT] = {"Cut, first units here : minus last units here",
		 "1:-1 keeps the first and the last unit of the network on this host; the server computes what is "
		 "between. Two names are a cut, too, such as features.0.1,classifier. docs/howto-choose.md compares "
		 "cuts."},
	[SERVER] = {"Server, tcp://HOST:PORT", "Where splits listens. A run with --local needs none."},
};

/* The dialog: its answers, and the config that they give so far. */
struct dialog {
	struct sl_preset *preset;
	char answer[QUESTIONS][ANSWER], usual[ANSWER];
	struct sl_preset_found found;
	struct sl_conf_client *conf;
	bool made; /* conf is complete */
};

/* Reads one line; "" at the end of input. */
static void read_answer(char out[ANSWER])
{
	out[0] = 0;
	if (fgets(out, ANSWER, stdin))
		out[strcspn(out, "\r\n")] = 0;
	else
		fputc('\n', stderr);
}

static const char **slot(struct sl_preset *p, int question)
{
	const char **all[QUESTIONS] = {&p->data, &p->model, &p->label, &p->cut, &p->server};

	return all[question];
}

/* What an empty answer means; "": there must be an answer. */
static const char *usual_of(struct dialog *d, int question)
{
	const struct sl_conf_client *c = d->conf;

	if (question == DATA)
		return "cifar10:data/cifar-10-batches-bin";
	if (!d->made)
		return "";
	if (question == CUT && c->head_end[0]) {
		snprintf(d->usual, sizeof d->usual, "%s,%s", c->head_end, c->tail_begin);
		return d->usual;
	}
	return question == NETWORK ? c->model.name
	       : question == LABEL ? d->found.label
	       : question == CUT   ? c->partition
				   : c->server;
}

/* Makes the config of the answers so far. */
static enum sl_err make(struct dialog *d, struct sl_fail *fail)
{
	char text[SL_PRESET_TEXT];
	enum sl_err err = sl_preset_make(text, d->conf, d->preset, fail);

	d->made = !err;
	return err;
}

/* Checks an answer. Data may still lack their network. */
static bool is_right(struct dialog *d, int question, struct sl_fail *fail)
{
	if (make(d, fail) == SL_OK || (question == DATA && d->found.what)) {
		if (question == DATA && d->found.what)
			fprintf(stderr, "  Found: %s.\n", d->found.what);
		return true;
	}
	fprintf(stderr, "  %s\n", fail->text);
	return false;
}

/* Asks one question. Returns the step to the next: 1, 0 where the answer is not right, or -1, back. */
static int ask(struct dialog *d, int question, struct sl_fail *fail)
{
	const char **at = slot(d->preset, question), *usual = usual_of(d, question);
	char *answer = d->answer[question];

	fprintf(stderr, "%s", questions[question].text);
	if (question == LABEL)
		fprintf(stderr, " (%s)", d->found.columns);
	fprintf(stderr, usual[0] ? " [%s]: " : "%s: ", usual);
	read_answer(answer);
	if (strcmp(answer, "?") == 0)
		fprintf(stderr, "  %s\n", questions[question].help);
	if (strcmp(answer, "?") == 0)
		return 0;
	if (strcmp(answer, "<") == 0)
		return -1;
	if (!answer[0])
		snprintf(answer, ANSWER, "%s", usual);
	*at = answer;
	if (answer[0] && is_right(d, question, fail))
		return 1;
	*at = NULL;
	return 0;
}

/* Asks for what no option gives. `<` goes back to the question before. */
static enum sl_err ask_all(struct dialog *d, struct sl_fail *fail)
{
	bool given[QUESTIONS];
	int step = 1;

	for (int i = 0; i < QUESTIONS; i++)
		given[i] = *slot(d->preset, i) != NULL;
	fprintf(stderr, "An empty answer takes what is in brackets. ? explains a question, < goes back.\n");
	if (given[DATA] && make(d, fail) && !d->found.what)
		return fail->code;
	for (int i = 0; i < QUESTIONS; i += step) {
		if (i < 0)
			i = 0, step = 1;
		if (given[i] || (i == LABEL && !d->found.columns[0]))
			continue;
		if (step < 0) {
			*slot(d->preset, i) = NULL;
			(void)!make(d, fail);
		}
		step = ask(d, i, fail);
		if (feof(stdin) && step == 0)
			return fail->code ? fail->code : SL_ERR_CONFIG;
	}
	return SL_OK;
}

/* The log.dir of a config: runs/splitc for splitc.yaml, so that two configs have a folder each. */
static void log_dir_of(const char *path, char out[ANSWER])
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');

	snprintf(out, ANSWER, "runs/%.*s", dot && dot > name ? (int)(dot - name) : (int)strlen(name), name);
}

static enum sl_err say_there(const char *path, struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_CANTCREATE,
			   "init: %s exists already: give --force to replace it, or name another FILE", path);
}

static enum sl_err write_new(const char *path, const char *text, struct sl_fail *fail)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	ssize_t n;

	if (fd < 0 && errno == EEXIST)
		return say_there(path, fail);
	if (fd < 0)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "init: %s: %s", path, strerror(errno));
	n = write(fd, text, strlen(text));
	if (n == (ssize_t)strlen(text) && fsync(fd) == 0 && close(fd) == 0)
		return SL_OK;
	unlink(path);
	return sl_fail_set(fail, SL_ERR_IO, "init: %s: %s", path, strerror(errno));
}

/* The answers that a config holds. */
struct before {
	struct sl_conf_client conf;
	char model[ANSWER + SL_CONF_TEXT], data[ANSWER + 16], cut[2 * SL_CONF_TEXT + 2];
};

static void read_answers(struct before *b, struct sl_preset *p)
{
	const struct sl_conf_client *c = &b->conf;

	snprintf(b->model, sizeof b->model, "%s%s",
		 c->model.network[0]       ? SL_CONF_NETWORK ":"
		 : c->model.huggingface[0] ? SL_CONF_HUGGINGFACE ":"
					   : c->model.name,
		 c->model.network[0] ? c->model.network : c->model.huggingface);
	snprintf(b->data, sizeof b->data, "%s:%s", sl_conf_data_kinds[c->data.kind], c->data.dir);
	snprintf(b->cut, sizeof b->cut, "%s%s%s", c->head_end[0] ? c->head_end : c->partition,
		 c->head_end[0] ? "," : "", c->tail_begin);
	*p = (struct sl_preset){
		.server = c->server, .model = b->model, .data = b->data, .cut = b->cut, .log_dir = c->log.dir};
}

/* Reads the config that is there. Its answers are those that no option gives, and *user becomes what the user has
 * changed in it. A file that is no config is only replaced. */
static void read_before(struct before *b, struct sl_conf_client *user, struct sl_preset *p, const char *path)
{
	static struct sl_conf_client made;
	const enum sl_log_level level = sl_log_level();
	struct sl_preset was;
	char text[SL_PRESET_TEXT];
	struct sl_fail fail;

	if (sl_conf_client_load(&b->conf, path, NULL, 0, &fail) != SL_OK) {
		printf("Nothing of %s is kept, since it is no config: %s\n", path, fail.text);
		return;
	}
	read_answers(b, &was);
	if (sl_preset_has(&b->conf, "data.label")) /* it decides what else init chooses, so it stays */
		was.label = b->conf.data.label.item[0];
	*user = b->conf;
	sl_log_set_level(SL_LOG_ERROR); /* warnings come with the new config */
	sl_preset_forget(user, sl_preset_make(text, &made, &was, &fail) == SL_OK ? &made : NULL);
	sl_log_set_level(level);
	p->server = p->server ? p->server : was.server;
	p->cut = p->cut || (p->model && strcmp(p->model, was.model) != 0) ? p->cut : was.cut;
	/* other data may want another network */
	p->model = p->model || (p->data && strcmp(p->data, was.data) != 0) ? p->model : was.model;
	p->data = p->data ? p->data : was.data;
	p->log_dir = was.log_dir;
}

static enum sl_err init(const struct sl_options *o, const char *path, struct sl_conf_client *conf,
			struct sl_preset_found *found, struct sl_fail *counted, struct sl_fail *fail)
{
	static struct dialog d;
	static struct before before;
	static struct sl_conf_client user;
	struct sl_preset preset = {.server = o->server,
				   .model = o->model,
				   .data = o->data,
				   .cut = o->cut,
				   .user = &user,
				   .counted = counted,
				   .found = &d.found};
	const char *set[SL_PRESET_PARTY_SETS];
	char log_dir[ANSWER], text[SL_PRESET_TEXT], role[SL_CONF_TEXT];
	enum sl_err err = SL_OK;

	log_dir_of(path, log_dir);
	preset.log_dir = log_dir;
	if (!o->force && access(path, F_OK) == 0) /* before anything is asked */
		return say_there(path, fail);
	if (o->force && access(path, F_OK) == 0)
		read_before(&before, &user, &preset, path);
	err = sl_conf_parse(&sl_conf_client_schema, conf, "init", NULL, 0, set,
			    sl_preset_party_sets(set, role, o, &user), fail);
	if (!err)
		err = sl_preset_check(conf, fail);
	if (!err)
		sl_preset_take(&user, conf);
	if (!err)
		err = sl_preset_party_check(&user, preset.model, fail);
	if (!err && isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) {
		const enum sl_log_level level = sl_log_level();

		d.preset = &preset;
		d.conf = conf;
		preset.lenient = true;
		sl_log_set_level(SL_LOG_ERROR); /* each answer is checked with the data: warnings come at the end */
		err = ask_all(&d, fail);
		sl_log_set_level(level);
		preset.lenient = false;
	}
	if (!err)
		err = sl_preset_make(text, conf, &preset, fail);
	if (!err && conf->data.ids.n && !conf->model.network[0])
		err = sl_fail_set(fail, SL_ERR_CONFIG, "data.ids: %s", sl_setup_no_lookup);
	*found = d.found;
	if (err)
		return err;
	return o->force ? sl_newfile_put(path, 0666, SL_FP_NONE, text, strlen(text), fail)
			: write_new(path, text, fail);
}

/* Says what was chosen from a table, since the user may see it otherwise. */
static void say_columns(const struct sl_conf_client *c)
{
	if (c->model.task != SL_CONF_CLASSES && c->model.classes > 1)
		printf("The labels are %d columns", c->model.classes);
	else if (c->model.task == SL_CONF_NUMBERS)
		printf("The label is the column \"%s\", a number", c->data.label.item[0]);
	else
		printf("The label is the column \"%s\", of %d classes", c->data.label.item[0], c->model.classes);
	printf("; the other columns make %d feature%s", c->model.features, sl_plural(c->model.features));
	for (int i = 0; i < c->data.dates.n; i++)
		printf("%s%s", i ? ", " : ". Dates: ", c->data.dates.item[i]);
	for (int i = 0; i < c->data.ignore.n; i++)
		printf("%s%s", i ? ", " : ". Left out, because they tell nothing: ", c->data.ignore.item[i]);
	printf(".%s\n",
	       c->data.missing == SL_MISSING_MEAN ? " Cells are missing, and count as their column's mean." : "");
}

/* Writes a word as a shell reads it. */
static void quote_word(const char *word, char out[2 * ANSWER])
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+=:,@%";
	size_t n = 0;

	if (word[0] && strspn(word, plain) == strlen(word)) {
		snprintf(out, 2 * ANSWER, "%s", word);
		return;
	}
	out[n++] = '\'';
	for (; *word && n + 6 < 2 * ANSWER; word++)
		n += (size_t)sprintf(out + n, *word == '\'' ? "'\\''" : "%c", *word);
	strcpy(out + n, "'");
}

int splitc_init(int argc, char **argv)
{
	struct sl_options o = {.command = "init", .usage = usage, .keys = &sl_conf_client_schema};
	struct sl_preset_found found = {.what = NULL};
	static struct sl_conf_client conf;
	struct sl_fail counted, fail;
	char word[2 * ANSWER];
	const char *path;
	bool pair;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_INIT, 1);

	if (status >= 0)
		return status;
	path = o.config ? o.config : "splitc.yaml";
	if (init(&o, path, &conf, &found, &counted, &fail) != SL_OK)
		return sl_command_failed(&fail);
	quote_word(path, word);
	pair = sl_agreed_is_vertical(&conf.agreed);
	printf("%s is written. What comes next:\n  splitc train %s --check-config\n  splitc train %s\n", path, word,
	       word);
	printf("The run needs splits at %s%s.\n", conf.server, pair ? "" : ", unless you give --local");
	if (found.what)
		printf("The data are %s (%s).\n", found.what, sl_conf_data_kinds[conf.data.kind]);
	if (pair && !counted.code)
		sl_preset_party_say(&conf, word);
	else if (conf.data.kind == SL_DATA_VOLUMES)
		printf("Look at data.spacing, the median of the files, and at data.intensity, a guess from one of "
		       "them: docs/howto-volumes.md.\n");
	else if (conf.data.kind == SL_DATA_CSV && !counted.code && !conf.model.network[0] &&
		 access(conf.data.dir, R_OK) == 0)
		say_columns(&conf);
	if (!counted.code && counted.text[0])
		printf("The classes are %s.\n", counted.text);
	if (found.unequal)
		printf("One class has less than a fifth of the samples of another, so accuracy says little: "
		       "train.metrics has "
		       "balanced_accuracy and auc. data.sampling: balanced makes the small class count.\n");
	if (access(conf.data.dir, R_OK) != 0)
		printf("The folder of the data, %s, does not exist yet.\n", conf.data.dir);
	if (!counted.code || conf.model.network[0]) /* the file defines how many */
		return 0;
	printf("The %s could not be counted (%s). Mend the data, or set what is wrong, such as `splitc init %s "
	       "--force --set data.%s=NAME`: what you have changed in %s stays.\n",
	       sl_conf_lacks_labels(&conf) ? "features" : "classes", counted.text, word, pair ? "id" : "label", path);
	return access(conf.data.dir, R_OK) == 0 ? sl_err_exit_status(counted.code) : 0; /* the data may come later */
}
