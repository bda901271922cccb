/* What memory client and server will take for a config. */
#ifndef SL_CLIENT_CMD_MEMORY_H
#define SL_CLIENT_CMD_MEMORY_H

#include "client/run/setup.h"

struct json_t;

/* Of setup's plan, which is open; nothing of it is taken. A table on stdout, or an object for splitc flops --json. */
/* CONFIG, with the place of its key: a part cannot run as the config asks. `here`: the middle must run on this CPU,
 * too. */
enum sl_err sl_memory_check(const struct sl_setup *setup, bool here, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_memory_print(const struct sl_setup *setup, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_memory_json(const struct sl_setup *setup, struct json_t **out, struct sl_fail *fail) SL_MUST_CHECK;

#endif
