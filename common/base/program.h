/* Files next to the executable of this process. Any thread. */
#ifndef SL_BASE_PROGRAM_H
#define SL_BASE_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

/* Writes the path of file `name` in the folder of the executable. False if it does not exist or cannot be read. */
bool sl_beside_program(const char *name, char out[PATH_MAX]);

#endif
