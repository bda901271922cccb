/* The sub-commands of splitc. Each takes what follows its name and returns an exit status of sysexits.h; errors go to
 * stderr as one line. */
#ifndef SL_CLIENT_COMMAND_H
#define SL_CLIENT_COMMAND_H

#include <stdbool.h>

#include "common/conf/conf.h"
#include "common/conf/options.h"

int splitc_train(int argc, char **argv);
int splitc_eval(int argc, char **argv);
int splitc_flops(int argc, char **argv);
int splitc_codecs(int argc, char **argv);
int splitc_sweep(int argc, char **argv);
int splitc_status(int argc, char **argv);
int splitc_export(int argc, char **argv);
int splitc_keygen(int argc, char **argv);

/* Loads o->config; handles --check-config and --print-config. -1 to go on, or the exit status. */
int sl_options_load(const struct sl_options *o, struct sl_conf_client *conf);

/* Prints `splitc: text` and returns the error's exit status. */
int sl_command_failed(const struct sl_fail *fail);

#endif
