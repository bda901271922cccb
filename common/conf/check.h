/* Validators of values. Each returns NULL if the value is fine, else `why` with a sentence. */
#ifndef SL_CONF_CHECK_H
#define SL_CONF_CHECK_H

#include "common/conf/key.h"

const char *sl_conf_check_server(const void *value, char why[SL_CONF_WHY]);    /* tcp://host:port */
const char *sl_conf_check_listen(const void *value, char why[SL_CONF_WHY]);    /* the same, and port 0 and host * */
const char *sl_conf_check_metrics(const void *value, char why[SL_CONF_WHY]);   /* 127.0.0.1:9570, or "" */
const char *sl_conf_check_partition(const void *value, char why[SL_CONF_WHY]); /* 1:-1 */
const char *sl_conf_check_file_name(const void *value, char why[SL_CONF_WHY]); /* no folder in it */
const char *sl_conf_check_metric(const void *value, char why[SL_CONF_WHY]);    /* a metric of evaluations */
const char *sl_conf_check_best(const void *value, char why[SL_CONF_WHY]);      /* the same, loss, or "" */
const char *sl_conf_check_epoch(const void *value, char why[SL_CONF_WHY]);     /* a number, ≥ 0 */
const char *sl_conf_check_group(const void *value, char why[SL_CONF_WHY]);     /* patterns and a rule (agreed.h) */
const char *sl_conf_check_rule(const void *value, char why[SL_CONF_WHY]);      /* "", or a rule in its one spelling */
const char *sl_conf_check_phase(const void *value, char why[SL_CONF_WHY]);     /* epochs, and sizes */
const char *sl_conf_check_point(const void *value, char why[SL_CONF_WHY]);     /* EPOCH:LR */
const char *sl_conf_check_word(const void *value, char why[SL_CONF_WHY]);      /* not empty */
const char *sl_conf_check_share(const void *value, char why[SL_CONF_WHY]);     /* "", or a group's name */
const char *sl_conf_check_batches(const void *value, char why[SL_CONF_WHY]);   /* a whole number from 1 on */
const char *sl_conf_check_parts(const void *value, char why[SL_CONF_WHY]);     /* how members share data */
const char *sl_conf_check_codec(const void *value, char why[SL_CONF_WHY]);     /* not empty, no blanks */
const char *sl_conf_check_insert(const void *value, char why[SL_CONF_WHY]);    /* no blanks */
const char *sl_conf_check_client_device(const void *value, char why[SL_CONF_WHY]);
const char *sl_conf_check_server_device(const void *value, char why[SL_CONF_WHY]);

/* A weight of a class. Then the lists of a schedule: their epochs must rise; points need two items or more, and one
 * with an lr above 0. */
const char *sl_conf_check_weight(const void *value, char why[SL_CONF_WHY]);
const char *sl_conf_check_epochs(const struct sl_conf_list *milestones, char why[SL_CONF_WHY]);
const char *sl_conf_check_points(const struct sl_conf_list *points, char why[SL_CONF_WHY]);

/* `idle` and `finish` (struct sl_conf_schema) of the client's schema; check_client.c. */
bool sl_conf_client_idle(const void *conf, const char *path);
const char *sl_conf_client_finish(void *conf, char why[SL_CONF_WHY]);

/* Checks the keys that go with model.task and model.head. Returns the key to blame, or NULL. */
const char *sl_conf_check_task(const struct sl_conf_client *c, char why[SL_CONF_WHY]);

/* Checks what the bounds of an agreement's single keys cannot express. Returns the key to blame, or NULL. */
const char *sl_agreed_check(const struct sl_agreed *a, char why[SL_CONF_WHY]);

/* Reads a decimal number from 0 to `most` that is all of [text, end). */
bool sl_conf_number(const char *text, const char *end, double most, double *out);
bool sl_conf_is_loopback(const char *address); /* it has the form of sl_conf_check_listen */
/* Fills an empty `control` with the default for this user: NAME.sock in $XDG_RUNTIME_DIR, else in /run/split if that
 * can be written to, else in /run/user/<uid> if it is there, else in the user's own folder (sl_guard_own_folder).
 * `run`: a folder that belongs to one run, or NULL. Its absolute path, hashed to 16 hexadecimal digits, becomes part of
 * the name, so that two runs on one host do not meet. False: the path is too long for a socket. */
bool sl_conf_default_control(char control[SL_CONF_SOCKET_PATH], const char *name, const char *run);

#endif
