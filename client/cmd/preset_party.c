#include "client/cmd/preset_party.h"

#include <stdio.h>
#include <string.h>

#include "client/cmd/preset_keys.h"
#include "common/conf/key.h"

int sl_preset_party_sets(const char *set[SL_PRESET_PARTY_SETS], char role[SL_CONF_TEXT], const struct sl_options *o,
			 struct sl_conf_client *user)
{
	const bool labels = o->role && strcmp(o->role, "labels") == 0;
	bool aligned = sl_preset_has(user, "data.aligned");
	int n = 0;

	for (int i = 0; i < o->n_set; i++)
		aligned |= strncmp(o->set[i], "data.aligned=", strlen("data.aligned=")) == 0;
	if (o->role) {
		snprintf(role, SL_CONF_TEXT, "share.role=%s", o->role);
		set[n++] = "share.mode=vertical";
		set[n++] = "share.group=pair";
		set[n++] = "share.clients=2";
		set[n++] = labels ? "share.member=1" : "share.member=0";
		set[n++] = role;
		set[n++] = aligned ? "share.peers=a.pub,b.pub" : "share.secret=pair.key";
	}
	if (o->role && aligned) {
		sl_preset_forget_section(user, "share.secret"); /* the file of an alignment has one */
		set[n++] = labels ? "auth.secret_key=b.key" : "auth.secret_key=a.key";
		set[n++] = "auth.server_key=server.pub";
	}
	for (int i = 0; i < o->n_set; i++)
		set[n++] = o->set[i];
	return n;
}

bool sl_preset_party_has(const struct sl_conf_client *user, enum sl_conf_share_role role)
{
	return sl_agreed_has_role(&user->agreed, role);
}

enum sl_err sl_preset_party_check(const struct sl_conf_client *user, const char *model, struct sl_fail *fail)
{
	if (!sl_preset_party_has(user, SL_ROLE_LABELS) || sl_preset_has(user, "model.features") ||
	    (model && strcmp(model, "mlp") != 0))
		return SL_OK;
	return sl_fail_set(fail, SL_ERR_CONFIG,
			   "init: model.features is the number of the other member's features. Its `splitc init` says "
			   "it, and so does `splitc data` with its config: give --set model.features=N");
}

enum sl_err sl_preset_party_id(const char **id, struct sl_preset_table *table, const struct sl_conf_client *user,
			       const struct sl_preset_columns *columns, struct sl_fail *fail)
{
	char names[SL_FAIL_TEXT - 200];
	const char *found = NULL;
	int n = 0, kept = 0;

	if (!table->table.columns)
		return sl_fail_set(fail, SL_ERR_NOINPUT,
				   "%s: no table can be read there, and --party writes the configs of tables alone",
				   table->table.path);
	sl_preset_columns_list(columns, names, sizeof names);
	for (int i = 0; i < table->nignored; i++)
		if (sl_preset_table_names(table, table->ignored[i])) {
			found = table->ignored[i];
			n++;
		}
	if (sl_preset_has(user, "data.id"))
		found = user->data.id;
	else if (n != 1)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "%s: which column names the rows, as the other member's does? Give --set "
				   "data.id=NAME with one of: %s",
				   table->table.path, names);
	for (int i = 0; i < table->nignored; i++)
		if (strcmp(table->ignored[i], found) != 0)
			table->ignored[kept++] = table->ignored[i];
	table->nignored = kept;
	*id = found;
	return SL_OK;
}

void sl_preset_party_comment(const struct sl_conf_client *conf, FILE *out)
{
	if (!sl_agreed_is_vertical(&conf->agreed))
		return;
	fputs("# One of two configs: share.group, network, cut, seed, batch, data.split and epochs are equal in "
	      "both.\n",
	      out);
	fputs(conf->data.aligned[0] ? "# `splitc align` at both members, at the same time, writes data.aligned, the "
				      "rows that both have.\n"
				    : "# `splitc keygen --out FILE` makes share.secret once, for both members: rows "
				      "are compared with it.\n"
				      "# If the members' rows differ, repeat `splitc init` with --force --set "
				      "data.aligned=FILE, then `splitc align`.\n",
	      out);
	fputs("# docs/howto-vertical.md has more.\n", out);
}

void sl_preset_party_say(const struct sl_conf_client *c, const char *path)
{
	const bool labels = sl_preset_party_has(c, SL_ROLE_LABELS);
	const int task = sl_conf_find(&sl_conf_client_schema, "model.task");

	printf("This member has the %s; the column \"%s\" names the rows, at both members.\n",
	       labels ? "labels" : "features", c->data.id);
	if (labels)
		printf("The label is the column \"%s\".\n", c->data.label.item[0]);
	printf("The other member's config: splitc init %s.yaml --party %s", labels ? "A" : "B",
	       labels ? "features" : "labels");
	if (c->model.network[0])
		printf(" --model %s", c->model.network);
	else if (labels)
		printf(" --set model.classes=%d", c->model.classes);
	else
		printf(" --set model.features=%d", c->model.features);
	if (labels && c->model.task != SL_CONF_CLASSES)
		printf(" --set model.task=%s", sl_conf_client_schema.key[task].choices[c->model.task]);
	printf(" --data TABLE, with the same --server, and each --set that both need.\n");
	if (c->data.aligned[0])
		printf("Before training, at both members at the same time: splitc align %s\n", path);
	else
		printf("Both members need the file %s: `splitc keygen --out %s` makes it once.\n", c->share_secret,
		       c->share_secret);
	printf("Both train at the same time.\n");
}
