#include "common/conf/agreed.h"

#include <stdio.h>
#include <string.h>

#include "common/conf/check.h"
#include "common/conf/check_keys.h"
#include "common/conf/row.h"

const char *const sl_agreed_precisions[] = {"fp32", "tf32", "bf16", "fp16", "bf16_factors", NULL};
const char *const sl_agreed_optimizers[] = {"sgd", "adam", "adamw", NULL};
const char *const sl_agreed_ends[] = {"private", "step", "round", NULL};
const char *const sl_agreed_layers[] = {"each", "all", NULL};
const char *const sl_agreed_modes[] = {"sync", "serial", "rounds", "vertical", NULL};
const char *const sl_agreed_roles[] = {"features", "labels", NULL};
const char *const sl_agreed_aligns[] = {"false", "true", NULL};
const char *const sl_agreed_unmet[] = {"wait", "go_on", NULL};
const char *const sl_agreed_over[] = {"drop", "clip", NULL};
const char *const sl_agreed_moments[] = {"keep", "average", "zero", NULL};

enum class { PLAIN, SAID, SGD, ADAM, DERIVED };

#define ROW(type, path, field, class, ...)   type(struct sl_agreed, path, field, __VA_ARGS__),
#define CLASS(type, path, field, class, ...) class,
static const struct sl_conf_key keys[] = {SL_AGREED(ROW)};
static const enum class class_of[] = {SL_AGREED(CLASS)};
enum { N_KEYS = sizeof keys / sizeof keys[0] };

static const char first_line[] = "agree 1\n";

enum { VALUE = 160, LINE = 256 };

struct sl_agreed sl_agreed_default(void)
{
	struct sl_agreed a = {0};
	char why[SL_CONF_WHY];

	for (int i = 0; i < N_KEYS; i++)
		(void)sl_conf_value_set(&keys[i], &a, keys[i].preset, true, why);
	a.share.ends = SL_ENDS_PRIVATE; /* an agreement without this key is of a time when this was the default */
	return a;
}

static const struct sl_conf_key *find(const char *path)
{
	for (int i = 0; i < N_KEYS; i++)
		if (strcmp(keys[i].path, path) == 0)
			return &keys[i];
	return NULL;
}

static bool is_end_codec(const char *path)
{
	return strncmp(path, "codec.end_", 10) == 0;
}

bool sl_agreed_is_share(const char *path)
{
	return (strncmp(path, "share.", 6) == 0 && strcmp(path, "share.group") != 0) || is_end_codec(path);
}

bool sl_agreed_shares_ends(const struct sl_agreed *a)
{
	return a->share.group[0] && a->share.ends != SL_ENDS_PRIVATE;
}

bool sl_agreed_is_vertical(const struct sl_agreed *a)
{
	return a->share.group[0] && a->share.mode == SL_SHARE_VERTICAL;
}

bool sl_agreed_has_role(const struct sl_agreed *a, enum sl_conf_share_role role)
{
	return sl_agreed_is_vertical(a) && a->share.role == role;
}

bool sl_agreed_keeps_moments(const struct sl_agreed *a)
{
	return a->share.group[0] && a->share.mode == SL_SHARE_ROUNDS && a->share.moments == SL_SHARE_KEEP &&
	       (a->optimizer.kind != SL_CONF_SGD || a->optimizer.momentum > 0);
}

bool sl_agreed_goes_on(const struct sl_agreed *a)
{
	return a->share.group[0] && !sl_agreed_is_vertical(a) && a->share.least < 1;
}

int sl_agreed_quorum(const struct sl_agreed *a)
{
	if (!sl_agreed_goes_on(a))
		return a->share.clients;
	return a->share.quorum ? a->share.quorum : a->share.clients / 2 + 1;
}

const char *sl_agreed_other_mode(const struct sl_agreed *a, const char *path)
{
	static const struct {
		const char *path;
		enum sl_conf_share_mode mode;
	} only[] = {{"share.rows", SL_SHARE_SYNC},      {"share.round", SL_SHARE_ROUNDS},
		    {"share.moments", SL_SHARE_ROUNDS}, {"share.batches", SL_SHARE_SERIAL},
		    {"share.role", SL_SHARE_VERTICAL},  {"share.course", SL_SHARE_VERTICAL},
		    {"share.align", SL_SHARE_VERTICAL}, {"share.peers", SL_SHARE_VERTICAL},
		    {"share.sends", SL_SHARE_VERTICAL}, {"share.inputs", SL_SHARE_VERTICAL}};

	for (size_t i = 0; i < sizeof only / sizeof only[0]; i++)
		if (strcmp(path, only[i].path) == 0 && a->share.mode != only[i].mode)
			return sl_agreed_modes[only[i].mode];
	return NULL;
}

bool sl_agreed_is_idle(const struct sl_agreed *a, const char *path)
{
	const struct sl_conf_key *key = find(path);

	if (is_end_codec(path) || strcmp(path, "share.layers") == 0)
		return !sl_agreed_shares_ends(a);
	if (strcmp(path, "share.seal") == 0)
		return !sl_agreed_shares_ends(a);
	if (sl_agreed_is_share(path))
		return !a->share.group[0] || sl_agreed_other_mode(a, path) != NULL;
	return key && class_of[key - keys] == (a->optimizer.kind == SL_CONF_SGD ? ADAM : SGD);
}

/* Checks what a vertical group excludes. */
static const char *check_vertical(const struct sl_agreed *a, char why[SL_CONF_WHY])
{
	const struct {
		bool bad;
		const char *key, *why;
	} rule[] = {
		{a->share.clients < 2 || a->share.clients > SL_CONF_PARTIES, "share.clients",
		 "must be 2 to 9 in share.mode: vertical: one member with share.role: labels, the others with "
		 "features"},
		{a->share.ends != SL_ENDS_PRIVATE, "share.ends",
		 "must be private in share.mode: vertical: one member has the head, and the other the tail"},
		{a->share.member_norm > 0, "share.member_norm",
		 "does not go with share.mode: vertical: no step can leave out a member"},
		{a->precision == SL_CONF_BF16 || a->precision == SL_CONF_FP16, "train.precision",
		 "bf16 and fp16 do not go with share.mode: vertical: take fp32"},
		{a->row_tokens > 0, "tokens.row", "share.mode: vertical is not for networks of tokens"},
	};

	for (size_t i = 0; i < sizeof rule / sizeof rule[0]; i++)
		if (rule[i].bad)
			return sl_conf_say(why, rule[i].key, "%s", rule[i].why);
	return NULL;
}

/* Checks the keys of a group. */
static const char *check_share(const struct sl_agreed *a, char why[SL_CONF_WHY])
{
	const char *blame = NULL;

	if (a->share.member >= (a->share.align ? 2 : a->share.clients)) /* two align, whatever the group has */
		return sl_conf_say(why, "share.member", "must be below share.clients (%d), got %d", a->share.clients,
				   a->share.member);
	if (a->share.quorum > a->share.clients)
		return sl_conf_say(why, "share.quorum", "must be at most share.clients (%d), got %d", a->share.clients,
				   a->share.quorum);
	if (a->share.mode == SL_SHARE_SYNC && a->share.rows && a->share.rows < a->batch)
		return sl_conf_say(why, "share.rows", "must be at least train.batch (%d), got %lld", a->batch,
				   (long long)a->share.rows);
	if (a->share.over_norm == SL_OVER_CLIP && (a->share.mode == SL_SHARE_ROUNDS || !(a->share.member_norm > 0)))
		return sl_conf_say(why, "share.over_norm",
				   a->share.mode == SL_SHARE_ROUNDS ? "clip does not go with share.mode: rounds, whose "
								      "steps are the member's own: take drop"
								    : "clip needs a share.member_norm above 0");
	if (a->phase_step)
		return sl_conf_say(why, "phase.step", "phases are not possible in a group (share.group)");
	if (a->share.turns && a->share.turns > a->share.epoch_steps)
		return sl_conf_say(why, "share.turns", "are %lld, and an epoch has %lld steps",
				   (long long)a->share.turns, (long long)a->share.epoch_steps);
	if (sl_agreed_is_vertical(a))
		blame = check_vertical(a, why);
	if (blame)
		return blame;
	if (a->share.ends != SL_ENDS_PRIVATE && (a->share.ends == SL_ENDS_ROUND) != (a->share.mode == SL_SHARE_ROUNDS))
		return sl_conf_say(why, "share.ends", "%s does not go with share.mode: %s: take private or %s",
				   sl_agreed_ends[a->share.ends], sl_agreed_modes[a->share.mode],
				   sl_agreed_ends[a->share.mode == SL_SHARE_ROUNDS ? SL_ENDS_ROUND : SL_ENDS_STEP]);
	if (a->share.least == 0 && a->share.mode == SL_SHARE_SERIAL)
		return sl_conf_say(why, "share.least",
				   "0 does not go with share.mode: serial, where an epoch has all members' turns");
	if (a->fetch_state || a->keep_tokens)
		return sl_conf_say(why, a->fetch_state ? "fetch.state" : "keep.tokens",
				   "a member of a group cannot ask for it");
	if (a->precision == SL_CONF_FP16)
		return sl_conf_say(why, "train.precision",
				   "fp16 is not possible in a group (share.group): take bf16 or fp32");
	return NULL;
}

const char *sl_agreed_check(const struct sl_agreed *a, char why[SL_CONF_WHY])
{
	if (a->optimizer.kind == SL_CONF_SGD && a->optimizer.nesterov && a->optimizer.momentum == 0)
		return sl_conf_say(why, "train.optimizer.nesterov", "needs a train.optimizer.momentum above 0");
	if (a->cross.head_grad && !a->cross.mid_grad)
		return sl_conf_say(why, "cross.head_grad", "cannot be true where cross.mid_grad is false");
	if (a->chunks > a->batch)
		return sl_conf_say(why, "train.chunks", "must be at most train.batch (%d), got %d", a->batch,
				   a->chunks);
	if (a->accumulate > 1 && a->precision == SL_CONF_FP16)
		return sl_conf_say(
			why, "train.accumulate",
			"is not possible in fp16, whose loss scale may change in between: take bf16 or fp32");
	if (a->free_calls &&
	    (a->clip_norm > 0 || a->chunk_sums || a->share.group[0] || a->padded || !a->cross.mid_grad))
		return sl_conf_say(
			why, "calls.free",
			"goes neither with train.clip_norm, train.chunk_sums, share.group nor tokens.padded, and needs "
			"cross.mid_grad");
	if (a->fetch_state && a->ema > 0)
		return sl_conf_say(why, "train.ema",
				   "is not possible together with an audit, which fetches the weights that learn");
	if (a->share.group[0] && (a->accumulate > 1 || a->ema > 0))
		return sl_conf_say(why, a->ema > 0 ? "train.ema" : "train.accumulate",
				   "is not possible in a group (share.group)");
	if (a->cached && (a->padded || !a->row_tokens || a->share.group[0]))
		return sl_conf_say(why, "tokens.cached",
				   "is for rows of tokens that are not padded, of a client without a group");
	if (a->token_loss && (!a->row_tokens || a->accumulate > 1))
		return sl_conf_say(why, "loss.tokens", "is for rows of tokens, and batches that do not add up");
	return a->share.group[0] ? check_share(a, why) : NULL;
}

static void value_text(const struct sl_conf_key *key, const struct sl_agreed *a, char out[VALUE])
{
	FILE *file;

	if (key->type == SL_CONF_STRING) {
		snprintf(out, VALUE, "%s", (const char *)a + key->offset);
		return;
	}
	out[0] = 0;
	file = fmemopen(out, VALUE, "w");
	if (!file)
		return;
	sl_conf_value_print(key, a, file);
	fclose(file);
}

size_t sl_agreed_write(const struct sl_agreed *a, char out[SL_AGREED_TEXT])
{
	const struct sl_agreed preset = sl_agreed_default();
	size_t at = (size_t)snprintf(out, SL_AGREED_TEXT, "%s", first_line);

	for (int i = 0; i < N_KEYS; i++) {
		char value[VALUE], usual[VALUE];

		value_text(&keys[i], a, value);
		value_text(&keys[i], &preset, usual);
		if (!sl_agreed_is_idle(a, keys[i].path) && (class_of[i] == SAID || strcmp(value, usual) != 0))
			at += (size_t)snprintf(out + at, SL_AGREED_TEXT - at, "%s = %s\n", keys[i].path, value);
	}
	return at;
}

/* Reads "KEY = VALUE", without the newline. */
static enum sl_err read_line(struct sl_agreed *a, char *line, struct sl_fail *fail)
{
	char *is = strstr(line, " = ");
	const struct sl_conf_key *key;
	char why[SL_CONF_WHY];

	if (!is)
		return sl_fail_set(fail, SL_ERR_PROTOCOL, "the agreement's line '%.80s' is not KEY = VALUE", line);
	*is = 0;
	key = find(line);
	if (!key)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "the agreement's key '%.80s' is not known here: is the other side newer?", line);
	if (!sl_conf_value_set(key, a, is + 3, true, why))
		return SL_OK;
	return sl_fail_at(fail, key->path,
			  key->type == SL_CONF_STRING || key->type == SL_CONF_CHOICE ? SL_ERR_CONFIG : SL_ERR_LIMIT,
			  "%s", why);
}

static enum sl_err read_lines(struct sl_agreed *a, const char *text, const char *end, struct sl_fail *fail)
{
	while (text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		char line[LINE];
		enum sl_err err;

		if (!stop || stop - text >= LINE || memchr(text, 0, (size_t)(stop - text)))
			return sl_fail_set(fail, SL_ERR_PROTOCOL,
					   "the agreement has a line that is too long or has no end");
		snprintf(line, sizeof line, "%.*s", (int)(stop - text), text);
		err = read_line(a, line, fail);
		if (err)
			return err;
		text = stop + 1;
	}
	return SL_OK;
}

enum sl_err sl_agreed_read(struct sl_agreed *a, const char *text, size_t len, struct sl_fail *fail)
{
	struct sl_agreed read = sl_agreed_default();
	char again[SL_AGREED_TEXT], why[SL_CONF_WHY];
	const char *blame;
	enum sl_err err;

	if (len < sizeof first_line - 1 || memcmp(text, first_line, sizeof first_line - 1) != 0)
		return sl_fail_set(fail, SL_ERR_PROTOCOL, "the agreement does not begin with 'agree 1'");
	err = read_lines(&read, text + sizeof first_line - 1, text + len, fail);
	if (err)
		return err;
	blame = sl_agreed_check(&read, why);
	if (blame)
		return sl_fail_at(fail, blame, SL_ERR_LIMIT, "%s", why);
	if (sl_agreed_write(&read, again) != len || memcmp(again, text, len) != 0)
		return sl_fail_set(
			fail, SL_ERR_PROTOCOL,
			"the agreement is not spelled as it must be: keys in order and once, without defaults "
			"and without keys of another optimizer");
	*a = read;
	return SL_OK;
}

/* The config's name for a key that an agreement alone has. */
static const char *key_of_config(const char *path)
{
	return strcmp(path, "share.checkpoint_every") == 0 ? "train.checkpoint_every"
	       : strcmp(path, "share.seal") == 0           ? "share.secret"
	       : strcmp(path, "share.dealt") == 0          ? "share.batches"
	       : strncmp(path, "group.", 6) == 0           ? "train.groups"
	       : strncmp(path, "cross.", 6) == 0           ? "train.freeze"
							   : path;
}

enum sl_err sl_agreed_same(const char *was, size_t was_len, const struct sl_agreed *is, struct sl_fail *fail)
{
	struct sl_agreed old;
	struct sl_fail why;

	if (sl_agreed_read(&old, was, was_len, &why))
		return sl_fail_set(fail, SL_ERR_DATA, "%s", why.text);
	for (int i = 0; i < N_KEYS; i++) {
		char then[VALUE], now[VALUE];

		value_text(&keys[i], &old, then);
		value_text(&keys[i], is, now);
		if (strcmp(then, now) == 0 || class_of[i] == DERIVED || sl_agreed_is_idle(is, keys[i].path))
			continue;
		if (strcmp(keys[i].path, "share.seal") == 0 || strcmp(keys[i].path, "share.dealt") == 0) /* hashes */
			return sl_fail_at(fail, key_of_config(keys[i].path), SL_ERR_MISMATCH, "was %s, is %s",
					  strcmp(then, "0") ? "another one" : "none",
					  strcmp(now, "0") ? "this one" : "none");
		return sl_fail_at(fail, key_of_config(keys[i].path), SL_ERR_MISMATCH, "was %s, is %s", then, now);
	}
	return SL_OK;
}

static bool is_own(const char *path, bool vertical)
{
	static const struct {
		const char *path;
		bool alike; /* in a vertical group it must be the same for all */
	} own[] = {{"codec.", false},     {"share.member", false}, {"share.turns", false},
		   {"share.role", false}, {"share.sends", false},  {"share.fresh", false},
		   {"cross.", true},      {"train.batch", true},   {"tokens.", true}};

	for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
		const size_t len = strlen(own[i].path);
		const bool is = own[i].path[len - 1] == '.' ? strncmp(path, own[i].path, len) == 0
							    : strcmp(path, own[i].path) == 0;

		if (is && !(vertical && own[i].alike))
			return !is_end_codec(path); /* the mean is coded once, for all */
	}
	return false;
}

/* Whether the key is a hash that `a` lacks, because its client is older. */
static bool is_unsaid(const struct sl_agreed *a, const char *path)
{
	return (strcmp(path, "share.labels") == 0 && !a->share.labels) ||
	       (strcmp(path, "share.rates") == 0 && !a->share.rates);
}

/* Hashes of what must be equal for all members: the key that a user knows, and the sentence around the group's name. */
static const struct {
	const char *path, *key, *what, *advice;
} hashes[] = {
	{"share.dealt", "share.batches", "list is another than that", ": all members need the same"},
	{"share.seal", "share.secret", "secret is not that", ": all members need the same key file, or none"},
	{"share.labels", "data.dir", "data have other classes, columns or scales than those",
	 ", so one head and tail cannot learn both: give all members the same names, tokenizer and data.normalize (an "
	 "empty folder for a class without pictures); of volumes also data.spacing, data.axes and data.intensity. For "
	 "tables, data.like takes columns, means and deviations from one member's about.json. Or take share.ends: "
	 "private"},
	{"share.rates", "train.optimizer.lr", "learning rate, schedule, loss or division of the data is not that",
	 ": all members need the same train.optimizer.lr and train.schedule, and where they share heads and tails the "
	 "same "
	 "train.loss, train.class_weights and train.label_smoothing; where data.partition divides one set, also the "
	 "same data.partition, data.split and data.train_limit"},
	{"share.course", "train.epochs", "run is not that",
	 ": all members need the same train.epochs, train.max_steps, train.eval_every, train.drop_last, train.on_nan "
	 "and data.split, and as many rows to train on and to evaluate on"},
};

enum sl_err sl_agreed_joins(const struct sl_agreed *first, const struct sl_agreed *member, struct sl_fail *fail)
{
	for (int i = 0; i < N_KEYS; i++) {
		char theirs[VALUE], own[VALUE];

		value_text(&keys[i], first, theirs);
		value_text(&keys[i], member, own);
		if (strcmp(theirs, own) == 0 || is_own(keys[i].path, sl_agreed_is_vertical(member)) ||
		    sl_agreed_is_idle(member, keys[i].path) || is_unsaid(first, keys[i].path) ||
		    is_unsaid(member, keys[i].path))
			continue;
		for (size_t h = 0; h < sizeof hashes / sizeof *hashes; h++)
			if (strcmp(keys[i].path, hashes[h].path) == 0)
				return sl_fail_at(fail, hashes[h].key, SL_ERR_MISMATCH,
						  "this client's %s of group %s%s", hashes[h].what, first->share.group,
						  hashes[h].advice);
		if (strcmp(keys[i].path, "share.epoch_steps") == 0) {
			const char *key = member->share.mode == SL_SHARE_SERIAL ? "share.batches" : keys[i].path;

			return sl_fail_at(fail, key, SL_ERR_MISMATCH,
					  "an epoch of group %s has %s steps, one of this client has %s: where members "
					  "have unequal data, all need the same %s",
					  first->share.group, theirs, own, key);
		}
		return sl_fail_at(fail, key_of_config(keys[i].path), SL_ERR_MISMATCH,
				  "the group %s has %s, this client has %s: all members need the same",
				  first->share.group, theirs, own);
	}
	return SL_OK;
}
