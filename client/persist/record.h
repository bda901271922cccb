/* The record of a run: log.dir/config.yaml, a config with the settings as they were understood, behind remarks with the
 * command line, the host, the versions and the data's fingerprints. `splitc train` with that file repeats the run. Keys
 * are in it as paths alone. An earlier record that says otherwise becomes config.yaml.1, and so on; a config.yaml that
 * is somebody's own stays, and the run has none. One thread. */
#ifndef SL_CLIENT_PERSIST_RECORD_H
#define SL_CLIENT_PERSIST_RECORD_H

#include "common/conf/conf.h"

#define SL_RECORD_FILE "config.yaml"

/* The record of a run of this process with the config `conf`. Malloc'ed; NULL: no memory. */
char *sl_record_text(const struct sl_conf_client *conf);
/* Writes the record `text` to the log.dir of `conf`. `about`: what is known of the data (setup/about.h), or NULL. No-op
 * where `text` is NULL, log.dir is "", or all of it is there. A failure is only a warning. True: the record is there.
 */
bool sl_record_keep(const struct sl_conf_client *conf, const char *text, const char *about);

#endif
