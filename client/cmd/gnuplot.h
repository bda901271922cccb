/* Runs gnuplot, where it is installed, on a script that this program wrote. */
#ifndef SL_CLIENT_CMD_GNUPLOT_H
#define SL_CLIENT_CMD_GNUPLOT_H

#include <stdbool.h>
#include <stdio.h>

#include "common/base/err.h"

/* Begins a picture in the script: SVG or PNG, its size in pixels, the file that it is written to. */
void sl_gnuplot_begin(FILE *script, bool svg, int width, int height, const char *out);

/* Runs `gnuplot script` in the folder `dir`. UNAVAILABLE: there is no gnuplot; IO: it failed. */
enum sl_err sl_gnuplot_run(const char *dir, const char *script, struct sl_fail *fail) SL_MUST_CHECK;

#endif
