/* The secret of a run's session, in log.dir/session-key: 64 hexadecimal digits, readable by its owner only. Whoever has
 * it can take over the run, as `--resume` does. */
#ifndef SL_CLIENT_PERSIST_RUN_SECRET_H
#define SL_CLIENT_PERSIST_RUN_SECRET_H

#include "common/link/proof.h"

/* Writes the secret and syncs it; `dir` "": does nothing. CANTCREATE, IO. */
enum sl_err sl_run_secret_keep(const char *dir, const struct sl_secret *secret, struct sl_fail *fail) SL_MUST_CHECK;
/* NOINPUT: there is no file; CONFIG: other users may read it; DATA: it holds no secret. */
enum sl_err sl_run_secret_read(const char *dir, struct sl_secret *out, struct sl_fail *fail) SL_MUST_CHECK;
/* The same, or a new secret where `dir` has none that can be used. */
enum sl_err sl_run_secret_find(const char *dir, struct sl_secret *out, struct sl_fail *fail) SL_MUST_CHECK;
void sl_run_secret_remove(const char *dir); /* "" is fine */

#endif
