/* `splitc data` for rows of tokens: classes, lengths, what crosses the link with and without padding, samples. */
#ifndef SL_CLIENT_CMD_DATA_TOKENS_H
#define SL_CLIENT_CMD_DATA_TOKENS_H

#include "client/cmd/command.h"

/* Reads the data that *conf names, and prints what it found. Turns off limits of samples, the token cache and inserts
 * in *conf. */
enum sl_err sl_data_tokens(struct sl_conf_client *conf, bool json, struct sl_fail *fail) SL_MUST_CHECK;

#endif
