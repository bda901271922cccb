/* Writes pictures to files. */
#ifndef SL_CLIENT_DATA_PICTURE_WRITE_H
#define SL_CLIENT_DATA_PICTURE_WRITE_H

#include <stdint.h>

#include "common/base/err.h"

/* Writes pixels [h, w, channels], 3 channels of RGB or 1 of grey, as a PNG. Overwrites an existing file. CANTCREATE,
 * IO. */
enum sl_err sl_picture_write_png(const char *path, const uint8_t *pixels, int h, int w, int channels,
				 struct sl_fail *fail) SL_MUST_CHECK;

/* The colour of a class in masks and on pictures, as Pascal VOC has it: 0 is black. */
void sl_picture_class_colour(int class, uint8_t rgb[3]);
/* Writes classes [h, w] as a PNG whose palette has these colours. Overwrites an existing file. CANTCREATE, IO. */
enum sl_err sl_picture_write_mask(const char *path, const uint8_t *classes, int h, int w,
				  struct sl_fail *fail) SL_MUST_CHECK;

#endif
