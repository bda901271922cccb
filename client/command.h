/* The sub-commands of splitc. Each takes what follows its name and returns an exit status of sysexits.h; errors go to
 * stderr as one line. */
#ifndef SL_CLIENT_COMMAND_H
#define SL_CLIENT_COMMAND_H

#include <stdbool.h>

#include "common/conf/conf.h"

int splitc_train(int argc, char **argv);
int splitc_eval(int argc, char **argv);
int splitc_flops(int argc, char **argv);
int splitc_codecs(int argc, char **argv);
int splitc_sweep(int argc, char **argv);
int splitc_status(int argc, char **argv);
int splitc_export(int argc, char **argv);
int splitc_keygen(int argc, char **argv);

enum { SL_MAX_SETS = 64 };

/* What most sub-commands take: CONFIG [--set key=value]… [--json] and the like. */
struct sl_options {
	const char *command;      /* "train" */
	const char *const *usage; /* lines, NULL-terminated */
	const char *config;       /* positional 1; NULL: not given */
	const char *operand;      /* positional 2; NULL: not given */
	const char *set[SL_MAX_SETS];
	int n_set;
	bool json, local, resume, check_config, print_config, parity, help;
	const char *weights; /* --weights FILE */
	const char *control; /* --control PATH */
	const char *codecs;  /* --codecs FILE */
	const char *out;     /* --out DIR, --out FILE */
};

enum {
	SL_OPT_LOCAL = 1,
	SL_OPT_JSON = 2,
	SL_OPT_CONFIG = 4, /* --check-config, --print-config, --set */
	SL_OPT_WEIGHTS = 8,
	SL_OPT_CONTROL = 16,
	SL_OPT_SWEEP = 32, /* --codecs, --out DIR */
	SL_OPT_PARITY = 64,
	SL_OPT_OUT = 128, /* --out FILE */
	SL_OPT_RESUME = 256,
};

/* `takes`: SL_OPT_… the command knows; `operands`: most positional arguments. Returns -1 to go on, or the exit status
 * (help printed: 0; a wrong command line: 64). */
int sl_options_parse(struct sl_options *o, int argc, char **argv, unsigned takes, int operands);
/* Loads o->config; handles --check-config and --print-config. -1 to go on, or the exit status. */
int sl_options_load(const struct sl_options *o, struct sl_conf_client *conf);

/* Says that `what` was not given; returns the exit status. */
int sl_options_missing(const struct sl_options *o, const char *what);

/* Prints `splitc: text` and returns the error's exit status. */
int sl_command_failed(const struct sl_fail *fail);

#endif
