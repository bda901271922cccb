#include "client/model/roles.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "common/base/nearest.h"

static const char kind_of[] = "kind:";

bool sl_roles_learn(const struct sl_graph *part)
{
	for (int i = 0; i < part->n_param; i++)
		if (part->param[i].role == SL_LEARNS)
			return true;
	return false;
}

/* The length of a pattern before its first wildcard, without a dot at the end. *level: the number of dots in that. */
static size_t stem_of(const char *glob, int *level)
{
	size_t len = strcspn(glob, "*?[");

	if (len > 0 && glob[len] && glob[len - 1] == '.')
		len--;
	*level = 0;
	for (size_t i = 0; i < len; i++)
		*level += glob[i] == '.';
	return len;
}

/* The first level + 1 words of a name, or all of it. */
static void prefix_of(char out[SL_NAME_MAX], const char *name, int level)
{
	size_t len = 0;

	for (; name[len] && (name[len] != '.' || level-- > 0); len++)
		;
	snprintf(out, SL_NAME_MAX, "%.*s", (int)len, name);
}

/* The error for a pattern that matches nothing. It suggests the nearest name of a module or parameter with as many
 * words. */
static enum sl_err matches_nothing(const struct sl_graph part[SL_SEGMENT_COUNT], const char *key, const char *glob,
				   struct sl_fail *fail)
{
	struct sl_nearest best = {0};
	char prefix[SL_NAME_MAX], found[SL_NAME_MAX] = "", roots[256] = "";
	int level;
	const size_t len = stem_of(glob, &level);

	if (strncmp(glob, kind_of, sizeof kind_of - 1) == 0)
		return sl_fail_at(fail, key, SL_ERR_CONFIG,
				  "no layer with parameters is \"%.100s\"; kinds are those of `splitc graph CONFIG "
				  "--text`, such as kind:batchnorm",
				  glob);

	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		for (int i = 0; i < part[which].n_param; i++) {
			prefix_of(prefix, part[which].param[i].name, level);
			sl_nearest_offer(&best, glob, len, prefix);
			if (best.name == prefix) {
				snprintf(found, sizeof found, "%s", prefix);
				best.name = found;
			}
			prefix_of(prefix, part[which].param[i].name, 0);
			if (!strstr(roots, prefix) && strlen(roots) + strlen(prefix) + 3 < sizeof roots)
				snprintf(roots + strlen(roots), sizeof roots - strlen(roots), "%s%s",
					 roots[0] ? ", " : "", prefix);
		}
	if (best.name)
		return sl_fail_at(fail, key, SL_ERR_CONFIG,
				  "no parameter is called \"%.100s\": did you mean \"%s%.80s\"?", glob, found,
				  strcmp(found, glob) == 0 ? ".*" : glob + len);
	return sl_fail_at(fail, key, SL_ERR_CONFIG,
			  "no parameter is called \"%.100s\"; names begin with %s (`splitc graph` lists them)", glob,
			  roots);
}

/* Whether a pattern matches a parameter: by its name, or by the kind of the part's first node that uses it. */
static bool matches(const struct sl_graph *part, int param, const char *glob)
{
	if (strncmp(glob, kind_of, sizeof kind_of - 1) != 0)
		return fnmatch(glob, part->param[param].name, 0) == 0;
	for (int i = 0; i < part->n_node; i++)
		for (int k = 0; k < part->node[i].n_param; k++)
			if (part->link[part->node[i].param + k] == param)
				return fnmatch(glob + sizeof kind_of - 1, sl_op_row(part->node[i].kind).word, 0) == 0;
	return false;
}

/* Freezes what the pattern matches. False: it matches nothing. */
static bool freeze_one(struct sl_graph part[SL_SEGMENT_COUNT], const char *glob)
{
	bool matched = false;

	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		for (int i = 0; i < part[which].n_param; i++) {
			struct sl_param *p = &part[which].param[i];

			if (!matches(&part[which], i, glob))
				continue;
			matched = true;
			if (p->role == SL_LEARNS)
				p->role = SL_FROZEN;
		}
	return matched;
}

enum sl_err sl_roles_freeze(struct sl_graph part[SL_SEGMENT_COUNT], const struct sl_conf_list *globs,
			    struct sl_fail *fail)
{
	static const char key[] = "train.freeze";

	for (int i = 0; i < globs->n; i++)
		if (!freeze_one(part, globs->item[i]))
			return matches_nothing(part, key, globs->item[i], fail);
	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		if (sl_roles_learn(&part[which]))
			return SL_OK;
	return sl_fail_at(fail, key, SL_ERR_CONFIG, "no parameter is left that learns");
}

/* Puts those parameters that a pattern matches, that learn and have no group yet into the group. Adds to *matched and
 * *taken how many it matches, and how many get the group. */
static void group_one(struct sl_graph part[SL_SEGMENT_COUNT], const char *glob, int group, int *matched, int *taken)
{
	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		for (int i = 0; i < part[which].n_param; i++) {
			struct sl_param *p = &part[which].param[i];

			if (!matches(&part[which], i, glob))
				continue;
			++*matched;
			if (p->role != SL_LEARNS || p->group)
				continue;
			++*taken;
			p->group = group;
		}
}

enum sl_err sl_roles_group(struct sl_graph part[SL_SEGMENT_COUNT], const struct sl_conf_list *groups,
			   struct sl_fail *fail)
{
	static const char key[] = "train.groups";

	if (groups->n > SL_CONF_GROUPS)
		return sl_fail_at(fail, key, SL_ERR_CONFIG, "has %d groups, where at most %d can be", groups->n,
				  SL_CONF_GROUPS);
	for (int i = 0; i < groups->n; i++) {
		struct sl_conf_group g;
		int taken = 0;

		if (!sl_conf_group_read(groups->item[i], &g))
			return sl_fail_at(fail, key, SL_ERR_BUG, "\"%s\" is no group", groups->item[i]);
		for (int k = 0; k < g.n_match; k++) {
			int matched = 0;

			group_one(part, g.match[k], i + 1, &matched, &taken);
			if (!matched)
				return matches_nothing(part, key, g.match[k], fail);
		}
		if (!taken)
			return sl_fail_at(
				fail, key, SL_ERR_CONFIG,
				"nothing is left for \"%.120s\": what it matches is frozen, no weight, or in a "
				"group before it",
				groups->item[i]);
	}
	return SL_OK;
}
