/* How the keys of a config go together, and a default that depends on others. */
#ifndef SL_CONF_CHECK_KEYS_H
#define SL_CONF_CHECK_KEYS_H

#include "common/conf/key.h"

/* `idle` and `finish` (struct sl_conf_schema) of the client's schema; check_client.c. */
bool sl_conf_client_idle(const void *conf, const char *path);
const char *sl_conf_client_finish(void *conf, char why[SL_CONF_WHY]);

/* Checks the keys that go with model.task and model.head. Returns the key to blame, or NULL. */
const char *sl_conf_check_task(const struct sl_conf_client *c, char why[SL_CONF_WHY]);

/* Checks what transforms, tokenizer, columns and data.split need. Returns the key to blame, or NULL. */
const char *sl_conf_check_data(const struct sl_conf_client *c, char why[SL_CONF_WHY]);

/* The same for data.kind: volumes. Then a validator (check.h) of data.intensity, or "". */
const char *sl_conf_check_volumes(const struct sl_conf_client *c, char why[SL_CONF_WHY]);
const char *sl_conf_check_intensity(const void *value, char why[SL_CONF_WHY]);

/* Checks the further sources of data.also, or that one which `conf` is (sl_conf_also). Returns the same. */
/* privacy.c: whether what is sent can be counted as releases of one row each. */
const char *sl_conf_check_privacy(const struct sl_conf_client *conf, char why[SL_CONF_WHY]);
const char *sl_conf_check_also(const struct sl_conf_client *conf, char why[SL_CONF_WHY]);

/* Checks what the bounds of an agreement's single keys cannot express. Returns the key to blame, or NULL. */
const char *sl_agreed_check(const struct sl_agreed *a, char why[SL_CONF_WHY]);

/* Fills an empty `control` with the default for this user: NAME.sock in $XDG_RUNTIME_DIR, else in /run/split if that
 * can be written to, else in /run/user/<uid> if it is there, else in the user's own folder (sl_guard_own_folder).
 * `run`: a folder that belongs to one run, or NULL. Its absolute path, hashed to 16 hexadecimal digits, becomes part of
 * the name, so that two runs on one host do not meet. False: the path is too long for a socket. */
bool sl_conf_default_control(char control[SL_CONF_SOCKET_PATH], const char *name, const char *run);

#endif
