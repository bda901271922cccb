#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/version.h"
#include "kernels/cpu/cpu.h"
#include "server/command.h"

static void print_help(FILE *to)
{
	fprintf(to, "usage: splits COMMAND …\n\n"
		    "  serve CONFIG   train the middle layers for clients\n"
		    "  keygen         make this server's key pair\n"
		    "  status         what a running splits is doing\n"
		    "\n`splits COMMAND --help` says more. Errors end with an exit status of sysexits.h.\n");
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
		printf("splits %s (%s), %s\n", SL_VERSION, SL_BUILD_VERSION, sl_cpu_describe());
		return 0;
	}
	if (strcmp(argv[1], "serve") == 0)
		return splits_serve(argc - 2, argv + 2);
	if (strcmp(argv[1], "keygen") == 0)
		return splits_keygen(argc - 2, argv + 2);
	if (strcmp(argv[1], "status") == 0)
		return splits_status(argc - 2, argv + 2);
	fprintf(stderr, "splits: unknown command '%s'; `splits --help` lists them\n", argv[1]);
	return sl_err_exit_status(SL_ERR_USAGE);
}
