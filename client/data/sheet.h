/* A contact sheet: images with a line of text below each, in one PNG. */
#ifndef SL_CLIENT_DATA_SHEET_H
#define SL_CLIENT_DATA_SHEET_H

#include "common/base/err.h"

struct sl_sheet;

/* For n images of h × w. NOMEM. */
enum sl_err sl_sheet_open(struct sl_sheet **out, int n, int h, int w, struct sl_fail *fail) SL_MUST_CHECK;
void sl_sheet_close(struct sl_sheet *sheet); /* NULL is fine */

/* image [h, w, 3], fractions of white: what lies outside [0, 1] is clipped. Of the label as many letters as fit; those
 * that the font lacks become '-', and marks other than ¨ are left out. NOMEM. */
enum sl_err sl_sheet_put(struct sl_sheet *sheet, int i, const float *image, const char *label,
			 struct sl_fail *fail) SL_MUST_CHECK;
/* As sl_picture_write_png. */
enum sl_err sl_sheet_write(const struct sl_sheet *sheet, const char *path, struct sl_fail *fail) SL_MUST_CHECK;

#endif
