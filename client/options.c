#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/command.h"
#include "client/setup.h"

int sl_command_failed(const struct sl_fail *fail)
{
	fprintf(stderr, "%ssplitc: %s\n", sl_log_priority(SL_LOG_ERROR), fail->text);
	return sl_err_exit_status(fail->code);
}

static int usage_error(const struct sl_options *o, const char *what, const char *arg)
{
	fprintf(stderr, "splitc %s: %s '%s'; usage: %s\n", o->command, what, arg, o->usage[0]);
	return sl_err_exit_status(SL_ERR_USAGE);
}

static void print_usage(const struct sl_options *o)
{
	printf("usage: %s\n", o->usage[0]);
	for (int i = 1; o->usage[i]; i++)
		printf("  %s\n", o->usage[i]);
}

struct flag {
	const char *name;
	unsigned takes;
	bool *value;
};

static bool take_flag(struct sl_options *o, const char *arg, unsigned takes)
{
	const struct flag flags[] = {
		{"--local", SL_OPT_LOCAL, &o->local},
		{"--json", SL_OPT_JSON, &o->json},
		{"--resume", SL_OPT_RESUME, &o->resume},
		{"--check-config", SL_OPT_CONFIG, &o->check_config},
		{"--print-config", SL_OPT_CONFIG, &o->print_config},
		{"--parity", SL_OPT_PARITY, &o->parity},
	};

	for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
		if ((takes & flags[i].takes) && strcmp(arg, flags[i].name) == 0) {
			*flags[i].value = true;
			return true;
		}
	return false;
}

/* Options with a value: 1 taken, 0 not one, -1 without its value. */
static int take_value(struct sl_options *o, const char *arg, const char *value, unsigned takes)
{
	const struct {
		const char *name;
		unsigned takes;
		const char **value;
	} options[] = {
		{"--weights", SL_OPT_WEIGHTS, &o->weights},
		{"--control", SL_OPT_CONTROL, &o->control},
		{"--codecs", SL_OPT_SWEEP, &o->codecs},
		{"--out", SL_OPT_SWEEP | SL_OPT_OUT, &o->out},
	};

	if ((takes & SL_OPT_CONFIG) && strcmp(arg, "--set") == 0) {
		if (!value || o->n_set == SL_MAX_SETS)
			return -1;
		o->set[o->n_set++] = value;
		return 1;
	}
	for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
		if ((takes & options[i].takes) && strcmp(arg, options[i].name) == 0) {
			*options[i].value = value;
			return value ? 1 : -1;
		}
	return 0;
}

int sl_options_parse(struct sl_options *o, int argc, char **argv, unsigned takes, int operands)
{
	int n = 0;

	for (int i = 0; i < argc; i++) {
		int taken;

		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			print_usage(o);
			return 0;
		}
		if (take_flag(o, argv[i], takes))
			continue;
		taken = take_value(o, argv[i], i + 1 < argc ? argv[i + 1] : NULL, takes);
		if (taken < 0)
			return usage_error(o, "no value (or too many) for", argv[i]);
		if (taken) {
			i++;
			continue;
		}
		if (argv[i][0] == '-')
			return usage_error(o, "unknown option", argv[i]);
		if (n == operands)
			return usage_error(o, "one argument too many:", argv[i]);
		*(n++ ? &o->operand : &o->config) = argv[i];
	}
	return -1;
}

int sl_options_missing(const struct sl_options *o, const char *what)
{
	return usage_error(o, "missing argument", what);
}

int sl_options_load(const struct sl_options *o, struct sl_conf_client *conf)
{
	struct sl_fail fail;

	if (!o->config)
		return sl_options_missing(o, "CONFIG");
	if (sl_conf_client_load(conf, o->config, o->set, o->n_set, &fail) != SL_OK)
		return sl_command_failed(&fail);
	sl_log_set_level(conf->log.level);
	if (o->print_config)
		return sl_err_exit_status(sl_conf_client_print(conf, stdout));
	if (o->check_config) {
		struct sl_setup setup = {0};
		enum sl_err err = sl_setup_plan(&setup, conf, &fail);

		sl_setup_close(&setup);
		if (err)
			return sl_command_failed(&fail);
		printf("%s: ok\n", o->config);
		return 0;
	}
	return -1;
}
