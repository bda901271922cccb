/* A contact sheet: images with a line of text below each, in one PNG. */
#ifndef SL_CLIENT_DATA_SHEET_H
#define SL_CLIENT_DATA_SHEET_H

#include "common/base/err.h"

struct sl_sheet;

/* For n images of h × w. NOMEM. */
enum sl_err sl_sheet_open(struct sl_sheet **out, int n, int h, int w, struct sl_fail *fail) SL_MUST_CHECK;
void sl_sheet_close(struct sl_sheet *sheet); /* NULL is fine */

/* Puts image number i and its label on the sheet. image [h, w, 3]: 0 is black and 1 white; other values are clipped.
 * The label is cut where it does not fit. Letters that the font lacks become '-', and diacritics other than ¨ are
 * left out. NOMEM. */
enum sl_err sl_sheet_put(struct sl_sheet *sheet, int i, const float *image, const char *label,
			 struct sl_fail *fail) SL_MUST_CHECK;
/* As sl_picture_write_png. */
enum sl_err sl_sheet_write(const struct sl_sheet *sheet, const char *path, struct sl_fail *fail) SL_MUST_CHECK;

#endif
