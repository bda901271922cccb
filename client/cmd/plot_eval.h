/* Draws figures of an evaluation, which `splitc eval --json` wrote (docs/OUTPUT.md), as a gnuplot script. */
#ifndef SL_CLIENT_CMD_PLOT_EVAL_H
#define SL_CLIENT_CMD_PLOT_EVAL_H

#include <stdbool.h>
#include <stdio.h>

#include "common/base/err.h"

#define SL_EVAL_FIGURES "confusion, roc, calibration"
enum { SL_EVAL_FIGURE_COUNT = 3 };

struct json_t;

/* The figure's index in SL_EVAL_FIGURES; -1: there is none of this name. */
int sl_eval_figure(const char *name);
/* Reads an evaluation. NOINPUT: there is no such file; DATA: it is not an evaluation of classes, or lacks a wanted
 * figure. The caller drops *out. */
enum sl_err sl_eval_read(struct json_t **out, const char *path, const bool wanted[SL_EVAL_FIGURE_COUNT],
			 struct sl_fail *fail) SL_MUST_CHECK;
void sl_eval_write_figure(FILE *script, int figure, const struct json_t *eval);

#endif
