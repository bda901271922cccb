#include <stdio.h>

#include "client/cmd/command.h"
#include "common/link/key.h"

static const char *const usage[] = {
	"splitc keygen [--out FILE]",
	"Makes a key pair in a new FILE (splitc.key) and prints the public key. Add that key to the server's list of "
	"clients.",
	NULL,
};

int splitc_keygen(int argc, char **argv)
{
	struct sl_options o = {.command = "keygen", .usage = usage};
	struct sl_fail fail;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_OUT, 0);

	if (status >= 0)
		return status;
	return sl_keygen(o.out ? o.out : "splitc.key", stdout, &fail) ? sl_command_failed(&fail) : 0;
}
