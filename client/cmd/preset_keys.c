#include "client/cmd/preset_keys.h"

#include <string.h>

#include "common/conf/key.h"

/* Keys that options of init decide, or, without one, it finds out itself. */
static const struct {
	const char *key, *option;
} answers[] = {
	{"server", "--server"},           {"model.name", "--model"},
	{"model.huggingface", "--model"}, {"model.network", "--model"},
	{"partition", "--cut"},           {"head_end", "--cut"},
	{"tail_begin", "--cut"},          {"data.kind", "--data"},
	{"data.dir", "--data"},           {"log.dir", NULL},
	{"data.separator", NULL},         {"data.decimal", NULL},
};
enum { ANSWERS = sizeof answers / sizeof answers[0] };

bool sl_preset_has(const struct sl_conf_client *conf, const char *key)
{
	return conf && !sl_conf_is_default(&sl_conf_client_schema, conf, key);
}

static bool is_same(const struct sl_conf_client *a, const struct sl_conf_client *b, const struct sl_conf_key *key)
{
	return memcmp((const char *)a + key->offset, (const char *)b + key->offset, key->size) == 0;
}

void sl_preset_forget(struct sl_conf_client *user, const struct sl_conf_client *made)
{
	const int train = sl_conf_find(&sl_conf_client_schema, "data.split.train");
	const int val = sl_conf_find(&sl_conf_client_schema, "data.split.val"), val_line = user->origin.mark[val].line;

	for (int i = 0; i < sl_conf_client_schema.n_key; i++) {
		const struct sl_conf_key *key = &sl_conf_client_schema.key[i];
		bool answer = false;

		for (int k = 0; k < ANSWERS; k++)
			answer |= strcmp(key->path, answers[k].key) == 0;
		if (answer || (made && is_same(user, made, key) && strcmp(key->path, "data.label") != 0))
			user->origin.mark[i].line = 0;
	}
	if (user->origin.mark[train].line) /* parts add up to 1, so another one for training keeps this one */
		user->origin.mark[val].line = val_line;
}

void sl_preset_forget_section(struct sl_conf_client *user, const char *section)
{
	for (int i = 0; i < sl_conf_client_schema.n_key; i++)
		if (user->origin.mark[i].line > 0 &&
		    strncmp(sl_conf_client_schema.key[i].path, section, strlen(section)) == 0)
			user->origin.mark[i].line = 0;
}

void sl_preset_take(struct sl_conf_client *conf, const struct sl_conf_client *user)
{
	for (int i = 0; i < sl_conf_client_schema.n_key; i++) {
		const struct sl_conf_key *key = &sl_conf_client_schema.key[i];
		const bool counted =
			strcmp(key->path, "model.classes") == 0 || strcmp(key->path, "model.features") == 0;

		if (!user->origin.mark[i].line ||
		    (counted && user->origin.mark[i].line > 0 && conf->origin.mark[i].line))
			continue;
		memcpy((char *)conf + key->offset, (const char *)user + key->offset, key->size);
		conf->origin.mark[i] = user->origin.mark[i];
	}
}

enum sl_err sl_preset_check(const struct sl_conf_client *user, struct sl_fail *fail)
{
	for (int k = 0; k < ANSWERS; k++)
		if (answers[k].option && sl_preset_has(user, answers[k].key))
			return sl_fail_set(fail, SL_ERR_USAGE, "init: --set %s: give it with %s", answers[k].key,
					   answers[k].option);
	return SL_OK;
}
