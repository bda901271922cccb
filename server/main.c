#include <signal.h>
#include <stdio.h>

#include "common/base/failpoint.h"
#include "common/base/version.h"
#include "kernels/cpu/cpu.h"
#include "server/command.h"

static const struct sl_command commands[] = {
	{"serve", splits_serve, "train the middle layers for clients"},
	{"keygen", splits_keygen, "make this server's key pair"},
	{"status", splits_status, "what a running splits is doing"},
	{NULL, NULL, NULL},
};

int main(int argc, char **argv)
{
	int status = SL_FAILPOINT_MAIN(argc, argv);
	char version[256];

	if (status >= 0)
		return status;
	signal(SIGPIPE, SIG_IGN);
	snprintf(version, sizeof version, "%s (%s), %s", SL_VERSION, SL_BUILD_VERSION, sl_cpu_describe());
	return sl_command_run("splits", version, commands, argc, argv);
}
