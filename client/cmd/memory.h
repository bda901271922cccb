/* Predicts the memory that client and server take for a config. */
#ifndef SL_CLIENT_CMD_MEMORY_H
#define SL_CLIENT_CMD_MEMORY_H

#include "client/setup/setup.h"

struct json_t;

enum { SL_MEMORY_PARTS = 9 };

/* By role (SL_SESSION_CLIENT, SL_SESSION_SERVER) and part. `unknown`: why the server's part cannot run on a CPU; "":
 * it can. */
struct sl_memory_need {
	uint64_t bytes[2][SL_MEMORY_PARTS];
	char unknown[SL_FAIL_TEXT];
};

/* The need of setup's plan, which is open; takes none of it. CONFIG, with the key in *fail: the client's part cannot
 * run as the config asks; or, with `here`, the server's, which must run on this CPU, too. */
enum sl_err sl_memory_find(struct sl_memory_need *out, const struct sl_setup *setup, bool here,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* To an error NOMEM of a run, adds what client and, if `local`, server need for setup's plan, and what this process may
 * have. Leaves other errors as they are. */
void sl_memory_explain(const struct sl_setup *setup, bool local, struct sl_fail *fail);
void sl_memory_print(const struct sl_memory_need *need); /* a table on stdout, and what this host has */
/* Warns where this process may not have what the client and, if `local`, the server need. */
void sl_memory_warn(const struct sl_memory_need *need, bool local);
struct json_t *sl_memory_json(const struct sl_memory_need *need);

#endif
