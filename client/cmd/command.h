/* The sub-commands of splitc. Each takes the arguments after its name and returns an exit status of sysexits.h.
 * Errors go to stderr as one line. */
#ifndef SL_CLIENT_CMD_COMMAND_H
#define SL_CLIENT_CMD_COMMAND_H

#include <jansson.h>
#include <stdbool.h>

#include "client/setup/setup.h"
#include "common/conf/options.h"

int splitc_train(int argc, char **argv);
int splitc_init(int argc, char **argv);
int splitc_eval(int argc, char **argv);
int splitc_predict(int argc, char **argv);
int splitc_generate(int argc, char **argv);
int splitc_flops(int argc, char **argv);
int splitc_graph(int argc, char **argv);
int splitc_codecs(int argc, char **argv);
int splitc_data(int argc, char **argv);
int splitc_tokens(int argc, char **argv);
int splitc_sweep(int argc, char **argv);
int splitc_plot(int argc, char **argv);
int splitc_report(int argc, char **argv);
int splitc_status(int argc, char **argv);
int splitc_export(int argc, char **argv);
int splitc_leak(int argc, char **argv);
int splitc_audit(int argc, char **argv);
int splitc_align(int argc, char **argv);
int splitc_keygen(int argc, char **argv);

/* Files that a command reads: what --check-config looks at beside the config. */
enum {
	SL_USES_TRAIN_SET = 1,
	SL_USES_TEST_SET = 2,
	SL_USES_WEIGHTS = 4, /* model.weights */
	SL_USES_TRAINED = 8, /* the weights of sl_options_trained */
	SL_USES_LINK = 16,   /* auth's keys; not with --local */
	SL_USES_LOG = 32,    /* log.dir, and the checkpoint that --resume continues from */
	SL_USES_DEMO = 64,   /* without CONFIG, the demo's config is used */
	SL_USES_FOR_TRAINING = SL_USES_TRAIN_SET | SL_USES_TEST_SET | SL_USES_WEIGHTS | SL_USES_LINK,
};

/* Loads o->config, or with SL_USES_DEMO and without CONFIG the demo's. Handles --check-config and --print-config.
 * `uses`: SL_USES_… Returns -1 to go on, or the exit status. */
int sl_options_load(const struct sl_options *o, unsigned uses, struct sl_conf_client *conf);

/* Fills *setup with trained weights: how many steps they were trained, the plan, and their values. They are the last
 * ones of the config's run, its best ones with --weights best, or those of another FILE. `check`: checks the file
 * without reading the values. */
enum sl_err sl_options_trained(const struct sl_options *o, const struct sl_conf_client *conf, struct sl_setup *setup,
			       bool check, struct sl_fail *fail) SL_MUST_CHECK;
/* Where a run has kept other weights as its best, says which, and how to take them in place of its last ones. */
void sl_options_tell_best(const struct sl_conf_client *conf, int64_t trained);
/* Fills *setup with what an evaluation of these weights needs: the weights, the test set and a backend. */
enum sl_err sl_options_evaluation(const struct sl_options *o, const struct sl_conf_client *conf, struct sl_setup *setup,
				  struct sl_fail *fail) SL_MUST_CHECK;

/* The other members of a vertical group that is computed in this process. A zeroed one has none. */
struct sl_parties {
	struct sl_conf_client other[SL_MAX_PARTIES]; /* their configs */
	struct sl_setup features[SL_MAX_PARTIES];    /* the data of those with features */
};
/* For a command that computes all of the network in this process: a vertical group needs all parties' configs. Those of
 * o->party are read. *conf becomes the config of the party with labels, which has the loss, the metrics and the tail's
 * codecs. No-op for other configs. `reads`: which splits. */
enum sl_err sl_options_party(const struct sl_options *o, struct sl_conf_client *mine, struct sl_parties *parties,
			     struct sl_setup *setup, enum sl_setup_reads reads, const struct sl_conf_client **conf,
			     struct sl_fail *fail) SL_MUST_CHECK;
void sl_parties_close(struct sl_parties *parties); /* idempotent */

/* Prints a text from outside so that a terminal cannot be misled: what is not a printable character becomes ?,
 * except for the characters `as_is`. */
void sl_command_print_text(const char *text, const char *as_is);
/* Prints `root` and a line break, and drops it. `flags`: jansson's. */
void sl_command_print_json(json_t *root, size_t flags);
/* Prints `splitc: text` and returns the error's exit status. */
int sl_command_failed(const struct sl_fail *fail);
/* The same for a usage error, with this text. */
int sl_command_refuse(const char *format, ...) SL_PRINTF(1, 2);

#endif
