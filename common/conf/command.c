#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/nearest.h"
#include "common/base/version.h"
#include "common/conf/options.h"

static void print_help(FILE *to, const char *program, const struct sl_command *commands)
{
	fprintf(to, "usage: %s COMMAND …\n\n", program);
	for (const struct sl_command *c = commands; c->name; c++)
		fprintf(to, "  %-8s  %s\n", c->name, c->help);
	fprintf(to, "\n`%s COMMAND --help` says more, and `man %s`.\nErrors end with an exit status of sysexits.h.\n",
		program, program);
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

int sl_command_run(const char *program, const char *build, const char *computes_with, const struct sl_command *commands,
		   int argc, char **argv)
{
	char help[] = "--help", *ask[] = {help, NULL};
	int status = SL_FAILPOINT_MAIN(argc, argv);

	if (status >= 0)
		return status;
	signal(SIGPIPE, SIG_IGN);
	if (argc < 2) {
		print_help(stderr, program, commands);
		return sl_err_exit_status(SL_ERR_USAGE);
	}
	if (is_one_of(argv[1], "--version", "-V")) {
		printf("%s %s (%s), %s\n", program, SL_VERSION, build, computes_with);
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
