/* Gets the model of a run that another process trains. That process writes it (client/run/publish.h). */
#ifndef SL_CLIENT_CMD_ASK_MODEL_H
#define SL_CLIENT_CMD_ASK_MODEL_H

#include "common/conf/conf.h"

/* Asks the process that listens at conf->control, and waits until it has written the run's asked.safetensors: until
 * the step under way ends and the file is complete. *there false: no process of the run in conf->log.dir answers, or
 * it ended meanwhile. UNAVAILABLE: it answers that it cannot, and *fail says why. */
enum sl_err sl_ask_model(const struct sl_conf_client *conf, bool *there, struct sl_fail *fail) SL_MUST_CHECK;

#endif
