#include <stdio.h>
#include <string.h>

#include "common/link/key.h"
#include "server/command.h"

static const char usage[] = "splits keygen [--out FILE]";

int splits_keygen(int argc, char **argv)
{
	const char *path = "splits.key";
	struct sl_fail fail;
	enum sl_err err;

	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			printf("usage: %s\n  Makes a key pair in a new FILE (splits.key), and prints the public key, "
			       "which "
			       "clients need.\n",
			       usage);
			return 0;
		}
		if (strcmp(argv[i], "--out") == 0 && i + 1 < argc) {
			path = argv[++i];
		} else {
			fprintf(stderr, "splits keygen: unexpected '%s'; usage: %s\n", argv[i], usage);
			return sl_err_exit_status(SL_ERR_USAGE);
		}
	}
	err = sl_keygen(path, stdout, &fail);
	if (err)
		fprintf(stderr, "splits: %s\n", fail.text);
	return sl_err_exit_status(err);
}
