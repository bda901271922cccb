/* Where this program lies. Any thread. */
#ifndef SL_BASE_PROGRAM_H
#define SL_BASE_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

/* The path of the file `name` in the folder of the program that runs; false where it is not there, or cannot be read.
 */
bool sl_beside_program(const char *name, char out[PATH_MAX]);

#endif
