/* Sizes and task that the network's file defines, as a config's keys. */
#include <stdio.h>

#include "client/model/network_file.h"
#include "client/setup/setup.h"
#include "common/conf/key.h"

/* Whether the file or --set gives the key. */
static bool is_given(const struct sl_conf_client *c, const char *key)
{
	return c->origin.mark[sl_conf_find(&sl_conf_client_schema, key)].line != 0;
}

enum sl_err sl_setup_file_sizes(struct sl_model_sizes *out, const struct sl_conf_client *conf, struct sl_fail *fail)
{
	*out = (struct sl_model_sizes){.classes = 0};
	return conf->model.network[0] ? sl_network_file_sizes(out, conf->model.network, sl_conf_input(conf), fail)
				      : SL_OK;
}

/* Takes from the network's file what it was trained for, unless the config says it. */
static void take_task(struct sl_conf_client *conf, const struct sl_learn_task *task)
{
	if (!task || is_given(conf, "model.task") || is_given(conf, "model.head"))
		return;
	if (task->labelled)
		conf->model.task = (int)task->kind;
	else
		conf->model.head = task->kind == SL_LEARN_NEXT ? SL_CONF_CAUSAL_LM : SL_CONF_MASKED_LM;
}

static enum sl_err sizes_of_file(struct sl_conf_client *conf, struct sl_fail *fail)
{
	struct sl_model_sizes s;
	struct sl_fail why;
	enum sl_err err = sl_setup_file_sizes(&s, conf, &why);

	if (err) {
		(void)!sl_fail_set(fail, err, "%s", sl_fail_sentence(&why));
		return sl_conf_client_blame(conf,
					    !why.key[0]                       ? "model.network"
					    : conf->also || conf->data.also.n ? "data.inputs"
									      : why.key,
					    err, fail);
	}
	if (!conf->model.network[0])
		return SL_OK;
	if (s.features && sl_conf_lacks_input(conf) && conf->data.kind == SL_DATA_CSV) /* labels alone say no input */
		snprintf(conf->model.name, sizeof conf->model.name, "%s", SL_CONF_NETWORK_ROWS);
	if (conf->also && !s.features != !sl_model_takes_rows(conf->model.name))
		return sl_conf_client_fail(
			conf, "data.inputs", fail, "the network's input %s takes %s, and data.kind %s has %s",
			sl_conf_input(conf), s.features ? "rows of numbers" : "pictures",
			sl_conf_data_kinds[conf->data.kind], s.features ? "none" : "rows of numbers");
	take_task(conf, s.task);
	if (!is_given(conf, "model.classes") && sl_setup_task(conf)->labelled)
		conf->model.classes = s.classes;
	if (!is_given(conf, "model.features"))
		conf->model.features = s.features;
	conf->model.vocab = s.vocab ? s.vocab : conf->model.vocab;
	if (s.tokens && !is_given(conf, "model.tokens"))
		conf->model.tokens = s.tokens;
	if (!is_given(conf, "model.image")) {
		conf->model.image.h = s.height ? s.height : conf->model.image.h;
		conf->model.image.w = s.width ? s.width : conf->model.image.w;
	}
	return SL_OK;
}

enum sl_err sl_setup_sizes(struct sl_conf_client *conf, struct sl_fail *fail)
{
	enum sl_err err = sizes_of_file(conf, fail);

	if (!err && !sl_conf_weights_fit(conf))
		return sl_conf_client_fail(conf, "train.class_weights", fail,
					   "needs a number for each of the %d classes or labels, got %d",
					   conf->model.classes, conf->train.class_weights.n);
	if (!err && conf->data.kind == SL_DATA_CSV && conf->model.task == SL_CONF_CLASSES && conf->model.classes == 1)
		return sl_conf_client_fail(conf, "model.task", fail,
					   "a network with one output has no classes: for a yes/no label (1 or 0) set "
					   "model.task: labels; for a quantity, numbers");
	return err;
}

const char sl_setup_no_lookup[] =
	"the network looks up no ids: take columns out, or give model.network one with nn.Embedding";

enum sl_err sl_setup_room(struct sl_setup *s, struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	struct sl_fail why;

	if (s->room)
		return SL_OK;
	if (c->model.network[0] &&
	    sl_network_file_rooms(&s->room, &s->rooms, c->model.network, sl_conf_input(c), &why) != SL_OK)
		return sl_conf_client_fail(c, "model.network", fail, "%s", why.text);
	if (s->room && c->data.kind != SL_DATA_CSV)
		return sl_conf_client_fail(c, "data.kind", fail,
					   "the network looks up ids of columns, which csv has: see data.ids");
	if (c->data.ids.n && !s->room && c->model.features) /* `splitc data` knows no network */
		return sl_conf_client_fail(c, "data.ids", fail, "%s", sl_setup_no_lookup);
	return SL_OK;
}

int sl_setup_row_most(const struct sl_conf_client *c)
{
	return c->data.max_length && c->data.max_length < c->model.tokens ? c->data.max_length : c->model.tokens;
}
