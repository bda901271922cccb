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

/* RandAugment's. out [h, w, 3] = before, which are other bytes: factor 0 is smooth, 2 is sharp. */
void sl_colour_sharpness(uint8_t *out, const uint8_t *before, int h, int w, float factor);
void sl_colour_posterize(uint8_t *pixels, size_t n, int bits); /* keeps the upper bits, 0 … 8 */
void sl_colour_solarize(uint8_t *pixels, size_t n, double threshold);
void sl_colour_stretch(uint8_t *pixels, size_t n);  /* autocontrast: each channel from 0 to 255 */
void sl_colour_equalize(uint8_t *pixels, size_t n); /* each channel's histogram */

/* Of floats of 0 … 65535, `channels` a pixel (1 or 3): brightness 0, contrast 1, saturation 2. Nothing is rounded. */
void sl_colour_deep(float *pixels, size_t n, int channels, int colour, double factor);

#endif
