/* What splitc init --party adds to the config of a member of a vertical pair: keys, comments, what to do next. */
#ifndef SL_CLIENT_CMD_PRESET_PARTY_H
#define SL_CLIENT_CMD_PRESET_PARTY_H

#include "client/cmd/preset_columns.h"
#include "client/cmd/preset_table.h"
#include "common/conf/options.h"

enum { SL_PRESET_PARTY_SETS = SL_MAX_SETS + 8 };

/* Writes the keys of --party to `set`, and behind them those of --set, which may change them. Without --party only
 * these. With data.aligned, here or in *user, the config that is there, rows are named by an alignment and not by
 * share.secret, which *user loses. `role`: room for one of the keys. Returns how many. */
int sl_preset_party_sets(const char *set[SL_PRESET_PARTY_SETS], char role[SL_CONF_TEXT], const struct sl_options *o,
			 struct sl_conf_client *user);

/* Whether the keys are those of a member with this role. */
bool sl_preset_party_has(const struct sl_conf_client *user, enum sl_conf_share_role role);

/* CONFIG: the member with labels needs model.features, which only the other one's table tells. `model`: --model; NULL:
 * the usual one of a table. */
enum sl_err sl_preset_party_check(const struct sl_conf_client *user, const char *model,
				  struct sl_fail *fail) SL_MUST_CHECK;

/* Chooses *id, the column that names a row for both members: the one in data.id, or else the only one whose texts or
 * numbers all differ. It is no longer among the table's ignored columns. `columns`: all, for the message. NOINPUT: the
 * table cannot be read; CONFIG: it is not clear which. */
enum sl_err sl_preset_party_id(const char **id, struct sl_preset_table *table, const struct sl_conf_client *user,
			       const struct sl_preset_columns *columns, struct sl_fail *fail) SL_MUST_CHECK;

/* Writes the comments of such a config; none for another. */
void sl_preset_party_comment(const struct sl_conf_client *conf, FILE *out);
/* Prints what the config at `path` takes from its table, and how the other member's is made. */
void sl_preset_party_say(const struct sl_conf_client *conf, const char *path);

#endif
