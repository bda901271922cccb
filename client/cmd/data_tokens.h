/* `splitc data` of rows of tokens: classes, lengths, what crosses beside a padded form, samples. */
#ifndef SL_CLIENT_CMD_DATA_TOKENS_H
#define SL_CLIENT_CMD_DATA_TOKENS_H

#include "client/cmd/command.h"

/* Reads the data that *conf names, which it changes, and prints what it found. */
enum sl_err sl_data_tokens(struct sl_conf_client *conf, bool json, struct sl_fail *fail) SL_MUST_CHECK;

#endif
