/* Keys that the user has set, in a config or by --set, beside those that splitc init chooses. */
#ifndef SL_CLIENT_CMD_PRESET_KEYS_H
#define SL_CLIENT_CMD_PRESET_KEYS_H

#include "common/conf/conf.h"

/* Whether the key is set in `conf`. NULL: none is. */
bool sl_preset_has(const struct sl_conf_client *conf, const char *key);
/* Takes back, in *user, the keys of a file that splitc init decides anew: its answers, and those whose value `made`
 * has too: a config as init writes it. NULL: it cannot write one. The label stays. */
void sl_preset_forget(struct sl_conf_client *user, const struct sl_conf_client *made);
/* The same for all keys of a file that begin with `section`, such as "data.". */
void sl_preset_forget_section(struct sl_conf_client *user, const char *section);
/* Sets in `conf` what is set in `user`, except for numbers that a file has and init has counted anew. */
void sl_preset_take(struct sl_conf_client *conf, const struct sl_conf_client *user);
/* USAGE: --set names a key that an option of init has, such as data.dir. */
enum sl_err sl_preset_check(const struct sl_conf_client *user, struct sl_fail *fail) SL_MUST_CHECK;

#endif
