/* Runs gnuplot, where it is installed, on a script that this program wrote. */
#ifndef SL_CLIENT_CMD_GNUPLOT_H
#define SL_CLIENT_CMD_GNUPLOT_H

#include <stdbool.h>
#include <stdio.h>

#include "common/base/err.h"

/* Begins a picture in the script: SVG or PNG, its size in pixels, the file that it is written to. */
void sl_gnuplot_begin(FILE *script, bool svg, int width, int height, const char *out);
/* Sets the range of axis 'x' or 'y' around values from `low` to `high`. gnuplot finds it itself, unless they are equal
 * or nearly so: that it warns of, or refuses. True: it finds it. */
bool sl_gnuplot_range(FILE *script, char axis, double low, double high);
/* Makes the x axis logarithmic, with numbers at 1, 2 and 5 of each decade, or of more than three decades at 1 alone. */
void sl_gnuplot_log_x(FILE *script, double low, double high);

/* Runs `gnuplot script` in the folder `dir`, which has to make `picture` (a path from this process's folder).
 * UNAVAILABLE: there is no gnuplot; IO: it failed, or the picture is not whole. */
enum sl_err sl_gnuplot_run(const char *dir, const char *script, const char *picture,
			   struct sl_fail *fail) SL_MUST_CHECK;

#endif
