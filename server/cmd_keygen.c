#include <stdio.h>

#include "common/link/key.h"
#include "server/command.h"

static const char *const usage[] = {
	"splits keygen [--out FILE]",
	"Makes a key pair in a new FILE (splits.key) and prints the public key. Clients need that key.",
	NULL,
};

int splits_keygen(int argc, char **argv)
{
	struct sl_options o = {.command = "keygen", .usage = usage};
	struct sl_fail fail;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_OUT, 0);

	if (status >= 0)
		return status;
	return sl_keygen(o.out ? o.out : "splits.key", stdout, &fail) ? sl_options_failed("splits", &fail) : 0;
}
