/* The command line after a sub-command's name, for both programs. One table names every option with a line of help;
 * parsing, --help and the manual pages (scripts/man.sh, from --help) come from it. Errors go to stderr as one line. */
#ifndef SL_CONF_OPTIONS_H
#define SL_CONF_OPTIONS_H

#include <stdbool.h>

#include "common/conf/conf.h"

enum { SL_MAX_SETS = 64, SL_MAX_PARTIES = 8, SL_MAX_OPERANDS = 32, SL_ANY_OPERANDS = INT_MAX };

struct sl_options_check {
	bool connect;
};

struct sl_options_export {
	bool adapter, training;
	const char *join[SL_MAX_PARTIES + 1]; /* ends with NULL */
};

struct sl_options_lines { /* of predict */
	bool stream;
	const char *listen; /* NULL: not given */
};

struct sl_options_report {
	bool verify;
	const char *format; /* NULL: not given */
};

struct sl_options {
	const char *command;      /* "train" */
	const char *const *usage; /* the synopsis, "splitc train CONFIG …"; then paragraphs; NULL-terminated */
	const struct sl_conf_schema *keys; /* of its config: an unknown option may be one of them. NULL: it has none */
	/* What a command of splitc checks of its config besides, with --check-config too; NULL: nothing. Set it
	 * before parsing. */
	enum sl_err (*suits)(const struct sl_options *o, const struct sl_conf_client *conf, struct sl_fail *fail);
	const char **positional; /* in argv */
	int n_positional;
	const char *config;  /* the first of them; NULL: not given */
	const char *operand; /* the second */
	const char *set[SL_MAX_SETS];
	int n_set;
	bool json, local, resume, fresh, auto_resume, check_config, print_config, parity, prometheus, measure, csv,
		logits, live, ready, quiet, watch, force, text, cuts, pair, stats, ids;
	struct sl_options_check check;
	struct sl_options_export export;
	struct sl_options_lines lines;
	struct sl_options_report report;
	const char *weights, *control, *codecs, *out, *shape, *threads; /* NULL: not given */
	const char *server, *model, *data, *cut, *role;                 /* of init; the same */
	const char *max_length, *task, *split, *columns, *format;       /* of tokens; NULL: not given */
	const char *sheet;                                              /* of data; NULL: not given */
	const char *figure;                                             /* of plot; NULL: not given */
	const char *top;                                                /* of predict; NULL: not given */
	const char *epochs, *batch, *lr;                                /* of train; NULL: not given */
	const char *steps;                                              /* of audit and leak; NULL: not given */
	const char *minutes;                                            /* of leak; the same */
	const char *lr_range;                                           /* of sweep; NULL: not given */
	const char *prompt, *prompts;                                   /* of generate; NULL: not given */
	const char *clients, *absent, *alone;                           /* of train --local; NULL: not given */
	const char *party[SL_MAX_PARTIES + 1];                          /* of that and of leak; ends with NULL */
};

enum {
	SL_OPT_LOCAL = 1,
	SL_OPT_JSON = 2,
	SL_OPT_CONFIG = 4, /* --check-config, --print-config, --set */
	SL_OPT_WEIGHTS = 8,
	SL_OPT_CONTROL = 16, /* --control, --prometheus, --live, --ready, --quiet, --watch */
	SL_OPT_SWEEP = 32,   /* --codecs, --lr-range, --out DIR */
	SL_OPT_PARITY = 64,
	SL_OPT_OUT = 128,      /* --out FILE */
	SL_OPT_RESUME = 256,   /* --resume, --fresh, --auto-resume */
	SL_OPT_MEASURE = 512,  /* --measure, --shape, --threads */
	SL_OPT_PREDICT = 1024, /* --logits, --csv, --top, --out FILE, --force, and --json of lines */
	SL_OPT_INIT = 2048,    /* --server, --model, --data, --cut, --party, --force */
	SL_OPT_PLOT = 4096,    /* --out PICTURE, --figure */
	SL_OPT_TOKENS = 8192,  /* --text, --pair, --max-length, --stats, --task, --split, --columns, --format, --json */
	SL_OPT_GRAPH = 16384,  /* --text, --cuts */
	SL_OPT_DATA = 32768,   /* --sheet */
	SL_OPT_EXPORT = 65536, /* --adapter, --join, --training */
	SL_OPT_AUDIT = 524288, /* --steps */
	SL_OPT_LEAK = 1048576, /* --out DIR, --steps, --minutes */
	SL_OPT_GENERATE = 2097152, /* --prompt, --prompts, --ids, and --json of lines */
	SL_OPT_GROUP = 131072,     /* --clients, --absent, --alone */
	SL_OPT_TRAIN = 262144,     /* --epochs, --batch, --lr, --connect */
	SL_OPT_PARTY = 8388608,    /* --party */
	SL_OPT_SET = 33554432,     /* --set */
	SL_OPT_REPORT = 67108864,  /* --format, --out FILE, --verify */
	SL_OPT_MANY = 16777216,    /* the same: it may be repeated; a list of SL_MAX_PARTIES, which ends with NULL */
	SL_OPT_ONCE = 4194304,     /* in an option's row alone: a second one is refused, as the first would be lost */
};

/* `takes`: the SL_OPT_… that the command accepts; `operands`: the most positional arguments; "-" is one. They are
 * moved to the front of argv. Returns -1 to go on, or the exit status (help printed: 0; a wrong command line: 64). */
int sl_options_parse(struct sl_options *o, int argc, char **argv, unsigned takes, int operands);
/* Finds whom `status` asks: *conf becomes the config that was named, or else that of `text`; it is untouched if
 * --control gives the socket. USAGE: options that exclude each other. */
enum sl_err sl_options_whom(const struct sl_options *o, const struct sl_conf_schema *schema, void *conf,
			    const char *text, struct sl_fail *fail) SL_MUST_CHECK;
/* Reports that `what` was not given; returns the exit status. */
int sl_options_missing(const struct sl_options *o, const char *what);
/* Prints `splitc: text` to stderr, with a priority if stderr is the journal; returns the error's exit status. */
int sl_options_failed(const char *program, const struct sl_fail *fail);

/* Sub-commands of a program, in the order of its help; a NULL name ends them. Each returns an exit status of
 * sysexits.h. */
struct sl_command {
	const char *name;
	int (*run)(int argc, char **argv); /* what follows the name */
	const char *help;
};

/* The main function of a program: its sub-commands, --help, help COMMAND and --version, which prints the commit of
 * this build and what it computes with. Standard streams that are closed become /dev/null. If a command succeeds but
 * its stdout could not be written, though somebody reads it, the exit status is that of IO. */
int sl_command_run(const char *program, const char *build, const char *computes_with, const struct sl_command *commands,
		   int argc, char **argv);
/* What --version prints; "" in a program that sl_command_run does not run. */
const char *sl_command_version(void);

#endif
