/* The sub-commands of splits. Each takes the arguments after its name and returns an exit status of sysexits.h. Errors
 * go to stderr as one line. */
#ifndef SL_SERVER_COMMAND_H
#define SL_SERVER_COMMAND_H

#include "common/conf/conf.h"
#include "common/conf/options.h"

int splits_serve(int argc, char **argv);
int splits_keygen(int argc, char **argv);
int splits_status(int argc, char **argv);
int splits_reports(int argc, char **argv);
int splits_report(int argc, char **argv);

enum { SPLITS_RUN_TEXT = 33 };
/* What a group's members have reported, from the store: by name of run, with the newest one last, the last report of
 * each member, by number. The caller's. NULL: *fail says why; NOINPUT: there is no file. */
struct json_t *splits_reports_read(const struct sl_conf_server *conf, const char *group, char newest[SPLITS_RUN_TEXT],
				   struct sl_fail *fail);

#endif
