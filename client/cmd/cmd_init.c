#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cmd/command.h"
#include "client/cmd/preset.h"
#include "common/base/log.h"
#include "common/base/newfile.h"

static const char *const usage[] = {
	"splitc init [FILE] [--server ADDRESS] [--model NAME] [--data KIND:DIR] [--cut CUT] [--force]",
	"Writes a config with comments to FILE (splitc.yaml), for `splitc train FILE`. In a terminal it asks for "
	"what no option gives. An empty answer, or no terminal, takes the demo's value.",
	"KIND is cifar10, cifar100, images (a folder with train and val), webdataset (tar files), csv (a table), text "
	"or a task of GLUE, such as cola. Of pictures and tables the folder alone will do. NAME is a built-in network, "
	"onnx:FILE, or huggingface:FOLDER, which reads texts. Sizes are those that suit data and network. CUT is 1:-1, "
	"which keeps the first and the last unit of the network on this host, or two names, such as "
	"features.0.1,classifier.",
	NULL,
};

enum { ANSWER = PATH_MAX };

/* Reads one line; "" at the end of input. */
static void read_answer(char out[ANSWER])
{
	out[0] = 0;
	if (fgets(out, ANSWER, stdin))
		out[strcspn(out, "\r\n")] = 0;
	else
		fputc('\n', stderr);
}

/* Asks until the preset with the answer is valid. *at is the preset's field for it. If an option has set *at, it
 * only checks the preset. */
static enum sl_err ask(const char *question, const char *usual, const char **at, char answer[ANSWER],
		       const struct sl_preset *preset, struct sl_fail *fail)
{
	char text[SL_PRESET_TEXT];
	struct sl_conf_client conf;

	if (*at)
		return sl_preset_make(text, &conf, preset, fail);
	for (;;) {
		fprintf(stderr, "%s [%s]: ", question, usual);
		read_answer(answer);
		*at = answer[0] ? answer : usual;
		if (sl_preset_make(text, &conf, preset, fail) == SL_OK)
			return SL_OK;
		fprintf(stderr, "  %s\n", fail->text);
		if (feof(stdin))
			return fail->code;
	}
}

static enum sl_err ask_all(struct sl_preset *p, char answer[4][ANSWER], struct sl_fail *fail)
{
	bool texts = false;
	enum sl_err err = ask("Server, tcp://HOST:PORT", "tcp://127.0.0.1:5570", &p->server, answer[0], p, fail);

	if (!err)
		err = ask("Network, a name (? lists them), onnx:FILE or huggingface:FOLDER", "mobilenet_v2", &p->model,
			  answer[1], p, fail);
	texts = !err && strncmp(p->model, "huggingface:", 12) == 0;
	if (!err && texts)
		err = ask("Data, text:FOLDER, or TASK:FOLDER with a task of GLUE", "cola:glue", &p->data, answer[2], p,
			  fail);
	else if (!err)
		err = ask("Data, KIND:FOLDER, the kind cifar10, cifar100, images, webdataset or csv",
			  "cifar10:data/cifar-10-batches-bin", &p->data, answer[2], p, fail);
	if (!err)
		err = ask("Cut, first units here : minus last units here", texts ? "2:-1" : "1:-1", &p->cut, answer[3],
			  p, fail);
	return err;
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

static enum sl_err init(const struct sl_options *o, const char *path, struct sl_conf_client *conf,
			struct sl_fail *counted, struct sl_fail *fail)
{
	struct sl_preset preset = {
		.server = o->server, .model = o->model, .data = o->data, .cut = o->cut, .counted = counted};
	char answer[4][ANSWER], log_dir[ANSWER], text[SL_PRESET_TEXT];
	enum sl_err err = SL_OK;

	log_dir_of(path, log_dir);
	preset.log_dir = log_dir;
	if (!o->force && access(path, F_OK) == 0) /* before anything is asked */
		return say_there(path, fail);
	if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) {
		const enum sl_log_level level = sl_log_level();

		sl_log_set_level(SL_LOG_ERROR); /* each answer is checked with the data: warnings come at the end */
		err = ask_all(&preset, answer, fail);
		sl_log_set_level(level);
	}
	if (!err)
		err = sl_preset_make(text, conf, &preset, fail);
	if (err)
		return err;
	return o->force ? sl_newfile_put(path, 0666, SL_FP_NONE, text, strlen(text), fail)
			: write_new(path, text, fail);
}

/* Says what was chosen from a table, since the user may see it otherwise. */
static void say_columns(const struct sl_conf_client *c)
{
	if (c->model.task == SL_CONF_NUMBERS)
		printf("The label is the column \"%s\", a number", c->data.label.item[0]);
	else
		printf("The label is the column \"%s\", of %d classes", c->data.label.item[0], c->model.classes);
	printf("; the other columns make %d feature%s", c->model.features, c->model.features == 1 ? "" : "s");
	for (int i = 0; i < c->data.ignore.n; i++)
		printf("%s%s", i ? ", " : ". Left out, because they tell nothing: ", c->data.ignore.item[i]);
	printf(".%s\n",
	       c->data.missing == SL_MISSING_MEAN ? " Cells are missing, and count as their column's mean." : "");
}

int splitc_init(int argc, char **argv)
{
	struct sl_options o = {.command = "init", .usage = usage};
	struct sl_conf_client conf;
	struct sl_fail counted, fail;
	const char *path;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_INIT, 1);

	if (status >= 0)
		return status;
	path = o.config ? o.config : "splitc.yaml";
	if (init(&o, path, &conf, &counted, &fail) != SL_OK)
		return sl_command_failed(&fail);
	printf("%s is written. What comes next:\n  splitc train %s --check-config\n  splitc train %s\n", path, path,
	       path);
	printf("The run needs splits at %s, unless you give --local.\n", conf.server);
	if (conf.data.kind == SL_DATA_CSV && counted.code == SL_OK && !conf.model.onnx[0] &&
	    access(conf.data.dir, R_OK) == 0)
		say_columns(&conf);
	if (counted.code == SL_OK && counted.text[0])
		printf("The classes are %s.\n", counted.text);
	if (access(conf.data.dir, R_OK) != 0)
		printf("The folder of the data, %s, does not exist yet.\n", conf.data.dir);
	if (counted.code == SL_OK || conf.model.onnx[0]) /* an ONNX file defines how many */
		return 0;
	printf("The classes could not be counted (%s). Run `splitc init %s --force` again once the data are "
	       "right, or set model.classes yourself.\n",
	       counted.text, path);
	return access(conf.data.dir, R_OK) == 0 ? sl_err_exit_status(counted.code) : 0; /* the data may come later */
}
