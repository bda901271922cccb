/* Changes of colour, byte for byte as Pillow's ImageEnhance and torchvision's adjust_hue make them. pixels: [n, 3]. */
#ifndef SL_CLIENT_DATA_COLOUR_H
#define SL_CLIENT_DATA_COLOUR_H

#include <stddef.h>
#include <stdint.h>

/* factor 1: no change; 0: black, grey of the mean, grey. Above 1 the values are clipped. */
void sl_colour_brightness(uint8_t *pixels, size_t n, float factor);
void sl_colour_contrast(uint8_t *pixels, size_t n, float factor);
void sl_colour_saturation(uint8_t *pixels, size_t n, float factor);
/* shift in [−0.5, 0.5] of the circle of hues */
void sl_colour_hue(uint8_t *pixels, size_t n, double shift);

#endif
