/* The sub-commands of splits. Each takes the arguments after its name and returns an exit status of sysexits.h. Errors
 * go to stderr as one line. */
#ifndef SL_SERVER_COMMAND_H
#define SL_SERVER_COMMAND_H

#include "common/conf/options.h"

int splits_serve(int argc, char **argv);
int splits_keygen(int argc, char **argv);
int splits_status(int argc, char **argv);
int splits_reports(int argc, char **argv);

#endif
