#include "client/cmd/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"

static void add_arg(struct sl_child *c, const char *arg)
{
	if (c->n_arg + 1 < SL_CHILD_ARGS)
		c->arg[c->n_arg++] = arg;
	else
		c->overflow = true;
}

void sl_child_open(struct sl_child *c, const struct sl_options *o)
{
	*c = (struct sl_child){.n_arg = 0};
	add_arg(c, "splitc");
	add_arg(c, strcmp(o->command, "sweep") == 0 ? "train" : o->command);
	add_arg(c, o->config);
	add_arg(c, "--json");
	if (strcmp(o->command, "sweep") == 0)
		add_arg(c, "--fresh"); /* an interrupted row is run again, not resumed */
	if (o->local)
		add_arg(c, "--local");
	if (o->weights) {
		add_arg(c, "--weights");
		add_arg(c, o->weights);
	}
	for (int i = 0; i < o->n_set; i++)
		sl_child_setting(c, o->set[i]);
}

void sl_child_setting(struct sl_child *c, const char *setting)
{
	add_arg(c, "--set");
	add_arg(c, setting);
}

void sl_child_set(struct sl_child *c, const char *key, const char *value)
{
	char *text;

	if (c->n_text == (int)(sizeof c->text / sizeof c->text[0])) {
		c->overflow = true;
		return;
	}
	text = c->text[c->n_text++];
	if (snprintf(text, SL_CHILD_TEXT, "%s=%s", key, value) >= SL_CHILD_TEXT)
		c->overflow = true;
	sl_child_setting(c, text);
}

static enum sl_err spawn(struct sl_child *c, int out_fd, const char *stderr_path, pid_t *pid, struct sl_fail *fail)
{
	posix_spawn_file_actions_t actions;
	int rc = posix_spawn_file_actions_init(&actions);

	if (rc)
		return sl_fail_set(fail, SL_ERR_OS, "another splitc cannot be started: %s", strerror(rc));
	c->arg[c->n_arg] = NULL;
	rc = posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
	if (stderr_path)
		(void)!unlink(stderr_path); /* an earlier sweep's, or a link; if it cannot be removed, O_EXCL fails */
	if (!rc && stderr_path)
		rc = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, stderr_path,
						      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (!rc)
		rc = posix_spawn(pid, "/proc/self/exe", &actions, NULL, (char *const *)c->arg, environ);
	posix_spawn_file_actions_destroy(&actions);
	return rc ? sl_fail_set(fail, SL_ERR_OS, "another splitc cannot be started: %s", strerror(rc)) : SL_OK;
}

/* The last line of a file that is not empty; "": there is none. */
static void last_line(const char *path, char out[SL_CHILD_TEXT])
{
	FILE *file = path ? fopen(path, "r") : NULL;
	char line[SL_CHILD_TEXT];

	out[0] = 0;
	while (file && fgets(line, sizeof line, file)) {
		line[strcspn(line, "\n")] = 0;
		if (line[0])
			memcpy(out, line, sizeof line);
	}
	if (file)
		fclose(file);
}

/* The file and the folder that it is in, as in `row-01/stderr.log`. */
static const char *short_name(const char *path)
{
	const char *at = path + strlen(path);

	for (int slashes = 0; at > path; at--)
		if (at[-1] == '/' && ++slashes == 2)
			break;
	return at;
}

/* Warns of the warnings that a child's log has: their ids, each once. */
static void tell_warnings(const char *path)
{
	static const char mark[] = "WARN ";
	FILE *file = path ? fopen(path, "r") : NULL;
	char line[SL_CHILD_TEXT], id[SL_CHILD_TEXT + 4], all[SL_CHILD_TEXT] = ",";
	size_t used = 1;

	while (file && fgets(line, sizeof line, file)) {
		const char *text = line + sizeof mark - 1;

		if (strncmp(line, mark, sizeof mark - 1) != 0)
			continue;
		snprintf(id, sizeof id, ", %.*s,", (int)strcspn(text, ":\n"), text);
		if (strstr(all, id) || used + strlen(id) > sizeof all)
			continue;
		used += (size_t)snprintf(all + used, sizeof all - used, "%s", id + 1);
	}
	if (file)
		fclose(file);
	if (used > 1)
		sl_log(SL_LOG_WARN, "row-warned", "%s has warnings: %.*s", short_name(path), (int)used - 3, all + 2);
}

static volatile sig_atomic_t under_way, asked; /* the child that is waited for, or 0; SIGTERM, else the last signal */

/* The child has Ctrl-C from the terminal, too, and ends in good order. A second one kills it. */
static void on_signal(int signum)
{
	if (asked != SIGTERM)
		asked = signum;
	if (under_way && signum == SIGTERM)
		kill(under_way, SIGTERM);
}

bool sl_child_asked_to_end(void)
{
	return asked;
}

static enum sl_err wait_for(struct sl_child *c, pid_t pid, const char *stderr_path, struct sl_fail *fail)
{
	char said[SL_CHILD_TEXT];
	siginfo_t info;
	int status;

	under_way = pid;
	if (asked == SIGTERM) /* between spawn and here */
		kill(pid, SIGTERM);
	/* The process is reaped behind under_way = 0, so that its id cannot be another's while the handler may use it.
	 */
	while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
	under_way = 0;
	if (waitpid(pid, &status, 0) < 0)
		return sl_fail_set(fail, SL_ERR_OS, "waiting for another splitc: %s", strerror(errno));
	c->status = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
	if (WIFEXITED(status) && !c->status)
		return SL_OK;
	last_line(stderr_path, said);
	if (WIFSIGNALED(status))
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "ended by signal %d: %.300s", WTERMSIG(status), said);
	return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "exit status %d%s%.300s", WEXITSTATUS(status), *said ? ": " : "",
			   said);
}

enum sl_err sl_child_run(struct sl_child *c, const char *stderr_path, json_t **out, struct sl_fail *fail)
{
	const struct sigaction action = {.sa_handler = on_signal};
	struct sigaction hangup;
	int fd = memfd_create("summary", MFD_CLOEXEC);
	json_error_t why;
	json_t *root = NULL;
	bool stopped;
	enum sl_err err;
	pid_t pid;

	if (fd < 0)
		return sl_fail_set(fail, SL_ERR_OS, "memfd_create: %s", strerror(errno));
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) /* not under nohup */
		sigaction(SIGHUP, &action, NULL);
	if (c->overflow)
		err = sl_fail_set(fail, SL_ERR_LIMIT, "too many or too long settings for another splitc");
	else
		err = spawn(c, fd, stderr_path, &pid, fail);
	if (!err)
		err = wait_for(c, pid, stderr_path, fail);
	tell_warnings(stderr_path);
	stopped = err && c->status == sl_err_exit_status(SL_ERR_BUSY); /* a run that was stopped has a summary, too */
	if ((!err || stopped) && lseek(fd, 0, SEEK_SET))
		err = sl_fail_set(fail, SL_ERR_OS, "its summary: %s", strerror(errno));
	else if (!err || stopped)
		root = json_loadfd(fd, JSON_REJECT_DUPLICATES, &why);
	if (!err && !root)
		err = sl_fail_set(fail, SL_ERR_DATA, "its summary is not JSON: %s", why.text);
	if (stopped && root)
		err = SL_OK;
	close(fd);
	if (err)
		json_decref(root);
	else
		*out = root;
	return err;
}
