#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/nearest.h"
#include "common/base/program.h"
#include "common/base/version.h"
#include "common/conf/options.h"

static void print_help(FILE *to, const char *program, const struct sl_command *commands)
{
	fprintf(to, "usage: %s COMMAND …\n\n", program);
	for (const struct sl_command *c = commands; c->name; c++)
		fprintf(to, "  %-8s  %s\n", c->name, c->help);
	fprintf(to, "\nFor more, run `%s COMMAND --help`. `man %s` has the exit statuses.\n", program, program);
}

static bool is_one_of(const char *word, const char *a, const char *b)
{
	return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

static int run(const char *program, const struct sl_command *commands, const char *name, int argc, char **argv)
{
	struct sl_nearest best = {NULL, 0};

	for (const struct sl_command *c = commands; c->name; c++) {
		if (strcmp(name, c->name) == 0)
			return c->run(argc, argv);
		sl_nearest_offer(&best, name, strlen(name), c->name);
	}
	fprintf(stderr, "%s: unknown command '%s'", program, name);
	if (best.name)
		fprintf(stderr, ": did you mean '%s'?\n", best.name);
	else
		fprintf(stderr, "; `%s --help` lists them\n", program);
	return sl_err_exit_status(SL_ERR_USAGE);
}

/* Opens /dev/null for each standard stream that the caller has closed. Otherwise the next file that is opened would
 * take its place, and lines of the log would land in log.jsonl or in a checkpoint. To read a closed stdin, or to write
 * to a closed stdout, is an error: what would be lost is not success. */
static void open_closed_streams(void)
{
	static const int how[] = {[STDIN_FILENO] = O_WRONLY, [STDOUT_FILENO] = O_RDONLY, [STDERR_FILENO] = O_RDWR};

	for (int i = 0; i < (int)(sizeof how / sizeof how[0]); i++)
		if (fcntl(i, F_GETFD) < 0 && errno == EBADF)
			(void)!open("/dev/null", how[i]); /* the lowest that is free: i. Children inherit it */
}

/* The exit status after a command. If a full disk has swallowed its output, it has not succeeded. If the reader has
 * gone (`| head`), it wanted no more. */
static int status_after_output(const char *program, int status)
{
	struct pollfd out = {.fd = STDOUT_FILENO};
	int why = fflush(stdout) == 0 ? 0 : errno;

	if ((!why && !ferror(stdout)) || status)
		return status;
	if (poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)))
		return status;
	fprintf(stderr, "%s: stdout could not be written completely%s%s\n", program, why ? ": " : "",
		why ? strerror(why) : "");
	return sl_err_exit_status(SL_ERR_IO);
}

static char version[256];

const char *sl_command_version(void)
{
	return version;
}

static int choose(const char *program, const struct sl_command *commands, int argc, char **argv)
{
	char help[] = "--help", *ask[] = {help, NULL};

	if (argc < 2) {
		print_help(stderr, program, commands);
		return sl_err_exit_status(SL_ERR_USAGE);
	}
	if (is_one_of(argv[1], "--version", "-V")) {
		puts(version);
		return 0;
	}
	if (strcmp(argv[1], "help") == 0 && argc > 2)
		return run(program, commands, argv[2], 1, ask);
	if (is_one_of(argv[1], "--help", "-h") || strcmp(argv[1], "help") == 0) {
		print_help(stdout, program, commands);
		return 0;
	}
	return run(program, commands, argv[1], argc - 2, argv + 2);
}

int sl_command_run(const char *program, const char *build, const char *computes_with, const struct sl_command *commands,
		   int argc, char **argv)
{
	int status;

	open_closed_streams();
	(void)sl_started_s();
	status = SL_FAILPOINT_MAIN(argc, argv);
	if (status >= 0)
		return status;
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* at a file's size limit a write then fails, as on a full disk */
	snprintf(version, sizeof version, "%s %s (%s), %s", program, SL_VERSION, build, computes_with);
	return sl_program_end(status_after_output(program, choose(program, commands, argc, argv)));
}
