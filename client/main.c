#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "client/command.h"
#include "common/base/failpoint.h"
#include "common/base/version.h"
#include "kernels/cpu/cpu.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} command[] = {
	{"train", splitc_train, "train a network with a server, or with --local in this process"},
	{"eval", splitc_eval, "accuracy of trained weights on the test set"},
	{"flops", splitc_flops, "multiply-accumulates and parameters of head, middle and tail"},
	{"codecs", splitc_codecs, "list the codecs"},
	{"sweep", splitc_sweep, "train the same run with every codec of a list, to a CSV and pictures"},
	{"keygen", splitc_keygen, "make this client's key pair"},
	{"status", splitc_status, "what a running splitc is doing"},
	{"export", splitc_export, "write the trained model as one safetensors file for torchvision"},
};

enum { COMMANDS = sizeof command / sizeof command[0] };

static void print_help(FILE *to)
{
	fprintf(to, "usage: splitc COMMAND …\n\n");
	for (int i = 0; i < COMMANDS; i++)
		fprintf(to, "  %-8s %s\n", command[i].name, command[i].help);
	fprintf(to, "\n`splitc COMMAND --help` says more. Errors end with an exit status of sysexits.h.\n");
}

int main(int argc, char **argv)
{
	int status = SL_FAILPOINT_MAIN(argc, argv);

	if (status >= 0)
		return status;
	signal(SIGPIPE, SIG_IGN);
	if (argc < 2) {
		print_help(stderr);
		return sl_err_exit_status(SL_ERR_USAGE);
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
		print_help(stdout);
		return 0;
	}
	if (strcmp(argv[1], "--version") == 0) {
		printf("splitc %s (%s), %s\n", SL_VERSION, SL_BUILD_VERSION, sl_cpu_describe());
		return 0;
	}
	for (int i = 0; i < COMMANDS; i++)
		if (strcmp(argv[1], command[i].name) == 0)
			return command[i].run(argc - 2, argv + 2);
	fprintf(stderr, "splitc: unknown command '%s'; `splitc --help` lists them\n", argv[1]);
	return sl_err_exit_status(SL_ERR_USAGE);
}
