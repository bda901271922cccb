/* The numbers of classes. One thread. */
#ifndef SL_CLIENT_SETUP_SETUP_NUMBERS_H
#define SL_CLIENT_SETUP_SETUP_NUMBERS_H

#include "client/data/source.h"
#include "common/conf/conf.h"

/* CONFIG: the config.json of model.huggingface gives the classes other numbers: the folder's classifier, and programs
 * that read what is exported, would take one class for another. */
enum sl_err sl_setup_check_numbers(const struct sl_conf_client *c, const struct sl_set *set,
				   struct sl_fail *fail) SL_MUST_CHECK;

#endif
