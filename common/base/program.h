/* This process: files next to its executable, and its end. Any thread. */
#ifndef SL_BASE_PROGRAM_H
#define SL_BASE_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

/* Writes the path of file `name` in the folder of the executable. False if it does not exist or cannot be read. */
bool sl_beside_program(const char *name, char out[PATH_MAX]);

/* A thread hangs, so this process is to end without exit handlers: they may wait for a lock that the thread holds, as
 * OpenBLAS's does. */
void sl_program_hangs(void);
/* For the end of main: returns `status`, or ends the process with it at once where a thread hangs. */
int sl_program_end(int status);

#endif
