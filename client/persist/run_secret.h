/* The secret of a run's session, in log.dir/session-key: 64 hexadecimal digits, readable by its owner alone. Whoever
 * has it can go on with the run, as `--resume` does. */
#ifndef SL_CLIENT_PERSIST_RUN_SECRET_H
#define SL_CLIENT_PERSIST_RUN_SECRET_H

#include "common/link/proof.h"

/* Brings it to the disk, unless `dir` is "". CANTCREATE, IO. */
enum sl_err sl_run_secret_keep(const char *dir, const struct sl_secret *secret, struct sl_fail *fail) SL_MUST_CHECK;
/* NOINPUT: there is none; CONFIG: others may read it; DATA: it is not one. */
enum sl_err sl_run_secret_read(const char *dir, struct sl_secret *out, struct sl_fail *fail) SL_MUST_CHECK;
void sl_run_secret_remove(const char *dir); /* "" is fine */

#endif
