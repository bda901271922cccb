/* What can be known before a run: the bytes that it moves, and whether its server takes it. As JSON objects, which the
 * caller drops; docs/OUTPUT.md has their members. */
#ifndef SL_CLIENT_CMD_BEFORE_H
#define SL_CLIENT_CMD_BEFORE_H

#include "client/cmd/command.h"

/* The bytes of a run of `steps` steps on `samples` [SL_SPLIT_COUNT] samples with setup's plan, which is open; takes no
 * memory of the run. They are upper bounds of payloads. Errors of sl_port_run_bytes. */
enum sl_err sl_before_bytes(json_t **out, const struct sl_setup *setup, uint64_t steps, const int64_t *samples,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* Looks for the server of `conf`, which is that of o->config, and asks it whether this client may train with its group.
 * Then a child process trains a few steps there, as a session of its own that keeps nothing; a member of a vertical
 * group cannot. The child's messages go to stderr. TIMEOUT, AUTH, and the error with which the child ended. */
enum sl_err sl_before_connect(json_t **out, const struct sl_options *o, const struct sl_conf_client *conf,
			      uint64_t steps, struct sl_fail *fail) SL_MUST_CHECK;
/* Print these objects as tables on stdout. */
void sl_before_print_bytes(const json_t *bytes);
void sl_before_print_server(const json_t *server);

#endif
