/* The model of a run that goes on in another process, which that process writes (client/run/publish.h). */
#ifndef SL_CLIENT_CMD_ASK_MODEL_H
#define SL_CLIENT_CMD_ASK_MODEL_H

#include "common/conf/conf.h"

/* Asks the process that listens at conf->control, and waits until the run has written its asked.safetensors: until the
 * end of the step under way, and the time that the file takes. *there false: no process of the run in conf->log.dir
 * answers there, or it ended meanwhile. UNAVAILABLE: it answers, and why it cannot. */
enum sl_err sl_ask_model(const struct sl_conf_client *conf, bool *there, struct sl_fail *fail) SL_MUST_CHECK;

#endif
