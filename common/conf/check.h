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

/* Reads a decimal number from 0 to `most` that is all of [text, end). */
bool sl_conf_number(const char *text, const char *end, double most, double *out);
bool sl_conf_is_loopback(const char *address); /* it has the form of sl_conf_check_listen */

#endif
