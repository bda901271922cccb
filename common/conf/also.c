/* Further sources of data (data.also): each is a config of its own, by the keys "- kind=csv", "dir=DIR" … of the list.
 */
#include <stdlib.h>
#include <string.h>

#include "common/conf/check_keys.h"

/* Keys of data that count for the samples of all sources together; a dot at the end: all that begin so. */
static const char *const of_all[] = {"data.also",        "data.aligned",    "data.label",     "data.scale_label",
				     "data.train_limit", "data.test_limit", "data.partition", "data.split.",
				     "data.sampling",    "data.threads",    "data.prefetch"};
enum { N_OF_ALL = sizeof of_all / sizeof of_all[0] };

static bool is_of_all(const char *path)
{
	for (int i = 0; i < N_OF_ALL; i++) {
		const size_t len = strlen(of_all[i]);

		if (strncmp(path, of_all[i], len) == 0 && (!path[len] || of_all[i][len - 1] == '.'))
			return true;
	}
	return false;
}

static bool begins(const struct sl_conf_list *also, int i)
{
	return i == 0 || also->item[i][0] == '-';
}

int sl_conf_also_count(const struct sl_conf_client *c)
{
	int n = 0;

	for (int i = 0; i < c->data.also.n; i++)
		n += begins(&c->data.also, i);
	return n;
}

/* Reads the keys of a source, beside defaults. NULL: they are right. */
static const char *read_keys(struct sl_conf_client *own, const struct sl_conf_client *c, int index,
			     char why[SL_CONF_WHY])
{
	char text[SL_CONF_LIST_MAX][SL_CONF_TEXT + 8];
	const char *set[SL_CONF_LIST_MAX];
	struct sl_fail fail;
	int n = 0, source = -1;

	for (int i = 0; i < c->data.also.n; i++) {
		const char *item = c->data.also.item[i];
		const size_t key = strcspn(item, "=") + 1;

		source += begins(&c->data.also, i);
		if (source != index)
			continue;
		snprintf(text[n], sizeof text[n], "data.%s", item + strspn(item, "- "));
		for (int k = 0; k < n; k++)
			if (strncmp(text[k], text[n], key + strlen("data.")) == 0)
				return sl_conf_say(why, why, "%.60s: this key is given twice", text[n]);
		set[n] = text[n];
		n++;
	}
	if (sl_conf_parse(&sl_conf_client_schema, own, "data.also", NULL, 0, set, n, &fail))
		return sl_conf_say(why, why, "%.280s", fail.text + strlen("--set "));
	return own->data.dir[0] ? NULL : sl_conf_say(why, why, "data.dir must be the folder of its data");
}

/* Puts the keys of `own` that belong to one source into *out. NULL: it has no others. */
static const char *put_keys(struct sl_conf_client *out, const struct sl_conf_client *own, struct sl_conf_mark mark,
			    char why[SL_CONF_WHY])
{
	for (int i = 0; i < sl_conf_client_schema.n_key; i++) {
		const struct sl_conf_key *key = &sl_conf_client_schema.key[i];
		const bool given = own->origin.mark[i].line != 0;
		const bool of_file = strcmp(key->path, "model.features") == 0 || strcmp(key->path, "model.image") == 0;

		if (of_file && out->model.network[0]) /* the file says them of each input */
			out->origin.mark[i].line = 0;
		if (strncmp(key->path, "data.", 5) != 0)
			continue;
		out->origin.mark[i] = given ? mark : (struct sl_conf_mark){0};
		if (!is_of_all(key->path))
			memcpy((char *)out + key->offset, (const char *)own + key->offset, key->size);
		else if (given)
			return sl_conf_say(why, why, "%s counts for all sources: it stands in data alone", key->path);
	}
	out->data.also.n = 0;
	out->origin.mark[sl_conf_find(&sl_conf_client_schema, "data.also")] = mark;
	return NULL;
}

const char *sl_conf_also(struct sl_conf_client *out, const struct sl_conf_client *conf, int index,
			 char why[SL_CONF_WHY])
{
	const struct sl_conf_mark mark = conf->origin.mark[sl_conf_find(&sl_conf_client_schema, "data.also")];
	struct sl_conf_client *own = malloc(sizeof *own);
	char text[SL_CONF_WHY] = "";
	const char *bad = own ? read_keys(own, conf, index, text) : "no memory", *key = NULL;

	*out = *conf;
	out->also = index + 1;
	snprintf(out->origin.part, sizeof out->origin.part, "data.also: source %d: ", out->also);
	if (out->model.network[0])
		out->model.name[0] = 0; /* its kind of data says which */
	if (!bad)
		bad = put_keys(out, own, mark, text);
	if (!bad && (key = sl_conf_client_finish(out, text)))
		bad = text;
	free(own);
	return !bad ? NULL
		    : sl_conf_say(why, why, "source %d: %s%s%.240s", index + 1, key ? key : "", key ? ": " : "", bad);
}

const char *sl_conf_check_also(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	const bool named = c->origin.mark[sl_conf_find(&sl_conf_client_schema, "data.inputs")].line != 0;
	const struct {
		bool bad;
		const char *key, *why;
	} rule[] = {
		{c->agreed.share.group[0] != 0, "data.also",
		 "does not go with share.group: a member of a group has one source"},
		{c->data.split.by[0] != 0, "data.split.by",
		 "does not go with data.also: common rows are divided by their place"},
		{c->data.kind == SL_DATA_CSV ? !c->data.id[0]
					     : c->data.kind != SL_DATA_IMAGES || strcmp(c->data.id, "stem") != 0,
		 "data.id", "must say what names a row: a column of data.kind: csv, or stem with data.kind: images"},
		{!named || c->inputs.n > 1 || (c->also && !c->inputs.n), "data.inputs",
		 c->also ? "must name the network's input that takes these data, such as [image]"
			 : "must name the network's input that takes these data, such as [row]; or be [], for labels "
			   "alone"},
		{sl_conf_also_count(c) > SL_CONF_ALSO, "data.also", "has at most 8 sources"},
	};
	struct sl_conf_client *own;
	const char *bad = NULL;

	for (size_t i = 0; i < sizeof rule / sizeof rule[0] && (c->data.also.n || c->also); i++)
		if (rule[i].bad)
			return sl_conf_say(why, rule[i].key, "%s", rule[i].why);
	own = c->data.also.n ? malloc(sizeof *own) : NULL;
	for (int k = 0; k < sl_conf_also_count(c) && !bad; k++)
		bad = own ? sl_conf_also(own, c, k, why) : sl_conf_say(why, why, "no memory for its sources");
	free(own);
	return bad ? "data.also" : NULL;
}
