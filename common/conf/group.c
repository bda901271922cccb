/* Parameter groups: "PATTERN … lr=FACTOR weight_decay=NUMBER" in a config, the rule alone in an agreement. */
#include <stdio.h>
#include <string.h>

#include "common/base/real.h"
#include "common/conf/check.h"

static const double most_lr = 1000, most_decay = 1;

static bool key_is(const char *word, size_t len, const char *key)
{
	return len > strlen(key) && strncmp(word, key, strlen(key)) == 0;
}

/* Takes one word: a pattern, or a number that is not given yet. */
static bool take_word(const char *word, size_t len, struct sl_conf_group *g, bool *lr)
{
	if (key_is(word, len, "lr=") && !*lr)
		return *lr = sl_conf_number(word + 3, word + len, most_lr, &g->lr);
	if (key_is(word, len, "weight_decay=") && !g->decays)
		return g->decays = sl_conf_number(word + 13, word + len, most_decay, &g->weight_decay);
	if (memchr(word, '=', len) || g->n_match == SL_CONF_GROUP_PATTERNS || len >= sizeof g->match[0])
		return false;
	snprintf(g->match[g->n_match++], sizeof g->match[0], "%.*s", (int)len, word);
	return true;
}

static bool read_group(const char *text, struct sl_conf_group *g)
{
	bool lr = false;

	*g = (struct sl_conf_group){.lr = 1};
	for (; *text; text += *text == ' ') {
		size_t len = strcspn(text, " ");

		if (len && !take_word(text, len, g, &lr))
			return false;
		text += len;
	}
	return lr || g->decays;
}

bool sl_conf_group_read(const char *text, struct sl_conf_group *out)
{
	struct sl_conf_group g;

	if (!read_group(text, &g))
		return false;
	*out = g;
	return true;
}

static int write_number(char *out, size_t size, const char *key, double x)
{
	char text[SL_REAL_TEXT];

	return snprintf(out, size, "%s%s", key, sl_real_text(x, 1, text));
}

void sl_conf_group_rule(const struct sl_conf_group *g, char out[SL_CONF_RULE_TEXT])
{
	int at = 0;

	out[0] = 0;
	if (g->lr != 1 || !g->decays)
		at = write_number(out, SL_CONF_RULE_TEXT, "lr=", g->lr);
	if (g->decays)
		write_number(out + at, SL_CONF_RULE_TEXT - (size_t)at,
			     at ? " weight_decay=" : "weight_decay=", g->weight_decay);
}

const char *sl_conf_check_group(const void *value, char why[SL_CONF_WHY])
{
	struct sl_conf_group g;

	if (read_group(value, &g) && g.n_match)
		return NULL;
	return sl_conf_say(
		why, why,
		"must be patterns with lr=FACTOR (0 to %g), weight_decay=NUMBER (0 to %g) or both, such as \"*.bias "
		"weight_decay=0\", at most %d patterns each, got \"%.60s\"",
		most_lr, most_decay, SL_CONF_GROUP_PATTERNS, (const char *)value);
}

/* A rule has only one spelling, because both sides hash it. */
const char *sl_conf_check_rule(const void *value, char why[SL_CONF_WHY])
{
	char again[SL_CONF_RULE_TEXT];
	struct sl_conf_group g;
	const char *text = value;

	if (!*text)
		return NULL;
	if (read_group(text, &g) && !g.n_match) {
		sl_conf_group_rule(&g, again);
		if (strcmp(again, text) == 0)
			return NULL;
	}
	return sl_conf_say(why, why, "must be a group's rule, such as lr=0.1 weight_decay=0, got \"%.60s\"", text);
}
